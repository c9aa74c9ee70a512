"""`--search`: a small grid of settings around the usual ones, the best of which on dev is kept."""

import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from plmkit.config.settings import to_json
from plmkit.errors import InputError, SettingError
from plmkit.language import several, tr
from plmkit.storage.files import read_json, sweep, write_json
from plmkit.storage.manifest import MANIFEST
from plmkit.tasks.contract import stored
from plmkit.tasks.seed_run import Finetuning
from plmkit.tasks.settings import EPOCHS, TaskSettings
from plmkit.tasks.taking_up import Taken
from plmkit.tasks.task_run import TaskData
from plmkit.terminal.labels import label
from plmkit.terminal.screen import Screen, duration
from plmkit.training.loop import Diverged
from plmkit.training.run_folder import RUN_FILE, RunFolder
from plmkit.training.run_record import FinetuneRecord

RATES = (1.0, 2.0, 0.5)  # times the usual learning rate, which comes first
TRIED_EPOCHS = (EPOCHS, 5.0, 2.0)
LENGTHS = (1.0, 0.5)  # of the usual length, where it would cut rows
LONG_SHARE = 0.05  # of the rows that a shorter length must cut to be tried
SHORTEST = 16  # tokens
LEDGER, TRIALS = "search.json", "trials"
FINISHED, DIVERGED, UNTRIED = "finished", "diverged", "untried"
CarryOut = Callable[[Finetuning, RunFolder, FinetuneRecord, Screen], FinetuneRecord]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Settings to try, and what came of them."""

    learning_rate: float
    epochs: float
    length: int
    state: str = UNTRIED
    score: float | None = None  # on dev, the mean over seeds
    seconds: float = 0.0

    @property
    def settings(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate, "epochs": self.epochs, "length": self.length}

    def __str__(self) -> str:
        return tr(
            "learning rate {learning_rate:.2g}, {epochs:g} epochs, length {length}",
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            length=self.length,
        )


def grid(given: TaskSettings, learning_rate: float, taken: Sequence[Taken]) -> list[Trial]:
    """The usual settings first, then those that change one of them, two, and all; what is given is not varied."""
    length = max(each.task.length for each in taken)
    rates = [learning_rate * factor for factor in (RATES[:1] if given.learning_rate else RATES)]
    epochs = TRIED_EPOCHS if given.epochs is None else (given.epochs,)
    shorter = [each for each in taken if len(taken) == 1 and not given.length and cuts(each, length // 2)]
    lengths = [round(length * share) for share in (LENGTHS if shorter else LENGTHS[:1])]
    places = sorted(
        product(range(len(lengths)), range(len(epochs)), range(len(rates))), key=lambda at: sum(map(bool, at))
    )
    made = [Trial(learning_rate=rates[rate], epochs=epochs[some], length=lengths[size]) for size, some, rate in places]
    if len(made) == 1:
        raise SettingError(
            tr(
                "--search varies learning rate, epochs and length, and all of them are given. Leave one of them out, "
                "or --search."
            )
        )
    return made


def cuts(taken: Taken, length: int) -> bool:
    """Whether a length is worth a trial: it cuts some rows, and no row is read in windows."""
    long = sum(example.length + example.cut > length for example in taken.train)
    windows = taken.task.windows or any(example.windows > 1 for example in taken.train)
    return length >= SHORTEST and not windows and long >= LONG_SHARE * len(taken.train)


@dataclass(frozen=True, kw_only=True)
class Search:
    """A fine-tuning to be tried with several settings."""

    finetuning: Finetuning
    taken: Sequence[Taken]
    trials: Sequence[Trial]
    minutes: float | None  # in total; None: all trials
    folder: RunFolder
    record: FinetuneRecord
    started: float  # when the command began
    carry_out: CarryOut
    screen: Screen

    def run(self) -> FinetuneRecord:
        """Try what fits into the time, and keep the best."""
        out = self.folder.path
        self.folder.write(self.record)
        sweep(out)
        self.finetuning.parts.tokenizer.save(out)
        self.folder.seal()
        done, beside = self.noted(), time.monotonic() - self.started
        for number, trial in enumerate(self.trials):
            if done[number].state != UNTRIED:
                self.say_result(number, done[number])
            elif self.needed(trial, done) < self.left(done, beside):
                begun = time.monotonic()
                done[number] = self.tried(number, trial)
                beside += max(0.0, time.monotonic() - begun - done[number].seconds)
                self.note(done)
                self.say_result(number, done[number])
                self.forget_worse(done)
        self.say_left_out(done, beside)
        return self.kept(done, beside)

    def noted(self) -> list[Trial]:
        """The trials, with the results of those that an earlier call finished."""
        path = self.folder.path / LEDGER
        if not path.is_file():
            return list(self.trials)
        earlier = [Trial(**one) for one in read_json(path)["trials"]]
        if [one.settings for one in earlier] != [one.settings for one in self.trials]:
            raise InputError(
                tr("{path} does not hold the trials of this search. Remove it, and they start again.", path=path)
            )
        best = best_of(earlier)
        whole = best is None or RunFolder(self.place(best)).is_finished  # of the others only the scores are kept
        return earlier if whole else list(self.trials)

    def note(self, done: Sequence[Trial]) -> None:
        write_json(self.folder.path / LEDGER, {"trials": [asdict(one) for one in done]})

    def needed(self, trial: Trial, done: Sequence[Trial]) -> float:
        """Seconds that a trial needs, by the speed of those before; 0 for the first, which is always tried."""
        finished = [one for one in done if one.state == FINISHED]
        if not finished:
            return 0.0
        return sum(one.seconds for one in finished) / sum(map(self.cost, finished)) * self.cost(trial)

    def left(self, done: Sequence[Trial], beside: float) -> float:
        """Seconds that are left, if `beside` were spent on other things than trials."""
        if self.minutes is None:
            return math.inf
        tried = any(one.state == FINISHED for one in done)
        return max(0.0, 60 * self.minutes - beside - sum(one.seconds for one in done)) if tried else math.inf

    def say_left_out(self, done: Sequence[Trial], beside: float) -> None:
        needed = [self.needed(one, done) for one in done if one.state == UNTRIED]
        if needed and self.minutes is not None:
            self.screen.say(
                tr(
                    "{trials} not started: the shortest would take about {needed}, with {left} left of --minutes "
                    "{minutes:g}.",
                    trials=several(len(needed), "trial"),
                    needed=duration(min(needed)),
                    left=duration(max(0.0, self.left(done, beside))),
                    minutes=self.minutes,
                )
            )

    def cost(self, trial: Trial) -> float:
        """In proportion to the time: tokens that are trained on."""
        rows = (example for each in self.taken for example in each.train)
        return trial.epochs * sum(min(example.length, trial.length) * len(example.inputs) for example in rows)

    def tried(self, number: int, trial: Trial) -> Trial:
        """Fine-tune with these settings, in a folder of its own."""
        self.screen.say(
            tr("Trial {number} of {trials}: {trial}.", number=number + 1, trials=len(self.trials), trial=trial)
        )
        folder = RunFolder(self.place(number))
        data = self.data_at(trial.length)
        settings = replace(self.finetuning.settings, learning_rate=trial.learning_rate, epochs=trial.epochs)
        finetuning = replace(self.finetuning, data=data, settings=settings, out=folder.path)
        record = replace(
            self.record, search=None, task=self.record.task | to_json(settings),
            tasks=tuple(stored(one.task) for one in data),
        )  # fmt: skip
        if folder.record is not None and folder.record.is_finished:
            found = folder.record
        else:
            begun = time.monotonic()
            try:
                found = self.carry_out(finetuning, folder, record, self.screen)
            except Diverged:
                return replace(trial, state=DIVERGED, seconds=time.monotonic() - begun)
        assert isinstance(found, FinetuneRecord)
        return replace(trial, state=FINISHED, score=self.score(found), seconds=found.seconds or 0.0)

    def data_at(self, length: int) -> tuple[TaskData, ...]:
        """The rows of the tasks, at most `length` tokens each."""
        tokenizer = self.finetuning.parts.tokenizer
        return tuple(
            one if one.task.length <= length else each.shorter(length, tokenizer).data(tokenizer, one.floor)
            for each, one in zip(self.taken, self.finetuning.data, strict=True)
        )

    def score(self, found: FinetuneRecord) -> float:
        """The mean over seeds of the score by which epochs are chosen."""
        tasks = [each.task for each in self.taken]
        scores: list[dict[str, float]] = [run["dev"] for run in found.result["seeds"]]
        names = [tasks[0].chosen_by(one) if len(tasks) == 1 else "mean" for one in scores]
        return sum(one[name] for one, name in zip(scores, names, strict=True)) / len(scores)

    def say_result(self, number: int, trial: Trial) -> None:
        values = {"number": number + 1, "time": duration(trial.seconds)}
        if trial.score is None:
            said = tr("Trial {number}: its loss is not finite any more ({time}).", **values)
        else:
            said = tr(
                "Trial {number}: dev {measure} {score:.4f} ({time}).",
                measure=label(self.measure), score=trial.score, **values,
            )  # fmt: skip
        self.screen.say(said)

    @property
    def measure(self) -> str:
        return self.taken[0].task.measure if len(self.taken) == 1 else "mean"

    def forget_worse(self, done: Sequence[Trial]) -> None:
        """Remove the weights of trials that are not the best."""
        best = best_of(done)
        for number in range(len(done)):
            if number != best:
                shutil.rmtree(self.place(number), ignore_errors=True)

    def kept(self, done: Sequence[Trial], beside: float) -> FinetuneRecord:
        """The best trial as the run of the folder."""
        if (best := best_of(done)) is None:
            raise Diverged(tr("The loss of every trial became infinite"), "task.learning_rate")
        out, place = self.folder.path, self.place(best)
        trial = RunFolder(place)
        trial.weights()  # that they are whole
        assert isinstance(trial.record, FinetuneRecord)
        for path in place.iterdir():
            if path.is_dir():
                shutil.copytree(path, out / path.name, dirs_exist_ok=True)
            elif path.name not in (RUN_FILE, MANIFEST):
                shutil.copy(path, out / path.name)
        seconds = round(beside + sum(one.seconds for one in done), 1)
        summary = {
            "minutes": self.minutes, "spent": round(seconds / 60, 2), "measure": self.measure, "best": best + 1,
            "trials": [asdict(one) for one in done],
        }  # fmt: skip
        result = {**trial.record.result, "search": summary}
        write_json(out / "scores.json", result)
        write_json(out / LEDGER, summary)
        record = replace(trial.record, search=self.record.search, result=result, seconds=seconds)
        self.folder.write(record)
        shutil.rmtree(out / TRIALS, ignore_errors=True)
        self.folder.seal()
        return record

    def place(self, number: int) -> Path:
        return self.folder.path / TRIALS / str(number + 1)


def best_of(done: Sequence[Trial]) -> int | None:
    """The number of the best trial, the first of equal ones; None: there is none."""
    scored = [(one.score, -number) for number, one in enumerate(done) if one.score is not None]
    return -max(scored)[1] if scored else None
