"""WordPiece: frequent words whole, others in pieces, Chinese by character."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers, trainers

from plmkit.data.vocabulary import CONTINUATION, SPECIAL_TOKENS, UNKNOWN
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings, check_frequency
from plmkit.tokenizers.pieces import cut, groups
from plmkit.tokenizers.rules import LONGEST_WORD, bert_normalizer
from plmkit.tokenizers.tokenizer import Tokenizer, bert_tokenizer

MOST_PIECES = 500_000  # distinct pieces kept while counting; above this, the rarer half is dropped
REPEATS = 1_000  # of one word passed to the trainer at a time


@dataclass(frozen=True, kw_only=True)
class WordPiece(TokenizerSettings):
    """WordPiece with BERT's rules, trained on the user's text (Devlin et al., 2018)."""

    size: int = 30522  # maximum number of tokens in the vocabulary
    lowercase: bool = True  # lowercase the text and strip accents
    min_frequency: int = 2  # occurrences that a pair needs to be merged

    def __post_init__(self) -> None:
        if self.size <= len(SPECIAL_TOKENS):
            raise SettingError(
                tr(
                    "tokenizer.size is {size}, but the special tokens alone take {special_count}. Choose a larger "
                    "size: 8000 suits a small corpus, BERT has 30522.",
                    size=self.size,
                    special_count=len(SPECIAL_TOKENS),
                )
            )
        check_frequency(self.min_frequency)

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Build a vocabulary, always the same for the same texts; `on_progress` gets the number of texts read."""
        words = words_of(count_pieces(texts, on_progress), lowercase=self.lowercase)
        alphabet = self.alphabet(words)
        if not alphabet:
            raise InputError(
                tr(
                    "No character occurs {min_frequency} times in the text, so no vocabulary can be built. Give "
                    "more text.",
                    min_frequency=self.min_frequency,
                )
            )
        return bert_tokenizer(self.merge(words, alphabet), lowercase=self.lowercase)

    def alphabet(self, words: Counter[str]) -> list[str]:
        """Characters that occur often enough, alone and as continuations; `size` limits their number."""
        characters: Counter[str] = Counter()
        continuing: Counter[str] = Counter()
        for word, count in words.items():
            for position, character in enumerate(word):
                characters[character] += count
                if position:
                    continuing[CONTINUATION + character] += count
        frequent = [
            (-count, token) for token, count in (characters | continuing).items() if count >= self.min_frequency
        ]
        room = self.size - len(SPECIAL_TOKENS)
        kept = (token for _, token in sorted(frequent)[:room])
        return sorted(kept, key=lambda token: (len(token) > 1, token))

    def merge(self, words: Counter[str], alphabet: list[str]) -> list[str]:
        """The vocabulary in order: special tokens, alphabet, then merged pairs, the most frequent first."""
        # The trainer assigns ids in the order of a randomly seeded hash table, and breaks ties by id. Passed as special
        # tokens, all characters get their ids before training.
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.size,
            min_frequency=self.min_frequency,
            special_tokens=[*SPECIAL_TOKENS, *alphabet],
            limit_alphabet=0,
            show_progress=False,
        )
        rust = RustTokenizer(models.WordPiece(unk_token=UNKNOWN))
        rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        known = frozenset(alphabet)

        def is_known(word: str) -> bool:
            return word[0] in known and all(CONTINUATION + letter in known for letter in word[1:])

        rust.train_from_iterator(repeated(words, is_known), trainer)
        numbers = rust.get_vocab()
        return sorted(numbers, key=numbers.__getitem__)


def count_pieces(texts: Iterable[str], on_progress: OnProgress | None = None) -> Counter[str]:
    """Count the pieces of the text, in one pass and bounded memory."""
    pieces: Counter[str] = Counter()
    read = 0
    for group in groups(texts):
        found = cut(group)
        pieces.update(run for run in found.runs if len(run) <= LONGEST_WORD)
        codes, counts = np.unique(found.alone, return_counts=True)
        pieces.update(dict(zip(map(chr, codes.tolist()), counts.tolist(), strict=True)))
        if len(pieces) > MOST_PIECES:
            pieces = Counter(dict(pieces.most_common(MOST_PIECES // 2)))
        read += len(group)
        if on_progress is not None:
            on_progress(read)
    return pieces


def words_of(pieces: Counter[str], *, lowercase: bool) -> Counter[str]:
    """Pieces as the tokenizer sees them: cleaned, in its case, split at punctuation."""
    normalizer, splitter = bert_normalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for piece, count in pieces.items():
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(piece)):
            if len(word) <= LONGEST_WORD:  # longer words are always unknown
                words[word] += count
    return words


def repeated(words: Counter[str], is_known: Callable[[str], bool]) -> Iterator[str]:
    """Each word repeated by its count; words with characters outside the alphabet are left out."""
    for word, count in words.items():
        if len(word) > 1 and is_known(word):  # a single letter has nothing to merge
            for done in range(0, count, REPEATS):
                yield f"{word} " * min(REPEATS, count - done)
