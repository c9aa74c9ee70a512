"""Masking regions of images."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from plmkit.corruption.contract import Masking
from plmkit.data.randomness import Draws
from plmkit.data.region_store import MOST_REGIONS
from plmkit.data.rows import SEEN, ZEROED, Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr


@dataclass(frozen=True, kw_only=True)
class RegionMasking(Masking):
    """Mask regions of the image: of 90% the features become 0, 10% stay (Lu et al., 2019, 3.2)."""

    region_rate: float = 0.15  # share of the regions that are masked
    zero_share: float = 0.9  # share of the masked regions whose features become 0; the others stay
    writes: ClassVar[frozenset[str]] = frozenset({"region_masks"})

    def __post_init__(self) -> None:
        if not (0 < self.region_rate < 1 and 0 <= self.zero_share <= 1):
            raise SettingError(
                tr(
                    "corruption.region_rate must be above 0 and below 1, and corruption.zero_share from 0 to 1; found "
                    "{rate} and {share}.",
                    rate=self.region_rate,
                    share=self.zero_share,
                )
            )

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        """Every region by itself; how many there are, the network knows."""
        masked = draws.uniform(MOST_REGIONS) < self.region_rate
        treatment = np.where(draws.uniform(MOST_REGIONS) < self.zero_share, ZEROED, SEEN)
        return replace(rows, region_masks=np.where(masked, treatment, 0).astype(np.int8))
