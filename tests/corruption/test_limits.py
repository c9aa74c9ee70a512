"""How far each setting may go: what is at the limit is taken, what is beyond it is refused by name."""

import pytest

from plmkit.corruption.arrange.dialogue import Dialogue, DialogueAndText
from plmkit.corruption.arrange.packing import ContiguousSegments
from plmkit.corruption.arrange.pairs import OrderedPairs, SentencePairs
from plmkit.corruption.arrange.reuse import ReusedText
from plmkit.corruption.mask.permutation import PermutedSpans
from plmkit.corruption.mask.span import SpanMasking
from plmkit.corruption.mask.token import DynamicMasking, ReplacedMasking, TokenMasking
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.corruption.mask.word import NgramMasking, WordMasking
from plmkit.errors import SettingError

LITTLE = 1e-9
CLOSED = [(SentencePairs, "short"), (OrderedPairs, "short"), (ContiguousSegments, "single"),
          (ContiguousSegments, "short"), (Dialogue, "fake"), (DialogueAndText, "fake")]  # fmt: skip
OPEN = [(DialogueAndText, "share"), (ReusedText, "reuse"), (SpanMasking, "geometric"), (PermutedSpans, "rate"),
        (TokenMasking, "rate"), (WordMasking, "rate"), (UnitMasking, "rate")]  # fmt: skip
LEAST_ONE = [(SpanMasking, "max_length"), (NgramMasking, "max_length"), (PermutedSpans, "max_length"),
             (PermutedSpans, "context"), (TokenMasking, "max_masked"), (TokenMasking, "static_masks"),
             (ReplacedMasking, "max_masked"), (WordMasking, "max_masked")]  # fmt: skip


def taken(kind: type, name: str, value: float) -> bool:
    """Is it? A refusal names the setting and what was found."""
    try:
        return getattr(kind(**{name: value}), name) == value
    except SettingError as refusal:
        assert str(refusal).startswith(f"corruption.{name} ")
        assert f"found {value}" in str(refusal)
        return False


@pytest.mark.parametrize(("kind", "name"), CLOSED)
def test_a_share_goes_from_0_to_1(kind, name):
    assert [taken(kind, name, value) for value in (-LITTLE, 0.0, 1.0, 1 + LITTLE)] == [False, True, True, False]


@pytest.mark.parametrize(("kind", "name"), OPEN)
def test_a_share_of_something_that_must_be_left_lies_between_0_and_1(kind, name):
    assert [taken(kind, name, value) for value in (0.0, LITTLE, 1 - LITTLE, 1.0)] == [False, True, True, False]


def test_a_reused_share_that_is_only_declared_may_be_0():
    assert [taken(PermutedSpans, "reuse", value) for value in (-LITTLE, 0.0, 1.0)] == [False, True, False]


@pytest.mark.parametrize(("kind", "name"), LEAST_ONE)
def test_a_count_is_1_at_least(kind, name):
    assert [taken(kind, name, value) for value in (0, 1, 2)] == [False, True, True]


@pytest.mark.parametrize("kind", [TokenMasking, DynamicMasking, WordMasking, NgramMasking, SpanMasking, UnitMasking])
@pytest.mark.parametrize(("masked", "swapped"), [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.0, 0.0)])
def test_mask_share_and_random_share_may_be_all_or_nothing(kind, masked, swapped):
    made = kind(mask_share=masked, random_share=swapped)
    assert (made.mask_share, made.random_share) == (masked, swapped)


@pytest.mark.parametrize(
    ("made", "defaults"),
    [
        (
            TokenMasking(),
            {"rate": 0.15, "mask_share": 0.8, "random_share": 0.1, "max_masked": None, "static_masks": None},
        ),
        (DynamicMasking(), {"rate": 0.15, "mask_share": 0.8, "random_share": 0.1}),
        (ReplacedMasking(), {"rate": 0.15, "mask_share": 1.0, "max_masked": None}),
        (SpanMasking(), {"rate": 0.15, "geometric": 0.2, "max_length": 10, "mask_share": 0.8, "random_share": 0.1}),
        (
            WordMasking(),
            {"rate": 0.15, "mask_share": 0.8, "random_share": 0.1, "max_masked": None, "static_masks": None},
        ),
        (
            NgramMasking(),
            {
                "rate": 0.15,
                "max_length": 3,
                "mask_share": 0.8,
                "random_share": 0.1,
                "max_masked": None,
                "static_masks": None,
            },
        ),
        (UnitMasking(), {"rate": 0.15, "mask_share": 0.8, "random_share": 0.1}),
        (PermutedSpans(), {"rate": 1 / 6, "max_length": 5, "context": 6, "reuse": 0.5}),
        (SentencePairs(), {"short": 0.1}),
        (OrderedPairs(), {"short": 0.1}),
        (ContiguousSegments(), {"single": 0.1, "short": 0.05}),
        (Dialogue(), {"fake": 0.5}),
        (DialogueAndText(), {"dialogues": (1,), "share": 0.5, "fake": 0.5}),
        (ReusedText(), {"reuse": 0.5, "backward": True}),
    ],
    ids=lambda made: type(made).__name__,
)
def test_what_is_not_said_is_the_papers(made, defaults):
    assert {name: getattr(made, name) for name in defaults} == defaults
