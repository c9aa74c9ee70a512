"""Vectors of sentences: the same here and in sentence-transformers, for its folders and for ours."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as theirs

import plmkit
from plmkit.errors import InputError, PlmError, TruncationWarning
from plmkit.interop.pooling import MODES

TEXTS = [
    "the cat sees a house.",
    "a",
    "企鹅不擅长飞行。 the sea",
    "  My friend hears the sea,\tthe moon!\nTwo lines… ½ ﬁ \u200b é ZÜRICH 😀 ",
    "x" * 300,
    "the old man paints a red car. " * 30,  # longer than the maximum length of these models
]
pytestmark = [
    pytest.mark.filterwarnings("ignore::plmkit.errors.TruncationWarning"),
    pytest.mark.filterwarnings("default::DeprecationWarning"),
    pytest.mark.filterwarnings("default::FutureWarning"),
]


def encode(folder, texts=TEXTS) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(texts)


def close(ours, wanted) -> None:
    assert ours.shape == wanted.shape
    np.testing.assert_allclose(ours, wanted, atol=1e-5)


@pytest.fixture
def saved(hub_folder, tmp_path):
    """Save a model of theirs around the tiny BERT: `saved(modes, *steps)`; gives its folder."""

    def save(modes, *steps, length=40):
        body = theirs.Transformer(str(hub_folder), max_seq_length=length)
        model = SentenceTransformer(modules=[body, theirs.Pooling(32, pooling_mode=modes), *steps], device="cpu")
        model.save(str(tmp_path / "theirs"))
        return tmp_path / "theirs"

    return save


@pytest.mark.parametrize("mode", MODES)
def test_every_pooling_of_theirs_is_read(mode, saved):
    folder = saved(mode)
    close(plmkit.load(folder, device="cpu").embed(TEXTS), encode(folder))


def test_steps_after_the_pooling_are_read_and_written_again(saved, plm, tmp_path):
    torch.manual_seed(3)
    steps = (
        theirs.Dropout(0.5),
        theirs.Dense(64, 24),
        theirs.Dense(24, 12, bias=False, activation_function=torch.nn.GELU()),
        theirs.Normalize(),
    )
    folder = saved(("mean", "cls"), *steps)  # not the order in which older releases concatenate them
    wanted = encode(folder)
    assert wanted.shape == (len(TEXTS), 12)
    close(plmkit.load(folder, device="cpu").embed(TEXTS), wanted)
    assert plm("export", folder, tmp_path / "again").code == 0
    close(encode(tmp_path / "again"), wanted)
    close(plmkit.load(tmp_path / "again", device="cpu").embed(TEXTS), wanted)


def test_texts_are_truncated_at_the_length_in_the_folder(saved):
    folder = saved("mean", length=12)
    model = plmkit.load(folder, device="cpu")
    with pytest.warns(TruncationWarning, match="longer than 12 tokens"):
        close(model.embed(TEXTS), encode(folder))
    assert len(model.embed(TEXTS[-1], level="token")) == 10


def test_the_prompt_before_every_text_is_read_and_written_again(saved, plm, tmp_path):
    folder = saved("mean")
    about = json.loads((folder / "config_sentence_transformers.json").read_text())
    about |= {"prompts": {"query": "the king: ", "other": "no"}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(about))
    wanted = encode(folder)
    close(plmkit.load(folder, device="cpu").embed(TEXTS), wanted)
    assert plm("export", folder, tmp_path / "again").code == 0
    close(encode(tmp_path / "again"), wanted)


def test_a_folder_without_modules_uses_the_mean_over_all_tokens_as_theirs_does(hub_folder):
    model = plmkit.load(hub_folder, device="cpu")
    close(model.embed(TEXTS), encode(hub_folder))
    row = model.rows([TEXTS[0]])
    hidden = model.states(row)[0].hidden[0]
    assert len(hidden) == 2 + len(model.embed(TEXTS[0], level="token"))
    np.testing.assert_allclose(model.embed(TEXTS[0]), hidden.mean(0).numpy(), atol=1e-6)


@pytest.mark.parametrize("which", ["pretrained", "finetuned", "hub_folder", "gpt2", "roberta", "xlnet"])
def test_an_exported_folder_gives_them_our_vectors(which, request, plm, tmp_path):
    folder = request.getfixturevalue(which)
    assert plm("export", folder, tmp_path / "out").code == 0
    model = plmkit.load(folder, device="cpu")
    close(encode(tmp_path / "out"), model.embed(TEXTS))
    modules = json.loads((tmp_path / "out" / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling"]
    settings = json.loads((tmp_path / "out" / "1_Pooling" / "config.json").read_text())
    assert [name for name, on in settings.items() if on is True] == ["pooling_mode_mean_tokens"]


def test_the_vector_of_a_sentence_is_ernies_pooler_of_its_first_token(plm, mixed_corpus, tmp_path):
    """As in PaddlePaddle/ERNIE's encoder, in an export too."""
    small = (
        "stages=[[1.0, 32]]", "corruption.shares=[[1.0, 0.0, 0.0]]", "architecture.max_length=64",
        "architecture.layers=1", "architecture.heads=2", "architecture.width=16", "architecture.inner=32",
        "tokenizer.size=300", "run.threads=1",
    )  # fmt: skip
    sets = [part for setting in small for part in ("--set", setting)]
    ran = plm("pretrain", "ernie-mini", mixed_corpus, "--out", tmp_path / "run", "--steps", 2, *sets)
    assert ran.code == 0, ran.err
    model = plmkit.load(tmp_path / "run", device="cpu")
    found = model.embed(TEXTS[0])
    first = model.states(model.rows([TEXTS[0]]))[0].hidden[0, 0]
    pooler = {name: weight.detach() for name, weight in model.network.model.pooler.named_parameters()}
    expected = torch.tanh(pooler["weight"] @ first + pooler["bias"])
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
    assert plm("export", tmp_path / "run", tmp_path / "out").code == 0
    close(encode(tmp_path / "out"), model.embed(TEXTS))


