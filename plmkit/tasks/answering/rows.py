"""Rows of questions: a question, a context, and where the answers are in it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plmkit.data.reading.cells import folded, is_blank, is_missing, listed, number_of, short, where
from plmkit.data.reading.columns import OPTIONS, Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError
from plmkit.language import several, tr
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import lines_of, words_in

# by role, as the options that choose other columns have it; our own names first
ROLES = {
    "text_a": ("question", "query", "text_a", "问题", "提问"),
    "text_b": ("context", "passage", "paragraph", "document", "article", "text_b", "text", "content", "上下文", "段落",
               "文章", "文本", "正文"),
    "label": ("answers", "answer", "answer_text", "label", "答案", "回答"),
}  # fmt: skip
STARTS = ("answer_start", "start", "答案位置")  # of the column, and of the key of an answer
NEAR = 20  # characters within which a misplaced answer is looked for
YES = frozenset({"true", "1", "yes", "是"})


@dataclass(frozen=True, kw_only=True)
class Question(Row):
    """`text` is the question, `other` the context, `label` the first answer; "" if the context has none."""

    answers: tuple[str, ...] = ()  # all reference answers
    start: int | None = None  # where the first answer begins, in characters

    @property
    def answerable(self) -> bool:
        return bool(self.answers)


def read_questions(table: Table, search: Search, say: Say, *, labelled: bool) -> tuple[list[Row], Columns]:
    """One row per question; answers that are not where the file says are looked for nearby, and reported."""
    columns = columns_in(table, search, labelled=labelled)
    rows, moved = [], []
    for line, cells in zip(table.lines, table.rows, strict=True):
        record = dict(zip(table.columns, cells, strict=True))
        row, was_moved = question_of(record, columns, line, table, labelled=labelled)
        rows.append(row)
        moved += [row] if was_moved else []
    if moved:
        say(
            tr(
                "! {path}: {answers} not where answer_start says, found nearby or as the only occurrence "
                "({lines}{first}).",
                path=table.path,
                answers=several(len(moved), "answer"),
                lines=lines_of([row.line for row in moved], table.path),
                first=tr("; the first: question {name}", name=moved[0].id)
                if moved[0].id
                else "",  # a file may be a line
            )
        )
    return [*rows], columns


def columns_in(table: Table, search: Search, *, labelled: bool) -> Columns:
    """The columns of question, context and answers: named by the user, known from training, or of a usual name."""
    if table.plain:
        raise InputError(
            tr(
                "{path} is plain text without questions. Ask one about it: --question TEXT; or give a table with the "
                "columns question and context.",
                path=table.path,
            )
        )
    chosen: dict[str, str] = {}
    heading = table.heading
    for role, names in ROLES.items():
        if role == "label" and not labelled:
            continue
        given, known = vars(search.named)[role], vars(search.trained)[role]
        if given is not None:
            chosen[role] = heading.exactly(given, role, tuple(ROLES))
        elif known in table.columns and known not in chosen.values():
            chosen[role] = known
        else:
            usual = sorted(
                (names.index(folded(name)), name)
                for name in table.columns
                if folded(name) in names and name not in chosen.values()
            )
            if not usual:
                raise InputError(
                    tr(
                        "{path} has no column {name}; found {columns}.\n"
                        "Questions need the columns question, context and answers (or answer, with answer_start); "
                        "choose others with {question}, {context} and {answer}.",
                        path=table.path,
                        name=names[0],
                        columns=listed(table.columns),
                        question=OPTIONS["text_a"],
                        context=OPTIONS["text_b"],
                        answer=OPTIONS["label"],
                    )
                )
            chosen[role] = usual[0][1]
    return Columns(**chosen, header=table.header)


def question_of(
    record: Mapping[str, Any], columns: Columns, line: int, table: Table, *, labelled: bool
) -> tuple[Question, bool]:
    """The row, and whether its answer had to be looked for."""
    name = str(record.get("id") or "")
    place = where(table.path, line) + (tr(", question {name}", name=name) if name else "")
    text, context = (
        words_in(record[column], column, place) for column in (columns.text_a, columns.text_b) if column is not None
    )
    check_context(context, place)  # rows without a question are left out with those without text, as in every kind
    if not labelled or columns.label is None:
        return Question(text=text, other=context, id=name, line=line), False
    answers = answers_in(record[columns.label], record, place)
    if answers is None:
        return Question(text=text, other=context, id=name, line=line), False
    texts = tuple(answer for answer, _ in answers)
    start, moved = located(*answers[0], context, place) if answers else (None, False)
    label = texts[0].strip() if texts else ""
    row = Question(text=text, other=context, id=name, answers=texts, start=start, label=label, line=line)
    return row, moved


def check_question(question: str, place: str) -> None:
    if is_blank(question):
        raise InputError(tr("{place}: the question is empty. Write one, or remove the row.", place=place))


def check_context(context: str, place: str) -> None:
    if is_blank(context):
        raise InputError(
            tr("{place}: the question has no context. Write the text that answers it, or remove the row.", place=place)
        )


Answer = tuple[str, int | None]  # its text, and where it begins if that is known


def answers_in(cell: object, record: Mapping[str, Any], place: str) -> list[Answer] | None:
    """The reference answers; none where the context has no answer, None where nobody says."""
    if str(record.get("is_impossible", "")).strip().lower() in YES:
        return []
    cell = parsed(cell)
    starts = next((parsed(record[name]) for name in STARTS if name in record), None)
    if isinstance(found := cell, dict):  # the lists of a `datasets` table
        cell, starts = found.get("text"), next((found[name] for name in STARTS if name in found), None)
    if is_missing(cell) or cell == "":
        return None
    each = cell if isinstance(cell, list) else [cell]
    begins = starts if isinstance(starts, list) else [starts]
    begins = [*begins, *[None] * (len(each) - len(begins))]
    return [answer_of(one, begin, place) for one, begin in zip(each, begins, strict=False)]


def parsed(cell: object) -> Any:
    """A list or an object that a table holds as JSON."""
    if isinstance(cell, str) and cell.strip()[:1] in ("[", "{"):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell


def answer_of(one: object, begin: object, place: str) -> Answer:
    if isinstance(one, Mapping):
        begin = next((one[name] for name in STARTS if name in one), None)
        one = one.get("text")
    if not isinstance(one, str | int | float) or is_blank(str(one)):
        raise InputError(tr("{place}: an answer is empty, or not a text: {found}.", place=place, found=short(str(one))))
    number = None if is_missing(begin) or begin == "" else number_of(str(begin))
    if not (is_missing(begin) or begin == "") and (number is None or not number.is_integer()):
        raise InputError(
            tr("{place}: answer_start must be a whole number; found '{found}'.", place=place, found=short(str(begin)))
        )
    return str(one), None if number is None else int(number)


def located(answer: str, start: int | None, context: str, place: str) -> tuple[int, bool]:
    """Where an answer begins, without the spaces around it, and whether it was elsewhere than its file says."""
    bare = answer.strip()
    if start is not None and not -1 <= start < len(context):  # some files write -1 for unknown
        raise InputError(
            tr(
                "{place}: answer_start is {start}, but the context has {count} characters.",
                place=place,
                start=start,
                count=len(context),
            )
        )
    expected = None if start is None or start < 0 else start + len(answer) - len(answer.lstrip())
    if expected is not None and context.startswith(bare, expected):
        return expected, False
    found = occurrences(bare, context)
    if not found:
        raise InputError(
            tr(
                "{place}: the answer '{answer}' does not occur in its context.\n"
                "Correct it, or remove the question: an answer is a part of the text, letter for letter.",
                place=place,
                answer=short(answer),
            )
        )
    if expected is None:
        return found[0], False
    nearest = min(found, key=lambda other: abs(other - expected))
    if len(found) > 1 and abs(nearest - expected) > NEAR:
        raise InputError(
            tr(
                "{place}: at answer_start {start} the context has '{text}', not '{answer}', which occurs {count} times "
                "elsewhere.\nCorrect answer_start, which counts characters from 0.",
                place=place,
                start=start,
                text=short(context[expected : expected + len(bare)]),
                answer=short(answer),
                count=len(found),
            )
        )
    return nearest, True


def occurrences(answer: str, context: str) -> list[int]:
    found, place = [], context.find(answer)
    while place >= 0:
        found.append(place)
        place = context.find(answer, place + 1)
    return found


def answered(rows: Sequence[Row]) -> list[Question]:
    return [row for row in rows if isinstance(row, Question) and row.answerable]
