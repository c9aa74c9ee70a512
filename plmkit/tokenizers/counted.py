"""Vocabularies of the most frequent characters or words, without subwords."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as RustTokenizer

from plmkit.data.vocabulary import END_OF_TEXT
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings
from plmkit.tokenizers.pieces import groups, without_surrogates
from plmkit.tokenizers.rules import UNKNOWN_WORD, bert_normalizer
from plmkit.tokenizers.tokenizer import Tokenizer

SPECIAL = (UNKNOWN_WORD, END_OF_TEXT)


@dataclass(frozen=True, kw_only=True)
class Characters(TokenizerSettings):
    """One token per character, spaces included; rare characters are unknown."""

    size: int = 10_000
    min_frequency: int = 1

    def __post_init__(self) -> None:
        check(self.size, self.min_frequency)

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Count characters; `on_progress` gets the number of texts read so far."""
        rules = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        counts: Counter[str] = Counter({" ": self.min_frequency})  # always needed: it separates sentences
        for text in with_progress(texts, on_progress):
            counts.update(text)
        return counted(counts, self.size, self.min_frequency, None, rules)


@dataclass(frozen=True, kw_only=True)
class Words(TokenizerSettings):
    """One token per word; rare words are unknown."""

    size: int = 267_735
    min_frequency: int = 1
    lowercase: bool = False
    punctuation: bool = True  # punctuation marks and ideographs are separate words; False: split at spaces only

    def __post_init__(self) -> None:
        check(self.size, self.min_frequency)

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Count words; `on_progress` gets the number of texts read so far."""
        normalizer: Any = bert_normalizer(lowercase=self.lowercase, strip_accents=False)
        rules: Any = pre_tokenizers.BertPreTokenizer()
        if not self.punctuation:
            normalizer = normalizers.Lowercase() if self.lowercase else None
            rules = pre_tokenizers.WhitespaceSplit()
        counts: Counter[str] = Counter()
        for text in with_progress(texts, on_progress):
            cleaned = normalizer.normalize_str(text) if normalizer else text
            counts.update(word for word, _ in rules.pre_tokenize_str(cleaned))
        return counted(counts, self.size, self.min_frequency, normalizer, rules)


def check(size: int, min_frequency: int) -> None:
    if size <= len(SPECIAL):
        raise SettingError(
            tr(
                "tokenizer.size is {size}, but the special tokens alone take {special_count}. Choose a larger size.",
                size=size,
                special_count=len(SPECIAL),
            )
        )
    if min_frequency < 1:
        raise SettingError(
            tr("tokenizer.min_frequency is {min_frequency}; it must be at least 1.", min_frequency=min_frequency)
        )


def with_progress(texts: Iterable[str], on_progress: OnProgress | None) -> Iterator[str]:
    read = 0
    for group in groups(texts):
        yield from map(without_surrogates, group)
        read += len(group)
        if on_progress is not None:
            on_progress(read)


def counted(counts: Counter[str], size: int, min_frequency: int, normalizer: Any, rules: Any) -> Tokenizer:
    """Special tokens, then the most frequent tokens; ties are in code point order."""
    frequent = [token for token, count in counts.items() if count >= min_frequency and token not in SPECIAL]
    if not any(token.strip() for token in frequent):
        raise InputError(
            tr("There is no text to build a vocabulary from, or all of it is rarer than min_frequency. Give more text.")
        )
    ordered = sorted(frequent, key=lambda token: (-counts[token], token))[: size - len(SPECIAL)]
    ids = {token: number for number, token in enumerate([*SPECIAL, *ordered])}
    rust = RustTokenizer(models.WordLevel(ids, unk_token=UNKNOWN_WORD))
    rust.normalizer, rust.pre_tokenizer = normalizer, rules
    return Tokenizer(rust, needed=("unknown", "end"))
