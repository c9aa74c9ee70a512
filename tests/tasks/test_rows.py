import gzip
import json
import os
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from plmkit.data.reading.columns import Columns
from plmkit.data.reading.whole import read_table
from plmkit.errors import InputError
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import check_classes, check_trainable, classes_of, read_rows, rows_of

TWO = [Row(text="好", label="1", line=2), Row(text="bad", label="0", line=3)]


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: str | Path, **how: bool | None) -> str:
    """The error message of a refused file, without its folder."""
    how = {"paired": False, **how}
    with pytest.raises(InputError) as caught:
        read_rows(path, **how)
    message = str(caught.value)
    assert 1 <= len(message.splitlines()) <= 3
    return message.replace(f"{Path(path).parent}{os.sep}", "")


def labelled(*labels: str | float) -> list[Row]:
    return [Row(text="x", label=label, line=line) for line, label in enumerate(labels, start=2)]


# What is read


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "label\ttext_a\n1\t好\n0\tbad\n"),
        ("a.TSV", "text\tlabel\n好\t1\nbad\t0"),
        ("a.csv", "label,text\n1,好\n0,bad\n"),
        ("windows.csv", b"\xef\xbb\xbflabel,text\r\n1,\xe5\xa5\xbd\r\n0,bad\r\n"),
        ("windows.tsv", b"\xef\xbb\xbftext\tlabel\r\n\xe5\xa5\xbd\t1\r\nbad\t0\r\n\r\n"),
        ("a.tsv.gz", gzip.compress("label\ttext\n1\t好\n0\tbad\n".encode(), mtime=0)),
        ("a.csv.zst", zstandard.compress("label,text\n1,好\n".encode()) + zstandard.compress(b"0,bad\n")),
        ("my.2024.reviews.tsv", "Review\tid\tGold\n好\t7\t1\nbad\t8\t0\n"),
    ],
)
def test_every_text_form_gives_the_same_rows(tmp_path, name, content):
    assert read_rows(put(tmp_path, name, content), paired=False) == TWO


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson"])
def test_json_lines_may_hold_numbers_and_truths_as_labels(tmp_path, name):
    path = put(tmp_path, name, '{"text": "a", "label": 1}\n\n{"label": true, "text": "b"}\n')
    assert read_rows(path, paired=False) == [
        Row(text="a", label="1", line=1),
        Row(text="b", label="True", line=3),
    ]


def test_parquet_gives_row_numbers(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["好", "bad"], "label": [1, 0]}), path)
    assert read_rows(path, paired=False) == [
        Row(text="好", label="1", line=1),
        Row(text="bad", label="0", line=2),
    ]


def test_pairs_have_a_second_text(tmp_path):
    path = put(tmp_path, "a.tsv", "label\tpremise\thypothesis\nneutral\ta\tb\n")
    row = Row(text="a", other="b", label="neutral", line=2)
    assert read_rows(path, paired=True) == read_rows(path, paired=None) == [row]


def test_without_a_second_text_rows_have_single_texts(tmp_path):
    path = put(tmp_path, "a.tsv", "text\tscore\na\t2.5\nb\t-1e1\n")
    assert [row.label for row in read_rows(path, paired=None, numeric=True)] == [2.5, -10.0]


def test_an_exact_name_wins_over_other_names_and_spellings(tmp_path):
    path = put(tmp_path, "a.tsv", "score\tText\tsentence\tlabel\ttext\n9\tA\tB\t1\tC\n")
    assert read_rows(path, paired=False) == [Row(text="C", label="1", line=2)]


def test_the_text_column_is_read_next_to_columns_of_a_pair(tmp_path):
    path = put(tmp_path, "a.tsv", "text\ttext_a\ttext_b\tlabel\nC\tA\tB\t1\n")
    assert read_rows(path, paired=False) == [Row(text="C", label="1", line=2)]


def test_quotes_are_plain_characters_in_tsv(tmp_path):
    path = put(tmp_path, "a.tsv", 'label\ttext\n1\t"他说\n0\t5" disk "ok"\n')
    assert [row.text for row in read_rows(path, paired=False)] == ['"他说', '5" disk "ok"']


