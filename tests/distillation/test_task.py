"""`plm distill` with a fine-tuned teacher: the student ends as a fine-tuned folder."""

import json
import random

import pytest
from safetensors.torch import load_file
from sentences import sentence
from test_general import sets, stop_at

from plmkit.distillation.report import without_ngrams
from plmkit.distillation.settings import Distillation, settle_distillation
from plmkit.inference.loading import read_parts
from plmkit.tasks.contract import Row

METHODS = ["soft", "distilbert", "tinybert", "minilm"]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_resumes_and_leaves_a_fine_tuned_model(method, plm, finetuned, pretrained, rows_file, tmp_path):
    out, halved = tmp_path / "run", tmp_path / "halved"
    command = [
        "distill", finetuned, pretrained, rows_file, "--dev", rows_file, "--method", method, "--epochs", 4, "--set",
        "task.batch=16", "--set", "run.threads=1", "-q",
    ]  # fmt: skip
    ran = plm(*command, "--out", out, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["compared"][0]["score"] is not None
    stop_at(7, plm, [*command, "--out", halved])
    assert plm(*command, "--out", halved).code == 0
    whole, resumed = (load_file(folder / "model.safetensors") for folder in (out, halved))
    assert whole.keys() == resumed.keys()
    assert all((whole[key] == resumed[key]).all() for key in whole)
    assert {name.split(".")[1] for name in whole if name.startswith("heads.")} == {"classify"}
    ran = plm("predict", out, "the cat sees a house.", "--json", "-q")
    assert ran.code == 0, ran.err
    assert plm("evaluate", out, rows_file, "--json", "-q").code == 0


@pytest.mark.slow
def test_a_student_with_soft_targets_is_at_least_as_good_as_one_with_labels_only(
    plm, finetuned, labelled, tmp_path
):  # fmt: skip
    """A teacher that knows the rule, few labels, many texts without one; both students take as many steps."""
    many, few, dev = (labelled(tmp_path / f"{rows}.tsv", rows, rows) for rows in (300, 20, 100))
    teacher, rate = tmp_path / "teacher", ["--set", "task.learning_rate=5e-3", "--set", "run.threads=1"]
    ran = plm(
        "finetune", finetuned, "--task", "classify", "--train", many, "--dev", dev, "--out", teacher, "--epochs", 8,
        "--set", "task.ngrams=false", *rate, "-q",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    rng = random.Random(9)
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(sentence(rng) + "\n" for _ in range(300)), encoding="utf-8")
    ran = plm(
        "distill", teacher, "bert-tiny", few, "--dev", dev, "--unlabelled", texts, "--out", tmp_path / "run", "--alone",
        "--init", "random", "--epochs", 8, "--json", "-q", *rate, *sets()[4:12],
    )  # fmt: skip
    assert ran.code == 0, ran.err
    taught, student, alone = ran.json["compared"]
    assert taught["score"] > 0.9
    assert student["score"] >= alone["score"] + 0.05


def test_the_network_of_a_teacher_with_n_grams_is_scored_beside_it_and_a_larger_student_is_remarked(
    plm, pretrained, labelled, tmp_path
):
    rows, teacher, few = labelled(tmp_path / "rows.tsv", 60, 1), tmp_path / "teacher", ["--set", "run.threads=1", "-q"]
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows, "--dev", rows, "--epochs", 1, "--out",
              teacher, *few)  # fmt: skip
    assert ran.code == 0, ran.err
    task = read_parts(teacher).tasks[0]
    assert task.ngrams is not None
    ran = plm("distill", teacher, "bert-tiny", rows, "--dev", rows, "--epochs", 1, "--out", tmp_path / "run", *few[:2])
    assert ran.code == 0, ran.err
    assert "! The student has more parameters than its teacher (" in ran.err
    assert [line.split("  ")[0] for line in ran.out.splitlines()[1:4]] == [
        "teacher", "teacher without n-grams", "student, distilled",
    ]  # fmt: skip
    mixed, network, student = json.loads((tmp_path / "run" / "distillation.json").read_text())["compared"]
    assert student["parameters"] > mixed["parameters"] == network["parameters"]
    assert mixed["score"] == plm("evaluate", teacher, rows, "--json", "-q").json["accuracy"] > network["score"]
    parts = without_ngrams(read_parts(teacher), [])
    (example,) = parts.tasks[0].frame([Row(text="the cat sees a house.", line=1)], parts.tokenizer, 32)
    assert example.ngrams is None and not any(".ngrams." in name for name in parts.weights)


def test_settings_are_taken_apart_from_those_of_the_task():
    made, left = settle_distillation(["distill.temperature=4", "task.batch=8", "distill.label_weight=0.5"])
    assert made == Distillation(temperature=4.0, label_weight=0.5)
    assert left == ["task.batch=8"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--steps", 3], "--steps is for text, but"),
        (["--set", "distill.temprature=2"], "There is no setting 'distill.temprature'"),
        (["--set", "distill.matching_share=1"], "distill.matching_share must be above 0 and below 1; found 1"),
        (["--set", "distill.label_weight=-1"], "distill.label_weight must be a finite number, 0 or more; found -1"),
    ],
)
def test_bad_options_are_explained(options, said, plm, finetuned, rows_file, tmp_path):
    ran = plm("distill", finetuned, "bert-tiny", rows_file, "--out", tmp_path / "run", *options)
    assert ran.code == 2
    assert said in ran.err, ran.err


def test_a_class_that_the_teacher_does_not_know_is_named(plm, finetuned, rows_file, tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_text(rows_file.read_text() + "the cat sees.\tugly\nthe dog sees.\tugly\n")
    ran = plm("distill", finetuned, "bert-tiny", bad, "--out", tmp_path / "run", "--epochs", 1)
    assert ran.code == 2
    assert "bad.tsv: the teacher does not know the class 'ugly'; it knows bad, good." in ran.err, ran.err
