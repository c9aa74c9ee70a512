"""Rows of text, written side by side."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.contract import GeneratingModel
from plmkit.generation.choosing import choose
from plmkit.generation.row import Row
from plmkit.generation.shortlist import MANY, Shortlist
from plmkit.generation.writing import Writing
from plmkit.layers.cache import Cache
from plmkit.training.threads import look

FEW = 16  # rows for which a shortlist is faster than the whole table
WORTH_IT = 32  # tokens from which on preparing pays


class Writer:
    """A model and its head over the vocabulary, which may say any ordinary token, or the end."""

    def __init__(
        self,
        model: GeneratingModel[Any],
        vocabulary: torch.nn.Module,
        size: int,
        banned: Sequence[int],
        device: torch.device,
    ) -> None:
        self.model, self.vocabulary, self.size = model, vocabulary, size
        self.banned = torch.tensor(banned, dtype=torch.long, device=device)
        self.device = device
        self.shortlist: Shortlist | None = None
        self.drafts = True  # at temperature 0, several tokens are tried at once

    def read(self, tokens: Sequence[Sequence[int]], cache: Cache) -> Tensor:
        """Take the same number of tokens in each row; gives (B, n, width)."""
        look()
        return self.model.extend(torch.tensor(tokens, dtype=torch.long, device=self.device), cache)

    def scores(self, hidden: Tensor) -> Tensor:
        """(N, width) to (N, vocabulary); tokens that are never written have none."""
        scores = self.vocabulary(hidden)[:, : self.size]  # a table may have more rows than there are tokens
        return scores.index_fill_(1, self.banned, -torch.inf) if len(self.banned) else scores

    def likeliest(self, hidden: Tensor) -> Tensor:
        """(N, width) to (N,) tokens."""
        if self.shortlist is None or len(hidden) > FEW:
            return self.scores(hidden).argmax(-1)
        return self.shortlist.likeliest(hidden, self.banned)

    def prepare(self) -> None:
        """For many greedy tokens: a copy of the vocabulary's table that is read faster, where there is one."""
        table = getattr(self.vocabulary, "table", None)
        if self.shortlist is not None or table is None or self.size < MANY:
            return
        if table.device.type == "cpu" and table.dtype == torch.float32:
            self.shortlist = Shortlist(table.detach()[: self.size])

    def start(self, prompts: Sequence[Sequence[int]], longest: int) -> tuple[Cache, Tensor]:
        """Read what all prompts have, up to the length of the shortest; what they share is read once."""
        shortest = min(map(len, prompts))
        shared = common(prompts, shortest)
        rows = 1 if shared else len(prompts)
        cache = self.model.begin(rows, longest)
        hidden = self.read([prompts[0][:shared]], cache) if shared else None
        if shared and len(prompts) > 1:
            cache.pick(torch.zeros(len(prompts), dtype=torch.long, device=self.device))
        if shared == shortest:
            assert hidden is not None
            return cache, hidden[:, -1].expand(len(prompts), -1)
        return cache, self.read([prompt[shared:shortest] for prompt in prompts], cache)[:, -1]


def common(prompts: Sequence[Sequence[int]], longest: int) -> int:
    """How many first tokens all prompts share."""
    return next((place for place in range(longest) if len({prompt[place] for prompt in prompts}) > 1), longest)


def write(writer: Writer, rows: Sequence[Row], writing: Writing) -> Iterator[tuple[int, str]]:
    """Which row, and what it says next, as soon as it can be said; the rows know the rest.

    No row is padded: a longer prompt is still being read while a shorter one is already gone on with.
    """
    if writing.greedy and max(row.room for row in rows) >= WORTH_IT:
        writer.prepare()
    live = list(range(len(rows)))
    cache, last = writer.start([row.prompt for row in rows], max(len(row.prompt) + row.room for row in rows))
    in_cache = list(live)  # which row each line of the cache is
    while True:
        chosen = chosen_of(writer, last, writing, [rows[number] for number in in_cache], cache.length)
        tokens = []
        for number, token in zip(in_cache, chosen, strict=True):
            row = rows[number]
            if len(row.prompt) > cache.length:
                token = row.prompt[cache.length]
            elif row.ended is None:
                yield number, row.add(token)
            tokens.append([token])
        live = [number for number in in_cache if rows[number].ended is None]
        if not live:
            return
        if 2 * len(live) <= len(in_cache):
            kept = [line for line, number in enumerate(in_cache) if number in live]
            cache.pick(torch.tensor(kept, device=writer.device))
            in_cache, tokens = live, [tokens[line] for line in kept]
        last = writer.read(tokens, cache)[:, -1]


def chosen_of(writer: Writer, last: Tensor, writing: Writing, rows: Sequence[Row], length: int) -> list[int]:
    """A token for each row; one that still reads its prompt draws nothing."""
    if writing.greedy:
        return writer.likeliest(last).tolist()
    draws = torch.tensor([row.rng.random() if len(row.prompt) <= length else 0.0 for row in rows])
    return choose(writer.scores(last), writing, draws).tolist()
