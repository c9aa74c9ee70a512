"""The parts of a run."""

import pytest

from plmkit.errors import SettingError
from plmkit.schedules.stage import Stage, check_stages, stage_at


def stages_of(*pairs: tuple[float, int]) -> tuple[Stage, ...]:
    return tuple(Stage(until=until, length=length) for until, length in pairs)


def test_stages_take_turns_by_progress():
    stages = stages_of((0.5, 64), (0.9, 128), (1.0, 512))
    assert [stage_at(stages, done) for done in (0, 0.49, 0.5, 0.89, 0.9, 1.0, 1.1)] == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        ((0.9, 128),),
        ((0.9, 128), (0.5, 64), (1.0, 512)),
        ((1.0, 128), (1.0, 512)),  # the second is never reached
        ((0.0, 128), (1.0, 512)),
    ],
)
def test_stages_that_do_not_rise_to_the_end_of_the_run_are_refused(pairs):
    with pytest.raises(SettingError) as refused:
        check_stages(stages_of(*pairs))
    found = [list(pair) for pair in pairs]
    assert str(refused.value) == f"stages must rise to 1.0, as in [[0.9, 128], [1.0, 512]]; found {found}."


def test_a_row_has_room_for_two_texts():
    with pytest.raises(SettingError, match="stages: rows need at least 5 tokens; found 4"):
        Stage(length=4)
