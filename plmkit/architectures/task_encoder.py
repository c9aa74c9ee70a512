"""The encoder of ERNIE 2.0: BERT's, which is told by an embedding which pretraining task a row is for."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_sizes
from plmkit.architectures.encoder import Encoder, EncoderModel
from plmkit.data.batch import Batch
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.packing import Packing
from plmkit.layers.transformer import InputEmbedding


@dataclass(frozen=True, kw_only=True)
class TaskEncoder(Encoder):
    """BERT's encoder with an embedding of the pretraining task, added to every token (Sun et al., 2020)."""

    tasks: int = 16  # number of task embeddings
    task: int = 0  # task embedding of rows that are for no pretraining task, as in fine-tuning

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "tasks")
        if not 0 <= self.task < self.tasks:
            raise SettingError(
                tr(
                    "architecture.task must be one of the task embeddings, 0 to {last}; found {task}.",
                    last=self.tasks - 1,
                    task=self.task,
                )
            )

    @property
    def task_count(self) -> int:
        return self.tasks

    @property
    def is_berts(self) -> bool:
        return False

    def build(self, vocabulary: Vocabulary) -> "TaskEncoderModel":
        return TaskEncoderModel(self, vocabulary.rows)


class TaskInputEmbedding(InputEmbedding):
    """The sum of four embeddings, normalised: of the token, its segment, its position and the task of its row."""

    def __init__(self, settings: TaskEncoder, vocabulary_size: int) -> None:
        super().__init__(
            vocabulary=vocabulary_size,
            max_length=settings.first + settings.max_length,
            segments=settings.segments,
            width=settings.embedding or settings.width,
            dropout=settings.dropout,
            epsilon=settings.epsilon,
        )
        self.tasks = nn.Embedding(settings.tasks, self.width)

    def of_tasks(self, tokens: Tensor, segments: Tensor, positions: Tensor, tasks: Tensor) -> Tensor:
        return self.dropout(self.norm(self.total(tokens, segments, positions) + self.tasks(tasks)))


class TaskEncoderModel(EncoderModel):
    def new_embedding(self, vocabulary_size: int) -> InputEmbedding:
        return TaskInputEmbedding(cast(TaskEncoder, self.settings), vocabulary_size)

    def inputs(self, batch: Batch, packing: Packing) -> Tensor:
        tokens, segments = packing.pack(batch.source.tokens), packing.pack(batch.source.segment_ids)  # (T,)
        tasks = packing.pack(self.tasks_of(batch))
        positions = self.settings.first + packing.positions()
        return cast(TaskInputEmbedding, self.embed).of_tasks(tokens, segments, positions, tasks)

    def tasks_of(self, batch: Batch) -> Tensor:
        """(B, L) the task of each row, at each of its tokens."""
        tokens = batch.source.tokens
        if batch.task is None:
            return torch.full_like(tokens, cast(TaskEncoder, self.settings).task)
        return batch.task[:, None].expand_as(tokens)
