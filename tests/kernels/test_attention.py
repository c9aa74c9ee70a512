"""Attention by plain products is torch's attention, both ways; relative attention is its formula."""

import pytest
import torch
import torch.nn.functional as F

from plmkit.kernels.attention import (
    QUERIES_AT_ONCE,
    Band,
    attend_long_rows,
    attend_short_rows,
    few_rows,
    is_short,
    plain_attention,
    plain_band,
)
from plmkit.kernels.dropout_mask import mask_like
from plmkit.layers.attention import BandedAttention, CausalAttention, SelfAttention, band
from plmkit.layers.packing import Packing

ROWS, LENGTH, HEADS, WIDTH = 3, 10, 2, 16


def packings() -> dict[str, Packing]:
    whole = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    right, front = whole.clone(), whole.clone()
    right[0, 4:] = right[2, 7:] = False
    front[0, :4] = front[1, :1] = False
    return {"whole": Packing(whole), "right": Packing(right), "front": Packing(front)}


def some(packing: Packing) -> torch.Tensor:
    count = ROWS * LENGTH if packing.kept is None else len(packing.kept)
    return torch.randn(count, 3 * WIDTH, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("kind", packings())
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("causal", [False, True])
def test_states_and_gradients_are_those_of_the_formula(kind, dropout, causal):
    torch.manual_seed(0)
    packing = packings()[kind]
    joint, weigh = some(packing), torch.randn(1, WIDTH, dtype=torch.float64)
    visible = band(LENGTH, LENGTH, joint.device) if causal else packing.visible
    torch.manual_seed(1)
    ours = attend_short_rows(joint, packing, HEADS, visible, dropout)
    torch.manual_seed(1)
    mask = (
        mask_like(torch.empty(HEADS, ROWS, LENGTH, LENGTH, dtype=torch.float64), dropout).transpose(0, 1)
        if dropout
        else 1.0
    )
    theirs = plain_attention(joint, packing, HEADS, visible, mask)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad((found * weigh).sin().sum(), joint)[0] for found in (ours, theirs)]
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().sum() > 1


def test_long_rows_without_dropout_and_rows_without_gradients_are_left_to_the_kernel():
    packing = packings()["whole"]
    joint = some(packing).float()
    assert is_short(joint, packing, HEADS)
    assert is_short(joint, packing, heads=6)  # 6 tables of 10 x 10 for rows of 4 * 16 numbers
    assert not is_short(joint, packing, heads=7)
    for dropout, gains in ((0.0, False), (0.2, True)):
        layer = SelfAttention(WIDTH, HEADS, dropout)
        assert layer.by_products(joint, packing)
        assert not layer.by_products(joint.detach(), packing)
        assert not layer.by_products(joint.double(), packing)
        layer.heads = 7
        assert layer.by_products(joint, packing) is gains


LAYERS = {
    "self": SelfAttention(WIDTH, HEADS, 0.0),
    "self with dropout": SelfAttention(WIDTH, HEADS, 0.2),
    "causal with dropout": CausalAttention(WIDTH, HEADS, 0.2),
    "banded with dropout": BandedAttention(WIDTH, HEADS, 0.2, band=3),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_each_kind_of_attention_reads_what_it_may(kind, monkeypatch):
    """Where masks drop nothing: states and gradients are the same by short rows, by long rows and by torch's kernel."""
    monkeypatch.setattr("plmkit.kernels.attention.mask_like", lambda numbers, *_: torch.ones_like(numbers))
    monkeypatch.setattr("plmkit.layers.attention.drop", lambda numbers, share: numbers)
    torch.manual_seed(0)
    layer, packing = LAYERS[kind], packings()["right"]
    hidden = torch.randn(len(packing.kept), WIDTH, requires_grad=True)
    found = []
    for products, short in ((True, True), (True, False), (False, False)):
        monkeypatch.setattr(SelfAttention, "by_products", lambda *given, products=products: products)
        monkeypatch.setattr("plmkit.layers.attention.is_short", lambda *given, short=short: short)
        read = layer(hidden, packing)
        found.append((read, *torch.autograd.grad(read.sin().sum(), [hidden, *layer.parameters()])))
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", packings())
@pytest.mark.parametrize("at_once", [1, 150, 10_000])  # a row, two short rows, all
def test_long_rows_a_few_at_a_time_are_those_of_the_formula(kind, at_once, monkeypatch):
    monkeypatch.setattr("plmkit.kernels.attention.WEIGHTS_AT_ONCE", at_once * HEADS)
    torch.manual_seed(0)
    packing = packings()[kind]
    joint, weigh = some(packing), torch.randn(1, WIDTH, dtype=torch.float64)
    found = [
        plain_attention(joint, packing, HEADS, packing.visible),
        attend_long_rows(joint, packing, HEADS, lambda few: few.visible, 0.0),
    ]
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*(torch.autograd.grad((read * weigh).sin().sum(), joint)[0] for read in found))


