"""Schemes of tags: recognised, read as seqeval reads them, repaired."""

import random

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from plmkit.tasks.tagging.schemes import (
    BIO,
    BIOES,
    PLAIN,
    canonical,
    classes_of,
    may_follow,
    repaired,
    scheme_in,
    scheme_of,
    spans_of,
)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O B-LOC I-LOC O B-PER", "BIO"),
        ("O B-LOC E-LOC O S-PER", "BIOES"),
        ("O B-LOC L-LOC O U-PER", "BIOES"),
        ("B M E S", "BIOES"),
        ("O I-LOC I-LOC O I-PER B-PER", "IOB1"),
        ("I-LOC I-LOC O", "IOB1"),
        ("I-LOC O B-PER", "BIO"),  # a mistake: one span begins with B-
        ("O O", "BIO"),
        ("DET NOUN O", "plain"),
        ("n v O", "plain"),
    ],
)
def test_the_scheme_of_a_file_is_recognised(tags, scheme):
    assert scheme_of([tags.split()]) == scheme


def test_a_model_is_recognised_by_its_classes():
    assert scheme_in(("O", "B-LOC", "I-LOC")) == BIO
    assert scheme_in(("O", "I-LOC", "I-PER")) == BIO
    assert scheme_in(("LABEL_0", "LABEL_1")) == PLAIN


def test_letters_and_separators_of_other_schemes_are_made_the_same():
    assert canonical("B_a M_a L_a U-b O".split()) == ("B-a", "I-a", "E-a", "S-b", "O")
    assert canonical("B M E S".split()) == ("B-_", "I-_", "E-_", "S-_")
    assert canonical(["B-a", "NN"]) == ("B-a", "NN")


def test_spans_are_those_of_seqeval_also_where_tags_make_no_sense():
    rng = random.Random(0)
    tags = ["O", *(f"{letter}-{name}" for letter in "BIES" for name in ("a", "b"))]
    for _ in range(500):
        some = rng.choices(tags, k=rng.randint(1, 8))
        assert [(span.label, span.begin, span.end - 1) for span in spans_of(some)] == get_entities(some)


@pytest.mark.parametrize(
    ("tags", "scheme", "right"),
    [
        ("O I-a I-a", BIO, "O B-a I-a"),
        ("B-a I-b", BIO, "B-a B-b"),
        ("B-a O", BIOES, "S-a O"),
        ("I-a I-a O E-b", BIOES, "B-a E-a O S-b"),
        ("B-a I-a B-a", BIO, "B-a I-a B-a"),
    ],
)
def test_mistakes_are_repaired_so_that_the_spans_stay(tags, scheme, right):
    assert repaired(tags.split(), scheme) == tuple(right.split())
    assert spans_of(tags.split()) == spans_of(right.split())


def test_every_type_has_all_its_tags_even_if_training_lacks_some():
    assert classes_of({"O", "B-b", "B-a"}, BIO) == ("O", "B-a", "I-a", "B-b", "I-b")
    assert classes_of({"S-a"}, BIOES) == ("O", "B-a", "I-a", "E-a", "S-a")
    assert classes_of({"v", "n"}, PLAIN) == ("n", "v")


@pytest.mark.parametrize("scheme", [BIO, BIOES])
def test_a_tag_may_follow_another_where_nothing_would_be_repaired(scheme):
    tags = classes_of({"B-a", "B-b"}, scheme)
    rng = random.Random(1)
    for _ in range(500):
        some = rng.choices(tags, k=3)
        allowed = all(may_follow(*pair, scheme) for pair in zip(["O", *some], [*some, "O"], strict=True))
        assert allowed == (repaired(some, scheme) == tuple(some)), some
