"""The head of matching: a vector of length 1 per text, the cosine of the two of a pair, and losses on it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.data.batch import Batch, States
from plmkit.tasks.heads import TaskHead, pooled_by

MIDDLE = 0.5  # the cosine that logistic takes for undecided
MARGIN = 0.5  # cosine distance from which on contrastive leaves pairs that do not match alone


def squared_error(cosines: Tensor, labels: Tensor, scale: float) -> Tensor:
    """Of the cosine, from labels in [0, 1]."""
    return F.mse_loss(cosines, labels)


def contrastive(cosines: Tensor, labels: Tensor, scale: float) -> Tensor:
    """Pull together what matches, and push apart what does not, up to a margin (Hadsell et al., 2006)."""
    distance = 1 - cosines
    return 0.5 * torch.where(labels > 0, distance**2, F.relu(MARGIN - distance) ** 2).mean()


def logistic(cosines: Tensor, labels: Tensor, scale: float) -> Tensor:
    """Binary cross entropy of the scaled cosine."""
    return F.binary_cross_entropy_with_logits(scale * (cosines - MIDDLE), labels)


def cosent(cosines: Tensor, labels: Tensor, scale: float) -> Tensor:
    """Every pair of texts above all pairs of the batch with a lower label (CoSENT, Su, 2022)."""
    wrong = scale * (cosines[None, :] - cosines[:, None])[labels[:, None] > labels[None, :]]  # lower − higher
    return torch.cat([wrong.new_zeros(1), wrong]).logsumexp(0)


LOSSES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "mse": squared_error, "contrastive": contrastive, "logistic": logistic, "cosent": cosent,
}  # fmt: skip
NEGATIVES = "negatives"


class MatchHead(TaskHead):
    """Two texts of an example, read one after the other, as vectors of the same network."""

    def __init__(self, *, pooling: str, loss: str, scale: float) -> None:
        super().__init__()
        self.pooling, self.loss, self.scale = pooling, loss, scale
        self.compares = loss in ("cosent", NEGATIVES)

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(rows, width), each of length 1."""
        return F.normalize(pooled_by(self.pooling, states.hidden, batch.source.visible).float(), dim=-1)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        vectors = self.answers(states, batch)
        first, second = vectors.view(-1, 2, vectors.shape[-1]).unbind(1)  # of each example
        if self.loss == NEGATIVES:
            return among_negatives(first, second, batch.labels, self.scale)
        return LOSSES[self.loss]((first * second).sum(-1), batch.labels.float(), self.scale)


def among_negatives(first: Tensor, second: Tensor, texts: Tensor, scale: float) -> Tensor:
    """The partner of each text among those of the whole batch, in both directions (Henderson et al., 2017, 4.4).

    `texts` (examples, 2) numbers equal texts alike: what is known to match is no negative.
    """
    logits = scale * first @ second.T
    own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    same = (texts[:, None] == texts[None, :]).any(-1)  # the same first text, or the same second one
    logits = logits.masked_fill(same & ~own, -torch.inf)
    right = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2
