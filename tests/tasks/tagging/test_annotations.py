"""Spans of characters as tools export them."""

import json

import pytest

from plmkit.errors import InputError
from plmkit.tasks.tagging.annotations import Annotation, annotations_in, tagged_words

TEXT = "Ann is in New York."
SPANS = [Annotation(start=0, end=3, label="PER"), Annotation(start=10, end=18, label="LOC")]


def studio(start: int, end: int, text: str, label: str) -> dict:
    return {"type": "labels", "value": {"start": start, "end": end, "text": text, "labels": [label]}}


@pytest.mark.parametrize(
    "cell",
    [
        [[0, 3, "PER"], [10, 18, "LOC"]],  # doccano, spaCy
        [{"start": 10, "end": 18, "label": "LOC"}, {"start": 0, "end": 3, "label": "PER"}],  # spaCy, prodigy
        [{"id": 1, "start_offset": 0, "end_offset": 3, "label": "PER"},
         {"id": 2, "start_offset": 10, "end_offset": 18, "label": "LOC"}],  # doccano
        [studio(0, 3, "Ann", "PER"), studio(10, 18, "New York", "LOC"), {"type": "choices", "value": {"choices": []}}],
        [{"start": 0, "end": 3, "labels": ["PER"]}, {"start": 9, "end": 18, "labels": ["LOC"]}],  # a space too many
        {"PER": {"Ann": [[0, 2]]}, "LOC": {"New York": [[10, 17]]}},  # CLUENER: the last character, not the next
        json.dumps([[0, 3, "PER"], [10, 18, "LOC"]]),
    ],
)  # fmt: skip
def test_every_tools_spans_are_the_same(cell):
    assert annotations_in(cell, TEXT, "a") == SPANS


def test_numbers_that_count_as_javascript_does_are_recognised_by_the_text():
    assert annotations_in([studio(3, 6, "Ann", "PER")], "😀 Ann", "a") == [Annotation(start=2, end=5, label="PER")]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ([[0, 3, "PER"], [2, 6, "LOC"]], r"the spans 'Ann' \(0–3, PER\) and 'n is' \(2–6, LOC\) overlap"),
        ([[15, 30, "LOC"]], r"the span 15–30 \(LOC\) lies outside the text, which has 19 characters"),
        ([[3, 3, "LOC"]], "lies outside"),
        ([[-1, 3, "LOC"]], "lies outside"),
        ([[3, 4, "LOC"]], "is blank"),
        ([["0", 3, "LOC"]], "a span has start, end and label"),
        ([[0, 3]], "a span has start, end and label"),
        ([{"start": 0, "end": 3}], "a span has start, end and label"),
        ("no json", "a span has start, end and label"),
        ([studio(4, 6, "Ann", "PER")], r"is 'is', but its text is given as 'Ann'"),
    ],
)
def test_a_span_that_cannot_be_is_refused(cell, expected):
    with pytest.raises(InputError, match=f"^a: .*{expected}"):
        annotations_in(cell, TEXT, "a")


def test_words_get_the_tags_of_their_spans_and_are_cut_at_their_ends():
    words, tags = tagged_words(TEXT, SPANS)
    assert [TEXT[begin:end] for begin, end in words] == ["Ann", "is", "in", "New", "York", "."]
    assert tags == ("B-PER", "O", "O", "B-LOC", "I-LOC", "O")
    words, tags = tagged_words("北京大学SQL课", annotations_in([[0, 4, "ORG"], [4, 6, "X"]], "北京大学SQL课", "a"))
    assert len(words) == 7  # 北 京 大 学 SQ L 课
    assert tags == ("B-ORG", "I-ORG", "I-ORG", "I-ORG", "B-X", "O", "O")
