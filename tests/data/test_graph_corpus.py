"""Tables of triples as documents of three names, and what is wrong with a table, by file and line."""

import numpy as np
import pytest
from made_graph import triples, write_triples

from plmkit.data.graph_corpus import divided, open_triples, readable
from plmkit.errors import InputError, SettingError

ROWS = "paris\tcapital_of\tfrance\nlima\tcapital_of\tperu\n"


def opened(tmp_path, text: str, name: str = "triples.tsv", **options):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return open_triples([str(path)], **options)[0]


def ids(corpus) -> list[tuple[str, str, str]]:
    graph = corpus.graph
    return [
        (graph.entities.ids[head], graph.relations.ids[relation], graph.entities.ids[tail])
        for head, relation, tail in (document.triple for document in corpus.documents())
    ]


EXPECTED = [("paris", "capital_of", "france"), ("lima", "capital_of", "peru")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "head\trelation\ttail\n" + ROWS),
        ("a.tsv", "Subject\tPredicate\tObject\n" + ROWS),
        ("a.tsv", "头实体\t关系\t尾实体\n" + ROWS),
        ("a.tsv", "主语\t谓语\t宾语\n" + ROWS),
        ("a.tsv", "tail\trelation\thead\nfrance\tcapital_of\tparis\nperu\tcapital_of\tlima\n"),
        ("a.tsv", ROWS),
        ("a.tsv", ROWS.replace("capital_of", "type")),  # a relation, though columns are called so too
        ("a.txt", ROWS),
        ("a.csv", "h,r,t,source_page\nparis,capital_of,france,x\nlima,capital_of,peru,y\n"),
        (
            "a.jsonl",
            '{"head": "paris", "relation": "capital_of", "tail": "france"}\n'
            '{"head": "lima", "relation": "capital_of", "tail": "peru"}\n',
        ),
    ],
)
def test_triples_are_read_from_usual_columns_or_from_three_without_a_header(tmp_path, name, text):
    relation = "type" if "\ttype\t" in text else "capital_of"
    assert ids(opened(tmp_path, text, name)) == [(head, relation, tail) for head, _, tail in EXPECTED]


def test_a_triple_from_an_entity_to_itself_may_be_the_first_row_without_a_header(tmp_path):
    assert ids(opened(tmp_path, "paris\tlike\tparis\n" + ROWS))[0] == ("paris", "like", "paris")


def test_names_are_read_from_tables_with_or_without_a_header_and_ids_are_made_readable(tmp_path):
    (tmp_path / "entities.tsv").write_text("entity\ttext\n/m/1\tParis\n/m/2\tFrance\n", encoding="utf-8")
    (tmp_path / "relations.txt").write_text("/location/capital_of\tis the capital of\n", encoding="utf-8")
    rows = "/m/1\t/location/capital_of\t/m/2\n/m/2\t/people/person/place_of.birth\t/m/1\n"
    names = [str(tmp_path / "entities.tsv"), str(tmp_path / "relations.txt")]
    corpus = opened(tmp_path, rows, names=names)
    assert [document.paragraphs for document in corpus.documents()] == [
        ("Paris", "is the capital of", "France"),
        ("France", "people person place of birth", "Paris"),
    ]
    assert readable("New_York") == "New York"
    assert ids(corpus)[0] == ("/m/1", "/location/capital_of", "/m/2")


def test_a_held_out_table_shares_the_numbers_of_the_graph(tmp_path):
    train, valid = write_triples(tmp_path / "train.tsv", triples()[:30]), tmp_path / "valid.tsv"
    write_triples(valid, [*triples()[30:], triples()[0]])
    first, last = open_triples([str(train)], valid=str(valid))
    assert first.graph is last.graph
    assert (len(first.described), len(last.described)) == (30, 6)  # one of the seven was read before
    assert "were read before: 1" in "".join(last.notes) and "valid.tsv, line 8" in "".join(last.notes)
    assert len(first.graph.triples) == 36
    every = np.array([one.triple for corpus in (first, last) for one in corpus.documents()])
    assert {tuple(row) for row in every.tolist()} == {tuple(row) for row in first.graph.triples.tolist()}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("head\trelation\ttail\n" + ROWS + "rome\tcapital_of\n", "line 4", "2 cells, but the first row has 3"),
        (ROWS + "rome\tcapital_of\n", "line 3", "2 cells, but the first row has 3"),
        ("head\trelation\ttail\n" + ROWS + "rome\t\titaly\n", "line 4", "the relation is missing"),
        ("head\trelation\ttail\n \tcapital_of\titaly\n", "line 2", "the head is missing"),
        ("head\trelation\tother\n" + ROWS, "triples.tsv", "has no column tail"),
        ("paris\tfrance\nlima\tperu\n", "triples.tsv", "has 2 columns; expected 3: head, relation, tail"),
        ("head\trelation\ttail\n", "triples.tsv", "has no rows"),
        ("", "triples.tsv", "is empty"),
    ],
)
def test_a_bad_table_is_refused_with_file_and_line(tmp_path, text, place, message):
    with pytest.raises(InputError) as refused:
        opened(tmp_path, text)
    assert "triples.tsv" in str(refused.value) and place in str(refused.value) and message in str(refused.value)


