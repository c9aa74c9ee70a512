"""Masking units of knowledge: characters, words, phrases, entities."""

from dataclasses import dataclass

import numpy as np

from plmkit.corruption.mask.masking import NEVER, units_of
from plmkit.corruption.mask.token import BertMasking
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.segmentation.choosing import AnySegmenter

LEVELS = ("character", "word", "phrase", "entity")  # from small to large


@dataclass(frozen=True, kw_only=True)
class UnitMasking(BertMasking):
    """Mask whole units, each drawn independently: characters, phrases or entities (Sun et al., 2019, 3.2)."""

    levels: tuple[str, ...] = ("character", "phrase", "entity")  # sizes of the units: character, word, phrase or entity
    shares: tuple[float, ...] = (1.0, 0.0, 0.0)  # share of the rows masked at each level
    segmenter: AnySegmenter | None = None  # finds words, phrases and entities; none: words only, by `##`

    def __post_init__(self) -> None:
        super().__post_init__()
        for level in self.levels:
            if level not in LEVELS:
                raise SettingError(
                    tr(
                        "corruption.levels: unknown level '{level}'; choose from {levels}.",
                        level=level,
                        levels=comma().join(LEVELS),
                    )
                )
        shares = self.shares
        if len(shares) != len(self.levels) or min(shares, default=-1) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise SettingError(
                tr(
                    "corruption.shares needs one share for each of {levels}, at least 0 and adding up to 1; found "
                    "{shares}.",
                    levels=comma().join(self.levels),
                    shares=list(shares),
                )
            )

    @property
    def levels_used(self) -> tuple[str, ...]:
        shares = zip(self.levels, self.shares, strict=True)
        return tuple(sorted((level for level, share in shares if share), key=LEVELS.index))

    @property
    def level(self) -> str:
        return max((*self.levels_used, "word"), key=LEVELS.index)

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is masked; if no unit of a row is drawn, the lowest score is."""
        scores = draws.uniform(rows.tokens.shape[1])
        chance = draws.uniform(1)[:, 0]
        level = np.searchsorted(np.cumsum(self.shares)[:-1], chance, side="right")  # (B,)
        masked = np.zeros(rows.tokens.shape, dtype=bool)
        for number in np.unique(level):
            units = units_of(rows, vocabulary, self.levels[number])
            own = np.where(units.begins, scores, NEVER)
            chosen = own <= np.maximum(self.rate, own.min(axis=1, keepdims=True))
            masked = np.where((level == number)[:, None], units.whole(chosen), masked)
        return masked

    def random_tokens(self, draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        """All tokens but number 0, as in the released code."""
        return 1 + (draw * (len(vocabulary) - 1)).astype(np.int64)
