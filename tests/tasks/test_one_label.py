"""A training file with one label only is refused, except for choices, which differ from row to row."""

import json

import pytest

from plmkit.config.machine import Machine
from plmkit.data.reading.columns import ignore
from plmkit.errors import InputError
from plmkit.tasks.finetune import FinetuneRequest
from plmkit.tasks.registry import find_kind
from plmkit.tasks.settings import TaskSettings
from plmkit.tasks.taking_up import read_files, task_from
from plmkit.terminal.screen import Screen


def order(tmp_path, kind: str, rows: list[dict]) -> FinetuneRequest:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return FinetuneRequest(
        model=tmp_path, task=find_kind(kind)(), train=path, dev=None, test=None, out=tmp_path / "out",
        settings=TaskSettings(), machine=Machine(),
    )  # fmt: skip


def learn(request: FinetuneRequest):
    (files,) = request.tasks
    return task_from(files, request.settings, read_files(files, Screen()), ignore)


@pytest.mark.parametrize(
    ("kind", "label", "said"),
    [("classify", "good", "two classes; .* label 'good'"), ("regress", 2.5, "two different numbers; .* label '2.5'")],
)
def test_one_label_is_refused_before_anything_is_trained(tmp_path, kind, label, said):
    rows = [{"text": f"number {n}", "label": label} for n in range(3)]
    with pytest.raises(InputError, match=f"Training needs at least {said}"):
        learn(order(tmp_path, kind, rows))


def test_the_same_choice_may_be_right_in_every_row(tmp_path):
    rows = [{"question": f"number {n}?", "choices": ["yes", "no"], "label": "yes"} for n in range(3)]
    assert learn(order(tmp_path, "choose", rows)).classes == ()
