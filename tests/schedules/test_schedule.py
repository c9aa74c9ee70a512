"""What each released code multiplies its peak rate by."""

import math
from dataclasses import replace

import pytest

from plmkit.catalogue import find
from plmkit.errors import SettingError
from plmkit.schedules.optimizers import Adadelta, AdamW, Momentum
from plmkit.schedules.schedule import (
    SHAPES,
    Schedule,
    Stage,
    check_stages,
    constant,
    cosine,
    linear_after_warmup,
    linear_product,
    stage_at,
)
from plmkit.training.loop import Budget, State, rate_progress


def schedule(**changes) -> Schedule:
    settings = {"steps": 100, "batch": 8, "learning_rate": 1e-3, "warmup": 0.1}
    return Schedule(**settings | changes)


def test_berts_rate_falls_over_all_steps_and_jumps_down_a_little_where_the_warm_up_ends():
    factor = schedule(shape="linear_over_all").factor
    rates = [factor(step / 100) for step in (0, 1, 5, 9, 10, 11, 50, 99, 100)]
    assert rates == pytest.approx([0, 0.1, 0.5, 0.9, 0.9, 0.89, 0.5, 0.01, 0], abs=1e-15)
    finer = [factor(step / 10_000) for step in (999, 1000)]
    assert finer == pytest.approx([0.999, 0.9], abs=1e-15)  # the jump


def test_the_transformers_rate_is_that_of_the_paper_at_each_step_of_its_own_budget():
    recipe = find("transformer-base")
    rates = {1: 1.746928e-7, 1000: 1.746928e-4, 4000: 6.987712e-4, 16_000: 3.493856e-4, 100_000: 1.397542e-4}
    budget = Budget(steps=recipe.schedule.steps)
    for step, rate in rates.items():
        factor = recipe.schedule.factor(rate_progress(budget, State(step=step - 1), progress=0.0))
        assert recipe.schedule.learning_rate * factor == pytest.approx(rate, rel=1e-6)
    assert schedule(shape="inverse_sqrt", warmup=0.0).factor(0.5) == 1.0


def test_electras_rate_is_the_decay_times_the_warm_up():
    factor = schedule(shape="linear_product").factor
    rates = [factor(step / 100) for step in (0, 5, 10, 50, 100)]
    assert rates == pytest.approx([0, 0.95 * 0.5, 0.9, 0.5, 0], abs=1e-15)


def test_xlnets_rate_peaks_where_the_warm_up_ends_and_falls_to_a_thousandth():
    factor = schedule(shape="linear_after_warmup").factor
    rates = [factor(step / 100) for step in (0, 5, 10, 55, 100)]
    assert rates == pytest.approx([0, 0.5, 1.0, 0.5005, 0.001], abs=1e-15)
    assert linear_after_warmup(1.0, 0.1) == 0.001


def test_robertas_rate_peaks_where_the_warm_up_ends_and_falls_to_nothing():
    factor = schedule(shape="linear_to_zero").factor
    rates = [factor(step / 100) for step in (0, 5, 10, 55, 91, 100)]
    assert rates == pytest.approx([0, 0.5, 1.0, 0.5, 0.1, 0], abs=1e-15)


@pytest.mark.parametrize("warm", [0.002, 0.1, 0.5])
def test_gpts_warmup_linear_is_electras_formula(warm):
    for step in range(1001):
        done = step / 1000
        assert linear_product(done, warm) == (done / warm if done <= warm else 1) * (1 - done)


def test_a_cosine_falls_from_the_peak_to_nothing():
    rates = [cosine(done, 0.2) for done in (0.1, 0.2, 0.6, 1.0)]
    assert rates == pytest.approx([0.5, 1.0, 0.5, 0.0], abs=1e-15)
    assert cosine(0.4, 0.2) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))


