"""Fine-tuning as in GPT: three new special tokens around the texts, and a language-model loss next to the task's."""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.inference.loading import Parts
from plmkit.layers.vocabulary_head import TiedHead
from plmkit.objectives.contract import Head

TASK_TOKENS = {"cls": "_start_", "sep": "_delimiter_", "extract": "_classify_"}  # openai/finetune-transformer-lm


def with_task_tokens(parts: Parts) -> Parts:
    """A causal language model gets new special tokens to frame a row with (Radford et al., 2018, 3.3)."""
    vocabulary = parts.tokenizer.vocabulary
    if not vocabulary.lacks(("cls", "sep")):
        return parts
    tokenizer = parts.tokenizer.with_tokens(TASK_TOKENS)
    name = parts.architecture.last_embedding(parts.weights)
    embeddings = parts.weights[name]
    known = len(vocabulary) - (parts.vocabulary_size - len(embeddings))  # tokens that have their rows in it
    drawn = torch.Generator().manual_seed(0)  # the same in every run: only the head differs between seeds
    fresh = torch.empty(len(TASK_TOKENS), embeddings.shape[1]).normal_(std=0.02, generator=drawn).to(embeddings.dtype)
    grown = torch.cat([embeddings[:known], fresh, embeddings[known + len(TASK_TOKENS) :]])
    return replace(parts, tokenizer=tokenizer, weights={**parts.weights, name: grown})


class RowLM(Head):
    """Language-model loss on the rows of a task: mean per row, then over rows (openai/finetune-transformer-lm)."""

    name: ClassVar = "row_lm"

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.vocabulary = TiedHead(embedding)

    def forward(self, states: States, batch: Batch) -> Tensor:
        targets = batch.targets
        assert targets is not None
        predicted = targets != IGNORE
        counts = predicted.sum(1, keepdim=True)
        shares = predicted / (counts.clamp(min=1) * (counts > 0).sum())
        return self.vocabulary.loss(
            states.hidden[predicted], targets[predicted], shares[predicted].to(states.hidden.dtype)
        )

    def scored(self, batch: Batch) -> int:
        """The number of rows with a token to predict; each choice is a row."""
        assert batch.targets is not None
        return int((batch.targets != IGNORE).any(-1).sum())
