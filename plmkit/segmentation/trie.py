"""A dictionary of words, and all its words in a text at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CODE_BITS = 21  # a code point fits
HIGHEST = 0x110000


def codes_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Found:
    """Words of a dictionary in a text, the shorter before the longer."""

    begins: np.ndarray
    lengths: np.ndarray
    words: np.ndarray  # which word of the dictionary


class Trie:
    """Words by their beginnings; a text is followed from all its characters together, one length after the other."""

    def __init__(self, words: Sequence[str]) -> None:
        self.first = np.full(HIGHEST, -1, dtype=np.int32)  # code point to node
        self.levels: list[tuple[np.ndarray, np.ndarray]] = []  # for each length: keys in order, and their nodes
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        node = np.full(len(words), -1, dtype=np.int64)
        self.nodes = 0
        ends: list[np.ndarray] = []
        text, begins = codes_of("".join(words)), np.cumsum(lengths) - lengths
        for depth in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > depth)
            keys = (np.maximum(node[longer], 0) << CODE_BITS) | text[begins[longer] + depth]
            keys, places = np.unique(keys, return_inverse=True)
            node[longer] = self.nodes + places
            made = np.arange(self.nodes, self.nodes + len(keys))
            if depth == 0:
                self.first[keys] = made
            else:
                self.levels.append((keys, made))
            self.nodes += len(keys)
            word = np.full(len(keys), -1, dtype=np.int32)
            done = longer[lengths[longer] == depth + 1]
            word[node[done] - made[0]] = done
            ends.append(word)
        self.word = np.concatenate([np.zeros(0, dtype=np.int32), *ends])  # node to word, -1 for a mere beginning

    def find(self, codes: np.ndarray) -> Found:
        """Every word at every place."""
        node = self.first[codes].astype(np.int64)
        begins = np.flatnonzero(node >= 0)
        node = node[begins]
        found = [(begins, np.ones(len(begins), dtype=np.int64), self.word[node])]
        for depth, (keys, nodes) in enumerate(self.levels, start=1):
            inside = begins + depth < len(codes)
            begins, node = begins[inside], node[inside]
            wanted = (node << CODE_BITS) | codes[begins + depth]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[place] == wanted
            begins, node = begins[hit], nodes[place[hit]]
            if not len(begins):
                break
            found.append((begins, np.full(len(begins), depth + 1, dtype=np.int64), self.word[node]))
        begins, lengths, words = (np.concatenate(part) for part in zip(*found, strict=True))
        real = words >= 0
        return Found(begins=begins[real], lengths=lengths[real], words=words[real])
