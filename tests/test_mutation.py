"""The mutation run leaves out what decides nothing, tries the nearest tests first, and tells what it found."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = """@dataclass(frozen=True)
class A:
    size: int | None = 3

    def go(self, a: int = 1) -> list[int] | None:
        assert a + 2
        if a < 4:
            raise ValueError(f"{a - 5}" * 6)
        self.say("7" * 7)
        return [b * 8 for b in zip(a, strict=True)]
"""


@pytest.fixture(autouse=True)
def within_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks are beside the package, not in it."""
    monkeypatch.syspath_prepend(ROOT)


def test_annotations_decorators_messages_and_guards_are_not_mutated():
    from benchmarks.mutation import idle_spans

    lines, said = CODE.splitlines(), []
    for (first, begin), (last, end) in idle_spans(CODE):
        assert first == last
        said.append(lines[first - 1][begin:end])
    assert sorted(said) == sorted([
        "dataclass(frozen=True)", "int | None", "int", "list[int] | None", "assert a + 2",
        'raise ValueError(f"{a - 5}" * 6)', 'f"{a - 5}"', '"7" * 7', "True",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "is_apt"),
    [
        ("core/NumberReplacer", True),
        ("core/ReplaceBinaryOperator_Add_Sub", True),
        ("core/ReplaceBinaryOperator_Add_BitXor", False),
        ("core/ReplaceBinaryOperator_BitAnd_BitOr", True),
        ("core/ReplaceComparisonOperator_Lt_GtE", True),
        ("core/ReplaceComparisonOperator_Eq_Is", False),
        ("core/ReplaceUnaryOperator_Delete_Not", True),
        ("core/RemoveDecorator", False),
    ],
)
def test_an_operator_is_replaced_by_one_that_takes_the_same_things(operator, is_apt):
    from benchmarks.mutation import apt

    assert apt(operator) == is_apt


def mutant(**changes) -> dict:
    reported = {"room": "corruption", "file": "plmkit/corruption/mask/span.py", "line": 3, "outcome": "killed"}
    return {**reported, "before": "a + b", "after": "a - b", **changes}


def test_a_files_own_tests_are_tried_first_and_the_recorded_losses_last():
    from benchmarks.mutation import Mutant, stages_for

    made = Mutant(
        room="corruption", file="plmkit/corruption/mask/span.py", source="", operator="", occurrence=0, line=1
    )  # fmt: skip
    assert stages_for(made) == [("tests/corruption/mask/test_span.py",), ("tests/corruption",), ("tests/golden",)]


def test_the_lines_that_differ_are_reported():
    from benchmarks.mutation import change

    assert change("a\n  b = 1\nc\n", "a\n  b = 2\nc\n") == ("b = 1", "b = 2")
    assert change("f(\n  1,\n  2,\n)\n", "f(\n  0,\n  2,\n)\n") == ("1,", "0,")


def test_the_report_counts_by_room_and_gives_a_reason_for_each_survivor():
    from benchmarks.mutation_report import report

    found = [
        mutant(), mutant(outcome="timeout"), mutant(outcome="survived"),
        mutant(room="tasks", file="plmkit/tasks/rows.py", outcome="survived", after="a * b"),
    ]  # fmt: skip
    reported = report(
        found, 4, 7, {"plmkit/corruption/mask/span.py: a + b -> a - b": "b is always 0 here"}, commit="1a2b3c4"
    ).splitlines()
    assert "Run at commit 1a2b3c4." in reported
    assert "| corruption | 3 | 2 | 1 | 67% |" in reported
    assert "| tasks | 1 | 0 | 1 | 0% |" in reported
    assert "| **all** | 4 | 2 | 2 | 50% |" in reported
    assert reported[-6:] == [
        "- plmkit/corruption/mask/span.py:3: b is always 0 here", "  - `a + b`", "  - `a - b`",
        "- plmkit/tasks/rows.py:3: not explained yet", "  - `a + b`", "  - `a * b`",
    ]  # fmt: skip
