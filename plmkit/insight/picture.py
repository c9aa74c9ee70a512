"""Attention as a picture for a paper: one head with its tokens, or all heads side by side."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from plmkit.insight.attention import Attended, AttentionPart
from plmkit.insight.page import mix_titles
from plmkit.language import tr
from plmkit.storage.files import new_file, reported_os_errors

CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei", "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "SimHei", "Droid Sans Fallback",
    "Arial Unicode MS",
)  # fmt: skip
Say = Callable[[str], None]


def write_picture(models: Iterable[Attended], out: Path, say: Say, layer: int | None, head: int | None) -> None:
    """A .png, .svg or .pdf file; a character that no font of this machine has is reported."""
    models = list(models)
    if layer is None and head is None and not any(attended.parts for attended in models):
        write_figure(lambda: mixes_figure(models), [*mix_titles().values(), *layer_names(1)], out, say)
        return
    shown = [attended.part for attended in models]
    texts = [token for part in shown for token in (*part.queries, *part.keys)] if named(shown, layer, head) else []
    write_figure(lambda: figure_of(shown, layer, head), texts, out, say)


def write_figure(draw: Callable[[], Any], texts: Iterable[str], out: Path, say: Say) -> None:
    """A figure, drawn with fonts for its texts."""
    from matplotlib import rc_context

    fonts = ["DejaVu Sans", *(font for font in CJK_FONTS if font in installed())]
    if out.suffix != ".svg":  # there, text stays text, in whatever font its reader has
        report_missing(texts, fonts, say)
    with rc_context({"font.family": fonts, "svg.fonttype": "none", "svg.hashsalt": "plmkit"}):
        figure = draw()
        with reported_os_errors(out.parent), new_file(out) as partial, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # reported above, once for all
            figure.savefig(partial, format=out.suffix[1:], dpi=200, bbox_inches="tight")


def figure_of(parts: list[AttentionPart], layer: int | None, head: int | None) -> Any:
    """Of each model one heat-map with its tokens, or all of its heads without them."""
    from matplotlib.figure import Figure

    single = named(parts, layer, head)
    figure = Figure(figsize=(0, 0))
    sizes = [heat_map_size(part) if single else (0.62 * part.heads + 0.4, 0.62 * part.layers + 0.4) for part in parts]
    figure.set_size_inches(sum(width for width, _ in sizes) + 0.3 * len(sizes), max(height for _, height in sizes))
    frames = figure.subfigures(1, len(parts), width_ratios=[width for width, _ in sizes], squeeze=False)[0]
    for frame, part in zip(frames, parts, strict=True):
        if single:
            draw_heat_map(frame, part, layer, head)
        else:
            draw_grid(frame, part)
    return figure


def mixes_figure(models: Sequence[Attended]) -> Any:
    """A bar for each layer in every mix, as a task on features of ELMo has them."""
    from matplotlib.figure import Figure

    mixes = [(attended, place, shares) for attended in models for place, shares in attended.mix.items()]
    figure = Figure(figsize=(3.6 * len(mixes), 2.0), layout="constrained")
    for axes, (attended, place, shares) in zip(figure.subplots(1, len(mixes), squeeze=False)[0], mixes, strict=True):
        axes.barh(layer_names(len(shares)), shares)
        axes.invert_yaxis()
        axes.set_title(mix_titles()[place], fontsize=9)
        if len(models) > 1:
            axes.set_ylabel(Path(attended.model).name)
    return figure


def layer_names(count: int) -> list[str]:
    return [tr("words alone"), *(tr("layer {layer}", layer=layer) for layer in range(1, count))]


def named(parts: list[AttentionPart], layer: int | None, head: int | None) -> bool:
    """Whether tokens are shown: if a head or layer is chosen, or texts are aligned."""
    return layer is not None or head is not None or any(part.kind == "cross" for part in parts)


def heat_map_size(part: AttentionPart) -> tuple[float, float]:
    """In inches, with a fifth of an inch per token."""
    return 1.0 + 0.2 * len(part.keys), 1.0 + 0.2 * len(part.queries)


def draw_heat_map(figure: Any, part: AttentionPart, layer: int | None, head: int | None) -> None:
    """(queries, keys) weights with their tokens; the columns of recurrent memory end at a line."""
    axes = figure.subplots()
    axes.imshow(part.heat_map(layer, head), cmap="Blues", vmin=0, aspect="equal")
    axes.set_xticks(range(len(part.keys)), plain(part.keys), rotation=90, fontsize=8)
    axes.set_yticks(range(len(part.queries)), plain(part.queries), fontsize=8)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    if part.memory:
        axes.axvline(part.memory - 0.5, color="black", linewidth=0.8)


def draw_grid(figure: Any, part: AttentionPart) -> None:
    """Layers from top to bottom, heads from left to right."""
    axes = figure.subplots(part.layers, part.heads, squeeze=False)
    for row, line in enumerate(axes):
        for column, one in enumerate(line):
            one.imshow(part.weights[row, column], cmap="Blues", vmin=0, aspect="auto")
            one.set(xticks=[], yticks=[])
            if not column:
                one.set_ylabel(str(row + 1), fontsize=8, rotation=0, ha="right", va="center")
            if not row:
                one.set_title(str(column + 1), fontsize=8)
    figure.subplots_adjust(wspace=0.08, hspace=0.08)


def plain(tokens: Iterable[str]) -> list[str]:
    """A dollar sign begins a formula unless it is escaped."""
    return [token.replace("$", r"\$") for token in tokens]


@cache
def installed() -> dict[str, str]:
    """The fonts of this machine by name, with their files."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    # matplotlib keeps a list of fonts and does not look for later ones, such as the one that it is told to install
    for path in set(findSystemFonts()) - {font.fname for font in fontManager.ttflist}:
        with suppress(Exception):  # a font of a kind that it cannot draw, such as coloured emoji
            fontManager.addfont(path)
    return {font.name: font.fname for font in fontManager.ttflist}


def report_missing(tokens: Iterable[str], fonts: list[str], say: Say) -> None:
    from matplotlib.font_manager import get_font

    known = {code for font in fonts for code in get_font(installed()[font]).get_charmap()}
    missing = sorted({character for token in tokens for character in token if ord(character) not in known})
    if missing:
        say(
            tr(
                "! No font that matplotlib finds has {characters}: they are drawn as boxes. Install a font such as "
                "Noto Sans CJK, or write a page: --out page.html",
                characters=" ".join(missing[:10]) + (" …" if len(missing) > 10 else ""),
            )
        )
