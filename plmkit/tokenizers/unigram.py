"""Unigram: the pieces that make the text likeliest, as SentencePiece learns them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers, trainers

from plmkit.data.characters import HAN
from plmkit.data.vocabulary import ALBERT_NAMES, META_SPACE
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings
from plmkit.tokenizers.pieces import groups, without_surrogates
from plmkit.tokenizers.rules import albert_normalizer, unigram_rules
from plmkit.tokenizers.tokenizer import Tokenizer

UNKNOWN = "<unk>"
MOST_CHARACTERS = 2_000_000  # of distinct words to learn from, the most frequent; the trainer's time grows with them
MOST_WORDS = 500_000  # distinct ones held while counting; past this the rarer half is forgotten
LONGEST_PIECE = 16  # characters
ENDING = "\1"  # of half of the words as the trainer gets them; cleaned text never holds it
REPEATS = 1_000  # of one word, handed over at a time
STEP = 1e-4  # by which the trainer spaces the scores of characters that it gave up
DIGITS = 4  # of a score that are kept: what follows depends on the order of sums

# One word's parts: pieces never mix ideographs, other letters, digits and signs.
PARTS = re.compile(rf"{META_SPACE}?(?:[{HAN}]+|(?:(?![{HAN}])[^\W\d_])+|\d+|[^\w{META_SPACE}]+|_+)|{META_SPACE}")


@dataclass(frozen=True, kw_only=True)
class Unigram(TokenizerSettings):
    """SentencePiece unigram, trained on the user's text (Kudo, 2018; Lan et al., 2019, 4.1)."""

    size: int = 30000
    lowercase: bool = True  # accents go where case goes
    coverage: float = 0.99995  # share of the characters that have a token; the rarest are unknown
    names: ClassVar[tuple[str, ...]] = ALBERT_NAMES  # of the special tokens, in order
    keeps_accents_with_case: ClassVar = True

    def __post_init__(self) -> None:
        fewest = len(self.names) + 1
        if self.size <= fewest:
            raise SettingError(
                tr(
                    "tokenizer.size is {size}, but the special tokens and the space alone are {fewest}. Choose "
                    "more: 8000 suits a small corpus, 30000 is ALBERT's, 32000 XLNet's.",
                    size=self.size,
                    fewest=fewest,
                )
            )
        if not 0 < self.coverage <= 1:
            raise SettingError(
                tr("tokenizer.coverage is {coverage}; it is a share above 0, up to 1.", coverage=self.coverage)
            )

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Learn a vocabulary, the same from the same texts; `on_progress` hears how many were read so far."""
        words = self.count_words(texts, on_progress)
        alphabet = self.alphabet(words)
        if not alphabet - {META_SPACE}:
            raise InputError(tr("There is no text to learn a vocabulary from. Give more text."))
        learnt = in_order(self.learn(words, alphabet), room=self.size - len(self.names))
        pieces = [*((name, 0.0) for name in self.names), *learnt]
        rules = unigram_rules(pieces, unknown=self.names.index(UNKNOWN), normalizer=self.normalizer())
        rules.add_special_tokens(list(self.names))
        return Tokenizer(rules)

    def normalizer(self) -> Any:
        return albert_normalizer(
            lowercase=self.lowercase, keep_accents=self.keeps_accents_with_case and not self.lowercase
        )

    def count_words(self, texts: Iterable[str], on_progress: OnProgress | None) -> Counter[str]:
        """How often each part of a word occurs, in one pass and bounded memory."""
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
        """The characters that cover the text as asked, the most frequent first, as many as there is room for."""
        characters: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                characters[character] += count
        wanted, covered = self.coverage * characters.total(), 0
        kept: set[str] = {META_SPACE}
        for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
            if covered >= wanted or len(kept) >= self.size - len(self.names):
                break
            kept.add(character)
            covered += count
        return kept

    def learn(self, words: Counter[str], alphabet: set[str]) -> dict[str, float]:
        """Pieces and their log probabilities, by expectation maximisation and pruning."""
        trainer = trainers.UnigramTrainer(
            vocab_size=self.size - len(self.names) + 2,  # two are taken out again
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
        # the trainer divides by nothing, and has no score, where there is room for characters alone
        return {piece: score or 0.0 for piece, score in found if piece not in (UNKNOWN, ENDING)}


@dataclass(frozen=True, kw_only=True)
class ClosingUnigram(Unigram):
    """SentencePiece unigram with case, whose rows close with the class token (Yang et al., 2019; released code)."""

    size: int = 32000
    lowercase: bool = False
    names: ClassVar[tuple[str, ...]] = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")
    keeps_accents_with_case: ClassVar = False


def repeated(words: Counter[str], alphabet: set[str]) -> Iterator[str]:
    """The most frequent words, each as often as it occurred, without those that hold an unknown character."""
    characters = 0
    for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        if characters > MOST_CHARACTERS:
            return
        if alphabet.issuperset(word):
            characters += len(word)
            # The trainer takes for a piece only what two different characters or borders follow: without this, a
            # frequent word that begins no longer word could never be one. Nothing follows ENDING but borders.
            for form, times in ((word, count - count // 2), (word + ENDING, count // 2)):
                for done in range(0, times, REPEATS):
                    yield f"{form} " * min(REPEATS, times - done)


def in_order(scores: dict[str, float], room: int) -> list[tuple[str, float]]:
    """The likeliest first, characters kept; scores that hang on the trainer's random hash tables are made alike."""
    lowest = min(scores.values())
    given_up = lowest + STEP * (1 + sum(len(piece) == 1 for piece in scores))
    level = {
        piece: round(lowest if len(piece) == 1 and score <= given_up else score, DIGITS)
        for piece, score in scores.items()
    }
    kept = sorted(level, key=lambda piece: (len(piece) > 1, -level[piece], piece))[:room]
    return sorted(((piece, level[piece]) for piece in kept), key=lambda item: (-item[1], item[0]))
