"""What is predicted for a text: a tag for each word, and the spans that the tags mark."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plmkit.tasks.contract import Prediction
from plmkit.tasks.tagging.rows import WordRow
from plmkit.tasks.tagging.schemes import PLAIN, spans_of

DIGITS = 6  # of probabilities in files


@dataclass(frozen=True, kw_only=True)
class FoundSpan:
    """A span of the text, cut from its own characters."""

    start: int
    end: int
    label: str
    text: str
    probability: float  # that of its least probable tag


@dataclass(frozen=True, kw_only=True)
class TagPrediction(Prediction):
    """Tags of words, and spans of characters; `label` is the tags again, None for a blank text."""

    words: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tag_probabilities: tuple[float, ...] = ()
    spans: tuple[FoundSpan, ...] = ()  # none where tags mark no spans


@dataclass(frozen=True, kw_only=True)
class SlotsPrediction(TagPrediction):
    """The same, and the intent, to which `probability` and `probabilities` belong."""

    intent: str | None = None


def prediction_of(row: WordRow, tags: Sequence[str], probabilities: Sequence[float], scheme: str) -> dict[str, Any]:
    """What both kinds of prediction have."""
    found = []
    for span in spans_of(tags) if scheme != PLAIN else ():
        start, end = row.spans[span.begin][0], row.spans[span.end - 1][1]
        probability = min(probabilities[span.begin : span.end])
        found.append(
            FoundSpan(start=start, end=end, label=span.label, text=row.text[start:end], probability=probability)
        )
    return {
        "label": tuple(tags),
        "words": tuple(row.words),
        "tags": tuple(tags),
        "tag_probabilities": tuple(probabilities),
        "spans": tuple(found),
    }


def rendered(prediction: Prediction, scheme: str) -> dict[str, Any]:
    """The columns of a file: spans, if tags mark any, words, tags and their probabilities; None for a blank text."""
    there = isinstance(prediction, TagPrediction) and prediction.label is not None
    found = prediction if there and isinstance(prediction, TagPrediction) else None
    spans = [asdict(span) | {"probability": round(span.probability, DIGITS)} for span in found.spans] if found else None
    cells: dict[str, Any] = {} if scheme == PLAIN else {"predicted_spans": spans}
    return cells | {
        "predicted_words": list(found.words) if found else None,
        "predicted_tags": list(found.tags) if found else None,
        "tag_probabilities": [round(one, DIGITS) for one in found.tag_probabilities] if found else None,
    }


def conll(rows: Sequence[WordRow], predictions: Sequence[Prediction]) -> str:
    """One word and its tag per line, a blank line after each sentence."""
    sentences = [
        "".join(f"{word}\t{tag}\n" for word, tag in zip(row.words, found.label, strict=True))
        for row, found in zip(rows, predictions, strict=True)
        if found.label is not None
    ]
    return "\n".join(sentences)
