"""Searching: the nearest texts, and an index that is kept until its corpus or its model changes."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import plmkit
from plmkit.errors import InputError, SettingError
from plmkit.inference.searching import nearest, nearest_by_faiss
from plmkit.storage.manifest import unseal

TEXTS = ["the cat sees a house.", "a dog hears the sea.", "the king reads a book.", "a bird finds the moon."]


@pytest.fixture
def texts(tmp_path) -> Path:
    return lines(tmp_path / "texts.txt", TEXTS)


def lines(path: Path, texts: list[str]) -> Path:
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_the_nearest_are_those_of_a_full_sort(monkeypatch):
    monkeypatch.setattr("plmkit.inference.searching.SCORES", 900)  # of three queries at once
    rng = np.random.default_rng(0)
    vectors, queries = (rng.normal(size=(count, 8)).astype(np.float32) for count in (300, 7))
    scores, places = nearest(vectors, queries, 5)
    every = queries @ vectors.T
    np.testing.assert_array_equal(places, np.argsort(-every, axis=1)[:, :5])
    np.testing.assert_allclose(scores, np.take_along_axis(every, places, 1), rtol=1e-5)
    alone = nearest(vectors, queries[:1], 5)
    np.testing.assert_array_equal(alone[1], places[:1])


def test_of_equal_texts_the_first_come_first():
    vectors = np.array([[0, 1], [1, 0], [1, 0], [0, 1], [1, 0]], dtype=np.float32)
    assert nearest(vectors, vectors[1:2], 2)[1].tolist() == [[1, 2]]
    assert nearest(vectors, vectors[1:2], 4)[1].tolist() == [[1, 2, 4, 0]]


def test_faiss_finds_the_same():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(1)
    vectors, queries = (rng.normal(size=(count, 8)).astype(np.float32) for count in (50, 3))
    ours, theirs = nearest(vectors, queries, 7), nearest_by_faiss(vectors, queries, 7)
    np.testing.assert_array_equal(ours[1], theirs[1])
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)


def test_without_faiss_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(SettingError, match=r"pip install 'plmkit\[faiss\]'"):
        nearest_by_faiss(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), 1)


def test_a_list_of_texts_is_searched_from_python(pretrained):
    index = plmkit.load(pretrained, device="cpu").index([*TEXTS, TEXTS[0]])
    hits = index.search(TEXTS[2], top=2)
    assert [(hit.rank, hit.text, hit.source, hit.line) for hit in hits][:1] == [(1, TEXTS[2], None, 3)]
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    many = index.search([TEXTS[0], TEXTS[1]], top=99)
    assert [len(found) for found in many] == [5, 5]
    assert [hit.line for hit in many[0][:2]] == [1, 5]  # equal texts, in their order
    assert len(index) == 5
    with pytest.raises(InputError, match="Query 2 is empty"):
        index.search(["a", " "])


def test_an_index_is_made_once_and_again_for_what_is_new(plm, pretrained, texts, own_cache, monkeypatch):
    embedded = counting(monkeypatch)
    first = plm("search", pretrained, texts, TEXTS[1], "--top", 2, "--json")
    assert first.code == 0, first.err
    assert "Index of 4 texts written to" in first.err
    (found,) = first.json["queries"]
    assert (found["query"], [hit["rank"] for hit in found["hits"]]) == (TEXTS[1], [1, 2])
    assert (found["hits"][0]["text"], found["hits"][0]["line"], found["hits"][0]["source"]) == (TEXTS[1], 2, str(texts))
    assert embedded == [4, 1]  # the corpus, and the query
    again = plm("search", pretrained, texts, TEXTS[1], "--top", 2, "--json")
    assert (again.json, embedded) == (first.json, [4, 1, 1])
    assert "Index" not in again.err
    lines(texts, [*TEXTS[1:], "a new text about the river."])
    changed = plm("search", pretrained, texts, TEXTS[1], "--json")
    assert "have changed since their index was made" in changed.err
    assert "1 new text to embed" in changed.err
    assert embedded == [4, 1, 1, 1, 1]
    assert len(changed.json["queries"][0]["hits"]) == 4
    assert len(list((own_cache / "search").iterdir())) == 1


def counting(monkeypatch) -> list[int]:
    """How many texts each call embeds."""
    from plmkit.inference import search_files

    embedded, embed = [], search_files.embed_texts

    def counted(model, texts, *more, **options):
        embedded.append(len(texts))
        return embed(model, texts, *more, **options)

    monkeypatch.setattr(search_files, "embed_texts", counted)
    return embedded


def test_another_model_in_the_same_folder_makes_the_index_again(plm, pretrained, finetuned, texts, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(pretrained, model)
    assert plm("search", model, texts, "a cat", "--index", tmp_path / "index").code == 0
    shutil.rmtree(model)
    shutil.copytree(finetuned, model)
    ran = plm("search", model, texts, "a cat", "--index", tmp_path / "index")
    assert (ran.code, "has changed since the index of" in ran.err) == (0, True)


def test_a_damaged_index_is_made_again(plm, pretrained, texts, tmp_path):
    folder = tmp_path / "index"
    assert plm("search", pretrained, texts, "a cat", "--index", folder).code == 0
    (folder / "passages.json").write_text("{}")
    ran = plm("search", pretrained, texts, "a cat", "--index", folder)
    assert (ran.code, "Index of 4 texts written to" in ran.err) == (0, True)


def test_an_index_of_something_else_is_left_alone(plm, pretrained, hub_folder, texts, tmp_path):
    folder = tmp_path / "index"
    assert plm("search", pretrained, texts, "a cat", "--index", folder).code == 0
    before = (folder / "vectors.safetensors").read_bytes()
    ran = plm("search", hub_folder, texts, "a cat", "--index", folder)
    assert (ran.code, "is an index of another model" in ran.err) == (2, True)
    ran = plm("search", pretrained, lines(tmp_path / "other.txt", TEXTS), "a cat", "--index", folder)
    assert (ran.code, "is an index of another corpus" in ran.err) == (2, True)
    assert (folder / "vectors.safetensors").read_bytes() == before
    ran = plm("search", pretrained, tmp_path, "a cat", "--index", tmp_path / "new")
    assert (ran.code, "is inside the corpus" in ran.err) == (2, True)
    ran = plm("search", pretrained, texts, "a cat", "--index", tmp_path)
    assert (ran.code, "holds something else than an index" in ran.err) == (2, True)
    assert texts.exists()


def test_a_moved_model_keeps_its_index(plm, pretrained, texts, tmp_path):
    shutil.copytree(pretrained, tmp_path / "one")
    assert plm("search", tmp_path / "one", texts, "a cat", "--index", tmp_path / "index").code == 0
    shutil.move(tmp_path / "one", tmp_path / "two")
    ran = plm("search", tmp_path / "two", texts, "a cat", "--index", tmp_path / "index")
    assert (ran.code, "Index" in ran.err) == (0, False), ran.err


def test_passages_are_rows_paragraphs_or_lines(plm, pretrained, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("the cat sees\na house.\n\na dog hears.\n", encoding="utf-8")
    (folder / "b.txt").write_text("the king\nthe moon\n", encoding="utf-8")
    (folder / "c.tsv").write_text("id\ttext\n1\ta bird\n2\tthe sea\n", encoding="utf-8")
    found = plm("search", pretrained, folder, "a cat", "--json").json["queries"][0]["hits"]
    assert {(Path(hit["source"]).name, hit["line"], hit["text"]) for hit in found} == {
        ("a.txt", 1, "the cat sees\na house."), ("a.txt", 4, "a dog hears."),
        ("b.txt", 1, "the king"), ("b.txt", 2, "the moon"), ("c.tsv", 2, "a bird"), ("c.tsv", 3, "the sea"),
    }  # fmt: skip


def test_queries_of_a_file_are_answered_in_a_table(plm, pretrained, texts, tmp_path):
    queries = lines(tmp_path / "queries.txt", [TEXTS[3], "", TEXTS[0]])
    ran = plm("search", pretrained, texts, "--file", queries, "--top", 1, "--out", tmp_path / "out.tsv")
    assert ran.code == 0, ran.err
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert rows[0] == ["query", "rank", "score", "text", "source", "line"]
    assert [(row[0], row[3], row[5]) for row in rows[1:]] == [(TEXTS[3], TEXTS[3], "4"), (TEXTS[0], TEXTS[0], "1")]
    shown = plm("search", pretrained, texts, TEXTS[0], "--top", 1).out
    assert shown == f"1.000  {TEXTS[0]}  ({texts}, line 1)\n"


def test_mistakes_are_explained(plm, pretrained, texts, tmp_path):
    for arguments, message in (
        ((pretrained, texts), "The query is missing"),
        ((pretrained, texts, " "), "Query 1 is empty"),
        ((pretrained, tmp_path / "none.txt", "a"), "none.txt"),
        ((pretrained, texts, "a", "--out", "x.npy"), "texts are written as"),
    ):
        ran = plm("search", *arguments)
        assert (ran.code, message in ran.err) == (2, True), ran.err


@pytest.mark.filterwarnings("default::DeprecationWarning", "default::FutureWarning")
def test_models_of_others_and_word_vectors_search_too(plm, hub_folder, texts, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as theirs

    body = theirs.Transformer(str(hub_folder), max_seq_length=32)
    model = SentenceTransformer(modules=[body, theirs.Pooling(32, pooling_mode="cls")], device="cpu")
    model.save(str(tmp_path / "theirs"))
    words = lines(tmp_path / "words.vec", ["cat 1 0", "dog 0 1", "house 1 0.5"])
    for folder in (hub_folder, tmp_path / "theirs", words):
        (found,) = plm("search", folder, texts, "the cat sees a house.", "--json").json["queries"]
        assert (found["hits"][0]["text"], len(found["hits"])) == (TEXTS[0], 4)
        assert found["hits"][0]["score"] == pytest.approx(1.0, abs=1e-5)
    wanted = model.encode(["the cat sees a house.", TEXTS[1]])
    cosine = wanted[0] @ wanted[1] / np.linalg.norm(wanted, axis=1).prod()
    (found,) = plm("search", tmp_path / "theirs", texts, "the cat sees a house.", "--json").json["queries"]
    assert next(hit["score"] for hit in found["hits"] if hit["text"] == TEXTS[1]) == pytest.approx(cosine, abs=1e-5)


def test_an_index_of_another_version_is_made_again(plm, pretrained, texts, tmp_path):
    folder = tmp_path / "index"
    assert plm("search", pretrained, texts, "a cat", "--index", folder).code == 0
    about = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(about | {"format": 99}))
    unseal(folder)
    ran = plm("search", pretrained, texts, "a cat", "--index", folder)
    assert (ran.code, "Index of 4 texts written to" in ran.err) == (0, True)
