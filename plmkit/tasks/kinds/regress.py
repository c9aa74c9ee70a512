"""A number for single texts or pairs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.tasks.answers import NumberTask
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import number_in, read_texts, text_row


@dataclass(frozen=True, kw_only=True)
class Regress(NumberTask):
    """One or two texts, a number (Devlin et al., 2018, 4.1)."""

    kind: ClassVar[str] = "regress"

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        return read_texts(table, search, say, paired=None, labelled=labelled, read_label=number_in)

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        return text_row(given, number, model, paired=None)
