"""Transformer-XL with absolute positions: the baseline that its authors argue against."""

from dataclasses import dataclass

import torch
from torch import Tensor

from plmkit.architectures.segment_recurrence import SegmentAttention, SegmentRecurrenceModel, SegmentSettings
from plmkit.data.vocabulary import Vocabulary
from plmkit.layers.relative import sinusoids


@dataclass(frozen=True, kw_only=True)
class AbsoluteRecurrence(SegmentSettings):
    """Segment recurrence with absolute positions, which restart in every segment (Dai et al., 2019, 3.3)."""

    def build(self, vocabulary: Vocabulary) -> "AbsoluteRecurrenceModel":
        return AbsoluteRecurrenceModel(self, vocabulary.rows)


class AbsoluteAttention(SegmentAttention):
    """Attention scores by content alone: positions are part of the embeddings."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__(width, heads, dropout)
        del self.distance

    def distances(self, waves: Tensor) -> Tensor:
        return self.output.weight.new_zeros(self.heads, len(self.output.weight) // self.heads, len(waves))


class AbsoluteRecurrenceModel(SegmentRecurrenceModel):
    attention = AbsoluteAttention

    def __init__(self, settings: AbsoluteRecurrence, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        for name in ("content_bias", "position_bias"):  # the paper's u and v belong to its relative positions
            nothing = torch.zeros_like(getattr(self, name).data)
            delattr(self, name)
            self.register_buffer(name, nothing, persistent=False)

    def waves(self, keys: int, clamp: int | None = None) -> Tensor:
        """(keys + 1, width) zeros: no distances."""
        return self.content_bias.new_zeros(keys + 1, self.settings.width)

    def read(self, tokens: Tensor, before: int = 0) -> Tensor:
        """Positions start at 0 in every segment; in step-by-step inference a segment has `max_length` tokens."""
        places = torch.arange(before, before + tokens.shape[1], device=tokens.device) % self.settings.max_length
        return self.embed(tokens) + sinusoids(places, self.settings.width).to(self.content_bias.dtype)
