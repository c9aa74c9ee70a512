"""Triples of a head, a relation and a tail: rows that lack an entity or the relation, and rows that may be false."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from plmkit.corruption.arrange.dialogue import shortened
from plmkit.corruption.contract import Arrangement
from plmkit.data.batch import IGNORE
from plmkit.data.graph import contained, keys_of
from plmkit.data.rows import Rows, StretchPlan, fill
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

HEAD, RELATION, TAIL = range(3)
ROUNDS = 100  # of drawing again what was a true triple


@dataclass(frozen=True, kw_only=True)
class TriplePlan(StretchPlan):
    """Each row is a triple, or two parts of it."""

    masked: np.ndarray | None = None  # (N,) which of its parts is masked

    def only(self, chosen: np.ndarray) -> Self:
        made = super().only(chosen)
        return made if self.masked is None else replace(made, masked=self.masked[chosen])


@dataclass(frozen=True, kw_only=True)
class TripleRows(Arrangement[TriplePlan]):
    """Settings of all rows of triples: `[CLS] head [SEP] relation [SEP] tail [SEP]` in the segments 0, 1, 0."""

    relation_segment: int = 1  # segment of the relation; 0: all are in one segment, as RoBERTa has only one
    triples: ClassVar[bool] = True
    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 3

    def __post_init__(self) -> None:
        if self.relation_segment not in (0, 1):
            raise SettingError(
                tr("corruption.relation_segment must be 0 or 1; found {segment}.", segment=self.relation_segment)
            )

    @property
    def segments_used(self) -> int:
        return 1 + self.relation_segment

    def in_one_segment(self) -> Self:
        return replace(self, relation_segment=0)

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """All names must have tokens, those of held-out triples included, as all are of one graph."""
        lacking = np.flatnonzero(np.diff(store.documents) != 3)
        if len(lacking):
            raise InputError(
                tr(
                    "{where}: in this file, {count:,} triples have a name without any token of the vocabulary. Rename "
                    "what they name, or remove them.",
                    where=where,
                    count=len(lacking),
                )
            )

    def notes(self, store: TokenStore, documents: np.ndarray, length: int) -> Iterator[str]:
        """How many entities the model cannot tell from others, as their names have the same tokens."""
        names, _ = names_of_terms(store)
        counts = np.bincount(first_alike(store, names))
        alike = int(counts[counts > 1].sum())
        if alike:
            yield tr(
                "{alike:,} of {entities:,} entities have names with the same tokens as another, perhaps unknown ones: "
                "the model cannot tell these apart when it reads them.",
                alike=alike,
                entities=len(names),
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> TriplePlan:
        made = self.rows(store, documents, rng)
        return replace(made, stretches=fitted(made.stretches, made.masked, length))

    @abstractmethod
    def rows(self, store: TokenStore, documents: np.ndarray, rng: np.random.Generator) -> TriplePlan:
        """The rows of one epoch, before names are cut."""

    def fill(
        self, store: TokenStore, plan: TriplePlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        return fill(store, replace(plan, labels={}), chosen, vocabulary, length)

    def in_segments(self, rows: int) -> np.ndarray:
        """(N, 3)."""
        return np.tile(np.array([0, self.relation_segment, 0], dtype=np.int8), (rows, 1))


@dataclass(frozen=True, kw_only=True)
class MissingEntity(TripleRows):
    """A triple without its tail or its head, with one [MASK] in the place of that entity (Choi et al., 2021)."""

    both: bool = True  # predict heads too, in rows of their own
    writes: ClassVar[frozenset[str]] = frozenset({"entities"})

    @property
    def asks_heads(self) -> bool:
        return self.both

    def rows(self, store: TokenStore, documents: np.ndarray, rng: np.random.Generator) -> TriplePlan:
        assert store.triples is not None
        places = [TAIL, HEAD] if self.both else [TAIL]
        masked = np.repeat(places, len(documents))
        documents = np.tile(documents, len(places))
        stretches = names_of_triples(store)[documents]
        rows = np.arange(len(documents))
        return TriplePlan(
            stretches=self.with_blanks(stretches, rows, masked).reshape(-1, 6),
            segments=self.in_segments(len(documents)),
            labels={"entity": store.triples[documents, masked]},
            masked=masked,
        )

    def with_blanks(self, stretches: np.ndarray, rows: np.ndarray, masked: np.ndarray) -> np.ndarray:
        """One position for the entity that is masked, however long its name is."""
        stretches[rows, masked, 1] = stretches[rows, masked, 0] + 1
        return stretches

    def fill(
        self, store: TokenStore, plan: TriplePlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        rows = super().fill(store, plan, chosen, vocabulary, length)
        blank = blanks(plan, chosen, vocabulary, rows.tokens.shape[1])
        return self.asked(rows, blank, plan.labels["entity"][chosen], vocabulary)

    def asked(self, rows: Rows, blank: np.ndarray, entity: np.ndarray, vocabulary: Vocabulary) -> Rows:
        """The rows with masks, and what is to be predicted there."""
        return replace(
            rows,
            tokens=np.where(blank, vocabulary.mask, rows.tokens),
            entities=np.where(blank, entity[:, None], IGNORE),
        )


@dataclass(frozen=True, kw_only=True)
class EntityCloze(MissingEntity):
    """A triple without its tail or its head, with a [MASK] for each token of its name, which is to be predicted."""

    writes: ClassVar[frozenset[str]] = frozenset({"targets"})

    def with_blanks(self, stretches: np.ndarray, rows: np.ndarray, masked: np.ndarray) -> np.ndarray:
        return stretches

    def asked(self, rows: Rows, blank: np.ndarray, entity: np.ndarray, vocabulary: Vocabulary) -> Rows:
        return replace(
            rows,
            tokens=np.where(blank, vocabulary.mask, rows.tokens),
            targets=np.where(blank, rows.tokens, IGNORE),
        )


@dataclass(frozen=True, kw_only=True)
class MissingRelation(TripleRows):
    """`[CLS] head [SEP] tail [SEP]` in the segments 0, 1, to predict the relation (yao8839836/kg-bert)."""

    writes: ClassVar[frozenset[str]] = frozenset({"relation"})

    def rows(self, store: TokenStore, documents: np.ndarray, rng: np.random.Generator) -> TriplePlan:
        assert store.triples is not None
        segments = np.tile(np.array([0, self.relation_segment], dtype=np.int8), (len(documents), 1))
        return TriplePlan(
            stretches=names_of_triples(store)[documents][:, [HEAD, TAIL]].reshape(-1, 4),
            segments=segments,
            labels={"relation": store.triples[documents, RELATION]},
        )

    def fill(
        self, store: TokenStore, plan: TriplePlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        return replace(
            super().fill(store, plan, chosen, vocabulary, length), relation=np.asarray(plan.labels["relation"][chosen])
        )


@dataclass(frozen=True, kw_only=True)
class CorruptedTriples(TripleRows):
    """True triples, and others whose head or tail, by a coin flip, is a random entity (yao8839836/kg-bert).

    No triple of the graph is ever one of these others, held-out ones included, and none reads as one of the graph.
    """

    negatives: int = 1  # corrupted triples for each true one; KG-BERT has 5 where it is to rank entities
    writes: ClassVar[frozenset[str]] = frozenset({"corrupted_triple"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negatives < 1:
            raise SettingError(tr("corruption.negatives must be at least 1; found {count}.", count=self.negatives))

    def rows(self, store: TokenStore, documents: np.ndarray, rng: np.random.Generator) -> TriplePlan:
        assert store.triples is not None
        true = np.asarray(store.triples[documents])
        entity, relation = names_of_terms(store)
        alike = first_alike(store, entity), first_alike(store, relation)
        false = corrupted(np.repeat(true, self.negatives, axis=0), np.asarray(store.triples), rng, alike)
        whole = np.concatenate([true, false])
        parts = [entity[whole[:, HEAD]], relation[whole[:, RELATION]], entity[whole[:, TAIL]]]
        return TriplePlan(
            stretches=np.hstack(parts),
            segments=self.in_segments(len(whole)),
            labels={"corrupted_triple": np.repeat([0, 1], [len(true), len(false)])},
        )

    def fill(
        self, store: TokenStore, plan: TriplePlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        label = np.asarray(plan.labels["corrupted_triple"][chosen])
        return replace(super().fill(store, plan, chosen, vocabulary, length), corrupted_triple=label)


def corrupted(
    triples: np.ndarray, known: np.ndarray, rng: np.random.Generator, alike: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:  # fmt: skip
    """Triples with another head or tail, none of which reads as a known one; those without any are left out.

    `alike` has the first entity, and the first relation, whose name reads as that of each.
    """
    entity, relation = alike
    entities = len(entity)

    def as_read(some: np.ndarray) -> np.ndarray:
        read = np.stack([entity[some[:, HEAD]], relation[some[:, RELATION]], entity[some[:, TAIL]]], axis=1)
        return keys_of(read, entities, len(relation))

    true = np.unique(as_read(known))
    made = triples.copy()
    side = np.where(rng.random(len(made)) < 0.5, HEAD, TAIL)
    wrong = np.arange(len(made))
    for _ in range(ROUNDS):
        made[wrong, side[wrong]] = rng.integers(entities, size=len(wrong))
        wrong = wrong[contained(as_read(made[wrong]), true)]
        if not len(wrong):
            break
        made[wrong] = triples[wrong]
        side[wrong] = np.where(rng.random(len(wrong)) < 0.5, HEAD, TAIL)
    return np.delete(made, wrong, axis=0)


def names_of_triples(store: TokenStore) -> np.ndarray:
    """(D, 3, 2) where the names of head, relation and tail begin and end, for every document."""
    first = np.asarray(store.documents[:-1])[:, None] + np.arange(3)
    return np.stack([store.sentences[first], store.sentences[first + 1]], axis=2)


def names_of_terms(store: TokenStore) -> tuple[np.ndarray, np.ndarray]:
    """(E, 2) and (R, 2) where the name of each entity and of each relation begins and ends, at one of its places."""
    assert store.triples is not None
    stretches, triples = names_of_triples(store), np.asarray(store.triples)
    made = []
    for columns in ([HEAD, TAIL], [RELATION]):
        numbers, at = triples[:, columns].ravel(), stretches[:, columns].reshape(-1, 2)
        names = np.zeros((int(numbers.max()) + 1, 2), dtype=np.int64)
        names[numbers[::-1]] = at[::-1]  # the first place remains
        made.append(names)
    return made[0], made[1]


def first_alike(store: TokenStore, names: np.ndarray) -> np.ndarray:
    """(N,) for each name the number of the first one with the same tokens."""
    first: dict[bytes, int] = {}
    tokens = [np.asarray(store.tokens[begin:end]).tobytes() for begin, end in names.tolist()]
    return np.array([first.setdefault(name, number) for number, name in enumerate(tokens)], dtype=np.int64)


def fitted(stretches: np.ndarray, masked: np.ndarray | None, length: int) -> np.ndarray:
    """The stretches with long names cut at their end, the longest of a row first, so that rows fit."""
    many = stretches.shape[1] // 2
    room = length - 1 - many  # [CLS], and a separator after each
    at = stretches.reshape(-1, many, 2)
    sizes = at[:, :, 1] - at[:, :, 0]
    if (sizes.sum(axis=1) <= room).all():
        return stretches
    return np.stack([at[:, :, 0], at[:, :, 0] + shortened(sizes, room)], axis=2).reshape(-1, 2 * many)


def blanks(plan: TriplePlan, chosen: np.ndarray, vocabulary: Vocabulary, width: int) -> np.ndarray:
    """(B, L) True at the positions of the masked part of each row."""
    assert plan.masked is not None and plan.segments is not None
    at = plan.stretches[chosen].reshape(len(chosen), -1, 2)
    sizes = at[:, :, 1] - at[:, :, 0]
    more = (plan.segments[chosen] > 0) * (vocabulary.separators - 1)  # separators before a part in another segment
    begins = 1 + np.cumsum(sizes + 1 + more, axis=1) - sizes - 1  # after [CLS], the parts before and their separators
    rows, part = np.arange(len(chosen)), plan.masked[chosen]
    begin = begins[rows, part][:, None]
    place = np.arange(width)
    return np.asarray((place >= begin) & (place < begin + sizes[rows, part][:, None]))