def test_long_rows_drop_on_the_way_back_what_they_dropped_on_the_way_forward(monkeypatch):
    monkeypatch.setattr("plmkit.kernels.attention.WEIGHTS_AT_ONCE", 1)
    packing = packings()["right"]

    def read(joint: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        return attend_long_rows(joint, packing, HEADS, lambda few: few.visible, 0.4)

    joint = some(packing)
    assert torch.autograd.gradcheck(read, (joint,))
    assert not torch.equal(read(joint), attend_long_rows(joint, packing, HEADS, lambda few: few.visible, 0.4))


def test_few_rows_are_padded_to_their_own_longest():
    found = few_rows(packings()["right"], 200)  # rows of 4, 10 and 7
    assert [(tokens, packing.rows, packing.length) for tokens, packing in found] == [
        (slice(0, 14), 2, 10), (slice(14, None), 1, 7),
    ]  # fmt: skip
    assert [packing.length for _, packing in few_rows(packings()["right"], 1)] == [4, 10, 7]


def test_in_bfloat16_rows_are_trained_by_products():
    """The backward pass of torch's kernel takes three to six times as long in it."""
    packing = packings()["whole"]
    joint = some(packing).bfloat16()
    for layer in (SelfAttention(WIDTH, HEADS, 0.0), CausalAttention(WIDTH, HEADS, 0.0)):
        assert layer.by_products(joint, packing)
        assert not layer.by_products(joint.detach(), packing)


def test_causal_attention_without_dropout_is_left_to_the_kernel():
    joint, packing = some(packings()["whole"]).float(), packings()["whole"]
    assert not CausalAttention(WIDTH, HEADS, 0.0).by_products(joint, packing)
    assert not LAYERS["causal with dropout"].eval().by_products(joint, packing)
    assert LAYERS["causal with dropout"].train().by_products(joint, packing)


def test_a_single_token_reads_itself_and_is_not_changed():
    packing = Packing(torch.ones(1, 1, dtype=torch.bool))
    joint = torch.randn(1, 3 * WIDTH, requires_grad=True)
    before = joint.detach().clone()
    attend_short_rows(joint * 1, packing, HEADS, None, 0.0).sum().backward()
    attend_short_rows(joint, packing, HEADS, None, 0.0).sum().backward()
    assert torch.equal(joint.detach(), before)
    assert torch.equal(joint.grad, torch.cat([torch.zeros(1, 2 * WIDTH), torch.full((1, WIDTH), 2.0)], dim=1))


def test_the_formula_is_torchs():
    """So that the tests above compare with something."""
    torch.manual_seed(0)
    packing = packings()["right"]
    joint = some(packing)
    query, key, value = packing.unpack(joint).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=packing.visible)
    torch.testing.assert_close(
        plain_attention(joint, packing, HEADS, packing.visible), packing.pack(theirs.transpose(1, 2).flatten(2))
    )


@pytest.mark.parametrize(("window", "queries"), [(1, 3), (5, 1), (5, 3), (3, 5), (7, 2 * QUERIES_AT_ONCE + 9)])
def test_each_query_finds_what_the_reference_finds(window, queries):
    torch.manual_seed(0)
    contents, places = torch.randn(2, 2, 3, queries, 4, dtype=torch.float64)
    keys, values = torch.randn(2, 2, 3, window - 1 + queries, 4, dtype=torch.float64)
    distances = torch.randn(3, 4, window, dtype=torch.float64)  # from the farthest to 0
    band = Band(window, keys)
    turned = keys.transpose(-1, -2).contiguous()
    expected = plain_band(contents, places, turned, values, distances)
    for _ in range(2):  # what the first reading leaves in its buffer is not read
        torch.testing.assert_close(band.mix(contents, places, turned, values, distances), expected, atol=1e-12, rtol=0)


def test_the_reference_is_a_loop_over_queries_and_keys():
    """One head of width 1 and a window of 2: weights softmax(q k + p d)."""
    contents, places = torch.tensor([[[[1.0]]]]), torch.tensor([[[[2.0]]]])
    keys, values, distances = (
        torch.tensor([[[[0.5, 1.5]]]]),
        torch.tensor([[[[3.0], [5.0]]]]),
        torch.tensor([[[1.0, 0.0]]]),
    )
    near, far = torch.tensor(1.5).exp(), torch.tensor(0.5 + 2.0).exp()
    expected = (far * 3 + near * 5) / (far + near)
    torch.testing.assert_close(plain_band(contents, places, keys, values, distances), expected.view(1, 1, 1, 1))
