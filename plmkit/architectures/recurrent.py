"""An LSTM that reads text token by token: what Transformers are measured against."""

from collections.abc import Sized
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.layers.dropout import Dropout
from plmkit.layers.embedding import TokenEmbedding


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """LSTM with dropout off the recurrent path (Zaremba et al., 2014); its output table is the input's."""

    layers: int
    width: int
    longest: int = 512  # tokens read at once; the state reaches further back
    dropout: float = 0.5
    spread: float = 0.05  # weights begin between minus this and this
    left_to_right: ClassVar[bool] = True
    weightless: ClassVar[tuple[str, ...]] = ("causal_lm",)  # heads that it has without any weight of theirs
    writes: ClassVar = frozenset({"hidden"})

    def __post_init__(self) -> None:
        for name in ("layers", "width", "longest"):
            if getattr(self, name) < 1:
                raise SettingError(f"architecture.{name} must be 1 or more; found {getattr(self, name)}.")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"architecture.dropout lies from 0 to below 1; found {self.dropout}.")
        if self.spread <= 0:
            raise SettingError(f"architecture.spread must be above 0; found {self.spread}.")

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned."""
        return replace(self, dropout=dropout)

    def build(self, vocabulary: Sized) -> "RecurrentModel":
        return RecurrentModel(self, len(vocabulary))


class RecurrentModel(nn.Module):
    """Padding stands behind the text of a row, so that nothing reads it."""

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
            nn.init.uniform_(parameter, -settings.spread, settings.spread)

    def forward(self, batch: Batch) -> States:
        before = None if batch.memory is None else unfolded(*batch.memory)
        hidden, after = self.cells(self.dropout(self.embed(batch.source.tokens)), before)  # (B, L, width)
        last = batch.source.visible.sum(1) - 1
        return States(
            hidden=self.dropout(hidden),
            pooled=hidden[torch.arange(len(last), device=last.device), last],
            memory=(folded(*after).detach(),),
        )

    def begin(self, rows: int, longest: int) -> "CellState":
        """Its whole past is in its state, however long the text."""
        shape = self.settings.layers, rows, self.settings.width
        zeros = self.embed.tokens.weight.new_zeros(shape)
        return CellState((zeros, zeros))

    def extend(self, tokens: Tensor, cache: "CellState") -> Tensor:
        """(B, n) further tokens to (B, n, width)."""
        hidden, cache.state = self.cells(self.embed(tokens), cache.state)
        cache.length += tokens.shape[1]
        return hidden


class CellState:
    """What the cells of all layers hold after `length` tokens."""

    def __init__(self, state: tuple[Tensor, Tensor]) -> None:
        self.state = state  # (layers, B, width) each
        self.length = 0

    def pick(self, rows: Tensor) -> None:
        """These rows, in this order; one may be taken several times."""
        hidden, cell = self.state
        self.state = hidden[:, rows].contiguous(), cell[:, rows].contiguous()


def folded(hidden: Tensor, cell: Tensor) -> Tensor:
    """Outputs and cells, (layers, B, width) each, as a memory (B, layers, 2, width)."""
    return torch.stack([hidden, cell], dim=2).transpose(0, 1)


def unfolded(memory: Tensor) -> tuple[Tensor, Tensor]:
    hidden, cell = memory.permute(2, 1, 0, 3).contiguous()
    return hidden, cell
