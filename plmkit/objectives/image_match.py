"""Whether a caption describes an image."""

from dataclasses import dataclass
from typing import ClassVar

from plmkit.objectives.contract import BuiltModel, Objective
from plmkit.objectives.sentence_pair import SentencePairHead


@dataclass(frozen=True, kw_only=True)
class ImageMatch(Objective):
    """Does the caption describe the image? 0: yes, 1: it is that of another image (Li et al., 2019, 3.3)."""

    name: ClassVar = "image_match"
    label: ClassVar = "match"
    reads: ClassVar = frozenset({"pooled", "other_caption"})

    def build(self, model: BuiltModel) -> SentencePairHead:
        return SentencePairHead(model.settings.pooled_width, "other_caption")
