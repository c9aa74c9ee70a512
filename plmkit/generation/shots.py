"""Tasks as text: rows of a file, the template that shows them, and a prompt with demonstrations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmkit.data.reading.whole import read_table, where
from plmkit.errors import InputError, SettingError, nearest
from plmkit.generation.spelling import can_spell
from plmkit.tasks.rows import FIRST, LABEL, SECOND, TEXT
from plmkit.tokenizers.tokenizer import Tokenizer

FIELD = re.compile(r"\{([\w-]+)\}")
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,4})?")  # en, deu, zh-cn
LINE_ENDS = ("\n", "|", ";", "/", ".")  # the first that a tokenizer can spell ends an answer


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
    path: Path, train: Path | None, kind_name: str | None, words: Mapping[str, str]
) -> tuple[Task, Task | None]:
    """The rows to ask and those to show, with words for their labels, every one of which must occur."""
    asked, shown = read_task(path, kind_name, words), read_task(train, kind_name, words) if train else None
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


def read_task(path: Path, kind_name: str | None, renamed: Mapping[str, str]) -> Task:
    """The rows of a file; its columns tell the kind, unless told."""
    table = read_table(path)
    names = known_names(table.columns)
    records = [dict(zip(names, cells, strict=True)) for cells in table.rows]
    if "qas" in table.columns:
        records = [answered(record, question) for record in records for question in listed(record["qas"])]
    columns = tuple(records[0])
    kind = find_kind(kind_name, columns, path, own=columns if "qas" in table.columns else table.columns)
    if kind.name == "translate":
        pair = languages(columns, path)
        records = [record | {name: record[own] for name, own in pair.items()} for record in records]
    rows, choices, labels = [], [], set[str]()
    for number, record in enumerate(records):
        place = where(path, table.lines[number] if len(records) == len(table.lines) else number + 1)
        row = {name: str(value) for name, value in record.items() if isinstance(value, str | int | float)}
        if kind.name == "choose":
            given = tuple(map(str, listed(record["choices"])))
            row["answer"] = chosen(given, record["label"], place)
            choices.append(given)
        if (kind.name != "translate" or pair) and not row.get(kind.answer, "").strip():
            raise InputError(f"{place}: '{kind.answer}' is empty, so there is nothing to compare with.")
        if kind.answer == "label":
            labels.add(row["label"])
            row["label"] = renamed.get(row["label"], row["label"])
        rows.append(row)
    if kind.answer == "label":
        classes = tuple(dict.fromkeys(sorted(row["label"] for row in rows)))
        choices = [classes] * len(rows)
    return Task(kind=kind, rows=rows, choices=choices or [()] * len(rows), labels=frozenset(labels), path=path)


def known_names(columns: Sequence[str]) -> list[str]:
    """The columns under the names that the kinds have for them; other people's files have others."""
    names, pair = list(columns), any(name in columns for name in SECOND)
    aliases = {"text_a": FIRST, "text_b": SECOND} if pair else {"text": (*TEXT, "text_a")}
    for name, others in {**aliases, "label": LABEL}.items():
        found = next((other for other in others if other in names), None)
        if found and name not in names:
            names[names.index(found)] = name
    return names


def find_kind(name: str | None, columns: Sequence[str], path: Path, own: Sequence[str]) -> Kind:
    """The kind of that name, or the one that the columns fit; messages have the file's own names of them."""
    if name is not None and name not in KINDS:
        raise SettingError(f"There is no kind of task '{name}'.{nearest(name, KINDS)} Kinds: {', '.join(KINDS)}.")
    if name == "translate" or (name is None and len(columns) == 2 and all(map(LANGUAGE.fullmatch, columns))):
        return KINDS["translate"]
    if name is None:
        if not (found := fitting(columns)):
            known = "; ".join(f"{kind.name}: {', '.join(kind.columns)}" for kind in KINDS.values())
            raise InputError(
                f"{path} has the columns {', '.join(own)}, which are no task.\nTasks have: {known}. Or tell --kind."
            )
        return found[0]
    if missing := [column for column in KINDS[name].columns if column not in columns]:
        raise InputError(f"{path} has no column {', '.join(missing)}, which '{name}' needs; it has {', '.join(own)}.")
    return KINDS[name]


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


def fitting(columns: Sequence[str]) -> list[Kind]:
    return [kind for kind in KINDS.values() if set(kind.columns) <= set(columns)]


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def answered(record: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    """A question of SQuAD's layout as a row of its own; one without an answer has none to compare with."""
    answers = listed(question.get("answers") or question.get("answer") or [])
    first = answers[0] if answers else ""
    text = first.get("text", "") if isinstance(first, dict) else first
    return {"context": record.get("context", ""), "question": question.get("question", ""), "answer": text or "unknown"}


def chosen(choices: Sequence[str], label: Any, place: str) -> str:
    """The label is the number of a choice, from 0, or the choice itself."""
    if str(label) in choices:
        return str(label)
    if str(label).isdigit() and int(label) < len(choices):
        return choices[int(label)]
    raise InputError(f"{place}: label '{label}' is none of the {len(choices)} choices; it is a number from 0, or one.")


def read_labels(words: str | None) -> dict[str, str]:
    """`0=bad,1=good` as words by label."""
    pairs = [part.partition("=") for part in (words or "").split(",") if part]
    if any(not mark or not label or not word.strip() for label, mark, word in pairs):
        raise SettingError(f"--labels gives a word for each label, as in 0=bad,1=good; found '{words}'.")
    return {label.strip(): word.strip() for label, _, word in pairs}
