"""Words of a text, files of columns, and arrays of JSON records."""

from pathlib import Path

import pytest

from plmkit.data.reading.conll import columns
from plmkit.data.reading.json_array import read_records
from plmkit.data.reading.words import every_character, every_mark, found_in, sentence_of, usual_words
from plmkit.errors import InputError


def cut(way, text: str) -> str:
    return "|".join(text[begin:end] for begin, end in way(text))


def test_words_are_cut_as_treebanks_have_them():
    text = "Dr. O'Neil's e-mail (from the U.S.) didn't cost $3.50, did it?"
    assert cut(usual_words, text) == "Dr.|O'Neil|'s|e-mail|(|from|the|U.S.|)|did|n't|cost|$|3.50|,|did|it|?"
    assert cut(usual_words, "我在New York买了iPhone15。“好”") == "我|在|New|York|买|了|iPhone15|。|“|好|”"


def test_a_text_is_also_cut_at_every_mark_or_character():
    assert cut(every_mark, "U.S.-led 我们") == "U|.|S|.|-|led|我|们"
    assert cut(every_character, "我 A1") == "我|A|1"


def test_words_are_found_in_their_text_or_not_at_all():
    assert found_in("Paris, now", ["Paris", ",", "now"]) == [(0, 5), (5, 6), (7, 10)]
    assert found_in("Paris , now", ["Paris", "now"]) is None
    assert found_in("Paris , now", ["Paris", ","]) is None


def test_a_chinese_sentence_given_by_its_characters_has_no_spaces():
    assert sentence_of(["用", "W", "i", "n", "9", "8"]).text == "用Win98"
    assert sentence_of(["a", "b"]).text == "a b"


def read(text: str, name: str = "a.conll"):
    names, sentences = columns(Path(name), enumerate(text.splitlines(), start=1))
    return names, [[(word.line, *word.cells) for word in words] for words in sentences]


def test_columns_are_read_with_their_lines():
    text = "-DOCSTART- -X- -X- O\n\n# id = 1\nEU NNP B-NP B-ORG\n#tag NN O O\n\nPeter NNP B-NP B-PER\n"
    names, sentences = read(text)
    assert names == ("tokens", "2", "3", "tags")
    assert sentences == [
        [(4, "EU", "NNP", "B-NP", "B-ORG"), (5, "#tag", "NN", "O", "O")],
        [(7, "Peter", "NNP", "B-NP", "B-PER")],
    ]


def test_a_word_of_white_space_and_a_line_of_names_are_left_out():
    assert read("word\ttag\n北\tB\n\u3000\tO\n京\tI\n")[1] == [[(2, "北", "B"), (4, "京", "I")]]
    assert read("北 B\n  O\n京 I\n")[1] == [[(1, "北", "B"), (3, "京", "I")]]


def test_conll_u_has_named_columns_and_no_ranges():
    text = "# text = du\n1-2\tdu\t_\t_\t_\n1\tde\tde\tADP\tIN\n2\tle\tle\tDET\tDT\n"
    assert read(text, "a.conllu") == (
        ("tokens", "lemma", "upos", "xpos"), [[(3, "de", "de", "ADP", "IN"), (4, "le", "le", "DET", "DT")]]
    )  # fmt: skip


def test_a_line_with_other_columns_is_refused():
    with pytest.raises(InputError, match=r"^a\.conll, line 2: expected a word and its tag, found 'York'"):
        read("New B-LOC\nYork\n")


def test_records_of_an_array_and_of_lines_have_their_lines(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[\n {"a": 1},\n\n {"a":\n 2}\n]\n')
    assert list(read_records(path)) == [(2, {"a": 1}), (4, {"a": 2})]
    path.write_text('{"a": 1}\n{"a": 2}\n')
    assert list(read_records(path)) == [(1, {"a": 1}), (2, {"a": 2})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"a": 1},\n{"a" 2}]', "line 2: not JSON"),
        ('[{"a": 1},\n{"a": 2}', "line 2: the array of records does not end"),
    ],
)
def test_a_broken_array_is_refused_with_its_line(tmp_path, text, expected):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=expected):
        list(read_records(tmp_path / "a.json"))
