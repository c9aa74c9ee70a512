"""Hugging Face folders with a head for multiple choice: read with it, and written with ours, with the same answers."""

import json

import pytest
import torch
import transformers
from test_heads_and_frames import XLNET, save, spoil

import plmkit
from plmkit.catalogue import find
from plmkit.tokenizers.unigram import ClosingUnigram

KINDS = ["Bert", "Roberta", "Ernie", "Albert", "Electra", "XLNet"]
RECIPES = ["bert-tiny", "roberta-tiny", "ernie-mini", "albert-tiny", "electra-tiny", "xlnet-tiny"]
ROW = {"text": "the cat sees a house.", "choices": ["the sea", "a dog calls", "企鹅"]}


def theirs_of(network, tokenizer) -> list[float]:
    """The probabilities of the choices by transformers."""
    texts = [ROW["text"]] * len(ROW["choices"])
    given = tokenizer(texts, ROW["choices"], padding=True, return_tensors="pt")
    given = {name: value[None] for name, value in given.items()}
    with torch.no_grad():
        return network(**given).logits[0].softmax(-1).tolist()


def saved(kind: str, folder, pretrained):
    """A random network of the family with a head for choices; XLNet's tokenizer pads on the left."""
    if kind != "XLNet":
        return save(f"{kind}ForMultipleChoice", folder, pretrained)
    tokenizer = ClosingUnigram(size=80).train([ROW["text"], *ROW["choices"]] * 20)
    torch.manual_seed(1)
    network = transformers.XLNetForMultipleChoice(
        transformers.XLNetConfig(vocab_size=len(tokenizer.vocabulary), **XLNET)
    ).eval()
    network.save_pretrained(folder)
    tokenizer.save(folder)
    return network


def rows_file(folder):
    path = folder / "rows.jsonl"
    rows = [{"question": ROW["text"], "choices": ROW["choices"], "label": number % 3} for number in range(6)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_chooses_as_transformers_does_and_is_evaluated_and_written_again(
    kind, pretrained, plm, tmp_path, recwarn
):
    network = saved(kind, tmp_path / "hub", pretrained)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    assert not [one for one in recwarn if "is not used" in str(one.message)]
    found = model.predict(ROW)
    wanted = theirs_of(network, transformers.AutoTokenizer.from_pretrained(tmp_path / "hub"))
    assert list(found.probabilities.values()) == pytest.approx(wanted, abs=1e-5)
    assert max(wanted) - min(wanted) > 0.01
    ran = plm("evaluate", tmp_path / "hub", rows_file(tmp_path), "--json")
    assert (ran.code, "accuracy" in ran.json) == (0, True), ran.err
    ran = plm("export", tmp_path / "hub", tmp_path / "again", "--json")
    assert (ran.code, ran.json["checked"]) == (0, True), ran.err
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["architectures"] == [f"{kind}ForMultipleChoice"]
    again = getattr(transformers, f"{kind}ForMultipleChoice").from_pretrained(tmp_path / "again").state_dict()
    assert all(torch.equal(again[name], weight) for name, weight in network.state_dict().items())


def small(name: str) -> dict[str, object]:
    shape = {"max_length": 40, "layers": 1, "heads": 2, "width": 16, "inner": 64, "embedding": 8}
    recipe = find(name)
    known = {key: value for key, value in shape.items() if getattr(recipe.architecture, key, None) is not None}
    stages = json.dumps([[stage.until, 32] for stage in recipe.stages])
    return {f"architecture.{key}": value for key, value in known.items()} | {
        "tokenizer.size": 300, "stages": stages, "run.threads": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_a_fine_tuned_run_is_written_as_the_class_of_transformers_and_chooses_the_same(
    name, mixed_corpus, plm, tmp_path
):
    plmkit.pretrain(name, mixed_corpus, tmp_path / "run", steps=2, settings=small(name), quiet=True)
    model = plmkit.finetune(tmp_path / "run", "choose", rows_file(tmp_path), tmp_path / "choose", epochs=2,
                            settings={"run.threads": 1, "task.learning_rate": 0.01}, quiet=True)  # fmt: skip
    ran = plm("export", tmp_path / "choose", tmp_path / "hub", "--json")
    assert (ran.code, ran.json["checked"]) == (0, True), ran.err
    network = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path / "hub").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hub")
    found = model.predict(ROW)
    assert list(found.probabilities.values()) == pytest.approx(theirs_of(network, tokenizer), abs=1e-4)
    again = plmkit.load(tmp_path / "hub", device="cpu").predict(ROW)
    assert again.probabilities == pytest.approx(found.probabilities, abs=1e-6)


def test_another_summary_than_electras_is_refused(pretrained, plm, tmp_path):
    save("ElectraForMultipleChoice", tmp_path / "hub", pretrained)
    spoil(tmp_path / "hub", summary_activation="tanh")
    ran = plm("evaluate", tmp_path / "hub", rows_file(tmp_path))
    assert (ran.code, "summary_activation is 'tanh'; only 'gelu' is supported" in ran.err) == (2, True)
