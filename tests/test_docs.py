"""The worked example of every page in docs/ runs from top to bottom, and the index names every page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md") if path.name != "README.md")


def test_the_index_names_every_page():
    assert re.findall(r"\]\(([a-z-]+\.md)\)", (DOCS / "README.md").read_text(encoding="utf-8")) == [
        "add-a-masking.md", "add-an-objective.md", "add-an-architecture.md", "add-a-tokenizer.md", "add-a-task.md",
        "add-a-recipe.md", "translate.md",
    ]  # fmt: skip
    assert len(PAGES) == 7


@pytest.mark.parametrize("page", PAGES)
def test_the_example_of_a_page_runs(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    (tmp_path / "example.py").write_text("\n".join(blocks), encoding="utf-8")
    ran = subprocess.run([sys.executable, "-W", "error", "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", [*PAGES, "README.md"])
def test_what_a_page_names_exists(page):
    root = DOCS.parent
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in re.findall(r"`((?:plmkit|tests)/[\w./]+)`", text):
        assert (root / name).exists(), f"{page} names {name}"
