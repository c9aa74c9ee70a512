"""Skip-gram: a corpus → a run folder of word vectors → neighbours."""

import json
import random

import numpy as np
import pytest

from plmkit.errors import FolderError
from plmkit.terminal.screen import Screen
from plmkit.training.run_folder import RunFolder
from plmkit.vectors.settings import SkipGram
from plmkit.vectors.training import SkipGramRequest, train_vectors
from plmkit.vectors.word_vectors import WordVectors, load_vectors, read_text, words_of, write_text

ANIMALS, FOODS = ("cat", "dog", "horse", "cow"), ("bread", "soup", "rice", "fish")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = random.Random(0)
    lines = [f"the {rng.choice(ANIMALS)} runs and sleeps in the stable" for _ in range(300)]
    lines += [f"we eat {rng.choice(FOODS)} from a plate at noon" for _ in range(300)] + ["我们喜欢学习中文。"] * 20
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n\n".join(rng.sample(lines, len(lines))) + "\n", encoding="utf-8")
    return path


def train(corpus, out, **changed):
    settings = SkipGram(width=16, epochs=10, subsample=0.0, **changed)
    return train_vectors(SkipGramRequest(corpora=(str(corpus),), out=out, settings=settings), Screen(quiet=True))


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "skipgram"
    train(corpus, out)
    return out


def test_words_in_similar_contexts_are_neighbours(trained):
    near = [word for word, _ in load_vectors(trained).neighbours("cat", 3)]
    assert set(near) == set(ANIMALS) - {"cat"}


def test_chinese_words_are_those_of_the_segmenter(trained):
    assert words_of(["我们喜欢学习中文。"]) == [["我们", "喜欢", "学习", "中文", "。"]]
    assert {"我们", "喜欢", "学习", "中文"} <= set(load_vectors(trained).words)


def test_a_word_has_one_vector_whatever_the_sentence(trained):
    vectors = load_vectors(trained)
    first = vectors.embed("the cat runs", level="token")[1]
    second = vectors.embed("we eat the cat", level="token")[3]
    assert (first == second).all()


def test_the_same_seed_gives_the_same_vectors(trained, corpus, tmp_path):
    train(corpus, tmp_path / "again")
    assert (load_vectors(tmp_path / "again").vectors == load_vectors(trained).vectors).all()


def test_any_whole_number_is_a_seed(corpus, tmp_path):
    for seed in (-1, 2**40):
        request = SkipGramRequest(
            corpora=(str(corpus),), out=tmp_path / str(seed), settings=SkipGram(width=4, epochs=1), seed=seed
        )
        assert train_vectors(request, Screen(quiet=True)).result["width"] == 4


def test_a_finished_run_is_returned_unless_its_corpus_has_changed(tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("one two one two\n")
    first = train(text, out, min_count=1)
    assert train(text, out, min_count=1) == first
    text.write_text("three four three four\n")
    with pytest.raises(FolderError, match="the corpus has changed"):
        train(text, out, min_count=1)
    assert set(load_vectors(out).words) == {"one", "two"}


def test_the_folder_holds_safetensors_words_and_settings(trained):
    assert {path.name for path in trained.iterdir()} == {
        "model.safetensors", "words.txt", "run.json", "plmkit-manifest.json",
    }  # fmt: skip
    run = json.loads((trained / "run.json").read_text())
    assert run["kind"] == "vectors" and run["skipgram"]["width"] == 16
    assert RunFolder(trained).record.skipgram == SkipGram(width=16, epochs=10, subsample=0.0)


def test_gensim_opens_the_text_format_and_it_is_read_back(trained, tmp_path):
    from gensim.models import KeyedVectors

    vectors = load_vectors(trained)
    write_text(vectors, tmp_path / "vectors.txt")
    theirs = KeyedVectors.load_word2vec_format(str(tmp_path / "vectors.txt"))
    assert theirs.index_to_key == list(vectors.words)
    assert (theirs.vectors == vectors.vectors).all()
    again = read_text(tmp_path / "vectors.txt")
    assert again.words == vectors.words and (again.vectors == vectors.vectors).all()


def test_glove_files_have_no_first_line_and_words_with_spaces(tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 0\nat name 0.5 -2\n")
    found = read_text(tmp_path / "glove.txt")
    assert found.words == ("the", "at name")
    assert found.vectors.tolist() == [[1, 0], [0.5, -2]]


def test_cosines_are_those_of_a_pocket_calculator(tmp_path):
    vectors = WordVectors(
        folder=tmp_path, words=("a", "b", "c"), vectors=np.array([[1, 0], [3, 4], [0, 2]], dtype=np.float32)
    )
    assert vectors.neighbours("a", 5) == [("b", pytest.approx(0.6)), ("c", pytest.approx(0.0))]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("the 1 0\ncat 1\n", "line 2"), ("the 1 0\ncat 1 x\n", "line 2"), ("", "no word vectors"), ("a\n", "line 1")],
)
def test_a_text_file_that_holds_something_else_is_refused(tmp_path, plm, lines, expected):
    (tmp_path / "bad.txt").write_text(lines)
    ran = plm("neighbours", tmp_path / "bad.txt", "the")
    assert ran.code == 2 and expected in ran.err


