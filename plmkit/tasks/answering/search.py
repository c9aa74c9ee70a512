"""From scored pairs of tokens to answers: n-best spans of the original text, and the score of having none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plmkit.tasks.answering.heads import APART
from plmkit.tasks.answering.windows import Window, Windows
from plmkit.tasks.contract import Prediction


@dataclass(frozen=True, kw_only=True)
class Span:
    """A part of a context."""

    text: str
    start: int  # in characters
    end: int  # after its last character
    score: float  # sum of both logits, or log-probability
    probability: float = 0.0  # among the n best


@dataclass(frozen=True, kw_only=True)
class Answer(Prediction):
    """`label` is a part of the context, or "" if it has no answer."""

    start: int | None = None  # of the answer in the context, in characters
    end: int | None = None
    null_probability: float | None = None  # that the context has no answer
    null_difference: float | None = None  # above the threshold, there is no answer
    n_best: tuple[Span, ...] = ()  # spans, most probable first


def answer_of(found: np.ndarray, example: Windows, *, n_best: int, max_answer: int, threshold: float | None) -> Answer:
    """The answer of all windows together: (windows, pairs + 1, 3) as a head gives them, the null score last."""
    windows = [window for window in example.inputs if isinstance(window, Window)]
    context, null = example.row.other or "", float(found[:, -1, 2].min())
    apart = bool(found[0, -1, 0] == APART)
    spans = best_spans(found[:, :-1], windows, example.offsets, context, n_best, max_answer)
    scores = np.array([span.score for span in spans] or [0.0])
    if apart:  # a logit of its own
        chance, shares = 1 / (1 + np.exp(-null)), shares_of(scores)
    else:
        with_null = shares_of(np.append(scores, null))
        chance = with_null[-1]
        shares = shares_of(scores) if threshold is None else with_null[:-1]
    made = tuple(replace(span, probability=float(share)) for span, share in zip(spans, shares, strict=False))
    answer = Answer(
        label="", null_probability=float(chance), n_best=made,
        null_difference=null if apart else null - float(scores[0]),
    )  # fmt: skip
    return decided(answer, threshold)


def decided(answer: Answer, threshold: float | None) -> Answer:
    """The best span, unless the null score is above it by more than the threshold; without one, always a span."""
    assert answer.null_difference is not None
    none = threshold is not None and answer.null_difference > threshold
    if none or not answer.n_best:
        return replace(answer, label="", probability=answer.null_probability, start=None, end=None)
    best = answer.n_best[0]
    return replace(answer, label=best.text, probability=best.probability, start=best.start, end=best.end)


def best_spans(
    pairs: np.ndarray, windows: Sequence[Window], offsets: np.ndarray, context: str, n_best: int, max_answer: int
) -> list[Span]:
    """Different texts, best first; none if no pair lies in the context in the right order.

    The released code answers the word "empty" then.
    """
    kept = []
    for found, window in zip(pairs, windows, strict=True):
        scores, count = found[:, 2], len(window.best)
        first, last = (np.where(np.isfinite(scores), found[:, side], -1).astype(int) for side in (0, 1))
        first, last = first - window.second, last - window.second
        inside = (first >= 0) & (first <= last) & (last < count) & (last - first < max_answer)
        inside[inside] = window.best[first[inside]]
        kept.append(np.stack([first + window.begin, last + window.begin, scores], -1)[inside])
    joined = np.concatenate(kept)
    spans: dict[str, Span] = {}
    for first, last, score in joined[np.argsort(-joined[:, 2], kind="stable")].tolist():
        begin, end = int(offsets[int(first), 0]), int(offsets[int(last), 1])
        text = context[begin:end]
        begin += len(text) - len(text.lstrip())
        text = text.strip()
        if text and text not in spans:
            spans[text] = Span(text=text, start=begin, end=begin + len(text), score=score)
            if len(spans) == n_best:
                break
    return list(spans.values())


def naive_answer(found: np.ndarray, example: Windows) -> Answer:
    """A baseline: the best start and the best end, chosen independently, in the window where they score highest.

    No answer if the end comes first, or if one of them is not in the context.
    """
    number = int(found[:, 0, 2].argmax())  # pairs begin with the best of both
    window, (first, last, score) = example.inputs[number], found[number, 0]
    assert isinstance(window, Window)
    first, last = int(first) - window.second, int(last) - window.second
    if not 0 <= first <= last < len(window.best):
        return Answer(label="", probability=None)
    begin, end = example.offsets[first + window.begin, 0], example.offsets[last + window.begin, 1]
    text = (example.row.other or "")[begin:end]
    begin += len(text) - len(text.lstrip())
    text = text.strip()
    span = Span(text=text, start=int(begin), end=int(begin) + len(text), score=float(score))
    return Answer(label=text, start=span.start, end=span.end, n_best=(span,))


def shares_of(scores: np.ndarray) -> np.ndarray:
    """Their softmax."""
    powers = np.exp(scores - scores.max())
    shares: np.ndarray = powers / powers.sum()
    return shares
