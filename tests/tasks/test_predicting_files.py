"""Predictions for files: block by block, in bounded memory, for all tasks of a run folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import plmkit
from plmkit.data.reading.whole import BlockSize, Table, read_table, read_tables
from plmkit.errors import LeftOutWarning
from plmkit.tasks import prediction_source
from plmkit.tasks.rank_blocks import is_contiguous, whole_queries

SMALL = BlockSize(rows=3, characters=1 << 20)
TEXTS = ("the cat is good", "a dog", "", 'the bird sees the "red" house', "fine", "dull and bad", "the cat", "so it is")


def table(tmp_path: Path, ending: str) -> Path:
    """The texts, with an id, as a file of that type."""
    path = tmp_path / f"rows{ending}"
    records = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    if ending == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(records), path)
    elif ending == ".jsonl":
        records[-1]["note"] = "only here"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    else:
        mark = "," if ending == ".csv" else "\t"
        cells = [(str(record["id"]), str(record["text"])) for record in records]
        cells = [(one, f'"{two.replace(chr(34), chr(34) * 2)}"') if mark == "," else (one, two) for one, two in cells]
        path.write_text("\n".join(map(mark.join, [("id", "text"), *cells])) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_blocks_have_the_rows_and_lines_of_the_whole_table(tmp_path, ending):
    path = table(tmp_path, ending)
    whole, blocks = read_table(path), list(read_tables(path, size=SMALL))
    assert [len(block.rows) for block in blocks] == [3, 3, 2]
    assert [line for block in blocks for line in block.lines] == whole.lines
    cells = [dict(zip(block.columns, row, strict=True)) for block in blocks for row in block.rows]
    wanted = [dict(zip(whole.columns, row, strict=True)) for row in whole.rows]
    assert [{"note": None, **row} for row in cells] == [{"note": None, **row} for row in wanted]


def test_a_block_ends_where_its_characters_are_enough(tmp_path):
    (tmp_path / "rows.txt").write_text("aaaa\nbb\ncc\ndddd\n", encoding="utf-8")
    blocks = read_tables(tmp_path / "rows.txt", size=BlockSize(rows=100, characters=4))
    assert [[row[0] for row in block.rows] for block in blocks] == [["aaaa"], ["bb", "cc"], ["dddd"]]


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("out", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_predictions_in_blocks_are_those_in_one_go(plm, finetuned, tmp_path, monkeypatch, ending, out):
    path = table(tmp_path, ending)
    assert plm("predict", finetuned, path, "--out", tmp_path / f"whole{out}").code == 0
    monkeypatch.setattr(prediction_source, "BLOCK", SMALL)
    ran = plm("predict", finetuned, path, "--out", tmp_path / f"blocks{out}")
    assert "7 predictions written" in ran.err
    assert "1 row without text" in ran.err
    whole, blocks = read_table(tmp_path / f"whole{out}"), read_table(tmp_path / f"blocks{out}")
    assert blocks.columns == whole.columns
    assert len(blocks.rows) == len(TEXTS)
    for one, other in zip(blocks.rows, whole.rows, strict=True):
        numbers = [(float(a), float(b)) for a, b in zip(one[-3:], other[-3:], strict=True) if a or b]
        assert one[:-3] == other[:-3]
        assert all(a == pytest.approx(b, abs=2e-6) for a, b in numbers)


def test_what_is_printed_in_blocks_is_one_table_and_one_json_document(plm, finetuned, tmp_path, monkeypatch):
    path = table(tmp_path, ".jsonl")
    monkeypatch.setattr(prediction_source, "BLOCK", SMALL)
    lines = plm("predict", finetuned, path).out.splitlines()
    assert lines[0].startswith('"id"\t"text"\t"note"\t"prediction"\t"probability"')
    assert len(lines) == 1 + len(TEXTS)
    found = plm("predict", finetuned, path, "--json").json["predictions"]
    assert [one["row"]["text"] for one in found] == list(TEXTS)
    assert found[2]["label"] is None


def test_rows_without_the_text_are_blank_in_a_block_of_their_own_too(plm, finetuned, tmp_path, monkeypatch):
    records = [{"text": "the cat is good"}] * 3 + [{"id": 5}] * 3 + [{"text": "dull"}]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    monkeypatch.setattr(prediction_source, "BLOCK", SMALL)
    ran = plm("predict", finetuned, path, "--out", tmp_path / "out.jsonl")
    assert ran.code == 0, ran.err
    assert "3 rows without text" in ran.err
    found = [json.loads(line)["prediction"] is None for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == [False] * 3 + [True] * 3 + [False]


def test_a_bad_line_is_found_before_anything_is_written(plm, finetuned, tmp_path, monkeypatch):
    monkeypatch.setattr(prediction_source, "BLOCK", SMALL)
    path, out = table(tmp_path, ".jsonl"), tmp_path / "out.jsonl"
    out.write_text("old\n", encoding="utf-8")
    with open(path, "a", encoding="utf-8") as file:
        file.write("{broken\n")
    ran = plm("predict", finetuned, path, "--out", out)
    assert (ran.code, out.read_text(encoding="utf-8")) == (2, "old\n")
    assert f"line {len(TEXTS) + 1}" in ran.err


def made(*queries: str) -> Table:
    rows = [(query, f"{query} {number}") for number, query in enumerate(queries)]
    return Table(path=Path("rows.tsv"), columns=("qid", "text_b"), rows=[*rows], lines=list(range(len(rows))))


def test_the_candidates_of_a_query_stay_in_one_block():
    blocks = [made("1", "1", "2"), made("2", "2"), made("2", "3"), made("4")]
    assert [[row[0] for row in block.rows] for block in whole_queries(blocks)] == [
        ["1", "1"], ["2", "2", "2", "2"], ["3"], ["4"],
    ]  # fmt: skip
    assert is_contiguous(blocks)
    assert not is_contiguous([made("1", "2"), made("1")])


def test_a_blank_line_at_the_end_of_a_block_does_not_divide_a_query():
    blocks = [made("1", "2", ""), made("2", "3")]
    assert is_contiguous(blocks)
    assert [[row[0] for row in block.rows] for block in whole_queries(blocks)] == [["1"], ["2", "", "2"], ["3"]]


MEASURE = """
import re, sys
from pathlib import Path
from plmkit.data.reading.whole import BlockSize
from plmkit.inference.loading import load
from plmkit.tasks import prediction_source
from plmkit.tasks.predict import predict_file
from plmkit.terminal.screen import Screen

