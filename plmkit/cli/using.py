"""Verbs that answer for given texts: predict, fill, embed."""

import os
from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import ASK, app
from plmkit.cli.options import (
    FirstColumn,
    Json,
    ModelDir,
    NoHeader,
    Quiet,
    Rows,
    SecondColumn,
    SeenImage,
    TableOut,
    TaskName,
    TextColumn,
    columns_of,
    examples,
    opened,
    print_json,
    screen,
)
from plmkit.errors import SettingError
from plmkit.language import tr

# compiled for each shape of a batch; the default of 1,024 takes hundreds of MB in a long file, and is no faster
KERNELS = "16"


@app.command(
    help=tr(
        "Predict classes with probabilities, numbers, tags, or answers to questions, for the rows of a file of any "
        "size. A model of several tasks predicts all of them."
    ),
    epilog=examples(
        "plm predict runs/mine-reviews new.txt --out answers.tsv",
        'plm predict runs/mine-reviews "I liked it"',
        'plm predict runs/answers --question "Who built it?" report.txt',
        "grep soup new.txt | plm predict runs/mine-reviews - --json",
    ),
    rich_help_panel=ASK,
)
def predict(
    model: ModelDir,
    file: Rows,
    out: TableOut = None,
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    no_header: NoHeader = False,
    task: TaskName = None,
    question: Annotated[
        str | None,
        typer.Option(help=tr("A question about the text, the .txt file, or each row (question answering).")),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KERNELS)
    from plmkit.tasks.predict import predict_file

    columns = columns_of(text, text_a, text_b, None, no_header)
    predict_file(
        opened(model, quiet), file, out, screen(quiet), as_json=as_json, columns=columns, task=task, question=question
    )


@app.command(
    help=tr("Fill the blanks in a text with a masked language model."),
    epilog=examples(
        'plm fill runs/mine "the capital of France is [MASK]." --top 3',
        'plm fill runs/visual "a [MASK] square above a red circle" --image photo.png',
    ),
    rich_help_panel=ASK,
)
def fill(
    model: ModelDir,
    text: Annotated[str, typer.Argument(metavar="TEXT", help=tr("A text with one or more [MASK]."))],
    top: Annotated[int, typer.Option(min=1, help=tr("Number of candidates per blank."))] = 5,
    image: SeenImage = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show

    blanks = opened(model, quiet).fill(text, top=top, image=image)
    if as_json:
        print_json({"text": text, "blanks": [[vars(candidate) for candidate in blank] for blank in blanks]})
    else:
        show.blanks(blanks)


@app.command(
    help=tr("Embed texts as vectors, as sentence-transformers does."),
    epilog=examples(
        "plm embed runs/mine texts.txt --out vectors.npy",
        "plm embed runs/mine reviews.csv --out vectors.parquet",
        "plm embed runs/elmo texts.txt --level token --layers mean --out words.safetensors",
        'plm embed runs/mine "a text"',
    ),
    rich_help_panel=ASK,
)
def embed(
    model: ModelDir,
    file: Rows,
    out: Annotated[
        Path | None,
        typer.Option(
            help=tr(
                "Output file: .npy or .safetensors for the vectors alone, .parquet or .jsonl for rows and vectors. "
                "Default for a text or stdin: print JSON."
            )
        ),
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            help=tr(
                "sentence: one vector per row, by the pooling of a sentence-transformers folder, otherwise the mean "
                "over all tokens, special tokens included. token: one vector per token, with an index in a .jsonl "
                "file next to --out: the tokens of each row, and where they begin and end in its text."
            )
        ),
    ] = "sentence",
    layers: Annotated[
        str,
        typer.Option(
            help=tr(
                "last: the last layer. mean: the mean of all layers and the word vectors below them, as ELMo's vectors "
                "are often used. all: each of them, with --level token."
            )
        ),
    ] = "last",
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    no_header: NoHeader = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.tasks.tables import is_file
    from plmkit.tasks.use import embed_file
    from plmkit.vectors.word_vectors import is_static, load_vectors

    if out is None and not as_json and is_file(file):
        raise SettingError(tr("--out is missing: name a file for the vectors, as in --out vectors.npy, or add --json."))
    columns = columns_of(text, text_a, text_b, None, no_header)
    loaded = load_vectors(model) if is_static(model) else opened(model, quiet)
    result = embed_file(loaded, file, out, level, screen(quiet), columns, layers)
    if as_json or out is None:
        print_json(result)
