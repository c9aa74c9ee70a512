"""Which columns of a table are read: those that are named, or those with one of the usual names."""

import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from plmkit.data.reading.cells import folded, found, listed, short
from plmkit.data.reading.dialect import Dialect
from plmkit.data.reading.headers import is_data, shaped
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import tr

Say = Callable[[str], None]

# For each role the name we ask for, then those of other people's files; where a file has several, the first is read.
USUAL = {
    "text": (
        "text", "text_a", "sentence", "review", "content", "comment", "document", "body", "article", "passage",
        "paragraph", "context", "abstract", "文本", "内容", "评论", "句子", "正文", "title", "标题",
    ),
    "text_a": (
        "text_a", "sentence1", "premise", "question1", "question", "query", "text1",
        "文本1", "句子1", "前提", "问题1", "问题",
    ),
    "text_b": ("text_b", "sentence2", "hypothesis", "question2", "text2", "文本2", "句子2", "假设", "问题2"),
    "label": (
        "label", "sentiment", "category", "class", "target", "gold", "score", "rating", "similarity",
        "标签", "类别", "情感", "评分", "分数", "相似度",
    ),
}  # fmt: skip
OPTIONS = {role: f"--{role.replace('_', '-')}" for role in USUAL}


def ignore(text: str) -> None:
    """What callers say who have nobody to say it to."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table by what is read from them; without a header they are called 1, 2, 3."""

    text: str | None = None
    text_a: str | None = None
    text_b: str | None = None
    label: str | None = None
    header: bool = True

    @property
    def named(self) -> dict[str, str]:
        """The columns that are not left open, by role."""
        return {role: name for role in USUAL if (name := getattr(self, role)) is not None}


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The columns of a table, and rows below them."""

    name: str  # of the file, as messages have it
    columns: Sequence[str]
    rows: Sequence[Sequence[object]] = ()
    header: bool = True  # False: the columns are numbered
    dialect: Dialect | None = None  # None: not of lines of cells, so that every row names its columns

    def usual(self, role: str) -> list[str]:
        """The columns that may be meant by a role, best first; one with the name we ask for stands alone."""
        names = USUAL[role]
        ours = [column for column in self.columns if column == names[0]]
        ours = ours or [column for column in self.columns if folded(column) == names[0]]
        known = [column for column in self.columns if folded(column) in names]
        return ours or sorted(known, key=lambda column: names.index(folded(column)))

    def guesses(self, roles: Sequence[str], but: Collection[str]) -> dict[str, list[str]]:
        """For each role the columns that may be meant, by their names or, without a header, by their shape."""
        if self.header:
            return {role: [name for name in self.usual(role) if name not in but] for role in roles}
        shapes = shaped(self.rows, roles, but)
        return {role: [shapes[role]] if role in shapes else [] for role in roles}

    def exactly(self, name: str, role: str, roles: Sequence[str]) -> str:
        """The column of that name, or the only one whose name differs in case or width alone."""
        alike = [column for column in self.columns if folded(column) == folded(name)]
        if name in self.columns or len(alike) == 1:
            return name if name in self.columns else alike[0]
        raise InputError(
            tr(
                "{name} has no column '{short}'.{hint} {found}\n",
                name=self.name,
                short=short(name),
                hint=nearest(name, self.columns),
                found=found(self.columns),
            )
            + (self.advice(roles) or tr("Name one of them: {options} COLUMN.", options=OPTIONS[role]))
        )

    def lacks(self, role: str, roles: Sequence[str]) -> InputError:
        """No column is known to be what a role needs."""
        advice, there = self.advice(roles), found(self.columns)
        if len(self.columns) == 1 and self.dialect and not advice:
            there = tr(
                "Its only column is '{short}'. Is the separator right? Tabs separate .tsv.",
                short=short(self.columns[0]),
            )
        usual = tr(
            "Name the right one: {options} COLUMN. Found by themselves: {listed}.",
            options=OPTIONS[role],
            listed=listed(USUAL[role]),
        )
        return InputError(
            tr(
                "{name} has no column {role}. {there}\n{advice}",
                name=self.name,
                role=role,
                there=there,
                advice=advice or usual,
            )
        )

    def advice(self, roles: Sequence[str] = ()) -> str | None:
        """What to do about a first row that looks like the rows below it."""
        if not (self.dialect and self.header and is_data(self.columns, self.rows)):
            return None
        options = [f"{OPTIONS[role]} {place}" for role, place in shaped([self.columns, *self.rows], roles).items()]
        return tr(
            "Its first row looks like data, not like names of columns. If it is, add to your command:\n{value}",
            value=" ".join(["--no-header", *options]),
        )


@dataclass(frozen=True, kw_only=True)
class Search:
    """The columns to look for: those that the user names, and those that a model learnt from, where they are there."""

    named: Columns = Columns()
    learnt: Columns = Columns()
    said: bool = False  # the user has heard which columns were learnt from

    def within(self, heading: Heading, roles: Sequence[str]) -> tuple[Columns, str | None]:
        """The column of each role, and what the user should hear about it."""
        if unused := [role for role in self.named.named if role not in roles]:
            instead = (
                tr("Use {options}.", options=" and ".join(OPTIONS[role] for role in roles))
                if roles
                else tr("Leave it out.")
            )
            raise SettingError(
                tr(
                    "{options} names a column that would not be read for this task. {instead}",
                    options=OPTIONS[unused[0]],
                    instead=instead,
                )
            )
        taken = {role: heading.exactly(name, role, roles) for role, name in self.named.named.items()}
        before = {role: name for role, name in self.learnt.named.items() if role in roles and role not in taken}
        known = {role: [name] for role, name in before.items() if name in heading.columns}
        used = [*taken.values(), *(name for names in known.values() for name in names)]
        known |= heading.guesses([role for role in roles if role not in taken and role not in known], but=used)
        if missing := [role for role in roles if role in known and not known[role]]:
            raise heading.lacks("text_b" if "text_b" in missing else missing[0], roles)  # it is what makes a pair
        taken |= {role: names[0] for role, names in known.items()}
        check(taken, heading)
        news = {role: names for role, names in known.items() if not (self.said and names[0] == before.get(role))}
        return Columns(**taken, header=heading.header), told(heading, news)


def check(taken: dict[str, str], heading: Heading) -> None:
    """No column is read as two things."""
    for role, column in taken.items():
        twin = next(other for other in taken if taken[other] == column)
        if twin != role:
            raise InputError(
                tr(
                    "{name}: column '{short}' cannot be both {twin} and {role}. {found}\n"
                    "Name the right ones: {options} COLUMN {options_2} COLUMN.",
                    name=heading.name,
                    short=short(column),
                    twin=twin,
                    role=role,
                    found=found(heading.columns),
                    options=OPTIONS[twin],
                    options_2=OPTIONS[role],
                )
            )


def told(heading: Heading, known: dict[str, list[str]]) -> str | None:
    """One line on columns that were found under other names than ours, and on how to read others."""
    foreign = {role: names for role, names in known.items() if names[0] != role}
    if not foreign:
        return None
    read = " and ".join(
        tr("column '{short}' as {role}", short=short(names[0]), role=role) for role, names in foreign.items()
    )
    ways = [f"{OPTIONS[role]} {shlex.quote(name)}" for role, names in foreign.items() for name in names[1:]]
    if not heading.header and len(heading.columns) > 1:
        ways = [f"{OPTIONS[role]} COLUMN" for role in foreign]
    return tr("{name}: reading {read}.", name=heading.name, read=read) + (
        tr(" To read another: {ways}.", ways=" or ".join(ways)) if ways else ""
    )
