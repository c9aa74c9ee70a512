"""Examples in batches: for training, and for predictions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.data.batch import IGNORE, Batch
from plmkit.data.randomness import generator
from plmkit.data.samples import Place
from plmkit.data.vocabulary import Vocabulary
from plmkit.network import Network
from plmkit.tasks.contract import Example, Prediction, Task
from plmkit.tasks.framing import Padded, batch_of, by_length
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.ngrams import padded

ORDER = 5  # key of the random numbers for the order of examples
POOL = 4  # batches whose examples are sorted by length together; with 50 accuracy falls (benchmarks/README.md)
POOLS = 10  # at least; with fewer, the same examples would often share a batch
Group = Callable[[Sequence[Padded]], Iterable[np.ndarray]]  # indices of the rows of each batch


def batch_of_examples(examples: Sequence[Example], vocabulary: Vocabulary, length: int | None = None) -> Batch:
    """The inputs of all examples, those of one example next to each other; without labels."""
    counts = [len(example.inputs) for example in examples]
    batch = batch_of([framed for example in examples for framed in example.inputs], vocabulary, length)
    vectors = [example.ngrams for example in examples if example.ngrams is not None]
    words = words_in(examples, batch.source.tokens.shape[1])
    batch = replace(batch, words=words, ngrams=padded(vectors) if vectors else None)
    if max(counts) == 1:
        return batch
    return replace(batch, alternatives=torch.arange(len(examples)).repeat_interleave(torch.tensor(counts)))


def words_in(examples: Sequence[Example], width: int) -> Tensor | None:
    """(examples, W, 2) where each word is predicted, -1 for no word; None: the examples have no words."""
    found = [example.words for example in examples if example.words is not None]
    if len(found) < len(examples):
        return None
    words = np.full((len(found), max(1, *map(len, found)), 2), -1, dtype=np.int64)
    for row, own in zip(words, found, strict=True):
        row[: len(own)] = own
        row[: len(own), 1] %= width
    return torch.from_numpy(words)


def one_by_one(task: Task, examples: Sequence[Example]) -> list[Example]:
    """The examples as they are trained on: of a text in windows, each window on its own."""
    if not task.windows:
        return list(examples)
    return [example.alone(number) for example in examples for number in range(example.windows)]


def next_tokens(batch: Batch) -> Tensor:
    """(B, L) the next token at every position of a row but its last; IGNORE elsewhere."""
    following, predicted = batch.source.tokens.roll(-1, -1), batch.source.visible.roll(-1, -1)
    predicted[:, -1] = False
    return following.masked_fill(~predicted, IGNORE)


class LabelledExamples:
    """Batches of examples of similar length; their order is a pure function of (seed, epoch).

    Texts whose words are labelled are not sorted: a loss that is the mean over words would weigh those of short texts
    more, as each batch counts alike.
    """

    def __init__(
        self, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, *, seed: int,
        heads: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        self.task, self.examples, self.vocabulary = task, examples, vocabulary
        self.seed, self.heads = seed, heads
        self.latest: tuple[int, Sequence[Example], np.ndarray] | None = None  # epoch, its examples, and their order

    def __len__(self) -> int:
        """Examples per epoch."""
        return len(self.task.for_epoch(self.examples, self.seed, 0))

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        rows = self.task.examples_per_step(rows)
        examples, order = self.order(place.epoch, rows)
        if place.index >= len(order):
            place = Place(epoch=place.epoch + 1)
            examples, order = self.order(place.epoch, rows)
        chosen = [examples[number] for number in order[place.index : place.index + rows]]
        batch = batch_of_examples(chosen, self.vocabulary, self.task.fixed_length)
        labels = self.task.labels(chosen, self.vocabulary, batch.source.tokens.shape[1])
        after = replace(place, index=place.index + len(chosen))
        soft = soft_of(chosen, batch.most_alternatives)
        return replace(batch, labels=labels, soft=soft, targets=next_tokens(batch), heads=self.heads), after

    def batches(self, rows: int) -> int:
        """The batches of an epoch."""
        return -(-len(self) // self.task.examples_per_step(rows))

    def order(self, epoch: int, batch: int) -> tuple[Sequence[Example], np.ndarray]:
        """Every example once, in batches in random order; the incomplete batch comes last."""
        if self.latest is None or self.latest[0] != epoch:
            examples = self.task.for_epoch(self.examples, self.seed, epoch)
            padded = np.array([example.padded for example in examples])
            random = generator(self.seed, ORDER, epoch)
            count = len(examples) // batch
            rows, left = np.split(random.permutation(len(examples)), [count * batch])
            has_words = any(example.words is not None for example in examples)
            pool = batch * (1 if has_words else max(1, min(POOL, count // POOLS)))
            for start in range(0, len(rows), pool):
                rows[start : start + pool] = longest_first(rows[start : start + pool], padded)
            shuffled = rows.reshape(count, batch)[random.permutation(count)]
            self.latest = epoch, examples, np.concatenate([shuffled.ravel(), longest_first(left, padded)])
        return self.latest[1:]


def soft_of(examples: Sequence[Example], choices: int) -> Tensor | None:
    """(examples, ...) the answers of a teacher, if all have them; of choices, as many as the widest example has."""
    found = [example.soft for example in examples if example.soft is not None]
    if len(found) < len(examples):
        return None
    made = torch.from_numpy(np.stack(found))
    return made[:, :choices] if choices > 1 else made


def longest_first(rows: np.ndarray, padded: np.ndarray) -> np.ndarray:
    return rows[np.argsort(-padded[rows], kind="stable")]


@torch.inference_mode()
def predictions_of(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device,
    group: Group = by_length,
) -> list[Prediction]:  # fmt: skip
    """The predictions of a network in evaluation mode, one per example; `group` makes the batches."""
    return predictions_together(network, [task], [examples], vocabulary, device, group)[0]


@torch.inference_mode()
def predictions_together(
    network: Network, tasks: Sequence[Task], examples: Sequence[Sequence[Example]], vocabulary: Vocabulary,
    device: torch.device, group: Group = by_length,
) -> list[list[Prediction]]:  # fmt: skip
    """The predictions of tasks whose examples have the same inputs, which the model reads once for all of them.

    A task that reads inputs apart is alone.
    """
    if tasks[0].apart:
        (task,), (own,) = tasks, examples
        return [predictions_apart(network, task, own, vocabulary, device, group)]
    found: list[dict[int, Prediction]] = [{} for _ in tasks]
    for numbers, answers in joined_answers(network, tasks, examples, vocabulary, device, group):
        for task, own, mine, made in zip(tasks, examples, answers, found, strict=True):
            made |= zip(numbers, task.decide(mine, [own[number] for number in numbers]), strict=True)
    return [[made[number] for number in range(len(own))] for made, own in zip(found, examples, strict=True)]


def answers_of(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device,
    group: Group = by_length,
) -> Tensor:  # fmt: skip
    """(examples, ...) the answers of a task."""
    found: dict[int, Tensor] = {}
    for numbers, (answers,) in joined_answers(network, [task], [examples], vocabulary, device, group):
        found |= zip(numbers, answers, strict=True)
    return torch.stack([found[number] for number in range(len(examples))])


def joined_answers(
    network: Network, tasks: Sequence[Task], examples: Sequence[Sequence[Example]], vocabulary: Vocabulary,
    device: torch.device, group: Group = by_length,
) -> Iterator[tuple[list[int], list[Tensor]]]:  # fmt: skip
    """The answers of each task, with the numbers of the examples: batch by batch, or all at once if these are windows.

    Tasks whose examples have the same inputs have the same windows.
    """
    if not tasks[0].windows:
        yield from answers_together(network, tasks, examples, vocabulary, device, group)
        return
    alone = [one_by_one(task, own) for task, own in zip(tasks, examples, strict=True)]
    made = all_answers(network, tasks, alone, vocabulary, device, group)
    joined = [over_windows(*each) for each in zip(tasks, examples, made, strict=True)]
    yield list(range(len(examples[0]))), joined


def over_windows(task: Task, examples: Sequence[Example], answers: Sequence[Tensor]) -> Tensor:
    """(examples, ...) from the answers for each of their windows."""
    width = max(map(len, answers))  # an example with fewer choices than others has fewer answers
    parts = iter([F.pad(one, (0, width - len(one)), value=-torch.inf) for one in answers])
    return torch.stack([task.joined(torch.stack([next(parts) for _ in range(one.windows)])) for one in examples])


def all_answers(
    network: Network, tasks: Sequence[Task], examples: Sequence[Sequence[Example]], vocabulary: Vocabulary,
    device: torch.device, group: Group,
) -> list[list[Tensor]]:  # fmt: skip
    """The answers of each task's head, one per example."""
    found: list[dict[int, Tensor]] = [{} for _ in tasks]
    for numbers, answers in answers_together(network, tasks, examples, vocabulary, device, group):
        for made, own in zip(found, answers, strict=True):
            made |= zip(numbers, own, strict=True)
    return [[made[number] for number in range(len(own))] for made, own in zip(found, examples, strict=True)]


