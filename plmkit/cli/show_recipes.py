"""What `plm recipes` prints: the catalogue, and one recipe with all its settings."""

import dataclasses
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.table import Column, Table

from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import CHOICES
from plmkit.cli.show import console
from plmkit.config.composing import SENTENCE_TASK, SENTENCE_TASKS, sentence_task
from plmkit.config.counting import encoder_parameters, parameters, parts, training_bytes
from plmkit.config.explaining import explanation
from plmkit.config.machine import Machine
from plmkit.config.pretraining_tasks import TASKS, WITHOUT, task_order
from plmkit.config.pretraining_tasks import tasks_of as names_of_tasks
from plmkit.config.settings import kinds_of, snake, to_json
from plmkit.initialisation.corpus import Initialisation
from plmkit.labels import explained as label_explained
from plmkit.labels import label_of
from plmkit.language import comma, tr, translated
from plmkit.recipe import Recipe
from plmkit.schedules.schedule import Schedule, Tuning, shares_of
from plmkit.schedules.task_stages import TASK_STAGES
from plmkit.tasks.registry import KINDS, find_kind, reasons_against
from plmkit.tasks.settings import TaskSettings
from plmkit.vectors.settings import SKIPGRAM, SkipGram


def all_recipes(as_json: bool) -> None:
    rows = [(name, make()) for name, make in CATALOGUE.items()]
    if as_json:
        found = [{"name": name, "paper": r.paper, **labelled(r), **counted(r), **tasks_of(r)} for name, r in rows]
        print(json.dumps({"recipes": found}, ensure_ascii=False))
        return
    whole = Column(tr("recipe"), min_width=max(map(len, CATALOGUE)))  # names are there to be copied
    table = Table(whole, tr("label"), tr("layers × width"), tr("parameters"), tr("settings"), box=None)
    for name, recipe in rows:
        shape = f"{recipe.architecture.layers} × {recipe.architecture.width}"
        settings = (
            tr("for minutes") if recipe.for_minutes else tr("second stage") if recipe.adopts else tr("the paper's")
        )
        label = label_of(recipe)
        size = f"{parameters(recipe, recipe.tokenizer.size):,}"
        table.add_row(name, label.short if label else "", shape, size, settings)
    table.add_row(SKIPGRAM, "", f"0 × {SkipGram().width}", tr("per word"), tr("static vectors, by gensim"))
    console.print(table)
    console.print(
        tr(
            "\n"
            "Recipes `for minutes` train in minutes on a small machine: start with bert-mini to fill blanks and "
            "fine-tune, or gpt2-mini to generate text.\n"
            "A `second stage` continues a model (--from), whose network it takes over.\n"
            "Parameter counts use the vocabulary size of the recipe's tokenizer. `plm recipes NAME` shows one recipe "
            "in full, with the count for the paper's vocabulary where that differs.\n"
            "Labels: AR autoregressive, AE autoencoding (masked), PLM permuted, RTD replaced tokens, biLM one language "
            "model per direction, seq2seq encoder–decoder."
        )
    )


def labelled(recipe: Recipe) -> dict[str, str | None]:
    """What the field calls it."""
    label = label_of(recipe)
    return {"label": label.name if label else None}


def counted(recipe: Recipe) -> dict[str, int]:
    """Parameters with the vocabulary that the recipe's tokenizer learns, and with the paper's."""
    size = recipe.tokenizer.size
    return {
        "parameters": parameters(recipe, size),
        "tokenizer_size": size,
        "paper_parameters": parameters(recipe),
        "paper_vocabulary": recipe.vocabulary,
    }


def tasks_of(recipe: Recipe) -> dict[str, Any]:
    """The kinds of task that it can be fine-tuned on, and why not on the others."""
    reasons = reasons_against(recipe.architecture)
    return {
        "tasks": [kind for kind, why in reasons.items() if why is None],
        "unsupported_tasks": {kind: why for kind, why in reasons.items() if why is not None},
    }


def task_lines(recipe: Recipe) -> list[str]:
    found = tasks_of(recipe)
    lines = [tr("Tasks (plm finetune --task): {kinds}.", kinds=comma().join(found["tasks"]) or tr("none"))]
    for why, kinds in groupby(found["unsupported_tasks"], found["unsupported_tasks"].__getitem__):
        lines.append(tr("Not supported: {kinds} ({why}).", kinds=comma().join(kinds), why=why))
    return lines


