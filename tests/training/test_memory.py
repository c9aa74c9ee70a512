"""What a model remembers goes with its streams of text: from batch to batch, into checkpoints, through validation."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from stores import all_documents, store_of
from torch import Tensor, nn

from plmkit.corruption.contract import StretchArrangement
from plmkit.data.batch import Batch, States
from plmkit.data.mixture_source import MixtureSource
from plmkit.data.rows import StretchPlan
from plmkit.data.samples import Place, Samples, side_by_side
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import CheckpointError
from plmkit.network import Network
from plmkit.objectives.contract import Head
from plmkit.schedules.schedule import Schedule
from plmkit.training.checkpoint import MEMORY, load_checkpoint, save_checkpoint
from plmkit.training.loop import Budget, State, train
from plmkit.training.step import Step, validate

CPU = torch.device("cpu")
VOCABULARY = Vocabulary.from_tokens([*SPECIAL_TOKENS, *(f"w{number}" for number in range(100))])


@dataclass(frozen=True, kw_only=True)
class InOrder(StretchArrangement):
    """Each document is a row, in the order of the text, and each row continues the one before."""

    continues: ClassVar = True

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        return StretchPlan(stretches=np.array([store.stretch(document) for document in documents.tolist()]))


class Total(nn.Module):
    """Remembers the sum of all that each stream has said."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seen: list[tuple[list[int], list[float] | None]] = []

    def forward(self, batch: Batch) -> States:
        own = batch.source.tokens[:, 1].float()[:, None, None, None]  # (B, 1, 1, 1)
        before = None if batch.memory is None else batch.memory[0].flatten().tolist()
        self.seen.append((batch.source.tokens[:, 1].tolist(), before))
        memory = own if batch.memory is None else own + batch.memory[0]
        return States(hidden=self.weight * memory[:, 0], memory=(memory.detach(),))


class TwoParts(Total):
    """Remembers two things of unequal shape: how much each stream has said, and its last three tokens twice over."""

    def forward(self, batch: Batch) -> States:
        own = batch.source.tokens[:, 1:2].float()  # (B, 1)
        last = batch.source.tokens[:, None, 1:4].float().expand(-1, 2, -1)  # (B, 2, 3)
        before = None if batch.memory is None else [part.flatten(1).tolist() for part in batch.memory]
        self.seen.append((batch.source.tokens[:, 1].tolist(), before))
        total = own if batch.memory is None else own + batch.memory[0]
        return States(hidden=self.weight * total[:, None], memory=(total.detach(), last))


class Size(Head):
    def forward(self, states: States, batch: Batch) -> Tensor:
        return states.hidden.mean()

    def scored(self, batch: Batch) -> int:
        return len(batch.source.tokens)


def network(model: type[Total] = Total) -> Network:
    return Network(model(), {"size": Size()}, {"size": 1.0})


def samples(documents: int) -> Samples:
    store = store_of(*[[3]] * documents)
    return Samples(store, all_documents(store), (InOrder(),), VOCABULARY, seed=0)


def run(made: Network, source: Samples, steps: int, *, state: State = State(), **settings) -> State:
    schedule = Schedule(steps=9, batch=2, learning_rate=1e-9, warmup=0.0)
    optimizer = torch.optim.SGD([{"params": list(made.parameters()), "peak": 1e-9}], lr=1e-9)
    budget = Budget(steps=steps)
    step = Step(made, optimizer, clip=schedule.clip, **settings)
    return train(step, MixtureSource.of_one(source, 8), schedule, budget, lambda report: True, seed=0, state=state)


def test_streams_lie_side_by_side():
    assert side_by_side(7, 2).tolist() == [0, 3, 1, 4, 2, 5]  # the seventh fills no batch
    assert side_by_side(6, 3).tolist() == [0, 2, 4, 1, 3, 5]
    assert side_by_side(2, 5).tolist() == [0, 1]


def test_a_row_continues_where_the_same_row_of_the_previous_batch_ended():
    made = samples(6)
    batch, position = made.next(Place(), 2, 8)
    assert batch.source.tokens[:, 1:4].tolist() == [[0, 1, 2], [9, 10, 11]]
    assert batch.continues.tolist() == [False, False]
    batch, position = made.next(position, 2, 8)
    assert batch.source.tokens[:, 1:4].tolist() == [[3, 4, 5], [12, 13, 14]]
    assert batch.continues.tolist() == [True, True]
    batch, position = made.next(position, 2, 8)
    batch, position = made.next(position, 2, 8)
    assert position == Place(epoch=1, index=2)
    assert batch.source.tokens[:, 1].tolist() == [0, 9]
    assert batch.continues.tolist() == [False, False]


