"""ELMo: a language model in each direction, over words that are read by their characters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_activations, check_dropout, check_sizes
from plmkit.architectures.contract import Architecture, Model
from plmkit.data.batch import Batch, Memory, Side, States
from plmkit.data.spelling import WORD_LENGTH
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.kernels.clipped_lstm import Weights, clipped_lstm
from plmkit.language import message, tr
from plmkit.layers.characters import CharacterEncoder
from plmkit.layers.transformer import Dropout


@dataclass(frozen=True, kw_only=True)
class Elmo(Architecture):
    """Two stacks of LSTMs, one per direction, over a convolution of characters (Peters et al., 2018).

    Words and the outputs of each direction have half the width; a state is those of both directions together.
    """

    cell: int = 4096  # width of an LSTM cell, which is projected to half the width
    filters: tuple[tuple[int, int], ...] = (  # width and number of the convolutions over characters
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    characters: int = 16  # width of the character embeddings
    highways: int = 2  # number of highway layers after the convolutions
    activation: str = "relu"  # of the convolutions: gelu, gelu_tanh or relu
    cell_clip: float = 3.0  # maximum magnitude in a cell
    output_clip: float = 3.0  # maximum magnitude in the output of an LSTM
    residual: bool = True  # each LSTM but the first adds its input to its output
    dropout: float = 0.1  # on the input of each LSTM, and on the last output
    restart_share: float = 0.0  # of the rows of a training step: these begin from an empty state, as a new text does
    not_a_graph: ClassVar[str | None] = message(
        "its words are read by their characters, each different one of a batch once"
    )
    bounded: ClassVar[bool] = False  # its state has no length limit

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "width", "max_length", "cell", "characters")
        check_dropout(self, "dropout")
        check_activations(self, "activation")
        if not 0 <= self.restart_share <= 1:
            raise SettingError(
                tr("architecture.restart_share is a share from 0 to 1; found {value}.", value=self.restart_share)
            )
        if self.width % 2:
            raise SettingError(tr("architecture.width={width} must be even: one half per direction.", width=self.width))
        if not self.filters or any(size < 1 or count < 1 for size, count in self.filters) or self.highways < 0:
            raise SettingError(
                tr(
                    "architecture.filters is a list of [characters, number of filters], such as [[2, 64]], and "
                    "architecture.highways is 0 or more; found {filters} and {highways}.",
                    filters=[list(pair) for pair in self.filters],
                    highways=self.highways,
                )
            )
        if (widest := max(size for size, _ in self.filters)) > WORD_LENGTH:
            raise SettingError(
                tr(
                    "architecture.filters has a filter over {size} characters, and a word has at most {length}. Give "
                    "narrower ones.",
                    size=widest,
                    length=WORD_LENGTH,
                )
            )
        for name in ("cell_clip", "output_clip"):
            if not getattr(self, name) > 0:
                raise SettingError(
                    tr("architecture.{name} must be above 0; found {value}.", name=name, value=getattr(self, name))
                )

    @property
    def reads_characters(self) -> bool:
        return True

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled", "memory"})

    def layer_of(self, name: str) -> int | None:
        """`directions.0.layers.1.state` belongs to the second layer."""
        if name.startswith("model.directions."):
            return 1 + int(name.split(".")[4])
        return super().layer_of(name)

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned."""
        return replace(self, dropout=dropout)

    def build(self, vocabulary: Vocabulary) -> "ElmoModel":
        return ElmoModel(self, vocabulary)


