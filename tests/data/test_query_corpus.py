"""Tables of queries and titles: their columns and labels in two languages, and what is refused."""

import json
from pathlib import Path

import pytest

from plmkit.data.query_corpus import has_queries, open_queries
from plmkit.errors import InputError


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(path: str) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    (corpus,) = open_queries([path])
    return [(document.paragraphs, document.relevance) for document in corpus.documents()]


def test_rows_of_a_query_are_one_document(tmp_path):
    path = write(tmp_path / "a.tsv", "query\ttitle\tlabel\na b\tone\t0\na b\ttwo\t1\nc\tthree\t2\na b\tfour\t1\n")
    assert has_queries(path)
    assert read(path) == [(("a b", "one", "two"), (0, 1)), (("c", "three"), (2,)), (("a b", "four"), (1,))]
    (corpus,) = open_queries([path])
    assert [document.lines for document in corpus.documents()] == [(2, 2, 3), (4, 4), (5, 5)]
    (note,) = corpus.notes
    assert note == f"{path}: 4 titles of queries, 1 clicked, 2 shown but not clicked, 1 not shown (column 'label')."


@pytest.mark.parametrize(
    ("name", "text", "labels"),
    [
        ("a.csv", "Query,Title,Label\nq,t,clicked\nq,u,not clicked\nq,v,random\n", (0, 1, 2)),
        ("a.tsv", "查询\t标题\t标签\nq\tt\t点击\nq\tu\t展示\nq\tv\t未展示\n", (0, 1, 2)),
        ("a.tsv", "搜索词\t标题\t是否点击\nq\tt\t是\nq\tu\t否\n", (0, 1)),
        ("a.tsv", "query\ttitle\tclicked\nq\tt\t1\nq\tu\t0\n", (0, 1)),
        ("a.jsonl", '{"query": "q", "title": "t", "label": 0}\n{"query": "q", "title": "u", "label": 1.0}\n', (0, 1)),
        ("a.jsonl", '{"query": "q", "title": "t", "click": true}\n{"query": "q", "title": "u", "click": false}\n',
         (0, 1)),
    ],
)  # fmt: skip
def test_names_and_labels_in_both_languages(name, text, labels, tmp_path):
    path = write(tmp_path / name, text)
    assert has_queries(path)
    ((texts, found),) = read(path)
    assert (texts[:2], found) == (("q", "t"), labels)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "a.tsv",
            "query\ttitle\tlabel\nq\tt\t0\nq\tu\t3\n",
            "a.tsv, line 3: column 'label' has the unknown label '3'.",
        ),
        ("a.tsv", "query\ttitle\tlabel\nq\tt\tmaybe\n", "a.tsv, line 2: column 'label' has the unknown label 'maybe'."),
        ("a.tsv", "query\ttitle\tlabel\nq\tt\t\n", "a.tsv, line 2: column 'label' has the unknown label ''."),
        ("a.tsv", "query\ttitle\tclicked\nq\tt\t2\n", "a.tsv, line 2: column 'clicked' has the unknown label '2'."),
        (
            "a.jsonl",
            '{"query": "q", "title": 5, "label": 0}\n',
            "a.jsonl, line 1: column 'title' contains int, not text",
        ),
        ("a.tsv", "query\ttitle\tlabel\n\tt\t0\nq\t \t0\n", "a.tsv has no row with both a query and a title."),
    ],
)
def test_bad_rows_are_refused_with_file_and_line(name, text, says, tmp_path):
    with pytest.raises(InputError) as error:
        open_queries([write(tmp_path / name, text)])
    assert says in str(error.value)
    assert len(str(error.value).splitlines()) <= 3


def test_rows_that_lack_a_side_are_skipped_and_counted(tmp_path):
    path = write(tmp_path / "a.tsv", "query\ttitle\tlabel\nq\tt\t0\n\tu\t1\nq\t\t1\nr\tu\t0\nr\tv\t1\n")
    (corpus,) = open_queries([path])
    assert [document.paragraphs for document in corpus.documents()] == [("q", "t"), ("r", "u", "v")]
    says = f"{path}: 2 of 5 rows lack a query or a title and are skipped; the first is {path}, line 3."
    assert corpus.notes[1:] == (says,)


@pytest.mark.parametrize(
    ("clicked", "shown", "random", "remarked"),
    [(19, 1, 0, True), (18, 2, 0, False), (20, 0, 0, False), (51, 49, 0, False), (19, 1, 5, False)],
)
def test_labels_that_may_mean_the_opposite_are_remarked_only_if_nearly_all_titles_are_clicked(
    clicked, shown, random, remarked, tmp_path
):
    labels = [0] * clicked + [1] * shown + [2] * random
    rows = "".join(f"q\tt{number}\t{label}\n" for number, label in enumerate(labels))
    (corpus,) = open_queries([write(tmp_path / "a.tsv", "query\ttitle\tlabel\n" + rows)])
    said = f"! {tmp_path / 'a.tsv'}: 95% of the titles are clicked. Label 0 means clicked; if 1 does, name the column "
    assert [note for note in corpus.notes[1:] if note.startswith(said)] == list(corpus.notes[1:])
    assert len(corpus.notes) == 1 + remarked


def test_other_tables_and_plain_text_are_no_queries(tmp_path):
    text = write(tmp_path / "a.tsv", "text\tlabel\nhello\t1\n")
    both = write(tmp_path / "b.jsonl", json.dumps({"query": "q", "title": "t", "text": "a text", "label": 0}) + "\n")
    plain = write(tmp_path / "c.txt", "query title label\n")
    assert not any(map(has_queries, (text, both, plain)))
    unlabelled = write(tmp_path / "d.tsv", "query\ttitle\nq\tt\n")
    with pytest.raises(InputError, match="has queries and titles, but no labels"):
        has_queries(unlabelled)


def test_the_key_of_the_tokens_follows_the_content(tmp_path):
    path = tmp_path / "a.tsv"
    prints = []
    for label in (0, 1, 0):
        write(path, f"query\ttitle\tlabel\nq\tt\t{label}\nq\tu\t1\n")
        prints.append(open_queries([str(path)])[0].fingerprint())
    assert prints[0] == prints[2] != prints[1]