def test_an_unknown_word_gets_the_nearest_spelling(trained, plm):
    ran = plm("neighbours", trained, "hoarse")
    assert ran.code == 2
    assert "has no vector for 'hoarse'. Did you mean 'horse'?" in ran.err


def test_options_that_skipgram_would_ignore_are_refused(corpus, tmp_path, plm):
    for option in (["--minutes", "1"], ["--steps", "5"], ["--extend"], ["--set", "schedule.batch=2"]):
        ran = plm("pretrain", "skipgram", corpus, "--out", tmp_path / "run", *option)
        assert ran.code == 2 and not (tmp_path / "run").exists()


def test_too_little_text_is_refused(tmp_path, plm):
    (tmp_path / "short.txt").write_text("one two three\n")
    ran = plm("pretrain", "skipgram", tmp_path / "short.txt", "--out", tmp_path / "run")
    assert ran.code == 2 and "skipgram.min_count=1" in ran.err
    assert not (tmp_path / "run").exists()


def test_a_verb_that_needs_a_network_says_what_reads_word_vectors(trained, plm):
    ran = plm("fill", trained, "a [MASK]")
    assert ran.code == 2 and "static word vectors" in ran.err


def test_vectors_are_exported_as_text_and_imported_as_a_run(trained, plm, tmp_path):
    assert plm("export", trained, tmp_path / "text", "--format", "word2vec").code == 0
    assert plm("import", tmp_path / "text" / "vectors.txt", "--out", tmp_path / "again").code == 0
    first, second = load_vectors(trained), load_vectors(tmp_path / "again")
    assert first.words == second.words and (first.vectors == second.vectors).all()
    assert (tmp_path / "again" / "model.safetensors").is_file()
    assert plm("doctor", "--verify", tmp_path / "again").code == 0


def test_word_vectors_and_networks_have_formats_of_their_own(trained, pretrained, plm, tmp_path):
    ran = plm("export", trained, tmp_path / "a")
    assert ran.code == 2 and "--format word2vec" in ran.err
    ran = plm("export", pretrained, tmp_path / "b", "--format", "word2vec")
    assert ran.code == 2 and "is not a folder of word vectors" in ran.err
    ran = plm("import", trained, "--format", "word2vec", "--out", tmp_path / "c")
    assert ran.code == 2 and "is not a text file" in ran.err
    assert not list(tmp_path.iterdir())


def test_a_text_is_embedded_as_the_mean_of_its_known_words(trained, plm):
    vectors = load_vectors(trained)
    expected = (vectors.vector("cat") + vectors.vector("runs")) / 2
    sentence = plm("embed", trained, "Cat zzz runs", "--json").json
    assert np.allclose(sentence["vectors"][0], expected, atol=1e-6)
    tokens = plm("embed", trained, "Cat zzz runs", "--level", "token", "--json").json
    assert tokens["names"] == [["cat", "runs"]] and tokens["offsets"] == [[[0, 3], [8, 12]]]
    assert np.allclose(tokens["vectors"][0], [vectors.vector("cat"), vectors.vector("runs")])


def test_skipgram_is_listed_with_the_recipes_and_shows_its_settings(plm):
    assert "static vectors" in next(line for line in plm("recipes").out.splitlines() if "skipgram" in line)
    shown = plm("recipes", "skipgram").out
    assert "skipgram.negatives=5" in shown and "no layers, no direction" in shown
