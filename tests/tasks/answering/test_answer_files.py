"""Files of questions in every form that people have them, and bad ones with file, line and id."""

import gzip
import json

import pytest

from plmkit.data.reading.columns import Columns, Search, ignore
from plmkit.errors import InputError
from plmkit.tasks.kinds.qa import QA
from plmkit.tasks.rows import read_labelled

TEXT = "The Rhine flows into the North Sea. It is 1,230 km long."
QAS = [
    {"id": "q1", "question": "Where does it flow?", "answers": [{"text": "North Sea", "answer_start": 25}]},
    {"id": "q2", "question": "Who built it?", "answers": [], "is_impossible": True,
     "plausible_answers": [{"text": "Rhine", "answer_start": 4}]},
]  # fmt: skip
EXPECTED = [("q1", "Where does it flow?", TEXT, "North Sea", 25), ("q2", "Who built it?", TEXT, "", None)]
SQUAD = {"version": "v2.0", "data": [{"title": "Rhine", "paragraphs": [{"context": TEXT, "qas": QAS}]}]}
OTHER_NAMES = [{"query_id": one["id"], "query_text": one["question"], "answers": [a["text"] for a in one["answers"]]}
               for one in QAS]  # fmt: skip
FLAT = [{"context": TEXT, **one} for one in QAS]


def rows_of(path, say=ignore, **columns):
    return read_labelled(path, QA(), Search(named=Columns(**columns)), say).rows


def seen(path, **columns):
    return [(row.id, row.text, row.other, row.label, row.start) for row in rows_of(path, **columns)]


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("squad.json", json.dumps(SQUAD)),
        ("indented.json", json.dumps(SQUAD, indent=2)),
        ("cmrc.json", json.dumps([{"context_id": "c", "context_text": TEXT, "qas": OTHER_NAMES}])),
        ("flat.json", json.dumps(FLAT)),
        ("paragraphs.jsonl", json.dumps({"title": "Rhine", "context": TEXT, "qas": QAS})),
        ("flat.jsonl", "\n".join(map(json.dumps, FLAT))),
        ("datasets.jsonl", "\n".join(json.dumps({**one, "answers": {
            "text": [a["text"] for a in one["answers"]], "answer_start": [a["answer_start"] for a in one["answers"]],
        }}) for one in FLAT)),
        ("flat.csv", 'id,question,context,answer,answer_start,is_impossible\n'
                     f'q1,Where does it flow?,"{TEXT}",North Sea,25,False\nq2,Who built it?,"{TEXT}",,,True\n'),
        ("bare.tsv", f"id\tquestion\tcontext\tanswers\nq1\tWhere does it flow?\t{TEXT}\t[\"North Sea\"]\n"
                     f"q2\tWho built it?\t{TEXT}\t[]\n"),
    ],
    ids=lambda value: value if value.endswith(("json", "jsonl", "csv", "tsv")) else "",
)  # fmt: skip
def test_a_file_of_questions_is_read_as_it_is(name, content, tmp_path):
    assert seen(written(tmp_path / name, content)) == EXPECTED


def test_a_compressed_file_is_read(tmp_path):
    (tmp_path / "squad.json.gz").write_bytes(gzip.compress(json.dumps(SQUAD).encode()))
    assert seen(tmp_path / "squad.json.gz") == EXPECTED


def test_other_columns_are_chosen_by_the_options(tmp_path):
    rows = [{"q": one["question"], "t": TEXT, "a": "North Sea", "id": one["id"]} for one in QAS]
    path = written(tmp_path / "own.jsonl", "\n".join(map(json.dumps, rows)))
    assert seen(path, text_a="q", text_b="t", label="a")[0] == EXPECTED[0]
    with pytest.raises(InputError, match="has no column question; found q, t, a, id"):
        rows_of(path)


def test_all_reference_answers_are_kept_and_the_first_is_trained_on(tmp_path):
    answers = [{"text": "North Sea", "start": 25}, {"text": "the North Sea", "start": 21}]
    row = {"question": "Where?", "context": TEXT, "answers": answers}
    (found,) = rows_of(written(tmp_path / "a.jsonl", json.dumps(row)))
    assert (found.answers, found.start) == (("North Sea", "the North Sea"), 25)


