"""The worked example of every page in docs/ runs from top to bottom, and the index names every page."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if path.name != "README.md")


def test_the_index_names_every_page():
    assert re.findall(r"\]\(([a-z-]+\.md)\)", (DOCS / "README.md").read_text(encoding="utf-8")) == [
        "add-a-masking.md", "add-an-objective.md", "add-an-architecture.md", "add-a-tokenizer.md", "add-a-task.md",
        "add-a-recipe.md", "translate.md", "errata.md",
    ]  # fmt: skip
    assert len(PAGES) == 8


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_page_runs(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    (tmp_path / "example.py").write_text("\n".join(blocks), encoding="utf-8")
    ran = subprocess.run([sys.executable, "-W", "error", "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


REGISTERED = {  # the file with the registry, and the line that a page says to add there
    "add-a-masking.md": ("choices.py", "MASKINGS = (*MASKINGS, EveryNthMasking)"),
    "add-an-objective.md": ("choices.py", "OBJECTIVES = (*OBJECTIVES, MaskedOrNot)"),
    "add-an-architecture.md": ("choices.py", "ARCHITECTURES = (*ARCHITECTURES, Convolution)"),
    "add-a-tokenizer.md": ("choices.py", "TOKENIZERS = (*TOKENIZERS, LowercaseWords)"),
    "add-a-task.md": (
        "tasks/registry.py",
        'KINDS["triage"] = Kind("plmkit.tasks.kinds.triage:Triage", "urgent or not")',
    ),
    "add-a-recipe.md": ("catalogue.py", 'CATALOGUE["span-tiny"] = span_tiny'),
}


@pytest.mark.slow
@pytest.mark.parametrize("page", REGISTERED)
def test_the_commands_of_a_page_run_once_its_file_and_line_are_added(page, tmp_path):
    """In a copy of the package, on tiny data."""
    text = (DOCS / page).read_text(encoding="utf-8")
    shutil.copytree(DOCS.parent / "plmkit", tmp_path / "plmkit", ignore=shutil.ignore_patterns("__pycache__"))
    place, code = re.search(r"```python\n# (plmkit/\S+)\n(.*?)```", text, flags=re.DOTALL).groups()
    (tmp_path / place).write_text(code, encoding="utf-8")
    registry, line = REGISTERED[page]
    name = re.findall(r"^(?:class|def) (\w+)", code, flags=re.MULTILINE)[0]
    module = place.removesuffix(".py").replace("/", ".")
    added = line if "KINDS" in line else f"from {module} import {name}\n{line}"
    content = (tmp_path / "plmkit" / registry).read_text(encoding="utf-8")
    before = re.search(r"^(CHOICES: |def )", content, flags=re.MULTILINE).start()
    (tmp_path / "plmkit" / registry).write_text(f"{content[:before]}{added}\n{content[before:]}", encoding="utf-8")
    lines = [
        f"the {word} {'is rising' if number % 2 else 'is calm today'}." for number, word in enumerate("abcdef" * 40)
    ]
    (tmp_path / "my_texts").mkdir()
    documents = ["\n".join(lines[start : start + 6]) for start in range(0, len(lines), 6)]
    (tmp_path / "my_texts" / "a.txt").write_text("\n\n".join(documents), encoding="utf-8")
    rows = "".join(f"{line}\t{'urgent' if 'rising' in line else 'later'}\n" for line in lines[:24])
    for file in ("train.tsv", "dev.tsv"):
        (tmp_path / file).write_text(f"text\tlabel\n{rows}", encoding="utf-8")
    first = ["plm pretrain bert-tiny my_texts/ --out runs/mine --steps 4"] if "runs/mine" in text else []
    small = " --set schedule.batch=4 --set run.threads=1"
    for command in [*first, *re.findall(r"^plm .+$", text, flags=re.MULTILINE)]:
        shorter = command.replace("--steps 1000", "--steps 4") + (small if "plm pretrain" in command else "")
        ran = subprocess.run(
            [sys.executable, "-m", "plmkit", *shlex.split(shorter)[1:]],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        )  # fmt: skip
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"


@pytest.mark.parametrize("page", [*PAGES, "README.md"])
def test_what_a_page_names_exists(page):
    root = DOCS.parent
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in re.findall(r"`((?:plmkit|tests)/[\w./]+)`", text):
        assert (root / name).exists(), f"{page} names {name}"
