"""Log-probabilities equal a loop that asks for one token at a time, alone or side by side, in windows or whole."""

import math

import numpy as np
import pytest
import torch
from toy_models import LINES, toy

from plmkit.architectures.contract import CacheSettings
from plmkit.errors import InputError
from plmkit.generation import likelihood
from plmkit.generation.likelihood import likelihood as likelihood_of
from plmkit.generation.likelihood import text_log_probabilities, token_log_probabilities, windows


@torch.inference_mode()
def by_hand(engine, tokens: list[int]) -> list[float]:
    """Each token from all before it, with a fresh cache every time."""
    model, found = engine.model.model, []
    for place in range(1, len(tokens)):
        hidden = model.extend(torch.tensor([tokens[:place]]), model.begin(CacheSettings(1, place)))[0, -1]
        found.append(float(engine.model.head(hidden).log_softmax(-1)[tokens[place]]))
    return found


def test_texts_side_by_side_have_the_log_probabilities_of_a_loop():
    engine = toy()
    rows = [engine.tokenizer.encode(line) for line in LINES]
    for row, logs in zip(rows, token_log_probabilities(engine, rows), strict=True):
        assert logs == pytest.approx(by_hand(engine, row), abs=1e-5)


def test_a_common_prefix_of_rows_is_read_once(monkeypatch):
    engine = toy()
    rows = [engine.tokenizer.encode(f"the cat sees a house. {word}") for word in ("moon", "bird", "bird song")]
    read = []
    extend = engine.model.model.extend
    monkeypatch.setattr(engine.model.model, "extend", lambda t, c: read.append(tuple(t.shape)) or extend(t, c))
    found = token_log_probabilities(engine, rows)
    assert read[0][0] == 1 and read[0][1] > 5
    for row, logs in zip(rows, found, strict=True):
        assert logs == pytest.approx(by_hand(engine, row), abs=1e-5)


def test_a_long_row_is_read_in_steps_of_a_bounded_size(monkeypatch):
    engine, row = toy(), toy().tokenizer.encode(LINES[0] * 3)
    whole = token_log_probabilities(engine, [row])[0]
    monkeypatch.setattr(likelihood, "CHUNK", 7)
    monkeypatch.setattr(likelihood, "LOGITS_AT_ONCE", 1000)
    assert token_log_probabilities(engine, [row])[0] == pytest.approx(whole, abs=1e-5)


def test_a_row_longer_than_the_context_is_scored_in_windows_that_overlap_by_half():
    parts = list(windows(10, 4))
    assert [(part.begin, part.end) for part in parts] == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert [part.first for part in parts] == [0, 4, 6, 8]
    engine = toy(max_length=4)
    tokens = engine.tokenizer.encode(LINES[1])
    expected = np.zeros(len(tokens) - 1)
    for part in windows(len(tokens) - 1, 4):
        logs = by_hand(engine, tokens[part.begin : part.end + 1])[part.first - part.begin :]
        expected[part.first : part.end] = logs
    assert token_log_probabilities(engine, [tokens])[0] == pytest.approx(expected, abs=1e-5)


def test_the_last_tokens_of_rows_are_scored_alone_as_within_the_whole_row():
    engine = toy(max_length=6)
    rows = [engine.tokenizer.encode(line) for line in (*LINES, LINES[0][:5])]
    whole = token_log_probabilities(engine, rows)
    for first in (1, 2, 5):
        firsts = [min(first, len(row) - 1) for row in rows]
        found = token_log_probabilities(engine, rows, firsts)
        for logs, every, start in zip(found, whole, firsts, strict=True):
            assert len(logs) == len(every) - start + 1
            assert logs[0] == pytest.approx(every[start - 1], abs=1e-5)


def test_progress_counts_every_scored_token_once():
    engine, counts = toy(max_length=6), []
    rows = [engine.tokenizer.encode(line) for line in LINES]
    token_log_probabilities(engine, rows, advance=counts.append)
    assert sum(counts) == sum(len(row) - 1 for row in rows)


def test_perplexity_is_the_inverse_of_the_mean_probability():
    engine = toy()
    found = likelihood_of(engine, LINES[0])
    (logs,) = text_log_probabilities(engine, [LINES[0]])
    assert found.tokens == len(logs)
    assert found.log_probability == pytest.approx(float(logs.sum()))
    assert found.perplexity == pytest.approx(math.exp(-logs.mean()))


def test_a_text_without_tokens_cannot_be_scored():
    with pytest.raises(InputError, match="no tokens"):
        likelihood_of(toy(), "")
