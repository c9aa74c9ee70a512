"""Chinese words the way jieba finds them, from its dictionary and its hidden Markov model, a block of text at once.

jieba follows one sentence after the other in Python. Here all places of a text are followed together in numpy, which
is many times faster and finds the same words.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log

import numpy as np

from plmkit.segmentation.letters import LETTER
from plmkit.segmentation.trie import Found, Trie


class Cutter:
    """A dictionary with frequencies, and the likeliest way to cut a text into its words."""

    def __init__(self, words: Sequence[str], frequencies: Sequence[int]) -> None:
        self.trie = Trie(words)
        self.total = sum(frequencies)
        whole = log(self.total)
        logs = {number: log(number) - whole for number in set(frequencies) if number}
        self.weights = np.array([logs.get(number, -np.inf) for number in frequencies])  # -inf: struck out
        self.unlisted = log(1) - whole

    def cut(self, codes: np.ndarray, starts: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray, Found]:
        """(N,) twice: where words begin, and which word of the dictionary begins there, or -1; and all it found.

        `starts` are those that letters, digits and signs give by themselves.
        """
        found = self.words_in(codes, starts, kinds)
        number = np.full(len(codes), -1, dtype=np.int32)
        begins, within = np.zeros(len(codes), dtype=bool), np.zeros(len(codes) + 1, dtype=np.int64)
        chosen = likeliest(found, self.weights[found.words], self.unlisted, len(codes))
        number[found.begins[chosen]] = found.words[chosen]
        long = chosen[found.lengths[chosen] > 1]
        begins[found.begins[long]] = True
        within[found.begins[long] + 1] += 1
        within[found.begins[long] + found.lengths[long]] -= 1
        return (starts | begins) & ~(np.cumsum(within)[:-1] > 0), number, found

    def words_in(self, codes: np.ndarray, starts: np.ndarray, kinds: np.ndarray) -> Found:
        """The dictionary's words in the text, but none that begins or ends amid letters: no ham in Birmingham."""
        found = self.trie.find(codes)
        amid = np.append((kinds == LETTER) & ~starts, False)
        real = ~amid[found.begins] & ~amid[found.begins + found.lengths] & np.isfinite(self.weights[found.words])
        return Found(begins=found.begins[real], lengths=found.lengths[real], words=found.words[real])


def likeliest(found: Found, weights: np.ndarray, unlisted: float, length: int) -> np.ndarray:
    """Which of the words found lie on the likeliest path; ties go to the longer word, as in jieba.

    Text is cut into stretches at the places that no word crosses, and the path is followed from the end of each
    stretch, in all stretches together.
    """
    bare = np.ones(length, dtype=bool)
    bare[found.begins] = False  # jieba lets a character stand alone if it is a word, or if no word begins with it
    alone = np.flatnonzero(bare)
    here = np.arange(length)
    furthest = here + 1
    furthest[found.begins] = found.begins + found.lengths  # of several words in one place the last, longest, counts
    breaks = np.concatenate([[True], np.maximum.accumulate(furthest)[:-1] <= here[1:]])[:length]
    stretch = np.cumsum(breaks) - 1
    limits = np.append(np.flatnonzero(breaks), length)
    to_end = limits[stretch + 1] - here
    slot = here + stretch  # each stretch has a slot of its own for its end

    begins = np.concatenate([found.begins, alone])
    lengths = np.concatenate([found.lengths, np.ones(len(alone), dtype=np.int64)])
    weights = np.concatenate([weights, np.full(len(alone), unlisted)])
    turn = to_end[begins] * (int(lengths.max(initial=0)) + 1) + lengths
    small = turn.max(initial=0) < 2**16
    order = np.argsort(turn.astype(np.uint16) if small else turn, kind="stable")  # two bytes sort ten times faster
    best = np.full(length + len(limits), -np.inf)
    best[limits[1:] + np.arange(len(limits) - 1)] = 0.0
    route = np.zeros(length + len(limits), dtype=np.int64)
    places, ends, weights = slot[begins[order]], slot[begins[order]] + lengths[order], weights[order]
    edges = np.append(np.flatnonzero(np.diff(turn[order], prepend=-1)), len(order)).tolist()
    for low, high in pairwise(edges):
        place = places[low:high]
        score = weights[low:high] + best[ends[low:high]]
        better = score >= best[place]
        best[place[better]] = score[better]
        route[place[better]] = order[low:high][better]

    path = [np.zeros(0, dtype=np.int64)]
    place = limits[:-1]
    while len(place):
        taken = route[slot[place]]
        path.append(taken)
        place = (place + lengths[taken])[lengths[taken] < to_end[place]]
    chosen = np.concatenate(path)
    return chosen[chosen < len(found.begins)]