# Refusals


def change(folder, name, **settings):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def modules_of(folder, kind, path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 9, "name": "9", "path": path, "type": f"sentence_transformers.models.{kind}"})
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize("what", ["LSTM", "do_lower_case", "Dense"])
def test_what_cannot_be_computed_is_named_and_nothing_is_written(what, saved, plm, tmp_path):
    folder = saved("mean", theirs.Dense(32, 8))
    if what == "LSTM":
        modules_of(folder, "LSTM", "9_LSTM")
    elif what == "Dense":
        (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    else:
        change(folder, "sentence_bert_config.json", do_lower_case=True)
    (tmp_path / "texts.txt").write_text("the cat\n")
    ran = plm("embed", folder, tmp_path / "texts.txt", "--out", tmp_path / "v.npy")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"plm: {folder} pools its vectors with {what}, which plmkit does not support.\n"
        "Embed with sentence-transformers, or compute token vectors: --level token.\n"
    )
    assert not (tmp_path / "v.npy").exists()
    model = plmkit.load(folder, device="cpu")
    assert model.embed(["the cat"], level="token")[0].shape == (2, 32)
    ran = plm("export", folder, tmp_path / "out")
    assert (ran.code, (tmp_path / "out" / "modules.json").exists()) == (0, False)
    assert f"! In sentence-transformers, the embeddings of {folder} use {what}, which is not supported" in ran.err


def test_a_prompt_that_is_left_out_of_the_mean_is_refused(saved):
    folder = saved("mean")
    change(folder, "1_Pooling/config.json", include_prompt=False)
    change(folder, "config_sentence_transformers.json", prompts={"a": "b: "}, default_prompt_name="a")
    with pytest.raises(PlmError, match="pools its vectors with include_prompt"):
        plmkit.load(folder).embed("the cat")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "modules.json").write_text("[}"), "modules.json cannot be read"),
        (
            lambda folder: (folder / "modules.json").write_text("[" * 9**6),
            "modules.json cannot be read: its JSON is nested",
        ),
        (lambda folder: (folder / "modules.json").write_text("{}"), "modules.json holds a dict of 0, not a list"),
        (lambda folder: (folder / "modules.json").write_text("[3]"), "modules.json does not list modules by type"),
        (lambda folder: modules_of(folder, "Normalize", "../.."), "modules.json does not list modules by type"),
        (lambda folder: shutil.rmtree(folder / "1_Pooling"), "1_Pooling/config.json cannot be read"),
        (lambda folder: change(folder, "1_Pooling/config.json", pooling_mode="median"), "unknown pooling 'median'"),
        (
            lambda folder: narrow(folder / "2_Dense" / "model.safetensors"),
            "a Dense layer does not fit an input of width 32",
        ),
    ],
)
def test_a_damaged_folder_is_refused_with_the_file(damage, message, saved):
    folder = saved("mean", theirs.Dense(32, 8))
    damage(folder)
    with pytest.raises(InputError, match=message):
        plmkit.load(folder)


def narrow(path) -> None:
    weights = load_file(path)
    save_file(weights | {"linear.weight": weights["linear.weight"][:, 1:].contiguous()}, path)
