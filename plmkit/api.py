"""The public Python API: what `plm pretrain` and `plm finetune` do, as functions that return the trained model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plmkit.catalogue import find
from plmkit.compare.task_ways import finetune_and_compare
from plmkit.config.machine import Settings, refuse_ignored, settle
from plmkit.config.settings import as_text, snake
from plmkit.data.feature_files import width_in
from plmkit.data.reading.columns import Columns, Search
from plmkit.distillation.general import (
    Student,
    TeacherGuide,
    check_length,
    is_causal,
    prepare_recipe,
    teacher_parts,
)
from plmkit.distillation.initial import AUTO, initial_layers
from plmkit.distillation.methods import DEFAULT, FROZEN_POSITIONS, alone
from plmkit.distillation.run import Distilled, distill_task, distill_text
from plmkit.distillation.settings import Distillation, settle_distillation
from plmkit.distillation.task import Teaching, Untaught, check_teacher, student_parts
from plmkit.distillation.teacher import warn_of_size
from plmkit.errors import SettingError
from plmkit.inference.arguments import count, number
from plmkit.inference.loading import Parts, load
from plmkit.inference.model import Model
from plmkit.language import tr
from plmkit.preparation.triples import fitted_to_triples, reads_triples
from plmkit.recipe import Recipe
from plmkit.tasks.contract import Task
from plmkit.tasks.finetune import FinetuneRequest, Searching
from plmkit.tasks.settings import settle_task
from plmkit.tasks.task_list import given_tasks
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import load_tokenizer
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain as run_pretraining
from plmkit.training.processes import check_alone
from plmkit.training.request import PretrainRequest, adopted, with_pretrained_encoder

PathLike = str | Path
Pair = tuple[str | None, str | None]  # columns of source and target
Images = tuple[str | None, ...]  # column of image files, their folder, and that of their features


def pretrain(
    recipe: str | Recipe,
    corpus: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    tokens: float | None = None,
    settings: Mapping[str, Any] | None = None,
    start: PathLike | None = None,
    tokenizer: PathLike | None = None,
    valid: PathLike | None = None,
    weights: Sequence[float] | None = None,
    column: str | None = None,
    source: str | None = None,
    target: str | None = None,
    image: str | None = None,
    images: PathLike | None = None,
    features: PathLike | None = None,
    names: PathLike | Sequence[PathLike] = (),
    header: bool = True,
    seed: int = 0,
    extend: bool = False,
    quiet: bool = False,
) -> Model:
    """Pretrain a recipe on text, or resume the run in `out`, and return the model.

    >>> model = plmkit.pretrain(
    ...     "bert-tiny", "my_texts/", "runs/mine", steps=20, settings={"schedule.batch": 16}, quiet=True
    ... )
    >>> [candidates] = model.fill("the cat [MASK] a house.", top=3)  # of each blank
    >>> len(candidates), 0 < candidates[0].probability < 1
    (3, True)

    Args:
        recipe: A name listed by `plm recipes`, or a `Recipe`.
        corpus: Files, folders or globs; an empty sequence means the documentation found on this machine.
        out: The run folder.
        steps, minutes, tokens: The budget; at most one. Default: the recipe's own number of steps.
        settings: Settings by their dotted names, as `--set` takes them.
        start: A model whose weights to start from.
        tokenizer: vocab.txt, tokenizer.json or a folder with either. Default: train one on the corpus.
        valid: A file of held-out text. Default: 1% of the corpus.
        weights: Sampling weights of several corpora, in their order. Default: by their size.
        column: Column with the text, in tables.
        source, target: Columns with the two sides of a pair, in tables for an encoder–decoder.
        image, images: Column with the image files, in tables of captions, and the folder of these files. Default: the
            folder of the table.
        names: For triples, one or several tables with the names of entities and relations.
        header: Whether .csv and .tsv files have a header row.
        seed: Random seed of data order, masking, initial weights and dropout.
        extend: Continue a finished run for the budget given.
        quiet: Print warnings only.
    """
    number(seed, "seed", whole=True)
    corpora = (corpus,) if isinstance(corpus, str | Path) else tuple(corpus)
    request = pretraining(
        recipe,
        tuple(map(str, corpora)),
        Path(out),
        steps=steps,
        minutes=minutes,
        tokens=tokens,
        sets=as_sets(settings),
        start=path_or_none(start),
        tokenizer=path_or_none(tokenizer),
        valid=None if valid is None else str(valid),
        weights=weights,
        column=column,
        pair=(source, target),
        images=(image, *(None if path is None else str(path) for path in (images, features))),
        names=[str(one) for one in ((names,) if isinstance(names, str | Path) else names)],
        header=header,
        seed=seed,
        extend=extend,
    )
    if not run_pretraining(request, Screen(quiet=quiet)).is_finished:
        raise KeyboardInterrupt  # Ctrl-C, after which the run was saved
    return load(out)


def finetune(
    model: PathLike,
    task: str | Task | None = None,
    train: PathLike | None = None,
    out: PathLike | None = None,
    *,
    tasks: PathLike | None = None,
    alone: bool = False,
    then_each: bool = False,
    dev: PathLike | None = None,
    test: PathLike | None = None,
    epochs: float | None = None,
    settings: Mapping[str, Any] | None = None,
    columns: Columns = Columns(),
    seed: int = 0,
    seeds: int = 1,
    search: bool = False,
    minutes: float | None = None,
    quiet: bool = False,
) -> Model:
    """Fine-tune a model on labelled rows and return the fine-tuned model.

    >>> model = plmkit.finetune(
    ...     "runs/mine", "classify", "train.tsv", "runs/mine-labels", dev="dev.tsv", epochs=1, quiet=True
    ... )
    >>> [prediction] = model.predict(["the cat sees a house."])
    >>> prediction.label in model.classes, list(prediction.probabilities)
    (True, ['bad', 'good'])

    Args:
        model: A run folder, a Hugging Face folder, or a name on the Hugging Face hub.
        task: A kind of task, such as "classify" or "pair", or a `Task`.
        train: A table of labelled rows.
        out: The new run folder; it also holds scores.json.
        tasks: In place of `task` and `train`, a TOML file that names several tasks to train on together.
        alone: With `tasks`, train each task alone too, in out/alone, and compare; scores.json has the comparison.
        then_each: With `tasks`, fine-tune each task once more from the joint result, in out/then, and compare.
        dev: Rows that select the best epoch. Default: a tenth of the training rows, held out.
        test: Rows that are scored once, at the end.
        epochs: Number of epochs. Default: 3, or what the model's paper used.
        settings: Settings of `task` and `run` by their dotted names, as `--set` takes them.
        columns: The columns of text and label, if they have unusual names.
        seed: Random seed of row order, initial head and dropout.
        seeds: Number of seeds to train; the best on dev is kept.
        search: Try a small grid of learning rates, epochs and lengths, and keep the best on dev.
        minutes: Time for the search; what would take longer is not tried. Default: try everything.
        quiet: Print warnings only.
    """
    number(seed, "seed", whole=True)
    count(seeds, "seeds")
    if out is None:
        raise SettingError(tr("plmkit.finetune needs a folder for the new run: out=..."))
    given, left = given_tasks(
        path_or_none(tasks), task, path_or_none(train), path_or_none(dev), path_or_none(test), columns,
        as_sets(settings),
    )  # fmt: skip
    chosen, machine = settle_task(left, None if epochs is None else number(epochs, "epochs"))
    request = FinetuneRequest.of(
        given, model=Path(model), out=Path(out), settings=chosen, machine=machine, seed=seed, seeds=seeds,
        search=Searching.given(search, None if minutes is None else number(minutes, "minutes")),
    )  # fmt: skip
    finetune_and_compare(request, Screen(quiet=quiet), alone=alone, then_each=then_each)
    return load(out)


def distill(
    teacher: PathLike,
    student: PathLike,
    data: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    method: str | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    epochs: float | None = None,
    settings: Mapping[str, Any] | None = None,
    init: str = AUTO,
    tokenizer: PathLike | None = None,
    unlabelled: PathLike | None = None,
    dev: PathLike | None = None,
    test: PathLike | None = None,
    columns: Columns = Columns(),
    seed: int = 0,
    seeds: int = 1,
    quiet: bool = False,
) -> Model:
    """Train a small model on what a large one predicts, and return the small one.

    Args:
        teacher: A run folder, a Hugging Face folder, or a name on its hub. A fine-tuned teacher teaches its task.
        student: A name listed by `plm recipes`, or a folder whose weights the student starts from.
        data: Text, as for `pretrain`; for a fine-tuned teacher, a table of labelled rows.
        out: The run folder.
        method: "distilbert", "tinybert", "minilm" or "soft". Default: distilbert on text, soft for a task.
        steps, minutes: The budget on text; at most one. Default: the recipe's own number of steps.
        epochs: Number of epochs for a task.
        settings: Settings by their dotted names, as `--set` takes them.
        init: "auto", "random", or layers of the teacher for the student to start from, as in "1,3,5".
        tokenizer: The tokenizer of a recipe. Default: the teacher's. Another vocabulary is aligned by text.
        unlabelled: Further rows of the task without labels, for which the teacher answers.
        dev, test, columns, seeds: As for `finetune`.
        seed: Random seed.
        quiet: Print warnings only.
    """
    corpora = (data,) if isinstance(data, str | Path) else tuple(data)
    given = Distilling(
        teacher=Path(teacher), student=str(student), data=tuple(map(str, corpora)), out=Path(out), method=method,
        steps=steps, minutes=minutes, epochs=epochs, sets=tuple(as_sets(settings)), init=init,
        tokenizer=path_or_none(tokenizer),
        unlabelled=path_or_none(unlabelled), dev=path_or_none(dev), test=path_or_none(test), columns=columns,
        seed=seed, seeds=seeds,
    )  # fmt: skip
    if not distillation(given, Screen(quiet=quiet)).record.is_finished:
        raise KeyboardInterrupt
    return load(out)


@dataclass(frozen=True, kw_only=True)
class Distilling:
    """The arguments of `plm distill`."""

    teacher: Path
    student: str
    data: tuple[str, ...]
    out: Path
    method: str | None = None
    steps: int | None = None
    minutes: float | None = None
    epochs: float | None = None
    sets: tuple[str, ...] = ()
    init: str = AUTO
    tokenizer: Path | None = None
    unlabelled: Path | None = None
    dev: Path | None = None
    test: Path | None = None
    columns: Columns = Columns()
    seed: int = 0
    seeds: int = 1
    alone: bool = False

    @property
    def of_text(self) -> dict[str, Any]:
        """Options that only text has."""
        return {"--minutes": self.minutes, "--steps": self.steps}

    @property
    def of_task(self) -> dict[str, Any]:
        """Options that only a task has."""
        more = {"--epochs": self.epochs, "--unlabelled": self.unlabelled, "--dev": self.dev, "--test": self.test}
        return more | {"--seeds": None if self.seeds == 1 else self.seeds}


def distillation(given: Distilling, screen: Screen) -> Distilled:
    """Distil on text, or on the rows of the task that the teacher was fine-tuned on."""
    check_alone("plm distill")
    teacher = teacher_parts(given.teacher, screen.say)
    student = Student.named(given.student, screen.say)
    ignored = given.of_text if teacher.tasks else given.of_task
    if option := next((name for name, value in ignored.items() if value is not None), None):
        raise SettingError(
            tr("{option} is for text, but {teacher} is fine-tuned on a task: --epochs says how long to train.",
               option=option, teacher=given.teacher)
            if teacher.tasks
            else tr("{option} is for a teacher that is fine-tuned on a task; {teacher} is not. Fine-tune it first, or "
                    "leave {option} out.", option=option, teacher=given.teacher)
        )  # fmt: skip
    return (
        distil_task(given, teacher, student, screen) if teacher.tasks else distil_text(given, teacher, student, screen)
    )


def distil_text(given: Distilling, teacher: Parts, student: Student, screen: Screen) -> Distilled:
    settings, sets = settle_distillation(given.sets)
    if settings != Distillation():
        raise SettingError(
            tr("Settings of distill are for a task. On text, set those of objectives: `plm recipes` lists them.")
        )
    layers = initial_layers(given.init)
    recipe = prepare_recipe(student, teacher, given.method or DEFAULT)
    causal = is_causal(student.recipe)
    guide = TeacherGuide(
        teacher, causal, layers, student.start is not None, masked=not causal,
        frozen_positions=(given.method or DEFAULT) in FROZEN_POSITIONS,
    )  # fmt: skip
    tokenizer = check_tokenizer(given, student) or teacher.folder
    ours = load_tokenizer(student.start or tokenizer)
    guide.alignment(ours)  # refuses other languages before any text is read
    common: dict[str, Any] = {
        "sets": sets, "start": student.start, "tokenizer": None if student.start else tokenizer, "valid": None,
        "column": given.columns.text, "header": given.columns.header, "seed": given.seed, "extend": False,
        "steps": given.steps, "minutes": given.minutes, "tokens": None,
    }  # fmt: skip
    request = pretraining(recipe, given.data, given.out, **common)
    check_length(request.settings.recipe, teacher)
    warn_of_size(teacher, request.settings.recipe.architecture, ours.vocabulary, screen.say)
    common["sets"] = [own for own in sets if not own.startswith("objectives.")]
    lone = pretraining(alone(student.recipe), given.data, given.out / "alone", **common)
    return distill_text(replace(request, guide=guide), lone, teacher, screen, alone=given.alone)


def check_tokenizer(given: Distilling, student: Student) -> Path | None:
    """The tokenizer of --tokenizer, which a folder has already."""
    if given.tokenizer is not None and student.start is not None:
        raise SettingError(
            tr(
                "{student} has a tokenizer of its own; --tokenizer is for a recipe. Leave it out.",
                student=given.student,
            )
        )
    return given.tokenizer


def distil_task(given: Distilling, teacher: Parts, student: Student, screen: Screen) -> Distilled:
    if len(given.data) != 1:
        raise SettingError(tr("A task has one table of labelled rows; found {count} files.", count=len(given.data)))
    settings, sets = settle_distillation(given.sets)
    task = replace(check_teacher(teacher), classes=(), columns=Columns(), ngrams=None)
    own = [one for one in sets if one.startswith("architecture")]
    if own and student.start is not None:
        raise SettingError(
            tr("{name} changes the network of a recipe; the student is a folder. Leave it out.", name=own[0])
        )
    student = replace(student, recipe=settle(student.recipe, own).recipe)
    sets = [one for one in sets if one not in own]
    own_tokenizer = check_tokenizer(given, student)
    parts = student_parts(student, teacher, given.student, own_tokenizer, screen.say)
    if not any(own.startswith("task.ngrams") for own in sets):
        sets = [*sets, "task.ngrams=false"]
    chosen, machine = settle_task(sets, given.epochs)
    teaching = Teaching(
        teacher=teacher, student=parts, method=given.method or "soft", settings=settings,
        init=initial_layers(given.init), unlabelled=given.unlabelled, search=Search(named=given.columns),
        say=screen.say,
    )  # fmt: skip
    request = FinetuneRequest(
        model=Path(given.student), task=task, train=Path(given.data[0]), dev=given.dev, test=given.test,
        out=given.out, settings=chosen, machine=machine, seed=given.seed, seeds=given.seeds, columns=given.columns,
        guide=teaching,
    )  # fmt: skip
    known = parts.vocabulary if parts.weights else parts.tokenizer.vocabulary
    warn_of_size(teacher, parts.architecture, known, screen.say)
    lone = replace(request, out=given.out / "alone", guide=Untaught(parts), settings=chosen)
    return distill_task(request, lone, teacher, screen, alone=given.alone)


def pretraining(
    recipe: str | Recipe,
    corpora: tuple[str, ...],
    out: Path,
    *,
    steps: int | None,
    minutes: float | None,
    tokens: float | None,
    sets: Sequence[str],
    column: str | None,
    pair: Pair = (None, None),
    images: Images = (None, None),
    weights: Sequence[float] | None = None,
    names: Sequence[str] = (),
    header: bool,
    extend: bool,
    **others: Any,
) -> PretrainRequest:
    """The request for a pretraining, with its settings checked."""
    chosen = adopted(find(recipe) if isinstance(recipe, str) else recipe, others.get("start"))
    settings = with_column(settle(chosen, sets), column, header, pair)
    settings = with_pretrained_encoder(settings, others.get("start"))
    settings = with_images(settings, images)
    settings = with_weights(settings, weights)
    settings = with_features(with_images(settings, images), sets)
    settings = fitted_to_triples(with_names(settings, names), corpora, others.get("valid"))
    default = None if extend else settings.recipe.schedule.steps
    request = PretrainRequest(
        settings=settings,
        corpora=corpora,
        out=out,
        budget=budget(minutes, steps, tokens, default),
        by_default=minutes is steps is tokens is None,
        extend=extend,
        **others,
    )
    budgets = {"--minutes": minutes, "--steps": steps, "--tokens": tokens}
    given = [option for option, value in budgets.items() if value is not None]
    refuse_ignored(sets, ignored_by(request, given, weighted=weights is not None))
    return request


def ignored_by(request: PretrainRequest, budgets: Sequence[str], *, weighted: bool = False) -> dict[str, str]:
    """Settings that would be ignored, with the option that takes their place."""
    ignored = {"schedule.steps": budgets[0]} if budgets else {}
    if weighted:
        ignored["run.weights"] = "--weights"
    if request.valid:
        ignored["run.valid_share"] = "--valid"
    elif request.settings.run.valid_share == 0:
        ignored["run.validations"] = "run.valid_share=0"
    if request.tokenizer:
        ignored["tokenizer"] = "--tokenizer"
    if request.start:
        ignored |= dict.fromkeys(initial_settings(request.settings.recipe), "--from")
        ignored |= {f"architecture.{name}": "--from" for name in request.settings.recipe.architecture.brought}
    return ignored


def initial_settings(recipe: Recipe) -> list[str]:
    """Settings of a vocabulary and of initial weights, which a model to start from brings along."""
    heads = ["", *(f"{snake(type(objective).__name__)}." for objective in recipe.objectives)]
    return [
        "tokenizer",
        "initialisation",
        *(f"architecture.{name}" for name in sorted(recipe.architecture.initial)),
        *(f"objectives.{head}corpus_vocabulary" for head in heads),
    ]


def with_column(settings: Settings, column: str | None, header: bool, pair: Pair = (None, None)) -> Settings:
    """The settings with the text column given by --text, or the two columns given by --source and --target."""
    if any(pair):
        if not settings.recipe.architecture.translates:
            raise SettingError(
                tr(
                    "--source and --target are for recipes that are trained on pairs, such as transformer-mini; "
                    "{recipe} reads single texts. Use --text.",
                    recipe=settings.recipe.name,
                )
            )
        if column is not None:
            raise SettingError(tr("--text has no effect with --source and --target. Leave it out."))
        column = "+".join(name or "" for name in pair)
    if column is not None and settings.run.column not in (None, column):
        raise SettingError(
            tr(
                "--text {text} and run.column={column} name different columns. Give one of them.",
                text=column,
                column=settings.run.column,
            )
        )
    machine = replace(settings.run, column=column or settings.run.column, header=settings.run.header and header)
    return replace(settings, run=machine)


def with_weights(settings: Settings, weights: Sequence[float] | None) -> Settings:
    """The settings with the sampling weights given by --weights."""
    if weights is None:
        return settings
    return replace(settings, run=replace(settings.run, weights=tuple(map(float, weights))))


def with_images(settings: Settings, images: Images) -> Settings:
    """The settings with --image, --images and --features: the column of images, their folder, and their features."""
    named = zip(("image_column", "image_folder", "features"), images, strict=False)
    given: dict[str, Any] = {name: value for name, value in named if value}
    return replace(settings, run=replace(settings.run, **given))


def with_features(settings: Settings, sets: Sequence[str] = ()) -> Settings:
    """The settings of a network that reads features from files, where they are given in place of pixels."""
    recipe, source = settings.recipe, settings.run.features
    if source is None:
        return settings
    if recipe.architecture.describes_images or not recipe.architecture.reads_images:
        raise SettingError(
            tr(
                "--features is for recipes that read regions of images, such as visualbert-mini; {recipe} does not. "
                "Leave it out.",
                recipe=recipe.name,
            )
        )
    if recipe.architecture.region_width is not None:
        return settings
    given = any(one.startswith("architecture.features=") for one in sets)
    width = recipe.architecture.with_settings(image_size=None).region_width if given else width_in(Path(source))
    changed = recipe.architecture.with_settings(image_size=None, features=width)
    return replace(settings, recipe=replace(recipe, architecture=changed))


def with_names(settings: Settings, names: Sequence[str]) -> Settings:
    """The settings with the tables of names given by --names."""
    if (names or settings.run.names) and not reads_triples(settings.recipe):
        raise SettingError(
            tr("--names is for triples; {recipe} does not read any. Leave it out.", recipe=settings.recipe.name)
        )
    return replace(settings, run=replace(settings.run, names=tuple(names) or settings.run.names))


def budget(minutes: float | None, steps: int | None, tokens: float | None, default: int | None) -> Budget:
    """The budget that is given, or the default number of steps; extending a run has no default."""
    given = {"--minutes": minutes, "--steps": steps, "--tokens": tokens}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) > 1:
        raise SettingError(tr("A run has one budget; found {options}. Choose one.", options=tr(" and ").join(named)))
    if not named and default is None:
        raise SettingError(tr("--extend needs a budget of its own: add --minutes, --steps or --tokens."))
    for name, value in named.items():
        positive(name, value)
    whole = None if steps is None else number(steps, "--steps", whole=True)
    return Budget(
        steps=whole if named else default,
        tokens=None if tokens is None else math.ceil(tokens),
        seconds=None if minutes is None else minutes * 60,
    )


def positive(name: str, value: float) -> None:
    number(value, name)
    if not (math.isfinite(value) and value > 0):
        raise SettingError(tr("{name} must be a finite number above 0; found {value:g}.", name=name, value=value))


def as_sets(settings: Mapping[str, Any] | None) -> list[str]:
    """`{"schedule.batch": 16}` as `--set` takes it."""
    return [f"{name}={as_text(value)}" for name, value in (settings or {}).items()]


def path_or_none(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path)
