"""The metrics of a run: lines of JSON and TensorBoard events."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from plmkit.storage.files import explained, write_text

METRICS = "metrics.jsonl"


class Log:
    """metrics.jsonl and TensorBoard events in a run folder; lines after `step`, where it resumes, are dropped."""

    def __init__(self, folder: Path, step: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # seconds to import; not needed by most commands

        path = folder / METRICS
        self.folder = folder
        self.written = keep_until(path, step) if path.is_file() else set()
        with explained(folder):
            self.file = open(path, "a", encoding="utf-8", newline="\n")  # noqa: SIM115  (closed in close)
            self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)

    def write(self, step: int, values: dict[str, Any]) -> None:
        if (step, *values) in self.written:  # before a crash
            return
        with explained(self.folder):
            self.file.write(json.dumps({"step": step, **values}) + "\n")
            self.file.flush()
            for name, value in values.items():
                if isinstance(value, int | float):
                    self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        with explained(self.folder):
            try:
                self.writer.close()
            finally:
                self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def keep_until(path: Path, step: int) -> set[tuple[Any, ...]]:
    """Drop the lines of later steps, and an incomplete last line; returns the steps and metrics of the others."""
    kept, written = [], set()
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values = json.loads(line)
            if values["step"] <= step:
                kept.append(line + "\n")
                written.add((values.pop("step"), *values))
        except (ValueError, KeyError, TypeError):
            continue
    write_text(path, "".join(kept))
    return written


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run folder's metrics.jsonl."""
    path = folder / METRICS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
