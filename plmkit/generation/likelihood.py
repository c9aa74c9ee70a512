"""Log-probabilities of the tokens of a text under a causal language model; long texts are read in windows."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.errors import InputError
from plmkit.generation.engine import Engine
from plmkit.generation.language_model import LanguageModel
from plmkit.language import tr

TOKENS_AT_ONCE = 4096
LOGITS_AT_ONCE = 1 << 24  # 64 MB
CHUNK = 256  # tokens per row that a model with a state or a recurrent memory reads at once

Advance = Callable[[int], None]  # called with the number of tokens that were scored


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """The log-probability of a text, and its perplexity: exp(-log-probability per token)."""

    tokens: int
    log_probability: float
    perplexity: float


@dataclass(frozen=True, kw_only=True)
class Window:
    """Tokens of a row that are read together; predictions are scored from position `first` on."""

    row: int
    begin: int
    end: int
    first: int


def likelihood(engine: Engine, text: str) -> Likelihood:
    (logs,) = text_log_probabilities(engine, [text])
    if not len(logs):
        raise InputError(tr("The text has no tokens to score."))
    total = float(logs.sum())
    return Likelihood(tokens=len(logs), log_probability=total, perplexity=math.exp(-total / len(logs)))


def text_log_probabilities(engine: Engine, texts: Sequence[str]) -> list[np.ndarray]:
    """The log-probabilities of the tokens of each text, the first one given an end token.

    Without an end token in the vocabulary, the first token of a text has no context and is not scored.
    """
    start = [engine.end] if engine.end >= 0 else []
    return token_log_probabilities(engine, [[*start, *engine.tokenizer.encode_plain(text)] for text in texts])


@torch.inference_mode()
def token_log_probabilities(
    engine: Engine, rows: Sequence[Sequence[int] | np.ndarray], firsts: Sequence[int] | None = None, *,
    size: int | None = None, stride: int | None = None, advance: Advance | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """The log-probability of every token of each row but the first, or of the tokens from `firsts` on.

    A row longer than the context, or than `size`, is read in windows; by default they overlap by half, so that every
    token has at least half a context.
    """
    firsts = firsts or [1] * len(rows)
    found = [np.zeros(max(0, len(row) - first)) for row, first in zip(rows, firsts, strict=True)]
    every = [
        window
        for number, (row, first) in enumerate(zip(rows, firsts, strict=True))
        for window in windows(len(row) - 1, size or engine.max_length, stride, row=number, first=first - 1)
    ]
    arrays = [np.asarray(row, dtype=np.int64) for row in rows]
    for group in groups(every):
        for window, logs in zip(group, group_log_probabilities(engine.model, arrays, group, advance), strict=True):
            begin = window.first - (firsts[window.row] - 1)
            found[window.row][begin : begin + len(logs)] = logs
    return found


def windows(
    length: int, size: int | None, stride: int | None = None, *, row: int = 0, first: int = 0
) -> Iterator[Window]:
    """Windows over `length` tokens; predictions are scored from position `first` on.

    Each is `size` tokens long and ends `stride` tokens after the previous one (default: half its size); the last ends
    with the text, so that its tokens have as much context as others.
    """
    size = min(size or length, length)
    stride = stride or max(1, size // 2)
    end = size
    while first < length:
        while end <= first:
            end = min(end + stride, length)
        yield Window(row=row, begin=end - size, end=end, first=first)
        first, end = end, min(end + stride, length)


def groups(every: Sequence[Window]) -> Iterator[list[Window]]:
    """Windows grouped by similar length."""
    group: list[Window] = []
    for window in sorted(every, key=lambda window: window.begin - window.end):
        if group and (len(group) + 1) * (group[0].end - group[0].begin) > TOKENS_AT_ONCE:
            yield group
            group = []
        group.append(window)
    if group:
        yield group


def group_log_probabilities(
    model: LanguageModel, rows: Sequence[np.ndarray], group: Sequence[Window], advance: Advance | None = None
) -> list[np.ndarray]:
    """The log-probabilities of the scored tokens of each window."""
    longest = max(window.end - window.begin for window in group)
    padded = np.zeros((len(group), longest + 1), dtype=np.int64)
    scored = np.zeros((len(group), longest), dtype=bool)
    for line, window in enumerate(group):
        part = rows[window.row][window.begin : window.end + 1]
        padded[line, : len(part)] = part
        scored[line, window.first - window.begin : window.end - window.begin] = True
    tokens, wanted = torch.from_numpy(padded).to(model.device), torch.from_numpy(scored).to(model.device)
    shared = shared_inputs(padded, min(window.end - window.begin for window in group))
    found = torch.zeros(wanted.shape, dtype=torch.double, device=model.device)
    for begin, end, hidden in states_of(model, tokens[:, :-1], shared):
        targets, here = tokens[: len(hidden), begin + 1 : end + 1], wanted[:, begin:end]
        here = here.any(0, keepdim=True) if len(hidden) < len(here) else here
        logs = torch.zeros(here.shape, dtype=torch.double, device=model.device)
        logs[here] = log_probabilities(model, hidden[here], targets[here]).double()
        found[:, begin:end] = logs  # one line for all rows where they share these tokens
        if advance is not None:
            advance(int(scored[:, begin:end].sum()))
    values = found.cpu().numpy()
    return [values[line][scored[line]] for line in range(len(group))]


def shared_inputs(padded: np.ndarray, shortest: int) -> int:
    """The length of the prefix that all rows share, next tokens included."""
    if len(padded) == 1:
        return 0
    same = (padded[:, :shortest] == padded[:1, :shortest]).all(0)
    return max(0, (shortest if same.all() else int(same.argmin())) - 1)


def states_of(model: LanguageModel, tokens: Tensor, shared: int) -> Iterator[tuple[int, int, Tensor]]:
    """Begin, end and states of chunks of (B, L) tokens; a prefix that all rows share is read once, in one row."""
    rows, length = tokens.shape
    if model.causal and not shared:
        yield 0, length, model.states(tokens)
        return
    cache = model.begin(1 if shared else rows, length)
    begin, chunk = 0, TOKENS_AT_ONCE if model.causal else CHUNK
    while begin < length:
        if begin == shared > 0:
            cache.pick(torch.zeros(rows, dtype=torch.long, device=model.device))
        end = min(begin + chunk, shared if begin < shared else length)
        yield begin, end, model.model.extend(tokens[: 1 if begin < shared else rows, begin:end], cache)
        begin = end


def log_probabilities(model: LanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """(N, width) states and (N,) next tokens to (N,) log-probabilities, in chunks."""
    step = max(1, LOGITS_AT_ONCE // model.vocabulary_size)
    parts = zip(hidden.split(step), targets.split(step), strict=True)
    return -torch.cat(
        [F.cross_entropy(model.head(some).float(), following, reduction="none") for some, following in parts]
    )