def skipgram(as_json: bool) -> None:
    """Skip-gram has settings, but none of the five choices: a library trains it."""
    if as_json:
        print(json.dumps({"name": SKIPGRAM, "label": None, **to_json(SkipGram()), "tasks": []}))
        return
    console.print(f"[bold]{SKIPGRAM}[/]  {first_line(SkipGram())}")
    console.print(
        tr(
            "One vector per word, whatever the sentence: no layers, no direction. The same seed gives the same vectors "
            "with one thread (run.threads, default 1)."
        )
    )
    for line in settings_of(SkipGram(), SKIPGRAM):
        console.print(f"  {line}", markup=False)


def one_recipe(name: str, as_json: bool) -> None:
    if name == SKIPGRAM:
        skipgram(as_json)
        return
    recipe = find(name)
    size = recipe.tokenizer.size
    if as_json:
        found = {
            **to_json(recipe),
            **labelled(recipe),
            **counted(recipe),
            "parts": parts(recipe, size),
            **tasks_of(recipe),
        }
        print(json.dumps(found, ensure_ascii=False))
        return
    console.print(f"[bold]{recipe.name}[/]  {translated(recipe.summary)}  ({recipe.paper})")
    if label := label_of(recipe):
        console.print(label_explained(label))
    total = parameters(recipe, size)
    console.print(
        tr(
            "{total:,} parameters with a vocabulary of {size:,} (tokenizer.size), {encoder:,} of them in the encoder.",
            total=total,
            size=size,
            encoder=encoder_parameters(recipe, size),
        )
    )
    if recipe.vocabulary != size:
        console.print(
            tr(
                "With the paper's vocabulary of {size:,}: {total:,} parameters, {encoder:,} of them in the encoder.",
                size=recipe.vocabulary,
                total=parameters(recipe),
                encoder=encoder_parameters(recipe),
            )
        )
    for part, count in parts(recipe, size).items():
        console.print(
            tr("{count:,} parameters shared.", count=count)
            if part == "shared"
            else tr("{count:,} parameters in the {part}.", count=count, part=part)
        )
    console.print(
        tr(
            "{megabytes:,.0f} MB during training: weights, gradients and the optimizer's two moments.",
            megabytes=training_bytes(total) / 1e6,
        )
    )
    if recipe.notes:
        console.print(translated(recipe.notes))
    for line in task_lines(recipe):
        console.print(line, markup=False)
    for line in choices_of(recipe):
        console.print(line, markup=False)
    for axis, value in axes_of(recipe).items():
        for choice in as_tuple(value):
            console.print(f"\n[bold]{axis}[/]: {type(choice).__name__}: {first_line(choice)}")
            for line in settings_of(choice, axis, isinstance(value, tuple)):
                console.print(f"  {line}", markup=False)
    console.print(tr("\n[bold]stages[/]: up to which share of the run, and the sequence length"))
    console.print(f"  stages={as_set([[stage.until, stage.length] for stage in recipe.stages])}", markup=False)
    for line in task_stages(recipe):
        console.print(f"  {line}", markup=False)
    console.print(f"\n[bold]run[/]: {first_line(Machine())}")
    for line in settings_of(Machine(), "run"):
        console.print(f"  {line}", markup=False)
    console.print(
        tr(
            "\nTo change a setting: {command}",
            command=f"plm pretrain {name} CORPUS --out DIR --set schedule.learning_rate=1e-3",
        )
    )
    console.print(f"\n[bold]task[/]: {first_line(recipe.tuning)}")
    for line in settings_of(TaskSettings().settled(recipe.architecture, recipe.tuning), "task"):
        console.print(f"  {line}", markup=False)


def axes_of(recipe: Recipe) -> dict[str, Any]:
    """The choice on each axis, under the name by which it is set; of several streams, the steps of each."""
    several = len(recipe.streams) > 1
    corruption = {f"streams.{stream.name}" if several else "corruption": stream.steps for stream in recipe.streams}
    rest = {axis: getattr(recipe, axis) for axis in ("architecture", "objectives", "initialisation", "schedule")}
    return {"tokenizer": recipe.tokenizer, **corruption, **rest}


