"""A model over the rows of a file: predict."""

import json
import sys
from pathlib import Path

from plmkit.data.reading.columns import Columns
from plmkit.data.writing import TABLES, beside, check_out, records_of
from plmkit.errors import InputError, SettingError
from plmkit.inference.model import Model
from plmkit.inference.predicting import predict_rows, task_named
from plmkit.language import several, tr
from plmkit.storage.files import write_text
from plmkit.tasks.contract import Task
from plmkit.tasks.tables import asked_table, input_table
from plmkit.tasks.use import MANY, report_unread, search_for, with_text
from plmkit.terminal.screen import Screen


def predict_file(
    model: Model, source: str, out: Path | None, screen: Screen, *, as_json: bool, columns: Columns = Columns(),
    task: str | None = None, question: str | None = None,
) -> None:  # fmt: skip
    """The rows, with the prediction and the probability of each class as new columns.

    With `question`, the rows are texts, or the source is one text, that it is asked about.
    """
    chosen = task_named(model, task, tr("predict"))
    check_out(out, source, "predictions", (*TABLES, *chosen.writes))
    search = search_for(chosen, columns)
    check_question(question, chosen, model)
    if question is not None:
        table = asked_table(source, question, search, screen.say, chosen.open)
    else:
        table = input_table(source, search, screen.say, chosen.open)
    rows, _ = chosen.read(table, search, screen.say, labelled=False)
    with_text(rows, table, tr("left without a prediction"), screen)
    predictions, unread = predict_rows(model, rows, chosen, screen=screen if len(rows) > MANY else None)
    report_unread(unread, screen)
    predictions = chosen.by_line(predictions, rows, len(table.rows))
    answered = [prediction for prediction in predictions if prediction.label is not None]
    rendered = [chosen.render(prediction) for prediction in predictions]
    sheet = beside(table, list(rendered[0]), [list(cells.values()) for cells in rendered])
    if out:
        if out.suffix in chosen.writes:
            write_text(out, chosen.written(rows, predictions, out.suffix))
        else:
            sheet.write(out)
        screen.say(tr("{predictions} written to {out}.", predictions=several(len(answered), "prediction"), out=out))
    if as_json:
        given = zip(records_of(table), predictions, strict=True)
        answers = [{"row": row, **answer.as_json()} for row, answer in given]
        print(json.dumps({"predictions": answers}, ensure_ascii=False))
    elif not out:
        sys.stdout.write(sheet.text(".tsv"))


def check_question(question: str | None, task: Task, model: Model) -> None:
    """A question is for a model that answers questions, and is not empty."""
    if question is None:
        return
    if not task.asks:
        raise SettingError(
            tr(
                "--question is for models that answer questions; {model} predicts {answers}. Leave it out.",
                model=model.folder,
                answers=task.answers,
            )
        )
    if not question.strip():
        raise InputError(tr("The question is empty. Give one: --question TEXT."))
