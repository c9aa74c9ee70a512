"""Cells with several labels, and decisions on each label by a threshold."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from plmkit.data.reading.cells import is_blank, is_missing, short, where
from plmkit.data.reading.columns import Search
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError
from plmkit.language import comma, tr
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import unknown_label

SHOWN = 10  # thresholds in a line
COLUMN = "labels"  # preferred to the usual names of a column with one label


def search_in(table: Table, search: Search) -> str | None:
    """The column of label lists, where the user names none: `labels`, or the one that a model was trained on."""
    trained = search.trained.label if search.trained.label in table.columns else None
    return search.named.label or trained or table.heading.called(COLUMN)


def labels_in(cell: object, separator: str, place: str) -> tuple[str, ...] | None:
    """The labels of a cell in order, each once: of a list, a JSON list in text, or text with separators.

    An empty cell or list has no label, which is an answer too; None is a missing value.
    """
    if is_missing(cell):
        return None
    found = parsed(cell) if isinstance(cell, str) else cell
    if isinstance(found, str | int | float):
        parts = [part.strip() for part in str(found).split(separator)]
        return tuple(sorted({part for part in parts if not is_blank(part)}))
    if not isinstance(found, list | tuple) or not all(is_label(one) for one in found):
        raise InputError(
            tr("{place}: labels must be a list of texts; found {found}.", place=place, found=short(str(cell)))
        )
    return tuple(sorted({str(one).strip() for one in found}))


def is_label(value: object) -> bool:
    return isinstance(value, str | int | float) and not is_missing(value) and not is_blank(str(value))


def parsed(text: str) -> object:
    """A JSON list in a cell of text, or the text."""
    if not text.strip().startswith("["):
        return text
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found


def check_lists(rows: Sequence[Row], classes: Sequence[str], path: Path) -> None:
    """Refuse a label that does not occur in training."""
    known = frozenset(classes)
    for row in rows:
        for label in row.label or ():
            if label not in known:
                raise unknown_label(label, classes, where(path, row.line))


def best_threshold(probabilities: np.ndarray, gold: np.ndarray) -> float:
    """The threshold with the best F1 over all these answers, halfway to the next lower one; 0.5 if none is right."""
    order = np.argsort(-probabilities, kind="stable")
    sorted_by, right = probabilities[order], np.cumsum(gold[order])
    scores = 2 * right / (np.arange(1, len(order) + 1) + gold.sum())
    scores[:-1][sorted_by[:-1] == sorted_by[1:]] = 0.0  # equal answers are decided alike
    if not scores.max() > 0:
        return 0.5
    best = int(scores.argmax())
    below = sorted_by[best + 1] if best + 1 < len(order) else 0.0
    return float((sorted_by[best] + below) / 2)


def thresholds_line(thresholds: Mapping[str, float]) -> str:
    """One number where all classes have the same, else one for each of the first."""
    if len(set(thresholds.values())) == 1:
        found = f"{next(iter(thresholds.values())):.3g}"
    else:
        found = comma().join(f"{short(name)} {value:.3g}" for name, value in [*thresholds.items()][:SHOWN])
        found += tr(", {count} more", count=len(thresholds) - SHOWN) if len(thresholds) > SHOWN else ""
    return tr("Threshold of the probabilities, chosen for the best F1: {found}.", found=found)
