"""`run.kept_checkpoints=N`: how many checkpoints stay, and what `plm attend --checkpoints` shows of them."""

import json

import pytest

from plmkit.config.machine import Machine
from plmkit.errors import SettingError


def test_a_run_keeps_as_many_as_it_is_asked_to_and_a_page_has_them_all(plm, mixed_corpus, tmp_path):
    settings = {
        "run.kept_checkpoints": 3, "run.checkpoint_steps": 2, "run.threads": 1, "tokenizer.size": 120,
        "architecture.width": 16, "architecture.heads": 2, "architecture.inner": 32,
    }  # fmt: skip
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    run, out = tmp_path / "run", tmp_path / "page.html"
    assert plm("pretrain", "bert-tiny", mixed_corpus, "--out", run, "--steps", 8, *sets).code == 0
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [f"step-0000000{n}" for n in (4, 6, 8)]
    ran = plm("attend", run, "a text", "--checkpoints", "--out", out)
    assert (ran.code, "slider" in ran.err) == (0, False)
    data = out.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0]
    assert [frame["label"] for frame in json.loads(data)["models"][0]["frames"]] == ["step 4", "step 6", "step 8"]


def test_no_checkpoint_is_refused():
    with pytest.raises(SettingError, match=r"run\.kept_checkpoints must be 1 or more"):
        Machine(kept_checkpoints=0)
