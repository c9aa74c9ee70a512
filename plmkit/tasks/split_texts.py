"""Texts that are compared with each other, each of which is read in windows of its own where it is long."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from plmkit.data.randomness import generator
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.long_texts import WindowedTask, windows_of
from plmkit.tasks.row_task import RowTask
from plmkit.tokenizers.tokenizer import Tokenizer

WINDOW = 15  # key of the random numbers for the windows of an epoch


@dataclass(frozen=True, kw_only=True)
class SplitExample(Example):
    """A row whose inputs are the windows of its texts, one text after the other."""

    counts: tuple[int, ...]  # windows of each text


@dataclass(frozen=True, kw_only=True)
class SplitTask(WindowedTask):
    """A task whose answers compare the texts of a row: candidates of a query, or the two of a pair.

    A prediction joins the answers of all windows of a text. In training, a text is read in one of its windows, drawn
    again in each epoch (Dai & Callan, 2019, 3.2, train on all of them).
    """

    @property
    def windows(self) -> bool:
        """False: the windows of a row are those of several texts."""
        return False

    def framed(
        self, rows: Sequence[Row], tokenizer: Tokenizer, length: int, *, choosing: bool = False
    ) -> list[Example]:
        examples = RowTask.framed(self, rows, tokenizer, length, choosing=choosing)
        if self.long == "cut":
            return examples
        texts = [
            [versions]
            for example in examples
            for versions, framed in zip(self.versions(example.row), example.inputs, strict=True)
            if framed.cut
        ]
        found = windows_of(texts, tokenizer, length)
        made: list[Example] = []
        for example in examples:
            split = [[one for (one,) in next(found)] if framed.cut else [framed] for framed in example.inputs]
            counts = tuple(map(len, split))
            if sum(counts) > len(counts):
                inputs = tuple(window for own in split for window in own)
                example = SplitExample(
                    **{**vars(example), "inputs": inputs, "windows": sum(counts)}, counts=counts
                )  # fmt: skip
            made.append(example)
        return made

    def for_epoch(self, examples: Sequence[Example], seed: int, epoch: int) -> Sequence[Example]:
        if self.long == "cut":
            return examples
        return [drawn(example, (seed, WINDOW, epoch, number)) for number, example in enumerate(examples)]

    def of_texts(self, answers: Tensor, example: Example) -> Tensor:
        """(texts, ...) from the answers for all inputs of an example."""
        if not isinstance(example, SplitExample):
            return answers
        return torch.stack([self.joined(own) for own in torch.split(answers, list(example.counts))])


def drawn(example: Example, key: tuple[int, ...]) -> Example:
    """With one window of each text."""
    if not isinstance(example, SplitExample):
        return example
    random, start, chosen = generator(*key), 0, []
    for count in example.counts:
        chosen.append(example.inputs[start + int(random.integers(count))])
        start += count
    return replace(example, inputs=tuple(chosen), counts=(1,) * len(chosen), windows=1)