def test_only_a_newline_ends_a_line(tmp_path):
    path = put(tmp_path, "a.tsv", "label\ttext\n1\ta\u2028b\x85c\n")
    assert read_rows(path, paired=False) == [Row(text="a\u2028b\x85c", label="1", line=2)]


def test_quoted_csv_cells_hold_commas_quotes_and_lines(tmp_path):
    path = put(tmp_path, "a.csv", 'text,label\n"a, ""b""\nc",1\nd,0\n')
    assert read_rows(path, paired=False) == [
        Row(text='a, "b"\nc', label="1", line=2),
        Row(text="d", label="0", line=4),
    ]


def test_a_csv_cell_may_be_a_whole_book(tmp_path):
    path = put(tmp_path, "a.csv", f"text,label\n{'x' * 200_000},1\n")
    assert len(read_rows(path, paired=False)[0].text) == 200_000


def test_blank_lines_between_rows_are_skipped(tmp_path):
    path = put(tmp_path, "a.tsv", "\nlabel\ttext\n\n1\ta\n\n")
    assert read_rows(path, paired=False) == [Row(text="a", label="1", line=4)]


def test_empty_cells_that_a_spreadsheet_added_at_the_end_are_dropped(tmp_path):
    path = put(tmp_path, "a.csv", "text,label\na,1,,\n")
    assert read_table(path).rows == [("a", "1")]


def test_labels_lose_the_space_around_them_and_texts_keep_it(tmp_path):
    path = put(tmp_path, "a.tsv", "label\ttext\n pos \t a \n")
    assert read_rows(path, paired=False) == [Row(text=" a ", label="pos", line=2)]


# Files to predict


def test_plain_text_has_one_text_per_line(tmp_path):
    path = put(tmp_path, "a.txt", "好\r\nb\tc\r\n")
    rows = [Row(text="好", line=1), Row(text="b\tc", line=2)]
    assert read_rows(path, paired=False, labelled=False) == rows
    assert read_rows(path, paired=None, labelled=False) == rows


def test_labels_are_optional_where_none_are_needed(tmp_path):
    path = put(tmp_path, "a.tsv", "text\na\n")
    assert read_rows(path, paired=False, labelled=False) == [Row(text="a", line=2)]


def test_labels_are_not_read_where_none_are_needed(tmp_path):
    path = put(tmp_path, "a.tsv", "text\tlabel\tgold\na\t?\t\nb\t2\t3\n")
    rows = read_rows(path, paired=False, numeric=True, labelled=False)
    assert rows == [Row(text="a", line=2), Row(text="b", line=3)]


def test_a_table_keeps_every_column_for_writing_back(tmp_path):
    path = put(tmp_path, "a.jsonl", '{"id": 7, "text": "a"}\n{"text": "b", "more": [1]}\n')
    table = read_table(path)
    assert table.columns == ("id", "text", "more")
    assert table.rows == [(7, "a", None), (None, "b", [1])]
    assert table.lines == [1, 2]
    assert [row.text for row in rows_of(table, Columns(text="text"))] == ["a", "b"]


