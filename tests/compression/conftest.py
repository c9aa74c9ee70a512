"""A fine-tuned model in all compressed forms, each made once."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from plmkit.compression.compress import Request, compress
from plmkit.compression.folder import GRAPH
from plmkit.terminal.screen import Screen


@pytest.fixture(autouse=True)
def measured_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One turn of a few texts says enough here."""
    for name, value in (("SECONDS", 0.0), ("ONE_BY_ONE", 2), ("TOGETHER", 4), ("BATCHES", (2,)), ("TOKENS", 4)):
        monkeypatch.setattr(f"plmkit.compression.measuring.{name}", value)


@pytest.fixture(scope="session")
def compressed(made: Path, finetuned: Path, rows_file: Path) -> Callable[[str], Path]:
    """The folder of the fine-tuned model, compressed to onnx, int8 or pruned."""

    def folder(to: str) -> Path:
        out = made / f"compressed-{to}"
        if not out.exists():
            with pytest.MonkeyPatch.context() as patch:
                if to == "int8":  # of the graph that was exported before: an export takes seconds
                    graph = onnx.load(folder("onnx") / GRAPH)
                    patch.setattr("plmkit.compression.compress.graph_of", lambda *_: graph)
                request = Request(model=finetuned, to=to, out=out, margin=1.0, heads=0.5, units=0.25)
                compress(request, Screen(quiet=True))
        return out

    return folder
