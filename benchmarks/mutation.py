"""How many small faults the tests notice: `python -m benchmarks.mutation --sample 120 --seed 0`.

A sample of Cosmic Ray's mutants (`pip install -c constraints.txt -e '.[mutation]'`) of the rooms whose arithmetic
decides what is learned. Each is tried in a copy of the tree by the tests of its room, then by the recorded losses; the
first test that fails has killed it. What was found is kept mutant by mutant in mutation.jsonl, so that a run that was
stopped continues, and reported in mutation.md.
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from benchmarks.mutation_report import write_report

ROOT = Path(__file__).parent.parent
FOUND = Path(__file__).with_name("mutation.jsonl")
COPIED = ("plmkit", "tests", "pyproject.toml")
LOSSES = "tests/golden"
WARM = (
    "torch",
    "scipy.stats",
    "sklearn.metrics",
    "pyarrow",
    "tokenizers",
)  # imported once, before the tests are forked
ROOMS = {  # what is mutated, and the tests that answer for it
    "corruption": ("plmkit/corruption", ("tests/corruption",)),
    "objectives": ("plmkit/objectives", ("tests/objectives",)),
    "tasks": ("plmkit/tasks", ("tests/tasks", "tests/surface/test_bad_input.py")),
    "generation": ("plmkit/generation", ("tests/generation", "tests/surface/test_generating.py")),
    "prompting": ("plmkit/prompting", ("tests/prompting",)),
    "schedule": ("plmkit/schedules/schedule.py", ("tests/schedules",)),
}
ALIKE = (  # an operator is replaced by one that takes the same things: others die of a TypeError, whatever is tested
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"},
    {"BitAnd", "BitOr", "BitXor"},
    {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"},
    {"Is", "IsNot"},
    {"Delete", "Not", "USub", "Invert"},
)
Span = tuple[tuple[int, int], tuple[int, int]]  # (line, column) of the first character, and of the one after the last


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change to one file: the number of a place where an operator of Cosmic Ray applies."""

    room: str
    file: str
    source: str  # checksum of the file that it is a change of
    operator: str
    occurrence: int
    line: int

    @property
    def key(self) -> str:
        return f"{self.file} {self.source} {self.operator} {self.occurrence}"


# --- what can be mutated


