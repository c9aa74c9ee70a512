"""Warnings about training rows that are probably wrong."""

import os
from pathlib import Path

import numpy as np
import pytest

from plmkit.data.reading.columns import Columns
from plmkit.errors import InputError
from plmkit.tasks.contract import Example, Labelled, Row
from plmkit.tasks.framing import Framed
from plmkit.tasks.registry import find_kind
from plmkit.tasks.remarks import check_tokens, remark_files
from plmkit.tasks.rows import check_trainable


def file_of(name: str, *rows: tuple[str, str], names: tuple[str, ...] = ("text", "label")) -> Labelled:
    made = [Row(text=text, label=label, line=line) for line, (text, label) in enumerate(rows, start=2)]
    return Labelled(path=Path(name), rows=made, columns=Columns(text="text", label="label"), names=names)


def labels(*found: str) -> Labelled:
    return file_of("train.tsv", *((f"text {number}", label) for number, label in enumerate(found)))


def warnings_of(*files: Labelled, kind: str = "classify") -> list[str]:
    out: list[str] = []
    remark_files(files, find_kind(kind)(), out.append)
    return out


def test_good_rows_give_no_warning():
    assert warnings_of(labels("pos", "neg", "pos"), file_of("dev.tsv", ("new", "pos"))) == []


def test_labels_that_differ_in_case_width_or_spaces_are_reported():
    found = warnings_of(labels("pos", "POS", "neg", "NEG", "neg", "１", "1", "very good", "verygood", "other"))
    assert found == [
        "! train.tsv: labels that differ only in case, width or spaces become separate classes: "
        "'1' (1 row) and '１' (1 row); 'NEG' (1 row) and 'neg' (2 rows); 'POS' (1 row) and 'pos' (1 row); "
        "'very good' (1 row) and 'verygood' (1 row). Use one spelling if they mean the same."
    ]


@pytest.mark.parametrize("missing", ["NaN", "nan", "None", "null", "N/A"])
def test_a_missing_value_that_becomes_a_class_is_reported(missing):
    assert warnings_of(labels("pos", "neg", missing, missing)) == [
        f"! train.tsv: '{missing}' (2 rows) becomes a class like any other. If it stands for a missing label, "
        "leave the label empty: such rows are left out."
    ]


def test_many_classes_are_reported():
    assert warnings_of(labels(*(f"c{number % 300}" for number in range(900)))) == [
        "! train.tsv: 300 different labels become 300 classes. Is this the right column? Choose it with --label COLUMN."
    ]
    assert warnings_of(labels(*(f"c{number % 100}" for number in range(900)))) == []


def test_for_many_numbers_regression_is_suggested():
    assert warnings_of(labels(*(str(number % 21 / 2) for number in range(100)))) == [
        "! train.tsv: 21 different labels become 21 classes. To predict numbers, use --task regress."
    ]
    assert warnings_of(labels(*(str(number) for number in range(100))), kind="regress") == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("id {}", "Is this the right column? Choose it with --label COLUMN."),
        ("{}.5", "To predict numbers, use --task regress."),
    ],
)
def test_a_label_for_nearly_every_row_is_refused(name, advice):
    with pytest.raises(InputError) as caught:
        check_trainable(labels(*(name.format(100 + number % 95) for number in range(100))).rows, "train.tsv")
    first = ", ".join(name.format(number) for number in (100, 101, 102))
    assert str(caught.value) == (
        f"train.tsv: 100 rows have 95 different labels ({first}, ...), so "
        f"nearly every row would be a class of its own.\n{advice}"
    )


def test_a_few_rows_may_each_have_a_label():
    check_trainable(labels(*"abcdefghijklmnopqrst").rows, "train.tsv")
    check_trainable(labels(*(f"c{number % 89}" for number in range(100))).rows, "train.tsv")
    numbers = [Row(text="a", label=float(number), line=number) for number in range(100)]
    check_trainable(numbers, "train.tsv")


def test_texts_in_two_files_are_counted():
    train = file_of("train.tsv", ("one", "x"), ("two", "y"))
    dev = file_of("dev.tsv", ("two ", "x"), ("three", "y"))
    test = file_of("test.tsv", ("three", "y"), ("two", "y"))
    assert warnings_of(train, dev, test) == [
        "! dev.tsv: 1 of 2 texts are also in train.tsv, so its score says less about new texts.",
        "! test.tsv: 1 of 2 texts are also in train.tsv, so its score says less about new texts.",
        "! test.tsv: all 2 texts are also in dev.tsv, so its score says less about new texts.",
    ]


def test_one_file_given_twice_is_reported(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\na\tx\n")
    os.link(path, tmp_path / "dev.tsv")
    train, dev = (file_of(str(tmp_path / name), ("a", "x"), ("b", "y")) for name in ("train.tsv", "dev.tsv"))
    assert warnings_of(train, dev) == [
        f"! {tmp_path / 'dev.tsv'}: the same file is given twice, so its score says less about new texts."
    ]


def test_an_unused_column_for_ranking_is_reported():
    train = file_of("train.tsv", ("a", "x"), ("b", "y"), names=("label", "QID", "text"))
    assert warnings_of(train) == [
        "! train.tsv: column QID is not used: classify scores each row by itself. --task rank ranks the rows of each "
        "query."
    ]


# What a tokenizer leaves


class Frames:
    """A vocabulary that puts two tokens around a text."""

    def specials(self, texts: int) -> int:
        return 1 + texts


def framed(file: Labelled, *lengths: int) -> list[Example]:
    made = [Framed(tokens=np.zeros(length, dtype=np.int64), second=length, cut=0) for length in lengths]
    return [Example(row=row, inputs=(one,)) for row, one in zip(file.rows, made, strict=True)]


def test_texts_without_tokens_are_reported_or_refused():
    out: list[str] = []
    file = file_of("train.tsv", ("☃", "x"), ("b", "y"))
    check_tokens(framed(file, 3, 3), file, Frames(), out.append)
    assert out == []
    check_tokens(framed(file, 2, 3), file, Frames(), out.append)
    assert out == ["! train.tsv: the model's tokenizer finds no tokens in 1 text (line 2)."]
    with pytest.raises(InputError) as caught:
        check_tokens(framed(file, 2, 2), file, Frames(), out.append)
    assert str(caught.value) == (
        "train.tsv: the model's tokenizer finds no tokens in any of the 2 texts, such as '☃'.\n"
        "Is this the right column? Choose it with --text COLUMN."
    )


def test_what_differs_is_joined_as_in_the_language_of_the_reader(monkeypatch):
    from plmkit.tasks.remarks import some_of
    from plmkit.training.by_corpus import in_words as of_corpora
    from plmkit.training.differences import Difference
    from plmkit.training.request import in_words

    changed = [Difference(path=name, old=1, new=2) for name in ("a", "b")]
    losses = {name: {"loss": 1.0} for name in ("a.txt", "b.txt")}
    shown = [(in_words, changed), (some_of, ["a", "b"]), (of_corpora, losses)]
    for language, glue, other in (("en", "; ", "；"), ("zh", "；", "; ")):
        monkeypatch.setenv("PLM_LANG", language)
        for write, given in shown:
            assert write(given).count(glue) == 1
            assert other not in write(given)
