"""Any number of classes per row: read, decided by thresholds, scored, exported."""

import json
import re

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import plmkit
from plmkit.data.reading.columns import Search, ignore
from plmkit.data.reading.whole import read_table
from plmkit.errors import InputError, SettingError
from plmkit.tasks.contract import Prediction, Row
from plmkit.tasks.kinds.multilabel import MultiLabel
from plmkit.tasks.label_lists import best_threshold
from plmkit.tasks.settings import settle_kind

ABC = MultiLabel(classes=("a", "b", "c"))
QUICK = ("--set", "task.batch=8", "--set", "run.threads=1", "--set", "task.learning_rate=3e-3")


def read(path, text: str, task: MultiLabel = ABC, **options) -> list[Row]:
    path.write_text(text, encoding="utf-8")
    return task.read(read_table(path), Search(), ignore, **options)[0]


def rows_of(*labels: tuple[str, ...]) -> list[Row]:
    return [Row(text="x", label=label, line=number) for number, label in enumerate(labels, start=2)]


# Reading


def test_labels_are_a_list_in_jsonl_and_an_empty_one_is_an_answer(tmp_path):
    lines = [{"labels": ["b", "a", "b"]}, {"labels": []}, {"labels": None}, {"labels": [2]}, {"labels": "c"}]
    rows = read(tmp_path / "a.jsonl", "".join(json.dumps({"text": "x", **line}) + "\n" for line in lines))
    assert [row.label for row in rows] == [("a", "b"), (), None, ("2",), ("c",)]


def test_a_cell_of_text_has_a_separator_or_a_json_list(tmp_path):
    text = 'text\tlabels\nx\tb | a\nx\t\nx\t["a|b"]\nx\t[]\nx\ta|\nx\ta;b\n'
    assert [row.label for row in read(tmp_path / "a.tsv", text)] == [("a", "b"), (), ("a|b",), (), ("a",), ("a;b",)]
    task, _ = settle_kind(MultiLabel(), ["task.separator=;"])
    assert read(tmp_path / "a.tsv", text, task)[-1].label == ("a", "b")


def test_the_column_labels_is_preferred_and_another_is_found_by_its_usual_name(tmp_path):
    assert read(tmp_path / "a.tsv", "text\tlabel\tlabels\nx\tno\ta|b\n")[0].label == ("a", "b")
    assert read(tmp_path / "b.tsv", "text\tcategory\nx\ta|b\n")[0].label == ("a", "b")


def test_pairs_have_labels_too(tmp_path):
    (row,) = read(tmp_path / "a.tsv", "text_a\ttext_b\tlabels\nx\ty\ta|b\n")
    assert (row.text, row.other, row.label) == ("x", "y", ("a", "b"))


@pytest.mark.parametrize("cell", [{"a": 1}, [["a"]], ["a", ""], ["a", None]])
def test_a_list_of_anything_but_texts_is_refused_with_its_line(cell, tmp_path):
    lines = [{"text": "x", "labels": ["a"]}, {"text": "x", "labels": cell}]
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: labels must be a list of texts; found"):
        read(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def test_unknown_labels_and_rows_that_are_all_alike_are_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"line 3: label 'd' does not occur in training\.[^\n]*\nKnown labels: a, b, c\."
    ):
        ABC.check(rows_of(("a",), ("a", "d")), tmp_path / "a.tsv")
    for label, said in ((("a", "b"), "a, b"), ((), "none")):
        with pytest.raises(InputError, match=f"all 2 rows of .* have: {said}"):
            MultiLabel().learn(rows_of(label, label), tmp_path / "a.tsv")
    assert MultiLabel().learn(rows_of(("b", "a"), ()), tmp_path / "a.tsv").classes == ("a", "b")


# Deciding and scoring


def predictions(*shares: tuple[float, float, float]) -> list[Prediction]:
    return ABC.decide(torch.tensor(shares).logit(), [None] * len(shares))


