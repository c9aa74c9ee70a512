"""What `plm compress` prints: size, speed and score before and after."""

from typing import Any

from rich.table import Table

from plmkit.cli.show import console
from plmkit.language import tr
from plmkit.terminal.labels import label


def table(found: dict[str, Any]) -> None:
    before, after = found["before"], found["after"]
    measures = found["measures"]
    generates = "loss" in measures.values()
    rows = [
        (tr("size (MB)"), before["size"] / 1e6, after["size"] / 1e6, "{:,.1f}"),
        (tr("tokens/s, one text") if generates else tr("texts/s, one by one"), before["alone"], after["alone"],
         "{:,.1f}"),
        (tr("tokens/s, batches of {before} and {after}", before=before["batch"], after=after["batch"])
         if generates else tr("texts/s, batches of {before} and {after}", before=before["batch"], after=after["batch"]),
         before["together"], after["together"], "{:,.1f}"),
    ]  # fmt: skip
    for name, score in before["scores"].items():
        title = label(measures[name]) if len(measures) == 1 else f"{name}: {label(measures[name])}"
        rows.append((title, score, after["scores"][name], "{:.4f}"))
    made = Table("", tr("before"), tr("after"), tr("change"), box=None)
    for column in made.columns[1:]:
        column.justify = "right"
    for title, one, other, form in rows:
        change = f"{other - one:+.4f}" if form == "{:.4f}" else f"{other / one:.2f}×" if one else ""
        made.add_row(title, form.format(one), form.format(other), change)
    console.print(made)
