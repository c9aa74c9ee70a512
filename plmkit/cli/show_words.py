"""What `plm neighbours`, `plm probe` and `plm search` print."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from rich.table import Table
from rich.text import Text

from plmkit.cli.show import console
from plmkit.data.reading.cells import where
from plmkit.inference.image_search import found_in
from plmkit.inference.matching import CaptionHit, ImageHit
from plmkit.inference.searching import Hit
from plmkit.insight.neighbours import Neighbour
from plmkit.insight.probing import Probed
from plmkit.language import tr
from plmkit.terminal.labels import label
from plmkit.training.run_record import VectorsRecord

BAR = 40  # characters at 100%


def word_vectors(out: Path, record: VectorsRecord, *, hints: bool) -> None:
    result = record.result
    console.print(
        tr(
            "{words:,} words of width {width} in {out}, trained on {tokens:,} words of text in {seconds:.0f} s.",
            words=result["words"],
            width=result["width"],
            out=out,
            tokens=result["tokens"],
            seconds=result["seconds"],
        ),
        markup=False,
    )
    if hints:
        console.print(tr("Next: {command}", command=f"plm neighbours {out} WORD"), markup=False)


def neighbours(found: Mapping[str, Sequence[Neighbour]]) -> None:
    """One column per model."""
    table = Table(*found, box=None)
    for row in zip_longest(*found.values()):
        table.add_row(*(Text("") if one is None else neighbour(one) for one in row))
    console.print(table)


def neighbour(one: Neighbour) -> Text:
    shown = Text(f"{one.cosine:.2f}  {one.word}")
    if one.text is not None:
        shown.append(f"  {one.text}", style="dim")
    return shown


def hits(queries: Sequence[str], found: Sequence[Sequence[Hit]]) -> None:
    """The texts of each query, nearest first, with their cosine and where they are."""
    for query, texts in zip(queries, found, strict=True):
        if len(queries) > 1:
            console.print(Text(query, style="bold"))
        for hit in texts:
            place = str(hit.line) if hit.source is None else where(hit.source, hit.line)
            shown = Text(f"{hit.score:.3f}  {' '.join(hit.text.split())}")
            console.print(shown.append(f"  ({place})", style="dim"))


def seen_hits(queries: Sequence[str], found: Sequence[Sequence[ImageHit | CaptionHit]]) -> None:
    """The images or captions of each query, best first, with the probability that they belong together."""
    for query, hits in zip(queries, found, strict=True):
        if len(queries) > 1:
            console.print(Text(query, style="bold"))
        for hit in hits:
            console.print(Text(f"{hit.score:.3f}  {found_in(hit)}"))


def probed(found: Probed) -> None:
    """A bar per layer, with the baseline beside them."""
    rows = [
        (tr("embeddings") if one.layer == 0 else tr("layer {layer}", layer=one.layer), one.score, one.deviation)
        for one in found.scores
    ]
    without = tr("most frequent tag") if found.metric == "accuracy" else tr("first sense")
    table = Table("", label(found.metric), "±", "", box=None)
    for name, score, deviation in [(without, found.baseline, None), *rows]:
        spread = "" if deviation is None else f"{deviation:.1%}"
        table.add_row(name, f"{score:.1%}", spread, "█" * round(BAR * score))
    console.print(table)
    console.print(
        tr(
            "{train:,} words to train on, {test:,} to test on. ±: standard deviation over resampled test sentences.",
            train=found.train_words,
            test=found.test_words,
        )
    )
