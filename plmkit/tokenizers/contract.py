"""What every tokenizer of a recipe is."""

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
        """The tokenizer, the same from the same texts."""
