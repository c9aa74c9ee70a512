"""GPT-1 in the files that OpenAI published: ten arrays, their shapes, an encoder and its merges."""

import json

import numpy as np
import pytest
import torch
from transformers import OpenAIGPTLMHeadModel

import plmkit

LETTERS = ["a", "b", "t", "a</w>", "b</w>", "t</w>"]
TOKENS = ["<unk>", *LETTERS, "at</w>", "\n</w>"]
WIDTH, LAYERS, LONGEST = 64, 2, 16


@pytest.fixture
def published(tmp_path):
    """A tiny one: the same names and order, split into files at arbitrary places."""
    folder = tmp_path / "model"
    folder.mkdir()
    block = [[1, WIDTH, 3 * WIDTH], [3 * WIDTH], [1, WIDTH, WIDTH], [WIDTH], [WIDTH], [WIDTH],
             [1, WIDTH, 4 * WIDTH], [4 * WIDTH], [1, 4 * WIDTH, WIDTH], [WIDTH], [WIDTH], [WIDTH]]  # fmt: skip
    shapes = [[LONGEST, WIDTH], [len(TOKENS), WIDTH], *block * LAYERS]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(scale=0.2, size=shape).astype(np.float32) for shape in shapes]
    (folder / "params_shapes.json").write_text(json.dumps(shapes))
    for number, part in enumerate(np.array_split(np.concatenate([array.ravel() for array in arrays]), 10)):
        np.save(folder / f"params_{number}.npy", part)
    numbers = {token: number for number, token in enumerate(TOKENS)}
    (folder / "encoder_bpe_40000.json").write_text(json.dumps(numbers))
    (folder / "vocab_40000.bpe").write_text("#version: 0.2\na t</w>\n")
    return folder, arrays


def test_every_parameter_is_in_its_place_and_transformers_computes_the_same(published, plm, tmp_path):
    folder, arrays = published
    ran = plm("import", folder, "--format", "openai-gpt", "--out", tmp_path / "gpt1", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["parameters"] == sum(array.size for array in arrays)
    model = plmkit.load(tmp_path / "gpt1", device="cpu")
    weights = model.network.model.state_dict()
    assert torch.equal(weights["embed.positions.weight"], torch.from_numpy(arrays[0]))
    assert torch.equal(weights["embed.tokens.weight"], torch.from_numpy(arrays[1]))
    assert torch.equal(weights["blocks.1.attention.query_key_value.weight"], torch.from_numpy(arrays[14][0].T.copy()))
    assert torch.equal(weights["blocks.0.attention_norm.weight"], torch.from_numpy(arrays[6]))
    assert torch.equal(weights["blocks.1.feed_forward_norm.bias"], torch.from_numpy(arrays[25]))
    assert model.tokenizer.vocabulary.names(model.tokenizer.encode("AT b")) == ["at</w>", "b</w>"]
    theirs = OpenAIGPTLMHeadModel.from_pretrained(tmp_path / "gpt1").eval()
    states, batch = model.states(model.rows(["at b at", "a"]))
    with torch.no_grad():
        wanted = theirs(input_ids=batch.source.tokens, attention_mask=batch.source.visible.long()).logits
        found = model.network.heads["causal_lm"].answers(states, batch)
    torch.testing.assert_close(found[batch.source.visible], wanted[batch.source.visible], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "params_9.npy").unlink(), "Is params_9.npy missing"),
        (lambda folder: (folder / "params_3.npy").unlink(), "has no params_3.npy. The published model has"),
        (lambda folder: [(folder / f"params_{n}.npy").unlink() for n in range(10)], "has no params_0.npy. The"),
        (lambda folder: np.save(folder / "params_10.npy", np.zeros(3)), "Does a file belong to another model"),
        (
            lambda folder: np.save(folder / "params_1_old.npy", np.zeros(3)) or (folder / "params_9.npy").unlink(),
            "Is params_9.npy missing",
        ),
        (lambda folder: (folder / "vocab_40000.bpe").unlink(), "has no vocab_40000.bpe"),
        (lambda folder: (folder / "params_3.npy").write_bytes(b"not an array"), "params_3.npy is not an array"),
        (lambda folder: np.save(folder / "params_0.npy", np.array([None, 1])), "params_0.npy is not an array"),
        (lambda folder: np.save(folder / "params_0.npy", np.array([np.nan])), "values other than finite numbers"),
        (lambda folder: (folder / "params_shapes.json").write_text("[[1, 2]]"), "has 1 shapes"),
        (lambda folder: (folder / "params_shapes.json").write_text("{"), "is not a list of shapes"),
        (
            lambda folder: (folder / "encoder_bpe_40000.json").write_text("[]"),
            "not a JSON object of tokens and their ids",
        ),
    ],
)
def test_incomplete_files_are_refused_and_nothing_is_written(published, plm, tmp_path, spoil, says):
    folder, _ = published
    spoil(folder)
    ran = plm("import", folder, "--out", tmp_path / "out")
    assert (ran.code, (tmp_path / "out").exists()) == (2, False)
    assert says in ran.err


def test_other_formats_and_places_are_refused(published, plm, tmp_path):
    folder, _ = published
    ran = plm("import", folder, "--format", "openai-gtp", "--out", tmp_path / "out")
    assert (ran.code, "Did you mean 'openai-gpt'" in ran.err) == (2, True)
    ran = plm("import", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert (ran.code, "There is no folder" in ran.err) == (2, True)
    ran = plm("import", folder, "--out", folder)
    assert (ran.code, "is not empty and is left as it is. Name a new output folder." in ran.err) == (2, True)
    (tmp_path / "p.bin").write_text("a file")
    ran = plm("import", tmp_path / "p.bin", "--out", tmp_path / "out")
    assert (
        ran.code,
        "p.bin is a file. Give the folder that holds it, with pytorch_model.bin or params_shapes.json." in ran.err,
    ) == (2, True)
    ran = plm("import", folder, "--out", tmp_path / "p.bin")
    assert (ran.code, "p.bin is a file and is left as it is. Name a new output folder" in ran.err) == (2, True)
