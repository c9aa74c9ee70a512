"""`plm compress`: a smaller or faster folder, and what that costs."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import EXCHANGE, app
from plmkit.cli.options import Json, ModelDir, OutDir, Quiet, examples, print_json, screen
from plmkit.language import tr


@app.command(
    help=tr(
        "Make a model smaller or faster: as an ONNX graph, with 8 bits per weight, or with fewer attention heads.\n\n"
        "Size, speed and score before and after are printed, and nothing is written if the score falls by more than a "
        "margin. `plm predict`, `plm evaluate`, `plm embed` and `plm generate` take the new folder."
    ),
    epilog=examples(
        "plm compress runs/mine-reviews --to int8 --dev dev.tsv --out runs/mine-reviews-int8",
        "plm compress runs/mine --to onnx --out runs/mine-onnx",
        "plm compress runs/mine-reviews --to pruned --heads 0.4 --dev dev.tsv --out runs/mine-reviews-pruned",
        "plm compress runs/gpt --to int8 --dev text.txt --out runs/gpt-int8",
    ),
    rich_help_panel=EXCHANGE,
)
def compress(
    model: ModelDir,
    to: Annotated[
        str,
        typer.Option(
            help=tr(
                "onnx: the same numbers, computed by onnxruntime. int8: a graph with 8 bits per weight. pruned: "
                "without the least important attention heads, as an ordinary folder."
            )
        ),
    ],
    out: OutDir,
    dev: Annotated[
        list[str] | None,
        typer.Option(
            help=tr(
                "Rows by which the score is compared: labelled rows of the task (of several tasks, repeat --dev "
                "NAME=FILE), texts for a model that embeds, plain text for one that generates. Default: the dev file "
                "of the fine-tuning."
            )
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option(help=tr("By how much the score on --dev may fall: 0.01 is one percentage point."))
    ] = 0.01,
    heads: Annotated[float, typer.Option(help=tr("Pruned: share of the attention heads that are left out."))] = 0.25,
    units: Annotated[float, typer.Option(help=tr("Pruned: share of the feed-forward units that are left out."))] = 0.0,
    train: Annotated[
        Path | None,
        typer.Option(
            help=tr("Pruned: labelled rows by which heads are judged. Default: the train file of the fine-tuning.")
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show_compression
    from plmkit.compression.compress import MarginError, Request
    from plmkit.compression.compress import compress as make
    from plmkit.training.threads import Threads

    request = Request(
        model=model, to=to, out=out, dev=tuple(dev or ()), margin=margin, heads=heads, units=units, train=train
    )
    show = print_json if as_json else show_compression.table
    Threads(None, screen(quiet).say)
    try:
        result = make(request, screen(quiet))
    except MarginError as error:
        show(error.result.as_json())
        raise
    show(result.as_json())