def test_gpt3s_rate_falls_to_a_tenth_at_260_of_300_parts_and_stays_there():
    factor = schedule(shape="cosine_to_tenth", warmup=0.2).factor
    middle = (0.2 + 260 / 300) / 2
    rates = [factor(done) for done in (0.1, 0.2, middle, 260 / 300, 0.9, 1.0)]
    assert rates == pytest.approx([0.5, 1.0, 0.55, 0.1, 0.1, 0.1], abs=1e-12)
    quarter = 0.2 + (260 / 300 - 0.2) / 4
    assert factor(quarter) == pytest.approx(0.1 + 0.45 * (1 + math.cos(math.pi / 4)), abs=1e-12)


def test_luongs_rate_is_halved_after_each_of_the_last_five_of_ten_epochs():
    factor = schedule(shape="halving", warmup=0.0).factor
    rates = [factor(done) for done in (0.0, 0.25, 0.499, 0.5, 0.599, 0.6, 0.7, 0.8, 0.9, 1.0)]
    assert rates == [1, 1, 1, 1 / 2, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 32]


def test_a_constant_rate_stays_at_its_peak():
    assert [constant(done, 0.5) for done in (0.25, 0.5, 1.0)] == [0.5, 1.0, 1.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_without_warm_up_every_shape_starts_at_its_peak(shape):
    assert schedule(shape=shape, warmup=0.0).factor(0.0) == 1.0


@pytest.mark.parametrize("shape", SHAPES)
def test_no_shape_leaves_the_range_from_0_to_1(shape):
    factor = schedule(shape=shape, warmup=0.3).factor
    assert all(0 <= factor(step / 100) <= 1 for step in range(150))
    assert factor(1.4) == factor(1.0)  # a budget in seconds can be overrun by a step


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shape": "linaer"}, "Unknown schedule shape 'linaer'; choose from linear_over_all, linear_product, "),
        ({"steps": 0}, "schedule.steps must be above 0; found 0."),
        ({"batch": -8}, "schedule.batch must be above 0; found -8."),
        ({"learning_rate": 0.0}, "schedule.learning_rate must be above 0; found 0.0."),
        ({"warmup": 1.0}, "schedule.warmup must be a share of the run, below 1; found 1.0."),
        ({"warmup": -0.1}, "schedule.warmup must be a share of the run, below 1; found -0.1."),
        ({"clip": -1.0}, "schedule.clip must be a maximum gradient norm, or 0 for no clipping; found -1.0."),
        ({"optimizer": AdamW(beta1=1.0)}, "schedule.optimizer.beta1 must be at least 0 and below 1; found 1.0."),
        ({"optimizer": AdamW(beta2=1.0)}, "schedule.optimizer.beta2 must be at least 0 and below 1; found 1.0."),
        ({"optimizer": Adadelta(rho=1.0)}, "schedule.optimizer.rho must be at least 0 and below 1; found 1.0."),
        (
            {"optimizer": Momentum(momentum=1.0)},
            "schedule.optimizer.momentum must be at least 0 and below 1; found 1.0.",
        ),
        (
            {"optimizer": AdamW(epsilon=math.inf)},
            "schedule.optimizer.epsilon must be at least 0 and below inf; found inf.",
        ),
        ({"optimizer": AdamW(decay=math.nan)}, "schedule.optimizer.decay must be at least 0 and below inf; found nan."),
        ({"optimizer": AdamW(decay=-1.0)}, "schedule.optimizer.decay must be at least 0 and below inf; found -1.0."),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(changes, says):
    with pytest.raises(SettingError) as refusal:
        schedule(**changes)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 1, "batch": 1, "learning_rate": 1e-9},
        {"warmup": 0.999},
        {"clip": 0.0},
        {"optimizer": AdamW(beta1=0.0, beta2=0.999999, epsilon=0.0, decay=2.0)},
        {"optimizer": Momentum(momentum=0.0)},
    ],
)
def test_the_smallest_and_largest_that_can_be_are_taken(changes):
    made = schedule(**changes)
    assert all(getattr(made, name) == value for name, value in changes.items())


def test_what_is_not_said_is_as_berts():
    made = schedule()
    assert (made.shape, made.clip, made.optimizer) == ("linear_over_all", 1.0, AdamW())


def test_a_schedule_is_checked_when_it_is_changed_too():
    with pytest.raises(SettingError):
        replace(schedule(), steps=-1)


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