@pytest.mark.parametrize("rows_at_once", [None, 1])
def test_memory_follows_its_stream_and_is_forgotten_at_the_end_of_an_epoch(rows_at_once):
    made = network()
    run(made, samples(6), 4, rows_at_once=rows_at_once)
    seen = made.model.seen[:-1]  # the last is the check of the last update, which remembers nothing
    if rows_at_once == 1:  # rows of one step, seen one by one
        seen = [(a + c, None if b is None else b + d) for (a, b), (c, d) in zip(seen[::2], seen[1::2], strict=True)]
    assert seen == [([0, 9], None), ([3, 12], [0, 9]), ([6, 15], [3, 21]), ([0, 9], None)]


def test_memory_is_saved_and_a_run_continues_with_it(tmp_path):
    whole, halves = network(), network()
    end = run(whole, samples(6), 3)
    state = run(halves, samples(6), 2)
    optimizer = torch.optim.SGD(halves.parameters())
    path = save_checkpoint(tmp_path, halves, optimizer, state)
    assert (path / MEMORY).is_file()
    resumed = network()
    found = load_checkpoint(tmp_path, resumed, optimizer, print)
    assert torch.equal(found.memory[0], state.memory[0])
    assert replace(found, memory=None) == replace(state, memory=None)
    last = run(resumed, samples(6), 3, state=found)
    assert resumed.model.seen == whole.model.seen[2:]
    assert torch.equal(last.memory[0], end.memory[0])


@pytest.mark.parametrize("rows_at_once", [None, 1])
def test_memory_may_be_several_tensors_of_unequal_shape(rows_at_once, tmp_path):
    whole, halves = network(TwoParts), network(TwoParts)
    run(whole, samples(6), 3)
    assert whole.model.seen[2] == ([6, 15], [[[3], [21]], [[3, 4, 5] * 2, [12, 13, 14] * 2]])
    state = run(halves, samples(6), 2, rows_at_once=rows_at_once)
    assert [part.shape for part in state.memory] == [(2, 1), (2, 2, 3)]
    optimizer = torch.optim.SGD(halves.parameters())
    save_checkpoint(tmp_path, halves, optimizer, state)
    resumed = network(TwoParts)
    run(resumed, samples(6), 3, state=load_checkpoint(tmp_path, resumed, optimizer, print))
    assert resumed.model.seen == whole.model.seen[2:]


def test_a_damaged_memory_is_a_damaged_checkpoint(tmp_path):
    made = network()
    optimizer = torch.optim.SGD(made.parameters())
    path = save_checkpoint(tmp_path, made, optimizer, run(made, samples(6), 2))
    content = bytearray((path / MEMORY).read_bytes())
    content[-1] ^= 1
    (path / MEMORY).write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(tmp_path, made, optimizer, lambda line: None)


def test_a_memory_of_another_batch_size_is_refused():
    made = network()
    state = run(made, samples(6), 2)
    with pytest.raises(CheckpointError, match="The recurrent memory has 1 rows, but the batch has 2"):
        run(made, samples(6), 3, state=replace(state, memory=(state.memory[0][:1],)))


def test_rows_that_do_not_go_on_have_no_memory():
    made = network()
    source = samples(6)
    source.arrange = replace(source.arrange)
    object.__setattr__(source.arrange, "continues", False)
    end = run(made, source, 3)
    assert all(before is None for _, before in made.model.seen)
    assert end.memory is None


def test_validation_carries_memory_likewise():
    made, source = network(), samples(6)
    batches = [source.batch(0, index, 2, 8) for index in (0, 2, 4)]
    # the streams say 0 3 6 and 9 12 15, and the sums so far are 0 3 9 and 9 21 36
    assert validate(made, batches, CPU, torch.float32) == {"size": pytest.approx((0 + 3 + 9 + 9 + 21 + 36) / 6)}
    assert made.model.seen[1] == ([3, 12], [0, 9])
