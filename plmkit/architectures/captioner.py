"""Images to text: a convolutional encoder, and an LSTM that attends to regions of the image at every word."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_dropout, check_sizes
from plmkit.architectures.contract import Architecture, CacheSettings, GeneratingModel
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.cache import Cache
from plmkit.layers.recording import record
from plmkit.layers.regions import GROUPS, Regions
from plmkit.layers.transformer import Dropout, TokenEmbedding

Cell = tuple[Tensor, Tensor]  # (B, cell) output and cell of a layer


@dataclass(frozen=True, kw_only=True)
class Captioner(Architecture):
    """LSTM with soft attention over a grid of image regions (Xu et al., 2015)."""

    cell: int  # width of the LSTM; `width` is that of word embeddings
    features: int  # width of the vector of each region
    image_size: int  # pixels along each side
    convolutions: int  # each halves the sides: the grid has image_size / 2 ** convolutions regions along each side
    dropout: float = 0.0  # dropout rate of word embeddings, and of the states that predict
    max_length: int = 64
    describes_images: ClassVar[bool] = True
    bounded: ClassVar[bool] = False  # its state has no length limit
    tied_heads: ClassVar[tuple[str, ...]] = ("causal_lm",)
    needs: ClassVar[tuple[str, ...] | None] = ("end",)

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "width", "cell", "features", "image_size", "convolutions", "max_length")
        check_dropout(self, "dropout")
        if self.features % GROUPS:
            raise SettingError(
                tr(
                    "architecture.features must be a multiple of {groups}; found {features}.",
                    groups=GROUPS,
                    features=self.features,
                )
            )
        if self.image_size % 2**self.convolutions or self.grid < 2:
            raise SettingError(
                tr(
                    "architecture.image_size={size} cannot be halved {times} times to a grid of at least 2 × 2 "
                    "regions. Choose a multiple of {unit}.",
                    size=self.image_size,
                    times=self.convolutions,
                    unit=2 ** (self.convolutions + 1),
                )
            )

    @property
    def grid(self) -> int:
        """Regions along each side."""
        return self.image_size // 2**self.convolutions

    @property
    def image_pixels(self) -> int:
        return self.image_size

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "region_attention"})

    def layer_of(self, name: str) -> int | None:
        """`cells.0.weight_ih` belongs to the first layer, and what reads the image does too."""
        part, *rest = name.removeprefix("model.").split(".")
        if part == "cells":
            return 1 + int(rest[0])
        return 1 if part == "regions" else super().layer_of(name)

    def for_task(self, dropout: float) -> Self:
        return replace(self, dropout=dropout)

    def build(self, vocabulary: Vocabulary) -> "CaptionerModel":
        return CaptionerModel(self, vocabulary.rows)


class CaptionerModel(GeneratingModel["CaptionState"]):
    def __init__(self, settings: Captioner, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        width, cell, features = settings.width, settings.cell, settings.features
        self.regions = Regions(grid=settings.grid, convolutions=settings.convolutions, features=features)
        self.start = nn.Linear(features, 2 * cell * settings.layers)
        self.embed = TokenEmbedding(vocabulary_size, width)
        self.attention = RegionAttention(cell, features)
        below = [width + features] + [cell] * (settings.layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(inputs, cell) for inputs in below)
        self.from_cell = nn.Linear(cell, width)
        self.from_context = nn.Linear(features, width, bias=False)
        self.dropout = Dropout(settings.dropout)
        nn.init.normal_(self.embed.tokens.weight, std=0.2)

    def forward(self, batch: Batch) -> States:
        assert batch.images is not None
        steps = self.steps(batch.source.tokens, self.look(batch.images))
        embedded, outputs, contexts, weights = zip(*steps, strict=True)
        words, context = torch.stack(embedded, 1), torch.stack(contexts, 1)
        layers = [torch.stack(layer, 1) for layer in zip(*outputs, strict=True)]  # (B, L, cell) each
        hidden = self.dropout(self.combine(words, layers[-1], context))
        below = (words, *layers[:-1], hidden) if batch.all_layers else None
        return States(hidden=hidden, layers=below, region_attention=torch.stack(weights, 1))

    def look(self, images: Tensor) -> "CaptionState":
        """The state before the first word: regions of the image, and an LSTM that has read their mean."""
        regions = self.regions(images)  # (B, regions, features)
        begin = self.start(regions.mean(1)).tanh().unflatten(-1, (self.settings.layers, 2, -1))
        state = [(layer[:, 0], layer[:, 1]) for layer in begin.unbind(1)]
        return CaptionState(regions, self.attention.project(regions), state)

    def steps(self, tokens: Tensor, state: "CaptionState") -> Iterator[tuple[Tensor, list[Tensor], Tensor, Tensor]]:
        """At each token its embedding, the output of every layer, the context and its weights; changes the state."""
        weights = []
        for embedded in self.dropout(self.embed(tokens)).unbind(1):  # (B, width)
            weight = self.attention(state.cells[-1][0], state.keys)  # (B, regions)
            context = self.attention.context(weight, state.regions, state.cells[-1][0])
            below, cells = torch.cat([embedded, context], -1), list[Cell]()
            for cell, before in zip(self.cells, state.cells, strict=True):
                cells.append(cell(below, before))
                below = cells[-1][0]
            state.cells = cells
            weights.append(weight)
            yield embedded, [output for output, _ in cells], context, weight
        state.length += tokens.shape[1]
        record(lambda: torch.stack(weights, 1)[:, None], kind="cross")

    def combine(self, embedded: Tensor, output: Tensor, context: Tensor) -> Tensor:
        """The state that predicts the next word, from the word before, the LSTM and the context (3.1.2, eq. 7)."""
        return torch.tanh(embedded + self.from_cell(output) + self.from_context(context))

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens

    def begin(self, given: CacheSettings) -> "CaptionState":
        """Read the images, one per row."""
        assert given.images is not None and len(given.images) == given.rows
        return self.look(given.images)

    def extend(self, tokens: Tensor, cache: "CaptionState") -> Tensor:
        """(B, n) next tokens → (B, n, width) states."""
        steps = self.steps(tokens, cache)
        return torch.stack([self.combine(embedded, outputs[-1], context) for embedded, outputs, context, _ in steps], 1)


class RegionAttention(nn.Module):
    """Additive scores, and a gate on the context (Xu et al., 2015, 4.2.1)."""

    def __init__(self, cell: int, features: int) -> None:
        super().__init__()
        self.query = nn.Linear(cell, features)
        self.key = nn.Linear(features, features, bias=False)
        self.sum = nn.Linear(features, 1, bias=False)
        self.gate = nn.Linear(cell, 1)

    def project(self, regions: Tensor) -> Tensor:
        """What every query is compared with."""
        return self.key(regions)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, cell), (B, regions, features) → (B, regions) weights, which add up to 1."""
        return self.sum((self.query(query)[:, None] + keys).tanh()).squeeze(-1).softmax(-1)

    def context(self, weights: Tensor, regions: Tensor, query: Tensor) -> Tensor:
        """(B, features) the mean of the regions by their weights, scaled by the gate."""
        return self.gate(query).sigmoid() * torch.bmm(weights[:, None], regions).squeeze(1)


class CaptionState(Cache):
    """The regions of an image, and the LSTM after `length` tokens."""

    def __init__(self, regions: Tensor, keys: Tensor, cells: list[Cell]) -> None:
        self.regions, self.keys, self.cells = regions, keys, cells

    def pick(self, rows: Tensor) -> None:
        self.regions, self.keys = self.regions[rows], self.keys[rows]
        self.cells = [(output[rows], cell[rows]) for output, cell in self.cells]
