"""Weights in several files, in half precision, or in pickles that `plm import` converts."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM

import plmkit
from plmkit.errors import PlmError

TEXT = "the cat [MASK] a house."
INDEX = "model.safetensors.index.json"


def shards(folder, save, names: list[str], index: str) -> None:
    """The weights of a folder cut into several files, with an index of them."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: names[number % len(names)] for number, name in enumerate(sorted(weights))}
    for place in names:
        save({name: weights[name] for name in weights if places[name] == place}, folder / place)
    (folder / index).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))


@pytest.fixture
def folder(hub_folder, tmp_path):
    return shutil.copytree(hub_folder, tmp_path / "model")


@pytest.fixture
def parts(folder):
    shards(folder, save_file, ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], INDEX)
    return folder


def test_weights_in_several_files_are_the_same_model(hub_folder, parts):
    whole, found = plmkit.load(hub_folder, device="cpu"), plmkit.load(parts, device="cpu")
    assert found.fill(TEXT) == whole.fill(TEXT)
    assert np.array_equal(found.embed([TEXT]), whole.embed([TEXT]))


def spoiled(folder, **places) -> None:
    index = json.loads((folder / INDEX).read_text())
    first = sorted(index["weight_map"])[0]
    index["weight_map"] |= {places.get("name", first): places["place"]}
    (folder / INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize(
    "place", ["../model.safetensors", "/etc/passwd", "sub/model.safetensors", "..\\x", "..", ".", ""]
)
def test_an_index_that_names_a_file_elsewhere_is_refused(parts, plm, place):
    shutil.copy(parts / "model-00001-of-00002.safetensors", parts.parent / "model.safetensors")
    spoiled(parts, place=place)
    ran = plm("fill", parts, TEXT)
    assert ran.code == 2
    assert f"{INDEX} names '{place}', which is not a file in its folder, so it is not read." in ran.err


def test_a_part_that_is_missing_is_named(parts, plm):
    (parts / "model-00002-of-00002.safetensors").unlink()
    ran = plm("fill", parts, TEXT)
    assert ran.code == 2
    assert "is incomplete: model-00002-of-00002.safetensors is missing (missing parts: 1 of 2)." in ran.err
    assert "Copy or download the missing parts into the folder." in ran.err


def test_a_weight_that_is_not_where_the_index_says_is_named(parts, plm):
    spoiled(parts, name="no.such.weight", place="model-00001-of-00002.safetensors")
    ran = plm("fill", parts, TEXT)
    assert (ran.code, "has no weight 'no.such.weight', which" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "content", ["{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}', "[1]"]
)
def test_an_invalid_index_is_refused(parts, plm, content):
    (parts / INDEX).write_text(content)
    ran = plm("fill", parts, TEXT)
    assert ran.code == 2
    assert f"{INDEX} does not list the file of each weight" in ran.err or f"{INDEX} contains a list of 1" in ran.err


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_are_loaded_in_single_precision(folder, plm, dtype):
    weights = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors")
    model = plmkit.load(folder, device="cpu")
    assert {weight.dtype for weight in model.network.state_dict().values()} == {torch.float32}
    table = weights["bert.embeddings.word_embeddings.weight"].float()
    assert torch.equal(model.network.model.embed.tokens.weight, table)
    theirs = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    states, batch = model.states([model.whole_row(TEXT)])
    with torch.no_grad():
        wanted = theirs(input_ids=batch.source.tokens).logits
        found = model.network.heads["masked_lm"].vocabulary(states.hidden)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    ran = plm("export", folder, folder.parent / "out", "--json")
    assert (ran.code, ran.json["checked"]) == (0, True)
    assert {tensor.dtype for tensor in load_file(folder.parent / "out" / "model.safetensors").values()} == {
        torch.float32
    }


# Pickles


def pickled(folder) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    table = weights["bert.embeddings.word_embeddings.weight"]
    weights["cls.predictions.decoder.weight"] = table  # shared memory under two names, as transformers saved it
    weights["bert.embeddings.position_ids"] = torch.arange(48)[None]
    torch.save(weights, folder / "pytorch_model.bin")


def test_a_pickle_of_weights_becomes_a_folder_that_every_command_reads(hub_folder, folder, plm, tmp_path):
    pickled(folder)
    ran = plm("import", folder, "--out", tmp_path / "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["format"] == "huggingface"
    assert f"{folder / 'pytorch_model.bin'} is a pickle, a format that can contain code. It is read by" in ran.err
    assert "written to" in ran.err
    whole, found = plmkit.load(hub_folder, device="cpu"), plmkit.load(tmp_path / "out", device="cpu")
    assert found.fill(TEXT) == whole.fill(TEXT)
    assert np.array_equal(found.embed([TEXT]), whole.embed([TEXT]))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "config.json", "model.safetensors", "plmkit-manifest.json", "special_tokens_map.json", "tokenizer.json",
        "tokenizer_config.json", "vocab.txt",
    ]  # fmt: skip
    AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert plm("export", tmp_path / "out", tmp_path / "again").code == 0
    assert "6 files checked by SHA-256, all unchanged." in plm("doctor", "--verify", tmp_path / "out").out
    vocabulary = tmp_path / "out" / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text(encoding="utf-8").replace("the", "teh"), encoding="utf-8")
    with pytest.raises(PlmError, match=r"vocab\.txt was changed after it was written"):
        plmkit.load(tmp_path / "out", device="cpu")


def test_pickles_in_several_files_are_converted(hub_folder, folder, plm, tmp_path):
    shards(folder, torch.save, ["pytorch_model-1.bin", "pytorch_model-2.bin"], "pytorch_model.bin.index.json")
    ran = plm("import", folder, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert plmkit.load(tmp_path / "out", device="cpu").fill(TEXT) == plmkit.load(hub_folder, device="cpu").fill(TEXT)


class Program:
    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_with_code_is_refused_and_nothing_is_executed(folder, plm, tmp_path, zipped):
    (folder / "model.safetensors").unlink()
    trap = tmp_path / "it ran"
    torch.save(
        {"weight": torch.zeros(2), "x": Program(trap)}, folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=zipped,
    )  # fmt: skip
    ran = plm("import", folder, "--out", tmp_path / "out")
    assert (ran.code, trap.exists(), (tmp_path / "out").exists()) == (2, False, False)
    assert "pytorch_model.bin is refused: it contains posix.mkdir. Nothing in it was executed" in ran.err
    assert "weights_only=False" not in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda path: path.write_bytes(b"not a pickle"), "is refused: it is damaged, or not a file of weights"),
        (lambda path: path.write_bytes(b""), "is refused: it is damaged, or not a file of weights"),
        (lambda path: torch.save([1, 2], path), "does not hold named weights"),
        (lambda path: torch.save({"a": {"b": torch.zeros(1)}}, path), "does not hold named weights"),
        (lambda path: torch.save({"a": torch.zeros(1)}, path), "is not a complete BERT"),
    ],
    ids=["text", "empty", "a list", "nested", "another network"],
)
def test_a_pickle_that_holds_no_model_is_refused(folder, plm, tmp_path, write, says):
    (folder / "model.safetensors").unlink()
    write(folder / "pytorch_model.bin")
    ran = plm("import", folder, "--out", tmp_path / "out")
    assert (ran.code, (tmp_path / "out").exists()) == (2, False)
    assert says in ran.err


def test_what_needs_no_import_or_cannot_be_imported_is_reported(folder, plm, tmp_path):
    ran = plm("import", folder, "--out", tmp_path / "out")
    assert (ran.code, "already holds model.safetensors: every command can read it without an import." in ran.err) == (
        2,
        True,
    )
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    ran = plm("import", folder, "--out", tmp_path / "out")
    assert (ran.code, "it holds tf_model.h5, TensorFlow weights." in ran.err) == (2, True)
    ran = plm("import", folder, "--out", tmp_path / "out", "--format", "huggingface")
    assert (ran.code, "it holds tf_model.h5, TensorFlow weights." in ran.err) == (2, True)
    assert not (tmp_path / "out").exists()
