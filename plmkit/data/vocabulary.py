"""The tokens a model knows: their names, their numbers, and which of them steer instead of speak."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plmkit.errors import InputError

ROLES = ("pad", "unknown", "cls", "sep", "mask")
PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # BERT's names
ALBERT_NAMES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_NAMES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
KNOWN_NAMES = (SPECIAL_TOKENS, ALBERT_NAMES, ROBERTA_NAMES)

CONTINUATION = "##"  # at a piece that goes on with a word: BERT
BYTE_SPACE = "\u0120"  # at a piece that begins a word, the byte of its space: GPT-2, RoBERTa
META_SPACE = "\u2581"  # at a piece that begins a word: SentencePiece


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Every token in order of its number, the numbers of the special ones, and how they frame a row."""

    tokens: tuple[str, ...]
    pad: int
    unknown: int
    cls: int
    sep: int
    mask: int
    special: frozenset[int]  # never hidden, never ordinary text
    mark: str = CONTINUATION  # how a token shows whether it begins a word
    separators: int = 1  # between the two texts of a pair
    second: int = 1  # the segment of the second text

    @classmethod
    def from_tokens(
        cls,
        tokens: Iterable[str],
        *,
        also_special: Iterable[int] = (),
        named: Mapping[str, str] | None = None,
        mark: str = CONTINUATION,
    ) -> "Vocabulary":
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
        names = find_names(number, named or {})
        if missing := [name for name in names if name not in number]:
            raise InputError(
                f"The vocabulary of {len(tokens)} tokens has no {', '.join(missing)}."
                f" It needs all of {' '.join(names)}."
            )
        roles = {role: number[name] for role, name in zip(ROLES, names, strict=True)}
        if len(set(roles.values())) < len(roles):
            raise InputError(f"The special tokens are {' '.join(names)}: each needs a name of its own.")
        return cls(tokens=tokens, special=frozenset({*roles.values(), *also_special}), mark=mark, **roles)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def roles(self) -> dict[str, str]:
        """The names of the special tokens by what they are for."""
        return {role: self.tokens[getattr(self, role)] for role in ROLES}

    def specials(self, texts: int) -> int:
        """How many special tokens frame a row of one text or two."""
        return 2 if texts == 1 else 2 + self.separators

    def is_ordinary(self, tokens: np.ndarray) -> np.ndarray:
        """True where a token is text, False where it is special; the shape of `tokens`."""
        return self._ordinary[tokens]

    def names(self, ids: Iterable[int]) -> list[str]:
        """The tokens as they are written: `##`, `\u0120`, `\u2581` and all."""
        return [self.tokens[number] for number in ids]

    @cached_property
    def is_continuation(self) -> np.ndarray:
        """For each token of the vocabulary: does it continue a word?

        `##ing` does; of byte and SentencePiece tokens all that bear no space, punctuation too (fairseq,
        get_whole_word_mask). A text's first token begins a word whatever is said here.
        """
        if self.mark == CONTINUATION:
            return np.array([token.startswith(CONTINUATION) and token != CONTINUATION for token in self.tokens])
        return np.array([not token.startswith(self.mark) for token in self.tokens]) & self._ordinary

    @cached_property
    def ordinary(self) -> np.ndarray:
        """The numbers of all tokens that are text."""
        return np.flatnonzero(self._ordinary)

    @cached_property
    def _ordinary(self) -> np.ndarray:
        ordinary = np.ones(len(self.tokens), dtype=bool)
        ordinary[list(self.special)] = False
        return ordinary


def find_names(known: Iterable[str], named: Mapping[str, str]) -> tuple[str, ...]:
    """A name for each role: as the tokenizer's files say, for the rest the known set that fits best."""
    known = frozenset(known)
    sets = [tuple(named.get(role, name) for role, name in zip(ROLES, names, strict=True)) for names in KNOWN_NAMES]
    return max(sets, key=lambda names: sum(name in known for name in names))
