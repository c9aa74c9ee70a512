"""Time left, on a terminal and without one; charts."""

import io
import re

import pytest
from rich.console import Console

from plmkit.terminal.screen import Screen, columns, curve, duration, time_left
from plmkit.training.loop import Report, State


@pytest.mark.parametrize(
    ("seconds", "share", "after", "reported"),
    [
        (10.0, 0.5, 0, "0:10 left"),
        (60.0, 0.25, 0, "3:00 left"),
        (3600.0, 0.25, 0, "3:00:00 left"),
        (10.0, 1.0, 0, "0:00 left"),
        (10.0, 0.5, 2, "0:50 left"),  # ten of this, and two more of twenty
        (10.0, 1.0, 1, "0:10 left"),
        (5.0, 0.0, 0, ""),
    ],
)
def test_what_is_left_takes_as_long_as_what_is_done(seconds, share, after, reported):
    assert time_left(seconds, share, after) == reported


def shown(terminal: bool, before: float = 0.0) -> str:
    text = io.StringIO()
    screen = Screen(Console(file=text, force_terminal=terminal, width=120))
    with screen.training("training") as update:
        for step in (1, 5, 8):
            state = State(step=step, seconds=before + 30.0 * step, before=before)
            report = Report(
                state=state, progress=step / 10, loss=1.0, losses={}, learning_rate=0.1, norm=1.0, check=lambda: None
            )
            update(report, {"masked": 2.0}, 1000.0, {})
    return text.getvalue()


@pytest.mark.parametrize("before", [0.0, 100.0])  # what came before the first step says nothing of steps
def test_plain_lines_of_pretraining_say_what_is_left(before):
    assert shown(terminal=False, before=before).splitlines() == [
        " 10% step 1 masked 2.000 1,000 tokens/s, 4:30 left",
        " 50% step 5 masked 2.000 1,000 tokens/s, 2:30 left",
        " 80% step 8 masked 2.000 1,000 tokens/s, 1:00 left",
    ]


def test_the_bar_on_a_terminal_says_what_is_left():
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(terminal=True))
    assert re.search(r"training \S+ +80% masked 2\.000 1,000 tokens/s 1:00 left", plain)


def test_a_falling_line_runs_from_the_top_left_to_the_bottom_right():
    assert curve([(0, 3.0), (1, 2.0), (2, 1.0), (3, 0.0)], width=2, height=1) == ["   0.00 ┤⠑⢄"]
    top, bottom = curve([(0, 8.0), (1, 1.0)], width=1, height=2)
    assert (top, bottom) == ("   8.00 ┤⢱", "   1.00 ┤⢸")


def test_a_part_has_the_mean_of_its_points_or_what_was_before_it():
    assert columns([(0, 4.0), (1, 2.0), (7, 1.0), (8, 1.0)], 4) == [3.0, 3.0, 3.0, 1.0]


def test_a_flat_line_is_drawn_and_a_single_point_is_not():
    assert curve([(0, 2.0), (1, 2.0)], width=1, height=1) == ["   2.00 ┤⠉"]
    assert curve([(0, 2.0)]) == []


def test_a_duration_below_a_minute_is_in_seconds():
    assert [duration(seconds) for seconds in (0.2, 1.3, 42.0, 90.0)] == [
        "0.2 seconds", "1.3 seconds", "42 seconds", "1.5 minutes"
    ]  # fmt: skip
