"""Arrangements and maskings declare what they fill, and fill what they declare."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from stores import all_documents, store_of

from plmkit.catalogue import find
from plmkit.choices import ARRANGEMENTS, LABELLINGS, MASKINGS
from plmkit.config.machine import settle
from plmkit.config.settings import from_json, to_json
from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.corruption.contract import Arrangement, Counts, Masking, StretchArrangement
from plmkit.corruption.mask.span import SpanMasking
from plmkit.corruption.mask.token import TokenMasking
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.data.batch import IGNORE, Batch, Side, as_batch
from plmkit.data.randomness import Draws, generator
from plmkit.data.rows import Rows, SideRows
from plmkit.data.samples import Samples
from plmkit.data.vocabulary import ROLES, SPECIAL_TOKENS, Vocabulary
from plmkit.preparation.counts import prepared
from plmkit.preparation.prepare import prepare
from plmkit.recipe import one_stream
from plmkit.terminal.screen import Screen

STORE = store_of(*([[5, 6, 7, 4]] * 30), lines=[1] * 120, sources=[0, 1] * 15)
PAIRS = store_of(*([[5, 6]] * 30), lines=[1] * 60, sources=[0, 1] * 15)
STORE = replace(  # between the first two sentences of each document is a connective
    STORE, connectives=np.array([[22 * number, 22 * number + 5, 22 * number + 5, 22 * number + 11, number % 15, 0]
                                 for number in range(30)])
)  # fmt: skip
QUERIES = replace(STORE, relevance=np.array([-1, 0, 1, 1] * 30, dtype=np.int8))
PAIRS = replace(PAIRS, tokens=PAIRS.tokens % 500 + 6)
TRIPLES = store_of(*([[2, 1, 3]] * 30), sources=[0, 1] * 15)
TRIPLES = replace(
    TRIPLES, tokens=TRIPLES.tokens % 500 + 6, triples=np.array([[one, one % 3, 30 + one] for one in range(30)])
)
WORDS = Vocabulary.from_tokens(
    (*SPECIAL_TOKENS, "<|endoftext|>", *(f"w{number}" for number in range(len(STORE.tokens)))),
    needed=(*ROLES, "end"),
)
BY_WORD = UnitMasking(levels=("character", "word"), shares=(0.5, 0.5))  # no segmenter is needed
NAMES = "ann bob cleo dora emil".split()
ALWAYS = {"source", "continues"}  # of every arrangement, and of those whose rows continue


def samples_of(*corruption) -> Samples:
    store = PAIRS if corruption[0].pairs else replace(STORE, tokens=STORE.tokens % 500 + 6)
    if corruption[0].queries:
        store = replace(QUERIES, tokens=store.tokens)
    if corruption[0].triples:
        return Samples(TRIPLES, all_documents(TRIPLES), corruption, WORDS, seed=0)
    if corruption[0].images:
        store = replace(store, images=np.zeros((30, 3, 4, 4), dtype=np.uint8))
    return Samples(store, all_documents(store), corruption, WORDS, seed=0)


def filled(batch: Batch) -> set[str]:
    return {field.name for field in fields(batch) if getattr(batch, field.name) is not field.default} - ALWAYS


@pytest.mark.parametrize("kind", ARRANGEMENTS, ids=lambda kind: kind.__name__)
def test_an_arrangement_fills_the_fields_it_declares_and_no_others(kind):
    assert issubclass(kind, Arrangement)
    samples = samples_of(kind())
    batch = samples.batch(0, 0, 8, 32)
    assert filled(batch) == set(kind.writes)
    assert (batch.continues is not None) == kind.continues
    assert int(batch.source.segment_ids.max()) < kind.segments
    labels = [getattr(batch, name) for name in kind.writes - {"target", "targets", "images", "entities"}]
    assert all(label.shape == (8,) for label in labels)
    used = set(batch.source.tokens[batch.source.visible].tolist())
    specials = {role: getattr(WORDS, role) for role in (*ROLES, "end")}
    needed = {*kind.needs, *(("cls",) if kind.pairs else ())}  # a pair begins with [CLS] only where there is one
    assert all(role in needed for role, token in specials.items() if token in used)


@pytest.mark.parametrize("kind", ARRANGEMENTS, ids=lambda kind: kind.__name__)
def test_a_plan_counts_its_rows_and_keeps_those_that_are_chosen(kind):
    samples = samples_of(kind())
    plan = kind().plan(samples.store, samples.documents, 32, generator(0))
    assert np.concatenate(list(plan.blocks())).tolist() == list(range(len(plan)))
    few = plan.only(np.array([2, 0]))
    assert len(few) == 2
    whole, part = (kind().fill(samples.store, one, np.arange(3)[: len(one)], WORDS, 32) for one in (plan, few))
    width = part.tokens.shape[1]
    assert np.array_equal(part.tokens, whole.tokens[[2, 0], :width])
    stretches, owners, segments = plan.of(np.array([0, 2]))
    assert len(stretches) == len(owners) == len(segments)
    assert set(owners.tolist()) == {0, 1}


@pytest.mark.parametrize("kind", MASKINGS, ids=lambda kind: kind.__name__)
def test_a_masking_fills_the_fields_it_declares_and_no_others(kind):
    assert issubclass(kind, Masking)
    step = BY_WORD if kind is UnitMasking else kind()
    arranged, masked = (samples_of(SingleSegment(), *steps).batch(0, 0, 8, 32) for steps in ((), (step,)))
    assert not filled(arranged)
    assert filled(masked) == set(kind.writes)
    held = samples_of(SingleSegment(), step.for_validation()).batch(0, 0, 8, 32)
    assert filled(held) == set(kind.writes)  # or else an objective would miss its fields on held-out text
    chosen = masked.predicted if "targets" in kind.writes else masked.region_masks > 0
    assert chosen.any(dim=1).all()


@pytest.mark.parametrize("kind", LABELLINGS, ids=lambda kind: kind.__name__)
def test_a_labelling_fills_the_fields_it_declares_and_masks_nothing(kind):
    store = replace(
        STORE, tokens=STORE.tokens % 500 + 6, capitals=np.full(83, 0b10010000, dtype=np.uint8),
        repeats=np.ones((660, 2), dtype=np.uint16),
    )  # fmt: skip
    plain, labelled = (
        Samples(store, all_documents(store), (SingleSegment(), *steps), WORDS, seed=0).batch(0, 0, 8, 16)
        for steps in ((), (kind(),))
    )
    assert (filled(plain), filled(labelled)) == (set(), set(kind.writes))
    assert torch.equal(plain.source.tokens, labelled.source.tokens)
    (name,) = kind.writes
    labels = getattr(labelled, name)
    assert labels.shape == labelled.source.tokens.shape
    assert set(labels.unique().tolist()) == {IGNORE, 0, 1}
    assert (labels[:, 0] == IGNORE).all() and (labels[~labelled.source.visible] == IGNORE).all()


@pytest.mark.parametrize("base", [StretchArrangement, Masking], ids=lambda base: base.__name__)
@pytest.mark.parametrize("declared", ["writes", "needs_counts"])
def test_a_field_that_does_not_exist_is_refused_when_the_class_is_defined(base, declared):
    with pytest.raises(TypeError, match=rf"Wrong\.{declared} names tragets, but (Batch|Counts) has no such field\."):
        type("Wrong", (base,), {declared: frozenset({"tragets"})})


def test_rows_become_the_batch_fields_of_the_same_name():
    """What is left behind is named here, so that a new field of Rows cannot be forgotten."""
    names = {field.name for field in fields(Rows)}
    known = {field.name for kind in (Side, Batch) for field in fields(kind)}
    assert names - known == {"units", "uppercase", "recurs"}
    shape = (2, 3)
    numbers = {name: np.full(shape, number) for number, name in enumerate(sorted(names - {"target", "regions"}))}
    batch = as_batch(Rows(**numbers, target=SideRows(tokens=np.full((2, 5), 90), visible=np.ones((2, 5), dtype=bool))))
    for name in names - {"target", "regions", "units", "uppercase", "recurs"}:
        part = batch.source if name in {field.name for field in fields(Side)} else batch
        assert getattr(part, name).tolist() == numbers[name].tolist()
    assert batch.target.tokens.tolist() == [[90] * 5] * 2
    assert batch.target.segments is None


@dataclass(frozen=True, kw_only=True)
class RareMasking(TokenMasking):
    """Mask the rarest tokens of a row."""

    needs_counts: ClassVar[frozenset[str]] = frozenset({"frequencies"})
    frequencies: tuple[int, ...] = ()

    def prepared(self, counts: Counts) -> "RareMasking":
        return replace(self, frequencies=tuple(counts.frequencies.tolist()))

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        counts = np.array(self.frequencies)[rows.tokens]
        counts[np.isin(rows.tokens, (vocabulary.cls, vocabulary.sep, vocabulary.pad))] = max(self.frequencies) + 1
        return counts == counts.min(axis=1, keepdims=True)


def test_a_masking_can_mask_by_how_often_tokens_occur_in_the_documents_that_are_trained_on():
    tokens = np.array([6, 6, 7, 7, 6, 7, 8, 8, 8, 8])  # 8 is rare among the first two documents
    store = replace(store_of([3], [4], [3]), tokens=tokens)
    steps = prepared((SingleSegment(), RareMasking(mask_share=1.0, random_share=0.0)), store, np.array([0, 1]), 9, 0)
    assert steps[1].frequencies == (0, 0, 0, 0, 0, 0, 3, 3, 1)
    words = Vocabulary.from_tokens((*SPECIAL_TOKENS, *"abcd"))
    rows = Samples(store, np.array([1]), steps, words, seed=0).rows(0, 0, 1, 16)
    assert words.names(rows.tokens[0, :6]) == ["[CLS]", "c", "b", "c", "[MASK]", "[SEP]"]
    assert rows.targets[0].tolist() == [IGNORE, IGNORE, IGNORE, IGNORE, 8, IGNORE, IGNORE, IGNORE]


def test_what_stands_near_what_is_counted_where_it_is_needed():
    class Near(TokenMasking):
        needs_counts = frozenset({"cooccurrence"})

        def prepared(self, counts: Counts) -> TokenMasking:
            assert (counts.tokens, counts.frequencies) == (None, None)
            near = counts.cooccurrence
            return TokenMasking(max_masked=int(near[6, 7]), static_masks=int(near[6, 9] + 1))

    store = replace(store_of([4], [2]), tokens=np.array([6, 7, 7, 8, 9, 9]))
    (step,) = prepared((Near(),), store, np.array([0, 1]), 10, 0)
    assert step == TokenMasking(max_masked=2, static_masks=1)  # 6 is near two 7, and 9 is of another document


def test_counts_are_those_of_the_corpus_that_is_prepared(tmp_path):
    settings = settle(find("bert-tiny"), ["tokenizer.size=200"])
    corruption = (SingleSegment(), RareMasking())
    recipe = replace(settings.recipe, streams=one_stream(*corruption), objectives=settings.recipe.objectives[:1])
    text = tmp_path / "corpus.txt"
    text.write_text("\n\n".join(f"the cat saw {name}. it was {name} that the cat saw." for name in NAMES * 5))
    material = prepare(replace(settings, recipe=recipe), [str(text)], None, 0, Screen())
    used = material.samples.maskings[0].frequencies
    assert list(used) == material.frequencies.tolist()
    assert sum(used) == int(material.store.document_tokens()[material.samples.documents].sum()) > 0
    assert recipe.corruption == corruption  # what is written with a run has no counts in it


def test_random_tokens_of_spans_come_from_the_corpus_that_is_prepared():
    (step,) = prepared((SpanMasking(mask_share=0.0, random_share=1.0),), STORE, np.arange(30), len(WORDS), 0)
    assert step.corpus is STORE.tokens


def test_old_names_of_settings_are_known_in_old_runs_and_on_the_command_line():
    old = {"kind": "TokenMasking", "rate": 0.2, "masked": 0.7, "swapped": 0.2, "most": 20, "copies": 5}
    step = TokenMasking(rate=0.2, mask_share=0.7, random_share=0.2, max_masked=20, static_masks=5)
    assert from_json(old, {"TokenMasking": TokenMasking}, "corruption") == step
    assert from_json(to_json(step), {"TokenMasking": TokenMasking}, "corruption") == step
    given = ["corruption.masked=0.7", "corruption.swapped=0.2", "corruption.most=20", "corruption.rate=0.2"]
    assert settle(find("bert-tiny"), [*given, "corruption.token_masking.copies=5"]).recipe.corruption[1] == step
