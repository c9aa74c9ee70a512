"""What a table is like before it is read: its separator, its header, the shape of its columns."""

import pytest

from plmkit.data.reading.cells import count_of, folded, is_blank, is_data, shaped
from plmkit.data.reading.columns import USUAL, Columns, Heading, Search
from plmkit.data.reading.dialect import Dialect, separator_of
from plmkit.errors import InputError, SettingError

CSV = Dialect(separator=",", quoted=True)


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["text,label", "a,1"], ","),
        (["text;label", "gut, sehr gut;1", "a;0"], ";"),
        (["text\tlabel", "a\t1"], "\t"),
        (["text", "a; b", "c"], ","),  # one column
        (["I liked it; really", "no", "well"], ","),
        (["1;a film, good", "0;a bad one, again, and again", "1;b"], ";"),
        (["text;date, time;label", "a;now;1", "b;then;0"], ";"),
        (["text;label", '"a;b;c";1', '"x\ny";0'], ";"),
        (["text,label", "a,b,1", "c,d,0"], ","),  # quotes are missing, which reading will say
        ([], ","),
    ],
)
def test_the_separator_is_the_first_that_cuts_all_rows_into_as_many_cells(lines, separator):
    assert separator_of(lines) == separator


def test_long_cells_do_not_hide_the_separator():
    assert separator_of([f"text;{'x' * 200_000}", "a;b"]) == ";"


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        (["1", "great film"], [["0", "bad film"]]),
        (["pos", "great"], [["neg", "bad"], ["pos", "fine"]]),
        (["a long sentence about a film that nobody has seen so far", "x"], []),
        (["这家店不错，下次再来", "好评"], [["很差", "差评"]]),
        (["I loved it.", "pos"], [["I hated it.", "neg"]]),
        (["0.5", "a", "b"], [["1", "c", "d"]]),
    ],
)
def test_a_first_row_of_sentences_numbers_or_values_that_come_again_is_data(first, rows):
    assert is_data(first, rows)


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        (["review", "mood"], [["I loved it.", "good"]]),
        (["评语", "结果"], [["很好", "好评"]]),
        (["0", "1"], [["a", "b"]]),  # numbered by a program
        (["1", "2", "3"], [["1", "b", "c"]]),
        (["id", ""], [["7", ""]]),
        (["id", "words"], []),
    ],
)
def test_a_first_row_of_other_names_is_a_header(first, rows):
    assert not is_data(first, rows)


def test_columns_without_names_are_recognised_by_their_content():
    rows = [["7", "pos", "a long text"], ["8", "neg", "another one"], ["9", "pos", "a third"]]
    assert shaped(rows, ("text", "label")) == {"text": "3", "label": "2"}
    assert shaped(rows, ("text", "label"), but=["2"]) == {"text": "3", "label": "1"}
    assert shaped(rows, ("text_a", "text_b", "label")) == {"text_a": "2", "text_b": "3", "label": "1"}
    assert shaped([["only"]], ("text", "label")) == {"text": "1"}
    assert shaped([], ("text",)) == {}


@pytest.mark.parametrize(
    "name",
    ["text", "sentence", "review", "content", "comment", "title", "文本", "内容", "评论", "句子", "Review", "ＴＥＸＴ"],
)
def test_usual_names_of_texts_are_found(name):
    assert Heading(name="a", columns=["id", name]).usual("text") == [name]


@pytest.mark.parametrize(
    "name",
    ["label", "sentiment", "category", "class", "target", "score", "rating", "gold", "similarity", "标签", "类别",
     "情感", "评分", "Label", " CATEGORY "],
)  # fmt: skip
def test_usual_names_of_labels_are_found(name):
    assert Heading(name="a", columns=["id", name]).usual("label") == [name]


def test_no_name_stands_for_two_roles_of_a_row():
    assert not set(USUAL["text"]) & set(USUAL["label"])
    assert not set(USUAL["text_a"]) & set(USUAL["text_b"])
    assert all(folded(name) == name for names in USUAL.values() for name in names)


def test_of_several_names_the_first_of_the_order_is_read_and_the_others_are_reported():
    heading = Heading(name="a.csv", columns=["title", "content", "rating", "my class", "class"])
    columns, note = Search().within(heading, ("text", "label"))
    assert columns == Columns(text="content", label="class")
    assert note == (
        "a.csv: reading column 'content' as text and column 'class' as label. "
        "To read another: --text title or --label rating."
    )


def test_our_own_names_need_no_word():
    heading = Heading(name="a.csv", columns=["title", "text", "score", "label"])
    assert Search().within(heading, ("text", "label")) == (Columns(text="text", label="label"), None)


def test_a_named_column_is_read_without_a_word():
    heading = Heading(name="a.csv", columns=["title", "content", "label"])
    assert Search(named=Columns(text="Title")).within(heading, ("text",)) == (Columns(text="title"), None)


def test_columns_of_the_training_file_come_before_the_usual_ones():
    trained = Columns(text="title", label="mood")
    heading = Heading(name="a.csv", columns=["title", "content", "class"])
    columns, note = Search(trained=trained).within(heading, ("text", "label"))
    assert columns == Columns(text="title", label="class")
    assert note == "a.csv: reading column 'title' as text and column 'class' as label."
    _, note = Search(trained=trained, reported=True).within(heading, ("text", "label"))
    assert note == "a.csv: reading column 'class' as label."


def test_a_column_is_not_read_twice():
    heading = Heading(name="a.csv", columns=["score", "rating", "label"])
    assert Search(named=Columns(text="score")).within(heading, ("text", "label"))[0].label == "label"
    with pytest.raises(InputError) as caught:
        Search(named=Columns(text="label", label="label")).within(heading, ("text", "label"))
    assert str(caught.value) == (
        "a.csv: column 'label' cannot be both text and label. Columns found: score, rating, label.\n"
        "Choose the right ones: --text COLUMN --label COLUMN."
    )


def test_a_column_for_what_is_not_read_is_refused():
    heading = Heading(name="a.csv", columns=["text", "label"])
    with pytest.raises(SettingError) as caught:
        Search(named=Columns(text_a="text")).within(heading, ("text", "label"))
    assert str(caught.value) == ("--text-a names a column that this task does not read. Use --text and --label.")


def test_a_header_that_is_data_is_answered_with_the_options_that_read_it():
    heading = Heading(name="a.tsv", columns=["1", "a fine film"], rows=[["0", "a bad one"]], dialect=CSV)
    with pytest.raises(InputError) as caught:
        Search().within(heading, ("text", "label"))
    assert str(caught.value) == (
        "a.tsv has no column text. Columns found: 1, a fine film.\n"
        "Its first row looks like data, not like column names. If so, add to your command:\n"
        "--no-header --text 2 --label 1"
    )
    with pytest.raises(InputError, match=r"has no column '2'\.(.|\n)*\n--no-header --text 2$"):
        Search(named=Columns(text="2")).within(heading, ("text",))


@pytest.mark.parametrize("text", ["", " ", "\u3000\t", "\u200b", "\ufeff \x07"])
def test_what_cannot_be_seen_is_blank(text):
    assert is_blank(text)
    assert not is_blank(f"{text}.")


@pytest.mark.parametrize(
    ("text", "count"), [("7", 7), ("１２", 12), ("²", None), ("-1", None), ("1" * 5000, None), ("", None)]
)
def test_only_digits_of_a_likely_size_are_counts(text, count):
    assert count_of(text) == count