def answers_together(
    network: Network, tasks: Sequence[Task], examples: Sequence[Sequence[Example]], vocabulary: Vocabulary,
    device: torch.device, group: Group = by_length,
) -> Iterator[tuple[list[int], list[Tensor]]]:  # fmt: skip
    """The answers of the heads of tasks whose examples have the same inputs: one pass of the model, then each head."""
    heads = [cast(TaskHead, network.heads[task.name]) for task in tasks]
    for numbers in group(examples[0]):
        batches = [
            batch_of_examples([own[number] for number in numbers], vocabulary, task.fixed_length).to(device)
            for task, own in zip(tasks, examples, strict=True)
        ]
        needed = [head.needed(batch) for head, batch in zip(heads, batches, strict=True)]
        states = network.model(replace(batches[0], needed=any_of(needed)))
        answers = [head.answers(states, batch).float().cpu() for head, batch in zip(heads, batches, strict=True)]
        yield numbers.tolist(), answers


def any_of(needed: Sequence[Tensor | None]) -> Tensor | None:
    """(B, L) True at the states that any head uses; None: all."""
    there = [one for one in needed if one is not None]
    return torch.stack(there).any(0) if len(there) == len(needed) else None


def predictions_apart(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device,
    group: Group,
) -> list[Prediction]:  # fmt: skip
    """The same where every input of an example is one row of a batch: inputs of like length meet, however many."""
    alone = [replace(example, inputs=(framed,), label=None) for example in examples for framed in example.inputs]
    (answers,) = all_answers(network, [task], [alone], vocabulary, device, group)
    parts = iter(answers)
    return [task.decide(torch.stack([next(parts) for _ in one.inputs]), [one])[0] for one in examples]


def evaluate(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device
) -> dict[str, Any]:
    """The scores of a network on labelled examples."""
    return tune(network, task, examples, vocabulary, device, fixed=True)[1]


def tune(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device, *,
    fixed: bool = False,
) -> tuple[Task, dict[str, Any]]:  # fmt: skip
    """The task with what its predictions determine, unless it is fixed, and its scores."""
    network.eval()
    predictions = predictions_of(network, task, examples, vocabulary, device)
    rows = [example.row for example in examples]
    made = task if fixed else task.tuned(predictions, rows)
    return made, made.score([made.revised(prediction) for prediction in predictions], rows)