def test_a_class_is_predicted_from_its_threshold_on():
    found = predictions((0.9, 0.4, 0.5), (0.1, 0.2, 0.3))
    assert [one.label for one in found] == [("a", "c"), ()]
    assert found[0].probabilities == pytest.approx({"a": 0.9, "b": 0.4, "c": 0.5})
    assert ABC.render(found[0])["prediction"] == ["a", "c"]
    assert ABC.render(ABC.nothing())["prediction"] is None


def test_thresholds_are_those_with_the_best_f1_on_dev():
    assert best_threshold(np.array([0.9, 0.4, 0.3, 0.1]), np.array([1, 1, 0, 0])) == pytest.approx(0.35)
    assert best_threshold(np.array([0.9, 0.4]), np.array([1, 1])) == pytest.approx(0.2)
    assert best_threshold(np.array([0.9, 0.4]), np.array([0, 0])) == 0.5
    assert best_threshold(np.array([0.6, 0.6, 0.2]), np.array([1, 0, 0])) == pytest.approx(0.4)  # equal: both or none
    found, rows = predictions((0.9, 0.2, 0.1), (0.4, 0.3, 0.2)), rows_of(("a", "b"), ("a", "b"))
    shared = ABC.tuned(found, rows)
    assert shared.chosen == pytest.approx(
        (0.15,) * 3
    )  # both answers of 0.2 or none: 4 of 5 right is better than 3 of 3
    each = settle_kind(ABC, ["task.thresholds=each"])[0].tuned(found, rows)
    assert each.chosen == pytest.approx((0.2, 0.1, 0.5))
    assert [each.revised(one).label for one in found] == [("a", "b"), ("a", "b")]


def test_no_threshold_is_better_than_the_chosen_one():
    rng = np.random.default_rng(0)
    for _ in range(4):
        shares, gold = rng.random(30).round(1), rng.random(30) < 0.3
        chosen = best_threshold(shares, gold)
        every = [f1_score(gold, shares >= threshold, zero_division=0.0) for threshold in np.arange(0, 1.05, 0.05)]
        assert f1_score(gold, shares >= chosen, zero_division=0.0) == pytest.approx(max(every))


def test_scores_by_hand():
    """a: 1 right of 1; b: 1 right, 1 missing; c: 1 too many. Together 2 right, 1 too many, 1 missing."""
    found = [Prediction(label=label) for label in (("a", "b"), ("c",), ())]
    scores = ABC.score(found, rows_of(("a", "b"), ("b",), ()))
    assert scores == pytest.approx(
        {"micro_f1": 2 * 2 / (3 + 3), "macro_f1": (1 + 2 / 3 + 0) / 3, "exact_match": 2 / 3, "rows": 3}
    )


def test_the_baseline_predicts_the_frequent_labels():
    train = rows_of(("a",), ("a", "b"), ("a",), ("c",))
    assert str(ABC.baseline(train, rows_of(("a",), ("b",)))) == "the most frequent labels, a: micro_f1 0.500"
    assert ABC.describe(train) == (
        "1.25 labels per row, 0 without any; 3 classes: a: 3 (75.0%), b: 1 (25.0%), c: 1 (25.0%)"
    )


def test_a_share_of_the_rows_without_any_label_has_a_baseline_too():
    assert ABC.baseline(rows_of((), ()), rows_of(("b",), ("c",))).score == 0.0


def test_settings_that_make_no_sense_are_refused():
    for setting in ("task.thresholds=both", "task.separator="):
        with pytest.raises(SettingError, match=setting.split("=")[0]):
            settle_kind(MultiLabel(), [setting])


# From end to end


@pytest.fixture(scope="module")
def labels_file(made):
    """Two words, each with a label of its own."""
    texts = {"the king": "x", "a bird": "y", "the king sees a bird": "x|y", "the sea": ""}
    path = made / "labels.tsv"
    path.write_text("text\tlabels\n" + "".join(f"{text}\t{labels}\n" for text, labels in texts.items()) * 8)
    return path


