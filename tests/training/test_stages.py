"""Hiding that changes in the course of a run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.mask.token import TokenMasking
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.data.batch import IGNORE, Batch
from plmkit.data.samples import Position, Samples
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import RecipeError
from plmkit.recipe import Recipe
from plmkit.schedules.schedule import Schedule
from plmkit.training.loop import Budget, State, train

WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{n}" for n in range(25)), *(f"##p{n}" for n in range(20))))
THIRDS = ((1 / 3, 32), (2 / 3, 32), (1.0, 32))
STAGED = UnitMasking(
    rate=0.3,
    levels=("character", "word"),
    shares=((1.0, 0.0), (0.0, 1.0), (0.5, 0.5)),
    mask_share=1.0,
    random_share=0.0,
)


def store(documents: int = 40) -> TokenStore:
    """Words of two pieces: w ##p w ##p ..., six tokens a sentence, so that a word never breaks."""
    rng = np.random.default_rng(0)
    tokens = np.empty(documents * 24, dtype=np.int64)
    tokens[0::2], tokens[1::2] = rng.integers(5, 30, documents * 12), rng.integers(30, 50, documents * 12)
    return TokenStore(
        tokens=tokens, sentences=np.arange(documents * 4 + 1) * 6, documents=np.arange(documents + 1) * 4,
        sources=np.zeros(documents, dtype=np.int16), survey=Survey(),
    )  # fmt: skip


def recipe(lengths=THIRDS, masking=STAGED) -> Recipe:
    return replace(
        find("ernie-1.0"),
        corruption=(SentencePairs(), masking),
        architecture=Encoder(layers=1, heads=2, width=8, inner=16, longest=64, activation="relu"),
        schedule=Schedule(steps=12, batch=4, lengths=lengths, rate=1e-3, warmup=0.1),
    )


class Recorded:
    """Samples that remember what they gave."""

    def __init__(self, made: Recipe, documents: int = 40) -> None:
        self.samples = Samples(store(documents), np.arange(documents), made.corruption, WORDS, seed=1)
        self.given: list[tuple[Position, Batch]] = []

    def next(self, position: Position, rows: int, length: int) -> tuple[Batch, Position]:
        batch, after = self.samples.next(position, rows, length)
        self.given.append((position, batch))
        return batch, after


def go(made: Recipe, source: Recorded, until: int = 12, state: State = State()) -> State:
    torch.manual_seed(0)
    network = made.build(WORDS)
    optimizer = made.schedule.optimizer.build(network.named_parameters(), made.schedule.rate)
    return train(
        network, source, optimizer, made.schedule, Budget(steps=12), lambda report: report.state.step < until,
        seed=0, device=torch.device("cpu"), state=state,
    )  # fmt: skip


def breaks_words(batch: Batch) -> bool:
    """Is a word hidden in part?"""
    texts = batch.source.tokens.where(batch.targets == IGNORE, batch.targets)
    hidden = batch.targets != IGNORE
    joins = torch.from_numpy(WORDS.is_continuation)[texts[:, 1:]] & (texts[:, :-1] >= 5)
    return bool((joins & (hidden[:, 1:] != hidden[:, :-1])).any())


def same(first: list[tuple[Position, Batch]], second: list[tuple[Position, Batch]]) -> bool:
    return len(first) == len(second) and all(
        one == two and torch.equal(a.source.tokens, b.source.tokens) and torch.equal(a.targets, b.targets)
        for (one, a), (two, b) in zip(first, second, strict=True)
    )


def test_granularity_switches_at_the_set_shares_of_the_run():
    made = recipe()
    source = Recorded(made)
    go(made, source)
    assert [position.stage for position, _ in source.given] == [0] * 4 + [1] * 4 + [2] * 4
    assert [breaks_words(batch) for _, batch in source.given[:8]] == [True] * 4 + [False] * 4
    assert any(breaks_words(batch) for _, batch in source.given[8:])


def test_a_stage_of_the_same_length_goes_on_where_the_last_one_stopped():
    made = recipe()
    source = Recorded(made)
    go(made, source)
    places = [(position.epoch, position.index) for position, _ in source.given]
    assert places[:9] == [(0, 4 * number) for number in range(9)]  # across two switches


def test_a_stage_of_another_length_begins_a_new_epoch():
    made = recipe(lengths=((1 / 3, 32), (2 / 3, 48), (1.0, 48)))
    source = Recorded(made)
    go(made, source)
    places = [(position.stage, position.epoch, position.index) for position, _ in source.given]
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


def test_the_stage_changes_what_is_hidden_and_not_which_text_it_is():
    samples = Recorded(recipe()).samples
    texts, masks = [], []
    for stage in range(2):
        batch = samples.batch(0, 0, 8, 32, stage=stage)
        texts.append(batch.source.tokens.where(batch.targets == IGNORE, batch.targets))
        masks.append(batch.targets)
    assert torch.equal(*texts)
    assert not torch.equal(*masks)


def test_steps_without_stages_are_the_same_in_every_one():
    samples = Recorded(recipe(masking=TokenMasking())).samples
    first, last = samples.batch(0, 0, 8, 32, stage=0), samples.batch(0, 0, 8, 32, stage=2)
    assert torch.equal(first.source.tokens, last.source.tokens)


def test_stages_that_the_schedule_does_not_have_are_refused():
    with pytest.raises(RecipeError, match=r"UnitMasking has 3 stages, but schedule\.lengths has 2"):
        recipe(lengths=((0.5, 32), (1.0, 32)))
    mixture = replace(STAGED, shares=((0.5, 0.5),))
    assert recipe(lengths=((0.5, 32), (1.0, 48)), masking=mixture)  # one stage serves any schedule


def test_the_recipes_of_ernie_go_through_three_stages_of_equal_share():
    for name in ("ernie-1.0", "ernie-mini"):
        made = find(name)
        assert made.corruption[1].levels == ("character", "phrase", "entity")
        assert [share for share, _ in made.schedule.lengths] == [1 / 3, 2 / 3, 1.0]
        assert len({length for _, length in made.schedule.lengths}) == 1
        assert made.corruption[1].stages == 3
