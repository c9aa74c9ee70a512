"""The public Python API: the same as the command line, and the model comes back."""

import doctest
import json
import shutil
import subprocess
import sys

import pytest

import plmkit
from plmkit.api import as_sets
from plmkit.catalogue import find
from plmkit.errors import InputError, SettingError

TINY = {
    "stages": [[1.0, 32]], "architecture.max_length": 64, "architecture.layers": 1, "architecture.heads": 2,
    "architecture.width": 32, "architecture.inner": 64, "tokenizer.size": 300, "run.threads": 1,
}  # fmt: skip


def test_the_public_names_are_there_and_cost_nothing_until_they_are_used():
    assert plmkit.__all__ == ["Columns", "__version__", "finetune", "load", "pretrain"]
    assert set(plmkit.__all__) <= set(dir(plmkit))
    code = "import sys, plmkit; assert 'torch' not in sys.modules; plmkit.pretrain; assert 'torch' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        plmkit.train  # noqa: B018


def test_settings_are_written_as_set_takes_them():
    given = {"schedule.batch": 16, "run.dtype": "float32", "stages": [(1.0, 32)], "task.scratch": True, "x": None}
    assert as_sets(given) == [
        "schedule.batch=16", "run.dtype=float32", "stages=[[1.0, 32]]", "task.scratch=true", "x=none",
    ]  # fmt: skip
    assert as_sets(None) == []


def test_a_model_is_pretrained_and_fine_tuned_and_each_comes_back(corpus, rows_file, tmp_path, capsys):
    model = plmkit.pretrain("bert-tiny", corpus, tmp_path / "run", steps=4, settings=TINY, quiet=True)
    assert len(model.fill("the cat [MASK] a house.", top=3)[0]) == 3
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (about["result"]["steps"], about["recipe"]["architecture"]["width"]) == (4, 32)
    tuned = plmkit.finetune(
        tmp_path / "run", "classify", rows_file, tmp_path / "task", epochs=1, settings={"task.batch": 16}, quiet=True
    )
    assert tuned.predict(["the cat sees a house."])[0].label in ("good", "bad")
    assert all(line.startswith(("!", " ")) for line in capsys.readouterr().err.splitlines())


def test_a_recipe_may_be_given_itself_and_a_run_extended(corpus, tmp_path):
    recipe = find("gpt2-mini")
    small = {**TINY, "tokenizer.size": 400}
    plmkit.pretrain(recipe, [corpus], tmp_path / "run", tokens=500, settings=small, quiet=True)
    before = json.loads((tmp_path / "run" / "run.json").read_text())["result"]["steps"]
    plmkit.pretrain(recipe, [corpus], tmp_path / "run", steps=2, extend=True, settings=small, quiet=True)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["result"]["steps"] == before + 2


@pytest.mark.parametrize(
    ("budget", "reported"),
    [
        ({"steps": 2, "minutes": 1}, "A run has one budget; found --minutes and --steps"),
        ({"steps": 0}, "--steps must be a finite number above 0; found 0"),
        ({"extend": True}, "--extend needs a budget of its own"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(budget, reported, corpus, tmp_path):
    with pytest.raises(SettingError, match=reported):
        plmkit.pretrain("bert-tiny", corpus, tmp_path / "run", **budget)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"steps": "5"}, "--steps must be a number; found a str."),
        ({"steps": 2.5}, "--steps must be a whole number; found a float (2.5)."),
        ({"minutes": [1]}, "--minutes must be a number; found a list of 1."),
        ({"tokens": True}, "--tokens must be a number; found a bool (True)."),
        ({"steps": 5, "seed": "0"}, "seed must be a whole number; found a str."),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_with_a_sentence(arguments, said, corpus, tmp_path):
    with pytest.raises(InputError) as refused:
        plmkit.pretrain("bert-tiny", corpus, tmp_path / "run", **arguments)
    assert str(refused.value) == said


def test_epochs_that_are_no_number_are_refused_with_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"^epochs must be a number; found a str\.$"):
        plmkit.finetune("runs/mine", "classify", "train.tsv", tmp_path / "task", epochs="3")


def test_the_examples_of_the_documentation_run(corpus, labelled, tmp_path, monkeypatch):
    """In the order in which a reader meets them, in one folder; `load` uses what `pretrain` leaves."""
    (tmp_path / "my_texts").mkdir()
    corpus.rename(tmp_path / "my_texts" / "corpus.txt")
    for name in ("train", "dev"):
        labelled(tmp_path / f"{name}.tsv", 16, seed=len(name))
    monkeypatch.chdir(tmp_path)
    for documented in (plmkit, plmkit.pretrain, plmkit.load, plmkit.finetune):
        [example] = doctest.DocTestFinder(recurse=False).find(documented, "plmkit", globs={"plmkit": plmkit})
        assert example.examples
        assert not any(doctest.SKIP in one.options for one in example.examples)
        assert doctest.DocTestRunner().run(example).failed == 0
        if documented is not plmkit.pretrain:
            shutil.rmtree("runs/mine-labels", ignore_errors=True)
        if documented is plmkit:
            shutil.rmtree("runs/mine")
