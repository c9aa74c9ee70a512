"""What `plm distill` prints: teacher, student and the student alone side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from plmkit.cli.next_commands import commands_after_pretraining, next_commands
from plmkit.cli.show import commands, console
from plmkit.distillation.report import title
from plmkit.language import tr
from plmkit.terminal.labels import label
from plmkit.training.run_record import FinetuneRecord, PretrainRecord


def distilled(
    compared: Sequence[Mapping[str, Any]], out: Path, record: PretrainRecord | FinetuneRecord, *, hints: bool
) -> None:
    measure = compared[0]["measure"]
    heading = tr("validation loss") if measure.startswith("valid/") else tr("dev {measure}", measure=label(measure))
    table = Table(box=None, pad_edge=False)
    table.add_column()
    for name in (tr("parameters"), tr("size"), tr("time per text"), heading):
        table.add_column(name, justify="right")
    for one in compared:
        table.add_row(title(one["name"]), f"{one['parameters']:,}", *cells(one))
    console.print(table)
    if hints:
        console.print(tr("The student is in {out}. Next:", out=out), markup=False)
        if isinstance(record, PretrainRecord):
            commands(commands_after_pretraining(out, record))
        else:
            commands(next_commands(out, record))


def cells(one: Mapping[str, Any]) -> tuple[str, str, str]:
    spent, score, deviation = one["milliseconds"], one["score"], one["deviation"]
    shown = "–" if score is None else f"{score:.4f}"
    return (
        f"{one['bytes'] / 1e6:,.1f} MB",
        "–" if spent is None else tr("{milliseconds:.2f} ms", milliseconds=spent),
        f"{shown} ± {deviation:.4f}" if deviation else shown,
    )
