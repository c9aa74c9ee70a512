"""Options that several verbs share, each declared once, and what the verbs make of them."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plmkit.errors import SettingError
from plmkit.language import tr

if TYPE_CHECKING:
    from plmkit.data.reading.columns import Columns
    from plmkit.inference.model import Model
    from plmkit.terminal.screen import Screen


def examples(*commands: str) -> str:
    """The end of a help text, one command on each line."""
    first, *others = commands
    return "\n\n".join(
        [tr("Example: {command}", command=first), *(tr("Or: {command}", command=other) for other in others)]
    )


def recipe_names(typed: str) -> list[str]:
    """For the shell to complete; read, not imported, for torch would take seconds at every Tab."""
    table = (Path(__file__).parent.parent / "catalogue.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "([\w.-]+)": ', table, re.MULTILINE)
    return [name for name in (*names, "skipgram") if name.startswith(typed)]


Json = Annotated[bool, typer.Option("--json", help=tr("Print one JSON object to stdout and nothing else."))]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help=tr("Print warnings only: no messages, no progress."))]
Seed = Annotated[int, typer.Option(help=tr("Random seed."))]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help=tr(
            "Change a setting, for example schedule.learning_rate=1e-3; repeatable. `plm recipes RECIPE` lists them "
            "all."
        ),
    ),
]
CORPUS = tr("Text files (.txt .md .jsonl .csv .tsv .parquet, also .gz and .zst), folders or globs")
TokenizerFile = Annotated[
    Path | None,
    typer.Option(
        help=tr(
            "vocab.txt, tokenizer.json, a folder with either, or a name on the Hugging Face hub. "
            "Default: train one on the corpus."
        )
    ),
]
ModelDir = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help=tr("A run folder, a Hugging Face folder, or a name on the Hugging Face hub.")),
]
OutDir = Annotated[Path, typer.Option(help=tr("Output folder."))]
Rows = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help=tr("TSV, CSV, JSONL, Parquet or text file; - for lines from stdin; or the text itself."),
    ),
]
TableOut = Annotated[
    Path | None, typer.Option(help=tr("Write to this file (.tsv, .csv, .jsonl or .parquet) instead of stdout."))
]


def column_option(name: str, help: str) -> Any:
    return typer.Option(name, metavar="COLUMN", help=help)


TextColumn = Annotated[
    str | None,
    column_option(
        "--text",
        tr("Column with the text. Default: one of the usual names: text, sentence, review, content, 评论..."),
    ),
]
SourceColumn = Annotated[
    str | None,
    column_option(
        "--source",
        tr("Pairs of a source and a target: column with the source. Default: source, src, article, en, 原文..."),
    ),
]
TargetColumn = Annotated[
    str | None,
    column_option(
        "--target",
        tr("Pairs of a source and a target: column with the target. Default: target, tgt, summary, de, 译文..."),
    ),
]
ImageColumn = Annotated[
    str | None,
    column_option(
        "--image",
        tr("Captions: column with the image files. Default: image, file, path, 图片..."),
    ),
]
Features = Annotated[
    Path | None,
    typer.Option(
        "--features",
        metavar="PATH",
        help=tr(
            "Features of image regions in place of pixels: a folder of .npy or .safetensors files, one per image, or a "
            ".safetensors file for all. Default: a column of feature files."
        ),
    ),
]
ImageFolder = Annotated[
    Path | None,
    typer.Option(
        "--images", metavar="FOLDER", help=tr("Captions: folder of the image files. Default: that of the table.")
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="W1,W2,...",
        help=tr("Sampling weights of several corpora, in their order, for example 2,1. Default: by their size."),
    ),
]
NameTables = Annotated[
    list[str] | None,
    typer.Option(
        "--names",
        metavar="FILE",
        help=tr(
            "Triples: table with the ids of entities or relations and their names; repeatable. Default: ids are names."
        ),
    ),
]
FirstColumn = Annotated[
    str | None,
    column_option(
        "--text-a",
        tr("Pairs: column with the first text. Default: text_a, sentence1, premise, question, 句子1..."),
    ),
]
SecondColumn = Annotated[
    str | None,
    column_option(
        "--text-b",
        tr("Pairs: column with the second text. Default: text_b, sentence2, hypothesis, 句子2..."),
    ),
]
LabelColumn = Annotated[
    str | None,
    column_option(
        "--label",
        tr("Column with the label. Default: label, sentiment, category, class, target, score, rating, 标签..."),
    ),
]
TaskName = Annotated[
    str | None, typer.Option("--task", metavar="NAME", help=tr("Only this one, if the model has several tasks."))
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help=tr("The .csv or .tsv file has no header row; its columns are named 1, 2, 3.")),
]
SeenImage = Annotated[
    Path | None,
    typer.Option(
        "--image", metavar="FILE", help=tr("The image that the text describes, or a file with features of its regions.")
    ),
]
NewTokens = Annotated[int, typer.Option(help=tr("Maximum number of new tokens."))]
Beams = Annotated[int | None, typer.Option(help=tr("Beam search with this many beams."))]


def screen(quiet: bool) -> "Screen":
    from plmkit.terminal.screen import Screen

    return Screen(quiet=quiet)


def opened(model: Path, quiet: bool) -> "Model":
    """The model in the folder, computing with as many threads as there are free cores."""
    from plmkit.inference.loading import model_of, read_parts
    from plmkit.training.threads import Threads

    loaded = model_of(read_parts(model, screen(quiet).say, graphs=True))
    Threads(None, screen(quiet).say)
    return loaded


def columns_of(
    text: str | None, text_a: str | None, text_b: str | None, label: str | None, no_header: bool
) -> "Columns":
    from plmkit.data.reading.columns import Columns

    return Columns(text=text, text_a=text_a, text_b=text_b, label=label, header=not no_header)


def print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, ensure_ascii=False))


def weights_of(text: str | None) -> list[float] | None:
    """The numbers of `2,1`."""
    try:
        return None if text is None else [float(part) for part in text.replace("，", ",").split(",")]
    except ValueError:
        raise SettingError(tr("--weights takes a number per corpus, such as 2,1; found '{text}'.", text=text)) from None
