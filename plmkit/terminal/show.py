"""What `plm` prints for people: tables and short reports on stdout."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import CHOICES
from plmkit.config.composing import SENTENCE_TASK, SENTENCE_TASKS, sentence_task
from plmkit.config.counting import encoder_parameters, parameters, parts, training_bytes
from plmkit.config.machine import Machine
from plmkit.config.settings import snake, to_json
from plmkit.errors import several
from plmkit.inference.model import Candidate
from plmkit.preparation.doctor import Diagnosis
from plmkit.preparation.preview import asks_next
from plmkit.recipe import Recipe, recipe_from_json
from plmkit.terminal.chart import curve

HIGHLIGHTS = ("yellow", "cyan")
console = Console(highlight=False, soft_wrap=True)  # a command that is shown can be copied whole


def all_recipes(as_json: bool) -> None:
    rows = [(name, make()) for name, make in CATALOGUE.items()]
    if as_json:
        told = [{"name": name, "paper": r.paper, **counted(r)} for name, r in rows]
        print(json.dumps({"recipes": told}))
        return
    table = Table("recipe", "layers × width", "parameters", "settings", box=None)
    for name, recipe in rows:
        shape = f"{recipe.architecture.layers} × {recipe.architecture.width}"
        settings = "for minutes" if recipe.for_minutes else "the paper's"
        table.add_row(name, shape, f"{parameters(recipe, recipe.tokenizer.size):,}", settings)
    console.print(table)
    console.print(
        "\nSizes `for minutes` train in minutes on a small machine: begin with bert-mini, which fills blanks and is "
        "fine-tuned, or gpt2-mini, which writes.\n"
        "Parameters are counted with as many tokens as the recipe's tokenizer learns. `plm recipes NAME` shows one in "
        "full, and where the paper's vocabulary is another, counts with that as well."
    )


def counted(recipe: Recipe) -> dict[str, int]:
    """Parameters with the vocabulary that the recipe's tokenizer learns, and with the paper's."""
    size = recipe.tokenizer.size
    return {
        "parameters": parameters(recipe, size),
        "tokenizer_size": size,
        "paper_parameters": parameters(recipe),
        "paper_vocabulary": recipe.vocabulary,
    }


def one_recipe(name: str, as_json: bool) -> None:
    recipe = find(name)
    size = recipe.tokenizer.size
    if as_json:
        print(json.dumps({**to_json(recipe), **counted(recipe), "parts": parts(recipe, size)}, ensure_ascii=False))
        return
    console.print(f"[bold]{recipe.name}[/]  {recipe.summary}  ({recipe.paper})")
    total = parameters(recipe, size)
    console.print(
        f"{total:,} parameters with a vocabulary of {size:,}, as tokenizer.size says, "
        f"{encoder_parameters(recipe, size):,} of them in the encoder."
    )
    if recipe.vocabulary != size:
        console.print(
            f"With the paper's vocabulary of {recipe.vocabulary:,}: {parameters(recipe):,} parameters, "
            f"{encoder_parameters(recipe):,} of them in the encoder."
        )
    held = parts(recipe, size)
    shares = ", ".join(f"{count:,} {'in the ' + name if name != 'shared' else name}" for name, count in held.items())
    console.print(
        f"{shares + '; ' if shares else ''}{training_bytes(total) / 1e6:,.0f} MB while they are trained: "
        "weights, gradients and two moments of the optimizer."
    )
    if recipe.notes:
        console.print(recipe.notes)
    for line in choices_of(recipe):
        console.print(line, markup=False)
    for axis, value in axes_of(recipe).items():
        for choice in value if isinstance(value, tuple) else (value,):
            console.print(f"\n[bold]{axis}[/]: {type(choice).__name__}: {first_line(choice)}")
            for line in settings_of(choice, axis, isinstance(value, tuple)):
                console.print(f"  {line}", markup=False)
    console.print("\n[bold]stages[/]: until which share of the run, and the sequence length")
    console.print(f"  stages={as_set([[stage.until, stage.length] for stage in recipe.stages])}", markup=False)
    console.print(f"\n[bold]run[/]: {first_line(Machine())}")
    for line in settings_of(Machine(), "run"):
        console.print(f"  {line}", markup=False)
    console.print(f"\nChange any line of it: plm pretrain {name} CORPUS --out DIR --set schedule.rate=1e-3")
    console.print(f"\n[bold]task[/]: {first_line(recipe.tuning)}")
    for line in settings_of(recipe.tuning, "task"):
        console.print(f"  {line}", markup=False)


def axes_of(recipe: Recipe) -> dict[str, Any]:
    """What stands on each axis, under the name by which it is set; of several streams, the steps of each."""
    several_streams = len(recipe.streams) > 1
    corruption = {
        f"streams.{stream.name}" if several_streams else "corruption": stream.steps for stream in recipe.streams
    }
    rest = {axis: getattr(recipe, axis) for axis in ("architecture", "objectives", "initialisation", "schedule")}
    return {"tokenizer": recipe.tokenizer, **corruption, **rest}


def choices_of(recipe: Recipe) -> list[str]:
    """The choices that others can be named for, as --set takes them."""
    task = sentence_task(recipe)
    tasks = ", ".join(name for name in SENTENCE_TASKS if name != task)
    lines = ["", *([f"{SENTENCE_TASK}={task}    (or {tasks})"] if task else [])]
    for axis, kinds in CHOICES.items():
        value = getattr(recipe, axis)
        names = list(dict.fromkeys(type(one).__name__ for one in (value if isinstance(value, tuple) else (value,))))
        others = [kind.__name__ for kind in kinds if kind.__name__ not in names]
        named = f"[{','.join(names)}]" if isinstance(value, tuple) else names[0]
        lines.append(f"{axis}={named}" + (f"    (or {', '.join(others)})" if others else ""))
    return lines


def settings_of(choice: Any, stem: str, named: bool = False) -> list[str]:
    stem = f"{stem}.{snake(type(choice).__name__)}" if named else stem
    lines = []
    for field in dataclasses.fields(choice):
        value = getattr(choice, field.name)
        if dataclasses.is_dataclass(value):
            lines.append(f"{stem}.{field.name}={type(value).__name__}    {first_line(value)}")
            lines += settings_of(value, f"{stem}.{field.name}")
        else:
            lines.append(f"{stem}.{field.name}={as_set(value)}")
    return lines


def as_set(value: Any) -> str:
    """A value as --set takes it: without spaces, so that a shell takes it as one word."""
    if value is None or isinstance(value, str):
        return value or "none"
    return json.dumps(to_json(value), separators=(",", ":"))


def first_line(choice: Any) -> str:
    return (type(choice).__doc__ or "").strip().splitlines()[0]


def diagnosis(found: Diagnosis, recipe: Recipe) -> None:
    bad_files(found.bad_files)
    languages = ", ".join(f"{name} {share:.0%}" for name, share in found.languages.items() if share >= 0.005)
    rows = {
        "documents": f"{found.documents:,}, {found.duplicate_share:.1%} of them repeat an earlier one",
        "sentences": f"{found.sentences:,} in {several(found.lines, 'line')}",
        "tokens": f"{found.tokens:,} of a vocabulary of {found.vocabulary:,}, {found.unknown_share:.2%} unknown to it",
        "scripts": languages or "no letters",
        "longest line": f"{found.longest_line:,} characters ({found.longest_line_at})",
        "examples": f"{found.examples:,} per epoch for {recipe.name}, {found.tokens_per_example:.0f} tokens long",
        "held out": f"{several(found.held_out, 'document')}, {several(found.held_out_tokens, 'token')}",
    }
    if len(found.sources) > 1:
        rows["mix by tokens"] = ", ".join(f"{name} {share:.1%}" for name, share in found.sources.items())
    width = max(map(len, rows))
    for name, value in rows.items():
        beside(name.ljust(width + 1), value, "bold", "")
    for warning in found.warnings:
        beside("!", warning, "yellow", "yellow")
    for number, (stage, (seen, whole), hidden) in enumerate(
        zip(found.stages, found.preview, found.hidden, strict=True), start=1
    ):
        tell(f"\n[bold]example {number}[/]{stage_of(recipe, stage)}, as the model sees it")
        tell(Text(seen))
        tell("[dim]and what follows at each place[/]" if asks_next(recipe) else "[dim]and as it was[/]")
        tell(highlighted(whole, hidden))


def tell(content: Any) -> None:
    """Wrapped between words on a terminal; a pipe gets whole lines."""
    console.print(content, soft_wrap=not console.is_terminal)


def beside(name: str, text: str, name_style: str, style: str) -> None:
    """A name, and a paragraph that stays to the right of it; in a pipe, one line."""
    row = Table.grid(padding=(0, 1))
    row.add_row(Text(name, style=name_style), Text(text, style=style, overflow="fold"))
    tell(row if console.is_terminal else Text(f"{name} {text}"))


def bad_files(problems: dict[str, str]) -> None:
    """What is wrong with each, before all that is said of the others."""
    if not problems:
        return
    one = len(problems) == 1
    told = (
        f"{several(len(problems), 'file')} cannot be read, and pretraining refuses the corpus as long as "
        f"{'it is' if one else 'they are'} in it. What follows is about the others."
    )
    beside("!", told, "red", "red")
    for problem in problems.values():
        beside("-", problem, "red", "red")
    console.print()


def stage_of(recipe: Recipe, stage: int) -> str:
    """` in stage 2 of 3 (33–67% of the run, by phrase)`, of a run whose stages mask otherwise."""
    chosen = recipe.stages[stage]
    if not chosen.streams:
        return ""
    ends = [0.0, *(one.until for one in recipe.stages)]
    part = f"{100 * ends[stage]:.0f}–{ends[stage + 1]:.0%} of the run"
    return f" in stage {stage + 1} of {len(recipe.stages)} ({part}, by {' and '.join(chosen.streams)})"


def highlighted(text: str, units: Sequence[tuple[int, int]]) -> Text:
    """The text with each hidden unit in one colour, and neighbours in two; a pipe gets plain text."""
    shown = Text(text, style="dim")
    for number, (begin, end) in enumerate(units):
        shown.stylize(f"not dim black on {HIGHLIGHTS[number % len(HIGHLIGHTS)]}", begin, end)
    return shown


def pretrained(out: Path, about: dict[str, Any], *, hints: bool = True) -> None:
    result = about["result"]
    losses = {name.removeprefix("valid/"): value for name, value in result.items() if name.startswith("valid/")}
    told = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in losses.items())
    console.print(
        f"{result['steps']:,} steps, {result['tokens']:,} tokens, {result['seconds'] / 60:.1f} minutes"
        + (f"; loss on held-out text: {told}." if told else ".")
    )
    if not hints:
        return
    console.print(f"The model is in {out}. Next:", markup=False)
    if recipe_from_json(about["recipe"]).architecture.generates != "no":
        console.print(f'  plm generate {out} "how a text begins"', markup=False)
    else:
        console.print(f'  plm fill {out} "a text with a [MASK] in it"', markup=False)
    console.print(
        f"  plm finetune {out} --task classify --train train.tsv --dev dev.tsv --out {out}-task", markup=False
    )
    console.print(f"  tensorboard --logdir {out}", markup=False)


def finetuned(out: Path, about: dict[str, Any], *, hints: bool = True) -> None:
    result = about["result"]
    many = len(result["seeds"]) > 1
    table = Table("", *(["mean", "spread", "lowest", "highest"] if many else ["score"]), box=None)
    for part, scores in result["spread"].items():
        for name, values in scores.items():
            cells = [values["mean"], values["std"], values["min"], values["max"]] if many else [values["mean"]]
            table.add_row(f"{part} {name}", *(f"{cell:.4f}" for cell in cells))
    for part, beside in result.get("baseline", {}).items():
        table.add_row(f"{part} {beside['measure']} of {escape(beside['answer'])}", f"{beside['score']:.4f}")
    if table.row_count:
        console.print(table)
    chosen = f"Best on dev: epoch {result['epoch']:g} of {about['task']['epochs']:g}. " if "dev" in result else ""
    console.print(f"{chosen}{about['seconds'] / 60:.1f} minutes in all." if "seconds" in about else chosen)
    for warning in doubts(result):
        console.print(f"! {warning}", markup=False)
    if not hints:
        return
    kept = f", with the weights of seed {result['seed']}" if many else ""
    console.print(f"The model is in {out}{kept}. Next:", markup=False)
    console.print(f"  plm predict {out} new.tsv --out answers.tsv", markup=False)


def doubts(result: dict[str, Any]) -> Iterator[str]:
    """What a reader of a fine-tuning's scores might overlook."""
    if not result["spread"]:
        yield "Without --dev or --test nothing was measured: `plm evaluate` scores the model on unseen rows."
    for part, beside in result.get("baseline", {}).items():
        found = result["spread"][part][beside["measure"]]["mean"]
        if found >= beside["score"] if beside["measure"] == "mse" else found <= beside["score"]:
            yield (
                f"On {part} the model is no better than {beside['answer']}: "
                "try more epochs, another rate (--set task.rate=...) or a model that was pretrained for longer."
            )


