"""From a recipe and a corpus to a run folder."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.machine import Settings
from plmkit.config.settings import to_json
from plmkit.data.randomness import WORD
from plmkit.data.reading.columns import Say
from plmkit.data.samples import Position
from plmkit.data.vocabulary import unnamed
from plmkit.errors import CheckpointError, FolderError, SettingError
from plmkit.inference.loading import Parts, read_parts, start_from
from plmkit.initialisation.corpus import Initialisation, Statistics
from plmkit.language import several, tr
from plmkit.network import Network
from plmkit.preparation.doctor import Diagnosis, diagnose
from plmkit.preparation.prepare import Material, prepare
from plmkit.recipe import Recipe
from plmkit.storage.files import sweep
from plmkit.storage.tensors import WEIGHTS
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.files import TOKENIZER_FILE
from plmkit.training.checkpoint import load_checkpoint, weights_of
from plmkit.training.device import DTYPES, computing, keep_dtype, name_of
from plmkit.training.loop import Budget, Diverged, State, train
from plmkit.training.memory import NoRoom, check_batch, check_shape, check_step, check_weights, memory_explained
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import FINISHED, UNFINISHED, Difference, PretrainRecord, differences
from plmkit.training.step import Step
from plmkit.training.threads import Threads
from plmkit.training.watch import Checkpoints, Journal, Log, Part, Validation, Watch, interruptible
from plmkit.training.world import World, open_world

TRIED = 4  # rows whose memory is measured before training


def settings_to_lower() -> str:
    """The settings that make a step smaller."""
    return tr("schedule.batch, the lengths of stages or architecture.layers")


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request for a pretraining run."""

    settings: Settings
    corpora: tuple[str, ...]  # empty: the documentation on this machine
    out: Path
    budget: Budget
    seed: int = 0
    start: Path | None = None  # weights to start from
    tokenizer: Path | None = None
    valid: str | None = None
    extend: bool = False  # continue a finished run
    by_default: bool = False  # the budget is the recipe's

    @property
    def folder(self) -> RunFolder:
        """The run folder as it is now."""
        return RunFolder(self.out)

    @property
    def record(self) -> PretrainRecord:
        """The record of the requested run, before anything is read."""
        return PretrainRecord(
            recipe=self.settings.recipe,
            run=self.settings.run,
            corpora=tuple(map(str, self.corpora)),
            budget=self.budget,
            asked=self.budget,
            seed=self.seed,
            start=str(self.start) if self.start else None,
            tokenizer=str(self.tokenizer) if self.tokenizer else None,
            valid=self.valid,
        )


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request that has been checked: everything that training needs except the network."""

    order: Order
    folder: RunFolder
    earlier: PretrainRecord | None  # the run that is continued
    checked: int | None  # step of its checkpoint that is known to be intact
    budget: Budget
    start: Parts | None
    material: Material
    examples: int  # per epoch
    dtype: torch.dtype
    threads: Threads
    world: World
    screen: Screen

    @property
    def record(self) -> PretrainRecord:
        """The content of run.json during the run."""
        # a finished run is continued: its model stays usable until the new one is saved
        kept = self.earlier.checksum if self.earlier and self.folder.has_weights else None
        return replace(
            self.order.record,
            budget=self.budget,
            tokens_key=self.material.key,
            dtype=name_of(self.dtype),
            checksum=kept,
        )


def pretrain(order: Order, screen: Screen) -> PretrainRecord:
    """Train, or resume an unfinished run; returns the record in run.json."""
    with open_world(order.settings.run.device) as world, world.explained():
        screen = screen if world.first else Screen.silent()
        with world.first_alone():
            earlier = found_run(order, screen)
            if earlier and earlier.is_finished and not order.extend:
                check_same_budget(order, earlier)
                screen.say(
                    tr(
                        "{out} holds a finished run: {summary}. Add --extend with a budget to continue it, or use "
                        "another --out.",
                        out=order.out,
                        summary=summary_line(earlier),
                    )
                )
                return earlier
            job = setup(order, earlier, world, screen)
        job = replace(job, dtype=agreed_dtype(job))
        network = build(job)
        world.wait()  # all have read the folder: from here on it changes
        with job.folder.lock() if world.first else nullcontext():
            return carry_out(job, network)


def found_run(order: Order, screen: Screen) -> PretrainRecord | None:
    """The run in --out, with its weights restored if they are missing."""
    folder = order.folder
    folder.check()
    found = earlier_run(order)
    if found and found.is_finished and not folder.has_weights:
        restore(folder, found, screen)
        found = earlier_run(order)
    return found


def setup(order: Order, earlier: PretrainRecord | None, world: World, screen: Screen) -> Job:
    """Check the request and read the corpus."""
    folder = order.folder
    if earlier is None:
        folder.claim()
    checked = None if earlier is None else check_resumable(folder, earlier)
    start = parts_to_start_from(order, screen.say)
    check_shape(order.settings.recipe, world.device)
    check_initialisation(order.settings.recipe)
    tokenizer = tokenizer_folder(order, earlier, start)
    material = prepare(order.settings, order.corpora, order.valid, order.seed, screen, tokenizer=tokenizer)
    if earlier and earlier.tokens_key != material.key:
        raise FolderError(
            tr(
                "{out} holds a run on other text: the corpus has changed since it started.\n"
                "Give the same corpus to continue it, or use another --out.",
                out=order.out,
            )
        )
    found = diagnose(material, order.settings.recipe)
    report(found, screen)
    threads = Threads(order.settings.run.threads, screen.say, processes=world.size)
    width = order.settings.recipe.architecture.width
    dtype = keep_dtype(world.device, order.settings.run.dtype, earlier.dtype if earlier else None, screen.say, width)
    screen.say(computing(world.device, dtype, width, world.size))
    budget = whole_budget(order, earlier)
    screen.say(
        tr("Budget: {budget}, the recipe's default (--steps, --minutes or --tokens changes it).", budget=budget)
        if order.by_default
        else tr("Budget: {budget}.", budget=budget)
    )
    return Job(
        order=order, folder=folder, earlier=earlier, checked=checked, budget=budget, start=start,
        material=material, examples=found.examples, dtype=dtype, threads=threads, world=world, screen=screen,
    )  # fmt: skip


def check_initialisation(recipe: Recipe) -> None:
    """Refuse initial weights that the network has no place for, before any text is read."""
    with torch.device("meta"):
        recipe.initialisation.check(recipe.build(unnamed(recipe.vocabulary)))


def agreed_dtype(job: Job) -> torch.dtype:
    """The type that the first process chose: each measures for itself which is faster."""
    dtypes = list(DTYPES.values())
    return dtypes[int(job.world.agreed(dtypes.index(job.dtype)))]


def build(job: Job) -> Network:
    """The network on its device, if it fits into memory."""
    check_weights(job.order.settings.recipe, len(job.material.tokenizer.vocabulary), job.world.device)
    network = initial_network(job.order, job.material, job.start, job.screen).to(job.world.device)
    check_fits(job, network)
    return network


def initial_network(order: Order, material: Material, start: Parts | None, screen: Screen) -> Network:
    torch.manual_seed(order.seed & WORD)
    network = order.settings.recipe.build(material.tokenizer.vocabulary)
    if start:
        # counts initialise heads that `start` lacks; its embeddings and its whole vocabulary are kept
        initialisation = replace(order.settings.recipe.initialisation, cooccurrence_embeddings=False)
        initialisation.apply(network, Counting(material=material, seed=order.seed, screen=screen))
        if fresh := start_from(network, start):
            screen.say(
                tr(
                    "{start} has no weights for {fresh}; initialised randomly.",
                    start=order.start,
                    fresh=", ".join(fresh),
                )
            )
    else:
        network.restrict_vocabulary(lambda: material.frequencies)
    return network


def carry_out(job: Job, network: Network) -> PretrainRecord:
    """Fit and save, while the folder is locked."""
    order, record = job.order, job.record
    if job.world.first:
        check_unchanged(order, job.earlier)
    optimizer, state = resume(job, network)  # before anything is written, as it may fail
    job.world.wait()
    if job.world.first:
        job.folder.write(record)  # first: a folder with run.json is ours to continue
        sweep(order.out)
        job.material.tokenizer.save(order.out)
        job.folder.seal()
    if not (state.step or order.start):
        statistics = Counting(material=job.material, seed=order.seed, screen=job.screen)
        state = begin(network, order.settings.recipe.initialisation, statistics)
        spent = job.world.agreed(state.seconds)  # so that all have the same schedule
        state = replace(state, seconds=spent, before=spent)
    result = fit(job, network, optimizer, state)
    return record if result is None else save(job, record, network, result)


def save(job: Job, record: PretrainRecord, network: Network, result: dict[str, Any]) -> PretrainRecord:
    """Save the weights, and mark the run as finished in run.json."""
    finished = replace(record, state=FINISHED, result=result)
    if job.world.first:
        finished = replace(finished, checksum=job.folder.save_weights(weights_of(network)))
        job.folder.write(finished)
        job.folder.seal()
    job.world.wait()
    return finished


def check_unchanged(order: Order, earlier: PretrainRecord | None) -> None:
    """Check again once the folder is locked: another process may have trained here while the text was read."""
    if earlier_run(order) != earlier:
        raise FolderError(
            tr(
                "Another process has written to {out} since this one started.\n"
                "Run the same command again to continue from there.",
                out=order.out,
            )
        )
    if earlier is None:
        order.folder.claim()


def restore(folder: RunFolder, record: PretrainRecord, screen: Screen) -> None:
    """Restore the missing weights of a finished run from its last checkpoint, or resume from an earlier one."""
    out = folder.path
    try:
        content = folder.newest_checkpoint()
    except CheckpointError:
        content = None
    if content is None:
        raise FolderError(
            tr(
                "{out} holds a finished run, but {weights} is missing, and no intact checkpoint has its weights.\n"
                "Copy the folder again from its source, or remove it and train the model again.",
                out=out,
                weights=WEIGHTS,
            )
        )
    state, weights, _ = content
    whole = state.step >= record.result["steps"]
    with folder.lock():
        if whole:
            folder.write(replace(record, checksum=folder.save_weights(weights)))
        else:
            folder.write(replace(record, state=UNFINISHED, checksum=None, result={}))
        folder.seal()
    if whole:
        screen.say(
            tr(
                "{file} was missing and has been restored from the checkpoint at step {step:,}.",
                file=out / WEIGHTS,
                step=state.step,
            )
        )
    else:
        screen.say(
            tr(
                "{file} is missing; training resumes from the checkpoint at step {step:,}.",
                file=out / WEIGHTS,
                step=state.step,
            )
        )


def check_resumable(folder: RunFolder, record: PretrainRecord) -> int | None:
    """The step of the checkpoint to resume from, checked before any text is read."""
    out = folder.path
    try:
        whole = folder.newest_checkpoint()
    except CheckpointError:
        if not record.has_model:
            raise
        whole = None
    if whole is None and record.has_model:  # it would silently start from random weights
        raise FolderError(
            tr(
                "{out} holds a finished model, but no intact checkpoint to continue from.\n"
                "Continue training in another folder: --from {out} --out DIR.",
                out=out,
            )
        )
    return None if whole is None else whole[0].step


def resume(job: Job, network: Network) -> tuple[torch.optim.Optimizer, State]:
    """The optimizer and the training state, from the newest intact checkpoint or new."""
    schedule = job.order.settings.recipe.schedule
    optimizer = schedule.optimizer.build(network.named_parameters(), schedule.learning_rate)
    state = load_checkpoint(job.folder.checkpoints, network, optimizer, job.screen.say, checked=job.checked) or State()
    if state.step:
        job.screen.say(tr("Resuming from step {step:,}.", step=state.step))
    return optimizer, replace(state, memory=job.world.split(state.memory))


@dataclass(frozen=True, kw_only=True)
class Counting:
    """The corpus statistics that initialise weights; reports what takes time."""

    material: Material
    seed: int
    screen: Screen

    @property
    def frequencies(self) -> np.ndarray:
        return self.material.frequencies

    def cooccurrence_embeddings(self, width: int) -> np.ndarray:
        begun = time.perf_counter()
        self.screen.say(tr("Counting co-occurrences to initialise the token embeddings."))
        try:
            made = self.material.cooccurrence_embeddings(width, self.seed)
        except MemoryError as error:
            raise NoRoom(
                tr(
                    "Out of memory while counting co-occurrences of tokens.\n"
                    "Turn it off (--set initialisation.cooccurrence_embeddings=false), or use a smaller vocabulary."
                )
            ) from error
        known = int(made.any(1).sum())
        self.screen.say(
            tr(
                "Counted in {seconds:.1f} s: {known:,} of {total:,} tokens have neighbours.",
                seconds=time.perf_counter() - begun,
                known=known,
                total=len(made),
            )
        )
        return made


def begin(network: Network, initialisation: Initialisation, statistics: Statistics) -> State:
    """Initialise the weights from corpus statistics, which counts towards the budget."""
    begun = time.perf_counter()
    initialisation.apply(network, statistics)
    spent = time.perf_counter() - begun
    return State(seconds=spent, before=spent)


def check_fits(job: Job, network: Network) -> None:
    """Check that a batch and a step fit into memory, before anything is written."""
    recipe, machine = job.order.settings.recipe, job.order.settings.run
    rows, length = min(recipe.schedule.batch, job.examples), recipe.stages[0].length
    check_batch(rows, recipe.max_length, settings_to_lower())
    source = job.material.source(recipe, 0)
    sample = source.next(Position(), step=0, progress=0.0, rows=recipe.schedule.batch)[0].part(0, TRIED)
    own = -(-rows // job.world.size)
    at_once = min(own, machine.micro_batch or own)
    check_step(network, sample, at_once, job.world.device, settings_to_lower(), longer=recipe.max_length / length)


def report(found: Diagnosis, screen: Screen) -> None:
    """What `plm doctor` reports, in short."""
    screen.say(
        tr(
            "{documents}, {sentences}, {tokens}; {examples} per epoch; {held_out} ({held_out_tokens}) held out.",
            documents=several(found.documents, "document"),
            sentences=several(found.sentences, "sentence"),
            tokens=several(found.tokens, "token"),
            examples=several(found.examples, "training example"),
            held_out=several(found.held_out, "document"),
            held_out_tokens=several(found.held_out_tokens, "token"),
        )
    )
    for warning in found.warnings:
        screen.say(f"! {warning}")


def earlier_run(order: Order) -> PretrainRecord | None:
    """The run in --out, which must have the same settings as this request."""
    folder = order.folder
    record = folder.record
    if record is None:
        return None
    if not isinstance(record, PretrainRecord):
        raise FolderError(tr("--out {out} holds a fine-tuned model. Use another folder.", out=order.out))
    if changed := folder.differences(order.record):
        raise FolderError(
            tr(
                "--out {out} holds a run with other settings: {changed}.\n"
                "Run the same command to continue it, or use another --out.",
                out=order.out,
                changed="; ".join(map(str, changed[:3])),
            )
        )
    return record


def check_same_budget(order: Order, finished: PretrainRecord) -> None:
    """Refuse another budget for a finished run, which would not be trained any further."""
    if order.budget in (finished.asked, finished.budget):
        return
    raise FolderError(
        tr(
            "{out} holds a finished run with another budget: {found}, not {asked}.\n"
            "Add --extend to train for a budget beyond what is done, use another --out, or give the same budget.",
            out=order.out,
            found=finished.asked,
            asked=order.budget,
        )
    )


def whole_budget(order: Order, earlier: PretrainRecord | None) -> Budget:
    """The budget of the whole run; extending a run adds to what is spent."""
    if earlier is None:
        return order.budget
    return extended(order.budget, earlier.result) if earlier.is_finished else earlier.budget


def extended(budget: Budget, spent: dict[str, Any]) -> Budget:
    """The new budget plus what is spent."""
    return Budget(
        steps=None if budget.steps is None else budget.steps + spent["steps"],
        tokens=None if budget.tokens is None else budget.tokens + spent["tokens"],
        seconds=None if budget.seconds is None else budget.seconds + spent["seconds"],
    )


def parts_to_start_from(order: Order, say: Say) -> Parts | None:
    """The model given by --from, checked to fit before any text is read."""
    if order.start is None:
        return None
    if order.tokenizer:
        raise SettingError(tr("--from uses the tokenizer of its model. Leave --tokenizer out."))
    parts = read_parts(order.start, say)
    check_same_network(parts.architecture, order.settings.recipe, order.start)
    return parts


def tokenizer_folder(order: Order, earlier: PretrainRecord | None, start: Parts | None) -> Path | None:
    """The folder whose tokenizer the run must use, if any."""
    if earlier is not None and (order.out / TOKENIZER_FILE).is_file():
        return order.out
    return start.folder if start else order.tokenizer


def check_same_network(theirs: Any, recipe: Recipe, where: Path) -> None:
    """Refuse weights of a network that differs from the recipe's."""
    changed = unlike(theirs, recipe.architecture)
    if not changed:
        return
    if type(theirs) is type(recipe.architecture):
        found = (
            tr("{name} is {theirs}, not {ours}", name=one.name, ours=one.values[0], theirs=one.values[1])
            for one in changed[:4]
        )
        raise SettingError(
            tr(
                "The network of --from {where} differs from the recipe's: {found}.\n"
                "Use the recipe that it was trained with, or add {settings}.",
                where=where,
                found="; ".join(found),
                settings=as_settings(changed),
            )
        )
    alike = [find(name) for name in CATALOGUE if type(find(name).architecture) is type(theirs)]
    other = min(alike, key=lambda one: len(unlike(theirs, one.architecture)))
    settings = as_settings(unlike(theirs, other.architecture))
    if other.max_length > theirs.max_length:
        settings += f" --set 'stages=[[1.0, {theirs.max_length}]]'"
    raise SettingError(
        tr(
            "--from {where} has the architecture {theirs}, but {recipe} trains {ours}.\n"
            "To continue from it, use the recipe {other}{settings}.",
            where=where,
            theirs=type(theirs).__name__,
            recipe=recipe.name,
            ours=type(recipe.architecture).__name__,
            other=other.name,
            settings=tr(" with {settings}", settings=settings) if settings else "",
        )
    )


