"""What the field calls a recipe says what its predictions may read: checked by gradients on every family."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from models import tiny_model
from torch import Tensor, nn

from plmkit.catalogue import CATALOGUE, find
from plmkit.data.batch import Batch, Side
from plmkit.insight.attending import left_to_right
from plmkit.labels import LABELS, label_of

LENGTH = 5
FULL = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
FAMILIES = {
    "bert-tiny": "autoencoding", "bert-wwm-mini": "autoencoding", "spanbert-mini": "autoencoding",
    "ernie-mini": "autoencoding", "roberta-tiny": "autoencoding", "albert-tiny": "autoencoding",
    "electra-tiny": "replaced-token", "electra-tiny-adversarial": "replaced-token",
    "gpt1-tiny": "autoregressive", "gpt2-tiny": "autoregressive", "gpt3-tiny": "autoregressive",
    "gpt1-lstm-mini": "autoregressive",
    "lstm-tiny": "autoregressive", "char-transformer-tiny": "autoregressive", "transformer-xl-tiny": "autoregressive",
    "xlnet-tiny": "permuted", "elmo-tiny": "bidirectional-lm",
    "rnn-tiny": "seq2seq", "rnn-attention-tiny": "seq2seq", "transformer-tiny": "seq2seq", "caption-tiny": "seq2seq",
}  # fmt: skip
SEEN = {  # of each label, the tokens (columns) that the state which predicts (rows) depends on
    "autoregressive": [FULL.tril()],
    "autoencoding": [FULL],
    "replaced-token": [FULL],
    "permuted": [FULL.tril(-1)],  # in the order from left to right: the token itself is not read
    "bidirectional-lm": [FULL.tril(), FULL.triu()],
    "seq2seq": [FULL, FULL.tril()],  # the source, and the target
}


@contextmanager
def embedded(model: nn.Module) -> Iterator[list[Tensor]]:
    """What the modules that make vectors of tokens give, in their order; gradients begin there."""
    kept: list[Tensor] = []

    def keep(_: nn.Module, __: object, made: Tensor) -> Tensor:
        kept.append(made.detach().requires_grad_())
        return kept[-1]

    handles = [part.register_forward_hook(keep) for part in model.input_embeddings]
    yield kept
    for handle in handles:
        handle.remove()


def depends(states: Tensor, vectors: Tensor) -> Tensor:
    """(L, L) True where the state at i depends on the vector at j."""
    rows = [torch.autograd.grad(state.square().sum(), vectors, retain_graph=True)[0] for state in states]
    return torch.stack([row.reshape(-1, LENGTH, row.shape[-1]).abs().sum((0, 2)) for row in rows]) > 0


def side(start: int) -> Side:
    tokens = torch.arange(start, start + LENGTH)[None]
    return Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool))


def seen(name: str, label: str) -> list[Tensor]:
    model = tiny_model(name).network.model.eval()
    batch = Batch(source=side(20), target=side(30) if label == "seq2seq" else None)
    with embedded(model) as kept:
        if label == "permuted":
            states = model(left_to_right(replace(batch, attention_order=None))).hidden[0]
        else:
            states = model(batch).hidden[0]
    if label == "bidirectional-lm":
        half = states.shape[1] // 2
        return [depends(part, kept[0]) for part in (states[:, :half], states[:, half:])]
    return [depends(states, vectors) for vectors in kept]


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "caption-tiny"])  # which reads images
def test_a_prediction_depends_on_the_tokens_that_its_label_says(name):
    found, expected = seen(name, FAMILIES[name]), SEEN[FAMILIES[name]]
    assert [matrix.int().tolist() for matrix in found] == [matrix.int().tolist() for matrix in expected]


def test_every_recipe_has_the_label_of_its_family():
    found = {name: label_of(find(name)).name for name in CATALOGUE}
    assert {name: found[name] for name in FAMILIES} == FAMILIES
    kinds = {type(find(name).architecture): found[name] for name in FAMILIES}
    assert all(found[name] == kinds[type(find(name).architecture)] for name in CATALOGUE
               if type(find(name).architecture) in kinds)  # fmt: skip
    assert set(found.values()) == {label.name for label in LABELS} == set(SEEN)


def test_a_label_follows_the_objectives_and_not_the_name():
    bert, xlnet = find("bert-tiny"), find("xlnet-tiny")
    assert label_of(replace(bert, name="gpt-like")).name == "autoencoding"
    assert label_of(replace(bert, objectives=bert.objectives[1:])) is None  # next-sentence prediction alone
    assert label_of(replace(xlnet, name="bert")).name == "permuted"


def test_labels_are_listed_and_explained(plm):
    listed = {one["name"]: one["label"] for one in plm("recipes", "--json").json["recipes"]}
    assert listed["gpt2-mini"] == "autoregressive" and listed["elmo-original"] == "bidirectional-lm"
    rows = [line.split() for line in plm("recipes").out.splitlines()]
    assert {row[0]: row[1] for row in rows if row and row[0] in ("bert-base", "xlnet-base", "electra-small")} == {
        "bert-base": "AE", "xlnet-base": "PLM", "electra-small": "RTD",
    }  # fmt: skip
    assert "Autoregressive (AR): each token is predicted from those before it." in plm("recipes", "gpt1").out
    assert plm("recipes", "transformer-base", "--json").json["label"] == "seq2seq"