def choices_of(recipe: Recipe) -> list[str]:
    """The choices that others can be named for, as --set takes them."""
    task = sentence_task(recipe)
    tasks = comma().join(name for name in SENTENCE_TASKS if name != task)
    lines = [""]
    if task:
        lines.append(f"{SENTENCE_TASK}={task}" + tr("    (or {others})", others=tasks))
    if order := task_order(recipe):
        orders = comma().join(name for name in TASK_STAGES if name != order)
        lines.append(f"{TASKS}={order}" + tr("    (or {others})", others=orders))
        every = comma().join(names_of_tasks(recipe))
        lines.append(f"{WITHOUT}=" + tr("    (leave out some of {names}; default: none)", names=every))
    for axis, kinds in CHOICES.items():
        value = getattr(recipe, axis)
        names = list(dict.fromkeys(type(choice).__name__ for choice in as_tuple(value)))
        others = [kind.__name__ for kind in kinds if kind.__name__ not in names]
        named = f"[{','.join(names)}]" if isinstance(value, tuple) else names[0]
        lines.append(f"{axis}={named}" + (tr("    (or {others})", others=comma().join(others)) if others else ""))
    return lines


def task_stages(recipe: Recipe) -> Iterator[str]:
    """The tasks of each stage, where it has exact shares of them: how much of a task's steps is in the stage."""
    begins = [0.0, *(stage.until for stage in recipe.stages)]
    parts = [
        {name: (stage.until - begin) * share for name, share in shares_of(stage).items()}
        for begin, stage in zip(begins, recipe.stages, strict=False)
    ]
    for number, part in enumerate(parts, start=1):
        wholes = {name: sum(other.get(name, 0.0) for other in parts) for name in part}
        shown = comma().join(f"{name} {share / wholes[name]:.1%}" for name, share in part.items())
        if shown:
            yield tr("stage {number}, shares of the steps of each task: {shares}", number=number, shares=shown)


def settings_of(choice: Any, stem: str, named: bool = False) -> list[str]:
    """One line per setting, as --set takes it, with its explanation in a second column."""
    lines = list(explained(choice, f"{stem}.{snake(type(choice).__name__)}" if named else stem))
    width = max((len(setting) for setting, _ in lines), default=0)
    return [f"{setting:<{width}}    {translated(text)}" for setting, text in lines]


def explained(choice: Any, stem: str) -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(choice):
        name, value = f"{stem}.{field.name}", getattr(choice, field.name)
        if dataclasses.is_dataclass(value):
            yield f"{name}={type(value).__name__}", summary_of(type(value))
            yield from explained(value, name)
        else:
            yield f"{name}={as_set(value)}", explanation(type(choice), field.name)


def as_set(value: Any) -> str:
    """A value as --set takes it: without spaces, so that a shell takes it as one word."""
    if value is None or isinstance(value, str):
        return value or "none"
    return json.dumps(to_json(value), separators=(",", ":"))


def first_line(choice: Any) -> str:
    return translated(summary_of(type(choice)))


def summary_of(kind: type) -> str:
    """The first line of its docstring."""
    return (kind.__doc__ or "").strip().splitlines()[0]


def texts_of_recipes() -> list[str]:
    """All that is shown of recipes and choices in the reader's language: data, so no call of `tr` holds it."""
    made = [make() for make in CATALOGUE.values()]
    texts = [text for recipe in made for text in (recipe.summary, recipe.notes) if text]
    kinds = settings_kinds()
    explanations = [explanation(kind, field.name) for kind in kinds for field in dataclasses.fields(kind)]
    tasks = [find_kind(name) for name in KINDS]
    explanations += [explanation(task, name) for task in tasks for name in task.settings()]
    return list(dict.fromkeys([*texts, *map(summary_of, (*kinds, Tuning)), *explanations]))


def settings_kinds() -> list[type]:
    """Every class whose settings `plm recipes` may show, with those that its settings may hold."""
    axes = [kind for kinds in CHOICES.values() for kind in kinds]
    return list(
        dict.fromkeys(
            each for kind in (*axes, Initialisation, Schedule, Machine, TaskSettings, SkipGram) for each in within(kind)
        )
    )


def within(kind: type) -> Iterator[type]:
    yield kind
    for field in dataclasses.fields(kind):
        for inner in kinds_of(kind, field.name).values():
            yield from within(inner)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