def scores(found: dict[str, Any]) -> None:
    table = Table(box=None, show_header=False)
    for name, value in found.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            table.add_row(name, f"{value:.4f}" if isinstance(value, float) else f"{value:,}")
    console.print(table)
    if "reading" in found:
        console.print(f"Read with {found['reading']}.", markup=False)
    if "confusion" in found:
        grid = Table("true \\ predicted", *map(escape, found["classes"]), box=None)
        for name, row in zip(found["classes"], found["confusion"], strict=True):
            grid.add_row(Text(name), *map(str, row))
        console.print(grid)


def answers(told: dict[str, Any]) -> None:
    console.print("[bold]The first prompt[/]")
    console.print(Text(told["prompt"]))
    console.print(Text(f"{told['answers'][0]}    (expected: {told['expected'][0]})\n", style="bold"))
    table = Table(box=None, show_header=False)
    table.add_row("task", f"{told['kind']}, {told['shots']} shots, {told['rows']:,} rows")
    for name, value in told.items():
        if isinstance(value, float):
            table.add_row(name, f"{value:.4f}")
    console.print(table)


def blanks(found: list[list[Candidate]]) -> None:
    for number, candidates in enumerate(found, start=1):
        table = Table(f"blank {number}", "probability", "text", box=None)
        for candidate in candidates:
            table.add_row(Text(candidate.token), f"{candidate.probability:.4f}", Text(candidate.text))
        console.print(table)