def test_a_parquet_table_turns_dates_into_text(tmp_path):
    parquet.write_table(pa.table({"text": ["a"], "day": [date(2024, 5, 6)]}), tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").rows == [("a", "2024-05-06")]


# Files that are refused


def test_a_missing_file_names_the_nearest_one(tmp_path):
    put(tmp_path, "train.tsv", "text\tlabel\n")
    assert refusal(tmp_path / "trian.tsv") == "There is no file trian.tsv. Did you mean 'train.tsv'?"


def test_a_missing_folder_is_named(tmp_path):
    assert refusal(tmp_path / "no" / "a.tsv").endswith(f"the folder {tmp_path / 'no'} does not exist.")


def test_a_folder_is_not_a_file(tmp_path):
    assert refusal(tmp_path).endswith("is a folder. Give one .tsv, .csv, .jsonl or .parquet file.")


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.tsv")
    assert refusal(tmp_path / "a.tsv").startswith("a.tsv is not a regular file.")


def test_a_file_without_read_permission_is_refused_with_the_reason(tmp_path, monkeypatch):
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = put(tmp_path, "a.tsv", "text\tlabel\na\t1\n")
    monkeypatch.setattr("plmkit.data.reading.blocks.open", deny, raising=False)
    assert refusal(path) == "a.tsv cannot be read: Permission denied."


@pytest.mark.parametrize("name", ["a.xlsx", "a.json", "a", "a.parquet.gz", ".tsv"])
def test_other_kinds_of_file_are_refused_by_name(tmp_path, name):
    assert refusal(put(tmp_path, name, "x")).startswith(f"{name} is not a supported type of table.\n")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "", "a.tsv is empty."),
        ("a.parquet", "", "a.parquet is empty."),
        ("a.jsonl", " \n\r\n", "a.jsonl is empty."),
        ("a.tsv.gz", gzip.compress(b"", mtime=0), "a.tsv.gz is empty."),
        ("a.tsv", "text\tlabel\n\n", "a.tsv has no rows, only the columns text, label."),
        ("a.csv", "text,label", "a.csv has no rows, only the columns text, label."),
        ("a.tsv", b"text\n\x00\x01", "a.tsv, line 2: binary data (a NUL byte), not text. Give plain text files."),
        (
            "a.csv",
            "text,label\n".encode("utf-16"),
            "a.csv is UTF-16. Convert it with `iconv -f utf-16 -t utf-8 a.csv > NEW`.",
        ),
        (
            "a.tsv",
            "text\tlabel\na\t1\n很好\t1\n".encode("gb18030"),
            "a.tsv, line 3: not valid UTF-8. It looks like GB18030: convert it with "
            "`iconv -f gb18030 -t utf-8 a.tsv > NEW`.",
        ),
        ("a.tsv", "text\ttext\nb\tc\n", "a.tsv has two columns named 'text'. Rename one."),
        (
            "a.tsv",
            "label\ttext\n1\ta\n0\tb\tc\n",
            "a.tsv, line 3: 3 cells, but the first row has 2: label, text.\n"
            "Text in .tsv cannot contain tabs or line breaks; use .csv with quotes, or .jsonl.",
        ),
        (
            "a.csv",
            'label,text\n1,"a\nb"\n0,b,c\n',
            "a.csv, line 4: 3 cells, but the first row has 2: label, text.\n"
            "Put text that contains a comma in double quotes.",
        ),
        (
            "a.csv",
            'label,text\n1,"a\n0,b\n',
            "a.csv, line 2: unbalanced quotes in this row (unexpected end of data).\n"
            'Inside quoted text, write "" for each quote.',
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "b"\n',
            "a.jsonl, line 2: not JSON (Expecting ',' delimiter). Each line must be one complete object.",
        ),
        (
            "a.jsonl",
            "[" * 100_000,
            "a.jsonl, line 1: not JSON (too long, or nested too deeply). Each line must be one complete object.",
        ),
        (
            "a.jsonl",
            '["a", 1]\n',
            'a.jsonl, line 1: not a JSON object. Each line must be like {"text": "..."}.',
        ),
        (
            "a.jsonl",
            '{"text": "\\ud83d", "label": 1}\n',
            "a.jsonl, line 1: a \\u escape is half a character. Write the file as UTF-8.",
        ),
        (
            "a.jsonl",
            '{"text": ["a"], "label": 1}',
            "a.jsonl, line 1: the text is a list or an object, not text.",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": {}}',
            "a.jsonl, line 1: the label is a list or an object, not text.",
        ),
    ],
)
def test_content_that_cannot_be_read_says_where_and_why(tmp_path, name, content, message):
    assert refusal(put(tmp_path, name, content)) == message


@pytest.mark.parametrize("name", ["a.tsv.gz", "a.tsv.zst"])
def test_a_truncated_or_invalid_compressed_file_is_refused(tmp_path, name):
    pack = gzip.compress if name.endswith(".gz") else zstandard.compress
    cut = put(tmp_path, name, pack(b"text\tlabel\n" + os.urandom(1000).hex().encode())[:-10])
    assert refusal(cut) == f"{name} is incomplete: it ends too early. Download or copy it again."
    false = put(tmp_path, name, b"text\tlabel\n")
    assert refusal(false).startswith(f"{name} is not a valid {Path(name).suffix} file (")
    assert refusal(false).endswith("). Download or copy it again.")


