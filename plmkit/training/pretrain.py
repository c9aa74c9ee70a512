"""From a request to a run folder: check, train, save; or resume what is there."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from plmkit.initialisation.corpus import Initialisation, Statistics
from plmkit.language import comma, several, tr
from plmkit.network import Network
from plmkit.recipe import Recipe
from plmkit.storage.files import sweep
from plmkit.storage.graphs import save_graph
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import averaged, load_checkpoint, put_weights, weights_of
from plmkit.training.earlier import check_same_budget, check_unchanged, found_run, summary_line
from plmkit.training.job import Counting, Job, agreed_dtype, build, settings_to_lower, setup
from plmkit.training.loop import Diverged, State, train
from plmkit.training.memory import reported_out_of_memory
from plmkit.training.request import PretrainRequest
from plmkit.training.run_record import FINISHED, PretrainRecord
from plmkit.training.step import Step
from plmkit.training.watch import (
    VALID,
    Checkpoints,
    Journal,
    Log,
    Part,
    Validation,
    Watch,
    interruptible,
    read_metrics,
)
from plmkit.training.world import open_world

BEFORE = "before/"  # prefix of validation losses before the first step


def pretrain(request: PretrainRequest, screen: Screen) -> PretrainRecord:
    """Train, or resume an unfinished run; returns the record in run.json."""
    with open_world(request.settings.run.device) as world:
        screen = screen if world.first else Screen.silent()
        with world.first_alone():
            earlier = found_run(request, screen)
            if earlier and earlier.is_finished and not request.extend:
                check_same_budget(request, earlier)
                screen.say(
                    tr(
                        "{out} holds a finished run: {summary}. Add --extend with a budget to continue it, or use "
                        "another --out.",
                        out=request.out,
                        summary=summary_line(earlier),
                    )
                )
                return earlier
            job = setup(request, earlier, world, screen)
        job = replace(job, dtype=agreed_dtype(job))
        network = build(job)
        world.wait()  # all have read the folder: from here on it changes
        with job.folder.lock() if world.first else nullcontext():
            return carry_out(job, network)


def carry_out(job: Job, network: Network) -> PretrainRecord:
    """Fit and save, while the folder is locked."""
    request, record = job.request, job.record
    if job.world.first:
        check_unchanged(request, job.earlier)
    optimizer, state = resume(job, network)  # before anything is written, as it may fail
    job.world.wait()
    if job.world.first:
        job.folder.write(record)  # first: a folder with run.json is ours to continue
        sweep(request.out)
        job.material.tokenizer.save(request.out)
        if job.material.graph is not None:
            save_graph(job.material.graph, request.out)
        job.folder.seal()
    if not (state.step or request.start):
        statistics = Counting(material=job.material, seed=request.seed, screen=job.screen)
        state = begin(network, request.settings.recipe.initialisation, statistics)
        if request.guide:
            request.guide.initialise(network, job.material.tokenizer, job.screen.say)
        spent = job.world.agreed(state.seconds)  # so that all have the same schedule
        state = replace(state, seconds=spent, before=spent)
    result = fit(job, network, optimizer, state)
    return record if result is None else save(job, record, network, result)


def resume(job: Job, network: Network) -> tuple[torch.optim.Optimizer, State]:
    """The optimizer and the training state, from the newest intact checkpoint or new."""
    schedule = job.request.settings.recipe.schedule
    optimizer = schedule.optimizer.build(network.named_parameters(), schedule.learning_rate)
    state = load_checkpoint(job.folder.checkpoints, network, optimizer, job.screen.say, checked=job.checked) or State()
    if state.step:
        job.screen.say(tr("Resuming from step {step:,}.", step=state.step))
    return optimizer, replace(state, memory=job.world.split(state.memory))


def begin(network: Network, initialisation: Initialisation, statistics: Statistics) -> State:
    """Initialise the weights from corpus statistics, which counts towards the budget."""
    started = time.perf_counter()
    initialisation.apply(network, statistics)
    spent = time.perf_counter() - started
    return State(seconds=spent, before=spent)


def fit(job: Job, network: Network, optimizer: torch.optim.Optimizer, state: State) -> dict[str, Any] | None:
    """Train to the end of the budget; None if the user stopped it before."""
    request, world = job.request, job.world
    recipe, machine = request.settings.recipe, request.settings.run
    if machine.compile:
        network.model.compile()
    step = Step(
        network, optimizer, clip=recipe.schedule.clip, world=world, dtype=job.dtype, rows_at_once=machine.micro_batch
    )
    checkpoints = Checkpoints(
        job.folder.checkpoints,
        step,
        every=machine.checkpoint_steps,
        saved=state.step,
        newest=max(machine.kept_checkpoints, machine.average),
    )
    with interruptible(patient=not world.alone) as interrupted, reported(job, step, state) as (parts, validation):
        before = scores_before(job, validation, state)
        watch = Watch([job.threads, *parts, checkpoints], interrupted)
        with reported_out_of_memory(
            settings_to_lower(), lambda: tr("The run is saved up to step {saved:,}.", saved=checkpoints.saved)
        ):
            state = train(
                step,
                job.material.source(recipe, request.seed, job.budget.only_steps),
                recipe.schedule,
                job.budget,
                watch,
                seed=request.seed,
                state=state,
            )
        checkpoints.save(state)
        if world.any(interrupted()):
            job.screen.say(tr("Stopped and saved at step {step:,}. Run the same command to continue.", step=state.step))
            return None
        if machine.average > 1:
            put_average(job, network)
        scores = validation.measure(state) if validation else {}
        if not all(map(math.isfinite, scores.values())):
            raise Diverged(
                tr("The validation loss is not finite after step {step}", step=state.step),
                "schedule.learning_rate",
            )
    return {"steps": state.step, "tokens": state.tokens, "seconds": round(state.seconds, 1), **scores, **before}


def scores_before(job: Job, validation: Validation | None, state: State) -> dict[str, float]:
    """The validation losses of the model that a second stage starts from, to see what is forgotten of its language."""
    if validation is None or not (job.request.start and job.request.settings.recipe.adopts):
        return {}
    measured = validation.measure(state) if not state.step else first_scores(read_metrics(job.request.out))
    return {f"{BEFORE}{name.removeprefix(VALID)}": loss for name, loss in measured.items()}


def first_scores(lines: list[dict[str, Any]]) -> dict[str, float]:
    """The validation losses that were measured before the first step."""
    first = next((line for line in lines if line["step"] == 0), {})
    return {name: loss for name, loss in first.items() if name.startswith(VALID)}


def put_average(job: Job, network: Network) -> None:
    """The mean of the last checkpoints as the weights of the network; training would continue from the last one."""
    job.world.wait()  # the first process has written the last checkpoint
    folder = job.folder.checkpoints
    steps, weights = averaged(folder, job.request.settings.run.average)
    put_weights(network, weights, folder)
    job.screen.say(
        tr(
            "The model is the mean of {checkpoints}, at steps {steps}.",
            checkpoints=several(len(steps), "checkpoint"),
            steps=comma().join(map(str, steps)),
        )
    )


@contextmanager
def reported(job: Job, step: Step, state: State) -> Iterator[tuple[list[Part], Validation | None]]:
    """Log and progress bar of the first process; the others have none."""
    if not job.world.first:
        yield [], None
        return
    recipe, machine = job.request.settings.recipe, job.request.settings.run
    batches = job.material.valid_batches(recipe, job.request.seed)
    done = job.budget.progress(state, state.seconds)
    with Log(job.request.out, state.step) as log, job.screen.training() as bar:
        validation = Validation(
            step, batches, log, times=machine.validations, progress=done,
            corpora=job.material.corpus_batches(recipe, job.request.seed), say=job.screen.say,
        )  # fmt: skip
        labels = {own.name: own.label or own.name for own in recipe.objectives}
        journal = Journal(log, bar, validation, labels, every=machine.log_steps, since=state, seed=job.request.seed)
        yield [journal, validation], validation


def kept_weights(network: Network, recipe: Recipe) -> dict[str, Tensor]:
    """All but those that only a teacher needs, such as a map to its width."""
    stems = tuple(f"heads.{objective.name}." for objective in recipe.objectives if objective.needs_teacher)
    return {name: weight for name, weight in weights_of(network).items() if not name.startswith(stems)}


def save(job: Job, record: PretrainRecord, network: Network, result: dict[str, Any]) -> PretrainRecord:
    """Save the weights, and mark the run as finished in run.json."""
    finished = replace(record, state=FINISHED, result=result)
    if job.world.first:
        finished = replace(finished, checksum=job.folder.save_weights(kept_weights(network, record.recipe)))
        job.folder.write(finished)
        job.folder.seal()
    job.world.wait()
    return finished
