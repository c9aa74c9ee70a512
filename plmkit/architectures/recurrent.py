"""An LSTM language model: the baseline for Transformers."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_dropout, check_sizes
from plmkit.architectures.contract import Architecture, CacheSettings, Generates, GeneratingModel
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import message, tr
from plmkit.layers.cache import Cache
from plmkit.layers.transformer import Dropout, TokenEmbedding

Cells = tuple[Tensor, Tensor]  # outputs and cells, (layers, B, width) each


@dataclass(frozen=True, kw_only=True)
class Recurrent(Architecture):
    """LSTM with dropout on non-recurrent connections (Zaremba et al., 2014) and tied embeddings."""

    dropout: float = 0.5  # dropout rate of embeddings and between layers
    initial_range: float = 0.05  # initial weights are uniform in [-initial_range, initial_range]
    generates: ClassVar[Generates] = "causal"
    not_a_graph: ClassVar[str | None] = message("its recurrent cells would be written for one number of rows")
    bounded: ClassVar[bool] = False  # its state has no length limit
    tied_heads: ClassVar[tuple[str, ...]] = ("causal_lm",)
    initial: ClassVar[frozenset[str]] = frozenset({"initial_range"})

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "width", "max_length")
        check_dropout(self, "dropout")
        if self.initial_range <= 0:
            raise SettingError(
                tr("architecture.initial_range must be above 0; found {value}.", value=self.initial_range)
            )

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled", "memory"})

    def layer_of(self, name: str) -> int | None:
        """`cells.weight_ih_l0` belongs to the first layer."""
        if name.startswith("model.cells."):
            return 1 + int(name.rpartition("_l")[2])
        return super().layer_of(name)

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned."""
        return replace(self, dropout=dropout)

    def build(self, vocabulary: Vocabulary) -> "RecurrentModel":
        return RecurrentModel(self, vocabulary.rows)


class RecurrentModel(GeneratingModel["CellState"]):
    """Rows are padded on the right, so that no state depends on padding."""

    def __init__(self, settings: Recurrent, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenEmbedding(vocabulary_size, settings.width)
        self.cells = nn.LSTM(
            settings.width,
            settings.width,
            settings.layers,
            batch_first=True,
            dropout=settings.dropout if settings.layers > 1 else 0.0,
        )
        self.dropout = Dropout(settings.dropout)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -settings.initial_range, settings.initial_range)

    def forward(self, batch: Batch) -> States:
        before = None if batch.memory is None else unfolded(*batch.memory)
        embedded = self.dropout(self.embed(batch.source.tokens))  # (B, L, width)
        if batch.all_layers:
            inputs, hidden, after = self.each_layer(embedded, before)
        else:
            inputs, (hidden, after) = [], self.cells(embedded, before)
        dropped, last = self.dropout(hidden), batch.source.visible.sum(1) - 1
        return States(
            hidden=dropped,
            pooled=hidden[torch.arange(len(last), device=last.device), last],
            layers=(*inputs, dropped) if batch.all_layers else None,
            memory=(folded(*after).detach(),),
        )

    def each_layer(self, hidden: Tensor, before: Cells | None) -> tuple[list[Tensor], Tensor, Cells]:
        """Layer by layer, slower than all at once: the input of each layer, the last output, and the cells."""
        zeros = hidden.new_zeros(self.settings.layers, len(hidden), self.settings.width)
        states = (zeros, zeros) if before is None else before
        inputs, after = [], []
        for layer, weights in enumerate(self.cells.all_weights):
            inputs.append(hidden)
            if layer:
                hidden = self.dropout(hidden)
            start = tuple(state[layer : layer + 1] for state in states)
            hidden, *end = torch.lstm(hidden, start, tuple(weights), True, 1, 0.0, self.training, False, True)
            after.append(end)
        outputs, cells = (torch.cat(parts) for parts in zip(*after, strict=True))
        return inputs, hidden, (outputs, cells)

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens

    def begin(self, given: CacheSettings) -> "CellState":
        """The state replaces a cache, whatever the length of the text."""
        shape = self.settings.layers, given.rows, self.settings.width
        zeros = self.embed.tokens.weight.new_zeros(shape)
        return CellState((zeros, zeros))

    def extend(self, tokens: Tensor, cache: "CellState") -> Tensor:
        """(B, n) next tokens → (B, n, width) states."""
        hidden, cache.state = self.cells(self.embed(tokens), cache.state)
        cache.length += tokens.shape[1]
        return hidden


class CellState(Cache):
    """The state of all layers after `length` tokens."""

    def __init__(self, state: tuple[Tensor, Tensor]) -> None:
        self.state = state  # (layers, B, width) each

    def pick(self, rows: Tensor) -> None:
        hidden, cell = self.state
        self.state = hidden[:, rows].contiguous(), cell[:, rows].contiguous()


def folded(hidden: Tensor, cell: Tensor) -> Tensor:
    """Outputs and cells, (layers, B, width) each, as recurrent memory (B, layers, 2, width)."""
    return torch.stack([hidden, cell], dim=2).transpose(0, 1)


def unfolded(memory: Tensor) -> tuple[Tensor, Tensor]:
    hidden, cell = memory.permute(2, 1, 0, 3).contiguous()
    return hidden, cell
