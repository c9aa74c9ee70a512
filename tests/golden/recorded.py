"""The table of recorded losses: one line per run in losses.json."""

import json
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("losses.json")
LEFT_OUT = ("step", "seconds", "tokens_per_second")  # what the clock decides
LAST_DIGIT = {"gradient_norm": 1e-4, "learning_rate": 0.0}  # of losses 1e-5
Series = dict[str, list[float]]


def series_of(folder: Path) -> Series:
    """Everything that a run wrote into its metrics, by name, to six digits."""
    found: Series = {}
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        for name, value in json.loads(line).items():
            if name not in LEFT_OUT:
                found.setdefault(name, []).append(float(f"{value:.6g}"))
    return found


def recorded() -> dict[str, Series]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}


def record(name: str, series: Series) -> None:
    """Put one run into the table; the others stay as they are."""
    table = dict(sorted({**recorded(), name: series}.items()))
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def compare(name: str, series: Series, tolerance: float) -> None:
    """Every number is the one recorded, relative to it; the last digit that a run writes may differ by two."""
    known = recorded()[name]
    assert series.keys() == known.keys()
    for key, values in known.items():
        assert series[key] == pytest.approx(values, rel=tolerance, abs=2 * LAST_DIGIT.get(key, 1e-5)), key
