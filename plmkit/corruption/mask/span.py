"""Hiding spans."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from plmkit.corruption.mask.masking import Units, check_settings, ordinary_token, runs_of, treat, units_of
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.segmentation.choosing import AnySegmenter

NOWHERE = -1


@dataclass(frozen=True, kw_only=True)
class SpanMasking:
    """Hide spans of one to ten words; all of a span is treated alike (Joshi et al., 2020, 3.1).

    A swapped token is drawn as often as it occurs in the corpus, as in the released code.
    """

    rate: float = 0.15
    geometric: float = 0.2  # the chance that a span ends after each word
    longest: int = 10  # words
    masked: float = 0.8
    swapped: float = 0.1
    segmenter: AnySegmenter | None = None  # finds the words of languages that do not space them; None: `##` tells
    writes: ClassVar = frozenset({"targets", "edges"})

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 < self.geometric < 1:
            raise SettingError(f"corruption.geometric is a probability between 0 and 1; found {self.geometric}.")
        if self.longest < 1:
            raise SettingError(f"corruption.longest is a number of words, 1 or more; found {self.longest}.")

    def for_validation(self) -> "EdgedTokens":
        """As BERT's held-out text is hidden, so that losses compare; hidden tokens that touch are the spans."""
        return EdgedTokens()

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        length = rows.tokens.shape[1]
        draw, other = draws.uniform(length), occurring_token(draws.uniform(length), rows, vocabulary)
        spans = runs_of(self.choose(rows, vocabulary, draws))
        draw = np.take_along_axis(draw, spans.first, axis=1)  # one for a span, that of its first token
        treated = treat(rows, spans.text, vocabulary, draw=draw, other=other, masked=self.masked, swapped=self.swapped)
        return replace(treated, edges=edges_of(spans, rows.visible))

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is hidden: spans from random places on, while there is room."""
        length = rows.tokens.shape[1]
        words = units_of(rows, vocabulary)
        sizes, anchors = self.lengths(draws.uniform(length)), draws.uniform(length)
        rooms = np.ceil(self.rate * words.text.sum(axis=1) - 1e-9).astype(np.int64)
        hidden = np.zeros_like(words.text)
        for row, room in enumerate(rooms.tolist()):
            spans = zip(sizes[row, :room].tolist(), anchors[row, :room].tolist(), strict=True)
            hidden[row, hide(words.text[row], words.first[row].tolist(), words.after[row].tolist(), spans, room)] = True
        return hidden

    def lengths(self, draw: np.ndarray) -> np.ndarray:
        """How many words a span has, for each draw: geometric, cut at the longest and renormalised."""
        shares = (1 - self.geometric) ** np.arange(self.longest)
        return 1 + np.searchsorted(np.cumsum(shares)[:-1] / shares.sum(), draw, side="right")


def occurring_token(draw: np.ndarray, rows: Rows, vocabulary: Vocabulary) -> np.ndarray:
    """For each draw the token at some place of the corpus; any ordinary one where the corpus is not known."""
    if rows.corpus is None:
        return ordinary_token(draw, vocabulary)
    return rows.corpus[(draw * len(rows.corpus)).astype(np.int64)].astype(np.int64)


def hide(
    text: np.ndarray, first: list[int], after: list[int], spans: Iterable[tuple[int, float]], room: int
) -> list[int]:
    """Positions of the spans; the last one stops where the room ends, be it inside a word.

    An anchor is drawn among the places still free: the released code draws again until it finds one.
    """
    is_text = [*text.tolist(), False]
    free = np.flatnonzero(text).tolist()
    hidden: list[int] = []
    for size, anchor in spans:  # each hides one token or more, so there are enough of them
        end = start = first[free[int(anchor * len(free))]]
        while size and is_text[end]:  # [SEP] ends a span
            end = after[end]
            size -= 1
        low, high = bisect_left(free, start), bisect_left(free, end)
        hidden += free[low : min(high, low + room - len(hidden))]
        if len(hidden) == room:
            break
        del free[low:high]
    return hidden


@dataclass(frozen=True, kw_only=True)
class EdgedTokens(TokenMasking):
    """Single tokens hidden as by TokenMasking, with the edges of the runs that they form."""

    writes: ClassVar = frozenset({"targets", "edges"})

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        treated = super().__call__(rows, vocabulary, draws)
        assert treated.targets is not None
        return replace(treated, edges=edges_of(runs_of(treated.targets != IGNORE), rows.visible))


def edges_of(spans: Units, visible: np.ndarray) -> np.ndarray:
    """(B, L, 2) for each hidden token the places just before and just after its span, NOWHERE where one is missing."""
    before, after = spans.first - 1, spans.after
    seen = np.take_along_axis(visible, np.minimum(after, visible.shape[1] - 1), axis=1)
    whole = spans.text & (before >= 0) & (after < visible.shape[1]) & seen
    return np.where(whole[:, :, None], np.stack([before, after], axis=-1), NOWHERE)