prediction_source.BLOCK = BlockSize(rows=100, characters=1 << 20)
model = load(sys.argv[1], device="cpu")
for rows in (300, 3000):
    predict_file(model, f"{sys.argv[2]}/{rows}.tsv", Path(sys.argv[2], "out.tsv"), Screen(quiet=True), as_json=False)
    print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


# ru_maxrss would not do: a child inherits the peak of its parent
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
def test_ten_times_the_rows_need_no_more_memory(finetuned, tmp_path):
    filler = "x" * 20_000  # a column that is kept, and would be 60 MB in memory
    for rows in (300, 3000):
        with open(tmp_path / f"{rows}.tsv", "w", encoding="utf-8") as file:
            file.write("text\tkept\n" + "".join(f"the cat {row % 7}\t{row}{filler}\n" for row in range(rows)))
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, finetuned, tmp_path], capture_output=True, text=True, check=True
    )
    few, many = map(int, ran.stdout.split())
    assert many - few < 8  # MB
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8").count("\n") == 3001


@pytest.fixture(scope="module")
def several(tmp_path_factory, pretrained) -> Path:
    """Two classifiers of single texts and one of pairs in one network."""
    folder = tmp_path_factory.mktemp("several")
    single = [f"the cat is {word}\t{label}" for word, label in (("good", "yes"), ("bad", "no")) for _ in range(4)]
    (folder / "single.tsv").write_text("text\tlabel\n" + "\n".join(single) + "\n", encoding="utf-8")
    pairs = [f"a cat\ta {'cat' if row % 2 else 'dog'}\t{row % 2}" for row in range(8)]
    (folder / "pairs.tsv").write_text("text_a\ttext_b\tlabel\n" + "\n".join(pairs) + "\n", encoding="utf-8")
    kinds = {"mood": ("classify", "single"), "taste": ("classify", "single"), "same": ("pair", "pairs")}
    (folder / "tasks.toml").write_text(
        "".join(f'[{name}]\nkind = "{kind}"\ntrain = "{file}.tsv"\n' for name, (kind, file) in kinds.items()),
        encoding="utf-8",
    )
    from plmkit.cli import main

    options = ["--epochs", "1", "--set", "run.threads=1", "--set", "task.batch=8", "--set", "task.ngrams=false"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys, "argv",
            ["plm", "finetune", str(pretrained), "--tasks", str(folder / "tasks.toml"), "--out", str(folder / "out"),
             *options],
        )  # fmt: skip
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    return folder / "out"


def test_all_tasks_that_can_read_a_file_are_predicted_with_columns_of_their_names(plm, several, tmp_path):
    ran = plm("predict", several, several.parent / "single.tsv", "--out", tmp_path / "out.tsv")
    assert "Task same is left out" in ran.err
    found = read_table(tmp_path / "out.tsv")
    new = [f"{name}{part}" for name in ("mood", "taste") for part in ("", "_probability", "_probability:no",
                                                                      "_probability:yes")]  # fmt: skip
    assert found.columns == ("text", "label", *new)
    for name in ("mood", "taste"):
        plm("predict", several, several.parent / "single.tsv", "--task", name, "--out", tmp_path / "one.tsv")
        alone, place = read_table(tmp_path / "one.tsv"), found.columns.index(name)
        assert alone.columns[2:4] == ("prediction", "probability")
        for one, row in zip(alone.rows, found.rows, strict=True):
            assert one[2] == row[place]
            assert float(str(one[3])) == pytest.approx(float(str(row[place + 1])), abs=2e-6)


def test_tasks_that_read_the_same_texts_share_one_pass_of_the_model(several, monkeypatch):
    model = plmkit.load(several, device="cpu")
    passes = []
    forward = model.network.model.forward
    monkeypatch.setattr(model.network.model, "forward", lambda batch: passes.append(batch) or forward(batch))
    with pytest.warns(LeftOutWarning, match="Task same is left out"):
        (found,) = model.predict(["the cat is good"])
    assert list(found) == ["mood", "taste"]
    assert len(passes) == 1
    model.predict(["the cat is good"], task="mood")
    assert len(passes) == 2


def test_a_file_that_no_task_can_read_is_refused(plm, several, tmp_path):
    (tmp_path / "other.tsv").write_text("first\tsecond\n1\t2\n", encoding="utf-8")
    ran = plm("predict", several, tmp_path / "other.tsv")
    assert ran.code == 2
    assert "None of the tasks can read these rows" in ran.err
