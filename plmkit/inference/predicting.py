"""What a fine-tuned model predicts for the rows of its task."""

from collections.abc import Sequence

from plmkit.errors import PlmError, SettingError
from plmkit.inference.reader import Reader, Unread
from plmkit.language import comma, tr
from plmkit.tasks.batches import predictions_of
from plmkit.tasks.contract import Prediction, Row, Task, unknown_share
from plmkit.terminal.screen import Screen


def task_named(reader: Reader, name: str | None, verb: str) -> Task:
    """The task of that name, or the only one."""
    if not reader.tasks:
        raise PlmError(
            tr(
                "{folder} was not fine-tuned on a task, so it cannot {verb}.\n"
                "Fine-tune it first: plm finetune {folder} --task classify --train FILE --out DIR",
                folder=reader.folder,
                verb=verb,
            )
        )
    if name is None and len(reader.tasks) == 1:
        return next(iter(reader.tasks.values()))
    if name is None or name not in reader.tasks:
        found = (
            tr("{folder} has no task '{name}'.", name=name, folder=reader.folder)
            if name
            else tr("{folder} has several tasks.", folder=reader.folder)
        )
        raise SettingError(tr("{found} Choose one of {tasks}.", found=found, tasks=comma().join(reader.tasks)))
    return reader.tasks[name]


def predict_rows(
    reader: Reader, rows: Sequence[Row], task: Task, batch_size: int | None = None, screen: Screen | None = None
) -> tuple[list[Prediction], Unread]:
    """The prediction of the task for each row; rows without text get the label None."""
    filled = [number for number, row in enumerate(rows) if not row.blank]
    examples = task.frame([rows[number] for number in filled], reader.tokenizer, task.length)
    found = predictions_of(
        reader.network, task, examples, reader.tokenizer.vocabulary, reader.device,
        lambda some: reader.batches(some, batch_size, screen, tr("predicting")),
    )  # fmt: skip
    predictions = [task.nothing()] * len(rows)
    for number, prediction in zip(filled, found, strict=True):
        predictions[number] = prediction
    cut = sum(example.cut > 0 for example in examples)
    unknown = unknown_share(examples, reader.tokenizer.vocabulary)
    return predictions, Unread(cut=cut, texts=len(rows), length=task.length, unknown=unknown)
