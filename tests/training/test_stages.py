"""Masking that changes in the course of a run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.contract import Masking
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.data.batch import IGNORE, Batch
from plmkit.data.mixture_source import FedStream, MixtureSource
from plmkit.data.samples import Place, Position, Samples
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.recipe import DataStream, Recipe
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.training.loop import Budget, State, train
from plmkit.training.step import Step

WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{n}" for n in range(25)), *(f"##p{n}" for n in range(20))))
UNITS = UnitMasking(rate=0.3, levels=("character", "word"), shares=(1.0, 0.0), mask_share=1.0, random_share=0.0)
SHARES = {"characters": (1.0, 0.0), "words": (0.0, 1.0), "both": (0.5, 0.5)}


def store(documents: int = 40) -> TokenStore:
    """Words of two pieces: w ##p w ##p ..., six tokens a sentence, so that a word never breaks."""
    rng = np.random.default_rng(0)
    tokens = np.empty(documents * 24, dtype=np.int64)
    tokens[0::2], tokens[1::2] = rng.integers(5, 30, documents * 12), rng.integers(30, 50, documents * 12)
    return TokenStore(
        tokens=tokens, sentences=np.arange(documents * 4 + 1) * 6, documents=np.arange(documents + 1) * 4,
        sources=np.zeros(documents, dtype=np.int16), survey=Survey(),
    )  # fmt: skip


def stream(name: str, masking: Masking) -> DataStream:
    return DataStream(name=name, arrangement=SentencePairs(), maskings=(masking,), place="text")


def recipe(lengths: tuple[int, int, int] = (32, 32, 32)) -> Recipe:
    """Three stages, each with a stream of its own; all continue in one place."""
    return replace(
        find("ernie-1.0"),
        streams=tuple(stream(name, replace(UNITS, shares=shares)) for name, shares in SHARES.items()),
        architecture=Encoder(layers=1, heads=2, width=8, inner=16, max_length=64, activation="relu"),
        stages=tuple(
            Stage(until=until, length=length, streams=(name,))
            for until, length, name in zip((1 / 3, 2 / 3, 1.0), lengths, SHARES, strict=True)
        ),
        schedule=Schedule(steps=12, batch=4, learning_rate=1e-3, warmup=0.1),
    )


class Recorded:
    """A source that remembers the position from which it gave each batch, in its stage, and the batch."""

    def __init__(self, made: Recipe, documents: int = 40) -> None:
        text, all_documents = store(documents), np.arange(documents)
        self.samples = {one.name: Samples(text, all_documents, one.steps, WORDS, seed=1) for one in made.streams}
        fed = {one.name: FedStream(feed=self.samples[one.name], place=one.reads_from) for one in made.streams}
        self.source = MixtureSource(fed, made.stages, seed=1)
        self.given: list[tuple[int, Place, Batch]] = []

    def next(self, position: Position, *, step: int, progress: float, rows: int) -> tuple[Batch, Position]:
        batch, after = self.source.next(position, step=step, progress=progress, rows=rows)
        end = after.at("text")
        self.given.append((after.stage, replace(end, index=end.index - len(batch.source.tokens)), batch))
        return batch, after


def go(made: Recipe, source: Recorded, until: int = 12, state: State = State()) -> State:
    torch.manual_seed(0)
    network = made.build(WORDS)
    optimizer = made.schedule.optimizer.build(network.named_parameters(), made.schedule.learning_rate)
    step = Step(network, optimizer, clip=made.schedule.clip)
    return train(
        step, source, made.schedule, Budget(steps=12), lambda report: report.state.step < until, seed=0, state=state
    )


def breaks_words(batch: Batch) -> bool:
    """Is a word hidden in part?"""
    texts = batch.source.tokens.where(batch.targets == IGNORE, batch.targets)
    hidden = batch.targets != IGNORE
    joins = torch.from_numpy(WORDS.is_continuation)[texts[:, 1:]] & (texts[:, :-1] >= 5)
    return bool((joins & (hidden[:, 1:] != hidden[:, :-1])).any())


def same(first: list[tuple[int, Place, Batch]], second: list[tuple[int, Place, Batch]]) -> bool:
    return len(first) == len(second) and all(
        one == two and torch.equal(mine.source.tokens, yours.source.tokens) and torch.equal(mine.targets, yours.targets)
        for (*one, mine), (*two, yours) in zip(first, second, strict=True)
    )


def test_granularity_switches_at_the_set_shares_of_the_run():
    made = recipe()
    source = Recorded(made)
    go(made, source)
    assert [stage for stage, *_ in source.given] == [0] * 4 + [1] * 4 + [2] * 4
    assert [breaks_words(batch) for *_, batch in source.given[:8]] == [True] * 4 + [False] * 4
    assert any(breaks_words(batch) for *_, batch in source.given[8:])


def test_a_stage_of_the_same_length_continues_where_the_last_one_stopped():
    made = recipe()
    source = Recorded(made)
    go(made, source)
    places = [(place.epoch, place.index) for _, place, _ in source.given]
    assert places[:9] == [(0, 4 * number) for number in range(9)]  # across two switches


def test_a_stage_of_another_length_starts_a_new_epoch():
    made = recipe(lengths=(32, 48, 48))
    source = Recorded(made)
    go(made, source)
    places = [(stage, place.epoch, place.index) for stage, place, _ in source.given]
    assert places[3:6] == [(0, 0, 12), (1, 1, 0), (1, 1, 4)]
    assert places[7:9] == [(1, 1, 12), (2, 1, 16)]


@pytest.mark.parametrize("stop", [2, 4, 6, 8, 11])
def test_going_on_in_the_middle_of_a_stage_or_at_its_end_gives_the_same_batches(stop):
    made = recipe()
    through, before, after = Recorded(made), Recorded(made), Recorded(made)
    go(made, through)
    state = go(made, before, until=stop)
    assert state.step == stop
    go(made, after, state=state)
    assert same(before.given + after.given, through.given)


def test_streams_of_one_place_differ_in_what_is_masked_and_not_in_the_text():
    samples = Recorded(recipe()).samples
    texts, masks = [], []
    for name in ("characters", "words"):
        batch = samples[name].batch(0, 0, 8, 32)
        texts.append(batch.source.tokens.where(batch.targets == IGNORE, batch.targets))
        masks.append(batch.targets)
    assert torch.equal(*texts)
    assert not torch.equal(*masks)


def test_the_recipes_of_ernie_go_through_three_stages_of_equal_share():
    for name in ("ernie-1.0", "ernie-mini"):
        made = find(name)
        levels = ["character", "phrase", "entity"]
        assert [stage.streams for stage in made.stages] == [(level,) for level in levels]
        assert [stream.maskings[0].levels_used for stream in made.streams] == [(level,) for level in levels]
        assert {stream.reads_from for stream in made.streams} == {"text"}
        assert [stage.until for stage in made.stages] == [1 / 3, 2 / 3, 1.0]
        assert len({stage.length for stage in made.stages}) == 1
