"""Vocabularies of the most frequent characters or words, without subwords."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as RustTokenizer

from plmkit.data.vocabulary import END_OF_TEXT
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings, check_frequency
from plmkit.tokenizers.pieces import groups, without_surrogates
from plmkit.tokenizers.rules import UNKNOWN_WORD, bert_normalizer
from plmkit.tokenizers.tokenizer import Tokenizer

SPECIAL = (UNKNOWN_WORD, END_OF_TEXT)
SENTENCE_MARKS = ("<S>", "</S>", "<UNK>")  # in the order of allenai/bilm-tf
SENTENCE_ROLES = dict(zip(("cls", "sep", "unknown"), SENTENCE_MARKS, strict=True))


@dataclass(frozen=True, kw_only=True)
class Characters(TokenizerSettings):
    """One token per character, spaces included; rare characters are unknown."""

    size: int = 10_000  # maximum number of tokens in the vocabulary
    min_frequency: int = 1  # occurrences that a character needs to enter the vocabulary

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

    size: int = 267_735  # maximum number of tokens in the vocabulary
    min_frequency: int = 1  # occurrences that a word needs to enter the vocabulary
    lowercase: bool = False  # lowercase the text
    punctuation: bool = True  # punctuation marks and ideographs are words of their own; false: split at spaces only

    def __post_init__(self) -> None:
        check(self.size, self.min_frequency)

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Count words; `on_progress` gets the number of texts read so far."""
        normalizer, rules = word_rules(self.lowercase)
        if not self.punctuation:
            normalizer = normalizers.Lowercase() if self.lowercase else None
            rules = pre_tokenizers.WhitespaceSplit()
        counts: Counter[str] = Counter()
        for text in with_progress(texts, on_progress):
            cleaned = normalizer.normalize_str(text) if normalizer else text
            counts.update(word for word, _ in rules.pre_tokenize_str(cleaned))
        return self.tokenizer(counts, normalizer, rules)

    def tokenizer(self, counts: Counter[str], normalizer: Any, rules: Any) -> Tokenizer:
        return counted(counts, self.size, self.min_frequency, normalizer, rules)


@dataclass(frozen=True, kw_only=True)
class SentenceWords(Words):
    """One token per word, with <S> and </S> around sentences; a network reads unknown words by their characters."""

    size: int = 793_471

    def tokenizer(self, counts: Counter[str], normalizer: Any, rules: Any) -> Tokenizer:
        return counted(counts, self.size, self.min_frequency, normalizer, rules, SENTENCE_MARKS)


def sentence_words(words: Iterable[str]) -> Tokenizer:
    """The tokenizer of SentenceWords with this vocabulary, which has the special tokens first."""
    return word_level({word: number for number, word in enumerate(words)}, SENTENCE_MARKS, *word_rules())


def word_rules(lowercase: bool = False) -> tuple[Any, Any]:
    """How text is cleaned and split into words, punctuation marks and ideographs."""
    return bert_normalizer(lowercase=lowercase, strip_accents=False), pre_tokenizers.BertPreTokenizer()


def check(size: int, min_frequency: int) -> None:
    if size <= len(SPECIAL):
        raise SettingError(
            tr(
                "tokenizer.size is {size}, but the special tokens alone take {special_count}. Choose a larger size.",
                size=size,
                special_count=len(SPECIAL),
            )
        )
    check_frequency(min_frequency)


def with_progress(texts: Iterable[str], on_progress: OnProgress | None) -> Iterator[str]:
    read = 0
    for group in groups(texts):
        yield from map(without_surrogates, group)
        read += len(group)
        if on_progress is not None:
            on_progress(read)


def counted(
    counts: Counter[str], size: int, min_frequency: int, normalizer: Any, rules: Any, special: Sequence[str] = SPECIAL
) -> Tokenizer:
    """Special tokens, then the most frequent tokens; ties are in code point order."""
    frequent = [token for token, count in counts.items() if count >= min_frequency and token not in special]
    if not any(token.strip() for token in frequent):
        raise InputError(
            tr("There is no text to build a vocabulary from, or all of it is rarer than min_frequency. Give more text.")
        )
    ordered = sorted(frequent, key=lambda token: (-counts[token], token))[: size - len(special)]
    ids = {token: number for number, token in enumerate([*special, *ordered])}
    return word_level(ids, special, normalizer, rules)


def word_level(ids: dict[str, int], special: Sequence[str], normalizer: Any, rules: Any) -> Tokenizer:
    named = SENTENCE_ROLES if special == SENTENCE_MARKS else {"unknown": UNKNOWN_WORD, "end": END_OF_TEXT}
    rust = RustTokenizer(models.WordLevel(ids, unk_token=named["unknown"]))
    rust.normalizer, rust.pre_tokenizer = normalizer, rules
    return Tokenizer(rust, named, tuple(named))
