"""What people read when a fine-tuning has ended."""

from pathlib import Path

import pytest

from plmkit.cli import show

MOST_FREQUENT = "the most frequent label, good"


def result(found: float, measure: str = "accuracy", baseline: float = 0.6) -> dict:
    return {
        "over_seeds": {"dev": {measure: {"mean": found}}},
        "baseline": {"dev": {"answer": MOST_FREQUENT, "measure": measure, "score": baseline}},
    }


@pytest.mark.parametrize(
    ("found", "measure", "doubted"),
    [(0.6, "accuracy", True), (0.61, "accuracy", False), (0.7, "mse", True), (0.5, "mse", False)],
)
def test_a_model_that_is_no_better_than_no_model_is_said_to_be(found, measure, doubted):
    said = list(show.doubts(result(found, measure)))
    assert bool(said) is doubted
    assert not said or said[0].startswith(f"On dev the model is no better than {MOST_FREQUENT}: try more epochs")


def test_scores_that_were_not_taken_are_missed():
    assert list(show.doubts({"over_seeds": {}, "baseline": {}})) == [
        "Without --dev or --test nothing was measured: `plm evaluate` scores the model on unseen rows."
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_what_to_do_next_is_said_unless_quiet(quiet, finetuned, pretrained, rows_file, plm):
    options = ["--epochs", "2", "--set", "task.batch=16", "--set", "task.ngrams=false"]
    command = ["finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--out"]
    ran = plm(*command, finetuned, *options, *(["--quiet"] if quiet else []))
    assert ran.code == 0, ran.err
    assert ("Next:" in ran.out) is not quiet
    assert (" in total" in ran.out) is not quiet
    assert "dev accuracy" in ran.out


def test_epochs_that_are_given_twice_are_refused(plm, tmp_path):
    ran = plm("finetune", "m", "--task", "classify", "--train", Path("t.tsv"), "--out", tmp_path / "o",
              "--epochs", "1", "--set", "task.epochs=2")  # fmt: skip
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "plm: --epochs 1 and task.epochs=2 are the same setting. Give one of them.\n"


def test_a_missing_task_is_answered_with_those_there_are(plm, tmp_path):
    ran = plm("finetune", "m", "--train", Path("t.tsv"), "--out", tmp_path / "o")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("plm: --task is missing: one of classify, multilabel, pair, nli, ")


@pytest.mark.parametrize(("linear", "doubted"), [(0.75, True), (0.7, True), (0.65, False)])
def test_a_model_that_is_behind_the_linear_model_is_said_to_be(linear, doubted):
    found = result(0.7) | {"linear": {"classify": {"measure": "accuracy", "dev": linear}}}
    said = list(show.doubts(found))
    assert bool(said) is doubted
    assert not said or said[0].startswith("On dev the model is no better than the linear model over n-grams: try more")


def test_a_model_without_a_mistake_is_not_doubted_because_the_linear_model_makes_none_either():
    assert not list(show.doubts(result(1.0) | {"linear": {"classify": {"measure": "accuracy", "dev": 1.0}}}))


def test_a_doubt_about_one_of_several_tasks_names_it():
    found = {
        "over_seeds": {"dev": {"mood.accuracy": {"mean": 0.5}, "same.accuracy": {"mean": 0.8}}},
        "baseline": {"mood.dev": {"answer": MOST_FREQUENT, "measure": "accuracy", "score": 0.5}},
        "linear": {"mood": {"measure": "accuracy", "dev": 0.6}, "same": {"measure": "accuracy", "dev": 0.7}},
    }
    (said,) = show.doubts(found)
    assert said.startswith(
        f"mood: On dev the model is no better than {MOST_FREQUENT}, nor than the linear model over n-grams: try more"
    )
    del found["baseline"]
    (said,) = show.doubts(found)
    assert said.startswith("mood: On dev the model is no better than the linear model over n-grams: try more")


def test_a_model_that_is_behind_both_is_doubted_once():
    found = result(0.5) | {"linear": {"classify": {"measure": "accuracy", "dev": 0.7}}}
    (said,) = show.doubts(found)
    assert said.count("try more epochs") == 1
    assert said.startswith(f"On dev the model is no better than {MOST_FREQUENT}, nor than the linear model")
