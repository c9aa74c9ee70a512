"""Log-probabilities equal a loop that asks for one token at a time, alone or side by side, in windows or whole."""

import math

import numpy as np
import pytest
import torch
from toy import LINES, toy

from plmkit.errors import InputError
from plmkit.generation import likelihood
from plmkit.generation.likelihood import likelihood as judge
from plmkit.generation.likelihood import text_logs, token_logs, windows


@torch.inference_mode()
def by_hand(author, tokens: list[int]) -> list[float]:
    """Each token from all before it, with a fresh cache every time."""
    model, found = author.writer.model, []
    for place in range(1, len(tokens)):
        hidden = model.extend(torch.tensor([tokens[:place]]), model.begin(1, place))[0, -1]
        found.append(float(author.writer.vocabulary(hidden).log_softmax(-1)[tokens[place]]))
    return found


def test_texts_side_by_side_have_the_log_probabilities_of_a_loop():
    author = toy()
    rows = [author.tokenizer.encode(line) for line in LINES]
    for row, logs in zip(rows, token_logs(author, rows), strict=True):
        assert logs == pytest.approx(by_hand(author, row), abs=1e-5)


def test_rows_that_begin_alike_read_their_beginning_once(monkeypatch):
    author = toy()
    rows = [author.tokenizer.encode(f"the cat sees a house. {word}") for word in ("moon", "bird", "bird song")]
    read = []
    extend = author.writer.model.extend
    monkeypatch.setattr(author.writer.model, "extend", lambda t, c: read.append(tuple(t.shape)) or extend(t, c))
    found = token_logs(author, rows)
    assert read[0][0] == 1 and read[0][1] > 5
    for row, logs in zip(rows, found, strict=True):
        assert logs == pytest.approx(by_hand(author, row), abs=1e-5)


def test_a_long_row_is_read_in_steps_of_a_bounded_size(monkeypatch):
    author, row = toy(), toy().tokenizer.encode(LINES[0] * 3)
    whole = token_logs(author, [row])[0]
    monkeypatch.setattr(likelihood, "TOKENS_AT_ONCE", 7)
    monkeypatch.setattr(likelihood, "NUMBERS_AT_ONCE", 1000)
    assert token_logs(author, [row])[0] == pytest.approx(whole, abs=1e-5)


def test_a_row_longer_than_the_context_is_scored_in_windows_that_overlap_by_half():
    parts = list(windows(0, list(range(11)), 4))
    assert [list(part.tokens) for part in parts] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9], [8, 9, 10]]
    assert [list(part.tokens[part.first :]) for part in parts] == [[1, 2, 3], [4, 5], [6, 7], [8, 9], [10]]
    author = toy(longest=4)
    tokens = author.tokenizer.encode(LINES[1])
    expected = np.zeros(len(tokens) - 1)
    for part in windows(0, tokens, 4):
        logs = by_hand(author, list(part.tokens))[part.first - 1 :]
        expected[part.begin + part.first - 1 :][: len(logs)] = logs
    assert token_logs(author, [tokens])[0] == pytest.approx(expected, abs=1e-5)


def test_perplexity_is_the_inverse_of_the_mean_probability():
    author = toy()
    found = judge(author, LINES[0])
    (logs,) = text_logs(author, [LINES[0]])
    assert found.tokens == len(logs)
    assert found.log_probability == pytest.approx(float(logs.sum()))
    assert found.perplexity == pytest.approx(math.exp(-logs.mean()))


def test_a_text_without_tokens_cannot_be_scored():
    with pytest.raises(InputError, match="no tokens"):
        judge(toy(), "")
