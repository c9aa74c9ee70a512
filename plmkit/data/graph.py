"""A knowledge graph: entities and relations with their names, and the triples that are known to be true."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plmkit.data.reading.cells import folded, listed, short
from plmkit.errors import InputError, did_you_mean, nearest
from plmkit.language import tr

SUGGESTED = 3  # names, where several contain a word
WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The entities of a graph, or its relations, in the order of their numbers."""

    ids: tuple[str, ...]  # as the files of triples have them
    names: tuple[str, ...]  # as the model reads them

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each id."""
        return {own: number for number, own in enumerate(self.ids)}

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """The numbers of each name, without differences of case and white space."""
        found: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            found.setdefault(folded(name), []).append(number)
        return found

    def find(self, text: str) -> int | None:
        """The number of an id or a name; None if there is none. A name of several is refused."""
        if text in self.numbers:
            return self.numbers[text]
        found = self.by_name.get(folded(text), [])
        if len(found) > 1:
            ids = listed([self.ids[number] for number in found])
            raise InputError(
                tr("'{name}' is the name of {count}: {ids}. Give one of these.", name=text, count=len(found), ids=ids)
            )
        return found[0] if found else None

    def suggestion(self, text: str) -> str:
        """What was perhaps meant, as a question, or nothing: what contains a text's words, or the name most like it."""
        return did_you_mean(*self.containing(text)[:SUGGESTED]) or nearest(short(text), self.names)

    def containing(self, text: str) -> list[str]:
        """The ids, or else the names, that have all words of a text; those with the fewest words first."""
        wanted, found = words_of(text), dict[str, int]()
        for spelling in (each for pair in zip(self.ids, self.names, strict=True) for each in having(wanted, pair)):
            found[spelling] = len(words_of(spelling))
        return sorted(found, key=lambda spelling: found[spelling])


@dataclass(frozen=True, kw_only=True)
class Graph:
    """What the triples of a run say, and of what."""

    entities: Terms
    relations: Terms
    triples: np.ndarray  # (N, 3) int64 numbers of head, relation and tail
    asks_heads: bool = True  # a model was trained to predict heads, and not only tails
    in_one_segment: tuple[str, ...] = ()  # the arrangements whose rows it read in one segment
    row_length: int | None = None  # tokens of the longest rows that it read: longer names were cut

    def same_terms(self, other: "Graph | None") -> bool:
        """Whether another graph has the same entities and relations, with the same numbers."""
        return other is not None and (self.entities, self.relations) == (other.entities, other.relations)

    def numbered(self, rows: Sequence[tuple[str, str, str]]) -> np.ndarray:
        """(N, 3) the numbers of triples given by ids; -1 where the graph does not have one."""
        found = [
            (self.entities.numbers.get(head, -1), self.relations.numbers.get(relation, -1),
             self.entities.numbers.get(tail, -1))
            for head, relation, tail in rows
        ]  # fmt: skip
        return np.array(found, dtype=np.int64).reshape(-1, 3)


def words_of(text: str) -> frozenset[str]:
    """The words of a name or of an id such as /people/person/profession."""
    return frozenset(WORD.findall(text.casefold()))


def having(words: frozenset[str], spellings: Sequence[str]) -> list[str]:
    """The first of these spellings that has all of the words, if one does."""
    return [own for own in spellings if words and words <= words_of(own)][:1]


def keys_of(triples: np.ndarray, entities: int, relations: int) -> np.ndarray:
    """(N,) one number for each triple, different for different ones."""
    head, relation, tail = triples.T
    return np.asarray((head * relations + relation) * entities + tail)


def contained(keys: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(N,) whether each of the keys is among the sorted ones."""
    if not len(known):
        return np.zeros(keys.shape, dtype=bool)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.asarray(known[places] == keys)
