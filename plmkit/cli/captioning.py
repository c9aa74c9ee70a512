"""The verb that describes images: caption."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import ASK, app
from plmkit.cli.options import Json, ModelDir, Quiet, examples, opened, print_json, screen
from plmkit.cli.seeing import PICTURES
from plmkit.language import tr


@app.command(
    help=tr("Describe images with a captioner, and draw the region of each word."),
    epilog=examples(
        "plm caption runs/captions photo.jpg",
        "plm caption runs/captions photos/*.jpg --beams 5 --json",
        "plm caption runs/captions photo.jpg --attention regions.png",
    ),
    rich_help_panel=ASK,
)
def caption(
    model: ModelDir,
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help=tr("Image files."))],
    beams: Annotated[int, typer.Option(help=tr("Number of beams of beam search; 1 is greedy decoding."))] = 3,
    attention: Annotated[
        Path | None,
        typer.Option(help=tr("Draw what each word attends to: a .png, .svg or .pdf file, one row per image.")),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.data.writing import check_out
    from plmkit.inference.captioning import caption_images
    from plmkit.insight.regions import write_regions

    for path in images:
        check_out(attention, path, tr("pictures"), PICTURES, option="--attention")
    captions = caption_images(opened(model, quiet), images, beams)
    if attention is not None:
        write_regions(captions, attention, screen(quiet).say)
    if as_json:
        shown = [
            {"image": one.image, "caption": one.text, "score": one.score, "tokens": list(one.tokens)}
            for one in captions
        ]  # fmt: skip
        print_json({"captions": shown})
        return
    for one in captions:
        print(f"{one.image}\t{one.text}" if len(captions) > 1 else one.text)