def test_a_truncated_or_invalid_parquet_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": ["a"], "label": ["1"]}), path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole.replace(b"label", b"\xffabel"), b"text\tlabel\n"):
        assert refusal(put(tmp_path, "b.parquet", content)).startswith("b.parquet is not a valid Parquet file (")


def test_parquet_text_that_is_not_utf8_is_refused_with_its_row(tmp_path):
    spoilt = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"text": spoilt, "label": ["1", "0"]}), tmp_path / "a.parquet")
    assert refusal(tmp_path / "a.parquet") == "a.parquet, row 2: not UTF-8. Write the file again."


@pytest.mark.parametrize("empty", ["", " ", "\u3000", "\u200b\ufeff", "\x07"])
def test_a_row_without_a_text_is_blank_and_left_out(tmp_path, empty):
    path = put(tmp_path, "a.tsv", f"label\ttext_a\ttext_b\n1\ta\tb\n0\tc\t{empty}\n")
    assert [row.blank for row in read_rows(path, paired=True, labelled=False)] == [False, True]
    assert read_rows(path, paired=True) == [Row(text="a", other="b", label="1", line=2)]


def test_a_blank_line_is_a_row_without_a_text(tmp_path):
    for name, content, blank in [
        ("a.txt", "a\n\nb\n", [False, True, False]),
        ("a.tsv", "text\na\n \nb\n\n", [False, True, False]),
        ("a.csv", "text\n\nb", [True, False]),
        ("b.csv", "text,id\na,1\n\n  \nb,2\n", [False, True, True, False]),
    ]:
        rows = read_rows(put(tmp_path, name, content), paired=False, labelled=False)
        assert [row.blank for row in rows] == blank


