"""Labels for the tokens of a row, from what the token store knows of its text; nothing is masked."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from plmkit.corruption.contract import Counts, Labelling
from plmkit.corruption.mask.masking import candidates
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr


def original(rows: Rows) -> np.ndarray:
    """(B, L) the tokens of the text, also where a masking has replaced them."""
    return rows.tokens if rows.targets is None else np.where(rows.targets == IGNORE, rows.tokens, rows.targets)


@dataclass(frozen=True, kw_only=True)
class Capitals(Labelling):
    """Label tokens of letters that can be capital: 1 if the text has a capital letter there (Sun et al., 2020, 4.2.1).

    Special tokens, numbers, punctuation and scripts without capital letters, such as Chinese, have no label.
    """

    writes: ClassVar[frozenset[str]] = frozenset({"capitals"})
    needs_details: ClassVar[frozenset[str]] = frozenset({"capitals"})

    def lacks(self, store: TokenStore, documents: np.ndarray, length: int) -> str | None:
        if store.capitals is not None and not store.capitals.any():
            return tr("the text has no capital letter (Chinese has none)")
        return None

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        assert rows.uppercase is not None  # the store has them where a step needs them
        tokens = original(rows)
        asked = candidates(tokens, vocabulary) & (vocabulary.has_case[tokens] | rows.uppercase)
        return replace(rows, capitals=np.where(asked, rows.uppercase.astype(np.int64), IGNORE))


@dataclass(frozen=True, kw_only=True)
class TokenDocument(Labelling):
    """Label each token: 1 if another segment of its document has it, too (Sun et al., 2020, 4.2.1).

    Another segment is any text of the document outside the stretch of text that the row has the token from. Special
    tokens and documents without another segment have no label.
    """

    frequent: float = 1.0  # tokens with a larger share of all tokens have no label: they occur in nearly all segments
    writes: ClassVar[frozenset[str]] = frozenset({"elsewhere"})
    needs_counts: ClassVar[frozenset[str]] = frozenset({"frequencies"})
    needs_details: ClassVar[frozenset[str]] = frozenset({"repeats"})

    def __post_init__(self) -> None:
        if not 0 < self.frequent <= 1:
            raise SettingError(
                tr(
                    "corruption.frequent must be a share of all tokens, above 0 and up to 1; found {frequent}.",
                    frequent=self.frequent,
                )
            )

    def lacks(self, store: TokenStore, documents: np.ndarray, length: int) -> str | None:
        if (store.document_tokens()[documents] < length).all():
            return tr("no document is longer than a row of {length} tokens, so none has another segment", length=length)
        return None

    def prepared(self, counts: Counts) -> Labelling:
        assert counts.frequencies is not None
        common = counts.frequencies > self.frequent * max(1, counts.frequencies.sum())
        return CountedTokenDocument(**vars(self), common=common)

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        assert rows.recurs is not None  # the store has them where a step needs them
        asked = candidates(original(rows), vocabulary) & (rows.recurs >= 0) & ~self.is_common(original(rows))
        return replace(rows, elsewhere=np.where(asked, rows.recurs.astype(np.int64), IGNORE))

    def is_common(self, tokens: np.ndarray) -> np.ndarray:
        """(B, L) none, if the corpus is not known."""
        return np.zeros(tokens.shape, dtype=bool)


@dataclass(frozen=True, kw_only=True)
class CountedTokenDocument(TokenDocument):
    """With the tokens that are frequent in a corpus."""

    common: np.ndarray = field(repr=False, compare=False)  # (V,) True where a token has no label

    def is_common(self, tokens: np.ndarray) -> np.ndarray:
        common: np.ndarray = self.common[tokens]
        return common
