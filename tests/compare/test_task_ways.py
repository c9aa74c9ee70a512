"""Each task of a joint fine-tuning alone, and once more from the joint result."""

import json
import statistics
from pathlib import Path

import pytest

import plmkit
from plmkit.compare.picture import draw_comparison, figure_of
from plmkit.compare.task_ways import mean_of_tasks
from plmkit.data.reading.columns import Columns
from plmkit.tasks.contract import Labelled, Row
from plmkit.tasks.taking_up import share_of

QUICK = (
    "--epochs", 1, "--set", "run.threads=1", "--set", "task.batch=8", "--set", "task.ngrams=false",
)  # fmt: skip
BOTH = ("--alone", "--then-each", "--seeds", 2)


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A task with dev and test, one with dev, and one with neither."""
    single = [f"the cat is {word}\t{word in ('good', 'fine')}" for word in ("good", "bad", "fine", "dull") * 4]
    pairs = [f"the cat\tthe {'cat' if number % 2 else 'dog'}\t{number % 2}" for number in range(16)]
    (tmp_path / "single.tsv").write_text("\n".join(["text\tlabel", *single]) + "\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("\n".join(["text_a\ttext_b\tlabel", *pairs]) + "\n", encoding="utf-8")
    path = tmp_path / "tasks.toml"
    path.write_text(
        '[mood]\nkind = "classify"\ntrain = "single.tsv"\ndev = "single.tsv"\n'
        '[same]\nkind = "pair"\ntrain = "pairs.tsv"\ndev = "pairs.tsv"\ntest = "pairs.tsv"\n'
        '[alike]\nkind = "regress"\ntrain = "pairs.tsv"\n',
        encoding="utf-8",
    )
    return path


def test_every_task_is_trained_alone_and_after_and_the_table_has_scores_differences_and_gaps(
    listed, pretrained, plm, tmp_path
):
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--tasks", listed, "--out", out, *QUICK, *BOTH)
    assert ran.code == 0, ran.err
    scores = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    mood, same, alike = scores["comparison"]
    assert [(one["task"], one["part"], one["measure"]) for one in (mood, same, alike)] == [
        ("mood", "dev", "accuracy"), ("same", "test", "accuracy"), ("alike", None, None),
    ]  # fmt: skip
    for way, place in (("alone", "alone/mood"), ("then", "then/mood")):
        own = json.loads((out / place / "scores.json").read_text(encoding="utf-8"))
        assert mood[way]["seeds"] == [seed["dev"]["accuracy"] for seed in own["seeds"]]
        assert mood[way]["gaps"] == [seed["train"]["accuracy"] - seed["dev"]["accuracy"] for seed in own["seeds"]]
    assert mood["joint"]["seeds"] == [seed["dev"]["mood.accuracy"] for seed in scores["seeds"]]
    # all rows are both training and dev rows here, so that both scores are the same
    assert mood["joint"]["gaps"] == same["alone"]["gaps"] == [0.0, 0.0]
    assert mood["alone"]["score"]["mean"] == pytest.approx(statistics.mean(mood["alone"]["seeds"]))
    assert mood["alone"]["score"]["std"] == pytest.approx(statistics.stdev(mood["alone"]["seeds"]))
    shown = [line.split() for line in ran.out.splitlines() if "±" in line]
    assert [line[0] for line in shown] == ["mood", "joint", "then", "same", "joint", "then", "mean", "joint", "then"]
    difference = mood["joint"]["score"]["mean"] - mood["alone"]["score"]["mean"]
    assert f"{difference:+.3f}" in shown[1]
    assert ["alike", "–"] in [line.split() for line in ran.out.splitlines()]
    assert [(out / f"comparison.{suffix}").stat().st_size > 1000 for suffix in ("png", "svg")] == [True, True]
    assert "mood" in (out / "comparison.svg").read_text(encoding="utf-8")

    record = json.loads((out / "then" / "same" / "run.json").read_text(encoding="utf-8"))
    assert record["model"] == str(out)
    assert record["task"]["optimizer"]["kind"] == "Adamax"
    again = plm("finetune", pretrained, "--tasks", listed, "--out", out, *QUICK, *BOTH, "--json")
    assert again.err.count("holds this fine-tuning, finished") == 7  # 1 + 3 + 3
    assert again.json["comparison"] == scores["comparison"]
    assert plm("doctor", "--verify", out).code == 0


def test_the_mean_of_tasks_is_taken_seed_by_seed():
    compared = [
        {"joint": {"seeds": [0.5, 0.7], "gaps": [0.1, 0.3]}},
        {"joint": {"seeds": [0.9, 0.7], "gaps": [0.0, 0.0]}},
        {"measure": None},
    ]
    found = mean_of_tasks(compared, "joint")
    assert found["seeds"] == pytest.approx([0.7, 0.7])
    assert (found["score"]["mean"], found["score"]["std"]) == pytest.approx((0.7, 0.0))
    assert found["gap"]["mean"] == pytest.approx(0.1)


def test_comparisons_without_sense_are_refused(listed, pretrained, plm, tmp_path):
    rows = listed.parent / "single.tsv"
    for option in ("--alone", "--then-each"):
        ran = plm("finetune", pretrained, "--task", "classify", "--train", rows, "--out", tmp_path / "out", option)
        assert (ran.code, ran.err.split(" compares")[0]) == (2, f"plm: {option}")
    ran = plm(
        "finetune", pretrained, "--tasks", listed, "--out", tmp_path / "out", "--then-each", "--set",
        "task.scratch=true",
    )  # fmt: skip
    assert (ran.code, "task.scratch from random weights" in ran.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_a_joint_model_is_adapted_to_a_task_that_it_has_not_seen_with_a_share_of_the_labels(
    listed, pretrained, plm, tmp_path
):
    many, new = tmp_path / "many", tmp_path / "new"
    assert plm("finetune", pretrained, "--tasks", listed, "--out", many, *QUICK).code == 0
    rows = listed.parent / "single.tsv"
    told = ("--task", "classify", "--train", rows, "--dev", rows, *QUICK)
    for out, start in ((new, many), (tmp_path / "other", pretrained)):
        ran = plm("finetune", start, *told, "--set", "task.train_share=0.25", "--out", out)
        assert ran.code == 0, ran.err
        assert "4 rows, 2 classes" in ran.err
    assert list(plmkit.load(new, device="cpu").tasks) == ["classify"]
    ran = plm("finetune", many, *told, "--set", "task.train_share=0", "--out", tmp_path / "none")
    assert (ran.code, "task.train_share must be above 0" in ran.err) == (2, True)


def test_a_share_of_the_rows_is_drawn_by_the_seed_and_has_every_class():
    rows = [Row(text=str(number), label="rare" if number == 7 else "common", line=number) for number in range(200)]
    file = Labelled(path=Path("train.tsv"), rows=rows, columns=Columns(), names=("text", "label"))
    drawn = [share_of(file, 0.05, seed, ("common", "rare")).rows for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for some in drawn:
        assert len(some) == 10
        assert [row.line for row in some] == sorted({row.line for row in some})
        assert {row.label for row in some} == {"common", "rare"}
    assert len(share_of(file, 0.001, 0, ("common", "rare")).rows) == 2


def test_all_characters_of_the_picture_have_a_font(tmp_path):
    reached = {"score": {"mean": 0.8, "std": 0.1}, "gap": {"mean": 0.1, "std": 0.0}}
    said: list[str] = []
    draw_comparison([{"task": "mood", "part": "dev", "measure": "f1", "joint": reached}], tmp_path, said.append)
    assert not said


def test_the_picture_names_ways_and_scores_as_the_table_does():
    reached = {"score": {"mean": 0.8, "std": 0.1}, "gap": {"mean": 0.1, "std": 0.0}}
    figure = figure_of([{"task": "mood", "part": "dev", "measure": "f1", "joint": reached, "then": reached}])
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["joint", "then alone"]
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["mood\ndev f1"]
