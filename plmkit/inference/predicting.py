"""What a fine-tuned model predicts for the rows of its tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plmkit.errors import PlmError, SettingError
from plmkit.inference.reader import Reader, Unread, ignored
from plmkit.language import comma, tr
from plmkit.tasks.batches import predictions_together
from plmkit.tasks.contract import Prediction, Row, Task, unknown_share
from plmkit.tasks.sharing import Framed, passes_of

Advance = Callable[[float], None]  # takes the share of the rows that was done since the last call


def tasks_named(reader: Reader, name: str | None, verb: str) -> list[Task]:
    """The task of that name, or all of them."""
    if not reader.tasks:
        raise PlmError(
            tr(
                "{folder} was not fine-tuned on a task, so it cannot {verb}.\n"
                "Fine-tune it first: plm finetune {folder} --task classify --train FILE --out DIR",
                folder=reader.folder,
                verb=verb,
            )
        )
    if name is None:
        return list(reader.tasks.values())
    if name not in reader.tasks:
        found = tr("{folder} has no task '{name}'.", name=name, folder=reader.folder)
        raise SettingError(
            tr("{found} Choose one of {tasks} with --task.", found=found, tasks=comma().join(reader.tasks))
        )
    return [reader.tasks[name]]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """The prediction for each row of a task, and what was lost in reading them."""

    predictions: list[Prediction]  # rows without text have the label None
    unread: Unread


def predict_rows(
    reader: Reader, rows: Mapping[str, Sequence[Row]], batch_size: int | None = None, advance: Advance = ignored
) -> dict[str, Predicted]:
    """The predictions of tasks, by name, for the rows of each.

    Tasks that read a row alike share its states: the model reads it once.
    """
    tasks = [reader.tasks[name] for name in rows]
    framed = {task.name: framed_rows(reader, task, rows[task.name]) for task in tasks}
    found = {task.name: [task.nothing()] * len(rows[task.name]) for task in tasks}
    passes = passes_of(tasks, framed)
    steps = sum(one.steps for one in passes)
    for one in passes:
        made = predictions_together(
            reader.network, one.tasks, one.examples, reader.tokenizer.vocabulary, reader.device,
            lambda some: reader.groups(some, batch_size, lambda count: advance(count / steps)),
        )  # fmt: skip
        for task, own in zip(one.tasks, made, strict=True):
            for number, prediction in zip(one.numbers, own, strict=True):
                found[task.name][number] = prediction
    return {
        task.name: Predicted(
            predictions=found[task.name], unread=unread_in(reader, task, rows[task.name], framed[task.name])
        )
        for task in tasks
    }


def framed_rows(reader: Reader, task: Task, rows: Sequence[Row]) -> Framed:
    filled = [number for number, row in enumerate(rows) if not row.blank]
    examples = task.frame([rows[number] for number in filled], reader.tokenizer, task.length) if filled else []
    return dict(zip(filled, examples, strict=True))


def unread_in(reader: Reader, task: Task, rows: Sequence[Row], framed: Framed) -> Unread:
    cut = sum(example.cut > 0 for example in framed.values())
    tokens = sum(len(one.tokens) for example in framed.values() for one in example.inputs)
    unknown = unknown_share(list(framed.values()), reader.tokenizer.vocabulary)
    return Unread(cut=cut, texts=len(rows), length=task.length, unknown=unknown, tokens=tokens)
