"""How likely a left-to-right model finds a text, token by token."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from plmkit.errors import InputError
from plmkit.generation.author import Author
from plmkit.generation.write import common
from plmkit.layers.cache import Cache

TOKENS_AT_ONCE = 4096
NUMBERS_AT_ONCE = 1 << 24  # of scores over the vocabulary: 64 MB


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """The log-probability of a text from left to right, and what it is a token: exp(-log / tokens)."""

    tokens: int
    log_probability: float
    perplexity: float


@dataclass(frozen=True, kw_only=True)
class Window:
    """A part of a row that the model can read, of which the last tokens are scored."""

    row: int
    begin: int
    tokens: Sequence[int]
    first: int  # the place in the window of the first token that is scored


def likelihood(author: Author, text: str) -> Likelihood:
    (logs,) = text_logs(author, [text])
    if not len(logs):
        raise InputError("The text has no tokens to score.")
    return likelihood_of(logs)


def likelihood_of(logs: np.ndarray) -> Likelihood:
    total = float(logs.sum())
    return Likelihood(tokens=len(logs), log_probability=total, perplexity=math.exp(-total / len(logs)))


def text_logs(author: Author, texts: Sequence[str]) -> list[np.ndarray]:
    """For each text the log-probabilities of its tokens; the first follows the end of another text.

    Where no token ends a text, a text's first token has nothing to be told from, and is not scored.
    """
    start = [author.end] if author.end >= 0 else []
    return token_logs(author, [[*start, *author.tokenizer.encode_plain(text)] for text in texts])


@torch.inference_mode()
def token_logs(author: Author, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """For each row the log-probability of every token but the first."""
    found = [np.zeros(max(0, len(row) - 1)) for row in rows]
    for group in groups([part for number, row in enumerate(rows) for part in windows(number, row, author.longest)]):
        for window, logs in zip(group, group_logs(author, group), strict=True):
            last = window.begin + len(window.tokens) - 1
            found[window.row][window.begin + window.first - 1 : last] = logs[window.first - 1 :]
    return found


def windows(row: int, tokens: Sequence[int], longest: int | None) -> Iterator[Window]:
    """The row; one that is too long in parts that overlap by half, so that every token has half a context before it."""
    size = longest or len(tokens)
    if len(tokens) > 1:
        yield Window(row=row, begin=0, tokens=tokens[:size], first=1)
    done = size
    while done < len(tokens):
        begin = done - size // 2
        yield Window(row=row, begin=begin, tokens=tokens[begin : begin + size], first=done - begin)
        done = begin + size


def groups(parts: Sequence[Window]) -> Iterator[list[Window]]:
    """Windows of like length together."""
    group: list[Window] = []
    for part in sorted(parts, key=lambda part: -len(part.tokens)):
        if group and (len(group) + 1) * len(group[0].tokens) > TOKENS_AT_ONCE:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def group_logs(author: Author, group: Sequence[Window]) -> list[np.ndarray]:
    """All but the first token of each; a beginning that all share is read once."""
    rows = [list(part.tokens) for part in group]
    longest, shared = max(map(len, rows)), max(0, common(rows, min(map(len, rows)) - 1) - 1)
    filled = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=author.writer.device)
    cache = author.writer.model.begin(1 if shared else len(rows), longest)
    pieces = []
    if shared:
        logs = stretch_logs(author, filled[:1, : shared + 1], cache)
        pieces.append(logs.expand(len(rows), -1))
        cache.pick(torch.zeros(len(rows), dtype=torch.long, device=author.writer.device))
    pieces.append(stretch_logs(author, filled[:, shared:], cache))
    found = torch.cat(pieces, 1).cpu().numpy()
    return [line[: len(row) - 1] for line, row in zip(found, rows, strict=True)]


def stretch_logs(author: Author, tokens: torch.Tensor, cache: Cache) -> torch.Tensor:
    """(B, n) tokens to (B, n - 1): the log-probability of each from the one before it on; the last is not read."""
    found = []
    for begin in range(0, tokens.shape[1] - 1, TOKENS_AT_ONCE):
        end = min(begin + TOKENS_AT_ONCE, tokens.shape[1] - 1)
        hidden = author.writer.model.extend(tokens[:, begin:end], cache)  # (B, n, width)
        logs = logs_of(author, hidden.flatten(0, 1), tokens[:, begin + 1 : end + 1].flatten())
        found.append(logs.view(len(tokens), -1))
    return torch.cat(found, 1).double()


def logs_of(author: Author, hidden: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """(N, width) and the (N,) tokens that follow to (N,) their log-probabilities, some rows at a time."""
    step = max(1, NUMBERS_AT_ONCE // author.writer.size)
    parts = zip(hidden.split(step), wanted.split(step), strict=True)
    return -torch.cat(
        [F.cross_entropy(author.writer.vocabulary(some).float(), asked, reduction="none") for some, asked in parts]
    )
