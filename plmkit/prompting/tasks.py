"""Tasks for prompting: their kinds, the columns that a kind is recognised by, and the rows of a file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import folded, is_blank, is_missing, shaped, short, where
from plmkit.data.reading.columns import OPTIONS, USUAL, Columns, Heading, Say, Search, ignore, report
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import comma, several, tr
from plmkit.tasks.rows import choices_in, chosen_of, lines_of
from plmkit.tasks.tables import open_table

FIELD = re.compile(r"\{([\w-]+)\}")
ROLES = ("text", "label")
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,4})?")  # en, deu, zh-cn
SQUAD_COLUMNS = ("context", "question", "answer")


@dataclass(frozen=True, kw_only=True)
class PromptKind:
    """A kind of task: its columns, its template, and how its answers are found and scored."""

    name: str
    columns: tuple[str, ...]
    template: str  # the answer is last
    scores: tuple[str, ...]
    chooses: bool = False  # the answer is the most likely of some choices; otherwise it is generated
    tokens: int = 50  # maximum length of a generated answer
    top_k: int | None = None  # top-k sampling of a generated answer; None: greedy decoding
    of_languages: bool = False  # its columns may have the names of languages; of several, the template chooses
    sentences: int | None = None  # number of sentences kept of a generated answer; None: its first line

    @property
    def answer(self) -> str:
        return FIELD.findall(self.template)[-1]


PROMPT_KINDS = {
    kind.name: kind
    for kind in (
        PromptKind(
            name="choose", columns=("question", "choices", "label"), chooses=True, scores=("accuracy",),
            template="{context}\nQuestion: {question}\nAnswer: {answer}",
        ),
        PromptKind(
            name="pair", columns=("text_a", "text_b", "label"), chooses=True, scores=("accuracy", "macro_f1"),
            template="First: {text_a}\nSecond: {text_b}\nLabel: {label}",
        ),
        PromptKind(
            name="classify", columns=("text", "label"), chooses=True, scores=("accuracy", "macro_f1"),
            template="Text: {text}\nLabel: {label}",
        ),
        PromptKind(
            name="answer", columns=("question", "answer"), scores=("exact", "f1"),
            template="{context}\nQuestion: {question}\nAnswer: {answer}",
        ),
        PromptKind(
            name="summarise", columns=("text", "summary"), scores=("rouge_l",),
            template="{text}\nTL;DR: {summary}", tokens=100, top_k=2, sentences=3,  # Radford et al., 2019, 3.6
        ),
        PromptKind(
            name="complete", columns=("text", "completion"), scores=("exact", "f1"), template="{text}{completion}",
        ),
        PromptKind(
            name="translate", columns=("source", "target"), scores=("bleu", "exact"),
            template="{source} = {target}", of_languages=True,  # Radford et al., 2019, 3.7
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PromptTask:
    """Rows of one kind."""

    kind: PromptKind
    rows: list[dict[str, str]]  # with the field of the answer
    choices: list[tuple[str, ...]]  # possible answers of each row; empty where an answer is generated
    labels: frozenset[str]  # as they are in the file
    path: Path


# Kinds


def find_kind(name: str | None, heading: Heading, named: Columns, say: Say) -> tuple[PromptKind, list[str]]:
    """The kind of that name, or the first that fits the columns, and the columns under the names of its fields."""
    own = list(heading.columns)
    if name is not None and name not in PROMPT_KINDS:
        raise SettingError(
            tr(
                "There is no kind of task '{name}'.{hint} Kinds: {kinds}.",
                name=name,
                hint=nearest(name, PROMPT_KINDS),
                kinds=comma().join(PROMPT_KINDS),
            )
        )
    kinds = [
        kind for kind in PROMPT_KINDS.values() if name in (None, kind.name) and named.named.keys() <= set(kind.columns)
    ]
    if not named.named and (name is not None or is_pair_of_languages(own)):
        for kind in kinds:
            if kind.of_languages:
                return kind, own
    if not kinds:
        options = tr(" and ").join(OPTIONS[role] for role in named.named)
        if name is None:
            raise SettingError(tr("No kind of task reads {options}. Leave it out.", options=options))
        raise SettingError(
            tr("Tasks of the kind {name} do not read {options}. Leave it out.", name=name, options=options)
        )
    taken = {role: heading.exactly(column, role, tuple(named.named)) for role, column in named.named.items()}
    for usual in (False, True):
        for kind in kinds:
            known = {role: columns_for(role, heading, taken, usual) for role in kind.columns if role not in taken}
            if all(known.values()):
                if note := report(heading, {role: names for role, names in known.items() if role in USUAL}):
                    say(note)
                return kind, renamed(own, taken | {role: names[0] for role, names in known.items()})
    raise no_kind(name, heading)


def is_pair_of_languages(columns: Sequence[str]) -> bool:
    return len(columns) == 2 and all(map(LANGUAGE.fullmatch, columns))


def columns_for(role: str, heading: Heading, taken: Mapping[str, str], usual: bool) -> list[str]:
    """The columns that may hold a field: those with its name, or also those with other usual names."""
    found = [column for column in heading.columns if column == role or (usual and folded(column) == role)]
    if usual and role in USUAL:
        found = heading.usual(role)
    return [column for column in found if column not in taken.values()]


def renamed(columns: list[str], fields: Mapping[str, str]) -> list[str]:
    """Columns under the names of their fields; another column that has such a name is renamed."""
    names = {column: field for field, column in fields.items()}
    return [
        names.get(column, tr("other {column}", column=column) if column in fields else column) for column in columns
    ]


def no_kind(name: str | None, heading: Heading) -> InputError:
    """The columns do not match any kind of task, or not the given one."""
    own = comma().join(map(short, heading.columns))
    advice = heading.advice(ROLES)
    if not heading.header:  # no names by which to recognise the kind
        options = [f"{OPTIONS[role]} {column}" for role, column in shaped(heading.rows, ROLES).items()]
        advice = tr("Name the columns, for example: {options}", options=" ".join(options))
    if name is None:
        known = tr("; ").join(
            tr("{name}: {columns}", name=kind.name, columns=comma().join(kind.columns))
            for kind in PROMPT_KINDS.values()
        )
        advice = advice or tr(
            "Tasks have: {known}. Or pass --kind, or name the columns with --text and --label.", known=known
        )
        return InputError(
            tr(
                "{name} has the columns {own}, which do not match any task.\n{advice}",
                name=heading.name,
                own=own,
                advice=advice,
            )
        )
    missing = [role for role in PROMPT_KINDS[name].columns if not columns_for(role, heading, {}, usual=True)]
    more = f"\n{advice}" if advice else ""
    return InputError(
        tr(
            "{name} has no column {missing}, which the kind {kind} needs; it has {own}.{more}",
            name=heading.name,
            missing=comma().join(missing),
            kind=name,
            own=own,
            more=more,
        )
    )


# Rows


def read_tasks(
    path: Path, train: Path | None, kind_name: str | None, words: Mapping[str, str], named: Columns = Columns(),
    say: Say = ignore,
) -> tuple[PromptTask, PromptTask | None]:  # fmt: skip
    """The rows to answer and the rows for demonstrations, with words for labels, each of which must occur."""
    task = read_task(path, kind_name, words, named, say)
    shown = read_task(train, kind_name, words, named, say) if train else None
    if words and task.kind.answer != "label":
        raise SettingError(
            tr(
                "--labels gives words for classes, but {path} is a task of the kind {name}, which has no classes. "
                "Leave it out.",
                path=path,
                name=task.kind.name,
            )
        )
    known = task.labels | (shown.labels if shown else frozenset())
    if missing := [label for label in words if label not in known]:
        some = comma().join(sorted(known)[:10]) + (", ..." if len(known) > 10 else "")
        raise SettingError(
            tr(
                "--labels has a word for {missing}, which is not a label of {path}; it has {some}.{hint}",
                missing=comma().join(missing),
                path=path,
                some=some,
                hint=nearest(missing[0], known),
            )
        )
    return task, shown


def read_task(
    path: Path, kind_name: str | None, words: Mapping[str, str], named: Columns = Columns(), say: Say = ignore
) -> PromptTask:
    """The rows of a file; where no kind is given, it is recognised by the columns."""
    table = open_table(path, Search(named=named), say)
    table = unfolded(table) if "qas" in table.columns else table
    kind, columns = find_kind(kind_name, table.heading, named, say)
    pair = languages(columns, path) if kind.of_languages else {}
    needed = {*kind.columns, kind.answer} - {"choices"} if pair or not kind.of_languages else set[str]()
    rows, choices, left_out = [], [], []
    for line, cells in zip(table.lines, table.rows, strict=True):
        record = dict(zip(columns, cells, strict=True))
        row, given = row_of(record | {name: record[own] for name, own in pair.items()}, kind, where(path, line))
        if any(is_blank(row.get(name, "")) for name in needed):
            left_out.append(line)
        else:
            rows.append(row)
            choices.append(given)
    if not rows:
        raise InputError(
            tr(
                "{path}: none of its {rows} has {needed}.",
                path=path,
                rows=several(len(left_out), "row"),
                needed=tr(" and ").join(sorted(needed)),
            )
        )
    if left_out:
        say(
            tr(
                "! {path}: {rows} without {needed} left out ({lines}).",
                path=path,
                rows=several(len(left_out), "row"),
                needed=tr(" or ").join(sorted(needed)),
                lines=lines_of(left_out, path),
            )
        )
    labels = frozenset(row["label"] for row in rows) if kind.answer == "label" else frozenset()
    if labels:
        rows = [row | {"label": words.get(row["label"], row["label"])} for row in rows]
        choices = [tuple(sorted({row["label"] for row in rows}))] * len(rows)
    return PromptTask(kind=kind, rows=rows, choices=choices, labels=labels, path=path)


def row_of(record: Mapping[str, object], kind: PromptKind, place: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The fields of a row that a template can show, and its choices where it has some."""
    row = {
        name: str(value)
        for name, value in record.items()
        if isinstance(value, str | int | float) and not is_missing(value)
    }
    if isinstance(record.get(kind.answer), list | dict):
        raise InputError(tr("{place}: the {column} is a list or an object, not text.", place=place, column=kind.answer))
    if "choices" not in kind.columns or is_blank(row.get("label", "")):
        return row, ()
    given = choices_in(record["choices"], place)
    return row | {"answer": chosen_of(record["label"], given, place)}, given


