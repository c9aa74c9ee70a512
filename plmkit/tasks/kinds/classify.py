"""Classification of single texts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.tasks.answers import ClassTask
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import read_texts, text_row


@dataclass(frozen=True, kw_only=True)
class Classify(ClassTask):
    """One text, one class (Devlin et al., 2018, 4.1)."""

    kind: ClassVar[str] = "classify"

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        return read_texts(table, search, say, paired=False, labelled=labelled)

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        return text_row(given, number, model, paired=False)


@dataclass(frozen=True, kw_only=True)
class ClassifyAny(Classify):
    """An imported classifier, whose rows may have one text or two."""

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        return read_texts(table, search, say, paired=None, labelled=labelled)

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        return text_row(given, number, model, paired=None)
