"""What became of the mutants, as a table: benchmarks/mutation.md."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

REPORT = Path(__file__).with_name("mutation.md")
REASONS = Path(__file__).with_name(
    "mutation_reasons.json"
)  # written by hand: {"file: before -> after": why it survives}
GOAL = 0.85


def write_report(found: Sequence[dict], count: int, seed: int) -> None:
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.is_file() else {}
    REPORT.write_text(report(found, count, seed, reasons, commit=current_commit()), encoding="utf-8")
    print(f"{share(found)} killed: {REPORT}")


def current_commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=REPORT.parent, capture_output=True, text=True, check=True).stdout.strip()


def report(found: Sequence[dict], count: int, seed: int, reasons: dict[str, str], *, commit: str) -> str:
    """A line for each room, then each survivor with why it survives."""
    lines = [
        "# Mutants",
        "",
        f"`python -m benchmarks.mutation --sample {count} --seed {seed}`: a sample of Cosmic Ray's mutants, one per "
        "place in the code, each tried by the tests of its package and then by the recorded losses. Left out are "
        "places that do not affect results (annotations, decorators, messages, asserts, `strict=`) and operators that "
        "the operands do not have. "
        f"Goal: {GOAL:.0%} killed.",
        "",
        f"Run at commit {commit}.",
        "",
        "| room | mutants | killed | survived | share |",
        "|---|---|---|---|---|",
    ]
    rooms = {
        room: [one for one in found if one["room"] == room] for room in dict.fromkeys(one["room"] for one in found)
    }
    for room, some in {**rooms, "**all**": found}.items():
        dead = sum(is_dead(one) for one in some)
        lines.append(f"| {room} | {len(some)} | {dead} | {len(some) - dead} | {share(some)} |")
    lines += ["", "## Survivors", ""]
    for one in sorted((one for one in found if not is_dead(one)), key=lambda one: (one["file"], one["line"])):
        why = reasons.get(f"{one['file']}: {one['before']} -> {one['after']}", "not explained yet")
        lines += [f"- {one['file']}:{one['line']}: {why}", f"  - `{one['before']}`", f"  - `{one['after']}`"]
    return "\n".join(lines) + "\n"


def is_dead(one: dict) -> bool:
    return one["outcome"] != "survived"


def share(some: Sequence[dict]) -> str:
    return f"{sum(map(is_dead, some)) / len(some):.0%}" if some else "-"
