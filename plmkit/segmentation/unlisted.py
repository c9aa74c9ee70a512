"""Words that no dictionary lists, by jieba's two hidden Markov models: one that cuts, one that also tags."""

import warnings
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

FIRST, LAST = 0x4E00, 0x9FD5  # the characters that jieba's models know
NEVER = -3.14e100  # jieba's logarithm of what was never seen
B, E, M, S = range(4)  # a character begins a word, ends it, goes on, or is one; jieba breaks ties by this order
CAME_FROM = ((E, S), (B, M), (B, M), (E, S))
MOST_KEPT = 200_000  # runs whose tags are kept


def jieba_module(name: str) -> Any:
    """A module of jieba, which is loaded late because few need it, and quietly because it complains about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(name)


def runs_of(flags: np.ndarray) -> np.ndarray:
    """(R, 2) begin and end of each run of True."""
    return np.flatnonzero(np.diff(flags, prepend=False, append=False)).reshape(-1, 2)


class Guesser:
    """Joins lone characters to likely words (four states a character)."""

    def __init__(self) -> None:
        model = jieba_module("jieba.finalseg")
        names = "BEMS"
        self.begin = np.array([model.start_P[name] for name in names])
        self.step = np.array([[model.trans_P[old].get(new, NEVER) for new in names] for old in names])
        self.emit = np.full((LAST - FIRST + 1, 4), NEVER)
        for state, name in enumerate(names):
            seen = model.emit_P[name]
            codes = np.array([ord(letter) for letter in seen])
            known = (codes >= FIRST) & (codes <= LAST)
            self.emit[codes[known] - FIRST, state] = np.array(list(seen.values()))[known]

    def starts(self, codes: np.ndarray, runs: np.ndarray) -> np.ndarray:
        """(N,) True where a word begins; looks at the runs (R, 2) alone, all together, one character after another."""
        starts = np.ones(len(codes), dtype=bool)
        runs = runs[
            np.argsort(runs[:, 0] - runs[:, 1], kind="stable")
        ]  # the longest first, so that the rest is a slice
        sizes = runs[:, 1] - runs[:, 0]
        if not len(runs):
            return starts
        score = self.begin + self.emit[codes[runs[:, 0]] - FIRST]  # (R, 4)
        last = np.zeros((int(sizes[0]), len(runs), 4), dtype=np.int8)
        for place in range(1, int(sizes[0])):
            going = int(np.searchsorted(-sizes, -place, side="left"))
            emit = self.emit[codes[runs[:going, 0] + place] - FIRST]
            new = score.copy()
            for state, (low, high) in enumerate(CAME_FROM):
                by_low = score[:going, low] + self.step[low, state] + emit[:, state]
                by_high = score[:going, high] + self.step[high, state] + emit[:, state]
                new[:going, state] = np.maximum(by_low, by_high)
                last[place, :going, state] = np.where(by_high >= by_low, high, low)
            score = new
        chosen = np.where(score[:, S] >= score[:, E], S, E)
        for place in range(int(sizes[0]) - 1, -1, -1):
            going = int(np.searchsorted(-sizes, -place, side="left"))
            now = chosen[:going]
            starts[runs[:going, 0] + place] = (now == B) | (now == S)
            if place:
                chosen[:going] = last[place, np.arange(going), now]
        return starts


class Tagger:
    """Joins lone characters to words with a part of speech (64 tags times four states)."""

    def __init__(self) -> None:
        model = jieba_module("jieba.posseg")
        self.names = sorted(model.trans_P, reverse=True)  # jieba breaks ties by the name: argmax takes the first
        number = {name: place for place, name in enumerate(self.names)}
        self.begin = np.array([model.start_P[name] for name in self.names])
        self.step = np.full((len(self.names), len(self.names)), -np.inf)
        for old, news in model.trans_P.items():
            for new, value in news.items():
                self.step[number[old], number[new]] = value
        self.leads = np.isfinite(self.step)
        self.emissions = [model.emit_P[name] for name in self.names]
        self.states = {
            letter: np.array(sorted(number[name] for name in names)) for letter, names in model.char_state_tab_P.items()
        }
        self.all = np.arange(len(self.names))
        self.of_letter: dict[str, np.ndarray] = {}  # how likely each state shows the letter
        self.known: dict[str, tuple[tuple[int, str], ...]] = {}

    @property
    def tags(self) -> list[str]:
        return [tag for _, tag in self.names]

    def words(self, run: str) -> tuple[tuple[int, str], ...]:
        """Where in the run each word begins, and its tag."""
        if run not in self.known:
            if len(self.known) >= MOST_KEPT:
                self.known.clear()
            self.known[run] = self.look_up(run)
        return self.known[run]

    def look_up(self, run: str) -> tuple[tuple[int, str], ...]:
        states = self.states.get(run[0], self.all)
        score = self.begin[states] + self.emit(states, run[0])
        seen = [states]
        back = []
        for letter in run[1:]:
            expected = self.leads[states].any(axis=0)
            now = self.states.get(letter, self.all)
            now = now[expected[now]]
            if not len(now):
                now = np.flatnonzero(expected) if expected.any() else self.all
            ways = score[:, None] + self.step[states[:, None], now] + self.emit(now, letter)
            best = ways.argmax(axis=0)
            score = ways[best, np.arange(len(now))]
            back.append(best)
            seen.append(now)
            states = now
        place = int(score.argmax())
        path = []
        for number in range(len(run) - 1, -1, -1):
            path.append(self.names[seen[number][place]])
            if number:
                place = int(back[number - 1][place])
        path.reverse()
        return tuple(words_on(path))

    def emit(self, states: np.ndarray, letter: str) -> np.ndarray:
        known = self.of_letter.get(letter)
        if known is None:
            known = np.array([seen.get(letter, NEVER) for seen in self.emissions])
            self.of_letter[letter] = known
        return known[states]


def words_on(path: list[tuple[str, str]]) -> Iterable[tuple[int, str]]:
    """Words of a path of (state, tag): a word has the tag of its last character, as in jieba."""
    begin = 0
    for place, (state, tag) in enumerate(path):
        if state == "B":
            begin = place
        elif state in "ES":
            yield (begin if state == "E" else place), tag
            begin = place + 1
    if begin < len(path):
        yield begin, path[begin][1]


@cache
def guesser() -> Guesser:
    return Guesser()


@cache
def tagger() -> Tagger:
    return Tagger()
