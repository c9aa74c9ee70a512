"""The tokens of a model: their strings, their ids, and which of them are special."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from plmkit.data.spelling import BEGIN_SENTENCE, END_SENTENCE, NO_CHARACTER, WORD_LENGTH, spell, spell_mark
from plmkit.errors import InputError
from plmkit.language import comma, tr

ROLES = ("pad", "unknown", "cls", "sep", "mask")  # masked language models need all of these
OTHER_ROLES = ("end", "extract")
PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # BERT's names
ALBERT_NAMES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_NAMES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
XLNET_NAMES = ("<pad>", "<unk>", "<cls>", "<sep>", "<mask>")
ELMO_NAMES = ("", "<UNK>", "<S>", "</S>", "")  # has no padding and no mask
KNOWN_NAMES = (  # XLNet's also has <s> and </s>, unused
    SPECIAL_TOKENS, ALBERT_NAMES, XLNET_NAMES, ROBERTA_NAMES, ELMO_NAMES,
)  # fmt: skip
WORD_END = "</w>"  # suffix of a piece that ends a word: GPT-1
END_OF_TEXT = "<|endoftext|>"
OTHER_NAMES = {  # GPT-1 separates texts by a line break
    "end": (END_OF_TEXT, "<eos>", "<eod>", f"\n{WORD_END}"),
    "extract": ("_classify_",),
}
MISSING = -1  # the id of a special token that the vocabulary does not have; no token of a text is equal to it
MANY_UNKNOWN = 0.02  # a share of unknown tokens of a corpus, or of training rows, that is worth a warning
MANY_UNKNOWN_INPUT = 0.05  # of the input of a trained model, which may be one short text

CONTINUATION = "##"  # prefix of a piece that continues a word: BERT
BYTE_SPACE = "\u0120"  # prefix of a piece that begins a word, the byte of its space: GPT-2, RoBERTa
META_SPACE = "\u2581"  # prefix of a piece that begins a word: SentencePiece


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """All tokens in order of their ids, the ids of the special tokens, and how they frame a row."""

    tokens: tuple[str, ...]
    pad: int = MISSING
    unknown: int = MISSING
    cls: int = MISSING
    sep: int = MISSING
    mask: int = MISSING
    end: int = MISSING  # after each text; the separator if there is no token for this alone
    extract: int = MISSING  # at the end of a row that a causal model classifies (Radford et al., 2018, 3.3)
    padded: int = 0  # rows of the token embeddings, if more than there are tokens
    special: frozenset[int]  # never masked, never ordinary text
    mark: str = CONTINUATION  # how a token shows whether it begins a word
    separators: int = 1  # between the two texts of a pair
    second: int = 1  # the segment of the second text
    opens: bool = False  # a row begins with the end token: no [CLS], and the tokenizer's files set it
    closes: bool = False  # [CLS] stands last, in a segment of its own, and padding first (Yang et al., 2019)
    spelled: bool = False  # words are read by their characters, those of unknown words too (Peters et al., 2018)

    @classmethod
    def from_tokens(
        cls,
        tokens: Iterable[str],
        *,
        also_special: Iterable[int] = (),
        named: Mapping[str, str] | None = None,
        mark: str = CONTINUATION,
        needed: Iterable[str] = ROLES,
    ) -> "Vocabulary":
        """Find the special tokens by name; reject a list that lacks a needed one or contains a token twice."""
        tokens = tuple(tokens)
        number = {token: position for position, token in enumerate(tokens)}
        if not tokens:
            raise InputError(tr("The vocabulary is empty. It needs one token per line."))
        if len(number) < len(tokens):
            again = next(position for position, token in enumerate(tokens) if number[token] != position)
            raise InputError(
                tr(
                    "The vocabulary contains {token!r} twice, with ids {first} and {second}. Remove one of them.",
                    token=tokens[again],
                    first=again,
                    second=number[tokens[again]],
                )
            )
        names = find_names(number, named or {})
        needed = frozenset(needed)
        if missing := [name for role, name in names.items() if role in needed and name not in number]:
            raise InputError(
                tr(
                    "The vocabulary of {count} tokens has no {missing}. It needs all of {needed}.",
                    count=len(tokens),
                    missing=comma().join(missing),
                    needed=" ".join(name for role, name in names.items() if role in needed),
                )
            )
        roles = {role: number[name] for role, name in names.items() if name in number}
        apart = [place for role, place in roles.items() if role == "end" or place != roles.get("end")]
        if len(set(apart)) < len(apart):
            raise InputError(
                tr("Two special tokens have the same name: {names}. Give each its own.", names=" ".join(names.values()))
            )
        special = frozenset({*roles.values(), *also_special})
        numbers: dict[str, Any] = {"end": roles.get("sep", MISSING), **roles}
        return cls(tokens=tokens, special=special, mark=mark, **numbers)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def rows(self) -> int:
        """Number of rows of the token embeddings."""
        return max(len(self.tokens), self.padded)

    @property
    def roles(self) -> dict[str, str]:
        """The special tokens by role."""
        numbers = {role: getattr(self, role) for role in (*ROLES, *OTHER_ROLES)}
        own = {role: number for role, number in numbers.items() if role != "end" or number != self.sep}
        return {role: self.tokens[number] for role, number in own.items() if number != MISSING}

    def unknown_share(self, tokens: np.ndarray) -> float:
        """The share of unknown tokens among these; no word is unknown that is read by its characters."""
        return 0.0 if self.spelled else float((tokens == self.unknown).mean())

    def lacks(self, roles: Iterable[str]) -> list[str]:
        """The roles for which there is no token."""
        return [role for role in roles if getattr(self, role) == MISSING]

    @property
    def filler(self) -> int:
        """The id at positions that are not read."""
        return max(self.pad, 0)

    @property
    def start(self) -> int:
        """The token that an encoder–decoder reads before it predicts the first one of a target."""
        return self.end if self.cls == MISSING else self.cls

    def source_row(self, tokens: Iterable[int]) -> list[int]:
        """A source as an encoder–decoder reads it: `[CLS] text </s>`, or `text </s>` in a vocabulary without [CLS]."""
        return [*known([self.cls]), *tokens, self.end]

    def frame(self, texts: int) -> tuple[list[int], list[int], list[int]]:
        """The special tokens before a row of one text or two, between the two, and after them.

        A causal language model has no frame, unless its tokenizer's files define one.
        """
        before = self.end if self.opens else self.cls
        after = self.sep if self.extract == MISSING else self.extract
        between = [self.sep] * self.separators if texts == 2 else []
        if self.closes:
            return [], known(between), known([self.sep, self.cls])
        return known([before]), known(between), known([after])

    def specials(self, texts: int) -> int:
        """Number of special tokens that frame a row of one text or two."""
        return sum(map(len, self.frame(texts)))

    @property
    def separator(self) -> int | None:
        """Where the last separator of a framed row is, from its end: -1 for `[SEP]`, -2 for `<sep> <cls>`.

        A causal language model has the token there that it classifies at. None: a row has no separator at its end.
        """
        after = self.frame(1)[2]
        ends = [place for place, token in enumerate(after) if token in (self.sep, self.extract)]
        return ends[-1] - len(after) if ends else None

    def is_ordinary(self, tokens: np.ndarray) -> np.ndarray:
        """True where a token is text, False where it is special; the shape of `tokens`."""
        found: np.ndarray = self._ordinary[tokens]
        return found

    def names(self, ids: Iterable[int]) -> list[str]:
        """The tokens as strings, with their marks: `##`, `\u0120`, `\u2581` and all."""
        return [self.tokens[number] for number in ids]

    @cached_property
    def is_continuation(self) -> np.ndarray:
        """For each token of the vocabulary: does it continue a word?

        `##ing` does; so do all byte and SentencePiece tokens without a space, punctuation too (fairseq,
        get_whole_word_mask). The first token of a text always begins a word.
        """
        if self.mark == CONTINUATION:
            return np.array([token.startswith(CONTINUATION) and token != CONTINUATION for token in self.tokens])
        if self.mark == WORD_END:
            raise InputError(
                tr("This tokenizer marks where words end (</w>), not where they begin. Choose another tokenizer.")
            )
        starts: np.ndarray = np.array([not token.startswith(self.mark) for token in self.tokens]) & self._ordinary
        return starts

    @cached_property
    def has_case(self) -> np.ndarray:
        """For each token of the vocabulary: is it text with letters that can be capital?"""
        if self.mark == BYTE_SPACE:  # bytes beyond ASCII are written as other letters
            return np.array([any(letter.isascii() and letter.isalpha() for letter in token) for token in self.tokens])
        names = (token.removesuffix(WORD_END) if self.mark == WORD_END else token for token in self.tokens)
        cased: np.ndarray = np.array([name.lower() != name.upper() for name in names]) & self._ordinary
        return cased

    @cached_property
    def spelling(self) -> np.ndarray:
        """(rows, WORD_LENGTH) the characters of every token; those around a row are marks of their own."""
        rows = np.full((self.rows, WORD_LENGTH), NO_CHARACTER, dtype=np.int16)
        rows[: len(self.tokens)] = spell(self.tokens)
        for token, mark in ((self.cls, BEGIN_SENTENCE), (self.sep, END_SENTENCE)):
            if token != MISSING:
                rows[token] = spell_mark(mark)
        return rows

    @cached_property
    def ordinary(self) -> np.ndarray:
        """The ids of all tokens that are text."""
        return np.flatnonzero(self._ordinary)

    @cached_property
    def _ordinary(self) -> np.ndarray:
        ordinary = np.ones(len(self.tokens), dtype=bool)
        ordinary[list(self.special)] = False
        return ordinary


def unnamed(size: int) -> Vocabulary:
    """A vocabulary of this size without strings: for counting weights and checking their shapes."""
    return Vocabulary(tokens=(), special=frozenset(), padded=size)


def known(numbers: list[int]) -> list[int]:
    return [number for number in numbers if number != MISSING]


def find_names(known: Iterable[str], named: Mapping[str, str]) -> dict[str, str]:
    """A name for each role: from the tokenizer's files, otherwise from the known set that fits best."""
    known = frozenset(known)
    sets = [tuple(named.get(role, name) for role, name in zip(ROLES, names, strict=True)) for names in KNOWN_NAMES]
    best = max(sets, key=lambda names: sum(name in known for name in names))
    others = {
        role: named.get(role) or next((n for n in names if n in known), "") for role, names in OTHER_NAMES.items()
    }
    return {**dict(zip(ROLES, best, strict=True)), **{role: name for role, name in others.items() if name}}