def demo(told: dict[str, Any]) -> None:
    work = told["pretraining"]
    console.print(
        f"\n[bold]Loss on masked words[/] over {work['tokens']:,} tokens, in {work['seconds'] / 60:.1f} minutes"
    )
    for line in curve(told["losses"]):
        console.print(Text(line, style="cyan"))
    console.print(
        f"\n[bold]Which of {told['labels']} parts of the library does a passage document?[/] "
        f"Accuracy on unseen passages, learnt from {told['train_rows']:,} labelled ones"
    )
    table = Table(box=None, show_header=False)
    for name, score in (
        ("pretrained, then fine-tuned", told["pretrained"]),
        ("the same network from random weights", told["scratch"]),
        ("TF-IDF and a linear model", told["linear"]),
        ("always the commonest answer", told["commonest"]),
    ):
        table.add_row(name, f"{score:.3f}", Text("█" * round(40 * score), style="green"))
    console.print(table)
    for other, score in (("random weights", told["scratch"]), ("TF-IDF", told["linear"])):
        margin = told["pretrained"] - score
        verdict = f"wins by {margin:.3f}" if margin > 0 else f"LOSES by {-margin:.3f}"
        console.print(f"Against {other}, pretraining [bold]{verdict}[/].")
    console.print("\n[bold]Blanks[/], filled by the pretrained model, and by an untrained one")
    for blank in told["blanks"]:
        console.print(Text(f"  {blank['text']}"))
        best = "    " + "  ".join(f"{token} {value:.0%}" for token, value in blank["answers"])
        random = ", ".join(f"{token} {value:.2%}" for token, value in blank["untrained"])
        console.print(Text(best, style="green").append(f"    untrained: {random}", style="dim"))
    console.print("\n[bold]Neighbours[/]: words whose vectors it moved close together")
    for word, close in told["neighbours"].items():
        console.print(Text(f"  {word:<10}").append(", ".join(close), style="green"))
    console.print(f"\n{told['seconds'] / 60:.1f} minutes in all. Everything is in {told['out']}:", markup=False)
    for name, meaning in told["files"].items():
        console.print(f"  {name}  {meaning}", markup=False)
    console.print("\n[bold]The same with your own files[/]")
    console.print("  plm pretrain bert-mini my_texts/ --out runs/mine --minutes 10")
    console.print("  plm finetune runs/mine --task classify --train train.csv --out runs/mine-labels")
