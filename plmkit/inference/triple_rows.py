"""Triples in the rows that a model was trained on, for any names: batches to predict what is missing of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from plmkit.corruption.arrange.triples import (
    HEAD,
    RELATION,
    TAIL,
    CorruptedTriples,
    EntityCloze,
    MissingEntity,
    MissingRelation,
    TriplePlan,
    TripleRows,
    fitted,
)
from plmkit.data.batch import Batch, States, as_batch
from plmkit.data.graph import Graph
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.inference.reader import Reader
from plmkit.training.threads import look

TOKENS_AT_ONCE = 8_192  # of a batch, padding included
ROWS_AT_ONCE = 512


@dataclass(frozen=True, kw_only=True)
class Names:
    """The tokens of names of entities and relations, one after another."""

    store: TokenStore
    entities: np.ndarray  # (E, 2) where each begins and ends
    relations: np.ndarray  # (R, 2)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(E,) tokens of the name of each entity."""
        return np.asarray(self.entities[:, 1] - self.entities[:, 0])

    def tokens_of(self, entity: int) -> np.ndarray:
        begin, end = self.entities[entity].tolist()
        return np.asarray(self.store.tokens[begin:end], dtype=np.int64)


def names_of(reader: Reader, graph: Graph, entities: Sequence[str] = (), relations: Sequence[str] = ()) -> Names:
    """Those of a graph, and then others that it does not have."""
    own = [*graph.entities.names, *entities]
    tokens, lengths = reader.tokenizer.encode_many([*own, *graph.relations.names, *relations])
    borders = np.concatenate([[0], np.cumsum(lengths)])
    nothing = np.zeros(0, dtype=np.int64)
    store = TokenStore(tokens=tokens, sentences=borders, documents=nothing, sources=nothing, survey=Survey())
    stretches = np.stack([borders[:-1], borders[1:]], axis=1)
    return Names(store=store, entities=stretches[: len(own)], relations=stretches[len(own) :])


class TripleReader:
    """A model that reads triples of a graph."""

    def __init__(self, reader: Reader, names: Names) -> None:
        self.reader, self.names = reader, names
        self.one_segment = (reader.architecture.segment_count or 1) < 2
        self.in_one_segment = reader.graph.in_one_segment if reader.graph else ()
        trained = reader.graph.row_length if reader.graph else None
        longest = reader.max_length if trained is None else min(trained, reader.max_length)
        self.length = longest - 2 * (reader.tokenizer.vocabulary.separators - 1)

    def kind(self, kind: type[TripleRows]) -> TripleRows:
        single = self.one_segment or kind.__name__ in self.in_one_segment
        return kind().in_one_segment() if single else kind()

    def missing_entity(self, triples: np.ndarray, side: int) -> tuple[TripleRows, TriplePlan]:
        """Rows with one [MASK] for the entity at a side, whatever stands there."""
        stretches = self.stretches(triples)
        stretches[:, side] = [0, 1]  # any token: it is masked
        return self.with_mask(MissingEntity, stretches, side)

    def cloze(self, triples: np.ndarray, side: int, length: int) -> tuple[TripleRows, TriplePlan]:
        """The same with this number of [MASK]."""
        stretches = self.stretches(triples)
        stretches[:, side] = [0, length]
        return self.with_mask(EntityCloze, stretches, side)

    def with_mask(
        self, kind: type[MissingEntity], stretches: np.ndarray, side: int
    ) -> tuple[TripleRows, TriplePlan]:  # fmt: skip
        rows, masked = self.kind(kind), np.full(len(stretches), side)
        plan = TriplePlan(
            stretches=fitted(stretches.reshape(-1, 6), masked, self.length),
            segments=rows.in_segments(len(stretches)),
            masked=masked,
            labels={"entity": np.zeros(len(stretches), dtype=np.int64)},
        )
        return rows, plan

    def missing_relation(self, triples: np.ndarray) -> tuple[TripleRows, TriplePlan]:
        rows = self.kind(MissingRelation)
        segments = rows.in_segments(len(triples))[:, [HEAD, RELATION]]
        stretches = self.stretches(triples)[:, [HEAD, TAIL]].reshape(-1, 4)
        labels = {"relation": np.zeros(len(triples), dtype=np.int64)}
        plan = TriplePlan(stretches=fitted(stretches, None, self.length), segments=segments, labels=labels)
        return rows, plan

    def whole(self, triples: np.ndarray) -> tuple[TripleRows, TriplePlan]:
        rows = self.kind(CorruptedTriples)
        plan = TriplePlan(
            stretches=fitted(self.stretches(triples).reshape(-1, 6), None, self.length),
            segments=rows.in_segments(len(triples)),
            labels={"corrupted_triple": np.zeros(len(triples), dtype=np.int64)},
        )
        return rows, plan

    def stretches(self, triples: np.ndarray) -> np.ndarray:
        """(N, 3, 2) where the names of head, relation and tail begin and end."""
        names = self.names
        parts = [names.entities[triples[:, HEAD]], names.relations[triples[:, RELATION]]]
        return np.stack([*parts, names.entities[triples[:, TAIL]]], axis=1)

    @torch.inference_mode()
    def states(self, rows: TripleRows, plan: TriplePlan, head: str) -> Iterator[tuple[np.ndarray, States, Batch]]:
        """The rows in batches of like length, with the states that a head needs of them."""
        sizes = plan.stretches[:, 1::2].sum(1) - plan.stretches[:, ::2].sum(1)
        order, start = np.argsort(-sizes, kind="stable"), 0
        while start < len(order):
            look()
            many = max(1, min(ROWS_AT_ONCE, TOKENS_AT_ONCE // (int(sizes[order[start]]) + 8)))
            chosen = order[start : start + many]
            made = rows.fill(self.names.store, plan, chosen, self.reader.tokenizer.vocabulary, self.length)
            batch = as_batch(made).to(self.reader.device)
            network = self.reader.network
            needed = network.all_heads()[head].needed(batch)
            yield chosen, network.model(replace(batch, needed=needed)), batch
            start += many
