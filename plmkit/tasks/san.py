"""The answer module of MT-DNN for pairs of texts: several turns over the second text and the first."""

from typing import Any

import torch
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.initialisation.weights import INITIALISERS
from plmkit.tasks.heads import ClassHead

TURNS, PREDICTION_DROPOUT = 5, 0.1  # as released (namisan/mt-dnn)


class SanHead(ClassHead):
    """Stochastic answer network: the mean of the predictions of several turns (Liu et al., 2019, 3.1)."""

    def __init__(
        self, *, width: int, outputs: int, turns: int = TURNS, initialiser: str = "truncated", **settings: Any
    ):
        super().__init__(width=width, outputs=outputs, initialiser=initialiser, **settings)
        self.turns = turns
        self.summarise = nn.Linear(width, 1)  # of the hypothesis
        self.attend = nn.Linear(width, width, bias=False)  # to the premise
        self.cell = nn.GRUCell(width, width)
        self.classify = nn.Linear(4 * width, outputs)
        INITIALISERS[initialiser](self)

    def needed(self, batch: Batch) -> None:
        return None  # the states of all tokens

    def logits(self, states: States, batch: Batch) -> Tensor:
        """(examples, outputs) the logarithm of the mean probability."""
        first, second = sides(batch)
        premise, hypothesis = (self.variational(states.hidden.float()) for _ in range(2))
        state = weighted(hypothesis, self.summarise(hypothesis).squeeze(2), second)
        steps = []
        for turn in range(self.turns):
            found = weighted(premise, (self.attend(state)[:, None] * premise).sum(2), first)
            pair = torch.cat([state, found, (state - found).abs(), state * found], dim=1)
            steps.append(self.classify(self.dropout(pair)).softmax(1))
            if turn + 1 < self.turns:
                state = self.cell(found, state)
        logits = self.mean(torch.stack(steps, dim=1)).clamp_min(1e-9).log()
        return logits if self.ngrams is None else self.ngrams(logits, batch)

    def variational(self, hidden: Tensor) -> Tensor:
        """Dropout with one mask for all positions of a row."""
        mask: Tensor = self.dropout(hidden.new_ones(len(hidden), 1, hidden.shape[2]))
        return hidden * mask

    def mean(self, steps: Tensor) -> Tensor:
        """Over the turns, of which some are dropped in training, but never a random one of each row."""
        if not self.training:
            return steps.mean(1)
        rows, turns, _ = steps.shape
        kept = torch.rand(rows, turns, device=steps.device) >= PREDICTION_DROPOUT
        kept[torch.arange(rows), torch.randint(turns, (rows,), device=steps.device)] = True
        return (steps * kept[:, :, None]).sum(1) / kept.sum(1, keepdim=True)


def sides(batch: Batch) -> tuple[Tensor, Tensor]:
    """(B, L) True at the tokens of the first text and of the second."""
    segments, visible = batch.source.segment_ids, batch.source.visible
    return visible & (segments == 0), visible & (segments == 1)


def weighted(states: Tensor, scores: Tensor, visible: Tensor) -> Tensor:
    """(B, width) the mean of the visible states, weighted by the softmax of their scores."""
    share = scores.masked_fill(~visible, -torch.inf).softmax(1)
    return (share[:, :, None] * states).sum(1)
