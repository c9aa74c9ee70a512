"""Folders for other tools: written, opened by transformers, and read back."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    GPT2ForSequenceClassification,
    pipeline,
)

import plmkit
from plmkit.config.machine import Machine
from plmkit.inference.loading import read_parts
from plmkit.interop import export as exporting
from plmkit.storage.manifest import unseal
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.registry import find_kind
from plmkit.tasks.settings import TaskSettings
from plmkit.terminal.screen import Screen

TEXTS = ["The cat sees a house.", "我的狗很可爱，企鹅不擅长飞行。", "Unbelievable: 潮水退了 in 2018!", "a [MASK] b"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory, pretrained):
    folder = tmp_path_factory.mktemp("exports") / "pretrained"
    report = exporting.export(pretrained, folder, "huggingface", Screen())
    assert report["checked"]
    assert report["largest_difference"] < 1e-5
    return folder


def test_transformers_reads_the_same_tokens(exported, pretrained):
    theirs, ours = AutoTokenizer.from_pretrained(exported), plmkit.load(pretrained).tokenizer
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)
    pair = theirs("The cat sees.", "我的狗。")
    row = plmkit.load(pretrained).rows([("The cat sees.", "我的狗。")])[0]
    assert pair["input_ids"] == row.tokens.tolist()
    assert pair["token_type_ids"] == [int(place >= row.second) for place in range(len(row.tokens))]


def test_transformers_truncates_at_the_models_maximum_length(exported, pretrained):
    tokens = AutoTokenizer.from_pretrained(exported)(
        "the cat sees the dog " * 300, truncation=True, return_tensors="pt"
    )
    assert tokens["input_ids"].shape == (1, plmkit.load(pretrained).architecture.max_length)
    AutoModel.from_pretrained(exported)(**tokens)


def test_transformers_computes_the_same_states(exported, pretrained):
    model = AutoModel.from_pretrained(exported).eval()
    tokenizer = AutoTokenizer.from_pretrained(exported)
    ours = plmkit.load(pretrained, device="cpu").embed(TEXTS[:3], level="token")
    for text, vectors in zip(TEXTS, ours, strict=False):
        with torch.no_grad():
            theirs = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, 1:-1]
        np.testing.assert_allclose(vectors, theirs.numpy(), atol=1e-5)


def test_an_exported_model_read_back_has_the_same_bits(exported, pretrained, plm, tmp_path):
    ours, back = read_parts(pretrained), read_parts(exported)
    assert ours.weights.keys() == back.weights.keys()
    assert all(torch.equal(ours.weights[name], back.weights[name]) for name in ours.weights)
    assert ours.tokenizer.fingerprint() == back.tokenizer.fingerprint()
    assert plm("export", exported, tmp_path / "again").code == 0
    first, again = (load_file(folder / "model.safetensors") for folder in (exported, tmp_path / "again"))
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_fine_tuned_model_exports_with_its_classes(finetuned, plm, tmp_path):
    ran = plm("export", finetuned, tmp_path / "out", "--format", "huggingface", "--json")
    assert ran.code == 0
    assert ran.json["checked"] is True
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert model.config.id2label == {0: "bad", 1: "good"}
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = plmkit.load(finetuned, device="cpu").predict([TEXTS[0]])[0]
    with torch.no_grad():
        theirs = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits.softmax(-1)[0]
    assert list(ours.probabilities.values()) == pytest.approx(theirs.tolist(), abs=1e-5)
    again = plmkit.load(tmp_path / "out", device="cpu").predict([TEXTS[0]])[0]
    assert again.label == ours.label
    assert again.probabilities == pytest.approx(ours.probabilities, abs=1e-6)


LONG = "the cat sees a house. my friend hears the moon. " * 8
ODD = ["  Ça, naïve… 😀 ", "!", "x" * 200, "日本語, русский", "the king\tcalls\nthe sea", LONG, LONG[::-1], *TEXTS[:3]]


@pytest.fixture(scope="module")
def short(made, hub_folder, rows_file):
    """A classifier of 32 tokens, although the network could read 48."""
    request = FinetuneRequest(
        model=hub_folder, task=find_kind("classify")(), train=rows_file, dev=None, test=None, out=made / "short",
        settings=TaskSettings(epochs=2, batch=8, length=32, learning_rate=3e-3), machine=Machine(threads=1),
    )  # fmt: skip
    finetune(request, Screen())
    return request.out


@pytest.fixture(scope="module")
def sure(made, hub_folder):
    """A classifier of transformers of 32 tokens, as confident as trained ones."""
    torch.manual_seed(2)
    config = AutoConfig.from_pretrained(hub_folder, num_labels=2, id2label={0: "bad", 1: "good"})
    shutil.copytree(hub_folder, made / "sure")
    BertForSequenceClassification(config).save_pretrained(made / "sure")
    settings = json.loads((made / "sure" / "tokenizer_config.json").read_text())
    (made / "sure" / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 32}))
    return made / "sure"


@pytest.mark.filterwarnings("ignore::plmkit.errors.TruncationWarning", "ignore::plmkit.errors.UnknownTokensWarning")
@pytest.mark.parametrize("which", ["short", "sure"])
def test_a_classifier_exports_with_the_length_that_it_was_tuned_at(which, request, plm, tmp_path):
    model = plmkit.load(request.getfixturevalue(which), device="cpu")
    assert plm("export", model.folder, tmp_path / "out").code == 0
    assert AutoTokenizer.from_pretrained(tmp_path / "out").model_max_length == 32
    ours = model.predict(ODD)
    classifier = pipeline("text-classification", model=str(tmp_path / "out"), device="cpu", top_k=None)
    theirs = [
        {found["label"]: found["score"] for found in answers}
        for answers in classifier(ODD, truncation=True, batch_size=4)
    ]
    again = plmkit.load(tmp_path / "out", device="cpu")
    assert again.max_length == model.max_length == 32
    for mine, other, back in zip(ours, theirs, again.predict(ODD), strict=True):
        assert mine.probabilities == pytest.approx(other, abs=1e-5)
        assert back.probabilities == pytest.approx(mine.probabilities, abs=1e-6)
    model.tasks = {name: replace(task, length=40) for name, task in model.tasks.items()}
    longer = model.predict(ODD)
    assert max(abs(a.probabilities["bad"] - b.probabilities["bad"]) for a, b in zip(ours, longer, strict=True)) > 1e-3


@pytest.fixture(scope="module")
def tuned_gpt2(made, gpt2, rows_file):
    """That GPT-2 after fine-tuning here."""
    request = FinetuneRequest(
        model=gpt2, task=find_kind("classify")(), train=rows_file, dev=None, test=None, out=made / "tuned-gpt2",
        settings=TaskSettings(epochs=1, batch=16, learning_rate=1e-2), machine=Machine(threads=1),
    )  # fmt: skip
    finetune(request, Screen())
    return request.out


@pytest.fixture(scope="module")
def foreign_gpt2(made, gpt2):
    """The same after fine-tuning elsewhere: without a frame, and without padding of its own."""
    torch.manual_seed(5)
    shutil.copytree(gpt2, made / "foreign-gpt2")
    config = AutoConfig.from_pretrained(gpt2, num_labels=2, id2label={0: "bad", 1: "good"})
    GPT2ForSequenceClassification(config).save_pretrained(made / "foreign-gpt2")
    return made / "foreign-gpt2"


@pytest.mark.filterwarnings("ignore::plmkit.errors.TruncationWarning")
@pytest.mark.parametrize("which", ["tuned_gpt2", "foreign_gpt2"])
def test_a_gpt2_classifier_exports_with_padding_so_that_texts_can_be_batched(which, request, plm, tmp_path):
    model = plmkit.load(request.getfixturevalue(which), device="cpu")
    ran = plm("export", model.folder, tmp_path / "out")
    assert ran.code == 0, ran.err
    texts = [*ODD, "the sea!", "the sea"]
    classifier = pipeline("text-classification", model=str(tmp_path / "out"), device="cpu", top_k=None)
    theirs = classifier(texts, truncation=True, batch_size=8)
    alone = [classifier(text, truncation=True)[0] for text in texts]
    for ours, found, single in zip(model.predict(texts), theirs, alone, strict=True):
        assert ours.probabilities == pytest.approx({one["label"]: one["score"] for one in found}, abs=1e-5)
        assert ours.probabilities == pytest.approx({one["label"]: one["score"] for one in single}, abs=1e-5)
    again = plmkit.load(tmp_path / "out", device="cpu").predict(texts)
    for ours, back in zip(model.predict(texts), again, strict=True):
        assert back.probabilities == pytest.approx(ours.probabilities, abs=1e-6)


def test_a_tokenizer_that_truncates_elsewhere_is_reported(short, plm, tmp_path, monkeypatch):
    def longer(*arguments, max_length, **settings):
        exporting_write(*arguments, max_length=48, **settings)

    exporting_write = exporting.write_huggingface
    monkeypatch.setattr(exporting, "write_huggingface", longer)
    ran = plm("export", short, tmp_path / "out")
    assert (ran.code, ran.out) == (2, "")
    assert f"{tmp_path / 'out'} is not written: transformers tokenizes '  Ça coûte" in ran.err
    assert "as 39 tokens instead of 32.\n" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_change_is_noticed_in_logits_as_small_as_those_of_a_new_head(finetuned, plm, tmp_path, monkeypatch):
    def smaller(*arguments, **settings):
        weights = arguments[1]
        for name in ("heads.label.classify.weight", "heads.label.classify.bias"):
            weights[name].mul_(1e-5)
        exporting_write(*arguments, **settings)
        theirs = load_file(arguments[0] / "model.safetensors")
        theirs["classifier.weight"][0] *= -1
        save_file(theirs, arguments[0] / "model.safetensors", metadata={"format": "pt"})

    exporting_write = exporting.write_huggingface
    monkeypatch.setattr(exporting, "write_huggingface", smaller)
    ran = plm("export", finetuned, tmp_path / "out")
    assert ran.code == 2
    assert "transformers computes different logits (largest difference " in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_weight_that_changed_on_the_way_is_reported(pretrained, plm, tmp_path, monkeypatch):
    def spoilt(folder, *arguments, **settings):
        exporting_write(folder, *arguments, **settings)
        weights = load_file(folder / "model.safetensors")
        weights["bert.encoder.layer.1.output.dense.weight"][0, 0] += 1.0
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    exporting_write = exporting.write_huggingface
    monkeypatch.setattr(exporting, "write_huggingface", spoilt)
    ran = plm("export", pretrained, tmp_path / "deep" / "out", "--json")
    assert ran.code == 2
    assert ran.out == ""
    assert "transformers computes different logits (largest difference " in ran.err
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_fails_leaves_an_empty_folder_as_it_was(pretrained, plm, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "out").mkdir()
    monkeypatch.setattr("plmkit.interop.huggingface.save_tensors", fails)
    ran = plm("export", pretrained, tmp_path / "out")
    assert ran.code == 2
    assert "No space left on device" in ran.err
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


def test_an_export_that_is_interrupted_while_it_compares_leaves_nothing(pretrained, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(exporting, "gaps_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exporting.export(pretrained, tmp_path / "out", "huggingface", Screen())
    assert list(tmp_path.iterdir()) == []


def test_without_transformers_the_folder_is_written_and_reported_as_not_checked(pretrained, plm, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "transformers_installed", lambda: False)
    ran = plm("export", pretrained, tmp_path / "out", "--json")
    assert (ran.code, ran.json["checked"]) == (0, False)
    assert "not installed, so the logits were not compared" in ran.err
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_folder_that_is_not_empty_is_left_as_it_is(pretrained, plm, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    ran = plm("export", pretrained, tmp_path)
    assert ran.code == 2
    assert "is not empty and is left as it is" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_unknown_format_is_refused_with_the_nearest(pretrained, plm, tmp_path):
    ran = plm("export", pretrained, tmp_path / "out", "--format", "hugging-face")
    assert ran.code == 2
    assert "Did you mean 'huggingface'?" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_pooling_that_hugging_face_does_not_have_is_refused(finetuned, plm, tmp_path):
    other = tmp_path / "mean"
    shutil.copytree(finetuned, other)
    about = json.loads((other / "run.json").read_text())
    about["tasks"][0]["pooling"] = "mean"
    (other / "run.json").write_text(json.dumps(about))
    unseal(other)
    ran = plm("export", other, tmp_path / "out")
    assert ran.code == 2
    assert "task.pooling=first" in ran.err
    assert not (tmp_path / "out").exists()