def mutants_of(room: str, file: Path) -> dict[Span, list[Mutant]]:
    """Every mutant of a file by its place, but for places that decide nothing."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    code = file.read_text(encoding="utf-8")
    about = {"room": room, "file": str(file.relative_to(ROOT)), "source": sha256(code.encode()).hexdigest()[:12]}
    idle, nodes = idle_spans(code), list(ast_nodes(get_ast(code)))
    found: dict[Span, list[Mutant]] = {}
    for name in sorted(operator_names()):
        if get_operator(name).arguments() or not apt(name):  # arguments would be names of our variables
            continue
        positions = (span for node in nodes for span in get_operator(name)().mutation_positions(node))
        for number, (begin, end) in enumerate(positions):
            if not any(first <= begin and end <= last for first, last in idle):
                mutant = Mutant(**about, operator=name, occurrence=number, line=begin[0])
                found.setdefault((begin, end), []).append(mutant)
    return found


def apt(operator: str) -> bool:
    """`core/ReplaceBinaryOperator_Add_Sub`: are the two the same kind? Decorators decide nothing."""
    _, *replaced = operator.split("_")
    return "RemoveDecorator" not in operator and (not replaced or any(kinds >= set(replaced) for kinds in ALIKE))


def idle_spans(code: str) -> list[Span]:
    """Annotations, decorators, what is said, and what only guards (assert, strict): no arithmetic."""
    spans = []
    for node in ast.walk(ast.parse(code)):
        idle: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            idle = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            idle = [*node.decorator_list]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            idle = [node.annotation]
        elif isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
            idle = [node]
        elif isinstance(node, ast.keyword) and node.arg == "strict":
            idle = [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "say":
            idle = [*node.args]
        spans += [span_of(part) for part in idle if part is not None]
    return spans


def span_of(node: ast.AST) -> Span:
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
    return begin, end


def sample(count: int, seed: int, rooms: Sequence[str]) -> list[Mutant]:
    """As many of each room, at most one at a place, so that an operator with many others is not drawn oftener."""
    rng, drawn = random.Random(seed), []
    for number, room in enumerate(rooms):
        path = ROOT / ROOMS[room][0]
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        places = [choices for file in files for choices in mutants_of(room, file).values()]
        wanted = count // len(rooms) + (number < count % len(rooms))
        drawn += [rng.choice(choices) for choices in rng.sample(places, min(wanted, len(places)))]
    return drawn


def mutated(code: str, mutant: Mutant) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    return mutate_code(code, get_operator(mutant.operator)(), mutant.occurrence)


def change(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, as they were and as they are."""
    old, new = before.splitlines(), after.splitlines()
    first = next(
        (n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    last = next((n for n, pair in enumerate(zip(old[::-1], new[::-1], strict=False)) if pair[0] != pair[1]), 0)
    was, now = (" ".join(line.strip() for line in lines[first : len(lines) - last]) for lines in (old, new))
    return was, now


# --- trying them


def stages_for(mutant: Mutant) -> list[tuple[str, ...]]:
    """The file's own tests, which fail soonest, then all of its room's, then the recorded losses."""
    tests = ROOMS[mutant.room][1]
    own = [str(file.relative_to(ROOT)) for file in (ROOT / tests[0]).rglob(f"test_{Path(mutant.file).stem}.py")]
    return [*([tuple(own)] if own else []), tests, (LOSSES,)]


def run_tests(tree: Path, tests: Sequence[str], seconds: float) -> tuple[str, str]:
    """`killed`, `timeout` or `survived`, and the first line that says why.

    In a fork: importing torch takes longer than most tests do.
    """
    said = tree / "said.txt"
    ran = get_context("fork").Process(target=in_tree, args=(tree, tests, said))
    ran.start()
    try:
        ran.join(seconds)
        if ran.is_alive():
            return "timeout", f"after {seconds:.0f} s"
    finally:
        if ran.is_alive():
            os.killpg(ran.pid, signal.SIGKILL)
            ran.join()
    if ran.exitcode == 0:
        return "survived", ""
    shown = said.read_text(encoding="utf-8")
    return "killed", next((line for line in shown.splitlines() if line.startswith(("FAILED", "ERROR"))), shown[-200:])


def in_tree(tree: Path, tests: Sequence[str], said: Path) -> None:
    """The tests of a tree, in a process of their own: nothing of plmkit has been imported before."""
    os.setsid()
    os.chdir(tree)
    for number in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.path[:] = [str(tree), *(path for path in sys.path if Path(path).resolve() != ROOT)]
    os.environ["PYTHONPATH"] = str(tree)
    sys.dont_write_bytecode = True  # two mutants of one size and second would share it
    options = ("-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", "--tb=no")
    code = pytest.main([*options, *tests])
    sys.stdout.flush()
    os._exit(code)


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy to mutate, so that the tree itself is never changed."""
    with TemporaryDirectory(prefix="plmkit-mutation-") as folder:
        tree = Path(folder)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        yield tree


def check_tests(tree: Path, mutants: Sequence[Mutant], seconds: float) -> None:
    """Tests that fail without a mutant cannot test one."""
    rooms = dict.fromkeys(mutant.room for mutant in mutants)
    outcome, why = run_tests(tree, [*(test for room in rooms for test in ROOMS[room][1]), LOSSES], 10 * seconds)
    if outcome != "survived":
        raise SystemExit(f"The tests fail without a mutant, so they cannot test one: {why}")


def tried(tree: Path, mutant: Mutant, seconds: float) -> dict[str, Any]:
    """What the tests say of it, and how its lines read."""
    file, started = tree / mutant.file, time.monotonic()
    code = file.read_text(encoding="utf-8")
    other = mutated(code, mutant)
    file.write_text(other, encoding="utf-8")
    outcome, why = "survived", ""
    for tests in stages_for(mutant):
        if outcome == "survived":
            outcome, why = run_tests(tree, tests, seconds)
    file.write_text(code, encoding="utf-8")
    before, after = change(code, other)
    shown = {"before": before, "after": after, "outcome": outcome, "why": why}
    return {**asdict(mutant), **shown, "seconds": round(time.monotonic() - started, 1)}


def found_before() -> dict[str, dict[str, Any]]:
    """By mutant; of two lines for one, the later."""
    lines = FOUND.read_text(encoding="utf-8").splitlines() if FOUND.is_file() else []
    names = [field.name for field in fields(Mutant)]
    return {Mutant(**{name: shown[name] for name in names}).key: shown for shown in map(json.loads, lines)}


def main() -> None:
    asked = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that tests under way end too
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    for name in WARM:
        import_module(name)
    mutants, known = sample(asked.sample, asked.seed, asked.room or list(ROOMS)), found_before()
    if asked.retry:
        known = {key: shown for key, shown in known.items() if shown["outcome"] != "survived"}
    left = [mutant for mutant in mutants if mutant.key not in known]
    print(f"{len(mutants)} mutants, {len(mutants) - len(left)} of them tried before.", flush=True)
    with copied_tree() as tree:
        if left and not asked.trust:
            check_tests(tree, left, asked.timeout)
        for mutant in left:
            shown = known[mutant.key] = tried(tree, mutant, asked.timeout)
            with FOUND.open("a", encoding="utf-8") as file:
                file.write(json.dumps(shown, ensure_ascii=False) + "\n")
            print(
                f"{shown['outcome']:8} {shown['seconds']:6.1f} s  {mutant.file}:{mutant.line}  {shown['after'][:90]}",
                flush=True,
            )
    write_report([known[mutant.key] for mutant in mutants], asked.sample, asked.seed)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=120, help="mutants, as many from each room [120]")
    parser.add_argument("--seed", type=int, default=0, help="of the sample [0]")
    parser.add_argument("--room", action="append", choices=ROOMS, help="this room alone; may be repeated")
    parser.add_argument("--retry", action="store_true", help="try those that survived before again")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a mutant first")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds for each of the three runs of tests on a mutant [300]"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
