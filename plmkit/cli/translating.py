"""The verb of encoder–decoders: translate."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import ASK, app
from plmkit.cli.options import Json, ModelDir, NoHeader, Quiet, Rows, examples, opened, screen
from plmkit.cli.seeing import PAGES, PICTURES, write_view
from plmkit.errors import SettingError
from plmkit.language import tr


@app.command(
    help=tr("Translate or summarise texts with an encoder–decoder (Transformer, RNN), by beam search."),
    epilog=examples(
        'plm translate runs/en-de "a small dog"',
        "plm translate runs/en-de test.en --out test.hyp.txt",
        "plm translate runs/en-de pairs.tsv --beams 8 --n-best 3 --out best.jsonl",
    ),
    rich_help_panel=ASK,
)
def translate(
    model: ModelDir,
    file: Rows,
    beams: Annotated[int, typer.Option(help=tr("Number of beams; 1 is greedy decoding."))] = 4,
    n_best: Annotated[int, typer.Option("--n-best", help=tr("Number of translations per text."))] = 1,
    length_penalty: Annotated[
        float, typer.Option(help=tr("Length penalty: 0 favours short translations, 1 long ones."))
    ] = 0.6,
    source: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help=tr("Column with the source. Default: source, src, article, en, 原文...")),
    ] = None,
    no_header: NoHeader = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help=tr(
                "Write to this file instead of stdout: .txt for the translations alone; .tsv, .csv, .jsonl, .parquet."
            )
        ),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option(help=tr("Show the alignment of one text with its translation: page.html, picture.png or .svg.")),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.data.writing import check_out
    from plmkit.generation.options import GenerationOptions
    from plmkit.inference.translation_files import translate_file
    from plmkit.tasks.tables import is_file

    options = GenerationOptions(beams=beams, n=n_best, length_penalty=length_penalty)
    if attention is not None:
        check_out(attention, file, tr("pages and pictures"), (*PAGES, *PICTURES), option="--attention")
        if file == "-" or is_file(file):
            raise SettingError(tr("--attention shows one text: give the text itself instead of a file."))
    loaded = opened(model, quiet)
    if attention is not None:
        loaded.attend(file, target=file)  # a model without attention is refused before it translates
    found = translate_file(
        loaded, file, out, options, screen(quiet), as_json=as_json, column=source, header=not no_header
    )
    if attention is not None:
        write_view([[loaded.attend(file, target=found[0][0].text)]], attention, quiet)
        screen(quiet).say(tr("Written to {out}.", out=attention))
