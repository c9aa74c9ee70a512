"""Predictions as columns next to their rows, to six decimals."""

from pathlib import Path

from plmkit.data.reading.whole import read_table
from plmkit.data.writing import Sheet, beside
from plmkit.tasks.contract import Prediction, Task
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.kinds.regress import Regress


def table(tmp_path: Path):
    (tmp_path / "rows.tsv").write_text("id\ttext\n7\tthe cat\n8\ta dog\n", encoding="utf-8")
    return read_table(tmp_path / "rows.tsv")


def sheet(tmp_path: Path, task: Task, said: list[Prediction]) -> Sheet:
    rendered = [task.render(prediction) for prediction in said]
    return beside(table(tmp_path), list(rendered[0]), [list(cells.values()) for cells in rendered])


def test_numbers_have_six_decimals(tmp_path):
    said = [Prediction(label=0.123456789), Prediction(label=-2.0)]
    assert sheet(tmp_path, Regress(), said).text(".tsv") == (
        "id\ttext\tprediction\n7\tthe cat\t0.123457\n8\ta dog\t-2.0\n"
    )  # fmt: skip


def test_classes_have_a_column_each_for_their_probabilities(tmp_path):
    shares = {"good": 0.87654321, "bad": 0.12345679}
    said = [Prediction(label="good", probability=shares["good"], probabilities=shares)] * 2
    assert sheet(tmp_path, Classify(classes=("bad", "good")), said).text(".tsv") == (
        "id\ttext\tprediction\tprobability\tprobability:bad\tprobability:good\n"
        "7\tthe cat\tgood\t0.876543\t0.123457\t0.876543\n8\ta dog\tgood\t0.876543\t0.123457\t0.876543\n"
    )
