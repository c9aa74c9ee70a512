"""The verb that finds texts: search."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import app
from plmkit.cli.options import (
    CORPUS,
    Json,
    NoHeader,
    Quiet,
    TableOut,
    TextColumn,
    columns_of,
    examples,
    opened,
    print_json,
    screen,
)
from plmkit.language import tr


@app.command(
    help=tr(
        "Find the texts of a corpus whose vectors are nearest to a query's. The vectors are kept for the next time."
    ),
    epilog=examples(
        'plm search runs/mine my_texts/ "a walk along the river"',
        "plm search runs/mine answers.tsv --file questions.txt --top 3 --out found.tsv",
        'plm search runs/mine my_texts/ "the river" --index runs/mine-index --json',
    ),
)
def search(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help=tr(
                "A run folder, a folder of Hugging Face or sentence-transformers, a name on the hub, or word vectors."
            ),
        ),
    ],
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help=tr(
                "{files}. Each row of a table is a text; of plain text each paragraph, or each line without blank "
                "lines.",
                files=CORPUS,
            ),
        ),
    ],
    queries: Annotated[
        list[str] | None, typer.Argument(metavar="QUERY", help=tr("Text to search for; several are answered in order."))
    ] = None,
    file: Annotated[
        str | None, typer.Option(help=tr("A file of queries: one per line of a .txt file, or per row of a table."))
    ] = None,
    top: Annotated[int, typer.Option(min=1, help=tr("Number of texts per query."))] = 10,
    index: Annotated[
        Path | None,
        typer.Option(help=tr("Folder where the vectors of the corpus are kept. Default: the cache of plmkit.")),
    ] = None,
    faiss: Annotated[
        bool,
        typer.Option("--faiss", help=tr("Compare by FAISS (pip install 'plmkit[faiss]'); it finds the same texts.")),
    ] = False,
    out: TableOut = None,
    text: TextColumn = None,
    no_header: NoHeader = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show_words
    from plmkit.data.writing import check_out
    from plmkit.inference import search_files
    from plmkit.inference.search_index import open_index
    from plmkit.vectors.word_vectors import is_static, load_vectors

    check_out(out, str(corpus), "texts")
    wanted = search_files.queries_of(queries or [], file, screen(quiet))
    loaded = load_vectors(model) if is_static(model) else opened(model, quiet)
    embedder = search_files.embedder_of(loaded, screen(quiet))
    columns = columns_of(text, None, None, None, no_header)
    found = open_index(embedder, corpus, screen(quiet), index, columns).search(wanted, top, faiss=faiss)
    if out:
        search_files.sheet_of(wanted, found).write(out)
    if as_json:
        print_json(search_files.as_json(wanted, found))
    elif not out:
        show_words.hits(wanted, found)
