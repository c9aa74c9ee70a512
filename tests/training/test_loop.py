"""The loop, on networks of one number where that is enough."""

import math
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.mixture_source import FedStream, MixtureSource
from plmkit.data.samples import Place, Position
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.network import Outcome
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.training.loop import Budget, Diverged, State, train
from plmkit.training.step import Gradients, Step, norm_of, pieces, validate

CPU = torch.device("cpu")
VOCABULARY = Vocabulary.from_tokens([*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyz"])


class Slope(nn.Module):
    """Its loss is weight · slope, so that the gradient is the slope."""

    def __init__(self, slope: tuple[float, ...]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(len(slope)))
        self.slope = torch.tensor(slope)

    def forward(self, batch: Batch) -> Outcome:
        losses = {"slope": self.loss()}
        return Outcome(losses=losses, weighted=losses, scored=self.scored(batch), memory=None)

    def loss(self) -> torch.Tensor:
        return (self.weight * self.slope).sum()

    def advance(self, progress: float) -> None:
        self.progress = progress

    def scored(self, batch: Batch) -> dict[str, int]:
        return {"slope": len(batch.source.tokens)}


STAGES = (Stage(length=6),)


class Same:
    """A source of one batch, which remembers what it was asked for."""

    def __init__(self, batch: Batch | None = None, seconds: float = 0.0) -> None:
        tokens = torch.ones(2, 6, dtype=torch.long)
        self.batch = batch or Batch(source=Side(tokens=tokens, visible=tokens > 0, segments=0 * tokens))
        self.seconds = seconds
        self.asked: list[tuple[Place, int, int]] = []

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        time.sleep(self.seconds)
        self.asked.append((place, rows, length))
        return self.batch, replace(place, index=place.index + rows)


def schedule(**changes) -> Schedule:
    settings = {"steps": 10, "batch": 2, "learning_rate": 0.5, "warmup": 0.0, "clip": 0.0}
    return Schedule(**settings | changes)


def descend(
    network: nn.Module, budget: Budget, *, source=None, watch=None, state=State(), stages=(Stage(length=6),), **changes
):
    """Plain gradient descent; the reports of all steps, and the state at the end."""
    reports = []
    optimizer = torch.optim.SGD([{"params": list(network.parameters()), "peak": 0.5}], lr=0.5)

    def note(report) -> bool:
        reports.append(report)
        return watch is None or watch(report)

    batches = MixtureSource({"text": FedStream(feed=source or Same())}, stages, seed=0)
    planned = schedule(**changes)
    end = train(Step(network, optimizer, clip=planned.clip), batches, planned, budget, note, seed=7, state=state)
    return reports, end


def bert(**changes):
    """A BERT of one layer of width 16."""
    settings = {"layers": 1, "heads": 2, "width": 16, "inner": 32, "max_length": 32} | changes
    recipe = settle(
        find("bert-tiny"),
        ["stages=[[1.0, 8]]", *(f"architecture.{name}={value}" for name, value in settings.items())],
    ).recipe
    torch.manual_seed(0)
    return recipe.build(VOCABULARY)


def uneven_batch() -> Batch:
    """Five rows: one asks for every token, one for none, and two end early."""
    rng = torch.Generator().manual_seed(1)
    tokens = torch.randint(5, len(VOCABULARY), (5, 8), generator=rng)
    asked = torch.tensor([[1] * 8, [0] * 8, [1] + [0] * 7, [0, 1, 1, 0, 0, 0, 0, 0], [0] * 7 + [1]]).bool()
    visible = torch.arange(8) < torch.tensor([8, 8, 3, 5, 8])[:, None]
    return Batch(
        source=Side(
            tokens=tokens.where(visible, 0), visible=visible, segments=(torch.arange(8) > 3).long().expand(5, 8)
        ),
        targets=tokens.where(asked, IGNORE),
        random_next=torch.tensor([0, 1, 1, 0, 1]),
    )


def made_by(network: nn.Module, rows_at_once: int | None) -> Gradients:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    return Step(network, optimizer, rows_at_once=rows_at_once).gradients(uneven_batch())


def gradients_of(rows_at_once: int | None):
    network = bert()
    losses = made_by(network, rows_at_once).losses
    return losses, {name: p.grad for name, p in network.named_parameters()}


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 4])
def test_a_few_rows_at_a_time_give_the_gradients_of_the_whole_batch(rows_at_once):
    whole_losses, whole = gradients_of(None)
    losses, parts = gradients_of(rows_at_once)
    assert losses == pytest.approx(whole_losses, abs=1e-6)
    assert len(whole) > 20
    for name, gradient in whole.items():
        assert (parts[name] - gradient).abs().max() <= 1e-6, name


