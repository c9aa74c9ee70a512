"""The settings of skip-gram."""

from dataclasses import dataclass

from plmkit.errors import SettingError
from plmkit.language import tr

SKIPGRAM = "skipgram"  # its name beside the recipes


@dataclass(frozen=True, kw_only=True)
class SkipGram:
    """Skip-gram with negative sampling: a word predicts the words around it (Mikolov et al., 2013), by gensim."""

    width: int = 100  # width of the vectors
    window: int = 5  # maximum distance between a word and one that it predicts
    negatives: int = 5  # number of random words per predicted word
    epochs: int = 5  # number of epochs
    min_count: int = 5  # rarer words have no vector
    subsample: float = 1e-3  # words more frequent than this are left out at random
    learning_rate: float = 0.025  # at the beginning; it falls linearly
    lowercase: bool = True  # words are lower-cased

    def __post_init__(self) -> None:
        for name in ("width", "window", "negatives", "epochs", "min_count"):
            if getattr(self, name) < 1:
                raise SettingError(
                    tr("skipgram.{name} must be 1 or more; found {value}.", name=name, value=getattr(self, name))
                )
        if self.learning_rate <= 0 or self.subsample < 0:
            raise SettingError(
                tr(
                    "skipgram.learning_rate must be above 0 and skipgram.subsample at least 0; found {rate:g} and "
                    "{subsample:g}.",
                    rate=self.learning_rate,
                    subsample=self.subsample,
                )
            )
