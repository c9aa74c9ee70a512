"""Classification of pairs in any order."""

from dataclasses import dataclass
from typing import ClassVar, Self

from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.tasks.contract import Row
from plmkit.tasks.framing import Texts, both_orders
from plmkit.tasks.kinds.pair import Pair


@dataclass(frozen=True, kw_only=True)
class Paraphrase(Pair):
    """Two texts in both orders, one class (Radford et al., 2018, 3.3)."""

    kind: ClassVar[str] = "paraphrase"
    problem: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.san:
            raise SettingError(tr("task.san=true is for pair and nli: paraphrase adds up two orders. Leave it out."))

    def jointly(self, rows: int, vocabulary: Vocabulary) -> Self:
        return self

    def versions(self, row: Row) -> list[Texts]:
        return both_orders(row.text, row.other)
