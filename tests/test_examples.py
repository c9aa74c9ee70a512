import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "quickstart.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    (tmp_path / "notebook.py").write_text(code.replace("steps=300", "steps=30"), encoding="utf-8")
    done = subprocess.run([sys.executable, "notebook.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "steps=300" in code
    assert (tmp_path / "quickstart" / "topics" / "scores.json").is_file()
    assert "kitchen" in done.stdout or "harbour" in done.stdout
