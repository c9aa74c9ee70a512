"""Nearest words, and what sentences do to them: senses of one word are apart for a contextual model only."""

import random
from dataclasses import replace

import numpy as np
import pytest

from plmkit.catalogue import find
from plmkit.data.corpus import open_corpus
from plmkit.data.reading.words import Sentence
from plmkit.insight.neighbours import contextual_neighbours, has_text, own_corpus, place_of, sample_of, sentence_with
from plmkit.insight.word_states import owners_of, word_states
from plmkit.training.run_folder import RunFolder
from plmkit.vectors.settings import SkipGram
from plmkit.vectors.training import SkipGramRequest, train_vectors
from plmkit.vectors.word_vectors import import_vectors, load_vectors, unit

RIVER = [f"the {a} {b} swims near the bank of the river" for a in ("old", "young", "grey") for b in ("fish", "duck")]
MONEY = [f"my {a} {b} keeps cash in the bank for a loan" for a in ("rich", "poor", "busy") for b in ("boss", "clerk")]


@pytest.fixture(scope="module")
def bank_corpus(made):
    rng = random.Random(0)
    path = made / "bank.txt"
    path.write_text("\n\n".join(rng.choices(RIVER + MONEY, k=200)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def contextual(made, bank_corpus):
    from plmkit.config.machine import settle
    from plmkit.inference.loading import load
    from plmkit.terminal.screen import Screen
    from plmkit.training.loop import Budget
    from plmkit.training.pretrain import pretrain
    from plmkit.training.request import PretrainRequest

    sets = (
        "sentence_task=none", "tokenizer.size=120", "architecture.layers=2", "architecture.width=32",
        "architecture.heads=2",
        "architecture.inner=64", "architecture.max_length=24", "stages=[[1.0, 24]]", "schedule.batch=16",
        "schedule.learning_rate=5e-3", "run.threads=1",
    )  # fmt: skip
    out = made / "bank"
    request = PretrainRequest(
        settings=settle(find("bert-tiny"), sets), corpora=(str(bank_corpus),), out=out, budget=Budget(steps=80)
    )
    pretrain(request, Screen(quiet=True))
    return load(out, device="cpu")


def states_of_bank(model, texts):
    places = [text.index("bank") for text in texts]
    sentences = [
        Sentence(text=text, spans=np.array([[place, place + 4]])) for text, place in zip(texts, places, strict=True)
    ]
    return unit(word_states(model, sentences, layers=[2]).layers[0])


def test_contextual_vectors_of_one_word_are_nearer_within_a_sense_than_across(contextual):
    river, money = states_of_bank(contextual, RIVER), states_of_bank(contextual, MONEY)
    within = min(float((river @ river.T).min()), float((money @ money.T).min()))
    assert float((river @ money.T).max()) < within


def test_a_static_vector_is_the_same_in_both_senses(bank_corpus, tmp_path):
    request = SkipGramRequest(corpora=(str(bank_corpus),), out=tmp_path / "s", settings=SkipGram(width=8, min_count=1))
    from plmkit.terminal.screen import Screen

    train_vectors(request, Screen(quiet=True))
    vectors = load_vectors(tmp_path / "s")
    first, second = (
        vectors.embed(text, level="token")[[word for word, _ in vectors.known(text)].index("bank")]
        for text in (RIVER[0], MONEY[0])
    )
    assert float(unit(first) @ unit(second)) == pytest.approx(1)


def test_the_nearest_occurrence_of_the_word_has_its_sense(contextual, bank_corpus):
    sample = sample_of(open_corpus([bank_corpus]))
    for context, other in ((RIVER[0], "of the river"), (MONEY[0], "for a loan")):
        found = contextual_neighbours(contextual, "bank", context, sample, top=5)
        assert found[0].word == "bank" and other in found[0].text


def test_models_stand_side_by_side_in_one_table(contextual, plm, tmp_path):
    (tmp_path / "v.txt").write_text("bank 1 0\nshore 1 0.1\nloan 0.5 1\n")
    ran = plm(
        "neighbours", tmp_path / "v.txt", contextual.folder, "bank", "--context", RIVER[0], "--top", "2", "--json"
    )
    assert [one["word"] for one in ran.json["models"][0]["neighbours"]] == ["shore", "loan"]
    assert len(ran.json["models"][1]["neighbours"]) == 2
    ran = plm("neighbours", tmp_path / "v.txt", contextual.folder, "bank", "--context", RIVER[0], "--top", "2")
    assert ran.code == 0 and "shore" in ran.out and "bank" in ran.out


def test_a_word_that_is_not_in_the_sentence_is_refused(contextual, plm):
    ran = plm("neighbours", contextual.folder, "bank", "--context", "they bnak there")
    assert ran.code == 2
    assert "'bank' is not in the sentence 'they bnak there'. Did you mean 'bnak'?" in ran.err


def test_imported_vectors_are_no_corpus(contextual, bank_corpus, tmp_path):
    (tmp_path / "v.txt").write_text("bank 1 0\nshore 1 0.1\n")
    import_vectors(tmp_path / "v.txt", tmp_path / "imported")
    corpus = own_corpus([tmp_path / "imported", contextual.folder])
    assert [source.path for source in corpus.sources] == [bank_corpus]


def test_pairs_and_captions_are_no_corpus_and_the_column_of_a_table_is_that_of_the_run(contextual, tmp_path):
    record = RunFolder(contextual.folder).record
    (tmp_path / "t.tsv").write_text("n\tsaid\n1\tthe bank of the river\n")
    table = replace(record, corpora=(str(tmp_path / "t.tsv"),), run=replace(record.run, column="said"))
    (tmp_path / "run").mkdir()
    RunFolder(tmp_path / "run").write(table)
    assert [one.text for one in sample_of(own_corpus([tmp_path / "run"]))] == ["the bank of the river"]
    for name in ("transformer-tiny", "caption-tiny"):
        assert not has_text(replace(record, recipe=find(name)))


def test_a_sentence_is_refused_if_all_vectors_are_static(plm, tmp_path):
    (tmp_path / "v.txt").write_text("bank 1 0\nshore 1 0.1\n")
    ran = plm("neighbours", tmp_path / "v.txt", "bank", "--context", "the bank")
    assert ran.code == 2 and "--context" in ran.err and "contextual models" in ran.err


def test_a_word_is_not_found_inside_a_longer_one():
    assert place_of("bank", "the banker at the bank") == 18
    assert place_of("Bank", "a bank") == 2
    assert place_of("bank", "bankers") is None
    assert place_of("bank", "İİ Bank") == 3  # two letters that are longer in lower case
    assert place_of("银行", "中国银行在这里") == 2
    assert sentence_with("银行", None).words == ["银行"]


def test_a_piece_belongs_to_the_word_that_most_of_its_characters_are_in():
    sentence = Sentence(text="un able bodied", spans=np.array([[0, 2], [3, 7]]))
    assert owners_of(np.array([[0, 2], [2, 5], [5, 7], [8, 14]]), sentence).tolist() == [0, 1, 1, -1]


def test_the_state_of_a_word_is_the_mean_of_its_pieces(contextual):
    text = "riverr"
    pieces = contextual.embed(text, level="token")
    assert len(pieces) == 2
    own = word_states(contextual, [Sentence(text=text, spans=np.array([[0, len(text)]]))], layers=[2]).layers[0][0]
    assert np.allclose(own, pieces.mean(0), atol=1e-5)
