"""The tokens a model knows: their names, their numbers, and which of them steer instead of speak."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plmkit.errors import InputError

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Every token in order of its number, and the numbers of the special ones."""

    tokens: tuple[str, ...]
    pad: int
    unknown: int
    cls: int
    sep: int
    mask: int
    special: frozenset[int]  # never hidden, never ordinary text

    @classmethod
    def from_tokens(cls, tokens: Iterable[str], *, also_special: Iterable[int] = ()) -> "Vocabulary":
        """Find the special tokens by name; refuse a list that lacks one or says a token twice."""
        tokens = tuple(tokens)
        number = {token: position for position, token in enumerate(tokens)}
        if not tokens:
            raise InputError("The vocabulary is empty. It needs one token per line.")
        if len(number) < len(tokens):
            again = next(position for position, token in enumerate(tokens) if number[token] != position)
            raise InputError(
                f"The vocabulary holds {tokens[again]!r} twice, as token {again} and as token"
                f" {number[tokens[again]]} (counted from 0). Remove one of them."
            )
        if missing := [name for name in SPECIAL_TOKENS if name not in number]:
            raise InputError(
                f"The vocabulary of {len(tokens)} tokens has no {', '.join(missing)}."
                f" It needs all of {' '.join(SPECIAL_TOKENS)}."
            )
        pad, unknown, first, sep, mask = (number[name] for name in SPECIAL_TOKENS)
        special = frozenset({pad, unknown, first, sep, mask, *also_special})
        return cls(tokens=tokens, pad=pad, unknown=unknown, cls=first, sep=sep, mask=mask, special=special)

    def __len__(self) -> int:
        return len(self.tokens)

    def is_ordinary(self, tokens: np.ndarray) -> np.ndarray:
        """True where a token is text, False where it is special; the shape of `tokens`."""
        return self._ordinary[tokens]

    def names(self, ids: Iterable[int]) -> list[str]:
        """The tokens as text, `##` and all."""
        return [self.tokens[number] for number in ids]

    @cached_property
    def is_continuation(self) -> np.ndarray:
        """For each token of the vocabulary: does it continue a word (`##ing`)?"""
        return np.array([token.startswith(CONTINUATION) and token != CONTINUATION for token in self.tokens])

    @cached_property
    def ordinary(self) -> np.ndarray:
        """The numbers of all tokens that are text."""
        return np.flatnonzero(self._ordinary)

    @cached_property
    def _ordinary(self) -> np.ndarray:
        ordinary = np.ones(len(self.tokens), dtype=bool)
        ordinary[list(self.special)] = False
        return ordinary
