"""Every kernel compared with its plain reference: the same values and gradients, in float64."""

import ast
from pathlib import Path

import pytest
import torch
from torch import Tensor

from plmkit import kernels
from plmkit.kernels import autograd
from plmkit.kernels.autograd import (
    chunked_cross_entropy,
    plain_cross_entropy,
    plain_spread,
    plain_take,
    spread,
    take_once,
)
from plmkit.kernels.clipped_lstm import Weights, clipped_lstm, plain_clipped_lstm
from plmkit.kernels.dropout_mask import mask_like, plain_mask
from plmkit.kernels.step import Step, plain_step
from plmkit.layers.attention import BandedAttention, CausalAttention
from plmkit.layers.transformer import FeedForward, PreNormBlock

FILES = [path for path in Path(kernels.__file__).parent.glob("*.py") if path.name != "__init__.py"]


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def same(ours: Tensor, plain: Tensor, given: list[Tensor]) -> None:
    """Values, and gradients of a function of them that tells all apart."""
    torch.testing.assert_close(ours, plain)
    gradients = [
        torch.autograd.grad((found + torch.arange(found.numel()).view_as(found)).sin().sum(), given)
        for found in (ours, plain)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
        assert one.abs().sum() > 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_kernel_has_its_reference_next_to_it(path):
    functions = [
        node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)
    ]
    assert [name for name in functions if name.startswith("plain_")]


@pytest.mark.parametrize("shared", [False, True], ids=["mean", "shares"])
@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
def test_cross_entropy_in_chunks(shared, biased, monkeypatch):
    monkeypatch.setattr(autograd, "NUMBERS_AT_ONCE", 16 * 23)
    torch.manual_seed(0)
    hidden, table, bias = random(50, 8), random(23, 8), random(23) if biased else None
    targets, shares = torch.randint(23, (50,)), torch.rand(50, dtype=torch.float64) if shared else None
    given = [hidden, table, *([bias] if biased else [])]
    same(
        chunked_cross_entropy(hidden, table, targets, shares, bias),
        plain_cross_entropy(hidden, table, targets, shares, bias),
        given,
    )


def test_rows_taken_once():
    torch.manual_seed(0)
    rows, places = random(9, 4), torch.tensor([8, 0, 3, 5])
    same(take_once(rows, places), plain_take(rows, places), [rows])


def test_rows_spread_among_padding():
    torch.manual_seed(0)
    packed, kept, padding = random(4, 3), torch.tensor([1, 2, 4, 7]), torch.tensor([0, 3, 5, 6])
    sources = torch.tensor([0, 0, 1, 1, 2, 2, 2, 3])
    same(spread(packed, sources, padding, kept), plain_spread(packed, 8, kept), [packed])


@pytest.mark.parametrize("share", [0.1, 0.3, 0.999])
def test_dropout_masks_have_the_reference_s_values_and_mean(share):
    torch.manual_seed(0)
    numbers = torch.ones(2000, 500, dtype=torch.float64)
    ours, plain = mask_like(numbers, share), plain_mask(numbers, share)
    assert ours.unique().tolist() == pytest.approx(plain.unique().tolist(), abs=1e-12)
    limit = 5 * (share / (1 - share) / numbers.numel()) ** 0.5 + 1e-3  # of each mean, which is 1
    assert abs(ours.mean() - 1) < limit
    assert abs(plain.mean() - 1) < limit


@pytest.mark.parametrize("band", [None, 2])
def test_one_token_further(band):
    torch.manual_seed(0)
    attention = CausalAttention(8, 2, 0.0) if band is None else BandedAttention(8, 2, 0.0, band)
    block = PreNormBlock(attention, FeedForward(8, 16, "gelu"), width=8, dropout=0.0, epsilon=1e-5).double().eval()
    seen = torch.randn(2, 3, 2, 5, 4, dtype=torch.float64)  # four tokens before, and room for one
    ours, plain = seen.clone(), seen.clone()
    hidden = torch.randn(3, 8, dtype=torch.float64)
    with torch.no_grad():
        stepped = Step(block)(hidden, ours[..., -1:, :], ours)
        torch.testing.assert_close(stepped, plain_step(block, hidden, plain))
    torch.testing.assert_close(ours, plain)  # the keys and values that it adds
    assert not torch.equal(ours[..., -1, :], seen[..., -1, :])


@pytest.mark.parametrize(("cell_clip", "output_clip"), [(0.8, 1.1), (0.8, 9.0), (9.0, 1.1), (9.0, 9.0)])
def test_an_lstm_with_clipped_cells_and_outputs(cell_clip, output_clip):
    torch.manual_seed(0)
    inputs = random(3, 7, 5)
    weights = Weights(inputs=random(24, 5), state=random(24, 4), bias=random(24), project=random(4, 6))
    before = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)
    ours, cells = clipped_lstm(inputs, *before, weights, cell_clip, output_clip)
    plain, plain_cells = plain_clipped_lstm(inputs, *before, weights, cell_clip, output_clip)
    assert ((cells.abs() >= cell_clip).any(), (ours.abs() >= output_clip).any()) == (cell_clip < 9, output_clip < 9)
    torch.testing.assert_close(cells, plain_cells)
    same(ours, plain, [inputs, weights.inputs, weights.state, weights.bias, weights.project])


def test_an_lstm_that_never_clips_is_torchs_lstm_with_a_projection():
    torch.manual_seed(0)
    theirs = torch.nn.LSTM(5, 6, proj_size=4, batch_first=True, dtype=torch.float64)
    inputs = random(3, 7, 5)

    def ours(of_torch: Tensor) -> Tensor:
        """Torch has the candidate before the output gate."""
        enter, keep, candidate, show = of_torch.detach().chunk(4)
        return torch.cat([enter, keep, show, candidate]).requires_grad_()

    bias = ours(theirs.bias_ih_l0 + theirs.bias_hh_l0).detach()
    bias[6:12] -= 1.0  # the constant of the forget gate
    weights = Weights(
        inputs=ours(theirs.weight_ih_l0), state=ours(theirs.weight_hh_l0), bias=bias, project=theirs.weight_hr_l0
    )
    found, _ = clipped_lstm(inputs, inputs.new_zeros(3, 4), inputs.new_zeros(3, 6), weights, 9.0, 9.0)
    same(found, theirs(inputs)[0], [inputs, theirs.weight_hr_l0])
