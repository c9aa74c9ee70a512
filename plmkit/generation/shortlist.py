"""The likeliest of very many tokens, found in a small copy of their table and made sure of in the table itself."""

import numpy as np
import torch
from torch import Tensor

MANY = 4096  # tokens from which on it pays
ROWS_AT_ONCE = 8192
TINY = np.finfo(np.float32).tiny
CAREFUL = 1.01  # bounds and scores themselves are rounded


class Shortlist:
    """Scores from bytes, with a bound on what they are off by: only tokens that could be the best are scored in full.

    A row of the table and a hidden vector are rounded to 256 steps each, so w·x differs from its rounded product by
    no more than |rounded w| |x - rounded x| + |w - rounded w| |x|. A quarter of the memory is read, and the answer is
    the same as that of the whole table.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table  # (vocabulary, width)
        self.steps = (table.abs().amax(1) / 127).clamp(min=torch.finfo(table.dtype).tiny)
        self.norms, self.errors = torch.empty_like(self.steps), torch.empty_like(self.steps)
        rounded = torch.empty(table.shape, dtype=torch.int8)
        for begin in range(0, len(table), ROWS_AT_ONCE):
            some = slice(begin, begin + ROWS_AT_ONCE)
            whole = (table[some] / self.steps[some, None]).round_()
            rounded[some] = whole.to(torch.int8)
            whole *= self.steps[some, None]
            self.norms[some] = whole.norm(dim=1)
            self.errors[some] = (table[some] - whole).norm(dim=1)
        self.scores = torch.empty_like(self.steps)  # room to work in
        self.rounded = rounded.t()  # (width, vocabulary), each token's numbers still side by side

    def likeliest(self, hidden: Tensor, banned: Tensor) -> Tensor:
        """(N, width) to (N,): the token with the highest score among those that may be said."""
        vectors = hidden.numpy()  # for so few numbers numpy takes a fraction of torch's time
        vectors = vectors / np.maximum(np.abs(vectors).max(1, keepdims=True) / 127, TINY)  # scores are in these units
        whole = np.rint(vectors)
        rough = torch._int_mm(torch.from_numpy(whole.astype(np.int8)), self.rounded)  # (N, vocabulary), exact so far
        lost, length = np.linalg.norm(vectors - whole, axis=1).tolist(), np.linalg.norm(vectors, axis=1).tolist()
        lines = zip(rough, torch.from_numpy(vectors), lost, length, strict=True)
        return torch.tensor([self.best(*line, banned) for line in lines])

    def best(self, rough: Tensor, vector: Tensor, lost: float, length: float, banned: Tensor) -> int:
        """The highest of one line: what could reach the full score of the roughly best is scored in full."""
        scores = self.scores.copy_(rough).mul_(self.steps)
        if len(banned):
            scores.index_fill_(0, banned, -torch.inf)
        best = int(scores.numpy().argmax())
        reached = float(self.table[best].dot(vector))
        scores.add_(self.norms, alpha=CAREFUL * lost).add_(self.errors, alpha=CAREFUL * length)
        could_be = np.flatnonzero(scores.numpy() >= reached)  # ten times as fast as torch's nonzero
        if len(could_be) == 1:
            return best
        some = torch.from_numpy(could_be)
        return int(some[(self.table[some] @ vector).argmax()])