def languages(columns: Sequence[str], path: Path) -> dict[str, str]:
    """The columns to translate from and into, where there are exactly two; of more, the template chooses."""
    if {"source", "target"} <= set(columns):
        return {"source": "source", "target": "target"}
    if len(columns) < 2:
        raise InputError(
            tr(
                "{path} has only the column {column}; a translation needs two languages.",
                path=path,
                column=columns[0],
            )
        )
    known = [column for column in columns if LANGUAGE.fullmatch(column)]
    found = known if len(known) == 2 else columns
    return dict(zip(("source", "target"), found, strict=True)) if len(found) == 2 else {}


def unfolded(table: Table) -> Table:
    """One row per question of SQuAD's layout."""
    found = [
        (line, squad_row(dict(zip(table.columns, cells, strict=True)), question, where(table.path, line)))
        for line, cells in zip(table.lines, table.rows, strict=True)
        for question in as_list(cells[table.columns.index("qas")])
    ]
    if not found:
        raise InputError(tr("{path} has no questions: 'qas' is empty in every row.", path=table.path))
    return replace(
        table, columns=SQUAD_COLUMNS, rows=[row for _, row in found], lines=[line for line, _ in found], dialect=None
    )


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def squad_row(record: Mapping[str, Any], question: Any, place: str) -> tuple[str, str, str]:
    """Context, question and answer of a question in SQuAD's layout; an unanswerable one has the answer `unknown`."""
    if not isinstance(question, dict):
        raise InputError(
            tr(
                "{place}: 'qas' holds {found}, not objects with question and answers.",
                place=place,
                found=short(str(question)),
            )
        )
    answer = question.get("answers") or question.get("answer")
    while isinstance(answer, list | dict):  # {"text": ["Rome"], ...}, [{"text": "Rome"}] or ["Rome"]
        answer = answer.get("text") if isinstance(answer, dict) else next(iter(answer), None)
    text = "" if is_missing(answer) else str(answer)
    return str(record.get("context") or ""), str(question.get("question") or ""), text if text.strip() else "unknown"


def check_answers(task: PromptTask, answer: str) -> None:
    """Every row has the column of the answer."""
    if answer not in task.rows[0]:
        raise InputError(
            tr(
                "{path} has no column '{answer}'; it has {columns}.",
                path=task.path,
                answer=answer,
                columns=comma().join(task.rows[0]),
            )
        )
    if empty := sum(not row.get(answer, "").strip() for row in task.rows):
        raise InputError(
            tr(
                "{path}: rows without '{answer}': {empty:,}. Leave them out, or fill them in.",
                path=task.path,
                answer=answer,
                empty=empty,
            )
        )


def read_labels(words: str | None) -> dict[str, str]:
    """`0=bad,1=good` as words by label."""
    pairs = [part.partition("=") for part in (words or "").split(",") if part]
    if any(not mark or not label or not word.strip() for label, mark, word in pairs):
        raise SettingError(
            tr("--labels gives a word for each label, as in 0=bad,1=good; found '{words}'.", words=words)
        )
    return {label.strip(): word.strip() for label, _, word in pairs}