@pytest.fixture(scope="module")
def several(made, pretrained, labels_file):
    out = made / "several"
    settings = {"run.threads": 1, "task.batch": 8, "task.learning_rate": 3e-3, "task.ngrams": False}
    plmkit.finetune(
        pretrained, "multilabel", labels_file, out, dev=labels_file, epochs=10, settings=settings, quiet=True
    )
    return out


def test_several_labels_are_learned_and_predicted(several, labels_file, plm, tmp_path):
    model = plmkit.load(several, device="cpu")
    assert model.tasks["multilabel"].chosen and model.classes == ("x", "y")
    found = model.predict(["the king sees a bird", "the sea", "a bird"])
    assert [one.label for one in found] == [("x", "y"), (), ("y",)]
    ran = plm("evaluate", several, labels_file, "--json")
    assert (ran.json["micro_f1"], ran.json["exact_match"]) == (1.0, 1.0)
    assert ran.json["thresholds"] == dict(zip("xy", model.tasks["multilabel"].chosen, strict=True))
    ran = plm("predict", several, labels_file, "--out", tmp_path / "found.tsv")
    assert ran.code == 0, ran.err
    table = read_table(tmp_path / "found.tsv")
    assert table.columns == ("text", "labels", "prediction", "probability:x", "probability:y")
    task = model.tasks["multilabel"]
    again = [task.read_label(cells[2], "") for cells in table.rows[:4]]
    assert again == [("x",), ("y",), ("x", "y"), ()]


def test_an_export_is_transformers_multi_label_classifier_with_the_same_answers(several, plm, tmp_path):
    ran = plm("export", several, tmp_path / "hub", "--json")
    assert ran.code == 0, ran.err
    network = AutoModelForSequenceClassification.from_pretrained(tmp_path / "hub").eval()
    assert network.config.problem_type == "multi_label_classification"
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hub")
    ours, text = plmkit.load(several, device="cpu"), "the king sees a bird"
    with torch.no_grad():
        shares = network(**tokenizer(text, return_tensors="pt")).logits.sigmoid()[0].tolist()
    assert list(ours.predict(text).probabilities.values()) == pytest.approx(shares, abs=1e-5)
    back = plmkit.load(tmp_path / "hub", device="cpu")
    assert back.predict(text).label == ours.predict(text).label == ("x", "y")
    (task,), (own,) = back.tasks.values(), ours.tasks.values()
    assert task.chosen == pytest.approx(own.chosen)  # transformers has no thresholds; ours are kept beside its settings


def test_n_grams_are_mixed_in_and_the_thresholds_are_those_of_the_mix(pretrained, labels_file, plm, tmp_path):
    ran = plm("finetune", pretrained, "--task", "multilabel", "--train", labels_file, "--dev", labels_file, "--out",
              tmp_path / "out", "--epochs", 1, "--json", *QUICK)  # fmt: skip
    assert ran.code == 0, ran.err
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["linear"]["multilabel"]["measure"] == "micro_f1"
    assert scores["linear"]["multilabel"]["dev"] == 1.0
    ran = plm("evaluate", tmp_path / "out", labels_file, "--json")
    assert ran.json["micro_f1"] == pytest.approx(scores["dev"]["micro_f1"]) == 1.0


def test_a_file_with_one_label_per_row_is_remarked_on(pretrained, plm, tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabels\n" + "the king\tx;y\na bird\ty\n" * 4)
    ran = plm("finetune", pretrained, "--task", "multilabel", "--train", tmp_path / "a.tsv", "--out", tmp_path / "out",
              "--epochs", 1, *QUICK)  # fmt: skip
    assert ran.code == 0, ran.err
    assert re.search(r"^Threshold of the probabilities, chosen for the best F1: 0\.\d+\.$", ran.out, re.MULTILINE)
    assert "no row has more than one label" in ran.err and "task.separator=SIGN" in ran.err
