"""Multiple choice as public sets lay it out: columns, choices and labels are found."""

import json
from pathlib import Path

import pytest

from plmkit.data.reading.columns import Columns, Search
from plmkit.errors import InputError, SettingError
from plmkit.tasks.kinds.choose import Choose
from plmkit.tasks.rows import read_labelled

CASES = {
    "ours": (
        [{"context": "It rains.", "question": "What?", "choices": ["sun", "rain"], "label": 1}],
        [("It rains. What?", ("sun", "rain"), "rain")],
    ),
    "RACE": (
        [
            {
                "example_id": "h1",
                "article": "It rains.",
                "question": "What?",
                "options": ["a", "b", "c", "d"],
                "answer": "C",
            }
        ],
        [("It rains. What?", ("a", "b", "c", "d"), "c")],
    ),
    "SWAG": (
        [
            {
                "video-id": "v",
                "startphrase": "He sits. He",
                "sent1": "He sits.",
                "sent2": "He",
                "gold-source": "gold",
                "ending0": "eats.",
                "ending1": "flies.",
                "ending2": "is a dog.",
                "ending3": "sinks.",
                "label": 0,
            }
        ],
        [("He sits. He", ("eats.", "flies.", "is a dog.", "sinks."), "eats.")],
    ),
    "HellaSwag": (
        [
            {
                "ind": 3,
                "activity_label": "Rowing",
                "ctx_a": "He sits.",
                "ctx_b": "he",
                "ctx": "He sits. he",
                "endings": ["eats.", "flies."],
                "label": "1",
            }
        ],
        [("He sits. he", ("eats.", "flies."), "flies.")],
    ),
    "COPA": (
        [
            {
                "premise": "It rained.",
                "choice1": "I got wet.",
                "choice2": "I sang.",
                "question": "effect",
                "idx": 0,
                "label": 0,
            }
        ],
        [("It rained. effect", ("I got wet.", "I sang."), "I got wet.")],
    ),
    "ARC": (
        [
            {
                "id": "q",
                "question": "Why?",
                "choices": {"text": ["x", "y", "z"], "label": ["A", "B", "C"]},
                "answerKey": "B",
            },
            {"id": "r", "question": "Who?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "1"},
        ],
        [("Why?", ("x", "y", "z"), "y"), ("Who?", ("x", "y"), "x")],
    ),
    "ARC as it is published": (
        [
            {
                "id": "q",
                "answerKey": "B",
                "question": {"stem": "Why?", "choices": [{"text": "x", "label": "A"}, {"text": "y", "label": "B"}]},
            }
        ],
        [("Why?", ("x", "y"), "y")],
    ),
    "CommonsenseQA": (
        [
            {
                "id": "q",
                "question": "Why?",
                "question_concept": "c",
                "answerKey": "A",
                "choices": {"label": ["A", "B"], "text": ["x", "y"]},
            }
        ],
        [("Why?", ("x", "y"), "x")],
    ),
    "PIQA": (
        [
            {"goal": "To open", "sol1": "pull", "sol2": "sing", "label": 1},
            {"goal": "To close", "sol1": "a", "sol2": "b", "label": 0},
        ],
        [("To open", ("pull", "sing"), "sing"), ("To close", ("a", "b"), "a")],
    ),
    "WinoGrande": (
        [{"sentence": "The _ is big.", "option1": "cat", "option2": "cup", "answer": "2"}],
        [("The _ is big.", ("cat", "cup"), "cup")],
    ),
    "letters": (
        [{"question": "Why?", "A": "x", "B": "y", "C": "z", "D": "w", "answer": "D"}],
        [("Why?", ("x", "y", "z", "w"), "w")],
    ),
    "texts": (
        [
            {"question": "Why?", "options": ["A", "y"], "answer": "A"},
            {"question": "Who?", "options": ["x", "A"], "answer": "A"},
        ],
        [("Why?", ("A", "y"), "A"), ("Who?", ("x", "A"), "A")],  # the text of a choice comes before its letter
    ),
    "several questions of a text": (
        [
            {
                "id": "7",
                "article": "It rains.",
                "questions": ["What?", "Why?"],
                "options": [["a", "b"], ["c", "d"]],
                "answers": ["B", "A"],
            }
        ],
        [("It rains. What?", ("a", "b"), "b"), ("It rains. Why?", ("c", "d"), "c")],
    ),
    "C3 of the hub": (
        [
            {
                "documents": ["男：去哪？", "女：家。"],
                "document_id": "1",
                "questions": {"question": ["他在哪？"], "answer": ["家"], "choice": [["家", "店"]]},
            }
        ],
        [("男：去哪？\n女：家。 他在哪？", ("家", "店"), "家")],
    ),
}


def read(path: Path, columns: Columns = Columns()):
    said: list[str] = []
    found = read_labelled(path, Choose(), Search(named=columns), said.append)
    return [(row.text, row.choices, row.label) for row in found.rows], found.columns, said


@pytest.mark.parametrize("name", CASES)
def test_the_layouts_of_public_sets_are_read(name, tmp_path):
    records, wanted = CASES[name]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    found, _, said = read(path)
    assert found == wanted
    assert bool(said) == (name not in ("ours", "several questions of a text", "C3 of the hub"))


def test_the_json_of_c3_and_of_race_has_a_row_for_each_question(tmp_path):
    path = tmp_path / "d.json"
    questions = [
        {"question": "他在哪？", "choice": ["家", "店"], "answer": "店"},
        {"question": "谁？", "choice": ["男", "女"], "answer": "男"},
    ]
    path.write_text(
        json.dumps([[["男：去哪？", "女：家。"], questions, "1-1"]], ensure_ascii=False, indent=1), encoding="utf-8"
    )
    found, _, _ = read(path)
    assert found == [
        ("男：去哪？\n女：家。 他在哪？", ("家", "店"), "店"),
        ("男：去哪？\n女：家。 谁？", ("男", "女"), "男"),
    ]
    race = {"answers": ["A"], "options": [["a", "b"]], "questions": ["What?"], "article": "It rains.", "id": "h.txt"}
    path.write_text(json.dumps(race, indent=1), encoding="utf-8")
    assert read(path)[0] == [("It rains. What?", ("a", "b"), "a")]


def test_a_table_of_text_has_a_column_for_each_choice_or_a_list_as_json(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("question,A,B,C,answer\nWhy?,x,y,z,C\nWho?,x,y,,B\n", encoding="utf-8")
    assert read(path)[0] == [("Why?", ("x", "y", "z"), "z"), ("Who?", ("x", "y"), "y")]
    path.write_text('question,choices,label\nWhy?,"[""x"", ""y""]",1\n', encoding="utf-8")
    assert read(path)[0] == [("Why?", ("x", "y"), "y")]


def test_what_is_read_is_said_and_kept(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("stem,ending0,ending1,gold\nWhy?,x,y,1\n", encoding="utf-8")
    _, columns, said = read(path)
    assert said == [f"{path}: reading stem as text, and ending0, ending1 as choices, with gold as the right one."]
    assert columns == Columns(text="stem", label="gold")


def test_options_choose_other_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("story,hint,one,two,right\nIt rains.,Why?,x,y,0\n", encoding="utf-8")
    found, _, _ = read(path, Columns(text="story+hint", text_b="one+two", label="right"))
    assert found == [("It rains. Why?", ("x", "y"), "x")]
    with pytest.raises(SettingError, match="--text-a names a column that multiple choice does not read"):
        read(path, Columns(text_a="story"))


def social(labels: list[int]) -> str:
    return "".join(
        json.dumps({"context": "c", "question": "q", "answerA": "x", "answerB": "y", "answerC": "z", "label": one})
        + "\n"
        for one in labels
    )


def test_choices_are_counted_from_one_only_where_enough_rows_show_it(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(social([1, 2, 3] * 7), encoding="utf-8")
    found, _, said = read(path)
    assert [label for *_, label in found] == ["x", "y", "z"] * 7
    assert said[-1] == f"{path}: choices are counted from 1: label is never 0, and as high as there are choices."
    path.write_text(social([0, *[1, 2] * 10]), encoding="utf-8")
    assert [label for *_, label in read(path)[0]][:3] == ["x", "y", "z"]
    for labels in ([1, 2, 3], [*[1, 2, 3] * 7, 0], [*[1, 2, 3] * 7, 4]):  # too few; from 0; beyond
        path.write_text(social(labels), encoding="utf-8")
        with pytest.raises(InputError, match="is neither one of the 3 choices nor a number from 0 to 2"):
            read(path)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"question": "q", "choices": ["x"], "label": 0},
            "line 2: choices must be a list of at least two texts; found",
        ),
        ({"question": "q", "choices": ["x", " "], "label": 0}, "line 2: choices must be a list of at least two texts"),
        ({"question": "q", "choices": ["x", "y"], "label": 2}, "line 2: label '2' is neither one of the 2 choices"),
        ({"question": "q", "choices": ["x", "y"], "label": "C"}, "line 2: label 'C' is neither one of the 2 choices"),
        (
            {"question": "q", "choices": {"label": ["A"]}, "label": "A"},
            "line 2: choices must be a list of at least two",
        ),
        ({"question": ["q"], "choices": ["x", "y"], "label": 0}, "line 2: the question is a list or an object"),
    ],
)
def test_bad_rows_are_refused_with_their_line(record, said, tmp_path):
    path = tmp_path / "a.jsonl"
    good = {"question": "q", "choices": ["x", "y"], "label": 0}
    path.write_text(json.dumps(good) + "\n" + json.dumps(record) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        read(path)


@pytest.mark.parametrize("text", ["question,label\nq,1\n", "x,A,B,answer\nq,a,b,A\n"])
def test_a_table_without_what_is_needed_is_refused_with_what_it_has(text, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"has the columns .*\nMultiple choice needs context, question or both"):
        read(path)
