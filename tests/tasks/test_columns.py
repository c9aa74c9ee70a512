"""Rows of real-world files: which columns are read, what is left out, and what is reported of both."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from plmkit.data.reading.columns import Columns, Heading, Search
from plmkit.errors import InputError, SettingError
from plmkit.tasks.contract import Row
from plmkit.tasks.registry import find_kind
from plmkit.tasks.rows import lines_of, plain_rows, read_labelled
from plmkit.tasks.tables import open_table


class Desk:
    """Files, and the messages of reading them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.messages = folder, list[str]()

    def put(self, name: str, content: str) -> Path:
        (self.folder / name).write_text(content, encoding="utf-8")
        return self.folder / name

    def say(self, text: str) -> None:
        self.messages.append(text.replace(f"{self.folder}/", ""))

    def read(self, path: Path, kind: str = "classify", trained: Columns = Columns(), **named) -> list[Row]:
        return read_labelled(path, find_kind(kind)(), Search(named=Columns(**named), trained=trained), self.say).rows

    def refusal(self, path: Path, kind: str = "classify", **named) -> str:
        with pytest.raises((InputError, SettingError)) as caught:
            self.read(path, kind, **named)
        return str(caught.value).replace(f"{self.folder}/", "")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


TWO = [Row(text="好吃", label="1", line=2), Row(text="bad", label="0", line=3)]


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        ("评论,标签", "评论", "标签"),
        ("review,sentiment", "review", "sentiment"),
        ("Comment,RATING", "Comment", "RATING"),
    ],
)
def test_usual_names_are_read_and_reported(desk, header, text, label):
    assert desk.read(desk.put("a.csv", f"{header}\n好吃,1\nbad,0\n")) == TWO
    assert desk.messages == [f"a.csv: reading column '{text}' as text and column '{label}' as label."]


def test_named_columns_are_read_without_a_message(desk):
    path = desk.put("a.csv", "title,text,mood,label\n好吃,x,1,y\nbad,x,0,y\n")
    assert desk.read(path, text="title", label="mood") == TWO
    assert desk.messages == []


def test_a_named_column_that_is_missing(desk):
    path = desk.put("a.csv", "titel,label\na,1\n")
    assert desk.refusal(path, text="title") == (
        "a.csv has no column 'title'. Did you mean 'titel'? Columns found: titel, label.\n"
        "Choose one of them: --text COLUMN."
    )


@pytest.mark.parametrize("header", ["sentence1,sentence2,label", "句子1,句子2,标签", "premise,hypothesis,gold"])
def test_pairs_have_usual_names_too(desk, header):
    first, second, label = header.split(",")
    assert desk.read(desk.put("a.csv", f"{header}\na,b,1\n"), "pair") == [Row(text="a", other="b", label="1", line=2)]
    ours = "" if label == "label" else f" and column '{label}' as label"
    assert desk.messages == [f"a.csv: reading column '{first}' as text_a and column '{second}' as text_b{ours}."]


def test_named_columns_make_a_pair_of_any_two(desk):
    path = desk.put("a.csv", "left,right,label\na,b,1\n")
    row = Row(text="a", other="b", label="1", line=2)
    assert desk.read(path, "pair", text_a="left", text_b="right") == [row]
    assert desk.read(path, "regress", text_a="left", text_b="right")[0].other == "b"
    assert desk.read(path, "regress", text="left")[0].other is None
    assert desk.refusal(path, "classify", text_a="left") == (
        "--text-a names a column that this task does not read. Use --text and --label."
    )


def test_one_text_of_a_pair_can_be_named(desk):
    path = desk.put("a.csv", "sentence1,sentence2,label\na,b,1\n")
    assert desk.read(path, text="sentence2")[0].text == "b"


def test_a_semicolon_as_separator_is_recognised_and_reported(desk):
    path = desk.put("a.csv", 'text;label\n"gut; sehr";1\nwell, well;0\n')
    assert [row.text for row in desk.read(path)] == ["gut; sehr", "well, well"]
    assert desk.messages == ["a.csv is separated by semicolons."]
    ragged = desk.put("b.csv", "text;label\na;1\nb;c;0\nd;1\n")
    assert desk.refusal(ragged).endswith("Put text that contains a semicolon in double quotes.")


