"""Tokens are sampled with the given probabilities; beam search finds the best of all texts."""

from itertools import product
from math import log, prod

import pytest
import torch
from toy_models import END, written_shares

from plmkit.generation import decoding
from plmkit.generation.beam_search import LENGTH_PENALTY, Beam
from plmkit.generation.decoding import sample
from plmkit.generation.options import GenerationOptions

SHARES = torch.tensor([0.1, 0.4, 0.2, 0.3])  # in order: 1, 3, 2, 0
LANGUAGE = {
    "q": {"a": 0.5, "b": 0.3, END: 0.2},
    "qa": {"a": 0.4, "b": 0.32, END: 0.28},
    "qb": {"a": 0.9, "b": 0.05, END: 0.05},
    "qaa": {"a": 0.4, "b": 0.3, END: 0.3},
    "qab": {"a": 0.3, "b": 0.3, END: 0.4},
    "qba": {"a": 0.7, "b": 0.2, END: 0.1},
    "qbb": {"a": 0.4, "b": 0.4, END: 0.2},
}


def chosen(count: int = 1000, **asked: float) -> list[float]:
    """The share of each token over evenly spaced draws."""
    draws = (torch.arange(count) + 0.5) / count
    found = sample(SHARES.log().expand(count, -1), GenerationOptions(**asked), draws)
    return (torch.bincount(found, minlength=4) / count).tolist()


def test_at_temperature_0_decoding_is_greedy():
    assert chosen(temperature=0) == [0, 1, 0, 0]


def test_at_temperature_1_tokens_come_as_often_as_they_are_likely():
    assert chosen(temperature=1.0) == pytest.approx(SHARES.tolist(), abs=1e-3)


def test_temperature_raises_probabilities_to_its_inverse():
    squares = SHARES**2 / (SHARES**2).sum()
    assert chosen(temperature=0.5, top_p=1.0) == pytest.approx(squares.tolist(), abs=2e-3)


def test_top_k_keeps_the_k_most_likely():
    assert chosen(temperature=1.0, top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-3)
    assert chosen(temperature=1.0, top_k=99) == pytest.approx(SHARES.tolist(), abs=1e-3)


def test_top_p_keeps_the_token_that_crosses_the_share():
    assert chosen(temperature=1.0, top_p=0.5) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-3)
    assert chosen(temperature=1.0, top_p=0.35) == [0, 1, 0, 0]
    assert chosen(temperature=1.0, top_p=1.0) == pytest.approx(SHARES.tolist(), abs=1e-3)


@pytest.mark.parametrize("asked", [{"top_k": 1}, {"top_p": 1e-9}])
def test_the_narrowest_choice_is_greedy_decoding(asked):
    assert chosen(temperature=1.0, **asked) == chosen(temperature=0)


def test_top_p_counts_within_top_k():
    assert chosen(temperature=1.0, top_k=3, top_p=0.5) == pytest.approx([0, 4 / 7, 0, 3 / 7], abs=2e-3)


def test_top_p_is_the_same_where_few_candidates_do_not_suffice(monkeypatch):
    torch.manual_seed(0)
    scores, draws = torch.randn(50, 300), torch.rand(50)
    options = GenerationOptions(temperature=1.0, top_p=0.9)
    whole = sample(scores, options, draws)
    monkeypatch.setattr(decoding, "CANDIDATES", 10)
    assert torch.equal(sample(scores, options, draws), whole)


def test_a_token_without_a_score_is_never_drawn():
    scores = torch.tensor([[0.0, -torch.inf, 0.0]]).expand(100, -1)
    for asked in ({"temperature": 1.0}, {"temperature": 2.0, "top_k": 3}, {"top_p": 1.0}, {"top_p": 0.99}):
        assert 1 not in sample(scores, GenerationOptions(**asked), torch.linspace(0, 0.9999, 100)).tolist()


def every_text(penalty: float) -> list[tuple[str, float]]:
    """All texts of at most three tokens, best first: log-probability / ((5 + tokens) / 6) ** penalty."""
    tokens = [(*text, END) for size in range(3) for text in product("ab", repeat=size)] + [*product("ab", repeat=3)]
    found = []
    for text in tokens:
        shares = [LANGUAGE["q" + "".join(text[:place])][token] for place, token in enumerate(text)]
        found.append(("".join(text).removesuffix(END), log(prod(shares)) / ((5 + len(text)) / 6) ** penalty))
    return sorted(found, key=lambda one: -one[1])


def searched(beams: int, penalty: float | None, n: int = 1) -> list[tuple[str, float]]:
    asked = GenerationOptions(tokens=3, beams=beams, length_penalty=penalty, n=n)
    return [(text.text, text.score) for text in written_shares(LANGUAGE).generate(["q"], asked)]


@pytest.mark.parametrize(("length", "divisor"), [(1, 1.0), (5, 1.358655), (10, 1.732862)])
def test_the_penalty_of_a_length_is_that_of_the_paper(length, divisor):
    assert LENGTH_PENALTY == 0.6
    assert Beam(sequence=None, log_probability=-6.0, length=length).score(LENGTH_PENALTY) == pytest.approx(
        -6 / divisor, rel=1e-6
    )
    assert Beam(sequence=None, log_probability=-6.0, length=length).score(0.0) == -6


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_with_a_beam_for_every_beginning_all_texts_are_found_in_the_order_of_their_scores(penalty):
    wanted = every_text(penalty)
    found = searched(beams=16, penalty=penalty, n=16)
    assert len(found) == len(wanted) == 1 + 2 + 4 + 8
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-5)
    assert dict(found) == pytest.approx(dict(wanted), abs=1e-5)


def test_the_default_length_penalty_is_that_of_gpt3():
    assert searched(beams=16, penalty=None) == searched(beams=16, penalty=0.6)


def test_one_beam_is_greedy_and_more_find_the_more_likely_text():
    assert searched(beams=1, penalty=0.0) == [("aaa", pytest.approx(log(0.5 * 0.4 * 0.4), abs=1e-5))]
    assert searched(beams=4, penalty=0.0) == [("", pytest.approx(log(0.2), abs=1e-5))]
    assert searched(beams=4, penalty=1.0) == [("baa", pytest.approx(log(0.3 * 0.9 * 0.7) / (8 / 6), abs=1e-5))]


def test_a_search_is_over_when_more_texts_end_at_once_than_are_wanted():
    """One ends at the first step and two at the second: a third step would find `aa`, which scores better."""
    shares = {
        "q": {"a": 0.4, "b": 0.25, END: 0.35},
        "qa": {"a": 0.1, END: 0.9},
        "qb": {"a": 0.1, END: 0.9},
        "qaa": {END: 1.0},
        "qba": {END: 1.0},
    }
    found = written_shares(shares).generate(["q"], GenerationOptions(tokens=9, beams=2, length_penalty=10.0, n=2))
    assert [text.text for text in found] == ["a", "b"]
    assert log(0.4 * 0.1) / (8 / 6) ** 10 > found[0].score == pytest.approx(log(0.4 * 0.9) / (7 / 6) ** 10, abs=1e-5)
