"""Rows of multiple choice: the texts that are read with every choice, the choices, and the right one."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plmkit.data.reading.cells import count_of, folded, is_blank, is_missing, listed, where
from plmkit.data.reading.columns import Columns, Heading, Say, Search, columns_of
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError, SettingError
from plmkit.language import comma, tr
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import choices_in, chosen_of, words_in

# columns by role, our own names first; then those of RACE, SWAG, HellaSwag, COPA, ARC, CommonsenseQA, PIQA and C3
CONTEXTS = ("context", "article", "passage", "premise", "ctx", "sent1", "startphrase", "goal", "story", "document",
            "sentence", "paragraph", "text", "上下文", "文章", "段落", "材料")  # fmt: skip
QUESTIONS = ("question", "query", "question_stem", "stem", "sent2", "问题", "题目")
LISTS = ("choices", "options", "endings", "candidates", "choice", "answers", "选项")
LABELS = ("label", "answer", "answerkey", "answer_key", "correct_answer", "correct_answer_id", "correct_option",
          "correct", "gold", "标签", "正确答案", "答案")  # fmt: skip
NUMBERED = re.compile(
    r"(?P<stem>choice|option|ending|solution|sol|answer|alternative|选项)?[ _-]?(?P<place>[0-9]|[a-h])"
)
ROLES = ("text", "text_b", "label")  # context and question, choices, and the right one
FROM_ONE = 20  # labelled rows, none of which is 0, that show that choices are counted from 1
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, kw_only=True)
class ChoiceColumns:
    """The columns of a table of choices."""

    texts: tuple[str, ...]  # context, question or both
    choices: tuple[str, ...]  # one with a list, or one for each choice
    label: str | None

    @property
    def stored(self) -> Columns:
        """As a run folder keeps them; of several columns, none needs to be kept."""
        text, choices = (found[0] if len(found) == 1 else None for found in (self.texts, self.choices))
        return Columns(text=text, text_b=choices, label=self.label)

    @property
    def are_ours(self) -> bool:
        ours = {"context", "question"} >= set(self.texts) and self.choices == ("choices",)
        return ours and self.label in (None, "label")

    @property
    def count_from_one(self) -> bool:
        """Whether the label is called an answer, and the choices are numbered from 1: 2 is then the second one."""
        numbers = self.choices[0][-1:] == "1"
        return numbers and self.label is not None and folded(self.label) in LABELS[1:]


def choice_rows(table: Table, search: Search, say: Say, *, labelled: bool) -> tuple[list[Row], Columns]:
    """Rows with `context`, `question` or both, a list of `choices`, and as `label` one of them or its number."""
    columns = columns_in(table, search, labelled=labelled)
    if not (columns.are_ours or search.reported):
        say(
            tr(
                "{path}: reading {texts} as text, and {choices} as choices{label}.",
                path=table.path,
                texts=comma().join(columns.texts),
                choices=comma().join(columns.choices),
                label=tr(", with {label} as the right one", label=columns.label) if columns.label else "",
            )
        )
    places = {name: table.columns.index(name) for name in table.columns}
    read: list[tuple[int, str, Options, object]] = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        place = where(table.path, line)
        texts = [words_in(question_of(cells[places[name]]), name, place) for name in columns.texts]
        options = options_of(
            {name: cells[places[name]] for name in columns.choices}, cells[places[columns.texts[-1]]], place
        )
        label = cells[places[columns.label]] if columns.label else None
        read.append((line, " ".join(filter(str.strip, texts)), options, None if is_missing(label) else label))
    first = first_number(columns, read)
    if first:
        say(
            tr(
                "{path}: choices are counted from 1: {column} is never 0, and as high as there are choices.",
                path=table.path,
                column=columns.label,
            )
        )
    return [
        Row(text=text, choices=options.texts, label=options.chosen(label, first, where(table.path, line)), line=line)
        for line, text, options, label in read
    ], columns.stored


def columns_in(table: Table, search: Search, *, labelled: bool) -> ChoiceColumns:
    heading, named, trained = table.heading, search.named, search.trained
    if unused := [role for role in named.named if role not in ROLES[: 3 if labelled else 2]]:
        raise SettingError(
            tr(
                "--{role} names a column that multiple choice does not read. Use --text for context and question "
                "(a+b reads both), --text-b for the choices, and --label for the right one.",
                role=unused[0].replace("_", "-"),
            )
        )
    choices = (
        asked(heading, named.text_b, "text_b")
        or ((trained.text_b,) if trained.text_b in table.columns else ())
        or columns_of_choices(table)
    )
    texts = (
        asked(heading, named.text, "text")
        or ((trained.text,) if trained.text in table.columns else ())
        or tuple(name for names in (CONTEXTS, QUESTIONS) for name in [usual(table, names, choices)] if name is not None)
    )
    held = [name for name in texts if any(isinstance(cells[table.columns.index(name)], dict) for cells in table.rows)]
    if not texts or not (choices or held):
        raise InputError(
            tr(
                "{path} has the columns {columns}.\n"
                "Multiple choice needs context, question or both, choices (a list, as in JSONL) or one column for each "
                "(choice1, choice2 ...), and label. Others are chosen with --text, --text-b and --label.",
                path=table.path,
                columns=listed(table.columns),
            )
        )
    label = None
    if labelled:
        taken = (*texts, *choices)
        label = (
            heading.exactly(named.label, "label", ROLES)
            if named.label
            else (trained.label if trained.label in table.columns else usual(table, LABELS, taken))
        )
        if label is None:
            raise heading.lacks("label", ROLES)
    return ChoiceColumns(texts=texts, choices=choices or (held[-1],), label=label)


def asked(heading: Heading, name: str | None, role: str) -> tuple[str, ...]:
    """The columns that an option names."""
    parts = columns_of(name, heading.columns) if name else []
    return tuple(heading.exactly(part, role, ROLES) for part in parts)


def usual(table: Table, names: Sequence[str], but: Sequence[str]) -> str | None:
    """The column with the first of these names."""
    found = {folded(column): column for column in table.columns if column not in but}
    return next((found[name] for name in names if name in found), None)


def columns_of_choices(table: Table) -> tuple[str, ...]:
    """The one with lists, or one for each choice: ending0, ending1 ...; A, B ..."""
    for name in LISTS:
        column = usual(table, (name,), ())
        if column is not None and any(has_choices(row[table.columns.index(column)]) for row in table.rows):
            return (column,)
    series: dict[str, dict[str, str]] = {}
    for column in table.columns:
        if match := NUMBERED.fullmatch(folded(column)):
            series.setdefault(match["stem"] or "", {})[match["place"]] = column
    for stem, members in series.items():
        for begin in ("0", "1", "a"):
            found = [members[mark] for mark in map(chr, range(ord(begin), ord(begin) + 9)) if mark in members]
            if len(found) > 1 and begin in members and len(found) == len(members) and (stem or begin == "a"):
                return tuple(found)
    if (column := usual(table, LISTS[:1], ())) is not None:  # its cells are refused with their lines
        return (column,)
    return ()


def has_choices(cell: object) -> bool:
    return isinstance(parsed(cell), list | dict)


def parsed(cell: object) -> object:
    """A list or an object that a table of text has as JSON."""
    if isinstance(cell, str) and cell.strip()[:1] in ("[", "{"):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return cell
    return cell


def question_of(cell: object) -> object:
    """The text of a question, which ARC and CommonsenseQA keep together with its choices."""
    return cell.get("stem", cell.get("text")) if isinstance(cell, dict) else cell


@dataclass(frozen=True, kw_only=True)
class Options:
    """The choices of a row, and what each is called, such as A or 1."""

    texts: tuple[str, ...]
    names: tuple[str, ...] = ()

    def chosen(self, label: object, first: int, place: str) -> str | None:
        """The choice that a label gives by its text, its name, its letter or its number; None: it is missing."""
        written = str(label).strip() if isinstance(label, str | int) and not isinstance(label, bool) else None
        if label is None or label == "":
            return None
        if written is not None and written not in self.texts:
            if written in self.names:
                return self.texts[self.names.index(written)]
            if len(written) == 1 and written.upper() in LETTERS[: len(self.texts)]:
                return self.texts[LETTERS.index(written.upper())]
        if first and (number := number_in(label, self)) is not None:
            label = number - first
        return chosen_of(label, self.texts, place)


def number_in(label: object, options: Options) -> int | None:
    """A label that is a number of a choice, and neither a choice nor the name of one."""
    written = str(label).strip()
    if isinstance(label, bool) or label in options.texts or written in options.names:
        return None
    return count_of(written)


def options_of(cells: Mapping[str, object], question: object, place: str) -> Options:
    """From one cell with a list, or with texts and their names, or from one cell for each choice."""
    if len(cells) > 1:
        texts = [words_in(cell, name, place) for name, cell in cells.items()]
        while texts and is_blank(texts[-1]):  # a question may have fewer choices than others
            texts.pop()
        return Options(texts=choices_in(texts, place))
    (cell,) = (parsed(one) for one in cells.values())
    if isinstance(question, dict) and isinstance(question.get("choices"), list):
        cell = question["choices"]
    given: object = cell
    names: object = None
    if isinstance(cell, dict):
        given, names = cell.get("text"), cell.get("label")
    elif isinstance(cell, list) and cell and all(isinstance(one, dict) for one in cell):
        given, names = ([one.get(key) for one in cell] for key in ("text", "label"))
    named = isinstance(names, list) and isinstance(given, list) and len(names) == len(given)
    return Options(
        texts=choices_in(given, place), names=tuple(map(str, names)) if named and isinstance(names, list) else ()
    )


def first_number(columns: ChoiceColumns, read: Sequence[tuple[int, str, Options, object]]) -> int:
    """The number of the first choice, 0 or 1: from 1, none is 0 and some are as high as there are choices."""
    numbers = [
        (number, len(options.texts))
        for _, _, options, label in read
        if label is not None and (number := number_in(label, options)) is not None
    ]
    if not numbers or any(number == 0 or number > count for number, count in numbers):
        return 0
    if columns.count_from_one:
        return 1
    return int(len(numbers) >= FROM_ONE and any(number == count for number, count in numbers))
