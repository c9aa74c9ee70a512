"""Classifying the texts of a row together into more than two classes: their order, distance, relation, relevance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from plmkit.data.connectives import RELATIONS
from plmkit.data.orders import order_classes
from plmkit.objectives.contract import BuiltModel, Objective
from plmkit.objectives.sentence_pair import SentencePairHead


@dataclass(frozen=True, kw_only=True)
class TextClasses(Objective):
    """Settings of all of them; `field` is the batch field with the labels."""

    field: ClassVar[str]
    reads: ClassVar = frozenset({"pooled"})

    def build(self, model: BuiltModel) -> SentencePairHead:
        return SentencePairHead(model.settings.width, self.field, self.classes[self.field])


@dataclass(frozen=True, kw_only=True)
class SentenceReordering(TextClasses):
    """In which order do the parts of a paragraph stand? A class for each order (Sun et al., 2020, 4.2.2)."""

    max_parts: int = 3  # as in the rows that it is trained on
    name: ClassVar = "sentence_reordering"
    label: ClassVar = "order"
    field: ClassVar = "order"
    reads: ClassVar = frozenset({"pooled", "order"})

    @property
    def classes(self) -> Mapping[str, int]:
        return {"order": order_classes(self.max_parts)}


@dataclass(frozen=True, kw_only=True)
class SentenceDistance(TextClasses):
    """0: adjacent texts, 1: of one document, but not adjacent, 2: of two documents (Sun et al., 2020, 4.2.2)."""

    name: ClassVar = "sentence_distance"
    label: ClassVar = "distance"
    field: ClassVar = "distance"
    reads: ClassVar = frozenset({"pooled", "distance"})

    @property
    def classes(self) -> Mapping[str, int]:
        return {"distance": 3}


@dataclass(frozen=True, kw_only=True)
class DiscourseRelation(TextClasses):
    """Which relation did the removed connective express between the texts? (Sun et al., 2020, 4.2.3)."""

    name: ClassVar = "discourse_relation"
    label: ClassVar = "discourse"
    field: ClassVar = "discourse"
    reads: ClassVar = frozenset({"pooled", "discourse"})

    @property
    def classes(self) -> Mapping[str, int]:
        return {"discourse": len(RELATIONS)}


@dataclass(frozen=True, kw_only=True)
class SearchRelevance(TextClasses):
    """0: the query led to a click on the title, 1: it was shown, 2: it was not (Sun et al., 2020, 4.2.3)."""

    name: ClassVar = "search_relevance"
    label: ClassVar = "relevance"
    field: ClassVar = "relevance"
    reads: ClassVar = frozenset({"pooled", "relevance"})

    @property
    def classes(self) -> Mapping[str, int]:
        return {"relevance": 3}