def test_plain_text_without_two_tabs_in_a_line_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.txt, line 2: cells between tabs: 2; expected 3: head, relation, tail"):
        opened(tmp_path, "paris\tcapital_of\tfrance\nlima\tcapital_of\n", "a.txt")


def test_json_that_lacks_a_part_is_refused(tmp_path):
    text = '{"head": "a", "relation": "r", "tail": "b"}\n{"head": "a", "relation": "r"}\n'
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: the tail is missing"):
        opened(tmp_path, text, "a.jsonl")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("paris\tParis\nfrance\tFrance\nlima\tLima\n", r"triples\.tsv, line 2: the entity 'peru' has no name in"),
        ("paris\tParis\nfrance\t \n", r"names\.tsv, line 2: the name is missing"),
        (
            "paris\tParis\nparis\tParigi\n",
            r"names\.tsv, line 2: 'paris' has the name 'Parigi', but 'Paris' in .*names\.tsv, line 1",
        ),
    ],
)
def test_bad_names_are_refused_with_file_and_line(tmp_path, names, message):
    (tmp_path / "names.tsv").write_text(names, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        opened(tmp_path, ROWS, names=[str(tmp_path / "names.tsv")])


def test_two_entities_of_one_name_are_kept_and_told_apart_by_their_ids(tmp_path):
    (tmp_path / "names.tsv").write_text("paris\tParis\nlima\tParis\nfrance\tFrance\nperu\tPeru\n", encoding="utf-8")
    corpus = opened(tmp_path, ROWS, names=[str(tmp_path / "names.tsv")])
    with pytest.raises(InputError, match=r"'Paris' is the name of 2: paris, lima\."):
        corpus.graph.entities.find("Paris")
    assert corpus.graph.entities.find("paris") == 0  # an id comes first


def test_the_first_file_is_triples_and_others_are_if_their_columns_say_so(tmp_path):
    first, second = tmp_path / "a.tsv", write_triples(tmp_path / "b.tsv")
    first.write_text(ROWS, encoding="utf-8")
    (tmp_path / "text.txt").write_text("a text\n", encoding="utf-8")
    assert divided([str(first), str(tmp_path / "text.txt"), str(second)]) == (
        [str(first), str(second)],
        [str(tmp_path / "text.txt")],
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", ROWS),
        ("a.tsv", "head\trelation\ttail\n" + ROWS),
        ("a.txt", ROWS),
        ("a.jsonl", '{"head": "paris", "relation": "capital_of", "tail": "france"}\n'),
    ],
)
def test_text_may_come_before_triples(tmp_path, name, text):
    triples = tmp_path / name
    triples.write_text(text, encoding="utf-8")
    for other, content in {
        "text.txt": "\na text, with no tabs\n",
        "rows.csv": "text,label\na text,1\n",
        "rows.jsonl": '{"text": "a text"}\n',
    }.items():
        (tmp_path / other).write_text(content, encoding="utf-8")
        given = [str(tmp_path / other), str(triples)]
        assert divided(given) == divided(given[::-1]) == ([str(triples)], [str(tmp_path / other)])


def test_a_layout_of_text_is_refused(tmp_path):
    with pytest.raises(SettingError, match="no effect on triples"):
        opened(tmp_path, ROWS, layout="blank-lines")


def test_the_fingerprint_changes_with_triples_and_names(tmp_path):
    (tmp_path / "names.tsv").write_text("paris\tParis\nlima\tLima\nfrance\tFrance\nperu\tPeru\n", encoding="utf-8")
    plain, named = opened(tmp_path, ROWS), opened(tmp_path, ROWS, names=[str(tmp_path / "names.tsv")])
    other = opened(tmp_path, "paris\tcapital_of\tperu\nlima\tcapital_of\tfrance\n")
    assert len({one.fingerprint() for one in (plain, named, other)}) == 3
    assert opened(tmp_path, ROWS).fingerprint() == plain.fingerprint()
