"""BERT's variables under TensorFlow's names, in files without code: every one in its place."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import plmkit
from plmkit.tokenizers.wordpiece import WordPiece

WORDS = ["the cat sees a house.", "我的狗很可爱。"] * 5
LAYERS, HEADS, WIDTH, INNER, NARROW = 2, 2, 16, 24, 6


def variables(tokens: int, embedding: int) -> dict[str, np.ndarray]:
    """As `tf.train.list_variables` names them; matrices are (input, output)."""
    rng = np.random.default_rng(0)

    def dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}

    def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}/LayerNorm/{part}": (width,) for part in ("gamma", "beta")}

    sizes = {"word": tokens, "position": 20, "token_type": 2}
    shapes = {f"bert/embeddings/{name}_embeddings": (size, embedding) for name, size in sizes.items()}
    shapes |= norm("bert/embeddings", embedding)
    if embedding != WIDTH:
        shapes |= dense("bert/encoder/embedding_hidden_mapping_in", embedding, WIDTH)
    for layer in range(LAYERS):
        stem = f"bert/encoder/layer_{layer}"
        for part in ("query", "key", "value"):
            shapes |= dense(f"{stem}/attention/self/{part}", WIDTH, WIDTH)
        shapes |= dense(f"{stem}/attention/output/dense", WIDTH, WIDTH) | norm(f"{stem}/attention/output", WIDTH)
        shapes |= dense(f"{stem}/intermediate/dense", WIDTH, INNER)
        shapes |= dense(f"{stem}/output/dense", INNER, WIDTH) | norm(f"{stem}/output", WIDTH)
    shapes |= dense("bert/pooler/dense", WIDTH, WIDTH) | dense("cls/predictions/transform/dense", WIDTH, embedding)
    shapes |= norm("cls/predictions/transform", embedding)
    shapes |= {"cls/predictions/output_bias": (tokens,), "bert/pooler/dense/bias/adam_m": (WIDTH,), "global_step": ()}
    return {name: np.float32(rng.normal(scale=0.3, size=shape)) for name, shape in shapes.items()}


def published(folder, embedding: int, name: str) -> dict[str, np.ndarray]:
    folder.mkdir()
    tokens = WordPiece(size=60).train(WORDS).vocabulary.tokens
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    config = {
        "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER,
        "max_position_embeddings": 20, "type_vocab_size": 2, "hidden_act": "gelu",
    }  # fmt: skip
    if embedding != WIDTH:
        config["embedding_size"] = embedding
    (folder / "bert_config.json").write_text(json.dumps(config))
    arrays = variables(len(tokens), embedding)
    if name.endswith(".npz"):
        np.savez(folder / name, **{f"{key}:0": value for key, value in arrays.items()})
    else:
        save_file({key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}, folder / name)
    return arrays


def by_hand(arrays: dict[str, np.ndarray], tokens: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """States and scores of one text, with nothing but products."""
    kept = {name: torch.from_numpy(np.array(value)).double() for name, value in arrays.items()}

    def dense(name: str, hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ kept[f"{name}/kernel"] + kept[f"{name}/bias"]

    def norm(name: str, hidden: torch.Tensor) -> torch.Tensor:
        gain, bias = kept[f"{name}/LayerNorm/gamma"], kept[f"{name}/LayerNorm/beta"]
        return torch.nn.functional.layer_norm(hidden, gain.shape, gain, bias, 1e-12)

    table = kept["bert/embeddings/word_embeddings"]
    hidden = table[tokens] + kept["bert/embeddings/position_embeddings"][: len(tokens)]
    hidden = norm("bert/embeddings", hidden + kept["bert/embeddings/token_type_embeddings"][0])
    if "bert/encoder/embedding_hidden_mapping_in/kernel" in kept:
        hidden = dense("bert/encoder/embedding_hidden_mapping_in", hidden)
    for layer in range(LAYERS):
        stem = f"bert/encoder/layer_{layer}"
        query, key, value = (
            dense(f"{stem}/attention/self/{part}", hidden).unflatten(-1, (HEADS, -1)).transpose(0, 1)
            for part in ("query", "key", "value")
        )
        seen = ((query @ key.mT / (WIDTH // HEADS) ** 0.5).softmax(-1) @ value).transpose(0, 1).flatten(1)
        hidden = norm(f"{stem}/attention/output", hidden + dense(f"{stem}/attention/output/dense", seen))
        inner = torch.nn.functional.gelu(dense(f"{stem}/intermediate/dense", hidden))
        hidden = norm(f"{stem}/output", hidden + dense(f"{stem}/output/dense", inner))
    transformed = torch.nn.functional.gelu(dense("cls/predictions/transform/dense", hidden))
    scores = norm("cls/predictions/transform", transformed) @ table.T + kept["cls/predictions/output_bias"]
    return hidden, scores


@pytest.mark.parametrize("embedding", [WIDTH, NARROW], ids=["BERT", "narrow embeddings"])
@pytest.mark.parametrize("name", ["tf_variables.safetensors", "variables.npz"])
def test_every_variable_is_in_its_place_and_transformers_computes_the_same(embedding, name, plm, tmp_path):
    from transformers import AutoModelForMaskedLM

    arrays = published(tmp_path / "tf", embedding, name)
    ran = plm("import", tmp_path / "tf", "--out", tmp_path / "out", "--json")
    assert (ran.code, ran.json["format"]) == (0, "tensorflow"), ran.err
    assert ran.json["parameters"] == sum(array.size for array in arrays.values()) - WIDTH - 1  # without the optimizer's
    model = plmkit.load(tmp_path / "out", device="cpu")
    rows = model.rows(["the cat 我的 house"])
    states, batch = model.states(rows)
    hidden, scores = by_hand(arrays, batch.source.tokens[0].tolist())
    torch.testing.assert_close(states.hidden[0].double(), hidden, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        found = model.network.heads["masked_lm"].output(states.hidden)[0]
        theirs = AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()(batch.source.tokens).logits[0]
    torch.testing.assert_close(found.double(), scores, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "bert_config.json").unlink(), "has no bert_config.json"),
        (lambda folder: (folder / "vocab.txt").write_text("[UNK]\n"), "vocab.txt"),
        (lambda folder: (folder / "v.npz").write_bytes(b"PK no"), "holds bert_config.json"),
        (lambda folder: np.savez(folder / "v.npz", **{"bert/embeddings/word_embeddings": np.zeros((3, 4))}), "missing"),
        (lambda folder: np.savez(folder / "v.npz", **{"bert/embeddings/word_embeddings": np.array(["x"])}), "v.npz"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused_and_nothing_is_written(spoil, says, plm, tmp_path):
    published(tmp_path / "tf", WIDTH, "v.npz")
    spoil(tmp_path / "tf")
    ran = plm("import", tmp_path / "tf", "--out", tmp_path / "out")
    assert (ran.code, says in ran.err, "Traceback" in ran.err) == (2, True, False), ran.err
    assert not (tmp_path / "out").exists()
