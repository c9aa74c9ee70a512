"""The likeliest of very many tokens, found in a small copy of their table and made sure of in the table itself."""

import numpy as np
import torch
from torch import Tensor

MANY = 4096  # tokens from which on it pays
ROWS_AT_ONCE = 8192
CAREFUL = 1.001  # the bounds themselves are rounded


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
        self.rounded = rounded.t()  # (width, vocabulary), each token's numbers still side by side

    def likeliest(self, hidden: Tensor, banned: Tensor) -> Tensor:
        """(N, width) to (N,): the token with the highest score among those that may be said."""
        step = (hidden.abs().amax(1, keepdim=True) / 127).clamp(min=torch.finfo(hidden.dtype).tiny)
        whole = (hidden / step).round_()
        rough = torch._int_mm(whole.to(torch.int8), self.rounded).to(hidden.dtype)  # (N, vocabulary), exact so far
        rough.mul_(self.steps).mul_(step)
        rest, size = (hidden - whole * step).norm(dim=1), hidden.norm(dim=1)
        found = []
        for line, vector, lost, length in zip(rough, hidden, rest.tolist(), size.tolist(), strict=True):
            reach = torch.add(self.norms * (CAREFUL * lost), self.errors, alpha=CAREFUL * length)
            line.index_fill_(0, banned, -torch.inf)
            could_be = line + reach >= (line - reach).max()
            some = torch.from_numpy(np.flatnonzero(could_be.numpy()))  # ten times as fast as torch's nonzero
            found.append(int(some[0] if len(some) == 1 else some[(self.table[some] @ vector).argmax()]))
        return torch.tensor(found)
