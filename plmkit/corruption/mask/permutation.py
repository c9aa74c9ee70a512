"""Predicting tokens in a random order: the text is unchanged, the order decides which position attends to which."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from plmkit.corruption.contract import Masking
from plmkit.corruption.mask.masking import candidates, check_max_length, check_rate
from plmkit.corruption.mask.word import weights
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.segmentation.starts import word_starts


@dataclass(frozen=True, kw_only=True)
class PermutedSpans(Masking):
    """Predict spans of one to five pieces, each piece from those before it in a random order.

    Yang et al., 2019, 2.3 and A.4; the choice of spans and the attention order follow the released code.
    """

    rate: float = 1 / 6  # share of the tokens that are predicted, rounded down
    max_length: int = 5  # maximum number of pieces of a span; n have a probability proportional to 1/n
    context: int = 6  # pieces around a span that are not predicted, per piece of the span
    reuse: float = 0.5  # share of a row, its first part, that does not attend to the rest; each part has its own order
    writes: ClassVar[frozenset[str]] = frozenset({"targets", "attention_order"})

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_max_length(self.max_length)
        if self.context < 1:
            raise SettingError(
                tr("corruption.context must be a number of pieces, at least 1; found {context}.", context=self.context)
            )
        if not 0 <= self.reuse < 1:
            raise SettingError(
                tr(
                    "corruption.reuse must be a share of the row, at least 0 and below 1; found {reuse}.",
                    reuse=self.reuse,
                )
            )

    def for_validation(self) -> Self:
        """The paper's rate."""
        return type(self)(reuse=self.reuse)

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        count, width = rows.tokens.shape
        sizes, lefts, fills, ranks = (draws.uniform(width) for _ in range(4))
        text, starts = candidates(rows.tokens, vocabulary), starts_of(rows, vocabulary)
        predicted = np.zeros_like(text)
        order = np.zeros((count, width, 2), dtype=np.int64)
        order[:, :, 0] = 3 * width  # padding: nothing attends to it
        for row, length in enumerate(rows.visible.sum(axis=1).tolist()):
            border = round(self.reuse * length)
            goal = max(1, int(self.rate * length))
            step = -1 if rows.reversed is not None and rows.reversed[row] else 1
            for part, needed in ((slice(0, border), goal - goal // 2), (slice(border, length), goal // 2 or 1)):
                needed = goal if border == 0 else needed
                if part.start < part.stop:  # words begin where they do in the text, in either direction
                    chosen = self.choose(
                        text[row, part][::step], starts[row, part][::step], needed,
                        sizes[row, part].tolist(), lefts[row, part].tolist(), fills[row, part],
                    )  # fmt: skip
                    predicted[row, part] = chosen[::step]
            order[row, :length] = attention_order(
                ranks[row, :length], predicted[row, :length], text[row, :length], border
            )
        return replace(rows, targets=np.where(predicted, rows.tokens, IGNORE), attention_order=order)

    def choose(
        self, text: np.ndarray, starts: np.ndarray, needed: int, sizes: list[float], lefts: list[float],
        fills: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """(L,) True where a token is predicted: spans from left to right, then single tokens to fill up."""
        chosen = np.zeros_like(text)
        for begin, end in self.spans(starts.tolist(), needed, sizes, lefts):
            chosen[begin:end] = True
        chosen &= text
        free = np.flatnonzero(text & ~chosen)
        missing = max(0, needed - int(chosen.sum()))
        chosen[free[np.argsort(fills[free])[:missing]]] = True
        return chosen

    def spans(
        self, starts: list[bool], needed: int, sizes: list[float], lefts: list[float]
    ) -> list[tuple[int, int]]:  # fmt: skip
        """Each starts at a word and has the drawn number of pieces, even if it ends inside another word."""
        found: list[tuple[int, int]] = []
        place = 0
        for size, left in zip(sizes, lefts, strict=True):
            if needed <= 0 or place >= len(starts):
                break
            pieces = min(self.pieces(size), needed)
            around = self.context * pieces
            before = int(left * around)
            begin = place + before
            while begin < len(starts) and not starts[begin]:
                begin += 1
            end = begin + pieces
            if end >= len(starts):
                break
            found.append((begin, end))
            needed -= pieces
            place = end + around - before
        return found

    def pieces(self, draw: float) -> int:
        """Number of pieces of a span: n with a probability proportional to 1/n."""
        sums = weights(self.max_length)
        return 1 + bisect_right(sums, draw * sums[-1], 0, self.max_length - 1)


def starts_of(rows: Rows, vocabulary: Vocabulary) -> np.ndarray:
    """(B, L) True where a word begins, also in reversed rows."""
    if rows.reversed is None:
        return word_starts(rows, vocabulary)
    turned = rows.reversed[:, None]
    natural = replace(rows, tokens=np.where(turned, rows.tokens[:, ::-1], rows.tokens))
    starts = word_starts(natural, vocabulary)
    return np.where(turned, starts[:, ::-1], starts)


def attention_order(draw: np.ndarray, predicted: np.ndarray, text: np.ndarray, border: int) -> np.ndarray:
    """(L, 2) position i attends to position j if i's second number is above j's first (zihangdai/xlnet, _local_perm).

    All attend to text that is not predicted, which attends to no predicted text; [SEP] and [CLS] are part of the
    order and attend to themselves. Positions before the border never attend beyond it; those after it attend to all
    before it.
    """
    length = len(draw)
    order = np.zeros((length, 2), dtype=np.int64)
    for begin, end, offset in ((0, border, 0), (border, length, border + 1)):
        part = slice(begin, end)
        rank = np.argsort(np.argsort(draw[part]))
        read = np.where(text[part] & ~predicted[part], -1, rank)
        order[part, 0] = offset + read
        order[part, 1] = offset + np.where(predicted[part], read, read + 1)
    return order
