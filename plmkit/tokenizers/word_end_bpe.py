"""BPE over lower-cased words, with a mark on the last piece of each word."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers, trainers

from plmkit.data.vocabulary import END_OF_TEXT, WORD_END
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings, check_frequency
from plmkit.tokenizers.rules import word_end_rules
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.tokenizers.wordpiece import count_pieces, repeated, words_of

UNKNOWN = "<unk>"
SPECIAL = (UNKNOWN, END_OF_TEXT)  # the released vocabulary separates texts by a line break, which our rules remove


@dataclass(frozen=True, kw_only=True)
class WordEndBPE(TokenizerSettings):
    """BPE with GPT-1's rules, trained on the user's text (Sennrich et al., 2016; Radford et al., 2018, 4.1)."""

    size: int = 40478  # maximum number of tokens in the vocabulary
    min_frequency: int = 2  # occurrences that a pair needs to be merged

    def __post_init__(self) -> None:
        if self.size <= len(SPECIAL):
            raise SettingError(
                tr(
                    "tokenizer.size is {size}, but the special tokens alone take {special_count}. Choose a larger "
                    "size: 8000 suits a small corpus, GPT-1 has 40478.",
                    size=self.size,
                    special_count=len(SPECIAL),
                )
            )
        check_frequency(self.min_frequency)

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Build a vocabulary, always the same for the same texts; `on_progress` gets the number of texts read."""
        words = words_of(count_pieces(texts, on_progress), lowercase=True)
        alphabet = self.alphabet(words)
        if not alphabet:
            raise InputError(
                tr(
                    "No character occurs {min_frequency} times in the text, so no vocabulary can be built. Give "
                    "more text.",
                    min_frequency=self.min_frequency,
                )
            )
        return Tokenizer(self.merge(words, alphabet), {"unknown": UNKNOWN, "end": END_OF_TEXT})

    def alphabet(self, words: Counter[str]) -> list[str]:
        """Characters that occur often enough, inside words and at their ends; `size` limits their number."""
        characters: Counter[str] = Counter()
        for word, count in words.items():
            for character in word[:-1]:
                characters[character] += count
            characters[word[-1] + WORD_END] += count
        frequent = [(-count, token) for token, count in characters.items() if count >= self.min_frequency]
        kept = (token for _, token in sorted(frequent)[: self.size - len(SPECIAL)])
        return sorted(kept, key=lambda token: (len(token) > 1, token))

    def merge(self, words: Counter[str], alphabet: list[str]) -> RustTokenizer:
        """Special tokens, alphabet, then merged pairs, the most frequent first."""
        # Passed as special tokens, all characters get their ids before training: see WordPiece.
        trainer = trainers.BpeTrainer(
            vocab_size=self.size,
            min_frequency=self.min_frequency,
            special_tokens=[*SPECIAL, *alphabet],
            limit_alphabet=0,
            end_of_word_suffix=WORD_END,
            show_progress=False,
        )
        rust = RustTokenizer(models.BPE(unk_token=UNKNOWN, end_of_word_suffix=WORD_END))
        rust.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        known = frozenset(alphabet)

        def is_known(word: str) -> bool:
            return word[-1] + WORD_END in known and all(letter in known for letter in word[:-1])

        rust.train_from_iterator(repeated(words, is_known), trainer)
        model = json.loads(rust.to_str())["model"]
        return word_end_rules(rust.get_vocab(), [(left, right) for left, right in model["merges"]], unknown=UNKNOWN)
