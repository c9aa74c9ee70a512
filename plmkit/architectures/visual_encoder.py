"""Text and image in one stream: image regions as further positions of a BERT (Li et al., 2019)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from plmkit.architectures.encoder import EncoderModel, read_through
from plmkit.architectures.seeing import SeeingEncoder, eye_of, joined_with, look_at
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import INITIALISERS
from plmkit.language import tr
from plmkit.layers.packing import Packing

VISUAL = 1  # segment of all regions; their position is 0, as they have no order


@dataclass(frozen=True, kw_only=True)
class VisualEncoder(SeeingEncoder):
    """BERT that reads image regions after the text, in the same layers (Li et al., 2019)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segments <= VISUAL:
            raise SettingError(tr("architecture.segments must be at least 2: one is that of image regions."))

    @property
    def copied_weights(self) -> dict[str, str]:
        """Visual tables begin as copies of those of the text."""
        return {f"model.visual.{part}.weight": f"model.embed.{part}.weight" for part in ("segments", "positions")}

    def build(self, vocabulary: Vocabulary) -> "VisualEncoderModel":
        return VisualEncoderModel(self, vocabulary.rows)


class VisualEncoderModel(EncoderModel):
    def __init__(self, settings: VisualEncoder, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        self.visual = VisualEmbedding(settings)
        with torch.no_grad():
            self.visual.segments.weight.copy_(self.embed.segments.weight)
            self.visual.positions.weight.copy_(self.embed.positions.weight)
        self.eye = eye_of(settings)

    def forward(self, batch: Batch) -> States:
        seen = look_at(batch, self.eye, self.settings)
        if seen is None:
            return super().forward(batch)
        source, length = batch.source, batch.source.tokens.shape[1]
        positions = self.settings.first + torch.arange(length, device=source.tokens.device)
        text = self.embed.total(source.tokens, source.segment_ids, positions)  # (B, L, embedding)
        packing = Packing(torch.cat([source.visible, seen.visible], 1))
        both = packing.pack(torch.cat([text, self.visual(seen.features)], 1))
        hidden = self.embed.dropout(self.embed.norm(both))
        if self.project is not None:
            hidden = self.project(hidden)
        states, first = read_through(list(self.blocks), hidden, packing, joined_with(batch, seen))
        layers = None if states.layers is None else tuple(layer[:, :length] for layer in states.layers)
        return replace(states, hidden=states.hidden[:, :length], layers=layers, pooled=self.pool(first))


class VisualEmbedding(nn.Module):
    """Features of regions projected, with the visual segment and position."""

    def __init__(self, settings: VisualEncoder) -> None:
        super().__init__()
        width = settings.embedding or settings.width
        self.project = nn.Linear(settings.features, width)
        self.segments = nn.Embedding(settings.segments, width)
        self.positions = nn.Embedding(settings.first + settings.max_length, width)
        INITIALISERS[settings.initialiser](self)

    def forward(self, features: Tensor) -> Tensor:
        # the tables are read by index, so that gradients of their other rows are 0 as in transformers
        place = torch.zeros(features.shape[:2], dtype=torch.long, device=features.device)
        # in the order of transformers: any other changes the last bits
        return self.project(features) + self.positions(place) + self.segments(torch.full_like(place, VISUAL))
