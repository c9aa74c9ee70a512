"""The table of all kinds cuts its files fairly, and shows the test scores of what is finished."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def within_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks are beside the package, not in it."""
    monkeypatch.syspath_prepend(ROOT)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_without_a_dev_file_a_tenth_of_the_training_rows_is_dev_and_the_other_file_is_the_test(tmp_path: Path):
    from benchmarks.task_table import Set, cut_files

    folder = tmp_path / "data" / "made"
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_text("label\ttext_a\n" + "".join(f"0\ttrain {n}\n" for n in range(40)))
    (folder / "dev.tsv").write_text("label\ttext_a\n" + "".join(f"1\tdev {n}\n" for n in range(5)))
    asked = Namespace(data=tmp_path / "data", out=tmp_path / "out", rows=20, scored=3)
    files = cut_files(asked, Set(name="made", language="en", kind="classify", measure="accuracy"))
    train, dev, test = (lines_of(files[part]) for part in ("train", "dev", "test"))
    assert (train[0], dev[0], test[0]) == ("label\ttext_a",) * 3
    assert (len(train), len(dev), len(test)) == (21, 4, 4)
    assert all("train" in line for line in (*train[1:], *dev[1:])) and not {*train[1:]} & {*dev[1:]}
    assert all("dev" in line for line in test[1:])


def test_candidates_of_one_question_stay_together(tmp_path: Path):
    from benchmarks.task_table import first_lines, groups_of

    path = tmp_path / "train.tsv"
    path.write_text("label\tqid\ttext_a\n1\ta\tx\n0\tb\ty\n0\ta\tz\n1\tb\tw\n")
    header, groups = groups_of(path, 1)
    assert header == "label\tqid\ttext_a\n"
    assert groups == [["1\ta\tx\n", "0\ta\tz\n"], ["0\tb\ty\n", "1\tb\tw\n"]]
    assert first_lines(groups, 3) == groups[0]


def test_questions_are_counted_and_those_about_one_text_stay_together():
    from benchmarks.task_table import first_lines, size_of

    texts = [json.dumps({"context": "c", "qas": [{"question": str(n)} for n in range(count)]}) for count in (2, 3, 1)]
    assert [size_of([text]) for text in texts] == [2, 3, 1]
    assert first_lines([[text] for text in texts], 5) == texts[:2]


def test_the_table_has_scores_and_minutes_per_seed_of_both_sides_beside_the_linear_model(tmp_path: Path):
    from benchmarks.task_table import NO_NETWORK, REAL, TRAINER, report

    figures = tmp_path / "figures"
    figures.mkdir()
    for start, scores in ((NO_NETWORK, ()), (REAL, (0.8, 0.9)), (TRAINER, (0.82,))):
        about = {"set": {"name": "sst2"}, "start": start, "cpu_seconds": 180, "rows": {"train": 1000}}
        linear = {"linear": {"test": 0.75}} if start == NO_NETWORK else {}
        made = {"seeds": [{"test": {"accuracy": score}} for score in scores], "about": about, **linear}
        (figures / f"sst2-{start}.json").write_text(json.dumps(made))
    head, _, row = report(tmp_path).splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")][4:] == [
        "without a network", "published", "published, transformers", "points", "times as fast",
    ]  # fmt: skip
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "sst2", "classify", "1,000", "accuracy", "75.0 (linear model)", "85.0 ± 7.1 (1.5 min)", "82.0 (3.0 min)",
        "+3.0", "2.0",
    ]  # fmt: skip


def test_the_best_span_is_in_the_text_in_order_and_not_too_long():
    import numpy as np

    from benchmarks.task_encoding import best_span

    offsets = [None, (0, 2), (3, 5), (6, 9), None]
    start, end = np.array([9.0, 1, 0, 3, 0]), np.array([9.0, 5, 2, 1, 0])
    assert best_span(start, end, offsets, 20, 30) == (6.0, (0, 2))
    assert best_span(np.array([9.0, 6, 0, 1, 0]), np.array([9.0, 0, 2, 4, 0]), offsets, 20, 1) == (6.0, (0, 2))
    assert best_span(start, end, offsets, 1, 30)[1] is None
