"""Heads that score where an answer begins and ends."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.initialisation.weights import INITIALISERS
from plmkit.tasks.answering.windows import NULL
from plmkit.tasks.heads import TaskHead

APART = -1.0  # in place of a position: the null score is a logit of its own, not comparable with those of spans


class AnswerHead(TaskHead):
    """A head whose answers are scored pairs of tokens, and the null score last."""

    def explained(self, states: States, batch: Batch) -> Tensor:
        """(examples, 1) the score of the best pair."""
        return self.answers(states, batch)[:, :-1, 2].amax(1, keepdim=True)


class SpanHead(AnswerHead):
    """A start and an end vector: their products with every state (Devlin et al., 2018, 4.2)."""

    def __init__(self, *, width: int, n_best: int, initialiser: str = "truncated") -> None:
        super().__init__()
        self.n_best = n_best
        self.classify = nn.Linear(width, 2)
        INITIALISERS[initialiser](self)

    def logits(self, states: States, batch: Batch) -> Tensor:
        """(B, L, 2), minus infinity on padding."""
        logits: Tensor = self.classify(states.hidden)
        return logits.masked_fill(~batch.source.visible[:, :, None], -torch.inf)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        start, end = self.logits(states, batch).unbind(-1)
        return (F.cross_entropy(start, batch.labels[:, 0]) + F.cross_entropy(end, batch.labels[:, 1])) / 2

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, n_best² + 1, 3): first token, last token and score of pairs, best starts first; the null score last."""
        logits = self.logits(states, batch).float()
        count = min(self.n_best, logits.shape[1])
        (starts, ends), (first, last) = (
            torch.stack(part) for part in zip(*(logits[..., side].topk(count) for side in (0, 1)), strict=True)
        )
        scores = starts[:, :, None] + ends[:, None]  # (B, n, n)
        pairs = torch.stack([first[:, :, None].expand_as(scores), last[:, None].expand_as(scores), scores], -1).flatten(
            1, 2
        )
        place = null_places(batch)
        own = logits[torch.arange(len(logits), device=logits.device), place].sum(-1)
        null = torch.stack([place.to(own), place.to(own), own], -1)
        return table_of(pairs, null, self.n_best**2, batch)

    def compared(self, states: States, batch: Batch) -> Tensor:
        return self.logits(states, batch)


class ConditionalSpanHead(AnswerHead):
    """Ends given a start, and whether there is an answer (Yang et al., 2019; zihangdai/xlnet, run_squad)."""

    def __init__(self, *, width: int, beams: int, initialiser: str = "normal") -> None:
        super().__init__()
        self.beams = beams
        self.start = nn.Linear(width, 1)
        self.end_hidden = nn.Linear(2 * width, width)
        self.end_norm = nn.LayerNorm(width, eps=1e-12)
        self.end = nn.Linear(width, 1)
        self.null_hidden = nn.Linear(2 * width, width)
        self.null = nn.Linear(width, 1, bias=False)
        INITIALISERS[initialiser](self)

    def start_logits(self, states: States, batch: Batch) -> Tensor:
        """(B, L), minus infinity at tokens that no answer has."""
        logits: Tensor = self.start(states.hidden).squeeze(-1)
        return logits.masked_fill(~possible(batch), -torch.inf)

    def end_logits(self, states: States, batch: Batch, starts: Tensor) -> Tensor:
        """(B, n, L) given the starts (B, n)."""
        hidden = states.hidden
        chosen = hidden.gather(1, starts[:, :, None].expand(-1, -1, hidden.shape[-1]))  # (B, n, width)
        of_end, of_start = self.end_hidden.weight.chunk(2, dim=1)  # its product with [state; start], in two
        joint = F.linear(hidden, of_end, self.end_hidden.bias)[:, None] + F.linear(chosen, of_start)[:, :, None]
        logits: Tensor = self.end(self.end_norm(torch.tanh(joint))).squeeze(-1)
        return logits.masked_fill(~possible(batch)[:, None], -torch.inf)

    def null_logits(self, states: States, batch: Batch, start: Tensor) -> Tensor:
        """(B,) that there is no answer, from the expected state of its start, and the null token."""
        hidden = states.hidden
        expected = torch.einsum("bl,blh->bh", start.softmax(-1), hidden)
        null = hidden[torch.arange(len(hidden), device=hidden.device), null_places(batch)]
        logits: Tensor = self.null(torch.tanh(self.null_hidden(torch.cat([expected, null], -1))))
        return logits.squeeze(-1)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        first, last = batch.labels.unbind(-1)
        start = self.start_logits(states, batch)
        end = self.end_logits(states, batch, first[:, None]).squeeze(1)
        # transformers trains this on the state of the true start, which shows whether there is one
        null = self.null_logits(states, batch, start)
        spans = (F.cross_entropy(start, first) + F.cross_entropy(end, last)) / 2
        return spans + 0.5 * F.binary_cross_entropy_with_logits(null, (first == null_places(batch)).to(null.dtype))

    def beam(self, states: States, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Log-probabilities and places of starts (B, n) and of the ends of each (B, n, n), and the null logits (B,)."""
        start = self.start_logits(states, batch).float()
        count = min(self.beams, start.shape[1])
        starts, first = start.log_softmax(-1).topk(count)
        ends, last = self.end_logits(states, batch, first).float().log_softmax(-1).topk(count)
        return starts, first, ends, last, self.null_logits(states, batch, start.to(states.hidden.dtype)).float()

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, beams² + 1, 3): first token, last token and log-probability of pairs; the null logit last."""
        starts, first, ends, last, null = self.beam(states, batch)
        pairs = torch.stack([first[:, :, None].expand_as(last), last, starts[:, :, None] + ends], -1).flatten(1, 2)
        apart = torch.full_like(null, APART)
        return table_of(pairs, torch.stack([apart, apart, null], -1), self.beams**2, batch)

    def compared(self, states: States, batch: Batch) -> Tensor:
        """(B, n + n² + 1): probabilities of starts and of their ends, which transformers has by rank first."""
        starts, _, ends, _, null = self.beam(states, batch)
        return torch.cat([starts.exp(), ends.exp().transpose(1, 2).flatten(1), null[:, None]], -1)


def table_of(pairs: Tensor, null: Tensor, count: int, batch: Batch) -> Tensor:
    """(B, count + 1, 3) with positions counted from the first token of each row, which padding may precede."""
    padding = batch.source.visible.int().argmax(1)
    pairs = torch.cat([pairs[..., :2] - padding[:, None, None], pairs[..., 2:]], -1)
    missing = pairs.new_full((len(pairs), count - pairs.shape[1], 3), -torch.inf)
    return torch.cat([pairs, missing, null[:, None]], 1)


def possible(batch: Batch) -> Tensor:
    """(B, L) True where an answer may begin or end: in the context, and at the null token."""
    return batch.source.visible if batch.places is None else batch.places > 0


def null_places(batch: Batch) -> Tensor:
    """(B,) the position of the null token: the last, unless the batch has places."""
    if batch.places is None:
        return torch.full_like(batch.source.tokens[:, 0], batch.source.tokens.shape[1] - 1)
    return (batch.places == NULL).int().argmax(1)
