"""Unigram: the pieces that maximise the likelihood of the text, as in SentencePiece."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers, trainers

from plmkit.data.text import HAN
from plmkit.data.vocabulary import ALBERT_NAMES, META_SPACE
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings
from plmkit.tokenizers.pieces import groups, without_surrogates
from plmkit.tokenizers.rules import albert_normalizer, unigram_rules
from plmkit.tokenizers.tokenizer import Tokenizer

UNKNOWN = "<unk>"
MOST_CHARACTERS = 2_000_000  # of the most frequent distinct words to train on; training time grows with them
MOST_WORDS = 500_000  # distinct words kept while counting; above this, the rarer half is dropped
LONGEST_PIECE = 16  # characters
ENDING = "\1"  # appended to half of the words for the trainer; normalised text never contains it
REPEATS = 1_000  # of one word passed to the trainer at a time
STEP = 1e-4  # between the scores that the trainer gives to characters it would have pruned
DIGITS = 4  # of a score that are kept; further digits depend on the order of summation

# Parts of a word: pieces never mix ideographs, other letters, digits and symbols.
PARTS = re.compile(rf"{META_SPACE}?(?:[{HAN}]+|(?:(?![{HAN}])[^\W\d_])+|\d+|[^\w{META_SPACE}]+|_+)|{META_SPACE}")


@dataclass(frozen=True, kw_only=True)
class Unigram(TokenizerSettings):
    """SentencePiece unigram, trained on the user's text (Kudo, 2018; Lan et al., 2019, 4.1)."""

    size: int = 30000  # maximum number of tokens in the vocabulary
    lowercase: bool = True  # lowercase the text and strip accents
    coverage: float = 0.99995  # share of the text's characters that get a token; the rarest are unknown
    names: ClassVar[tuple[str, ...]] = ALBERT_NAMES  # of the special tokens, in order
    keeps_accents_with_case: ClassVar = True

    def __post_init__(self) -> None:
        fewest = len(self.names) + 1
        if self.size <= fewest:
            raise SettingError(
                tr(
                    "tokenizer.size is {size}, but the special tokens and the space alone take {fewest}. Choose a "
                    "larger size: 8000 suits a small corpus, ALBERT has 30000, XLNet 32000.",
                    size=self.size,
                    fewest=fewest,
                )
            )
        if not 0 < self.coverage <= 1:
            raise SettingError(
                tr("tokenizer.coverage is {coverage}; it must be above 0 and at most 1.", coverage=self.coverage)
            )

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Build a vocabulary, always the same for the same texts; `on_progress` gets the number of texts read."""
        words = self.count_words(texts, on_progress)
        alphabet = self.alphabet(words)
        if not alphabet - {META_SPACE}:
            raise InputError(tr("There is no text to train a tokenizer on. Give more text."))
        learned = in_order(self.learn(words, alphabet), room=self.size - len(self.names))
        pieces = [*((name, 0.0) for name in self.names), *learned]
        rules = unigram_rules(pieces, unknown=self.names.index(UNKNOWN), normalizer=self.normalizer())
        rules.add_special_tokens(list(self.names))
        return Tokenizer(rules)

    def normalizer(self) -> Any:
        return albert_normalizer(
            lowercase=self.lowercase, keep_accents=self.keeps_accents_with_case and not self.lowercase
        )

    def count_words(self, texts: Iterable[str], on_progress: OnProgress | None) -> Counter[str]:
        """Count the parts of words, in one pass and bounded memory."""
        normalizer = self.normalizer()
        words: Counter[str] = Counter()
        read = 0
        for group in groups(texts):
            text = normalizer.normalize_str(without_surrogates("\n".join(group)))
            spaced = META_SPACE + META_SPACE.join(text.split())
            words.update(PARTS.findall(spaced))
            if len(words) > MOST_WORDS:
                words = Counter(dict(words.most_common(MOST_WORDS // 2)))
            read += len(group)
            if on_progress is not None:
                on_progress(read)
        return words

    def alphabet(self, words: Counter[str]) -> set[str]:
        """The most frequent characters: enough to reach `coverage`, or as many as fit into `size`."""
        characters: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                characters[character] += count
        needed, covered = self.coverage * characters.total(), 0
        kept: set[str] = {META_SPACE}
        for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
            if covered >= needed or len(kept) >= self.size - len(self.names):
                break
            kept.add(character)
            covered += count
        return kept

    def learn(self, words: Counter[str], alphabet: set[str]) -> dict[str, float]:
        """Pieces and their log-probabilities, by expectation maximisation and pruning."""
        trainer = trainers.UnigramTrainer(
            vocab_size=self.size - len(self.names) + 2,  # two are removed below
            special_tokens=[UNKNOWN],
            unk_token=UNKNOWN,
            initial_alphabet=sorted(alphabet),
            max_piece_length=LONGEST_PIECE,
            show_progress=False,
        )
        rust = RustTokenizer(models.Unigram())
        rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        rust.train_from_iterator(repeated(words, alphabet), trainer)
        found = json.loads(rust.to_str())["model"]["vocab"]
        # the trainer divides by zero and gives no score if there is room for single characters only
        return {piece: score or 0.0 for piece, score in found if piece not in (UNKNOWN, ENDING)}


@dataclass(frozen=True, kw_only=True)
class ClosingUnigram(Unigram):
    """Cased SentencePiece unigram; rows end with the class token (Yang et al., 2019; released code)."""

    size: int = 32000
    lowercase: bool = False
    names: ClassVar[tuple[str, ...]] = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")
    keeps_accents_with_case: ClassVar = False


def repeated(words: Counter[str], alphabet: set[str]) -> Iterator[str]:
    """The most frequent words, each repeated by its count; words with unknown characters are left out."""
    characters = 0
    for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        if characters > MOST_CHARACTERS:
            return
        if alphabet.issuperset(word):
            characters += len(word)
            # The trainer makes a piece only of what is followed by two different characters or boundaries. Without
            # ENDING, a frequent word that is not a prefix of a longer word could never be a piece.
            for form, times in ((word, count - count // 2), (word + ENDING, count // 2)):
                for done in range(0, times, REPEATS):
                    yield f"{form} " * min(REPEATS, times - done)


def in_order(scores: dict[str, float], room: int) -> list[tuple[str, float]]:
    """The most probable first, all characters kept; scores that depend on the trainer's random hashes are equalised."""
    lowest = min(scores.values())
    pruned = lowest + STEP * (1 + sum(len(piece) == 1 for piece in scores))
    level = {
        piece: round(lowest if len(piece) == 1 and score <= pruned else score, DIGITS)
        for piece, score in scores.items()
    }
    kept = sorted(level, key=lambda piece: (len(piece) > 1, -level[piece], piece))[:room]
    return sorted(((piece, level[piece]) for piece in kept), key=lambda item: (-item[1], item[0]))
