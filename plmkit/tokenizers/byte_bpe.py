"""Byte-level BPE: merges frequent byte sequences; no text is unknown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers, trainers

from plmkit.data.vocabulary import ROBERTA_NAMES
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.tokenizers.contract import OnProgress, TokenizerSettings, check_frequency
from plmkit.tokenizers.pieces import groups, without_surrogates
from plmkit.tokenizers.rules import BYTES
from plmkit.tokenizers.tokenizer import Tokenizer

PAD, UNKNOWN, BEGIN, END, MASK = ROBERTA_NAMES


@dataclass(frozen=True, kw_only=True)
class ByteBPE(TokenizerSettings):
    """Byte-level BPE, trained on the user's text (Radford et al., 2019; Liu et al., 2019, 4.4)."""

    size: int = 50265  # maximum number of tokens in the vocabulary
    min_frequency: int = 2  # occurrences that a pair needs to be merged

    def __post_init__(self) -> None:
        fewest = len(ROBERTA_NAMES) + len(BYTES)
        if self.size < fewest:
            raise SettingError(
                tr(
                    "tokenizer.size is {size}, but the bytes and special tokens alone take {fewest}. Choose a larger "
                    "size: 8000 suits a small corpus, RoBERTa has 50265.",
                    size=self.size,
                    fewest=fewest,
                )
            )
        check_frequency(self.min_frequency)

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Build a vocabulary, always the same for the same texts; `on_progress` gets the number of texts read."""
        rust = merged(texts, self.size - 1, self.min_frequency, [BEGIN, PAD, END, UNKNOWN], on_progress)
        return Tokenizer(rust)  # adds the mask token as the last one


@dataclass(frozen=True, kw_only=True)
class StreamByteBPE(TokenizerSettings):
    """Byte-level BPE with one special token, the end of text, trained on the user's text (Radford et al., 2019)."""

    size: int = 50257  # maximum number of tokens in the vocabulary
    min_frequency: int = 2  # occurrences that a pair needs to be merged

    def __post_init__(self) -> None:
        fewest = len(BYTES) + 1
        if self.size < fewest:
            raise SettingError(
                tr(
                    "tokenizer.size is {size}, but the bytes and the end-of-text token alone take {fewest}. Choose a "
                    "larger size: 8000 suits a small corpus, GPT-2 has 50257.",
                    size=self.size,
                    fewest=fewest,
                )
            )
        check_frequency(self.min_frequency)

    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Build a vocabulary, always the same for the same texts; `on_progress` gets the number of texts read."""
        rust = merged(texts, self.size - 1, self.min_frequency, [], on_progress)
        return Tokenizer(rust, needed=("end",))  # added as the last token


def merged(
    texts: Iterable[str],
    size: int,
    min_frequency: int,
    special: list[str],
    on_progress: OnProgress | None,
) -> RustTokenizer:
    # The trainer breaks ties by token id. With the whole alphabet given, ids are the same in every process; the text
    # adds no characters, as all bytes are in it.
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=special,
        initial_alphabet=sorted(BYTES),
        show_progress=False,
    )
    rust = RustTokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reader = Reader(texts, on_progress)
    rust.train_from_iterator(reader, trainer)
    if not reader.has_text:
        raise InputError(tr("There is no text to train a tokenizer on. Give more text."))
    return rust


class Reader:
    """Texts in groups for the trainer; records whether any of them had text."""

    def __init__(self, texts: Iterable[str], on_progress: OnProgress | None) -> None:
        self.texts, self.on_progress = texts, on_progress
        self.has_text = False

    def __iter__(self) -> Iterator[list[str]]:
        read = 0
        for group in groups(self.texts):
            self.has_text = self.has_text or any(text.strip() for text in group)
            yield list(map(without_surrogates, group))
            read += len(group)
            if self.on_progress is not None:
                self.on_progress(read)
