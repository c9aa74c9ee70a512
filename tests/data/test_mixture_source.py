"""Batches of several streams."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace

import pytest
import torch

from plmkit.data.batch import Batch, Side
from plmkit.data.mixture_source import FedStream, MixtureSource, seed_of
from plmkit.data.samples import Place, Position
from plmkit.schedules.schedule import Stage
from plmkit.training.checkpoint import read_position


@dataclass
class Counting:
    """A feed whose rows hold the number of the row, and which remembers the lengths that it was asked for."""

    lengths: list[int] = field(default_factory=list)

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        self.lengths.append(length)
        tokens = torch.arange(place.index, place.index + rows)[:, None]
        batch = Batch(source=Side(tokens=tokens, visible=tokens >= 0))
        return batch, Place(epoch=place.epoch, index=place.index + rows)


def mixture(*stages: Stage, seed: int = 0, **streams: FedStream) -> MixtureSource:
    return MixtureSource(streams, stages or (Stage(length=8),), seed=seed)


def stream(place: str, weight: float = 1.0, heads: frozenset[str] | None = None) -> FedStream:
    return FedStream(feed=Counting(), place=place, weight=weight, heads=heads)


def drawn(source: MixtureSource, steps: int) -> list[str]:
    return [source.drawn(0, step) for step in range(steps)]


def walk(source: MixtureSource, steps: range, position: Position, of: int) -> tuple[list[int], Position]:
    """The first row of each batch, and where that leaves the run."""
    rows = []
    for step in steps:
        batch, position = source.next(position, step=step, progress=step / of, rows=2)
        rows.append(int(batch.source.tokens[0, 0]))
    return rows, position


def test_streams_are_drawn_by_their_weights():
    source = mixture(a=stream("a", weight=1.0), b=stream("b", weight=3.0), c=stream("c", weight=4.0))
    found = Counter(drawn(source, 20_000))
    assert {name: count / 20_000 for name, count in found.items()} == pytest.approx(
        {"a": 1 / 8, "b": 3 / 8, "c": 4 / 8}, abs=0.01
    )


def test_the_stream_of_a_step_depends_on_the_seed_and_the_step_alone():
    first, second = (mixture(a=stream("a"), b=stream("b"), seed=3) for _ in range(2))
    assert drawn(first, 50) == [second.drawn(0, step) for step in reversed(range(50))][::-1]
    assert drawn(mixture(a=stream("a"), b=stream("b"), seed=4), 50) != drawn(first, 50)


def test_each_stream_has_its_own_place_and_streams_of_one_place_continue_each_other():
    apart = mixture(a=stream("a"), b=stream("b"))
    _, position = walk(apart, range(10), Position(), of=10)
    counts = Counter(drawn(apart, 10))
    assert 0 < counts["a"] < 10
    assert position.places == {name: Place(index=2 * count) for name, count in counts.items()}
    together = mixture(a=stream("text"), b=stream("text"))
    rows, position = walk(together, range(10), Position(), of=10)
    assert rows == list(range(0, 20, 2))
    assert position.places == {"text": Place(index=20)}


def test_a_stage_runs_only_its_streams_at_its_length():
    stages = (Stage(until=0.5, length=8, streams=("a",)), Stage(length=16, streams=("b", "c")))
    streams = {name: stream(name) for name in "abc"}
    walk(mixture(*stages, **streams), range(40), Position(), of=40)
    lengths = {name: Counter(one.feed.lengths) for name, one in streams.items()}
    assert lengths["a"] == {8: 20}
    assert lengths["b"].keys() == lengths["c"].keys() == {16}
    assert lengths["b"][16] + lengths["c"][16] == 20


def test_another_length_starts_a_new_epoch_in_every_place_that_was_read():
    stages = (Stage(until=0.5, length=8), Stage(length=16))
    source = mixture(*stages, a=stream("a"), b=stream("b"))
    _, position = walk(source, range(5), Position(), of=10)
    assert {place.epoch for place in position.places.values()} == {0}
    _, position = walk(source, range(5, 6), position, of=10)
    assert {name: place.epoch for name, place in position.places.items()} == {"a": 1, "b": 1}


def test_a_run_that_is_resumed_reads_the_same_rows():
    whole, _ = walk(mixture(a=stream("a"), b=stream("b")), range(20), Position(), of=20)
    first, position = walk(mixture(a=stream("a"), b=stream("b")), range(7), Position(), of=20)
    second, _ = walk(mixture(a=stream("a"), b=stream("b")), range(7, 20), position, of=20)
    assert first + second == whole


def test_batches_are_for_the_heads_of_their_stream():
    source = mixture(a=stream("a", heads=frozenset({"masked_lm"})), b=stream("b"))
    found = {}
    for step in range(20):
        batch, _ = source.next(Position(), step=step, progress=0.0, rows=1)
        found[source.drawn(0, step)] = batch.heads
    assert found == {"a": frozenset({"masked_lm"}), "b": None}


def test_places_have_seeds_of_their_own_and_the_first_has_the_runs():
    assert seed_of(7, 0) == 7
    assert len({seed_of(7, place) for place in range(20)} | {seed_of(8, place) for place in range(20)}) == 40


def test_shares_of_a_stage_are_met_exactly_and_resuming_changes_nothing():
    stages = (
        Stage(until=0.5, length=8, streams=("a", "b"), shares=(1, 3)),
        Stage(length=8, streams=("b", "c"), shares=(2, 3)),
    )

    def source() -> MixtureSource:
        return MixtureSource({name: stream(name) for name in "abc"}, stages, seed=5, steps=40)

    _, position = walk(source(), range(40), Position(), of=40)
    assert {name: place.index // 2 for name, place in position.places.items()} == {"a": 5, "b": 15 + 8, "c": 12}
    _, broken = walk(source(), range(17), Position(), of=40)
    stored = read_position(json.loads(json.dumps(asdict(broken))))
    assert stored == broken
    assert walk(source(), range(17, 40), stored, of=40)[1] == position


def test_batches_tell_the_task_of_their_stream():
    source = mixture(a=replace(stream("a"), task=3))
    batch, _ = source.next(Position(), step=0, progress=0.0, rows=2)
    assert batch.task.tolist() == [3, 3]
    assert mixture(a=stream("a")).next(Position(), step=0, progress=0.0, rows=2)[0].task is None
