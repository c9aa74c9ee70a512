"""Heads that predict a tag for every word at its first token: one linear layer for all positions, and a CRF over it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchcrf import CRF

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.initialisation.weights import INITIALISERS
from plmkit.layers.transformer import Dropout
from plmkit.tasks.heads import ClassHead, TaskHead

IMPOSSIBLE = -10_000.0  # the score of one tag after another that it cannot follow


def places_of(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """(examples, W) the row and the position of each word, and whether there is such a word."""
    assert batch.words is not None
    there = batch.words[:, :, 1] >= 0
    inputs, places = batch.words.clamp(min=0).unbind(2)
    if batch.alternatives is None:
        return torch.arange(len(inputs), device=inputs.device)[:, None].expand_as(inputs), places, there
    counts = batch.alternatives.bincount()
    return inputs + (counts.cumsum(0) - counts)[:, None], places, there


class TagHead(TaskHead):
    """One linear layer over the first token of each word (Devlin et al., 2018, 5.3)."""

    def __init__(self, *, width: int, tags: int, dropout: float = 0.1, initialiser: str = "truncated") -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.classify = nn.Linear(width, tags)
        INITIALISERS[initialiser](self)

    def logits(self, states: States, batch: Batch) -> Tensor:
        """(examples, W, tags), or of all positions (B, L, tags) if the batch does not say where its words are."""
        hidden = states.hidden
        if batch.words is not None:
            rows, places, _ = places_of(batch)
            hidden = hidden[rows, places]
        logits: Tensor = self.classify(self.dropout(hidden))
        return logits

    def answers(self, states: States, batch: Batch) -> Tensor:
        return self.logits(states, batch)

    def explained(self, states: States, batch: Batch) -> Tensor:
        return self.logits(states, batch)

    def loss(self, states: States, batch: Batch, labels: Tensor) -> Tensor:
        """The mean over all words that have a label."""
        return F.cross_entropy(self.logits(states, batch).flatten(0, 1), labels.flatten(), ignore_index=IGNORE)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        return self.loss(states, batch, batch.labels)

    def scored(self, batch: Batch) -> int:
        assert batch.labels is not None
        return int((batch.labels != IGNORE).sum())

    def needed(self, batch: Batch) -> Tensor | None:
        if batch.words is None:
            return None
        rows, places, there = places_of(batch)
        needed = torch.zeros_like(batch.source.visible)
        needed[rows[there], places[there]] = True
        return needed


class CrfHead(TagHead):
    """A linear-chain CRF over the words, which finds the most likely sequence of tags (Lafferty et al., 2001)."""

    def __init__(self, *, may_follow: Callable[[int | None, int | None], bool], tags: int, **settings: Any) -> None:
        super().__init__(tags=tags, **settings)
        self.crf = CRF(tags, batch_first=True)
        with torch.no_grad():
            for tag in range(tags):
                if not may_follow(None, tag):
                    self.crf.start_transitions[tag] = IMPOSSIBLE
                if not may_follow(tag, None):
                    self.crf.end_transitions[tag] = IMPOSSIBLE
                for other in range(tags):
                    if not may_follow(tag, other):
                        self.crf.transitions[tag, other] = IMPOSSIBLE

    def loss(self, states: States, batch: Batch, labels: Tensor) -> Tensor:
        """Minus the log-likelihood of the tags, per word."""
        mask = labels != IGNORE
        found: Tensor = self.crf(
            self.logits(states, batch).float(), labels.masked_fill(~mask, 0), mask=mask, reduction="token_mean"
        )
        return -found

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(examples, W, tags + 1): the probability of each tag, and the tag of the most likely sequence."""
        logits, mask = self.logits(states, batch).float(), places_of(batch)[2]
        path = logits.new_zeros(mask.shape)
        for row, tags in zip(path, self.crf.decode(logits, mask=mask), strict=True):
            row[: len(tags)] = torch.tensor(tags, dtype=row.dtype, device=row.device)
        return torch.cat([self.marginals(logits, mask), path[:, :, None]], dim=2)

    def marginals(self, logits: Tensor, mask: Tensor) -> Tensor:
        """(examples, W, tags) the probability of each tag given all words, by the forward-backward algorithm."""
        forward, backward = (
            [self.crf.start_transitions + logits[:, 0]],
            [self.crf.end_transitions.expand_as(logits[:, 0])],
        )
        for place in range(1, logits.shape[1]):
            following = (forward[-1][:, :, None] + self.crf.transitions).logsumexp(1) + logits[:, place]
            forward.append(torch.where(mask[:, place, None], following, forward[-1]))
        for place in range(logits.shape[1] - 1, 0, -1):
            before = (self.crf.transitions + (logits[:, place] + backward[-1])[:, None]).logsumexp(2)
            backward.append(torch.where(mask[:, place, None], before, backward[-1]))
        return (torch.stack(forward, dim=1) + torch.stack(backward[::-1], dim=1)).softmax(2)


class SlotsHead(TaskHead):
    """The intent of an utterance from its pooled vector, and the tags of its words; their losses are added."""

    def __init__(self, intent: ClassHead, tags: TagHead) -> None:
        super().__init__()
        self.intent, self.tags = intent, tags

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        intent = F.cross_entropy(self.intent.logits(states, batch), batch.labels[:, 0])
        return intent + self.tags.loss(states, batch, batch.labels[:, 1:])

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(examples, 1 + W, ...) the logits of the intents, then the answers for each word, as wide as the wider."""
        parts = [self.intent.logits(states, batch)[:, None], self.tags.answers(states, batch)]
        width = max(part.shape[2] for part in parts)
        return torch.cat([F.pad(part.float(), (0, width - part.shape[2])) for part in parts], dim=1)

    def explained(self, states: States, batch: Batch) -> Tensor:
        return self.tags.explained(states, batch)

    def scored(self, batch: Batch) -> int:
        """The number of words: a micro-batch counts by them, its intents too."""
        assert batch.labels is not None
        return int((batch.labels[:, 1:] != IGNORE).sum())

    def needed(self, batch: Batch) -> Tensor | None:
        return None if self.intent.needed(batch) is None else self.tags.needed(batch)
