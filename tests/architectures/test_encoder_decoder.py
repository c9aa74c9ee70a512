"""An encoder–decoder is one file: an architecture that reads a batch of two sides, trained by the loop as it is."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import pytest
import torch
from torch import Tensor, nn

from plmkit.architectures.contract import Architecture, CacheSettings, Generates, GeneratingModel
from plmkit.data.batch import Batch, Side, States
from plmkit.data.mixture_source import MixtureSource
from plmkit.data.samples import Place
from plmkit.data.vocabulary import Vocabulary, unnamed
from plmkit.layers.cache import Cache
from plmkit.network import Network
from plmkit.objectives.causal_lm import CausalLM
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule
from plmkit.training.loop import Budget, Report, train
from plmkit.training.step import Step

TOKENS, START, SOURCE, TARGET = 9, 0, 6, 4


@dataclass(frozen=True, kw_only=True)
class Attending(Architecture):
    """Two GRUs, the second of which attends to the outputs of the first (Bahdanau et al., 2015)."""

    dropout: float = 0.0
    generates: ClassVar[Generates] = "causal"
    bounded: ClassVar[bool] = False

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden"})

    def build(self, vocabulary: Vocabulary) -> "AttendingModel":
        return AttendingModel(self, vocabulary.rows)

    def for_task(self, dropout: float) -> Self:
        return replace(self, dropout=dropout)


class Read(Cache):
    """The source, encoded, and the decoder's state."""

    def __init__(self, source: Tensor, visible: Tensor, state: Tensor) -> None:
        self.source, self.visible, self.state = source, visible, state

    def pick(self, rows: Tensor) -> None:
        self.source, self.visible, self.state = self.source[rows], self.visible[rows], self.state[:, rows]


class AttendingModel(GeneratingModel[Read]):
    def __init__(self, settings: Attending, size: int) -> None:
        super().__init__()
        self.settings = settings
        self.words = nn.Embedding(size, settings.width)
        self.encoder = nn.GRU(settings.width, settings.width, settings.layers, batch_first=True)
        self.decoder = nn.GRU(settings.width, settings.width, settings.layers, batch_first=True)
        self.mix = nn.Linear(2 * settings.width, settings.width)

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.words

    def forward(self, batch: Batch) -> States:
        assert batch.target is not None
        rows, length = batch.target.tokens.shape
        cache = self.begin(CacheSettings(rows, length, source=batch.source))
        return States(hidden=self.extend(batch.target.tokens, cache))

    def begin(self, given: CacheSettings) -> Read:
        assert given.source is not None
        encoded, state = self.encoder(self.token_embedding(given.source.tokens))
        return Read(encoded, given.source.visible, state)

    def extend(self, tokens: Tensor, cache: Read) -> Tensor:
        hidden, cache.state = self.decoder(self.token_embedding(tokens), cache.state)
        scores = (hidden @ cache.source.mT).masked_fill(~cache.visible[:, None], -torch.inf)
        cache.length += tokens.shape[1]
        return self.mix(torch.cat([hidden, scores.softmax(-1) @ cache.source], dim=-1)).tanh()


class Turned:
    """Texts of up to six tokens, and as target their first four, the last of them first."""

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        drawn = torch.Generator().manual_seed(place.index)
        lengths = torch.randint(TARGET, SOURCE + 1, (rows, 1), generator=drawn)
        visible = torch.arange(SOURCE) < lengths
        tokens = torch.randint(1, TOKENS, visible.shape, generator=drawn).where(visible, torch.tensor(START))
        targets = tokens[:, :TARGET].flip(1)
        read = torch.cat([torch.full((rows, 1), START), targets[:, :-1]], dim=1)
        target = Side(tokens=read, visible=torch.ones_like(read, dtype=torch.bool))
        batch = Batch(source=Side(tokens=tokens, visible=visible), target=target, targets=targets)
        return batch, replace(place, index=place.index + rows)


@pytest.fixture(scope="module")
def trained() -> tuple[Network, list[float]]:
    torch.manual_seed(0)
    model = Attending(layers=1, width=32).build(unnamed(TOKENS))
    network = Network(model, {"causal_lm": CausalLM().build(model)}, {"causal_lm": 1.0})
    schedule = Schedule(steps=150, batch=32, learning_rate=1e-2, warmup=0.1)
    optimizer = AdamW().build(network.named_parameters(), schedule.learning_rate)
    losses: list[float] = []

    def watch(report: Report) -> bool:
        losses.append(report.loss)
        return True

    step = Step(network, optimizer, clip=1.0, rows_at_once=16)
    train(step, MixtureSource.of_one(Turned(), SOURCE), schedule, Budget(steps=150), watch, seed=0)
    return network.eval(), losses


def test_an_encoder_decoder_learns_what_only_its_source_tells(trained):
    network, losses = trained
    assert losses[0] > 1.9  # of eight tokens that are equally likely: 2.08
    assert losses[-1] < 0.4
    batch, _ = Turned().next(Place(index=10**6), 64, SOURCE)
    with torch.no_grad():
        hidden = network.model(batch).hidden
        found = (hidden @ network.model.token_embedding.weight.T).argmax(-1)
    assert hidden.shape == (64, TARGET, 32)  # the target's length, not the source's
    assert (found == batch.targets).float().mean() > 0.85
    other = replace(batch, source=batch.source.each(lambda part: part.roll(1, 0)))
    with torch.no_grad():
        assert not torch.allclose(network.model(other).hidden, hidden)


def test_it_generates_from_a_source_token_by_token(trained):
    network, _ = trained
    batch, _ = Turned().next(Place(index=10**6), 8, SOURCE)
    model, token, written = network.model, torch.full((8, 1), START), []
    with torch.no_grad():
        cache = model.begin(CacheSettings(8, TARGET, source=batch.source))
        for _ in range(TARGET):
            token = (model.extend(token, cache) @ model.token_embedding.weight.T).argmax(-1)
            written.append(token)
    assert cache.length == TARGET
    assert (torch.cat(written, dim=1) == batch.targets).float().mean() > 0.7