def test_rows_without_a_label_are_left_out(tmp_path):
    path = put(tmp_path, "a.tsv", "text\tlabel\na\t \nb\t1\n")
    assert read_rows(path, paired=False) == [Row(text="b", label="1", line=3)]
    path = put(tmp_path, "a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}')
    assert read_rows(path, paired=False) == [Row(text="a", label="1", line=1)]
    for label in (pa.array(["1", None]), pa.array([1.0, float("nan")])):
        parquet.write_table(pa.table({"text": ["a", "b"], "label": label}), tmp_path / "a.parquet")
        assert [row.line for row in read_rows(tmp_path / "a.parquet", paired=False)] == [1]


def test_no_row_with_text_and_label_is_refused(tmp_path):
    path = put(tmp_path, "a.tsv", "text\tlabel\na\t\n\t1\n")
    assert refusal(path) == "a.tsv: none of its 2 rows has both text and a label."


@pytest.mark.parametrize("label", ["good", "nan", "inf", "1e999", "1_0", "1,5"])
def test_a_label_that_is_not_a_finite_number_is_refused_for_regression(tmp_path, label):
    path = put(tmp_path, "a.tsv", f"text\tlabel\na\t1\nb\t{label}\n")
    assert refusal(path, paired=None, numeric=True) == (
        f"a.tsv, line 3: label '{label}' is not a number.\n"
        "Regression needs numbers; for classes use `--task classify` or `--task pair`."
    )


def test_a_file_without_labels_is_refused_with_the_option_that_names_the_column(tmp_path):
    assert refusal(put(tmp_path, "a.tsv", "id\ttext\nx7\ta\n")) == (
        "a.tsv has no column label. Columns found: id, text.\nChoose the right one: --label COLUMN. "
        "Recognised names: label, gold_label, sentiment, category, class, target, gold, score, rating, "
        "similarity and 12 more."
    )


def test_a_file_without_texts_is_refused_with_the_option_that_names_the_column(tmp_path):
    assert refusal(put(tmp_path, "a.jsonl", '{"question": "a", "label": 1}')) == (
        "a.jsonl has no column text. Columns found: question, label.\nChoose the right one: --text COLUMN. Recognised "
        "names: text, text_a, sentence, review, content, comment, document, body, article, passage and 15 more."
    )


def test_a_wrong_separator_is_suspected(tmp_path):
    message = refusal(put(tmp_path, "a.tsv", "label,text\n1,a\n"))
    assert message.startswith(
        "a.tsv has no column text. Its only column is 'label,text'. Is the separator right? .tsv needs tabs.\n"
    )


def test_plain_text_cannot_be_trained_on(tmp_path):
    assert refusal(put(tmp_path, "a.txt", "a\nb\n")) == (
        "a.txt is plain text, one text per line, and has no column label.\n"
        "Use .tsv, .csv, .jsonl or .parquet, with named columns."
    )


def test_for_pairs_given_to_a_task_on_single_texts_pair_is_suggested(tmp_path):
    assert refusal(put(tmp_path, "a.tsv", "label\tsentence1\tsentence2\n1\ta\tb\n")) == (
        "a.tsv holds pairs of texts (columns label, sentence1, sentence2), but this task reads single "
        "texts.\n"
        "Use `--task pair`, remove the column sentence2, or choose the one to read with --text COLUMN."
    )


def test_single_texts_given_to_a_task_on_pairs_lack_the_second(tmp_path):
    assert refusal(put(tmp_path, "a.tsv", "label\ttext_a\n1\ta\n"), paired=True) == (
        "a.tsv has no column text_b. Columns found: label, text_a.\nChoose the right one: --text-b COLUMN. "
        "Recognised names: text_b, sentence2, hypothesis, question2, text2, sentence_b, "
        "sentence_2, query2, text_2, 文本2 and 3 more."
    )


def test_a_second_text_without_a_first_is_never_ignored(tmp_path):
    path = put(tmp_path, "a.tsv", "label\ttext\ttext_b\n1\ta\tb\n")
    for paired in (True, None):
        message = refusal(path, paired=paired)
        assert message.startswith("a.tsv has no column text_a. Columns found: label, text, text_b.\n")


# Classes


def test_classes_are_sorted():
    assert classes_of(labelled("neg", "pos", "neg", "Pos")) == ("Pos", "neg", "pos")


def test_classes_that_are_all_numbers_are_sorted_by_size():
    assert classes_of(labelled("10", "9", "-1", "9.5")) == ("-1", "9", "9.5", "10")
    assert classes_of(labelled("10", "9", "nan")) == ("10", "9", "nan")


def test_rows_without_labels_have_no_classes():
    assert classes_of([Row(text="a", line=1)]) == ()


def test_known_and_absent_labels_pass():
    check_classes([*labelled("a", "b"), Row(text="x", line=9)], ("a", "b", "c"), "dev.tsv")


def test_a_label_that_does_not_occur_in_training_is_refused():
    with pytest.raises(InputError) as caught:
        check_classes(labelled("negative", "postive"), ("negative", "positive"), "dev.tsv")
    assert str(caught.value) == (
        "dev.tsv, line 3: label 'postive' does not occur in training. Did you mean 'positive'?\n"
        "Known labels: negative, positive."
    )


def test_at_most_ten_known_labels_are_shown():
    with pytest.raises(InputError) as caught:
        check_classes(labelled("zebra"), [f"c{number}" for number in range(12)], "dev.parquet")
    assert str(caught.value) == (
        "dev.parquet, row 2: label 'zebra' does not occur in training.\n"
        "Known labels: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 2 more."
    )


def test_one_class_only_cannot_be_trained():
    with pytest.raises(InputError) as caught:
        check_trainable(labelled("x", "x", "x"), "train.tsv")
    assert str(caught.value) == ("Training needs at least two classes; all 3 rows of train.tsv have label 'x'.")


def test_one_number_only_cannot_be_trained():
    with pytest.raises(InputError) as caught:
        check_trainable(labelled(5.0, 5.0), "train.tsv")
    assert str(caught.value) == (
        "Training needs at least two different numbers; all 2 rows of train.tsv have label '5.0'."
    )


def test_two_classes_can_be_trained():
    check_trainable(labelled("x", "y", "x"), "train.tsv")
    check_trainable(labelled(1.0, 2.0), "train.tsv")


def test_what_json_writes_is_read_back(tmp_path):
    texts = ["表情 😀", 'quote " and \\', "line\nend"]
    lines = [json.dumps({"text": text, "label": "x"}) for text in texts]
    assert [row.text for row in read_rows(put(tmp_path, "a.jsonl", "\n".join(lines)), paired=False)] == texts
