"""BPE over words in lower case: frequent words whole, the rest in pieces, the last of which says that it is."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers, trainers

from plmkit.data.vocabulary import END_OF_TEXT, WORD_END
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings
from plmkit.tokenizers.rules import word_end_rules
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.tokenizers.wordpiece import count_pieces, repeated, words_of

UNKNOWN = "<unk>"
SPECIAL = (UNKNOWN, END_OF_TEXT)  # the released vocabulary parts texts by a line break, which ours does not see


@dataclass(frozen=True, kw_only=True)
class WordEndBPE(TokenizerSettings):
    """BPE by GPT-1's rules, trained on the user's text (Sennrich et al., 2016; Radford et al., 2018, 4.1)."""

    size: int = 40478
    min_frequency: int = 2

    def __post_init__(self) -> None:
        if self.size <= len(SPECIAL):
            raise SettingError(
                tr(
                    "tokenizer.size is {size}, but the special tokens alone are {special_count}. Choose more: "
                    "8000 suits a small corpus, 40478 is GPT-1's.",
                    size=self.size,
                    special_count=len(SPECIAL),
                )
            )
        if self.min_frequency < 1:
            raise SettingError(
                tr(
                    "tokenizer.min_frequency is {min_frequency}; it must be 1 or more.",
                    min_frequency=self.min_frequency,
                )
            )

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Learn a vocabulary, the same from the same texts; `on_progress` hears how many were read so far."""
        words = words_of(count_pieces(texts, on_progress), lowercase=True)
        alphabet = self.alphabet(words)
        if not alphabet:
            raise InputError(
                tr(
                    "No character occurs {min_frequency} times in the text, so no vocabulary can be learnt. Give "
                    "more text.",
                    min_frequency=self.min_frequency,
                )
            )
        return Tokenizer(self.merge(words, alphabet), {"unknown": UNKNOWN, "end": END_OF_TEXT})

    def alphabet(self, words: Counter[str]) -> list[str]:
        """Characters that occur often enough, inside words and at their ends; the rarest give way to `size`."""
        characters: Counter[str] = Counter()
        for word, count in words.items():
            for character in word[:-1]:
                characters[character] += count
            characters[word[-1] + WORD_END] += count
        often = [(-count, token) for token, count in characters.items() if count >= self.min_frequency]
        kept = (token for _, token in sorted(often)[: self.size - len(SPECIAL)])
        return sorted(kept, key=lambda token: (len(token) > 1, token))

    def merge(self, words: Counter[str], alphabet: list[str]) -> RustTokenizer:
        """Special tokens, alphabet, then merged pairs, the most frequent first."""
        # Named as special tokens, all characters have their numbers before the trainer starts: see WordPiece.
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

        def can_be_spelt(word: str) -> bool:
            return word[-1] + WORD_END in known and all(letter in known for letter in word[:-1])

        rust.train_from_iterator(repeated(words, can_be_spelt), trainer)
        model = json.loads(rust.to_str())["model"]
        return word_end_rules(rust.get_vocab(), [(left, right) for left, right in model["merges"]], unknown=UNKNOWN)
