"""What holds for every masking, written once."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from masking_rows import PIECES, WORDS, many, rows_of, words_in

from plmkit.choices import MASKINGS
from plmkit.config.settings import from_json, to_json
from plmkit.corruption.contract import StretchArrangement
from plmkit.corruption.mask.permutation import PermutedSpans
from plmkit.corruption.mask.span import SpanMasking
from plmkit.corruption.mask.token import DynamicMasking, ReplacedMasking, TokenMasking
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.corruption.mask.word import NgramMasking, WordMasking
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows, StretchPlan
from plmkit.data.samples import Samples
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.errors import SettingError

BY_WORD = UnitMasking(levels=("word",), shares=(1.0,))
MIXED = UnitMasking(levels=("character", "word"), shares=(0.3, 0.7))
# a new masking of tokens is tested here by its line in the registry
WAYS = [*(kind() for kind in MASKINGS if "targets" in kind.writes), BY_WORD, MIXED]
PAPERS = [
    TokenMasking(),
    DynamicMasking(),
    WordMasking(),
    NgramMasking(),
    SpanMasking(),
    BY_WORD,
    MIXED,
]  # 15%, 80/10/10
WHOLE = [WordMasking(), NgramMasking(), BY_WORD]
BUDGETED = [TokenMasking(), ReplacedMasking(), WordMasking(), NgramMasking()]  # Span's is another, Unit has none


def name(step) -> str:
    return type(step).__name__


def at_rate(step, rate: float):
    """The masking at another rate, if it has one."""
    return replace(step, rate=rate) if "rate" in {field.name for field in fields(step)} else step


def run(step, rows: Rows, seed: int = 3, epoch: int = 0):
    out = step(rows, PIECES, Draws(seed, epoch, np.arange(len(rows.tokens))))
    return out, out.targets != IGNORE


@pytest.mark.parametrize("step", WAYS, ids=name)
def test_special_tokens_stay_and_only_masked_tokens_change(step):
    rows = many(400, 40, pieces=0.3)
    out, hidden = run(at_rate(step, 0.5), rows)
    assert not np.isin(rows.tokens[hidden], (PIECES.cls, PIECES.sep, PIECES.pad)).any()
    assert (out.tokens[~hidden] == rows.tokens[~hidden]).all()
    assert (out.targets[hidden] == rows.tokens[hidden]).all()


@pytest.mark.parametrize("step", WAYS, ids=name)
def test_every_row_masks_something(step):
    short = rows_of("[CLS] cat [SEP]", "[CLS] un ##want ##ed [SEP]", "[CLS] cat [SEP] sat [SEP]", "[CLS] ##want [SEP]")
    for epoch in range(50):
        out = step(short, WORDS, Draws(0, epoch, np.arange(4)))
        assert (out.targets != IGNORE).any(axis=1).all()


@pytest.mark.parametrize("step", WAYS, ids=name)
def test_padding_is_never_masked(step):
    rows = rows_of("[CLS] cat sat [SEP]", "[CLS] the un ##want ##ed guest ##s ran away [SEP]")
    for epoch in range(50):
        out = step(rows, WORDS, Draws(0, epoch, np.arange(2)))
        assert (out.targets[~rows.visible] == IGNORE).all()
        assert (out.tokens[~rows.visible] == WORDS.pad).all()


@pytest.mark.parametrize("step", WAYS, ids=name)
def test_the_same_random_numbers_give_the_same_mask_and_others_do_not(step):
    rows = many(200, 40, pieces=0.3)
    before = rows.tokens.copy()
    first, again, other = run(step, rows)[0], run(step, rows)[0], run(step, rows, epoch=1)[0]
    for field in fields(Rows):
        one, two = getattr(first, field.name), getattr(again, field.name)
        assert (one is None and two is None) or np.array_equal(one, two)
    differing = (first.targets != other.targets).any(axis=1).mean()
    assert differing > (0.95 if step in PAPERS else 0.75)  # a masking of few starting points repeats some
    assert np.array_equal(rows.tokens, before)  # what was given is left alone


@pytest.mark.parametrize("step", WAYS, ids=name)
def test_the_mask_of_a_row_depends_on_no_other_row_and_not_on_the_width_of_the_batch(step):
    rows = many(12, 40, pieces=0.3)
    wide = np.full((12, 64), PIECES.pad)
    wide[:, :40] = rows.tokens
    padded = Rows(tokens=wide, segments=np.zeros_like(wide), visible=wide != PIECES.pad)
    together = step(padded, PIECES, Draws(5, 2, np.arange(12)))
    for number in range(12):
        alone = Rows(tokens=rows.tokens[[number]], segments=rows.segments[[number]], visible=rows.visible[[number]])
        one = step(alone, PIECES, Draws(5, 2, np.array([number])))
        assert (one.tokens[0] == together.tokens[number, :40]).all()
        assert (one.targets[0] == together.targets[number, :40]).all()
        if one.edges is not None:
            assert (one.edges[0] == together.edges[number, :40]).all()


@pytest.mark.parametrize("step", WHOLE, ids=name)
def test_a_word_is_masked_whole_or_not_at_all(step):
    rows = many(600, 64, pieces=0.4)
    _, hidden = run(step, rows)
    longest = 0
    for row, mask in zip(rows.tokens, hidden, strict=True):
        for word in words_in(row, PIECES):
            assert mask[word].all() or not mask[word].any()
            longest = max(longest, len(word) if mask[word].any() else 0)
    assert longest >= 4


@pytest.mark.parametrize("step", BUDGETED, ids=name)
@pytest.mark.parametrize(("length", "budget"), [(40, 6), (64, 10), (128, 19)])
def test_the_budget_is_never_exceeded(step, length, budget):
    _, hidden = run(step, many(2000, length, pieces=0.3))
    assert hidden.sum(axis=1).max() == budget


@pytest.mark.parametrize("step", [TokenMasking(), WordMasking(), NgramMasking(), ReplacedMasking()], ids=name)
def test_no_row_masks_more_than_the_most(step):
    _, hidden = run(replace(step, max_masked=4), many(200, 128))
    assert hidden.sum(axis=1).max() == 4


@pytest.mark.parametrize("step", PAPERS, ids=name)
def test_fifteen_percent_are_masked_and_treated_80_10_10(step):
    rows = many(12_000, 128, pieces=0.2)
    out, hidden = run(step, rows)
    assert hidden.sum() > 200_000
    assert hidden.mean() == pytest.approx(0.15, abs=0.005)
    shown, true = out.tokens[hidden], out.targets[hidden]
    masked, same = (shown == PIECES.mask).mean(), (shown == true).mean()
    assert masked == pytest.approx(0.80, abs=0.01)
    assert same == pytest.approx(0.10, abs=0.01)
    assert 1 - masked - same == pytest.approx(0.10, abs=0.01)


@pytest.mark.parametrize(
    ("step", "never"),
    [
        (DynamicMasking(mask_share=0.0, random_share=1.0), {0, 1, 2, 3, 4}),
        (SpanMasking(mask_share=0.0, random_share=1.0), {0, 1, 2, 3, 4}),
        (UnitMasking(mask_share=0.0, random_share=1.0), {0}),
        (TokenMasking(mask_share=0.0, random_share=1.0), set()),
        (WordMasking(mask_share=0.0, random_share=1.0), set()),
        (NgramMasking(mask_share=0.0, random_share=1.0), set()),
    ],
    ids=lambda value: name(value) if hasattr(value, "rate") else "",
)
def test_swapped_tokens_come_evenly_from_the_whole_vocabulary_or_from_all_but_the_special_ones(step, never):
    out, hidden = run(step, many(4000, 128))
    counts = np.bincount(out.tokens[hidden], minlength=1000)
    assert {number for number in range(1000) if not counts[number]} == never
    expected = hidden.sum() / (1000 - len(never))
    assert (np.abs(np.delete(counts, list(never)) - expected) < 6 * expected**0.5).all()


@dataclass(frozen=True, kw_only=True)
class Alone(StretchArrangement):
    """An arrangement without chance: every document is a row."""

    def plan(self, store, documents, length, rng) -> StretchPlan:
        begins = store.sentences[store.documents]
        return StretchPlan(stretches=np.array([(begins[d], begins[d + 1], 0, 0) for d in documents]))


def masks(step, epochs: int) -> list[list[tuple]]:
    """What each of 30 texts of 60 tokens looks like in every epoch."""
    tokens = many(30, 60, pieces=0.2).tokens
    tokens[:, [0, 30, -1]] = 7
    store = TokenStore(
        tokens=tokens.flatten(), sentences=np.arange(31) * 60, documents=np.arange(31),
        sources=np.zeros(30, dtype=np.int16), survey=Survey(),
    )  # fmt: skip
    samples = Samples(store, np.arange(30), (Alone(), step), PIECES, seed=1)
    seen = []
    for epoch in range(epochs):
        batch, (_, order) = samples.batch(epoch, 0, 30, 64), samples.plan(epoch, 64)
        rows = np.stack([batch.source.tokens, batch.targets], axis=1).reshape(30, -1)
        seen.append([tuple(rows[place].tolist()) for place in np.argsort(order)])
    return seen


@pytest.mark.parametrize("step", WAYS, ids=name)
def test_masks_are_new_in_every_epoch_and_come_again_for_the_same_one(step):
    seen = masks(step, 8)
    assert seen == masks(step, 8)
    different = [len({epoch[text] for epoch in seen}) for text in range(30)]
    assert min(different) >= 7  # one span of nine tokens may come again by chance
    assert np.mean(different) > 7.8


@pytest.mark.parametrize(
    "step", [TokenMasking(static_masks=3), WordMasking(static_masks=3), NgramMasking(static_masks=3)], ids=name
)
def test_static_masks_are_as_many_as_the_copies_and_used_in_turn(step):
    seen = masks(step, 12)
    for text in range(30):
        mine = [epoch[text] for epoch in seen]
        assert mine == mine[:3] * 4
        assert len(set(mine)) == 3


def test_held_out_orders_ask_as_often_as_the_paper():
    assert PermutedSpans(rate=0.4, max_length=2).for_validation() == PermutedSpans()


@pytest.mark.parametrize("step", [*PAPERS, ReplacedMasking()], ids=name)
def test_held_out_text_is_masked_by_the_standard_so_that_losses_compare(step):
    """Token by token at BERT's rate, to the same draws, whatever training masks."""
    rows = many(200, 40)
    wanted, _ = run(TokenMasking(), rows)
    found, _ = run(replace(step, rate=0.4).for_validation(), rows)
    assert np.array_equal(found.tokens, wanted.tokens)
    assert np.array_equal(found.targets, wanted.targets)


