"""Attention by plain products is torch's attention, both ways."""

import math

import pytest
import torch
import torch.nn.functional as F

from plmkit.layers.attention import BandedAttention, CausalAttention, SelfAttention, band
from plmkit.layers.dropout import mask_like
from plmkit.layers.packing import Packing
from plmkit.layers.short_rows import read_rows, suits

ROWS, LENGTH, HEADS, WIDTH = 3, 10, 2, 16


def packings() -> dict[str, Packing]:
    whole = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    behind, front = whole.clone(), whole.clone()
    behind[0, 4:] = behind[2, 7:] = False
    front[0, :4] = front[1, :1] = False
    return {"whole": Packing(whole), "behind": Packing(behind), "front": Packing(front)}


def some(packing: Packing) -> torch.Tensor:
    count = ROWS * LENGTH if packing.kept is None else len(packing.kept)
    return torch.randn(count, 3 * WIDTH, dtype=torch.float64, requires_grad=True)


def naive(joint: torch.Tensor, packing: Packing, visible: torch.Tensor | None, mask: torch.Tensor | float = 1.0):
    query, key, value = packing.unpack(joint).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return packing.pack(((scores.softmax(-1) * mask) @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("kind", packings())
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("causal", [False, True])
def test_states_and_gradients_are_those_of_the_formula(kind, dropout, causal):
    torch.manual_seed(0)
    packing = packings()[kind]
    joint, weigh = some(packing), torch.randn(1, WIDTH, dtype=torch.float64)
    visible = band(LENGTH, LENGTH, joint.device) if causal else packing.visible
    torch.manual_seed(1)
    ours = read_rows(joint, packing, HEADS, visible, dropout)
    torch.manual_seed(1)
    mask = (
        mask_like(torch.empty(HEADS, ROWS, LENGTH, LENGTH, dtype=torch.float64), dropout).transpose(0, 1)
        if dropout
        else 1.0
    )
    theirs = naive(joint, packing, visible, mask)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad((found * weigh).sin().sum(), joint)[0] for found in (ours, theirs)]
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().sum() > 1


def test_long_rows_and_rows_that_nothing_is_learnt_from_are_left_to_the_kernel():
    packing = packings()["whole"]
    joint = some(packing).float()
    assert suits(joint, packing, HEADS)
    assert not suits(joint, packing, heads=5)  # 5 tables of 10 x 10 for rows of 48 numbers
    assert not suits(joint.detach(), packing, HEADS)
    assert not suits(joint.double(), packing, HEADS)


LAYERS = {
    "self": SelfAttention(WIDTH, HEADS, 0.0),
    "self with dropout": SelfAttention(WIDTH, HEADS, 0.2),
    "causal with dropout": CausalAttention(WIDTH, HEADS, 0.2),
    "banded with dropout": BandedAttention(WIDTH, HEADS, 0.2, band=3),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_each_kind_of_attention_reads_what_it_may(kind, monkeypatch):
    """Where masks drop nothing: states and gradients are those of the other way."""
    monkeypatch.setattr("plmkit.layers.short_rows.mask_like", lambda numbers, share: torch.ones_like(numbers))
    monkeypatch.setattr("plmkit.layers.attention.drop", lambda numbers, share: numbers)
    torch.manual_seed(0)
    layer, packing = LAYERS[kind], packings()["behind"]
    hidden = torch.randn(len(packing.kept), WIDTH, requires_grad=True)
    found = []
    for products in (True, False):
        monkeypatch.setattr("plmkit.layers.attention.suits", lambda *given, products=products: products)
        read = layer(hidden, packing)
        found.append((read, *torch.autograd.grad(read.sin().sum(), [hidden, *layer.parameters()])))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)


def test_causal_attention_without_dropout_is_left_to_the_kernel():
    joint, packing = some(packings()["whole"]).float(), packings()["whole"]
    assert not CausalAttention(WIDTH, HEADS, 0.0).by_products(joint, packing)
    assert not LAYERS["causal with dropout"].eval().by_products(joint, packing)
    assert LAYERS["causal with dropout"].train().by_products(joint, packing)


def test_a_single_token_reads_itself_and_is_not_changed():
    packing = Packing(torch.ones(1, 1, dtype=torch.bool))
    joint = torch.randn(1, 3 * WIDTH, requires_grad=True)
    before = joint.detach().clone()
    read_rows(joint * 1, packing, HEADS, None, 0.0).sum().backward()
    read_rows(joint, packing, HEADS, None, 0.0).sum().backward()
    assert torch.equal(joint.detach(), before)
    assert torch.equal(joint.grad, torch.cat([torch.zeros(1, 2 * WIDTH), torch.full((1, WIDTH), 2.0)], dim=1))


def test_the_formula_is_torchs():
    """So that the tests above compare with something."""
    torch.manual_seed(0)
    packing = packings()["behind"]
    joint = some(packing)
    query, key, value = packing.unpack(joint).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=packing.visible)
    torch.testing.assert_close(naive(joint, packing, packing.visible), packing.pack(theirs.transpose(1, 2).flatten(2)))
