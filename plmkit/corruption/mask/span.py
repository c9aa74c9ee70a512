"""Masking spans."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from plmkit.corruption.contract import Counts, Masking
from plmkit.corruption.mask.masking import Units, check_max_length, masked_rows, ordinary_token, runs_of, units_of
from plmkit.corruption.mask.token import BertMasking, TokenMasking
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.segmentation.choosing import AnySegmenter

NOWHERE = -1


@dataclass(frozen=True, kw_only=True)
class SpanMasking(BertMasking):
    """Mask spans of one to ten words; all tokens of a span are replaced in the same way (Joshi et al., 2020, 3.1).

    Random tokens are drawn by their frequency in the corpus, as in the released code.
    """

    geometric: float = 0.2  # probability that a span ends after each word
    max_length: int = 10  # maximum number of words of a span
    segmenter: AnySegmenter | None = None  # finds the words of languages without spaces; none: words by `##`
    writes: ClassVar[frozenset[str]] = frozenset({"targets", "edges"})
    needs_counts: ClassVar[frozenset[str]] = frozenset({"tokens"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.geometric < 1:
            raise SettingError(
                tr(
                    "corruption.geometric must be a probability between 0 and 1; found {geometric}.",
                    geometric=self.geometric,
                )
            )
        check_max_length(self.max_length)

    def for_validation(self) -> Masking:
        """As in BERT, so that validation losses can be compared; spans are runs of adjacent masked tokens."""
        return EdgedTokens()

    def prepared(self, counts: Counts) -> Masking:
        assert counts.tokens is not None
        return CorpusSpanMasking(**vars(self), corpus=counts.tokens)

    def random_tokens(self, draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        """Any ordinary token, if the corpus is not known."""
        return ordinary_token(draw, vocabulary)

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        length = rows.tokens.shape[1]
        draw, other = draws.uniform(length), self.random_tokens(draws.uniform(length), vocabulary)
        spans = runs_of(self.choose(rows, vocabulary, draws))
        draw = np.take_along_axis(draw, spans.first, axis=1)  # one per span: that of its first token
        made = masked_rows(
            rows, spans.text, vocabulary, draw=draw, other=other,
            mask_share=self.mask_share, random_share=self.random_share,
        )  # fmt: skip
        return replace(made, edges=edges_of(spans, rows.visible))

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is masked: spans that start at random positions, within the budget."""
        length = rows.tokens.shape[1]
        words = units_of(rows, vocabulary)
        sizes, anchors = self.lengths(draws.uniform(length)), draws.uniform(length)
        rooms = np.ceil(self.rate * words.text.sum(axis=1) - 1e-9).astype(np.int64)
        masked = np.zeros_like(words.text)
        for row, room in enumerate(rooms.tolist()):
            spans = zip(sizes[row, :room].tolist(), anchors[row, :room].tolist(), strict=True)
            first, after = words.first[row].tolist(), words.after[row].tolist()
            masked[row, positions(words.text[row], first, after, spans, room)] = True
        return masked

    def lengths(self, draw: np.ndarray) -> np.ndarray:
        """Number of words of a span, for each draw: geometric, truncated at `max_length` and renormalised."""
        shares = (1 - self.geometric) ** np.arange(self.max_length)
        return 1 + np.searchsorted(np.cumsum(shares)[:-1] / shares.sum(), draw, side="right")


@dataclass(frozen=True, kw_only=True)
class CorpusSpanMasking(SpanMasking):
    """Spans whose random tokens come from random positions of the corpus."""

    corpus: np.ndarray = field(repr=False, compare=False)  # (T,)

    def random_tokens(self, draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        return self.corpus[(draw * len(self.corpus)).astype(np.int64)].astype(np.int64)


def positions(
    text: np.ndarray, first: list[int], after: list[int], spans: Iterable[tuple[int, float]], room: int
) -> list[int]:
    """Positions of the spans; the last one ends when the budget is used up, even inside a word.

    An anchor is drawn among the free positions; the released code draws until it finds one.
    """
    is_text = [*text.tolist(), False]
    free = np.flatnonzero(text).tolist()
    chosen: list[int] = []
    for size, anchor in spans:  # each masks at least one token, so there are enough of them
        end = start = first[free[int(anchor * len(free))]]
        while size and is_text[end]:  # [SEP] ends a span
            end = after[end]
            size -= 1
        low, high = bisect_left(free, start), bisect_left(free, end)
        chosen += free[low : min(high, low + room - len(chosen))]
        if len(chosen) == room:
            break
        del free[low:high]
    return chosen


@dataclass(frozen=True, kw_only=True)
class EdgedTokens(TokenMasking):
    """Single tokens masked as in TokenMasking, with the boundaries of the runs they form."""

    writes: ClassVar[frozenset[str]] = frozenset({"targets", "edges"})

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        made = super().__call__(rows, vocabulary, draws)
        assert made.targets is not None
        return replace(made, edges=edges_of(runs_of(made.targets != IGNORE), rows.visible))


def edges_of(spans: Units, visible: np.ndarray) -> np.ndarray:
    """(B, L, 2) for each masked token the positions just before and after its span; NOWHERE if one is missing."""
    before, after = spans.first - 1, spans.after
    seen = np.take_along_axis(visible, np.minimum(after, visible.shape[1] - 1), axis=1)
    whole = spans.text & (before >= 0) & (after < visible.shape[1]) & seen
    return np.where(whole[:, :, None], np.stack([before, after], axis=-1), NOWHERE)
