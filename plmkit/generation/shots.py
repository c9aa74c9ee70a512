"""Tasks as text: rows of a file, the template that shows them, and a prompt with demonstrations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import is_blank, is_missing, short
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import Table, where
from plmkit.errors import InputError, SettingError, nearest, several
from plmkit.generation.kinds import FIELD, LANGUAGE, Kind, find_kind
from plmkit.generation.spelling import can_spell
from plmkit.tasks.columns import open_table
from plmkit.tasks.rows import choices_in, chosen_of, lines_of
from plmkit.tokenizers.tokenizer import Tokenizer

ANSWERED = ("context", "question", "answer")
LINE_ENDS = ("\n", "|", ";", "/", ".")  # the first that a tokenizer can spell ends an answer


@dataclass(frozen=True, kw_only=True)
class Template:
    """How a row is shown; all that stands before the answer is the question."""

    text: str
    answer: str
    line_end: str = "\n"

    def __post_init__(self) -> None:
        fields = FIELD.findall(self.text)
        if self.answer not in fields or fields.index(self.answer) != len(fields) - 1 or not self.text.endswith("}"):
            raise SettingError(
                f"The template must end with {{{self.answer}}}, which the model is to say, and name it once; "
                f"found '{self.text}'."
            )

    def question(self, row: Mapping[str, str]) -> str:
        """Without the space before the answer, which belongs to the answer's first token."""
        before = self.text[: -len(self.answer) - 2]
        lines = [filled(line, row) for line in before.split("\n")]
        return "\n".join(line for line in lines if line is not None).rstrip(" ")

    def demonstration(self, row: Mapping[str, str]) -> str:
        return self.question(row) + self.said(row[self.answer])

    def said(self, answer: str) -> str:
        """The answer as it follows its question."""
        return self.space + answer

    @property
    def space(self) -> str:
        return " " if self.text[: -len(self.answer) - 2].endswith(" ") else ""

    @property
    def neutral(self) -> str:
        """What asks for an answer without a question: `Label:`."""
        return FIELD.split(self.text[: -len(self.answer) - 2])[-1].strip() or "Answer:"


def filled(line: str, row: Mapping[str, str]) -> str | None:
    """A line with its fields; None where it is nothing but a field that this row has not."""
    if (only := FIELD.fullmatch(line)) and not row.get(only[1]):
        return None
    for name in FIELD.findall(line):
        if name not in row:
            raise SettingError(
                f"The template names {{{name}}}, but the rows have {', '.join(row)}.{nearest(name, row)}"
            )
    return FIELD.sub(lambda found: row[found[1]], line)


def prompt_of(template: Template, shots: Sequence[Mapping[str, str]], row: Mapping[str, str]) -> str:
    """Demonstrations, then the question (Brown et al., 2020, 2.4)."""
    between = "\n\n" if template.line_end == "\n" else f" {template.line_end} "
    return between.join([*(template.demonstration(shot) for shot in shots), template.question(row)])