def unlike(theirs: Any, ours: Any) -> list[Difference]:
    free = ours.may_change | ours.initial
    old, new = ({name: value for name, value in to_json(one).items() if name not in free} for one in (theirs, ours))
    return differences(new, old, "architecture")


def as_settings(changed: list[Difference]) -> str:
    return " ".join(f"--set {one.name}={one.values[1]}" for one in changed)


def fit(job: Job, network: Network, optimizer: torch.optim.Optimizer, state: State) -> dict[str, Any] | None:
    """Train to the end of the budget; None if the user stopped it before."""
    order, world = job.order, job.world
    recipe, machine = order.settings.recipe, order.settings.run
    if machine.compile:
        network.model.compile()
    step = Step(
        network, optimizer, clip=recipe.schedule.clip, world=world, dtype=job.dtype, rows_at_once=machine.micro_batch
    )
    checkpoints = Checkpoints(job.folder.checkpoints, step, every=machine.checkpoint_steps, saved=state.step)
    with interruptible(patient=not world.alone) as interrupted, reported(job, step, state) as (parts, validation):
        watch = Watch([job.threads, *parts, checkpoints], interrupted)
        with memory_explained(
            settings_to_lower(), lambda: tr("The run is saved up to step {saved:,}.", saved=checkpoints.saved)
        ):
            state = train(
                step,
                job.material.source(recipe, order.seed),
                recipe.schedule,
                job.budget,
                watch,
                seed=order.seed,
                state=state,
            )
        checkpoints.save(state)
        if world.any(interrupted()):
            job.screen.say(tr("Stopped and saved at step {step:,}. Run the same command to continue.", step=state.step))
            return None
        scores = validation.measure(state) if validation else {}
        if not all(map(math.isfinite, scores.values())):
            raise Diverged(
                tr("The validation loss is not finite after step {step}", step=state.step),
                "schedule.learning_rate",
            )
    return {"steps": state.step, "tokens": state.tokens, "seconds": round(state.seconds, 1), **scores}


@contextmanager
def reported(job: Job, step: Step, state: State) -> Iterator[tuple[list[Part], Validation | None]]:
    """Log and progress bar of the first process; the others have none."""
    if not job.world.first:
        yield [], None
        return
    recipe, machine = job.order.settings.recipe, job.order.settings.run
    batches = job.material.valid_batches(recipe, job.order.seed)
    done = job.budget.progress(state, state.seconds)
    with Log(job.order.out, state.step) as log, job.screen.training() as bar:
        validation = Validation(step, batches, log, times=machine.validations, progress=done)
        labels = {own.name: own.label or own.name for own in recipe.objectives}
        yield [Journal(log, bar, validation, labels, every=machine.log_steps, since=state), validation], validation


def summary_line(record: PretrainRecord) -> str:
    result = record.result
    scores = ", ".join(f"{name} {value:.3f}" for name, value in result.items() if name.startswith("valid/"))
    return tr("{steps:,} steps, {tokens:,} tokens", steps=result["steps"], tokens=result["tokens"]) + (
        f", {scores}" if scores else ""
    )