@pytest.mark.parametrize("rows_at_once", [None, 2])
def test_losses_are_reported_without_their_weights_and_their_sum_with_them(rows_at_once):
    network = bert()
    network.weights["next_sentence"] = 50.0
    made = made_by(network, rows_at_once)
    loss, losses = made.loss, made.losses
    assert losses == pytest.approx(gradients_of(None)[0], abs=1e-6)
    assert loss == pytest.approx(losses["masked_lm"] + 50 * losses["next_sentence"], rel=1e-6)


def test_a_batch_is_cut_into_runs_of_rows():
    assert [len(part.source.tokens) for part in pieces(uneven_batch(), 2)] == [2, 2, 1]
    assert pieces(uneven_batch(), 2)[2].random_next.tolist() == [1]
    assert len(pieces(uneven_batch(), 5)) == len(pieces(uneven_batch(), None)) == 1


def test_held_out_batches_count_by_their_answers():
    network, batch = bert(), uneven_batch()
    whole = validate(network, [batch], CPU, torch.float32)
    parts = validate(network, pieces(batch, 2), CPU, torch.float32)
    assert parts == pytest.approx(whole, abs=1e-6)
    assert network.training


def test_a_gradient_that_is_too_long_is_cut_to_the_longest_allowed():
    network = Slope((3.0, 4.0))  # a norm of 5
    reports, _ = descend(network, Budget(steps=1), clip=1.0, shape="constant")
    assert reports[0].norm == 5.0
    assert network.weight.tolist() == pytest.approx([-0.5 * 0.6, -0.5 * 0.8], abs=1e-6)


def test_gradients_are_as_long_as_torch_finds_them():
    torch.manual_seed(0)
    gradients = [torch.randn(300, 200), torch.randn(7), torch.randn(9, 5).T, torch.zeros(0)]
    assert float(norm_of(gradients)) == pytest.approx(float(nn.utils.get_total_norm(gradients)), rel=1e-6)
    assert norm_of([]) == 0


@pytest.mark.parametrize("clip", [0.0, 5.0, 100.0])
def test_a_gradient_that_is_allowed_is_left_alone(clip):
    network = Slope((3.0, 4.0))
    reports, _ = descend(network, Budget(steps=1), clip=clip, shape="constant")
    assert reports[0].norm == 5.0
    assert network.weight.tolist() == pytest.approx([-1.5, -2.0], abs=1e-6)


