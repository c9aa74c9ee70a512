"""The contract of the tokenizer of a recipe."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.tokenizers.tokenizer import Tokenizer

OnProgress = Callable[[int], None]  # called with the number of texts read so far


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(ABC):
    """How a tokenizer is trained on text; the trained one is a `Tokenizer`."""

    size: int  # of the vocabulary, special tokens included

    @abstractmethod
    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Train a tokenizer, always the same for the same texts."""


def check_frequency(min_frequency: int) -> None:
    """Refuse a minimum frequency below 1."""
    if min_frequency < 1:
        raise SettingError(
            tr("tokenizer.min_frequency is {min_frequency}; it must be at least 1.", min_frequency=min_frequency)
        )
