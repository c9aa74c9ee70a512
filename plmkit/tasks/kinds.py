"""The kinds of task, and what each needs."""

from dataclasses import dataclass

from plmkit.errors import SettingError, nearest


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of task: what a row is, what is answered, and which score chooses the best epoch."""

    name: str
    summary: str
    paired: bool | None  # two texts a row; None: one or two
    numeric: bool = False  # the answer is a number, not a class
    score: str = "accuracy"
    readings: str = "once"  # a row is read once; "both" orders of its texts; or with "each" of its choices


KINDS = {
    kind.name: kind
    for kind in (
        Kind(name="classify", summary="one text, one class", paired=False),
        Kind(name="pair", summary="two texts, one class", paired=True),
        Kind(
            name="nli",
            summary="premise and hypothesis: contradiction, entailment or neutral",
            paired=True,
        ),
        Kind(name="paraphrase", summary="two texts in both orders, one class", paired=True, readings="both"),
        Kind(
            name="similarity",
            summary="two texts in both orders, a number",
            paired=True,
            numeric=True,
            score="pearson",
            readings="both",
        ),
        Kind(name="choose", summary="a context, a question, and one of several choices", paired=True, readings="each"),
        Kind(name="regress", summary="one or two texts, a number", paired=None, numeric=True, score="pearson"),
    )
}


def find_kind(name: str) -> Kind:
    if name not in KINDS:
        raise SettingError(f"There is no task '{name}'.{nearest(name, KINDS)} Tasks: {', '.join(KINDS)}.")
    return KINDS[name]
