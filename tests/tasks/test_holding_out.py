"""Which training rows are held out as dev, and what is said about it."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from plmkit.errors import SettingError
from plmkit.tasks.answering.rows import Question
from plmkit.tasks.contract import Row
from plmkit.tasks.holding_out import split
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.kinds.multilabel import MultiLabel
from plmkit.tasks.kinds.qa import QA
from plmkit.tasks.kinds.rank import Rank
from plmkit.tasks.kinds.regress import Regress
from plmkit.tasks.settings import settle_task

QUICK = ("--epochs", "1", "--set", "run.threads=1", "--set", "task.batch=32")


def texts(labels: dict[str, int]) -> list[Row]:
    """So many rows of each label, in turns as long as there are any."""
    order = sorted((place, name) for name, count in labels.items() for place in range(count))
    return [Row(text=f"{name} {place}", label=name, line=line) for line, (place, name) in enumerate(order, start=2)]


def written(path: Path, count: int) -> Path:
    """A file of different texts, of two labels."""
    lines = [f"the {'cat' if number % 2 else 'dog'} sees {number} birds\t{number % 2}" for number in range(count)]
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


def learned(rows: list[Row]) -> Classify:
    return Classify().learn(rows, Path("rows.tsv"))


def test_a_tenth_of_the_rows_of_each_label_is_held_out():
    rows = texts({"bad": 300, "good": 200, "odd": 100})
    kept, dev = split(rows, learned(rows), 0.1)
    assert Counter(row.label for row in dev) == {"bad": 30, "good": 20, "odd": 10}
    assert sorted([*kept, *dev], key=lambda row: row.line) == rows
    assert kept == [row for row in rows if row in kept]  # in the order of the file


def test_of_several_labels_the_rarest_of_each_row_is_held_out_in_proportion():
    many = [("a",), ("a", "b"), ("b",), ()]
    rows = [Row(text=f"text {n}", label=many[n % 4], line=n + 1) for n in range(560)]
    rows += [Row(text=f"rare {n}", label=("a", "b", "rare"), line=561 + n) for n in range(40)]
    rows += [Row(text="single", label=("a", "single"), line=601)]
    _, dev = split(rows, MultiLabel().learn(rows, Path("rows.tsv")), 0.1)
    counts = Counter(label for row in dev for label in row.label)
    assert (counts["rare"], counts["single"], len(dev)) == (4, 0, 60)
    assert sum(not row.label for row in dev) == 14
    assert counts["a"] == pytest.approx(32, abs=4)


def test_the_same_rows_are_held_out_every_time_and_they_are_random():
    rows = texts({"a": 100, "b": 100})
    (_, first), (_, second) = split(rows, learned(rows), 0.1), split(rows, learned(rows), 0.1)
    assert first == second
    gaps = {after.line - before.line for before, after in pairwise(first)}
    assert len(gaps) > 5  # not every tenth row


def test_a_label_of_one_row_stays_in_train():
    rows = texts({"a": 120, "b": 80, "rare": 1, "single": 1})
    kept, _ = split(rows, learned(rows), 0.5)
    assert {row.label for row in kept} == {"a", "b", "rare", "single"}


def test_equal_texts_are_never_on_both_sides():
    rows = [Row(text=f"text {number % 40}", label="ab"[number % 2], line=number) for number in range(400)]
    kept, dev = split(rows, learned(rows), 0.2)
    assert not {row.text for row in kept} & {row.text for row in dev}
    assert len(dev) == 80


def test_the_questions_of_one_text_stay_together():
    rows = [
        Question(text=f"question {number}", other=f"text {number // 5}", label="text", answers=("text",), line=number)
        for number in range(200)
    ]
    kept, dev = split(rows, QA(), 0.1)
    assert Counter(row.other for row in dev) == dict.fromkeys({row.other for row in dev}, 5)
    assert not {row.other for row in kept} & {row.other for row in dev}
    assert len(dev) == 20


def test_the_candidates_of_one_query_stay_together():
    rows = [
        Row(text=f"query {number % 50}", choices=(f"a {number}", f"b {number}"), label=(1.0, 0.0), line=number)
        for number in range(200)
    ]
    kept, dev = split(rows, Rank(), 0.2)
    assert not {row.text for row in kept} & {row.text for row in dev}
    assert len(dev) == 40


@pytest.mark.parametrize(("count", "held"), [(199, None), (200, 20), (300, 30)])
def test_nothing_is_held_out_of_fewer_than_two_hundred_rows(count, held):
    found = split([Row(text=f"text {number}", label=float(number), line=number) for number in range(count)],
                  Regress(), 0.1)  # fmt: skip
    assert (found and len(found[1])) == held


def test_rows_that_leave_nothing_to_train_on_are_not_split():
    candidates = ("yes", "no")
    rows = [Row(text=f"query {number}", choices=candidates, label=(0.0, 0.0), line=number) for number in range(300)]
    assert split([*rows, Row(text="the one", choices=candidates, label=(1.0, 0.0), line=300)], Rank(), 0.1) is None


def test_without_dev_a_share_of_train_is_held_out_and_said_in_one_line(pretrained, tmp_path, plm):
    train = written(tmp_path / "train.tsv", 200)
    ran = plm("finetune", pretrained, "--task", "classify", "--train", train, "--out", tmp_path / "out", *QUICK)
    assert ran.code == 0, ran.err
    assert ran.err.count(
        f"{train}: 20 of its 200 rows are held out as dev, chosen at random within each label "
        "(task.dev_share=0.1; 0 trains on all rows and keeps the last epoch).\n180 rows, 2 classes"
    ) == 1  # fmt: skip
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["dev"]["rows"] == 20
    assert "linear" in scores  # n-grams have a dev to be judged on
    assert json.loads((tmp_path / "out" / "run.json").read_text())["task"]["dev_share"] == 0.1


def test_nothing_is_held_out_of_a_few_rows_or_if_so_set(pretrained, rows_file, tmp_path, plm):
    few = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "few", *QUICK)
    assert f"{rows_file}: 48 rows are too few to hold out some as dev, so the last epoch is kept." in few.err
    train = written(tmp_path / "train.tsv", 200)
    ran = plm("finetune", pretrained, "--task", "classify", "--train", train, "--out", tmp_path / "all", *QUICK,
              "--set", "task.dev_share=0")  # fmt: skip
    assert "held out" not in ran.err
    for name in ("few", "all"):
        assert "dev" not in json.loads((tmp_path / name / "scores.json").read_text())


def test_each_of_several_tasks_without_dev_has_its_own_share_held_out(pretrained, tmp_path, plm):
    written(tmp_path / "one.tsv", 200)
    written(tmp_path / "two.tsv", 60)
    (tmp_path / "tasks.toml").write_text(
        '[one]\nkind = "classify"\ntrain = "one.tsv"\n[two]\nkind = "classify"\ntrain = "two.tsv"\ndev = "one.tsv"\n'
    )
    ran = plm("finetune", pretrained, "--tasks", tmp_path / "tasks.toml", "--out", tmp_path / "out", *QUICK)
    assert ran.code == 0, ran.err
    dev = json.loads((tmp_path / "out" / "scores.json").read_text())["dev"]
    assert (dev["one.rows"], dev["two.rows"]) == (20, 200)
    assert ran.err.count("held out") == 1


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (("task.dev_share=0.2",), "task.dev_share has no effect with --dev. Leave one of them out."),
        (("task.dev_share=0.6",), "task.dev_share must be at least 0 and at most 0.5; found 0.6."),
        (("task.patience=0",), "task.patience must be a finite number above 0; found 0."),
    ],
)
def test_a_share_without_effect_and_impossible_values_are_refused(sets, said, pretrained, rows_file, tmp_path, plm):
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file,
              "--out", tmp_path / "out", *(part for one in sets for part in ("--set", one)))  # fmt: skip
    assert (ran.code, ran.err) == (2, f"plm: {said}\n")


def test_a_number_of_evaluations_is_whole():
    with pytest.raises(SettingError, match=r"task\.evaluations"):
        settle_task(["task.evaluations=1.5"], None)
