"""What one seed of a fine-tuning found, and its files."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.config.settings import to_json
from plmkit.storage.files import new_folder, write_json
from plmkit.storage.tensors import WEIGHTS, checksum, load_tensors, save_tensors
from plmkit.tasks.contract import Task
from plmkit.tasks.registry import LABEL, with_named_head

SEEDS, OUTCOME = "seeds", "outcome.json"  # results of finished seeds, until all are


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """One seed's best epoch."""

    choice: float  # by which the best epoch and seed are chosen
    scores: dict[str, Any]
    weights: dict[str, Tensor]
    learned: dict[str, dict[str, Any]]  # what training determined of each task, besides weights
    seconds: float = 0.0  # of training, scores on dev included


def save_result(folder: Path, result: SeedResult) -> None:
    with new_folder(folder) as partial:
        save_tensors(partial / WEIGHTS, result.weights)
        record = {
            "choice": result.choice, "scores": result.scores, "checksum": checksum(partial / WEIGHTS),
            "learned": to_json(result.learned), "seconds": result.seconds,
        }  # fmt: skip
        write_json(partial / OUTCOME, record)


def load_result(folder: Path, task: Task) -> SeedResult | None:
    """The result of a seed that an interrupted call finished; None if it is incomplete."""
    try:
        record = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
        if checksum(folder / WEIGHTS) != record["checksum"]:
            return None
        return SeedResult(
            choice=record["choice"],
            scores=record["scores"],
            weights=with_named_head(load_tensors(folder / WEIGHTS), LABEL, task.name),
            learned=record.get("learned", {}),
            seconds=record.get("seconds", 0.0),
        )
    except (OSError, ValueError, KeyError):
        return None