# Files without a header


def test_a_header_that_is_data_is_refused_with_the_options_to_add(desk):
    path = desk.put("a.tsv", "1\t这家店很好吃\n0\t不好\n1\t好\n")
    assert desk.refusal(path) == (
        "a.tsv has no column text. Columns found: 1, 这家店很好吃.\n"
        "Its first row looks like data, not like column names. If so, add to your command:\n"
        "--no-header --text 2 --label 1"
    )
    rows = desk.read(path, text="2", label="1", header=False)
    assert [(row.text, row.label, row.line) for row in rows] == [
        ("这家店很好吃", "1", 1),
        ("不好", "0", 2),
        ("好", "1", 3),
    ]
    assert desk.messages == []


def test_without_a_header_columns_are_recognised_by_their_content(desk):
    path = desk.put("a.csv", "7,pos,a good film\n8,neg,a bad film\n9,pos,well\n")
    assert [row.label for row in desk.read(path, header=False)] == ["pos", "neg", "pos"]
    assert desk.messages == [
        "a.csv: reading column '3' as text and column '2' as label. To read another: --text COLUMN or --label COLUMN."
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\t1\tgood film\n0\t1\tbad film\n", "a.tsv has two columns named '1'. Its first row looks like data"),
        (
            "a good film, all in all\t1\n",
            "a.tsv has no rows, only the columns a good film, all in all, 1.\nIts first row",
        ),
    ],
)
def test_a_header_that_is_data_may_show_in_other_ways(desk, content, message):
    refusal = desk.refusal(desk.put("a.tsv", content))
    assert refusal.startswith(message)
    assert refusal.endswith("\n--no-header")
    assert len(refusal.splitlines()) <= 3


def test_no_header_is_for_cells_only(desk):
    path = desk.put("a.jsonl", '{"text": "a", "label": 1}\n')
    assert desk.refusal(path, header=False).startswith("--no-header is for .csv and .tsv; a.jsonl needs no header.")


def test_a_model_trained_without_a_header_reads_files_without_one(desk):
    trained = Columns(text="2", label="1", header=False)
    path = desk.put("a.tsv", "pos\ta fine film\nneg\tno\n")
    assert [row.text for row in desk.read(path, trained=trained)] == ["a fine film", "no"]
    assert desk.messages == [
        "a.tsv is read without a header, like the rows that the model was trained on.",
        "a.tsv: reading column '2' as text and column '1' as label. To read another: --text COLUMN or --label COLUMN.",
    ]
    named = desk.put("b.tsv", "text\tlabel\na\tpos\n")
    assert [row.text for row in desk.read(named, trained=trained)] == ["a"]


# Rows that are not whole


def test_rows_without_text_or_label_are_left_out_and_counted(desk):
    path = desk.put("a.tsv", "text\tlabel\na\t1\n \t1\nb\t\n\t\n\nc\t0\n\u200b\t0\n")
    assert [row.text for row in desk.read(path)] == ["a", "c"]
    assert desk.messages == [
        "! a.tsv: 4 rows without text left out (lines 3, 5, 6 and 8).",
        "! a.tsv: 1 row without a label left out (line 4).",
    ]


def test_rows_to_predict_keep_their_count(desk):
    path = desk.put("a.csv", "review,id\na,1\n,2\n\nb,3\n")
    table = open_table(path, Search(), desk.say)
    rows, _ = find_kind("classify")().read(table, Search(), desk.say, labelled=False)
    assert [(row.text, row.blank, row.line) for row in rows] == [
        ("a", False, 2), ("", True, 3), ("", True, 4), ("b", False, 5)
    ]  # fmt: skip
    assert [row.text for row in plain_rows(table, Search(named=Columns(text="id")), desk.say)] == ["1", "2", "", "3"]


def test_plain_text_has_no_columns_to_name(desk):
    table = open_table(desk.put("a.txt", "a\n\nb\n"), Search(), desk.say)
    assert [row.blank for row in plain_rows(table, Search(), desk.say)] == [False, True, False]
    with pytest.raises(SettingError, match=r"a\.txt: plain text has no columns, so --text would have no effect"):
        plain_rows(table, Search(named=Columns(text="review")), desk.say)


