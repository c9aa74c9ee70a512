"""Which columns of a table are read: those that the user names, or those with a usual name."""

import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from plmkit.data.reading.cells import folded, found, is_data, listed, shaped, short
from plmkit.data.reading.dialect import Dialect
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import tr

Say = Callable[[str], None]

# For each role our own name, then those of other people's files; if a file has several, the first is read.
USUAL = {
    "text": (
        "text", "text_a", "sentence", "review", "content", "comment", "document", "body", "article", "passage",
        "paragraph", "context", "abstract", "tweet", "utterance", "message", "review_body", "headline",
        "文本", "内容", "评论", "句子", "正文", "title", "标题",
    ),
    "text_a": (
        "text_a", "sentence1", "premise", "question1", "question", "query", "text1", "sentence_a", "sentence_1",
        "query1", "text_1", "文本1", "句子1", "前提", "问题1", "问题", "查询",
    ),
    "text_b": (
        "text_b", "sentence2", "hypothesis", "question2", "text2", "sentence_b", "sentence_2", "query2", "text_2",
        "文本2", "句子2", "假设", "问题2",
    ),
    "label": (
        "label", "gold_label", "sentiment", "category", "class", "target", "gold", "score", "rating", "similarity",
        "relevance", "polarity", "stars", "topic",
        "标签", "类别", "情感", "评分", "分数", "相似度", "相关性", "labels",
    ),
}  # fmt: skip
# second texts where a task needs pairs, beside a first one; elsewhere these are names of single texts
PARTNERS = ("sentence", "passage", "answer", "response", "candidate", "document", "context", "段落", "答案", "候选")
OPTIONS = {role: f"--{role.replace('_', '-')}" for role in USUAL}
ROLES = ("text",)