def test_a_row_without_an_answer_cell_is_left_out_and_counted(tmp_path):
    said = []
    path = written(tmp_path / "a.csv", f'question,context,answer\nWhere?,"{TEXT}",North Sea\nWho?,"{TEXT}",\n')
    assert len(rows_of(path, said.append)) == 1
    assert said == [f"! {path}: 1 row without an answer left out (line 3)."]


def test_a_row_without_a_question_is_left_out_and_counted(tmp_path):
    """As rows without text in every kind: CMRC's own files have one."""
    said = []
    path = written(tmp_path / "a.jsonl", "\n".join(json.dumps({**FLAT[0], "question": q}) for q in ("Where?", " ")))
    assert len(rows_of(path, said.append)) == 1
    assert said == [f"! {path}: 1 row without a question left out (line 2)."]


def test_a_misplaced_answer_is_found_nearby_and_reported(tmp_path):
    rows = [{"id": f"q{start}", "question": "Where?", "context": TEXT, "answer": "North Sea", "answer_start": start}
            for start in (25, 23, 0)]  # fmt: skip
    said = []
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert [row.start for row in rows_of(path, said.append)] == [25, 25, 25]
    assert said == [
        f"! {path}: 2 answers not where answer_start says, found nearby or as the only occurrence (lines 2 and 3; the "
        "first: question q23)."
    ]


BAD = {
    "not in the text": ({"answers": [{"text": "Baltic", "answer_start": 3}]},
                        "the answer 'Baltic' does not occur in its context"),
    "far from several": ({"context": "a x " + "b" * 60 + " x c", "answer": "x", "answer_start": 30},
                         "at answer_start 30 the context has 'b', not 'x', which occurs 2 times elsewhere"),
    "out of range": ({"answer": "North Sea", "answer_start": 900}, "answer_start is 900, but the context has 56"),
    "no number": ({"answer": "North Sea", "answer_start": "five"}, "answer_start must be a whole number; found 'five'"),
    "no context": ({"context": "", "answer": "North Sea"}, "the question has no context"),
    "empty answer": ({"answers": [{"text": "", "answer_start": 0}]}, "an answer is empty, or not a text"),
    "a list": ({"context": [1], "answer": "x"}, "the context is a list or an object, not text"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_bad_questions_are_refused_with_line_and_id(name, form, plm, pretrained, tmp_path):
    change, says = BAD[name]
    rows = [{"id": "good", "question": "Where?", "context": TEXT, "answers": [{"text": "North Sea", "start": 25}]},
            {"id": "bad7", "question": "Where?", "context": TEXT, **change}]  # fmt: skip
    text = "\n".join(map(json.dumps, rows)) if form == "jsonl" else "[" + ",\n".join(map(json.dumps, rows)) + "]"
    path = written(tmp_path / f"a.{form}", text)
    ran = plm("finetune", pretrained, "--task", "qa", "--train", path, "--out", tmp_path / "out",
              *(["--label", "answer"] if "answer" in change else []))  # fmt: skip
    assert ran.code == 2
    assert f"{path}, line 2, question bad7: {says}" in ran.err
    assert not (tmp_path / "out").exists()


def test_broken_json_is_refused_with_its_line(tmp_path):
    path = written(tmp_path / "a.json", json.dumps(SQUAD, indent=1)[:-40])
    with pytest.raises(InputError, match=r"a\.json, line \d+: not JSON \(.*\). Is the file complete\?"):
        rows_of(path)
    line = written(tmp_path / "a.jsonl", json.dumps(FLAT[0]) + '\n{"question": ')
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: not JSON"):
        rows_of(line)


@pytest.mark.parametrize("content", ['{"data": 3}', '{"data": [3]}', '[["a"]]', '{"data": [{"paragraphs": {}}]}',
                                     '[{"context": "a", "qas": {"id": 3}}]'])  # fmt: skip
def test_json_of_another_form_is_refused_with_what_is_expected(content, tmp_path):
    with pytest.raises(InputError, match=r"is no file of questions: found .*\nExpected SQuAD's form"):
        rows_of(written(tmp_path / "a.json", content))


def test_missing_and_empty_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        rows_of(tmp_path / "none.json")
    with pytest.raises(InputError, match="is empty"):
        rows_of(written(tmp_path / "a.json", ""))
    with pytest.raises(InputError, match="has no questions"):
        rows_of(written(tmp_path / "b.json", '{"data": []}'))
    with pytest.raises(InputError, match="nested too deeply"):
        rows_of(written(tmp_path / "c.json", '{"data":' + "[" * 60 + "]" * 60 + "}"))
