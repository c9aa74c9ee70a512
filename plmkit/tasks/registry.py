"""The kinds of task: name → class, one line per kind."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plmkit.errors import SettingError, nearest
from plmkit.language import comma, tr

if TYPE_CHECKING:
    from plmkit.architectures.contract import Architecture
    from plmkit.tasks.contract import Task

LABEL = "label"  # the only head of a run folder of format 1


@dataclass(frozen=True)
class Kind:
    """Where a kind of task is defined; imported on first use, because it imports torch."""

    place: str  # module:class
    summary: str  # in English; translated where it is shown


KINDS = {
    "classify": Kind("plmkit.tasks.kinds.classify:Classify", summary="one text, one class"),
    "multilabel": Kind("plmkit.tasks.kinds.multilabel:MultiLabel", summary="one text or two, any number of classes"),
    "pair": Kind("plmkit.tasks.kinds.pair:Pair", summary="two texts, one class"),
    "nli": Kind("plmkit.tasks.kinds.nli:NLI", summary="premise and hypothesis: contradiction, entailment or neutral"),
    "paraphrase": Kind("plmkit.tasks.kinds.paraphrase:Paraphrase", summary="two texts in both orders, one class"),
    "similarity": Kind("plmkit.tasks.kinds.similarity:Similarity", summary="two texts in both orders, a number"),
    "choose": Kind("plmkit.tasks.kinds.choose:Choose", summary="a context, a question, and one of several choices"),
    "tag": Kind("plmkit.tasks.kinds.tag:Tag", summary="a tag for every word: entities, parts of speech"),
    "slots": Kind("plmkit.tasks.kinds.slots:Slots", summary="the intent of an utterance, and a tag for every word"),
    "qa": Kind("plmkit.tasks.kinds.qa:QA", summary="a question and a text; the answer is a part of the text"),
    "rank": Kind("plmkit.tasks.kinds.rank:Rank", summary="a query and its candidates in order of relevance"),
    "match": Kind("plmkit.tasks.kinds.match:Match", summary="two texts, the cosine of their vectors; for plm search"),
    "regress": Kind("plmkit.tasks.kinds.regress:Regress", summary="one or two texts, a number"),
}


def find_kind(name: str) -> "type[Task]":
    if name not in KINDS:
        raise SettingError(
            tr(
                "There is no task '{name}'.{hint} Tasks: {kinds}.",
                name=name,
                hint=nearest(name, KINDS),
                kinds=comma().join(KINDS),
            )
        )
    module, _, kind = KINDS[name].place.partition(":")
    found: type[Task] = getattr(import_module(module), kind)
    return found


def reasons_against(architecture: "Architecture") -> dict[str, str | None]:
    """For every kind, why an architecture cannot be fine-tuned on it; None where it can."""
    return {name: find_kind(name).unsupported(architecture) for name in KINDS}


def stored_tasks(records: Iterable[Mapping[str, Any]]) -> "tuple[Task, ...]":
    """The tasks that the record of a fine-tuning has."""
    from plmkit.config.settings import from_json
    from plmkit.data.reading.columns import Columns

    tasks = []
    for record in records:
        kind = find_kind(record["kind"])
        values = {name: value for name, value in record.items() if value is not None}
        tasks.append(from_json({**values, "kind": kind.__name__}, {kind.__name__: kind, "Columns": Columns}))
    return tuple(tasks)


def with_named_head(weights: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """The weights with the head `old` renamed to `new`."""
    stem = f"heads.{old}."
    return {f"heads.{new}.{name[len(stem) :]}" if name.startswith(stem) else name: w for name, w in weights.items()}
