"""The commands that a fine-tuning ends with suit its kind, and the files that it was given."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from plmkit.cli.next_commands import next_commands


def commands(kind: str, out: str = "runs/mine", **files: str) -> list[str]:
    return next_commands(Path(out), SimpleNamespace(tasks=({"kind": kind},), files=files))


@pytest.mark.parametrize(
    ("kind", "train", "last"),
    [
        ("classify", "train.tsv", "plm predict runs/mine new.tsv --out answers.tsv"),
        ("pair", "data/Train.CSV", "plm predict runs/mine new.csv --out answers.csv"),
        ("choose", "train.jsonl", "plm predict runs/mine new.jsonl --out answers.jsonl"),
        ("choose", "race.json", "plm predict runs/mine new.json --out answers.jsonl"),
        ("classify", "train.tsv.gz", "plm predict runs/mine new.tsv --out answers.tsv"),
        ("tag", "train.conll", "plm predict runs/mine new.conll --out answers.conll"),
        ("slots", "train.txt", "plm predict runs/mine new.txt --out answers.jsonl"),
        ("qa", "train.json", 'plm predict runs/mine --question "Who built it?" report.txt'),
        ("match", "train.tsv", 'plm search runs/mine my_texts/ "what you look for"'),
    ],
)
def test_the_next_command_suits_the_kind_and_the_format(kind, train, last):
    assert commands(kind, train=train) == [last]


def test_rows_to_score_are_evaluated_and_odd_names_are_quoted():
    found = commands("classify", "my runs/a", train="train.tsv", dev="dev.tsv", test="my rows/test.tsv")
    assert found[0] == "plm evaluate 'my runs/a' 'my rows/test.tsv'"
    assert found[1].startswith("plm predict 'my runs/a' new.tsv")
    assert commands("rank", train="train.tsv", dev="dev.tsv")[0] == "plm evaluate runs/mine dev.tsv"


def test_of_several_tasks_none_is_evaluated():
    record = SimpleNamespace(tasks=({"kind": "tag"}, {"kind": "classify"}), files={"a.train": "a.conll", "a.dev": "b"})
    assert next_commands(Path("out"), record) == ["plm predict out new.tsv --out answers.tsv"]
