"""The token that follows, scored a few rows at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from plmkit.architectures.decoder import Decoder
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.kernels import autograd
from plmkit.kernels.autograd import chunked_cross_entropy
from plmkit.objectives.causal_lm import AdaptiveLM, CausalLM


@pytest.mark.parametrize("rows", [1, 16, 50])
@pytest.mark.parametrize("cached", [0, 3, 50])
@pytest.mark.parametrize("biased", [False, True])
def test_chunks_change_neither_loss_nor_gradient(rows, cached, biased, monkeypatch):
    monkeypatch.setattr(autograd, "NUMBERS_AT_ONCE", 23 * rows)  # 16 rows are the least
    monkeypatch.setattr(autograd, "NUMBERS_IN_CACHE", 23 * cached)  # and 1
    torch.manual_seed(0)
    hidden, table = torch.randn(50, 8, dtype=torch.double), torch.randn(23, 8, dtype=torch.double)
    targets = torch.randint(23, (50,))
    both = []
    bias = torch.randn(23, dtype=torch.double) if biased else None

    def plainly(hidden, table, bias):
        return F.cross_entropy(F.linear(hidden, table, bias), targets)

    def by_chunks(hidden, table, bias):
        return chunked_cross_entropy(hidden, table, targets, bias=bias)

    for loss in (plainly, by_chunks):
        given = [None if part is None else part.clone().requires_grad_() for part in (hidden, table, bias)]
        value = loss(*given)
        (3 * value).backward()
        both.append((value.detach(), *(part.grad for part in given if part is not None)))
    for plain, ours in zip(*both, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-12, rtol=1e-12)


def test_in_low_precision_the_gradient_of_the_bias_is_not_rounded():
    """It sums to 0, or else the bias drifts as a whole."""
    torch.manual_seed(0)
    hidden, table, bias = torch.randn(300, 16), torch.randn(500, 16) / 4, torch.randn(500)
    targets, found = torch.randint(500, (300,)), []
    for low in (False, True):
        given = bias.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            chunked_cross_entropy(hidden, table, targets, bias=given).backward()
        found.append(given.grad)
    assert abs(float(found[1].sum())) < 1e-6
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-2)


def test_large_scores_stay_finite():
    hidden, table = torch.full((2, 1), 1e4, requires_grad=True), torch.tensor([[1.0], [-1.0]])
    loss = chunked_cross_entropy(hidden, table, torch.tensor([0, 0]))
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(hidden.grad).all()


def test_without_gradients_only_the_loss_is_made():
    table = nn.Parameter(torch.randn(7, 4))
    with torch.no_grad():
        assert not chunked_cross_entropy(torch.randn(3, 4), table, torch.tensor([1, 2, 3])).requires_grad


def test_no_rows_have_no_loss_and_no_gradient():
    table = torch.randn(7, 4, requires_grad=True)
    loss = chunked_cross_entropy(torch.zeros(0, 4), table, torch.zeros(0, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(table.grad, torch.zeros(7, 4))


def test_scores_of_all_rows_never_stand_in_memory_together(monkeypatch):
    monkeypatch.setattr(autograd, "NUMBERS_AT_ONCE", 16 * 1000)
    largest = []

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            largest.extend(tensor.numel() for tensor in [out] if isinstance(tensor, torch.Tensor))
            return out

    hidden, table = torch.randn(512, 4, requires_grad=True), torch.randn(1000, 4, requires_grad=True)
    with Watching():
        chunked_cross_entropy(hidden, table, torch.zeros(512, dtype=torch.long)).backward()
    assert max(largest) == 16 * 1000  # not 512 * 1000


def test_only_predicted_positions_are_scored():
    torch.manual_seed(0)
    model = Decoder(layers=1, heads=1, width=8, inner=16, max_length=8, dropout=0.0, attention_dropout=0.0).build(
        unnamed(9)
    )
    head = CausalLM().build(model)
    tokens = torch.randint(9, (2, 4))
    targets = torch.tensor([[3, IGNORE, 5, IGNORE], [IGNORE, 1, 2, 7]])
    batch = Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens).bool(), segments=torch.zeros_like(tokens)),
        targets=targets,
    )
    states = model(batch)
    logits = states.hidden @ model.embed.tokens.weight.T
    wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
    torch.testing.assert_close(head(states, batch), wanted)
    assert head.scored(batch) == 5
    assert head(states, batch) >= 0


def test_an_adaptive_softmax_needs_an_embedding_in_clusters():
    model = Decoder(layers=1, heads=1, width=4, inner=4, max_length=8).build(unnamed(9))
    with pytest.raises(SettingError, match="Decoder has no token embedding in clusters"):
        AdaptiveLM().build(model)
