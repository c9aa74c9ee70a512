"""Relative attention of queries with contexts of equal length."""

from itertools import product

import torch
from torch import Tensor

QUERIES_AT_ONCE = 128  # of one head: its scores stay in cache


def plain_band(contents: Tensor, places: Tensor, keys: Tensor, values: Tensor, distances: Tensor) -> Tensor:
    """Reference of `Band.mix`: query i attends to as many keys, from i on, as there are distances."""
    queries, reach = contents.shape[2], distances.shape[-1]
    found = []
    for query in range(queries):
        seen = slice(query, query + reach)
        by_content = (contents[:, :, query, :, None] * keys[..., seen]).sum(2)
        by_distance = (places[:, :, query, :, None] * distances).sum(2)
        found.append(((by_content + by_distance).softmax(-1)[..., None] * values[:, :, seen]).sum(2))
    return torch.stack(found, dim=2)


class Band:
    """Scores by distance are written directly at their keys and those by content added: no shift, no copy.

    Query i attends to the keys from i to i + reach - 1, so in the (queries, keys) matrix of scores its own begin one
    column later each time. In a view with rows that are one longer, they are aligned. For inference only.
    """

    def __init__(self, reach: int, like: Tensor) -> None:
        self.reach = reach
        self.scores = like.new_empty(QUERIES_AT_ONCE * (reach - 1 + QUERIES_AT_ONCE))

    def mix(self, contents: Tensor, places: Tensor, keys: Tensor, values: Tensor, distances: Tensor) -> Tensor:
        """(B, heads, Q, width) attention output, given queries of content and of distance, (B, heads, Q, width) each.

        Keys are (B, heads, width, reach - 1 + Q), values (B, heads, reach - 1 + Q, width) and distances, from the
        farthest to 0, (heads, width, reach).
        """
        found = torch.empty_like(contents)
        for begin in range(0, contents.shape[2], QUERIES_AT_ONCE):
            queries = slice(begin, min(begin + QUERIES_AT_ONCE, contents.shape[2]))
            seen = slice(begin, queries.stop + self.reach - 1)
            scores, within, beyond = self.tables(queries.stop - begin)
            for row, head in product(range(len(contents)), range(contents.shape[1])):
                beyond.fill_(-torch.inf)
                torch.mm(places[row, head, queries], distances[head], out=within)
                torch.addmm(scores, contents[row, head, queries], keys[row, head, :, seen], out=scores)
                torch.softmax(scores, -1, out=scores)
                torch.mm(scores, values[row, head, seen], out=found[row, head, queries])
        return found

    def tables(self, queries: int) -> tuple[Tensor, Tensor, Tensor]:
        """Views of the scores: (queries, keys) all, (queries, reach) those within reach by distance, and the others."""
        keys = self.reach - 1 + queries
        within = self.scores.as_strided((queries, self.reach), (keys + 1, 1))
        beyond = self.scores[self.reach :].as_strided((queries - 1, queries), (keys + 1, 1))
        return self.scores[: queries * keys].view(queries, keys), within, beyond
