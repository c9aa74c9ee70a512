"""The verb that finds texts: search."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plmkit.cli.app import ASK, app
from plmkit.cli.options import (
    CORPUS,
    Features,
    ImageColumn,
    ImageFolder,
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
from plmkit.errors import SettingError
from plmkit.language import tr

if TYPE_CHECKING:
    from plmkit.inference.model import Model


def reads_both(model: "Model") -> bool:
    """Whether it reads text together with images."""
    return model.architecture.reads_images and not model.architecture.describes_images and not model.tasks


@app.command(
    help=tr(
        "Find the texts of a corpus that are nearest to a query, or the images that a text describes.\n\n"
        "Texts are compared by their vectors, which are kept for the next time. A model that reads text with images "
        "(visualbert, vilbert) finds the images of a folder or table that a text describes, or the captions of a table "
        "that describe an image."
    ),
    epilog=examples(
        'plm search runs/mine my_texts/ "a walk along the river"',
        "plm search runs/mine answers.tsv --file questions.txt --top 3 --out found.tsv",
        'plm search runs/mine my_texts/ "the river" --index runs/mine-index --json',
        'plm search runs/visual photos/ "a dog runs on the beach"',
        "plm search runs/visual captions.jsonl photo.jpg --top 5",
    ),
    rich_help_panel=ASK,
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
    image: ImageColumn = None,
    images: ImageFolder = None,
    features: Features = None,
    no_header: NoHeader = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show_words
    from plmkit.data.writing import check_out
    from plmkit.inference import search_files
    from plmkit.inference.search_index import open_index
    from plmkit.vectors.word_vectors import WordVectors, is_static, load_vectors

    check_out(out, str(corpus), tr("found texts"))
    loaded = load_vectors(model) if is_static(model) else opened(model, quiet)
    wanted = search_files.queries_of(queries or [], file, screen(quiet))
    given = {"--image": image, "--images": images, "--features": features}
    if not isinstance(loaded, WordVectors) and reads_both(loaded):
        from plmkit.inference import image_search

        if index is not None or faiss:
            raise SettingError(
                tr("{model} reads each text together with each image: leave out --index and --faiss.", model=model)
            )
        gallery = image_search.open_gallery(
            loaded, corpus, screen(quiet), column=text, header=not no_header, image_column=image,
            images=None if images is None else str(images), features=None if features is None else str(features),
        )  # fmt: skip
        hits = image_search.search_gallery(loaded, gallery, wanted, top, screen(quiet))
        if out:
            image_search.sheet_of(wanted, hits).write(out)
        if as_json:
            print_json(image_search.as_json(wanted, hits))
        elif not out:
            show_words.seen_hits(wanted, hits)
        return
    if option := next((name for name, value in given.items() if value is not None), None):
        raise SettingError(
            tr(
                "{option} is for models that read text with images; {model} reads text. Leave it out.",
                option=option,
                model=model,
            )
        )
    embedder = search_files.embedder_of(loaded, screen(quiet))
    columns = columns_of(text, None, None, None, no_header)
    found = open_index(embedder, corpus, screen(quiet), index, columns).search(wanted, top, faiss=faiss)
    if out:
        search_files.sheet_of(wanted, found).write(out)
    if as_json:
        print_json(search_files.as_json(wanted, found))
    elif not out:
        show_words.hits(wanted, found)