def test_held_out_spans_are_the_runs_of_masked_tokens():
    rows = many(1, 60)
    found, hidden = run(SpanMasking().for_validation(), rows)
    for place in np.flatnonzero(hidden[0]):
        before, after = found.edges[0, place]
        assert not hidden[0, before]
        assert not hidden[0, after]
        assert hidden[0, before + 1 : after].all()


@pytest.mark.parametrize("step", WAYS, ids=name)
def test_settings_survive_json(step):
    assert from_json(to_json(step), {type(step).__name__: type(step)}) == step


BAD = [
    ({"rate": rate}, r"corruption\.rate .* above 0 and below 1; found") for rate in (0.0, 1.0, -0.1, 1.5, float("nan"))
]
BAD += [
    (
        {"mask_share": 0.95, "random_share": 0.1},
        r"corruption\.mask_share and corruption\.random_share .* found 0\.95 and 0\.1",
    )
]
BAD += [({"mask_share": -0.1}, r"corruption\.mask_share"), ({"random_share": -0.1}, r"corruption\.random_share")]
BAD += [({"max_masked": 0}, r"corruption\.max_masked must be at least 1")]
BAD += [({"static_masks": 0}, r"corruption\.static_masks must be at least 1")]
BAD += [({"max_length": 0}, r"corruption\.max_length must be a number of words, at least 1; found 0")]
BAD += [({"geometric": value}, r"corruption\.geometric must be a probability") for value in (0.0, 1.0)]


@pytest.mark.parametrize("kind", MASKINGS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    ("settings", "said"), BAD, ids=lambda value: "-".join(value) if isinstance(value, dict) else ""
)
def test_settings_that_cannot_be_are_refused_by_name(kind, settings, said):
    if set(settings) <= {field.name for field in fields(kind)}:
        with pytest.raises(SettingError, match=said):
            kind(**settings)
    else:
        with pytest.raises(TypeError):
            kind(**settings)
