"""A model over the rows of a file: predictions as new columns, block by block in bounded memory."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from plmkit.data.reading.columns import Columns
from plmkit.data.reading.whole import Table
from plmkit.data.writing import TABLES, TextTable, check_out, free, needs_quotes, records_of, table_file, written
from plmkit.errors import InputError, SettingError
from plmkit.inference.model import Model
from plmkit.inference.predicting import predict_rows, tasks_named
from plmkit.inference.reader import Unread
from plmkit.language import comma, several, tr
from plmkit.storage.files import new_file, reported_os_errors
from plmkit.tasks.contract import Prediction, Row, Task
from plmkit.tasks.prediction_source import Source, once, source_of
from plmkit.tasks.use import MANY
from plmkit.terminal.screen import Screen

ANSWER = "prediction"  # the column with the answer itself


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some rows of a table with their predictions, by the name of the task."""

    table: Table
    rows: Mapping[str, Sequence[Row]]  # as the task reads them
    predictions: Mapping[str, Sequence[Prediction]]  # one per row of the table
    cells: Sequence[Sequence[Any]]  # of the new columns
    unread: Mapping[str, Unread]

    def sheet(self) -> Iterator[list[Any]]:
        """The rows with their new cells."""
        return ([*row, *new] for row, new in zip(self.table.rows, self.cells, strict=True))


Take = Callable[[Block], None]


def predict_file(
    model: Model, source: str, out: Path | None, screen: Screen, *, as_json: bool, columns: Columns = Columns(),
    task: str | None = None, question: str | None = None,
) -> None:  # fmt: skip
    """The rows, with the prediction and its probability as new columns, for all tasks of a model or for one.

    With `question`, the rows are texts, or the source is one text, that it is asked about.
    """
    tasks = asked(question, tasks_named(model, task, tr("predict")), model)
    alone = len(tasks) == 1
    check_out(out, source, tr("predictions"), (*TABLES, *(tasks[0].writes if alone else ())))
    found = source_of(source, question, tasks, columns, screen.say)
    watched = found.rows > MANY and (out is not None or not sys.stdout.isatty())
    blocks = predicted(model, found, screen if watched else Screen.silent())
    first = next(blocks)
    names = [*found.columns]
    for one in found.tasks:
        names += [free(title(one, name, alone=alone), names) for name in one.render(one.nothing())]
    quoted = found.quoted or any(needs_quotes(written(cell)) for cells in [names, *first.cells] for cell in cells)
    answered, unread = 0, {one.name: Unread(cut=0, texts=0, length=one.length) for one in found.tasks}
    with ExitStack() as stack:
        takers: list[Take] = []
        if out:
            own = alone and out.suffix in tasks[0].writes
            file = task_file(out, tasks[0]) if own else sheet_file(out, names, quoted=quoted)
            takers.append(stack.enter_context(file))
        if as_json:
            takers.append(stack.enter_context(json_document(alone=alone)))
        elif not out:
            shown = TextTable(sys.stdout, ".tsv", names, quoted=quoted)
            takers.append(lambda block: shown.add(block.sheet()))
        for block in chain([first], blocks):
            for take in takers:
                take(block)
            answered += sum(one.label is not None for mine in block.predictions.values() for one in mine)
            unread = {name: unread[name].plus(one) for name, one in block.unread.items()}
    say = once(screen.say)
    for total in unread.values():
        for _, remark in total.remarks():
            say(f"! {remark}")
    if out:
        say(tr("{predictions} written to {out}.", predictions=several(answered, "prediction"), out=out))


def asked(question: str | None, tasks: list[Task], model: Model) -> list[Task]:
    """The tasks; where a question is given, those that answer questions."""
    if question is None:
        return tasks
    found = [task for task in tasks if task.asks]
    if not found:
        raise SettingError(
            tr(
                "--question is for models that answer questions; {model} predicts {answers}. Leave it out.",
                model=model.folder,
                answers=comma().join(task.answers for task in tasks),
            )
        )
    if not question.strip():
        raise InputError(tr("The question is empty. Give one: --question TEXT."))
    return found


def title(task: Task, column: str, *, alone: bool) -> str:
    """The name of a new column: with several tasks, that of the task for its answer, and before all others."""
    return column if alone else task.name if column == ANSWER else f"{task.name}_{column}"


def predicted(model: Model, source: Source, screen: Screen) -> Iterator[Block]:
    """The blocks of a source with their predictions."""
    with screen.counting(tr("predicting"), source.rows, unit=tr("rows")) as advance:
        for table in source.blocks():
            rows, count = source.read(table), len(table.rows)
            found = predict_rows(model, rows, advance=scaled(advance, count))
            predictions = {
                task.name: task.by_line(found[task.name].predictions, rows[task.name], count) for task in source.tasks
            }
            columns = [[task.render(one) for one in predictions[task.name]] for task in source.tasks]
            yield Block(
                table=table,
                rows=rows,
                predictions=predictions,
                cells=[[cell for cells in row for cell in cells.values()] for row in zip(*columns, strict=True)],
                unread={name: one.unread for name, one in found.items()},
            )


def scaled(advance: Callable[[float], None], rows: int) -> Callable[[float], None]:
    """Takes shares of these rows."""
    return lambda share: advance(share * rows)


@contextmanager
def sheet_file(out: Path, columns: Sequence[str], *, quoted: bool) -> Iterator[Take]:
    """A table."""
    with table_file(out, columns, quoted=quoted) as add:
        yield lambda block: add(block.sheet())


@contextmanager
def task_file(out: Path, task: Task) -> Iterator[Take]:
    """A file of a type that the task writes."""
    with reported_os_errors(out.parent), new_file(out) as partial, open(partial, "w", encoding="utf-8") as file:

        def take(block: Block) -> None:
            text = task.written(block.rows[task.name], block.predictions[task.name], out.suffix)
            file.write("\n" + text if text and file.tell() else text)

        yield take


@contextmanager
def json_document(*, alone: bool) -> Iterator[Take]:
    """One JSON object on stdout, whose list of predictions grows with every block."""
    before = '{"predictions": ['

    def take(block: Block) -> None:
        nonlocal before
        for row, *answers in zip(records_of(block.table), *block.predictions.values(), strict=True):
            made = {name: one.as_json() for name, one in zip(block.predictions, answers, strict=True)}
            found = {"row": row, **answers[0].as_json()} if alone else {"row": row, "tasks": made}
            sys.stdout.write(before + json.dumps(found, ensure_ascii=False))
            before = ", "

    yield take
    sys.stdout.write("]}\n")
