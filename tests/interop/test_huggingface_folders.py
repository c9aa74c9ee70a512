"""Folders that transformers wrote, of every kind of BERT that we read."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import BertConfig

import plmkit
from plmkit.errors import CheckpointError, FolderError, InputError
from plmkit.inference.loading import read_parts

CONFIG = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 40, "initializer_range": 0.4,
}  # fmt: skip
TEXTS = ["the cat sees a house.", "企鹅不擅长飞行。 the sea"]


def save(kind: str, folder, pretrained, settings=None, **arguments):
    """A random network of that class in a folder, with the tokenizer of `pretrained`."""
    torch.manual_seed(1)
    size = (pretrained / "vocab.txt").read_text(encoding="utf-8").count("\n")
    config = BertConfig(vocab_size=size, **CONFIG, **(settings or {}))
    network = getattr(transformers, kind)(config, **arguments).eval()
    network.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pretrained / name, folder / name)
    return network


def inputs(model, text: str) -> dict[str, torch.Tensor]:
    tokens = torch.from_numpy(model.rows([text])[0].tokens)[None]
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("BertModel", {}),
        ("BertModel", {"add_pooling_layer": False}),
        ("BertForMaskedLM", {}),
        ("BertForPreTraining", {}),
        ("BertForNextSentencePrediction", {}),
        ("BertForSequenceClassification", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "".join(value) or "whole",
)
def test_every_kind_loads_embeds_and_exports(kind, arguments, pretrained, plm, tmp_path):
    theirs = save(kind, tmp_path / "hub", pretrained, **arguments)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    encoder = theirs if kind == "BertModel" else theirs.bert
    for text, ours in zip(TEXTS, model.embed(TEXTS, level="token"), strict=True):
        with torch.no_grad():
            hidden = encoder(**inputs(model, text)).last_hidden_state[0, 1:-1]
        np.testing.assert_allclose(ours, hidden.numpy(), atol=1e-5)
    ran = plm("export", tmp_path / "hub", tmp_path / "out", "--json")
    assert ran.code == 0
    assert ran.json["largest_difference"] < 1e-4
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [kind]
    first, again = (load_file(tmp_path / name / "model.safetensors") for name in ("hub", "out"))
    prefix = "bert." if kind == "BertModel" else ""
    for name, tensor in first.items():
        if not name.startswith("cls.predictions.decoder"):
            assert torch.equal(tensor, again[f"{prefix}{name}"])


def test_names_of_the_tensorflow_era_are_read(pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    before = plmkit.load(tmp_path, device="cpu").embed(TEXTS)
    weights = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in weights.items()
    }
    assert old.keys() != weights.keys()
    save_file(old, tmp_path / "model.safetensors")
    assert np.array_equal(plmkit.load(tmp_path, device="cpu").embed(TEXTS), before)


def test_a_classifier_predicts_its_own_labels(pretrained, tmp_path):
    labels = {"id2label": {0: "矮", 1: "mid", 2: "tall"}, "label2id": {"矮": 0, "mid": 1, "tall": 2}}
    theirs = save("BertForSequenceClassification", tmp_path, pretrained, labels)
    model = plmkit.load(tmp_path, device="cpu")
    for text, prediction in zip(TEXTS, model.predict(TEXTS), strict=True):
        with torch.no_grad():
            wanted = theirs(**inputs(model, text)).logits.softmax(-1)[0].tolist()
        assert list(prediction.probabilities) == ["矮", "mid", "tall"]
        assert list(prediction.probabilities.values()) == pytest.approx(wanted, abs=1e-5)


def test_a_regressor_predicts_numbers(pretrained, tmp_path):
    theirs = save("BertForSequenceClassification", tmp_path, pretrained, {"num_labels": 1})
    model = plmkit.load(tmp_path, device="cpu")
    with torch.no_grad():
        wanted = float(theirs(**inputs(model, TEXTS[0])).logits)
    assert model.predict([TEXTS[0]])[0].label == pytest.approx(wanted, abs=1e-5)


def test_a_masked_model_fills_blanks_as_transformers_does(pretrained, tmp_path):
    theirs = save("BertForMaskedLM", tmp_path, pretrained, {"hidden_act": "gelu_new"})
    model = plmkit.load(tmp_path, device="cpu")
    text = "the cat [MASK] a house."
    tokens = model.whole_row(text).tokens
    with torch.no_grad():
        logits = theirs(input_ids=torch.from_numpy(tokens)[None]).logits[0, 3]
    logits[list(model.tokenizer.vocabulary.special)] = -torch.inf
    best = logits.softmax(-1).topk(3)
    (blank,) = model.fill(text, top=3)
    assert [candidate.probability for candidate in blank] == pytest.approx(best.values.tolist(), rel=1e-4)
    assert [candidate.token for candidate in blank] == model.tokenizer.vocabulary.names(best.indices.tolist())


def spoil(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_a_model_of_another_family_is_refused(pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    spoil(tmp_path, model_type="t5")
    with pytest.raises(InputError, match="of type 't5'; supported: 'visual_bert', 'bert'"):
        plmkit.load(tmp_path)


def test_an_early_config_without_a_type_is_berts(pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    before = plmkit.load(tmp_path, device="cpu").embed(TEXTS)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_type"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert np.array_equal(plmkit.load(tmp_path, device="cpu").embed(TEXTS), before)


def test_an_unknown_activation_is_refused(pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    spoil(tmp_path, hidden_act="mish")
    with pytest.raises(InputError, match="hidden_act 'mish' is unknown"):
        plmkit.load(tmp_path)


def test_a_config_of_more_layers_than_there_are_weights_is_refused(pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    spoil(tmp_path, num_hidden_layers=3)
    with pytest.raises(CheckpointError, match=r"not a complete BERT: the weight .model\.blocks\.2"):
        plmkit.load(tmp_path)


def test_an_untied_output_embedding_is_refused(pretrained, tmp_path):
    save("BertForMaskedLM", tmp_path, pretrained)
    weights = load_file(tmp_path / "model.safetensors")
    table = weights["bert.embeddings.word_embeddings.weight"]
    save_file({**weights, "cls.predictions.decoder.weight": table.clone()}, tmp_path / "model.safetensors")
    plmkit.load(tmp_path)
    save_file({**weights, "cls.predictions.decoder.weight": table + 1}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="only tied weights"):
        plmkit.load(tmp_path)


def test_a_tokenizer_of_another_model_is_refused(pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    weights = load_file(tmp_path / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] = weights["embeddings.word_embeddings.weight"][:20].clone()
    save_file(weights, tmp_path / "model.safetensors")
    said: list[str] = []
    with pytest.raises(CheckpointError, match="The files do not belong together"):
        read_parts(tmp_path, said.append)
    assert "but the weights have embeddings for 20 tokens" in said[0]  # config.json has the tokenizer's number


WEIGHTS_OF_OTHERS = {
    "pytorch_model.bin": "a PyTorch pickle, which is not opened.\nConvert it first: plm import {} --out DIR",
    "pytorch_model.bin.index.json": "PyTorch pickles, which are not opened.\nConvert it first: plm import {}",
    "pytorch_model-00001-of-00002.bin": "a part of the weights.\nCopy pytorch_model.bin.index.json too, and then: plm",
    "params_shapes.json": "GPT-1 as OpenAI published it.\nConvert it first: plm import {} --out DIR",
    "tf_model.h5": "TensorFlow weights.\nLoad it with transformers 4 (from_tf=True) and save_pretrained",
    "flax_model.msgpack": "Flax weights.\nLoad it with transformers 4 (from_flax=True) and save_pretrained",
    "bert_model.ckpt.index": "a TensorFlow 1 checkpoint.\nLoad it with transformers 4 (its scripts convert_",
}


@pytest.mark.parametrize("name", WEIGHTS_OF_OTHERS)
def test_weights_that_are_not_opened_are_named_with_what_can_be_done(name, plm, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / name).write_bytes(b"\0")
    ran = plm("fill", tmp_path, "a [MASK]")
    assert ran.code == 2
    assert f"plm: {tmp_path} is not a model yet: it holds {name}, {WEIGHTS_OF_OTHERS[name].format(tmp_path)}" in ran.err


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["config.json"], "model.safetensors is missing. Copy it next to config.json."),
        (["model.safetensors"], "config.json is missing. Copy it next to model.safetensors."),
        ([], "it is empty. A model folder has run.json, or config.json and model.safetensors."),
        ([*"abcd"], "it holds a, b, c, .... A model folder has run.json, or config.json and model.safetensors."),
    ],
)
def test_a_folder_without_a_model_is_refused_with_its_contents(names, says, tmp_path):
    for name in names:
        (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(FolderError) as error:
        plmkit.load(tmp_path)
    assert str(error.value) == f"{tmp_path} is not a model: {says}"


def test_a_config_that_is_not_an_object_is_refused(pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="contains a list of 2, not a JSON object of settings"):
        plmkit.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        plmkit.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("encoder.layer.0.attention.self.query.weight", (3, 5), "weights have shapes that do not fit together"),
        ("encoder.layer.0.output.dense.weight", (16, 3), "but config.json gives [16, 24]. The files do not belong"),
        ("embeddings.word_embeddings.weight", (7,), "the token embedding has the shape [7]"),
    ],
)
def test_weights_of_other_shapes_are_refused(name, shape, says, pretrained, tmp_path):
    save("BertModel", tmp_path, pretrained)
    weights = load_file(tmp_path / "model.safetensors")
    save_file({**weights, name: torch.zeros(shape)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError) as error:
        plmkit.load(tmp_path)
    assert says in str(error.value)
