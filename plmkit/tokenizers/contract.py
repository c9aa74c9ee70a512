"""The contract of the tokenizer of a recipe."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from plmkit.tokenizers.tokenizer import Tokenizer

OnProgress = Callable[[int], None]  # called with the number of texts read so far


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings(ABC):
    """How a tokenizer is trained on text; the trained one is a `Tokenizer`."""

    size: int  # of the vocabulary, special tokens included

    @abstractmethod
    def train(self, texts: Iterable[str], on_progress: OnProgress | None = None) -> Tokenizer:
        """Train a tokenizer, always the same for the same texts."""
