"""Classification of pairs of texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.tasks.answers import ClassTask
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.heads import RowHead
from plmkit.tasks.rows import read_texts, text_row
from plmkit.tasks.san import SanHead
from plmkit.tokenizers.tokenizer import Tokenizer

ENOUGH = 10_000  # rows; with fewer, the authors of MT-DNN found its answer module unstable


@dataclass(frozen=True, kw_only=True)
class Pair(ClassTask):
    """Two texts, one class (Devlin et al., 2018, 4.1)."""

    kind: ClassVar[str] = "pair"
    san: bool | None = None  # answer in several turns, as MT-DNN; none: in a joint fine-tuning of over 10,000 rows

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        return read_texts(table, search, say, paired=True, labelled=labelled)

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        return text_row(given, number, model, paired=True)

    def jointly(self, rows: int, vocabulary: Vocabulary) -> Self:
        return replace(self, san=rows > ENOUGH and vocabulary.second != 0) if self.san is None else self

    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        if self.san and tokenizer.vocabulary.second == 0:
            raise SettingError(
                tr(
                    "task.san=true attends from one text of a pair to the other, but this model's vocabulary does not "
                    "tell them apart. Leave it out."
                )
            )
        return super().frame(rows, tokenizer, length)

    def head(self, architecture: Architecture, dropout: float = 0.1) -> RowHead:
        if not self.san:
            return super().head(architecture, dropout)
        return SanHead(outputs=len(self.classes), **self.class_settings(architecture, dropout))
