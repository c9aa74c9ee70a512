"""A number for pairs in any order."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.tasks.answers import NumberTask
from plmkit.tasks.contract import Row
from plmkit.tasks.framing import Texts, both_orders
from plmkit.tasks.rows import number_in, read_texts, text_row


@dataclass(frozen=True, kw_only=True)
class Similarity(NumberTask):
    """Two texts in both orders, a number (Radford et al., 2018, 3.3)."""

    kind: ClassVar[str] = "similarity"
    problem: ClassVar[str | None] = None

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        return read_texts(table, search, say, paired=True, labelled=labelled, read_label=number_in)

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        return text_row(given, number, model, paired=True)

    def versions(self, row: Row) -> list[Texts]:
        return both_orders(row.text, row.other)
