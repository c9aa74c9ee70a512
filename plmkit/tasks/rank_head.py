"""The head of ranking: one score per candidate, and a loss over those of a list."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.data.batch import Batch, States
from plmkit.tasks.heads import ChoiceHead


class RankHead(ChoiceHead):
    """The score of each candidate, read with its query."""

    def relevance(self, logits: Tensor, batch: Batch) -> Tensor:
        """(examples, most candidates) above 0 where a candidate is relevant; 0 where an example has fewer."""
        assert batch.labels is not None
        return batch.labels[:, : logits.shape[1]].to(logits.dtype)


class SoftmaxRankHead(RankHead):
    """Negative log-likelihood of a relevant candidate under the softmax over its list (Liu et al., 2019, 3.2).

    The paper passes the score through a sigmoid first; the released code does not, and neither does this.
    """

    def forward(self, states: States, batch: Batch) -> Tensor:
        logits = self.logits(states, batch)
        relevant = (self.relevance(logits, batch) > 0).to(logits.dtype)
        shares = relevant / relevant.sum(1, keepdim=True).clamp(min=1)
        logs = logits.log_softmax(1).masked_fill(logits == -torch.inf, 0.0)
        return -(shares * logs).sum(1).mean()


class SigmoidRankHead(RankHead):
    """Binary cross entropy of each candidate by itself."""

    def forward(self, states: States, batch: Batch) -> Tensor:
        logits = self.logits(states, batch)
        there = logits != -torch.inf
        relevant = (self.relevance(logits, batch) > 0).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits[there], relevant[there])

    def scored(self, batch: Batch) -> int:
        return len(batch.source.tokens)


LOSSES: dict[str, type[RankHead]] = {"softmax": SoftmaxRankHead, "sigmoid": SigmoidRankHead}


def rank_head(loss: str, settings: dict[str, Any]) -> RankHead:
    return LOSSES[loss](**settings)
