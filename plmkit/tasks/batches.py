"""Labelled rows to batches."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.data.randomness import generator
from plmkit.data.samples import Place
from plmkit.data.vocabulary import Vocabulary
from plmkit.tasks.framing import Framed, batch_of
from plmkit.tasks.gpt_finetuning import next_tokens

ORDER = 5  # the purpose of these random numbers
POOL = 50  # batches whose rows are sorted by length together
POOLS = 4  # at least so many: or else the same rows would always meet


class LabelledRows:
    """Batches of rows of like length; their order is a pure function of (seed, epoch)."""

    def __init__(
        self, rows: list[Framed], labels: Tensor, vocabulary: Vocabulary, *, length: int | None, seed: int
    ) -> None:
        self.rows, self.labels, self.vocabulary = rows, labels, vocabulary
        self.length, self.seed = length, seed
        self.padded = np.array([row.padded for row in rows])
        self.latest: tuple[int, np.ndarray] | None = None  # epoch, and its order

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        if place.index >= len(self.rows):
            place = Place(epoch=place.epoch + 1)
        chosen = self.order(place.epoch, rows)[place.index : place.index + rows]
        batch = batch_of([self.rows[number] for number in chosen], self.vocabulary, self.length)
        after = replace(place, index=place.index + len(chosen))
        labels = self.labels[torch.from_numpy(chosen)]
        return replace(batch, labels=labels, targets=next_tokens(batch)), after

    def order(self, epoch: int, batch: int) -> np.ndarray:
        """Every row once: in batches of near lengths, the batches in random order, what fills none at the end."""
        if self.latest is None or self.latest[0] != epoch:
            random = generator(self.seed, ORDER, epoch)
            count = len(self.rows) // batch
            rows, left = np.split(random.permutation(len(self.rows)), [count * batch])
            pool = batch * max(1, min(POOL, count // POOLS))
            for start in range(0, len(rows), pool):
                rows[start : start + pool] = self.longest_first(rows[start : start + pool])
            shuffled = rows.reshape(count, batch)[random.permutation(count)]
            self.latest = epoch, np.concatenate([shuffled.ravel(), self.longest_first(left)])
        return self.latest[1]

    def longest_first(self, rows: np.ndarray) -> np.ndarray:
        return rows[np.argsort(-self.padded[rows], kind="stable")]