def line_end_of(tokenizer: Tokenizer) -> str:
    """What parts demonstrations and ends an answer: a line break, or a mark where the tokenizer has no line breaks."""
    if (found := next((mark for mark in LINE_ENDS if can_spell(tokenizer, mark)), None)) is None:
        raise InputError(
            f"This model's tokenizer can spell neither a line break nor {' '.join(LINE_ENDS[1:])}, so demonstrations "
            "would run together and answers would not end. Take a model with another tokenizer."
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Task:
    """Rows of one kind."""

    kind: Kind
    rows: list[dict[str, str]]  # the answer's field among them
    choices: list[tuple[str, ...]]  # for each row what may be answered; empty where anything may
    labels: frozenset[str]  # as the file has them
    path: Path


def read_tasks(
    path: Path, train: Path | None, kind_name: str | None, words: Mapping[str, str], named: Columns = Columns(),
    say: Say = ignore,
) -> tuple[Task, Task | None]:  # fmt: skip
    """The rows to ask and those to show, with words for their labels, every one of which must occur."""
    asked = read_task(path, kind_name, words, named, say)
    shown = read_task(train, kind_name, words, named, say) if train else None
    if words and asked.kind.answer != "label":
        raise SettingError(
            f"--labels gives words for classes, but {path} is a task of the kind {asked.kind.name}, which has none. "
            "Leave it out."
        )
    known = asked.labels | (shown.labels if shown else frozenset())
    if missing := [label for label in words if label not in known]:
        some = ", ".join(sorted(known)[:10]) + (", ..." if len(known) > 10 else "")
        raise SettingError(
            f"--labels has a word for {', '.join(missing)}, which is no label of {path}; it has {some}."
            f"{nearest(missing[0], known)}"
        )
    return asked, shown


def read_task(
    path: Path, kind_name: str | None, renamed: Mapping[str, str], named: Columns = Columns(), say: Say = ignore
) -> Task:
    """The rows of a file; its columns tell the kind, where none is named."""
    table = open_table(path, Search(named=named), say)
    table = unfolded(table) if "qas" in table.columns else table
    kind, columns = find_kind(kind_name, table.heading, named, say)
    pair = languages(columns, path) if kind.name == "translate" else {}
    needed = {*kind.columns, kind.answer} - {"choices"} if pair or kind.name != "translate" else set[str]()
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
        raise InputError(f"{path}: none of its {several(len(left_out), 'row')} has {' and '.join(sorted(needed))}.")
    if left_out:
        what = f"{several(len(left_out), 'row')} without {' or '.join(sorted(needed))} left out"
        say(f"! {path}: {what} ({lines_of(left_out, path)}).")
    labels = frozenset(row["label"] for row in rows) if kind.answer == "label" else frozenset()
    if labels:
        rows = [row | {"label": renamed.get(row["label"], row["label"])} for row in rows]
        choices = [tuple(sorted({row["label"] for row in rows}))] * len(rows)
    return Task(kind=kind, rows=rows, choices=choices, labels=labels, path=path)


def row_of(record: Mapping[str, object], kind: Kind, place: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What can be shown of a row, and what may be answered where the row says so."""
    row = {
        name: str(value)
        for name, value in record.items()
        if isinstance(value, str | int | float) and not is_missing(value)
    }
    if isinstance(record.get(kind.answer), list | dict):
        raise InputError(f"{place}: the {kind.answer} is a list or an object, not text.")
    if kind.name != "choose" or is_blank(row.get("label", "")):
        return row, ()
    given = choices_in(record["choices"], place)
    return row | {"answer": chosen_of(record["label"], given, place)}, given


def unfolded(table: Table) -> Table:
    """A row for each question of SQuAD's layout."""
    found = [
        (line, answered(dict(zip(table.columns, cells, strict=True)), question, where(table.path, line)))
        for line, cells in zip(table.lines, table.rows, strict=True)
        for question in listed(cells[table.columns.index("qas")])
    ]
    if not found:
        raise InputError(f"{table.path} has no questions: 'qas' is empty in every row.")
    return replace(
        table, columns=ANSWERED, rows=[answer for _, answer in found], lines=[line for line, _ in found], dialect=None
    )


def languages(columns: Sequence[str], path: Path) -> dict[str, str]:
    """The columns to translate from and into, where there are just two; of more, the template chooses."""
    if {"source", "target"} <= set(columns):
        return {"source": "source", "target": "target"}
    if len(columns) < 2:
        raise InputError(f"{path} has the column {columns[0]} only; a translation needs two languages.")
    known = [column for column in columns if LANGUAGE.fullmatch(column)]
    found = known if len(known) == 2 else columns
    return dict(zip(("source", "target"), found, strict=True)) if len(found) == 2 else {}


def check_answers(task: Task, answer: str) -> None:
    """Every row has the column that the template asks for."""
    if answer not in task.rows[0]:
        raise InputError(f"{task.path} has no column '{answer}'; it has {', '.join(task.rows[0])}.")
    if empty := sum(not row.get(answer, "").strip() for row in task.rows):
        raise InputError(f"{task.path}: rows without '{answer}': {empty:,}. Leave them out, or fill them in.")


def template_of(task: Task, text: str | None, line_end: str) -> Template:
    """The kind's own template, or the one that is told, which may choose two of several languages: `{en} = {fr}`."""
    answer, columns = task.kind.answer, task.rows[0]
    if text is not None and task.kind.name == "translate":
        last = FIELD.findall(text)[-1:]
        answer = last[0] if last and last[0] in columns else answer
    if answer not in columns:
        raise SettingError(
            f"{task.path} has the columns {', '.join(columns)}; a translation is from one language into another.\n"
            "Choose two with a template, the answer last, such as --template "
            f"'{' = '.join(f'{{{name}}}' for name in list(columns)[:2])}'."
        )
    return Template(text=text or task.kind.template, answer=answer, line_end=line_end)


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def answered(record: Mapping[str, Any], question: Any, place: str) -> tuple[str, str, str]:
    """Context, question and answer of a question in SQuAD's layout; one without an answer is answered by `unknown`."""
    if not isinstance(question, dict):
        raise InputError(f"{place}: 'qas' holds {short(str(question))}, not objects with question and answers.")
    answer = question.get("answers") or question.get("answer")
    while isinstance(answer, list | dict):  # {"text": ["Rome"], ...}, [{"text": "Rome"}] or ["Rome"]
        answer = answer.get("text") if isinstance(answer, dict) else next(iter(answer), None)
    said = "" if is_missing(answer) else str(answer)
    return str(record.get("context") or ""), str(question.get("question") or ""), said if said.strip() else "unknown"


def read_labels(words: str | None) -> dict[str, str]:
    """`0=bad,1=good` as words by label."""
    pairs = [part.partition("=") for part in (words or "").split(",") if part]
    if any(not mark or not label or not word.strip() for label, mark, word in pairs):
        raise SettingError(f"--labels gives a word for each label, as in 0=bad,1=good; found '{words}'.")
    return {label.strip(): word.strip() for label, _, word in pairs}
