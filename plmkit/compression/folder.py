"""The folder of a compressed model: its record, its graph, the weights of its heads, its tokenizer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from plmkit import __version__
from plmkit.architectures.contract import Architecture
from plmkit.config.settings import to_json
from plmkit.data.reading.files import COMPRESSED
from plmkit.errors import FolderError
from plmkit.interop.pooling import Pooling, read_pooling, write_pooling
from plmkit.language import tr
from plmkit.storage.files import read_json, write_json
from plmkit.storage.tensors import load_tensors, save_tensors
from plmkit.tasks.contract import Task, stored
from plmkit.tasks.ngrams import save_ngrams
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.training.record_fields import Fields, choice_of, is_a, list_of

FORMAT = 1
GRAPH = "model.onnx"
HEADS = "heads.safetensors"  # weights of the heads of tasks, which read the states of the graph


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One line of the table of a compression: the model before, or after."""

    size: int  # bytes of the folder's model
    alone: float  # texts per second one by one; of a model that generates, tokens per second of one text
    together: float  # in batches of the best size
    batch: int  # that size
    scores: dict[str, float]  # on the dev rows, by the name of the task, or a measure of its own


@dataclass(frozen=True, kw_only=True)
class Compressed:
    """What compressed.json says."""

    to: str  # onnx or int8
    model: str  # the folder that it was made from
    architecture: Architecture
    max_length: int
    rows: int  # of the token embedding
    tasks: tuple[dict[str, Any], ...] = ()  # as `stored` of plmkit.tasks.contract makes them
    table: dict[str, Any] | None = None  # `Measured` before and after

    @classmethod
    def read(cls, folder: Path) -> Self:
        path = folder / COMPRESSED
        fields = Fields(read_json(path), path)
        if fields.data.get("format") != FORMAT:
            raise FolderError(tr("{path} was written by another version of plmkit.", path=path))
        return cls(
            to=fields.read("to", is_a(str)),
            model=fields.read("model", is_a(str)),
            architecture=fields.read("architecture", choice_of("architecture")),
            max_length=fields.read("max_length", is_a(int)),
            rows=fields.read("rows", is_a(int)),
            tasks=fields.read("tasks", list_of(dict)),
            table=fields.optional("table", is_a(dict)),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "plmkit": __version__,
            "format": FORMAT,
            "to": self.to,
            "model": self.model,
            "architecture": to_json(self.architecture),
            "max_length": self.max_length,
            "rows": self.rows,
            "tasks": list(self.tasks),
            **({"table": self.table} if self.table else {}),
        }


def is_compressed(folder: Path) -> bool:
    return (folder / COMPRESSED).is_file()


def write_folder(
    folder: Path, record: Compressed, tokenizer: Tokenizer, tasks: tuple[Task, ...], weights: Mapping[str, Tensor],
    pooling: Pooling,
) -> None:  # fmt: skip
    """All but the graphs and the manifest; `weights` are those of heads."""
    write_json(folder / COMPRESSED, record.as_json())
    tokenizer.save(folder, record.max_length)
    write_pooling(folder, pooling, record.architecture.width, record.max_length)
    save_ngrams(folder, {task.name: task.ngrams for task in tasks if task.ngrams is not None})
    if weights:
        save_tensors(folder / HEADS, {name: weight.contiguous() for name, weight in weights.items()})


def heads_in(folder: Path) -> dict[str, Tensor]:
    return load_tensors(folder / HEADS) if (folder / HEADS).is_file() else {}


def pooling_in(folder: Path, record: Compressed) -> Pooling:
    found = read_pooling(folder, record.architecture.width)
    assert found is not None
    return found


def stored_all(tasks: tuple[Task, ...]) -> tuple[dict[str, Any], ...]:
    return tuple(stored(task) for task in tasks)


def table_of(before: Measured, after: Measured) -> dict[str, Any]:
    return {"before": asdict(before), "after": asdict(after)}
