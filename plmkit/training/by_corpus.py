"""Losses on the held-out text of each of several corpora: their names in logs and results, and in words."""

from collections.abc import Mapping
from typing import Any

from plmkit.language import comma, tr

CORPORA = "corpora/"  # how the name of such a loss begins: corpora/NAME/OBJECTIVE, or STREAM.OBJECTIVE
SHOWN = 6


def losses_by_corpus(scores: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The losses on the held-out text of each corpus, by its name."""
    found: dict[str, dict[str, float]] = {}
    for name, loss in scores.items():
        if name.startswith(CORPORA):
            corpus, _, objective = name.removeprefix(CORPORA).rpartition("/")
            found.setdefault(corpus, {})[objective] = loss
    return found


def in_words(by_corpus: Mapping[str, Mapping[str, float]]) -> str:
    """Of the first corpora, for a line on the screen."""
    named = [
        f"{corpus}: " + comma().join(f"{name} {loss:.3f}" for name, loss in losses.items())
        for corpus, losses in by_corpus.items()
    ]
    return tr("; ").join(named[:SHOWN]) + (tr("; ") + "…") * (len(named) > SHOWN)
