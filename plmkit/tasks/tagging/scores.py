"""Scores of tags: entities by seqeval in its two modes, and each word alone."""

from collections.abc import Sequence
from typing import Any

from plmkit.tasks.tagging.schemes import BIOES, OUTSIDE, PLAIN, spans_of

Tags = Sequence[Sequence[str]]


def tag_scores(predicted: Tags, gold: Tags, scheme: str) -> dict[str, Any]:
    """Of spans, precision, recall and F1 in seqeval's default and strict mode; accuracy of words; one row per type.

    They disagree on spans that a model predicts with mistakes: the default mode begins one at I- without B-, the strict
    mode drops it.
    """
    pairs = [pair for one, other in zip(predicted, gold, strict=True) for pair in zip(one, other, strict=True)]
    accuracy = sum(found == true for found, true in pairs) / max(1, len(pairs))
    if scheme == PLAIN:
        return {"accuracy": accuracy, **macro(pairs), "words": len(pairs), "types": plain_types(pairs)}
    return {**entity_scores(predicted, gold, scheme), "accuracy": accuracy, "words": len(pairs)}


def entity_scores(predicted: Tags, gold: Tags, scheme: str) -> dict[str, Any]:
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    from seqeval.metrics.v1 import precision_recall_fscore_support as strictly
    from seqeval.scheme import IOB2, IOBES

    some = [pair for pair in zip(predicted, gold, strict=True) if any(tag != OUTSIDE for tags in pair for tag in tags)]
    predicted, gold = [one for one, _ in some], [other for _, other in some]  # the rest has no spans, and takes time
    types = sorted({span.label for tags in (*predicted, *gold) for span in spans_of(tags)})
    names = ("precision", "recall", "f1")
    if not types:
        return {**dict.fromkeys((*names, *(f"strict_{name}" for name in names)), 0.0), "types": []}
    both: tuple[list[list[str]], ...] = [*map(list, gold)], [*map(list, predicted)]
    schemes = {"scheme": IOBES if scheme == BIOES else IOB2}
    total = precision_recall_fscore_support(*both, average="micro", zero_division=0)
    strict = strictly(*both, average="micro", zero_division=0, **schemes)
    each = precision_recall_fscore_support(*both, average=None, zero_division=0)
    rows = [
        {"type": name, "precision": float(p), "recall": float(r), "f1": float(f), "support": int(count)}
        for name, p, r, f, count in zip(types, *each, strict=True)
    ]
    found = {name: float(value) for name, value in zip(names, total[:3], strict=True)}
    found |= {f"strict_{name}": float(value) for name, value in zip(names, strict[:3], strict=True)}
    return {**found, "types": rows}


def strict_spans(sentences: Tags, scheme: str) -> list[list[Any]]:
    """The spans of each sentence in seqeval's strict mode."""
    from seqeval.scheme import IOB2, IOBES, Entities

    marked = [[*tags] if any(tag != OUTSIDE for tag in tags) else [] for tags in sentences]  # the rest takes time
    spans: list[list[Any]] = Entities(marked, IOBES if scheme == BIOES else IOB2).entities
    return spans


def macro(pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    rows = plain_types(pairs)
    return {"macro_f1": sum(row["f1"] for row in rows) / max(1, len(rows))}


def plain_types(pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each tag."""
    from sklearn import metrics

    if not pairs:
        return []
    predicted, gold = zip(*pairs, strict=True)
    names = sorted({*predicted, *gold})
    each = metrics.precision_recall_fscore_support(gold, predicted, labels=names, zero_division=0)
    return [
        {"type": name, "precision": float(p), "recall": float(r), "f1": float(f), "support": int(count)}
        for name, p, r, f, count in zip(names, *each, strict=True)
    ]