def ignore(text: str) -> None:
    """A `Say` that drops the message."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table by role; without a header they are named 1, 2, 3."""

    text: str | None = None
    text_a: str | None = None
    text_b: str | None = None
    label: str | None = None
    header: bool = True

    @property
    def named(self) -> dict[str, str]:
        """The columns that are given, by role."""
        return {role: name for role in USUAL if (name := getattr(self, role)) is not None}


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The columns of a table, and rows below them."""

    name: str  # of the file, as messages show it
    columns: Sequence[str]
    rows: Sequence[Sequence[object]] = ()
    header: bool = True  # False: the columns are numbered
    dialect: Dialect | None = None  # None: not .csv or .tsv; every row names its columns
    options: bool = True  # options of a command choose columns; False: a DataFrame given from Python

    def usual(self, role: str) -> list[str]:
        """The candidate columns of a role, best first; a column with our own name is the only candidate."""
        names = USUAL[role]
        ours = [column for column in self.columns if column == names[0]]
        ours = ours or [column for column in self.columns if folded(column) == names[0]]
        known = [column for column in self.columns if folded(column) in names]
        return ours or sorted(known, key=lambda column: names.index(folded(column)))

    def partners(self) -> list[str]:
        """The candidate columns of a second text that has the name of a single one, best first."""
        known = [column for column in self.columns if folded(column) in PARTNERS]
        return sorted(known, key=lambda column: PARTNERS.index(folded(column)))

    def guesses(self, roles: Sequence[str], but: Collection[str]) -> dict[str, list[str]]:
        """For each role the candidate columns, by name or, without a header, by content."""
        if self.header:
            found = {role: [name for name in self.usual(role) if name not in but] for role in roles}
            if "text_b" in roles and not found["text_b"]:
                taken = {*but, *(names[0] for names in found.values() if names)}
                found["text_b"] = [name for name in self.partners() if name not in taken]
            return found
        shapes = shaped(self.rows, roles, but)
        return {role: [shapes[role]] if role in shapes else [] for role in roles}

    def called(self, name: str) -> str | None:
        """The column of that name, or the only one whose name differs in case or width alone."""
        alike = [column for column in self.columns if folded(column) == folded(name)]
        return name if name in self.columns else alike[0] if len(alike) == 1 else None

    def required(self, name: str, advice: str) -> str:
        """The column that `called` finds; none is an error, with advice how to choose."""
        if (column := self.called(name)) is not None:
            return column
        raise InputError(
            tr(
                "{name} has no column '{column}'.{hint} {found}\n",
                name=self.name,
                column=short(name),
                hint=nearest(name, self.columns),
                found=found(self.columns),
            )
            + advice
        )

    def exactly(self, name: str, role: str, roles: Sequence[str]) -> str:
        """The column of that name, for one of these roles."""
        advice = self.advice(roles) or tr("Choose one of them: {option} COLUMN.", option=OPTIONS[role])
        return self.required(name, advice)

    def lacks(self, role: str, roles: Sequence[str]) -> InputError:
        """No column has a usual name of a role."""
        advice, there = self.advice(roles), found(self.columns)
        if len(self.columns) == 1 and self.dialect and not advice:
            there = tr(
                "Its only column is '{column}'. Is the separator right? .tsv needs tabs.",
                column=short(self.columns[0]),
            )
        names = listed(USUAL[role])
        usual = (
            tr("Choose the right one: {option} COLUMN. Recognised names: {names}.", option=OPTIONS[role], names=names)
            if self.options
            else tr("Rename the right one. Recognised names: {names}.", names=names)
        )
        return InputError(
            tr(
                "{name} has no column {role}. {found}\n{advice}",
                name=self.name,
                role=role,
                found=there,
                advice=advice or usual,
            )
        )

    def advice(self, roles: Sequence[str] = ()) -> str | None:
        """What to do about a first row that looks like the rows below it."""
        if not (self.dialect and self.header and is_data(self.columns, self.rows)):
            return None
        options = [f"{OPTIONS[role]} {place}" for role, place in shaped([self.columns, *self.rows], roles).items()]
        return tr(
            "Its first row looks like data, not like column names. If so, add to your command:\n{options}",
            options=" ".join(["--no-header", *options]),
        )


@dataclass(frozen=True, kw_only=True)
class Search:
    """The columns to look for: those that the user names, and those that a model was trained on, if present."""

    named: Columns = Columns()
    trained: Columns = Columns()
    reported: bool = False  # the user already knows the columns of the training data

    def within(self, heading: Heading, roles: Sequence[str]) -> tuple[Columns, str | None]:
        """The column of each role, and a message on those that were guessed."""
        if unused := [role for role in self.named.named if role not in roles]:
            instead = (
                tr("Use {options}.", options=tr(" and ").join(OPTIONS[role] for role in roles))
                if roles
                else tr("Leave it out.")
            )
            raise SettingError(
                tr(
                    "{option} names a column that this task does not read. {instead}",
                    option=OPTIONS[unused[0]],
                    instead=instead,
                )
            )
        taken = {role: heading.exactly(name, role, roles) for role, name in self.named.named.items()}
        before = {role: name for role, name in self.trained.named.items() if role in roles and role not in taken}
        known = {role: [name] for role, name in before.items() if name in heading.columns}
        used = [*taken.values(), *(name for names in known.values() for name in names)]
        known |= heading.guesses([role for role in roles if role not in taken and role not in known], but=used)
        if missing := [role for role in roles if role in known and not known[role]]:
            raise heading.lacks("text_b" if "text_b" in missing else missing[0], roles)  # it is what makes a pair
        taken |= {role: names[0] for role, names in known.items()}
        check(taken, heading)
        news = {role: names for role, names in known.items() if not (self.reported and names[0] == before.get(role))}
        return Columns(**taken, header=heading.header), report(heading, news)


def check(taken: dict[str, str], heading: Heading) -> None:
    """Reject a column that is read in two roles."""
    for role, column in taken.items():
        twin = next(other for other in taken if taken[other] == column)
        if twin != role:
            raise InputError(
                tr(
                    "{name}: column '{column}' cannot be both {first} and {second}. {found}\n"
                    "Choose the right ones: {first_option} COLUMN {second_option} COLUMN.",
                    name=heading.name,
                    column=short(column),
                    first=twin,
                    second=role,
                    found=found(heading.columns),
                    first_option=OPTIONS[twin],
                    second_option=OPTIONS[role],
                )
            )


def report(heading: Heading, known: dict[str, list[str]]) -> str | None:
    """One line on columns that were found under other names, and on how to read others."""
    foreign = {role: names for role, names in known.items() if names[0] != role}
    if not foreign:
        return None
    (role, first), *others = ((role, short(names[0])) for role, names in foreign.items())
    read = tr("column '{column}' as {role}", column=first, role=role)
    read += "".join(tr(" and column '{column}' as {role}", column=column, role=role) for role, column in others)
    options = [f"{OPTIONS[role]} {shlex.quote(name)}" for role, names in foreign.items() for name in names[1:]]
    if not heading.header and len(heading.columns) > 1:
        options = [f"{OPTIONS[role]} COLUMN" for role in foreign]
    return tr("{name}: reading {read}.", name=heading.name, read=read) + (
        tr(" To read another: {options}.", options=tr(" or ").join(options)) if options else ""
    )


def choose_column(heading: Heading, wanted: str | None) -> tuple[str, list[str]]:
    """The column to read, and other candidates; `a+b` stands for two columns."""
    if wanted is not None:
        chosen, others = [heading.exactly(part, "text", ROLES) for part in columns_of(wanted, heading.columns)], []
    else:
        chosen, *others = candidates(heading)
    if twice := [name for name in chosen if heading.columns.count(name) > 1]:
        raise InputError(
            tr(
                "{name} has two columns named '{column}'. {advice}",
                name=heading.name,
                column=short(twice[0]),
                advice=tr("Rename one."),
            )
        )
    return "+".join(chosen), ["+".join(other) for other in others]


def candidates(heading: Heading) -> list[list[str]]:
    """Columns that may be the text, best first: named `text`, both texts of a pair, of another usual name."""
    single = [[name] for name in heading.guesses(ROLES, but=())["text"]]
    pair = [heading.usual("text_a")[:1], heading.usual("text_b")[:1]]
    if all(pair) and not (single and folded(single[0][0]) == "text"):
        both = [name for names in pair for name in names]
        return [both, *(names for names in single if names[0] not in both)]
    if not single:
        raise heading.lacks("text", ROLES)
    return single


def columns_of(column: str, columns: Sequence[str]) -> list[str]:
    """The columns that a setting names: one, or several joined by `+`."""
    return [column] if column in columns else column.split("+")
