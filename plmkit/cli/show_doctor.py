"""What `plm doctor` prints: the corpus, and examples as a model reads them."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from plmkit.cli.show import console
from plmkit.data.reading.cells import shown_place
from plmkit.language import comma, several, tr
from plmkit.preparation.doctor import Diagnosis
from plmkit.preparation.preview import predicts_next
from plmkit.recipe import Recipe
from plmkit.terminal.labels import label

HIGHLIGHTS = ("yellow", "cyan")


def diagnosis(found: Diagnosis, recipe: Recipe) -> None:
    bad_files(found.bad_files)
    languages = comma().join(f"{label(name)} {share:.0%}" for name, share in found.languages.items() if share >= 0.005)
    rows = {
        tr("documents"): tr(
            "{documents:,}, {duplicate_share:.1%} of them duplicates",
            documents=found.documents,
            duplicate_share=found.duplicate_share,
        ),
        tr("sentences"): tr("{sentences:,} in {lines}", sentences=found.sentences, lines=several(found.lines, "line")),
        tr("tokens"): tr(
            "{tokens:,}, vocabulary of {vocabulary:,}, {unknown_share:.2%} unknown",
            tokens=found.tokens,
            vocabulary=found.vocabulary,
            unknown_share=found.unknown_share,
        ),
        tr("scripts"): languages or tr("no letters"),
        tr("longest line"): tr(
            "{longest_line:,} characters ({longest_line_at})",
            longest_line=found.longest_line,
            longest_line_at=shown_place(found.longest_line_at),
        ),
        tr("examples"): tr(
            "{examples:,} per epoch for {name}, {tokens_per_example:.0f} tokens each",
            examples=found.examples,
            name=recipe.name,
            tokens_per_example=found.tokens_per_example,
        ),
        tr("held out"): tr(", ").join([several(found.held_out, "document"), several(found.held_out_tokens, "token")]),
    }
    names = {"characters": tr("characters"), "words": tr("words")}
    for unit, own in found.units.items():
        rows[names[unit]] = tr(
            "{vocabulary:,} different, {unknown:.2%} of new text unknown; {limited:.2%} with the {frequent:,} most "
            "frequent",
            vocabulary=own.vocabulary,
            unknown=own.unknown_share,
            limited=own.frequent_unknown_share,
            frequent=own.frequent,
        )
    if len(found.sources) > 1:
        rows[tr("mix by tokens")] = comma().join(f"{name} {share:.1%}" for name, share in found.sources.items())
    if found.mixture:
        rows[tr("read per epoch")] = comma().join(f"{name} {share:.1%}" for name, share in found.mixture.items())
    width = max(map(cell_len, rows))
    for name, value in rows.items():
        paragraph(set_cell_size(name, width + 1), value, "bold", "")
    for warning in found.warnings:
        paragraph("!", warning, "yellow", "yellow")
    examples = zip(found.stages, found.preview, found.hidden, found.streams, found.labels, strict=True)
    for number, (stage, (seen, whole), hidden, stream, labels) in enumerate(examples, start=1):
        print_wrapped(
            tr(
                "\n[bold]example {number}[/]{stage}, input of the model",
                number=number,
                stage=stage_of(recipe, stage),
            )
        )
        print_wrapped(Text(seen))
        if labels:
            print_wrapped(tr("[dim]what is predicted of it ({stream})[/]", stream=escape(stream)))
            print_wrapped(Text(labels))
        if not labels or seen != whole:
            print_wrapped(shown_below(recipe))
            print_wrapped(highlighted(whole, hidden))


def shown_below(recipe: Recipe) -> str:
    """What the second text of an example is."""
    if recipe.architecture.translates:
        return tr("[dim]target[/]")
    return tr("[dim]the next token at each position[/]") if predicts_next(recipe) else tr("[dim]original text[/]")


def print_wrapped(content: Any) -> None:
    """Wrapped between words on a terminal; a pipe gets whole lines."""
    console.print(content, soft_wrap=not console.is_terminal)


def paragraph(name: str, text: str, name_style: str, style: str) -> None:
    """A name with a paragraph to the right of it; in a pipe, one line."""
    row = Table.grid(padding=(0, 1))
    row.add_row(Text(name, style=name_style), Text(text, style=style, overflow="fold"))
    print_wrapped(row if console.is_terminal else Text(f"{name} {text}"))


def bad_files(problems: dict[str, str]) -> None:
    """The problem of each unreadable file, before the report on the others."""
    if not problems:
        return
    message = tr(
        "{files} cannot be read; pretraining refuses the corpus until this is fixed. The report covers the others.",
        files=several(len(problems), "file"),
    )
    paragraph("!", message, "red", "red")
    for problem in problems.values():
        paragraph("-", problem, "red", "red")
    console.print()


def stage_of(recipe: Recipe, stage: int) -> str:
    """` in stage 2 of 3 (33–67% of the run, streams: phrase)`, of a run whose stages choose their streams."""
    chosen = recipe.stages[stage]
    if not chosen.streams or len(recipe.stages) == 1:
        return ""
    return tr(
        " in stage {stage} of {stages} ({begin:.0f}–{end:.0%} of the run, streams: {streams})",
        stage=stage + 1,
        stages=len(recipe.stages),
        begin=100 * (recipe.stages[stage - 1].until if stage else 0.0),
        end=chosen.until,
        streams=comma().join(chosen.streams),
    )


def highlighted(text: str, units: Sequence[tuple[int, int]]) -> Text:
    """The text with each masked unit in one colour, and neighbours in two; a pipe gets plain text."""
    shown = Text(text, style="dim")
    for number, (begin, end) in enumerate(units):
        shown.stylize(f"not dim black on {HIGHLIGHTS[number % len(HIGHLIGHTS)]}", begin, end)
    return shown
