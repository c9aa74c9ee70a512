"""Verbs that look inside a model: attend."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plmkit.cli.app import LOOK, app
from plmkit.cli.options import Json, ModelDir, Quiet, SeenImage, examples, opened, print_json, screen
from plmkit.errors import SettingError
from plmkit.language import tr

if TYPE_CHECKING:
    from plmkit.insight.attention import Attended

PAGES, PICTURES = (".html",), (".png", ".svg", ".pdf")


@app.command(
    help=tr("Show what a model attends to in a text: a page to explore, or a picture for a paper."),
    epilog=examples(
        'plm attend runs/mine "The cat sat on the [MASK]." --out page.html',
        'plm attend runs/mine "a text" --compare runs/other --out page.html',
        'plm attend runs/mine "a text" --layer 2 --head 1 --out picture.svg',
        'plm attend runs/visual "a red square above a blue circle" --image photo.png --out regions.png',
    ),
    rich_help_panel=LOOK,
)
def attend(
    model: ModelDir,
    text: Annotated[str, typer.Argument(metavar="TEXT", help=tr("The text to read."))],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[SECOND]",
            help=tr("The second text of a pair; a model with recurrent memory reads it with the first in memory."),
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help=tr(
                "What to attribute to the tokens: a class, a token at the [MASK] or the next token (default: the most "
                "likely); for an encoder–decoder, the output text."
            )
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=tr("Output file: .html for a page, .png, .svg or .pdf for a picture. Default: print only.")),
    ] = None,
    image: SeenImage = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="MODEL", help=tr("Compare with this model, on the same text."))
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help=tr("Page: a slider over the checkpoints that the run keeps."))
    ] = False,
    layer: Annotated[
        int | None, typer.Option(help=tr("Picture: this layer, from 1 (default: all; with --head, the last)."))
    ] = None,
    head: Annotated[
        int | None, typer.Option(help=tr("Picture: this head, from 1 (default: all; with --layer, their mean)."))
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show
    from plmkit.data.writing import check_out

    if image is not None:
        ignored = {
            "SECOND": second, "--target": target, "--compare": compare, "--checkpoints": checkpoints or None,
            "--head": head,
        }  # fmt: skip
        if option := next((name for name, value in ignored.items() if value is not None), None):
            raise SettingError(tr("{option} has no effect with --image. Leave one of them out.", option=option))
        attend_to_image(model, text, image, out, layer, as_json, quiet)
        return
    check_out(out, text, tr("pages and pictures"), (*PAGES, *PICTURES))
    is_picture = out is not None and out.suffix in PICTURES
    if not is_picture and (layer is not None or head is not None):
        raise SettingError(tr("--layer and --head are for pictures; a page shows all. Write --out picture.png."))
    if checkpoints and (out is None or is_picture):
        raise SettingError(tr("--checkpoints needs a page with a slider: --out page.html"))
    folders = [folder for folder in (model, compare) if folder is not None]
    found = [looked_at(folder, text, second, target, checkpoints, quiet) for folder in folders]
    if out is not None:
        write_view(found, out, quiet, layer, head)
    if as_json:
        print_json({"models": [as_data(frames[-1]) for frames in found]})
    else:
        for frames in found:
            show.attention(frames[-1], named=len(found) > 1)
    if out is not None:
        screen(quiet).say(tr("Written to {out}.", out=out))


def attend_to_image(
    model: Path, text: str, image: Path, out: Path | None, layer: int | None, as_json: bool, quiet: bool
) -> None:
    """The regions that each token attends to, drawn on the image or as numbers."""
    from plmkit.data.writing import check_out
    from plmkit.insight.looking_at import look_at_image
    from plmkit.insight.regions import write_regions

    check_out(out, str(image), tr("pictures"), PICTURES)
    found = look_at_image(opened(model, quiet), text, image, layer)
    if out is not None:
        write_regions([found], out, screen(quiet).say)
    if as_json:
        print_json(
            {
                "image": found.image, "text": text, "match": None if math.isnan(found.score) else found.score,
                "tokens": list(found.tokens), "attention": found.attention.tolist(),
            }
        )  # fmt: skip
        return
    if not math.isnan(found.score):
        print(tr("Probability that the text describes the image: {share:.1%}.", share=found.score))
    for token, weights in zip(found.tokens, found.attention, strict=True):
        row, column = divmod(int(weights.argmax()), weights.shape[1])
        print(
            tr(
                "{token}: row {row}, column {column} ({share:.0%})",
                token=token,
                row=row + 1,
                column=column + 1,
                share=float(weights.max()),
            )
        )


def write_view(
    found: "Sequence[Sequence[Attended]]", out: Path, quiet: bool, layer: int | None = None, head: int | None = None
) -> None:
    """A page or a picture, by the name of the file."""
    from plmkit.insight.page import page
    from plmkit.insight.picture import write_picture
    from plmkit.storage.files import write_text

    if out.suffix in PICTURES:
        write_picture([frames[-1] for frames in found], out, screen(quiet).say, layer, head)
    else:
        write_text(out, page(found))


def looked_at(
    folder: Path, text: str, second: str | None, target: str | None, checkpoints: bool, quiet: bool
) -> "list[Attended]":
    """What the model attends to, at each of its checkpoints or with its final weights."""
    from dataclasses import replace

    from plmkit.inference.loading import checkpoint_models

    if not checkpoints:
        return [opened(folder, quiet).attend(text, second, target)]
    models = checkpoint_models(folder)
    if len(models) == 1:
        screen(quiet).say(
            tr(
                "! {folder} keeps one checkpoint, so the page has no slider. Train with --set run.kept_checkpoints=20 "
                "and a small run.checkpoint_steps to keep more.",
                folder=folder,
            )
        )
    return [replace(model.attend(text, second, target), step=step) for step, model in models]


def as_data(attended: "Attended") -> dict[str, Any]:
    """Tokens, statistics of every head and attribution; the weights themselves are in the page, or from Python."""
    found = attended.attribution
    return {
        "model": attended.model,
        "tokens": attended.tokens,
        "attention": [
            {
                "kind": part.kind,
                "memory": part.memory,
                "queries": part.queries,
                "keys": part.keys,
                "entropy": part.entropy.tolist(),
                "distance": part.distance.tolist(),
                "diagonal": part.diagonal.tolist(),
            }
            for part in attended.parts
        ],
        "attribution": {"output": found.output, "tokens": found.tokens, "scores": found.scores.tolist()},
        "mix": {place: shares.tolist() for place, shares in attended.mix.items()},
        "replaced": None if attended.replaced is None else attended.replaced.tolist(),
    }
