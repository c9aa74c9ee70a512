"""What `plm` prints for people: tables and short reports on stdout."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from plmkit.cli import show_tasks
from plmkit.cli.next_commands import commands_after_pretraining, next_commands
from plmkit.inference.masked import Candidate
from plmkit.insight.attention import Attended
from plmkit.insight.page import mix_titles, part_title
from plmkit.language import comma, sentences, tr
from plmkit.tasks.contract import Baseline
from plmkit.tasks.floor import Mix
from plmkit.tasks.label_lists import thresholds_line
from plmkit.terminal.labels import label, loss_label
from plmkit.terminal.screen import curve, duration
from plmkit.training.by_corpus import losses_by_corpus
from plmkit.training.run_record import FinetuneRecord, PretrainRecord

UNLIMITED = 10_000  # columns of a screen
console = Console(highlight=False, soft_wrap=True)  # a command that is shown can be copied whole


def pretrained(out: Path, record: PretrainRecord, *, hints: bool = True) -> None:
    result = record.result
    losses = {name.removeprefix("valid/"): value for name, value in result.items() if name.startswith("valid/")}
    valid = comma().join(f"{loss_label(name)} {value:.3f}" for name, value in losses.items())
    work = tr(
        "{steps:,} steps, {tokens:,} tokens, {minutes:.1f} minutes",
        steps=result["steps"],
        tokens=result["tokens"],
        minutes=result["seconds"] / 60,
    )
    console.print(tr("{work}; loss on held-out text: {losses}.", work=work, losses=valid) if valid else f"{work}.")
    if len(by_corpus := losses_by_corpus(result)) > 1:  # the losses of a single one are those above
        console.print(corpora_table(by_corpus))
    forgetting(result)
    if not hints:
        return
    console.print(tr("The model is in {out}. Next:", out=out), markup=False)
    commands(commands_after_pretraining(out, record))


def commands(lines: Sequence[str]) -> None:
    for line in lines:
        console.print(f"  {line}", markup=False)


def corpora_table(by_corpus: Mapping[str, Mapping[str, float]]) -> Table:
    """A row per corpus; if that is too wide for the screen, a row per loss."""
    losses = list(dict.fromkeys(name for found in by_corpus.values() for name in found))
    value = lambda corpus, name: f"{by_corpus[corpus][name]:.3f}" if name in by_corpus[corpus] else ""  # noqa: E731
    named = {name: Text(loss_label(name)) for name in losses}
    wide, narrow = Table(tr("held-out text of"), box=None), Table(tr("held-out text of"), box=None)
    for name in losses:
        wide.add_column(named[name])
        narrow.add_row(named[name], *(value(corpus, name) for corpus in by_corpus))
    for column, corpus in enumerate(by_corpus, start=1):
        narrow.columns[column].header = Text(corpus)
        narrow.columns[column].overflow = "fold"
        wide.add_row(Text(corpus), *(value(corpus, name) for name in losses))
    asked = console.measure(wide, options=console.options.update(max_width=UNLIMITED)).maximum
    return wide if asked <= console.width else narrow


def forgetting(result: dict[str, Any]) -> None:
    """What a second stage changed of the language of the model it started from."""
    for name, before in result.items():
        own = name.removeprefix("before/")
        if own != name and own.startswith("text/") and (after := result.get(f"valid/{own}")) is not None:
            console.print(
                tr(
                    "Language ({name} on held-out text): {before:.3f} before, {after:.3f} after, {change:+.3f}.",
                    name=label(own.removeprefix("text/")).replace("_", " "),
                    before=before,
                    after=after,
                    change=after - before,
                )
            )


def searched(found: dict[str, Any]) -> None:
    """A table of the trials of `--search`."""
    states = {"diverged": tr("diverged"), "untried": tr("not started")}
    scored = f"{label('dev')} {label(found['measure'])}"
    names = ("", tr("learning rate"), tr("epochs"), tr("length"), scored)
    table = Table(*names, tr("minutes"), box=None)
    for number, one in enumerate(found["trials"], start=1):
        score = states[one["state"]] if one["score"] is None else f"{one['score']:.4f}"
        best = tr("best") if number == found["best"] else str(number)
        minutes = f"{one['seconds'] / 60:.1f}" if one["seconds"] else ""
        table.add_row(best, f"{one['learning_rate']:.2g}", f"{one['epochs']:g}", str(one["length"]), score, minutes)
    console.print(table)


def finetuned(out: Path, record: FinetuneRecord, *, hints: bool = True) -> None:
    result = record.result
    if "search" in result:
        searched(result["search"])
    many = len(result["seeds"]) > 1
    table = Table("", *([tr("mean"), tr("std"), tr("lowest"), tr("highest")] if many else [tr("score")]), box=None)
    for part, scores in result["over_seeds"].items():
        if part == "train":  # for the gaps between it and dev, which a comparison shows
            continue
        for name, values in scores.items():
            cells = [values["mean"], values["std"], values["min"], values["max"]] if many else [values["mean"]]
            table.add_row(f"{label(part)} {measured(name)}", *(f"{cell:.4f}" for cell in cells))
    first = {place: [baseline] for place, baseline in result.get("baseline", {}).items()}
    every = {**first, **result.get("baselines", {})}
    for place, baseline in ((place, one) for place, some in every.items() for one in some):
        part, stem = placed(place)
        table.add_row(
            tr(
                "{part} {measure} of {answer}",
                part=label(part),
                measure=measured(stem + baseline["measure"]),
                answer=escape(Baseline(**baseline).shown),
            ),
            f"{baseline['score']:.4f}",
        )
    linear = result.get("linear", {})
    for task, found in linear.items():
        stem = f"{task}." if len(record.tasks) > 1 else ""
        for part in ("dev", "test"):
            if part in found:
                table.add_row(
                    tr(
                        "{part} {measure} of a linear model over n-grams",
                        part=label(part),
                        measure=measured(stem + found["measure"]),
                    ),
                    f"{found[part]:.4f}",
                )
    if table.row_count:
        console.print(table)
    if "forgetting" in result:
        show_tasks.forgetting(result["seeds"])
    if "comparison" in result:
        show_tasks.comparison(result["comparison"])
    for task, mix in result.get("mix", {}).items():
        stem = tr("{task}: ", task=task) if len(record.tasks) > 1 else ""
        console.print(stem + tr("N-grams: {mix}.", mix=Mix(**mix)), markup=False)
    for task in record.trained_tasks:
        if task.get("chosen"):
            stem = tr("{task}: ", task=task["name"]) if len(record.tasks) > 1 else ""
            line = thresholds_line(dict(zip(task["classes"], task["chosen"], strict=True)))
            console.print(stem + line, markup=False)
    chosen = []
    if "dev" in result:
        epochs = record.task["epochs"]
        chosen.append(tr("Best on dev: epoch {epoch:g} of {epochs:g}.", epoch=result["epoch"], epochs=epochs))
    if "stopped" in result:
        chosen.append(tr("Stopped after epoch {epoch:g}.", epoch=result["stopped"]))
    if record.seconds is not None:
        chosen.append(tr("{time} in total.", time=duration(record.seconds)))
    if hints:
        console.print(sentences(chosen))
    for warning in doubts(result):
        console.print(f"! {warning}", markup=False)
    if not hints:
        return
    kept = tr(", with the weights of seed {seed}", seed=result["seed"]) if many else ""
    console.print(tr("The model is in {out}{kept}. Next:", out=out, kept=kept), markup=False)
    commands(next_commands(out, record))


def placed(place: str) -> tuple[str, str]:
    """`dev`, or with several tasks `rte.dev`: the part, and what the names of its scores begin with."""
    *task, part = place.split(".")
    return part, "".join(f"{name}." for name in task)


def measured(name: str) -> str:
    """The name of a score, with that of its task if there are several."""
    *task, measure = name.split(".")
    return " ".join([*task, label(measure)])


def doubts(result: dict[str, Any]) -> Iterator[str]:
    """Warnings about scores that mean little."""
    if not result["over_seeds"].keys() & {"dev", "test"}:
        yield tr("Without --dev or --test nothing was measured: `plm evaluate` scores the model on unseen rows.")
    if "search" in result and "test" not in result:
        yield tr(
            "The dev score is that of the best of several trials, so it is somewhat too good: --test FILE or "
            "`plm evaluate` scores the model on unseen rows."
        )
    linear = {place_of(task, result): task for task in result.get("linear", {}) if is_behind(task, result)}
    for place, baseline in result.get("baseline", {}).items():
        part, stem = placed(place)
        found = result["over_seeds"][part][stem + baseline["measure"]]["mean"]
        if found >= baseline["score"] if baseline["measure"] == "mse" else found <= baseline["score"]:
            both = linear.pop(place, None) is not None
            answer = Baseline(**baseline).shown
            yield tr("{task}: ", task=stem[:-1]) * bool(stem) + tr(
                "On {part} the model is no better than {answer}: try more epochs, another learning rate "
                "(--set task.learning_rate=...) or a model that was pretrained for longer.",
                part=label(part),
                answer=tr("{answer}, nor than the linear model over n-grams", answer=answer) if both else answer,
            )
    for place, task in linear.items():
        yield tr("{task}: ", task=task) * ("." in place) + tr(
            "On dev the model is no better than the linear model over n-grams: try more epochs, "
            "another learning rate (--set task.learning_rate=...) or a model that was pretrained for longer."
        )


def place_of(task: str, result: dict[str, Any]) -> str:
    """The dev part of a task, `dev` or with several tasks `rte.dev`."""
    linear = result["linear"]
    several = len(linear) > 1 or linear[task]["measure"] not in result["over_seeds"].get("dev", {})
    return f"{task}.dev" if several else "dev"


def is_behind(task: str, result: dict[str, Any]) -> bool:
    """Whether the model is no better on dev than the linear model; nothing is better than 1."""
    floor, (_, stem) = result["linear"][task], placed(place_of(task, result))
    if "dev" not in floor:
        return False
    found: float = result["over_seeds"]["dev"][stem + floor["measure"]]["mean"]
    return found <= floor["dev"] and found < 1


def scores(found: dict[str, Any]) -> None:
    table, signatures = Table(box=None, show_header=False), dict[str, str]()
    for name, value in found.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            table.add_row(label(name), f"{value:.4f}" if isinstance(value, float) else f"{value:,}")
        elif isinstance(value, dict) and "signature" in value:
            interval = tr("95% interval {low:.1f} to {high:.1f}", low=value["low"], high=value["high"])
            table.add_row(label(name), f"{value['score']:.1f}", interval)
            signatures[name] = value["signature"]
    console.print(table)
    if ways := {name: value for name, value in found.items() if isinstance(value, dict) and "recall_at_1" in value}:
        console.print(retrieval(ways))
    for name, signature in signatures.items():
        console.print(f"{label(name)}: {signature}", markup=False)
    if "by_length" in found:
        lengths = Table(tr("words of the source"), tr("pairs"), label("bleu"), box=None)
        for part in found["by_length"]:
            span = f"{part['from']}–{part['to']}" if part["to"] else f"{part['from']}+"
            lengths.add_row(span, f"{part['pairs']:,}", f"{part['bleu']:.1f}")
        console.print(lengths)
    if "reading" in found:
        console.print(tr("Context: {reading}.", reading=found["reading"]), markup=False)


def retrieval(ways: Mapping[str, Mapping[str, float]]) -> Table:
    """Recall and ranks, a row for finding images by texts and one for the other way."""
    recalls = [part for part in next(iter(ways.values())) if part.startswith("recall")]
    titles = (label(part).replace("_", " ") for part in recalls)
    table = Table("", *titles, tr("median rank"), tr("candidates"), tr("of them right"), box=None)
    table.columns[0].no_wrap = table.columns[-2].no_wrap = True  # titles of the others may have two lines
    for column in table.columns[1:]:
        column.justify = "right"
    for name, way in ways.items():
        counted = (way["median_rank"], round(way["candidates"], 1), round(way["right"], 1))
        shown = [*(f"{way[part]:.1%}" for part in recalls), *(f"{count:g}" for count in counted)]
        table.add_row(label(name).replace("_", " "), *shown)
    return table


def attention(found: Attended, *, named: bool = False) -> None:
    """For every layer, the means over its heads; then what the output depends on most."""
    if named:
        console.print(Text(found.model, style="bold"))
    for part in found.parts:
        titles = tr("layer"), tr("entropy (bits)"), tr("distance (tokens)"), tr("diagonal")
        table = Table(*titles, box=None, title=part_title(part, found.parts), title_justify="left", title_style="bold")
        for layer, means in enumerate(zip(part.entropy, part.distance, part.diagonal, strict=True), start=1):
            entropy, distance, diagonal = (float(values.mean()) for values in means)
            table.add_row(str(layer), f"{entropy:.2f}", f"{distance:.2f}", f"{diagonal:.1%}")
        console.print(table)
    for place, shares in found.mix.items():
        console.print(f"{mix_titles()[place]}: " + " ".join(f"{share:.3f}" for share in shares), markup=False)
    attribution = found.attribution
    order = sorted(range(len(attribution.tokens)), key=lambda place: -abs(attribution.scores[place]))
    most = comma().join(f"{attribution.tokens[place]} ({attribution.scores[place]:+.3g})" for place in order[:5])
    console.print(tr("Output: {output}", output=attribution.output), markup=False)
    console.print(tr("It depends most on: {most}", most=most), markup=False)


def answers(result: dict[str, Any]) -> None:
    console.print(tr("[bold]The first prompt[/]"))
    console.print(Text(result["prompt"]))
    console.print(
        Text(
            tr("{answer}    (expected: {expected})\n", answer=result["answers"][0], expected=result["expected"][0]),
            style="bold",
        )
    )
    table = Table(box=None, show_header=False)
    table.add_row(
        tr("task"),
        tr("{kind}, {shots} shots, {rows:,} rows", kind=result["kind"], shots=result["shots"], rows=result["rows"]),
    )
    for name, value in result.items():
        if isinstance(value, float):
            table.add_row(label(name), f"{value:.4f}")
    console.print(table)


def blanks(found: list[list[Candidate]]) -> None:
    for number, candidates in enumerate(found, start=1):
        table = Table(tr("blank {number}", number=number), tr("probability"), tr("text"), box=None)
        for candidate in candidates:
            table.add_row(Text(candidate.token), f"{candidate.probability:.4f}", Text(candidate.text))
        console.print(table)


def demo(result: dict[str, Any]) -> None:
    work = result["pretraining"]
    console.print(
        tr(
            "\n[bold]Loss on masked tokens[/] over {tokens:,} tokens, in {minutes:.1f} minutes",
            tokens=work["tokens"],
            minutes=work["seconds"] / 60,
        )
    )
    for line in curve(result["losses"]):
        console.print(Text(line, style="cyan"))
    console.print(
        tr(
            "\n[bold]Which of {labels} parts of the library does a passage document?[/] "
            "Accuracy on unseen passages after training on {rows:,} labelled ones",
            labels=result["labels"],
            rows=result["train_rows"],
        )
    )
    table = Table(box=None, show_header=False)
    for name, score in (
        (tr("pretrained, then fine-tuned"), result["pretrained"]),
        (tr("same network, random initial weights"), result["scratch"]),
        (tr("TF-IDF with a linear classifier"), result["linear"]),
        (tr("most frequent label"), result["majority"]),
    ):
        table.add_row(name, f"{score:.3f}", Text("█" * round(40 * score), style="green"))
    console.print(table)
    for other, score in ((tr("random weights"), result["scratch"]), ("TF-IDF", result["linear"])):
        margin = result["pretrained"] - score
        verdict = (
            tr("wins by {margin:.3f}", margin=margin) if margin > 0 else tr("LOSES by {margin:.3f}", margin=-margin)
        )
        console.print(tr("Against {other}, pretraining [bold]{verdict}[/].", other=other, verdict=verdict))
    console.print(tr("\n[bold]Filled blanks[/]: the pretrained model, and an untrained one"))
    for blank in result["blanks"]:
        console.print(Text(f"  {blank['text']}"))
        best = "    " + "  ".join(f"{token} {value:.0%}" for token, value in blank["answers"])
        random = comma().join(f"{token} {value:.2%}" for token, value in blank["untrained"])
        console.print(Text(best, style="green").append(tr("    untrained: {random}", random=random), style="dim"))
    console.print(tr("\n[bold]Nearest neighbours[/] in the token embeddings"))
    for word, close in result["neighbours"].items():
        console.print(Text(f"  {word:<10}").append(comma().join(close), style="green"))
    console.print(
        tr("\n{minutes:.1f} minutes in total. Output in {out}:", minutes=result["seconds"] / 60, out=result["out"]),
        markup=False,
    )
    for name, meaning in result["files"].items():
        console.print(f"  {name}  {meaning}", markup=False)
    console.print(tr("\n[bold]On your own files[/]"))
    console.print("  plm pretrain bert-mini my_texts/ --out runs/mine --minutes 10")
    console.print("  plm finetune runs/mine --task classify --train train.csv --out runs/mine-labels")
