"""What `plm` prints about triples: ranks of what was missing, and what completes one."""

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from plmkit.cli.show import console
from plmkit.inference.completing import Completion, Plausibility
from plmkit.inference.ranking import HITS
from plmkit.language import message, tr, translated

PARTS = {
    "tails": message("tails"),
    "heads": message("heads"),
    "both": message("tails and heads"),
    "relations": message("relations"),
}


def ranks(found: dict[str, Any]) -> None:
    """The scores of each part, filtered; then what is no rank."""
    hits = [tr("Hits@{most}", most=most) for most in HITS]
    table = Table(tr("to predict"), tr("MRR"), *hits, tr("mean rank"), tr("raw MRR"), box=None)
    for part, name in PARTS.items():
        if part in found:
            own = found[part]
            shares = [f"{own[f'hits@{most}']:.1%}" for most in HITS]
            table.add_row(
                translated(name), f"{own['mrr']:.4f}", *shares, f"{own['mean_rank']:.1f}", f"{own['raw_mrr']:.4f}"
            )
    console.print(table)
    for score, said in (
        ("relation_accuracy", tr("Accuracy of relations; of several between two entities, one at most can be right")),
        ("plausibility_accuracy", tr("Accuracy of plausibility, with as many corrupted triples")),
    ):
        if score in found:
            console.print(tr("{name}: {share:.1%}", name=said, share=found[score]), markup=False)
    console.print(
        tr(
            "{triples:,} triples; ranks by {reading}, without {known:,} triples that are known to be true (raw: with "
            "them).",
            triples=found["triples"],
            reading=found["reading"],
            known=found["known"],
        ),
        markup=False,
    )


def completions(found: Sequence[Completion]) -> None:
    table = Table(box=None, show_header=False)
    for one in found:
        own = "" if one.id == one.name else one.id
        table.add_row(
            f"{one.probability:.4f}", escape(one.name), escape(own), tr("known to be true") if one.known else ""
        )
    console.print(table)


def plausibility(found: Plausibility) -> None:
    known = tr(" (known to be true)") if found.known else ""
    console.print(tr("true with probability {share:.4f}{known}", share=found.probability, known=known), markup=False)
