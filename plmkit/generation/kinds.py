"""The kinds of task that a prompt can put, and which columns of a file they are asked from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from plmkit.data.reading.cells import folded, short
from plmkit.data.reading.columns import OPTIONS, USUAL, Columns, Heading, Say, told
from plmkit.data.reading.headers import shaped
from plmkit.errors import InputError, SettingError, nearest

FIELD = re.compile(r"\{([\w-]+)\}")
ROLES = ("text", "label")
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,4})?")  # en, deu, zh-cn


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of task: the columns it is known by, how a row is shown, and how its answer is found."""

    name: str
    columns: tuple[str, ...]
    template: str  # the answer stands last
    scores: tuple[str, ...]
    listed: bool = False  # the answer is one of some, told by likelihood; otherwise it is written
    tokens: int = 50  # of a written answer, at most
    top_k: int | None = None  # draw a written answer from so many of the likeliest tokens; None: take the likeliest
    sentences: int | None = None  # keep so many of a written answer; None: its first line

    @property
    def answer(self) -> str:
        return FIELD.findall(self.template)[-1]


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="choose", columns=("question", "choices", "label"), listed=True, scores=("accuracy",),
            template="{context}\nQuestion: {question}\nAnswer: {answer}",
        ),
        Kind(
            name="pair", columns=("text_a", "text_b", "label"), listed=True, scores=("accuracy", "macro_f1"),
            template="First: {text_a}\nSecond: {text_b}\nLabel: {label}",
        ),
        Kind(
            name="classify", columns=("text", "label"), listed=True, scores=("accuracy", "macro_f1"),
            template="Text: {text}\nLabel: {label}",
        ),
        Kind(
            name="answer", columns=("question", "answer"), scores=("exact", "f1"),
            template="{context}\nQuestion: {question}\nAnswer: {answer}",
        ),
        Kind(
            name="summarise", columns=("text", "summary"), scores=("rouge_l",),
            template="{text}\nTL;DR: {summary}", tokens=100, top_k=2, sentences=3,  # Radford et al., 2019, 3.6
        ),
        Kind(name="complete", columns=("text", "completion"), scores=("exact", "f1"), template="{text}{completion}"),
        Kind(
            name="translate", columns=("source", "target"), scores=("bleu", "exact"),
            template="{source} = {target}",  # Radford et al., 2019, 3.7
        ),
    )
}  # fmt: skip


def find_kind(name: str | None, heading: Heading, named: Columns, say: Say) -> tuple[Kind, list[str]]:
    """The kind of that name, or the first that the columns fit, and the columns under the names it has for them."""
    own = list(heading.columns)
    if name is not None and name not in KINDS:
        raise SettingError(f"There is no kind of task '{name}'.{nearest(name, KINDS)} Kinds: {', '.join(KINDS)}.")
    languages = name is None and len(own) == 2 and all(map(LANGUAGE.fullmatch, own))
    if not named.named and (name == "translate" or languages):
        return KINDS["translate"], own
    kinds = [kind for kind in KINDS.values() if name in (None, kind.name) and named.named.keys() <= set(kind.columns)]
    if not kinds:
        options = " and ".join(OPTIONS[role] for role in named.named)
        raise SettingError(f"No kind of task reads {options}; {name or 'all'} would ignore it. Leave it out.")
    taken = {role: heading.exactly(column, role, tuple(named.named)) for role, column in named.named.items()}
    for usual in (False, True):
        for kind in kinds:
            known = {role: options_of(role, heading, taken, usual) for role in kind.columns if role not in taken}
            if all(known.values()):
                if note := told(heading, {role: names for role, names in known.items() if role in USUAL}):
                    say(note)
                return kind, renamed(own, taken | {role: names[0] for role, names in known.items()})
    raise no_kind(name, heading)


def options_of(role: str, heading: Heading, taken: Mapping[str, str], usual: bool) -> list[str]:
    """The columns that may be meant, by the kind's own name for it or also by others."""
    found = [column for column in heading.columns if column == role or (usual and folded(column) == role)]
    if usual and role in USUAL:
        found = heading.usual(role)
    return [column for column in found if column not in taken.values()]


def renamed(columns: list[str], fields: Mapping[str, str]) -> list[str]:
    """Columns under the names of their fields; one that has such a name and is not meant gets another."""
    names = {column: field for field, column in fields.items()}
    return [names.get(column, f"other {column}" if column in fields else column) for column in columns]


def no_kind(name: str | None, heading: Heading) -> InputError:
    """The columns are not those of a task."""
    own = ", ".join(map(short, heading.columns))
    advice = heading.advice(ROLES)
    if not heading.header:  # no names could tell the kind
        options = [f"{OPTIONS[role]} {column}" for role, column in shaped(heading.rows, ROLES).items()]
        advice = f"Say which is which, as in: {' '.join(options)}"
    if name is None:
        known = "; ".join(f"{kind.name}: {', '.join(kind.columns)}" for kind in KINDS.values())
        advice = advice or f"Tasks have: {known}. Or tell --kind, or the columns by --text and --label."
        return InputError(f"{heading.name} has the columns {own}, which are no task.\n{advice}")
    missing = [role for role in KINDS[name].columns if not options_of(role, heading, {}, usual=True)]
    more = f"\n{advice}" if advice else ""
    return InputError(f"{heading.name} has no column {', '.join(missing)}, which '{name}' needs; it has {own}.{more}")