@pytest.mark.parametrize("slope", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_stops_the_run_before_the_weights_are_touched(slope):
    network = Slope((1.0, slope))
    with pytest.raises(Diverged, match=r"not finite at step 1; the run stops here\.\nLower the learning rate"):
        descend(network, Budget(steps=3))
    assert network.weight.tolist() == [0.0, 0.0]


def test_a_loss_that_is_infinite_stops_the_run_even_where_its_gradient_is_not():
    class Endless(Slope):
        def loss(self) -> torch.Tensor:
            return super().loss() + math.inf

    with pytest.raises(Diverged, match="at step 1"):
        descend(Endless((1.0,)), Budget(steps=3))


class Spoilt(Slope):
    """The update of a step spoils it, though loss and gradient of the step were fine."""

    def __init__(self, at: int, weight: float) -> None:
        super().__init__((1.0,))
        self.left, self.bad = at, weight

    def loss(self) -> torch.Tensor:
        return (self.weight * 1e10 * self.slope).sum() * 1e-10

    def spoil(self, report) -> bool:
        self.left -= 1
        if not self.left:
            with torch.no_grad():
                self.weight.fill_(self.bad)
        return True


@pytest.mark.parametrize("weight", [math.nan, math.inf, 1e38])  # of the last, no more than the loss overflows
def test_a_model_that_the_last_update_spoilt_is_refused_with_the_setting_of_the_caller(weight):
    network = Spoilt(3, weight)
    with pytest.raises(Diverged) as refusal:
        descend(network, Budget(steps=3), watch=network.spoil)
    assert str(refusal.value) == (
        "The weights or the loss are not finite after step 3; the run stops here.\n"
        "Lower the learning rate (--set schedule.learning_rate=...) and run the same command with a new folder."
    )


def test_no_step_pays_for_the_check_of_its_update_but_the_last(monkeypatch):
    checked = []
    monkeypatch.setattr(Step, "is_sound", lambda step, batch: not checked.append(step.network.weight.item()))
    network = Slope((1.0,))
    descend(network, Budget(steps=4))
    assert checked == [network.weight.item()]


def test_a_budget_of_steps_ends_after_that_many_and_every_step_has_a_learning_rate():
    network = Slope((1.0,))
    reports, state = descend(network, Budget(steps=4))
    assert [report.state.step for report in reports] == [1, 2, 3, 4]
    assert [report.learning_rate for report in reports] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert [report.progress for report in reports] == [0.25, 0.5, 0.75, 1.0]
    assert network.weight.tolist() == pytest.approx([-1.0])
    assert (state.step, state.tokens) == (4, 48)


def test_the_first_step_of_a_warm_up_has_a_rate_above_nothing():
    reports, _ = descend(Slope((1.0,)), Budget(steps=10), warmup=0.5, shape="constant")
    assert [report.learning_rate for report in reports[:5]] == pytest.approx([0.5 * step / 5.5 for step in range(1, 6)])


def test_a_budget_of_tokens_ends_with_the_step_that_reaches_it_and_counts_no_padding():
    tokens = torch.ones(2, 6, dtype=torch.long)
    padded = Batch(source=Side(tokens=tokens, visible=torch.arange(6) < torch.tensor([6, 4])[:, None], segments=tokens))
    reports, state = descend(Slope((1.0,)), Budget(tokens=35), source=Same(padded))
    assert [report.state.tokens for report in reports] == [10, 20, 30, 40]
    assert state.tokens == 40
    assert reports[-1].progress == 1.0


def test_the_first_budget_that_is_spent_ends_the_run():
    both = Budget(tokens=100, seconds=60.0)
    assert both.progress(State(step=1, tokens=50), 6.0) == 0.5
    assert both.progress(State(step=1, tokens=50), 48.0) == 0.8
    assert both.progress(State(step=1, tokens=100), 6.0) == 1.0


def test_a_budget_of_seconds_ends_on_time_with_its_rate_near_nothing():
    started = time.perf_counter()
    reports, state = descend(Slope((1.0,)), Budget(seconds=0.6), source=Same(seconds=0.01))
    took = time.perf_counter() - started
    assert 0.6 <= took < 1.2
    assert 0.6 <= state.seconds <= took
    assert len(reports) > 5
    assert reports[0].learning_rate > 0.4
    assert reports[-1].learning_rate < 0.1  # of 0.5
    assert reports[-1].progress == 1.0


def test_what_was_spent_before_a_pause_is_not_given_again():
    reports, state = descend(Slope((1.0,)), Budget(seconds=5.0), state=State(step=3, seconds=4.9, tokens=36))
    assert reports[0].state.step == 4
    assert 5.0 <= state.seconds < 6.0
    assert descend(Slope((1.0,)), Budget(steps=3), state=State(step=3))[0] == []


def test_watch_can_stop_the_run():
    reports, state = descend(Slope((1.0,)), Budget(steps=10), watch=lambda report: report.state.step < 3)
    assert len(reports) == state.step == 3


def test_rows_of_another_length_start_a_new_epoch():
    source = Same()
    _, end = descend(
        Slope((1.0,)), Budget(steps=6), source=source, stages=(Stage(until=0.5, length=8), Stage(length=16))
    )
    places = [(place.epoch, place.index, length) for place, _, length in source.asked]
    assert places == [(0, 0, 8), (0, 2, 8), (0, 4, 8), (1, 0, 16), (1, 2, 16), (1, 4, 16)]
    assert end.position == Position(stage=1, places={"text": Place(epoch=1, index=6)})


def test_each_group_follows_its_own_peak():
    network = Slope((1.0, 1.0))
    other = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD(
        [{"params": [network.weight], "peak": 0.5}, {"params": [other], "peak": 0.1}], lr=1.0
    )  # fmt: skip
    rates = []
    train(
        Step(network, optimizer), MixtureSource.of_one(Same(), 6), schedule(), Budget(steps=2), seed=0,
        watch=lambda report: bool(rates.append([group["lr"] for group in optimizer.param_groups])) or True,
    )  # fmt: skip
    assert rates == [pytest.approx([1 / 3, 1 / 15]), pytest.approx([1 / 6, 1 / 30])]


def test_dropout_follows_from_the_seed_and_the_step_so_that_a_pause_changes_nothing():
    def trained(*budgets: int) -> list[torch.Tensor]:
        network, state = bert(dropout=0.3, attention_dropout=0.3), State()
        source = Same(uneven_batch())
        for steps in budgets:
            torch.rand(steps)  # whoever draws in between does not matter
            _, state = descend(
                network, Budget(steps=6), source=source, state=state, shape="constant",
                watch=lambda report, steps=steps: report.state.step < steps,
            )  # fmt: skip
        return [p.detach() for p in network.parameters()]

    whole, paused = trained(6), trained(2, 3, 6)
    assert all(map(torch.equal, whole, paused))
    assert not all(map(torch.equal, whole, trained(5)))


def test_held_out_losses_do_not_depend_on_the_weights_of_objectives():
    network = bert()
    before = validate(network, [uneven_batch()], CPU, torch.float32)
    network.weights = dict.fromkeys(network.weights, 0.25)
    assert validate(network, [uneven_batch()], CPU, torch.float32) == before
