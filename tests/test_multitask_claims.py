"""What is said of many tasks, of domains and of few labels: each benchmark runs in the small and prints its numbers."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sentences import sentence

from benchmarks import domains, generalisation, low_label, multitask
from benchmarks.finetuned import epochs_for, take_rows

Run = Callable[..., list[list[str]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The cells of all lines of the tables that a benchmark prints."""

    def bench(module, *arguments: object) -> list[list[str]]:
        monkeypatch.setattr(sys, "argv", ["bench", *map(str, arguments)])
        monkeypatch.setattr("benchmarks.finetuned.STEPS", 1)
        module.main()
        printed = capsys.readouterr().out
        assert "processor minutes" in printed
        lines = [line for line in printed.splitlines() if line.startswith("| ") and "---" not in line]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    return bench


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Small sets under their usual names, with and without dev."""
    for name, pairs, parts in (
        ("sst2", False, ("train", "dev", "test")), ("rte", True, ("train", "dev")), ("qnli", True, ("train", "test")),
        ("mrpc", True, ("train", "test")), ("stsb", True, ("train", "dev")),
    ):  # fmt: skip
        (tmp_path / "data" / name).mkdir(parents=True)
        for part in parts:
            lines = ["label\ttext_a" + "\ttext_b" * pairs]
            lines += [f"{number % 2}\tthe cat {number}" + "\tthe dog" * pairs for number in range(120)]
            (tmp_path / "data" / name / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "data"


def test_dev_is_taken_from_training_rows_and_the_sets_own_rows_stay_unseen(data, tmp_path):
    files = take_rows("rte", data, tmp_path / "rows", train=20, dev=10, test=15)
    lines = {part: path.read_text(encoding="utf-8").splitlines() for part, path in files.items()}
    assert {part: len(some) - 1 for part, some in lines.items()} == {"train": 20, "dev": 10, "test": 15}
    assert {some[0] for some in lines.values()} == {"label\ttext_a\ttext_b"}
    assert not {*lines["train"][1:]} & {*lines["dev"][1:]}


def test_few_rows_get_more_epochs():
    assert epochs_for(1600, 3.0) == 3.0  # 300 steps
    assert epochs_for(16, 3.0) == 60.0


def test_four_tasks_jointly_and_alone_then_a_task_that_was_not_seen_with_few_labels(data, pretrained, run, tmp_path):
    arguments = (
        "--data", data, "--model", pretrained, "--sets", "rte", "mrpc", "stsb", "sst2", "--unseen", "qnli",
        "--rows", 100, "--dev-rows", 8, "--test-rows", 12, "--shares", 0.01, 0.1, "--seeds", 1, "--epochs", 1,
        "--out", tmp_path / "out", "--set", "task.length=16",
    )  # fmt: skip
    found = run(multitask, *arguments)
    tasks = ["task", "rte", "mrpc", "stsb", "sst2", "mean"]
    assert [line[0] for line in found] == [*tasks, *tasks, "labels (accuracy)", "1%", "10%"]
    assert found[0] == [
        "task", "alone", "joint", "joint, then alone", "joint − alone",
        "gap, alone", "gap, joint", "gap, joint, then alone",
    ]  # fmt: skip
    shown = [[float(cell.split(" ±")[0]) for cell in line[1:]] for line in found[7:12]]
    for column in range(7):
        assert shown[4][column] == pytest.approx(sum(row[column] for row in shown[:4]) / 4, abs=0.11)  # the mean
    for alone, joint, _, gain, *_ in shown:
        assert gain == pytest.approx(joint - alone, abs=0.11)  # of rounded numbers
    assert found[12] == ["labels (accuracy)", "alone", "from the joint model", "difference"]
    assert (tmp_path / "out" / "low_label.png").is_file()
    assert run(multitask, *arguments) == found


def test_a_language_model_of_a_third_domain_after_one_and_after_two(run, tmp_path):
    """B is nearer to C than A is: it helps."""
    rng = random.Random(0)
    made = {
        "a": " ".join(f"{rng.randint(100, 999)} + {rng.randint(100, 999)}." for _ in range(300)),
        "b": " ".join(sentence(rng) for _ in range(300)),
        "c": " ".join(sentence(rng) for _ in range(40)),
    }
    for name, text in made.items():
        (tmp_path / f"{name}.txt").write_text(text.replace(". ", ".\n") + "\n", encoding="utf-8")
    tiny = (
        "stages=[[1.0, 32]]", "architecture.max_length=32", "architecture.layers=1", "architecture.heads=2",
        "architecture.width=32", "architecture.inner=64", "tokenizer.size=400", "schedule.learning_rate=1e-2",
        "schedule.batch=8",
    )  # fmt: skip
    files = [text for name in "abc" for text in (f"--{name}", tmp_path / f"{name}.txt")]
    sets = [text for setting in tiny for text in ("--set", setting)]
    arguments = (*files, "--steps", 30, "--seeds", 1, "--out", tmp_path / "out", *sets)
    found = run(domains, *arguments)
    assert [line[0] for line in found[1:]] == ["A and B", "A alone"]
    both, one = (float(line[1].split()[0]) for line in found[1:])
    assert both < one
    assert run(domains, *arguments) == found


def test_what_pretraining_and_a_language_model_loss_are_worth_on_few_rows_and_more(data, pretrained, run, tmp_path):
    rows = data / "sst2" / "train.tsv"
    arguments = (
        "pretraining", "--model", pretrained, "--train", rows, "--dev", rows, "--rows", 16, 32, "--seeds", 2,
        "--epochs", 1, "--set", "task.length=16", "--out", tmp_path / "out",
    )  # fmt: skip
    head, *found = run(generalisation, *arguments)
    assert head == ["rows", "", "loss, epoch 1", "dev, epoch 1", "train", "dev", "train − dev"]
    assert [line[:2] for line in found] == [
        [rows, way] for rows in ("16", "32") for way in ("pretrained", "from scratch")
    ]
    for line in found:
        train, dev, gap = (float(cell.split(" ±")[0]) for cell in line[4:])
        assert gap == pytest.approx(train - dev, abs=0.11)
    assert list(generalisation.COMPARED["lm"].values()) == ["task.lm_weight=0", "task.lm_weight=0.5"]


def test_a_causal_model_is_fine_tuned_with_and_without_its_language_model_loss(data, mixed_corpus, run, plm, tmp_path):
    ran = plm("pretrain", "gpt1-tiny", mixed_corpus, "--out", tmp_path / "gpt", "--steps", 2, "--set", "run.threads=1")
    assert ran.code == 0, ran.err
    rows = data / "sst2" / "train.tsv"
    _, *found = run(
        generalisation, "lm", "--model", tmp_path / "gpt", "--train", rows, "--dev", rows, "--rows", 16, 32,
        "--seeds", 1, "--epochs", 1, "--set", "task.length=16", "--out", tmp_path / "out",
    )  # fmt: skip
    assert [line[:2] for line in found] == [[rows, way] for rows in ("16", "32") for way in ("λ = 0", "λ = 0.5")]
    for without, with_loss in (found[:2], found[2:]):
        assert without[2] != with_loss[2]  # the setting reaches the training: the loss of the first epoch


def test_a_curve_is_printed_for_each_model(data, pretrained, run, tmp_path):
    rows = data / "sst2" / "train.tsv"
    found = run(
        low_label, "--model", f"pretrained={pretrained}", "--task", "classify", "--train", rows, "--dev", rows,
        "--shares", 0.1, 1, "--seeds", 1, "--epochs", 1, "--set", "task.length=16", "--out", tmp_path / "out",
    )  # fmt: skip
    assert [line[0] for line in found] == ["labels (accuracy)", "10%", "100%"]
    assert found[1][-1] == "+0.0"  # of one model