def test_lines_are_listed_up_to_five():
    assert lines_of([3], "a.tsv") == "line 3"
    assert lines_of([3, 8], "a.parquet") == "rows 3 and 8"
    assert lines_of(range(1, 10), "a.tsv") == "lines 1, 2, 3, 4, 5 and 4 more"


# Labels and choices


def test_spaces_around_labels_are_ignored_and_reported(desk):
    path = desk.put("a.tsv", "text\tlabel\na\tpos\nb\tpos \nc\t neg\n")
    assert [row.label for row in desk.read(path)] == ["pos", "pos", "neg"]
    assert desk.messages == ["! a.tsv: spaces around labels are ignored: pos."]


CHOICE = '{"question": "q", "choices": ["x", "y"], "label": %s}\n'


@pytest.mark.parametrize("label", ['"²"', f'"{"1" * 5000}"', '"7"', "true", "-1", "[0]"])
def test_a_label_that_is_not_a_choice_is_refused(desk, label):
    refusal = desk.refusal(desk.put("a.jsonl", CHOICE % label), "choose")
    assert "is neither one of the 2 choices nor a number from 0 to 1." in refusal
    assert len(refusal) < 200


def test_a_label_is_a_choice_or_its_number(desk):
    path = desk.put("a.jsonl", CHOICE % 1 + CHOICE % '"x"' + CHOICE % '"0"' + CHOICE % "null")
    assert [row.label for row in desk.read(path, "choose")] == ["y", "x", "x"]
    assert desk.messages == ["! a.jsonl: 1 row without a label left out (line 4)."]


def test_the_label_of_choices_can_be_named(desk):
    path = desk.put("a.jsonl", (CHOICE % 1).replace('"label"', '"right"'))
    assert [row.label for row in desk.read(path, "choose", label="right")] == ["y"]


@pytest.mark.parametrize("row", ['{"text": {"a": [1]}, "label": 1}', '{"text": "a", "label": [1]}'])
def test_odd_json_is_refused_with_a_message(desk, row):
    assert " is a list" in desk.refusal(desk.put("a.jsonl", row + "\n"))


def deep(levels: int) -> str:
    return '{"text": "a", "label": "b", "more": ' + "[" * levels + "]" * levels + "}\n"


def test_json_is_read_up_to_200_levels(desk):
    assert [row.text for row in desk.read(desk.put("a.jsonl", deep(199)))] == ["a"]
    for levels in (200, 950, 100_000):
        refusal = desk.refusal(desk.put("a.jsonl", deep(levels)))
        assert (
            refusal
            == "a.jsonl, line 1: not JSON (too long, or nested too deeply). Each line must be one complete object."
        )


def test_two_parquet_columns_of_one_name_are_refused(desk):
    path = desk.folder / "a.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path)
    assert desk.refusal(path) == "a.parquet has two columns named 'text'. Rename one."


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        (("gold_label", "sentence1", "sentence2"), ("sentence1", "sentence2", "gold_label")),
        (("premise", "hypothesis", "label"), ("premise", "hypothesis", "label")),
        (("question", "sentence", "label"), ("question", "sentence", "label")),
        (("query", "passage", "relevance"), ("query", "passage", "relevance")),
        (("question", "answer", "label"), ("question", "answer", "label")),
        (("sentence_a", "sentence_b", "score"), ("sentence_a", "sentence_b", "score")),
        (("句子1", "句子2", "标签"), ("句子1", "句子2", "标签")),
    ],
)
def test_pairs_are_found_under_the_names_of_public_sets(columns, texts):
    found, _ = Search().within(Heading(name="rows.tsv", columns=columns), ("text_a", "text_b", "label"))
    assert (found.text_a, found.text_b, found.label) == texts


@pytest.mark.parametrize(
    ("columns", "read"),
    [
        (("review", "sentiment"), ("review", "sentiment")),
        (("评论", "标签"), ("评论", "标签")),
        (("tweet", "polarity"), ("tweet", "polarity")),
        (("sentence", "gold_label"), ("sentence", "gold_label")),
    ],
)
def test_single_texts_are_found_under_the_names_of_public_sets(columns, read):
    found, _ = Search().within(Heading(name="rows.tsv", columns=columns), ("text", "label"))
    assert (found.text, found.label) == read
