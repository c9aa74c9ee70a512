"""Examples in batches: for training, and for predictions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import IGNORE, Batch
from plmkit.data.randomness import generator
from plmkit.data.samples import Place
from plmkit.data.vocabulary import Vocabulary
from plmkit.network import Network
from plmkit.tasks.contract import Example, Prediction, Task
from plmkit.tasks.framing import batch_of, by_length, place_in
from plmkit.tasks.heads import TaskHead

ORDER = 5  # key of the random numbers for the order of examples
POOL = 4  # batches whose examples are sorted by length together; with 50 accuracy falls (benchmarks/README.md)
POOLS = 4  # at least; with fewer, the same examples would often share a batch


def batch_of_examples(examples: Sequence[Example], vocabulary: Vocabulary, length: int | None = None) -> Batch:
    """The inputs of all examples, those of one example next to each other; without labels."""
    counts = [len(example.inputs) for example in examples]
    batch = batch_of([framed for example in examples for framed in example.inputs], vocabulary, length)
    if max(counts) == 1:
        return batch
    return replace(batch, alternatives=torch.arange(len(examples)).repeat_interleave(torch.tensor(counts)))


def labels_of(examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
    """(examples,), or (examples, L) with IGNORE on padding where every token has a label."""
    labels = [example.label for example in examples]
    if not isinstance(labels[0], np.ndarray):
        return torch.tensor(labels)
    padded = np.full((len(labels), width), IGNORE, dtype=np.int64)
    for number, label in enumerate(labels):
        assert isinstance(label, np.ndarray)
        padded[number, place_in(width, len(label), vocabulary)] = label
    return torch.from_numpy(padded)


def next_tokens(batch: Batch) -> Tensor:
    """(B, L) the next token at every position of a row but its last; IGNORE elsewhere."""
    following, predicted = batch.source.tokens.roll(-1, -1), batch.source.visible.roll(-1, -1)
    predicted[:, -1] = False
    return following.masked_fill(~predicted, IGNORE)


class LabelledExamples:
    """Batches of examples of similar length; their order is a pure function of (seed, epoch)."""

    def __init__(
        self, examples: Sequence[Example], vocabulary: Vocabulary, *, seed: int, length: int | None = None,
        heads: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        self.examples, self.vocabulary = examples, vocabulary
        self.length, self.seed, self.heads = length, seed, heads
        self.padded = np.array([example.padded for example in examples])
        self.latest: tuple[int, np.ndarray] | None = None  # epoch, and its order

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        if place.index >= len(self.examples):
            place = Place(epoch=place.epoch + 1)
        order = self.order(place.epoch, rows)[place.index : place.index + rows]
        chosen = [self.examples[number] for number in order]
        batch = batch_of_examples(chosen, self.vocabulary, self.length)
        labels = labels_of(chosen, self.vocabulary, batch.source.tokens.shape[1])
        after = replace(place, index=place.index + len(chosen))
        return replace(batch, labels=labels, targets=next_tokens(batch), heads=self.heads), after

    def order(self, epoch: int, batch: int) -> np.ndarray:
        """Every example once, in batches of similar length in random order; the incomplete batch comes last."""
        if self.latest is None or self.latest[0] != epoch:
            random = generator(self.seed, ORDER, epoch)
            count = len(self.examples) // batch
            rows, left = np.split(random.permutation(len(self.examples)), [count * batch])
            pool = batch * max(1, min(POOL, count // POOLS))
            for start in range(0, len(rows), pool):
                rows[start : start + pool] = self.longest_first(rows[start : start + pool])
            shuffled = rows.reshape(count, batch)[random.permutation(count)]
            self.latest = epoch, np.concatenate([shuffled.ravel(), self.longest_first(left)])
        return self.latest[1]

    def longest_first(self, rows: np.ndarray) -> np.ndarray:
        return rows[np.argsort(-self.padded[rows], kind="stable")]


@torch.inference_mode()
def predictions_of(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device,
    groups: Iterable[np.ndarray] | None = None,
) -> list[Prediction]:  # fmt: skip
    """The predictions of a network in evaluation mode, one per example; each of `groups` is one batch."""
    head = cast(TaskHead, network.heads[task.name])
    found: dict[int, Prediction] = {}
    for numbers in by_length(examples) if groups is None else groups:
        some = [examples[number] for number in numbers]
        batch = batch_of_examples(some, vocabulary, task.fixed_length).to(device)
        states = network.model(replace(batch, needed=head.needed(batch)))
        answers = head.answers(states, batch).float().cpu()
        found |= zip(numbers.tolist(), task.decide(answers, some), strict=True)
    return [found[number] for number in range(len(examples))]


def evaluate(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device
) -> dict[str, Any]:
    """The scores of a network on labelled examples."""
    network.eval()
    predictions = predictions_of(network, task, examples, vocabulary, device)
    return task.score(predictions, [example.row for example in examples])