class ElmoModel(Model):
    """Both directions of each row, or, with `batch.reversed`, one of them, in states of half the width.

    A row of one direction is in the order in which it is read: so the two language models are trained on streams of
    text. Rows are padded on the right.
    """

    spelling: Tensor

    def __init__(self, settings: Elmo, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.settings, self._vocabulary = settings, vocabulary
        spelling = torch.from_numpy(vocabulary.spelling).int()  # of every token; gloo exchanges no int16
        self.register_buffer("spelling", spelling, persistent=False)
        self.embed = CharacterEncoder(
            settings.width // 2, characters=settings.characters, filters=settings.filters,
            highways=settings.highways, activation=settings.activation,
        )  # fmt: skip
        self.placed = nn.Identity()  # the vectors of words, each at its positions
        self.directions = nn.ModuleList(OneDirection(settings) for _ in range(2))
        self.dropout = Dropout(settings.dropout)

    @property
    def input_embeddings(self) -> tuple[nn.Module, ...]:
        return (self.placed,)

    @property
    def spelled_vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def forward(self, batch: Batch) -> States:
        words, lengths = self.words(batch.source), batch.source.visible.sum(1)
        if batch.reversed is not None:
            return self.read_one_way(words, lengths, batch)
        onward, backward = self.directions
        before = (
            [None, None] if batch.memory is None else [tuple(part[:, way] for part in batch.memory) for way in (0, 1)]
        )
        first, after_first = onward(words, lengths, before[0])
        second, after_second = backward(turned(words, lengths), lengths, before[1])
        back = [turned(layer, lengths) for layer in second]
        layers = [torch.cat(pair, dim=2) for pair in zip((words, *first), (words, *back), strict=True)]
        hidden = self.dropout(layers[-1])
        return States(
            hidden=hidden,
            pooled=torch.cat([last_of(first[-1], lengths), back[-1][:, 0]], dim=1),
            layers=(*layers[:-1], hidden) if batch.all_layers else None,
            memory=tuple(torch.stack(parts, 1) for parts in zip(after_first, after_second, strict=True)),
        )

    def read_one_way(self, words: Tensor, lengths: Tensor, batch: Batch) -> States:
        """Each row by the direction it is for."""
        assert batch.reversed is not None
        rows = [(~batch.reversed).nonzero()[:, 0], batch.reversed.nonzero()[:, 0]]
        memory = None if batch.memory is None else self.restarted(batch.memory)
        places = torch.cat(rows).argsort()
        parts = [
            reader(
                words[mine],
                lengths[mine],
                None if memory is None else tuple(part[mine, 0] for part in memory),
            )
            for reader, mine in zip(self.directions, rows, strict=True)
            if len(mine)
        ]
        layers = [words, *(torch.cat(outputs)[places] for outputs in zip(*(made for made, _ in parts), strict=True))]
        hidden = self.dropout(layers[-1])
        kept = tuple(torch.cat(states)[places][:, None] for states in zip(*(after for _, after in parts), strict=True))
        return States(hidden=hidden, layers=(*layers[:-1], hidden) if batch.all_layers else None, memory=kept)

    def restarted(self, memory: Memory) -> Memory:
        """In training, without the state of some rows.

        A state that is always carried over is never empty after the first step. Trained so, a network may fall into
        states that it never saw when it reads a new text: a loss of 18 was measured, where training ended at 6.
        """
        share = self.settings.restart_share
        if not self.training or not share:
            return memory
        kept = torch.rand(len(memory[0]), device=memory[0].device) >= share
        return tuple(part * kept.view(-1, *[1] * (part.dim() - 1)) for part in memory)

    def words(self, side: Side) -> Tensor:
        """(B, L, width / 2) the vectors of words, each spelling computed once."""
        if side.characters is None:
            spellings, places = side.tokens.unique(return_inverse=True)
            return self.placed(self.embed(self.spelling[spellings])[places])
        spellings, places = side.characters.flatten(0, 1).unique(dim=0, return_inverse=True)
        return self.placed(self.embed(spellings)[places].view(*side.tokens.shape, -1))


class OneDirection(nn.Module):
    """The LSTMs of a language model that reads rows from their first word on."""

    def __init__(self, settings: Elmo) -> None:
        super().__init__()
        self.residual = settings.residual
        self.layers = nn.ModuleList(ClippedLSTM(settings) for _ in range(settings.layers))
        self.dropout = Dropout(settings.dropout)

    def forward(self, words: Tensor, lengths: Tensor, before: Sequence[Tensor] | None) -> tuple[list[Tensor], Memory]:
        """(B, L, width / 2) → the same of each layer, and outputs and cells at the end of rows, (B, layers, ...)."""
        hidden, made, after = words, [], []
        for number, layer in enumerate(self.layers):
            inputs = self.dropout(hidden)
            start = None if before is None else [part[:, number] for part in before]
            outputs, cells = layer(inputs, start)
            after.append((last_of(outputs.detach(), lengths), last_of(cells, lengths)))
            hidden = outputs + inputs if number and self.residual else outputs
            made.append(hidden)
        return made, tuple(torch.stack(parts, 1) for parts in zip(*after, strict=True))


class ClippedLSTM(nn.Module):
    """An LSTM whose output is projected, with limits on what cells and outputs hold (Sak et al., 2014)."""

    def __init__(self, settings: Elmo) -> None:
        super().__init__()
        width, cell = settings.width // 2, settings.cell
        self.clips = settings.cell_clip, settings.output_clip
        self.inputs = nn.Parameter(torch.empty(4 * cell, width))
        self.state = nn.Parameter(torch.empty(4 * cell, width))
        self.bias = nn.Parameter(torch.zeros(4 * cell))
        self.project = nn.Parameter(torch.empty(width, cell))
        bound = (6 / (2 * width + 4 * cell)) ** 0.5  # Glorot's, of both matrices as one
        nn.init.uniform_(self.inputs, -bound, bound)
        nn.init.uniform_(self.state, -bound, bound)
        nn.init.xavier_uniform_(self.project)

    def forward(self, inputs: Tensor, before: Sequence[Tensor] | None) -> tuple[Tensor, Tensor]:
        """(B, L, width) → outputs (B, L, width) and cells (B, L, cell)."""
        weights = Weights(inputs=self.inputs, state=self.state, bias=self.bias, project=self.project)
        if before is None:
            before = [inputs.new_zeros(len(inputs), size) for size in self.project.shape]
        return clipped_lstm(inputs, before[0], before[1], weights, *self.clips)


def turned(rows: Tensor, lengths: Tensor) -> Tensor:
    """Each row (B, L, ...) with its words in reverse, and padding still at its end."""
    places = torch.arange(rows.shape[1], device=rows.device).expand(len(rows), -1)
    places = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    return rows.gather(1, places[:, :, None].expand_as(rows))


def last_of(rows: Tensor, lengths: Tensor) -> Tensor:
    """(B, L, ...) → (B, ...) at the last word of each row."""
    return rows[torch.arange(len(rows), device=rows.device), lengths - 1]
