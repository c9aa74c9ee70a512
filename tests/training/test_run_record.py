"""run.json as types: what is written is read again, older formats too, and damage is named by its field."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from plmkit.errors import CheckpointError, FolderError
from plmkit.training.loop import Budget
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import FinetuneRecord, PretrainRecord

OLD = Path(__file__).parents[1] / "config" / "run_of_format_1.json"


def folder_of(data: dict, path: Path) -> RunFolder:
    path.mkdir(exist_ok=True)
    (path / "run.json").write_text(json.dumps(data), encoding="utf-8")
    return RunFolder(path)


def data_of(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("kind", "expected"), [("pretrained", PretrainRecord), ("finetuned", FinetuneRecord)])
def test_a_record_is_read_as_it_was_written(kind, expected, request, tmp_path):
    written = data_of(request.getfixturevalue(kind))
    record = folder_of(written, tmp_path / "run").record
    assert type(record) is expected
    assert (record.is_finished, record.has_model, written["format"]) == (True, True, 2)
    assert record.as_json() == written


def test_a_record_of_format_1_is_written_in_format_2(tmp_path):
    folder = folder_of(json.loads(OLD.read_text(encoding="utf-8")), tmp_path / "run")
    record = folder.record
    assert record.recipe.name == "ernie-mini"
    assert (data_of(folder.path)["format"], "streams" in data_of(folder.path)["recipe"]) == (1, False)
    folder.write(record)
    assert (data_of(folder.path)["format"], "streams" in data_of(folder.path)["recipe"]) == (2, True)
    assert RunFolder(folder.path).record == record


@pytest.mark.parametrize(
    ("kind", "field", "value", "said"),
    [
        ("pretrained", "seed", "one", "is damaged ('seed': a str)"),
        ("pretrained", "corpora", [1], "is damaged ('corpora': an int (1))"),
        ("pretrained", "budget", {"years": 1}, "is damaged ('budget': "),
        ("pretrained", "state", "asleep", "is damaged ('state': asleep)"),
        ("pretrained", "tokens_key", None, "is damaged ('tokens_key': "),
        ("pretrained", "result", [], "is damaged ('result': "),
        ("pretrained", "recipe", {"kind": "Rezept"}, "run.json, recipe: "),
        ("pretrained", "run", {"kind": "Machine", "devise": "cpu"}, "run.json, run: Machine has no setting 'devise'"),
        ("finetuned", "tasks", [], "is damaged ('tasks': "),
        ("finetuned", "task", "quick", "is damaged ('task': a str)"),
        ("finetuned", "architecture", "deep", "is damaged ('architecture': a str)"),
        ("finetuned", "checksum", 5, "is damaged ('checksum': an int (5))"),
    ],
)
def test_damage_is_named_by_its_field(kind, field, value, said, request, tmp_path):
    folder = folder_of({**data_of(request.getfixturevalue(kind)), field: value}, tmp_path / "run")
    with pytest.raises(FolderError) as error:
        _ = folder.record
    assert str(error.value).startswith(str(folder.path / "run.json"))
    assert said in str(error.value)


@pytest.mark.parametrize("field", ["recipe", "corpora", "budget", "seed", "tokens_key", "checksum", "result"])
def test_a_missing_field_is_named(field, pretrained, tmp_path):
    data = data_of(pretrained)
    del data[field]
    folder = folder_of(data, tmp_path / "run")
    with pytest.raises(FolderError, match=rf"is damaged \('{field}'\)\. Copy the folder again\."):
        _ = folder.record


def test_what_older_versions_did_not_write_has_its_default(pretrained, tmp_path):
    data = data_of(pretrained)
    for name in ("asked", "run", "dtype", "valid", "from"):
        del data[name]
    record = folder_of(data, tmp_path / "run").record
    assert (record.asked, record.dtype, record.valid, record.start) == (record.budget, None, None, None)


def test_differences_are_data_and_english_is_made_of_them(pretrained):
    folder = RunFolder(pretrained)
    old = folder.record
    assert folder.differences(replace(old, corpora=tuple(path.replace("/", "/./") for path in old.corpora))) == []
    (found,) = folder.differences(replace(old, tokenizer="vocab.txt"))
    assert str(found) == "tokenizer was none, is vocab.txt"
    new = replace(
        old, seed=7, recipe=replace(old.recipe, notes="other words"), run=replace(old.run, log_steps=3, layout="lines")
    )
    found = [(one.path, one.old, one.new) for one in folder.differences(new)]
    assert found == [("seed", 0, 7), ("run.layout", "auto", "lines")]
    assert [str(one) for one in folder.differences(new)] == ["seed was 0, is 7", "run.layout was auto, is lines"]


def test_the_budget_of_a_finished_run_may_differ_and_that_of_an_unfinished_one_may_not(pretrained):
    old = RunFolder(pretrained).record
    new = replace(old, asked=Budget(steps=9))
    assert old.differences(new) == []
    found = replace(old, state="unfinished").differences(new)
    assert [(one.path, one.old, one.new) for one in found] == [("budget.steps", 40, 9)]


def test_a_file_with_other_contents_is_a_difference_and_another_file_is_one_by_its_name(finetuned):
    old = RunFolder(finetuned).record
    changed = replace(old, contents={**old.contents, "train": "0"})
    (found,) = old.differences(changed)
    assert (found.path, found.new) == (old.files["train"], "0")
    assert str(found) == f"{old.files['train']} has changed since"
    moved = replace(changed, files={**old.files, "train": "elsewhere.tsv"})
    assert [one.path for one in old.differences(moved)] == ["files.train"]


def test_the_columns_of_an_older_fine_tuning_are_unknown_and_no_difference(finetuned):
    new = RunFolder(finetuned).record
    old = replace(new, tasks=({**new.tasks[0], "columns": None},))
    assert old.differences(new) == []
    assert old.tasks[0]["columns"] is None  # it was only looked at


def test_a_folder_is_read_once_and_knows_what_it_wrote(pretrained, tmp_path):
    folder = RunFolder(Path(shutil.copytree(pretrained, tmp_path / "run")))
    record = folder.record
    (folder.path / "run.json").unlink()
    assert folder.record is record
    folder.write(replace(record, state="unfinished"))
    assert not folder.is_finished
    assert RunFolder(folder.path).record == folder.record
    assert RunFolder(tmp_path / "nothing").record is None


def test_a_locked_folder_is_refused_to_another(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with folder.lock(), pytest.raises(FolderError, match="Another process is writing to"), folder.lock():
        pass
    with folder.lock():
        pass


def test_weights_are_those_of_the_record(pretrained, tmp_path):
    folder = RunFolder(Path(shutil.copytree(pretrained, tmp_path / "run")))
    weights = folder.weights()
    assert folder.save_weights(weights) == folder.record.checksum
    folder.write(replace(folder.record, checksum="0"))
    with pytest.raises(CheckpointError, match=r"its checksum differs from the one in run\.json"):
        folder.weights()
