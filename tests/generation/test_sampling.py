"""Tokens are drawn with the probabilities that are asked for."""

import pytest
import torch

from plmkit.generation import sampling
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sampling import sample

SHARES = torch.tensor([0.1, 0.4, 0.2, 0.3])  # in order: 1, 3, 2, 0


def chosen(count: int = 1000, **asked: float) -> list[float]:
    """The share of each token over evenly spaced draws."""
    draws = (torch.arange(count) + 0.5) / count
    found = sample(SHARES.log().expand(count, -1), GenerationOptions(**asked), draws)
    return (torch.bincount(found, minlength=4) / count).tolist()


def test_at_temperature_0_the_likeliest_is_taken():
    assert chosen(temperature=0) == [0, 1, 0, 0]


def test_at_temperature_1_tokens_come_as_often_as_they_are_likely():
    assert chosen(temperature=1.0) == pytest.approx(SHARES.tolist(), abs=1e-3)


def test_temperature_raises_probabilities_to_its_inverse():
    squares = SHARES**2 / (SHARES**2).sum()
    assert chosen(temperature=0.5, top_p=1.0) == pytest.approx(squares.tolist(), abs=2e-3)


def test_top_k_keeps_the_k_likeliest():
    assert chosen(temperature=1.0, top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-3)
    assert chosen(temperature=1.0, top_k=99) == pytest.approx(SHARES.tolist(), abs=1e-3)


def test_top_p_keeps_the_token_that_crosses_the_share():
    assert chosen(temperature=1.0, top_p=0.5) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-3)
    assert chosen(temperature=1.0, top_p=0.35) == [0, 1, 0, 0]
    assert chosen(temperature=1.0, top_p=1.0) == pytest.approx(SHARES.tolist(), abs=1e-3)


def test_top_p_counts_within_top_k():
    assert chosen(temperature=1.0, top_k=3, top_p=0.5) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-3)


def test_top_p_is_the_same_where_few_candidates_do_not_suffice(monkeypatch):
    torch.manual_seed(0)
    scores, draws = torch.randn(50, 300), torch.rand(50)
    options = GenerationOptions(temperature=1.0, top_p=0.9)
    whole = sample(scores, options, draws)
    monkeypatch.setattr(sampling, "CANDIDATES", 10)
    assert torch.equal(sample(scores, options, draws), whole)


def test_a_token_without_a_score_is_never_drawn():
    scores = torch.tensor([[0.0, -torch.inf, 0.0]]).expand(100, -1)
    for asked in ({"temperature": 1.0}, {"temperature": 2.0, "top_k": 3}, {"top_p": 1.0}, {"top_p": 0.99}):
        assert 1 not in sample(scores, GenerationOptions(**asked), torch.linspace(0, 0.9999, 100)).tolist()
