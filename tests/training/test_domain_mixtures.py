"""Several corpora in one run: their shares of what is read, and the loss on the held-out text of each."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stores import store_of

import plmkit
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.data.mixture import balance, tokens_by_source
from plmkit.data.samples import split
from plmkit.preparation.prepare import prepare
from plmkit.terminal.screen import Screen

TINY = (
    "architecture.layers=1", "architecture.width=32", "tokenizer.size=300", "stages=[[1.0, 32]]", "schedule.batch=8",
    "run.threads=1", "run.valid_share=0.05",
)  # fmt: skip
WORDS = {"sea.txt": "ship wave salt tide sail".split(), "wood.txt": "leaf tree moss bark fern".split()}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files without a common word: long documents, and twice as many short ones."""
    folder = tmp_path_factory.mktemp("two corpora")
    rng = random.Random(0)
    for (name, words), (documents, sentences) in zip(WORDS.items(), ((60, 30), (120, 4)), strict=True):
        texts = [
            "\n".join(" ".join(rng.choices(words, k=rng.randint(4, 9))) + "." for _ in range(sentences))
            for _ in range(documents)
        ]
        (folder / name).write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return [folder / name for name in WORDS]


def material(recipe: str, corpora: list[Path], *settings: str):
    known = {f"architecture.{name}" for name in ("layers", "width") if hasattr(find(recipe).architecture, name)}
    tiny = [one for one in TINY if not one.startswith("architecture.") or one.split("=")[0] in known]
    tiny = [one for one in tiny if not one.startswith("stages") or len(find(recipe).stages) == 1]
    return prepare(settle(find(recipe), [*tiny, *settings]), list(map(str, corpora)), None, 0, Screen(quiet=True))


@pytest.mark.parametrize(
    "recipe", ["bert-tiny", "roberta-tiny", "spanbert-mini", "albert-tiny", "electra-tiny", "ernie-mini", "xlnet-tiny",
               "gpt2-tiny", "lstm-tiny", "transformer-xl-tiny"]
)  # fmt: skip
def test_the_tokens_of_an_epoch_come_from_the_corpora_in_the_shares_of_their_weights(recipe, corpora):
    """Tokens are counted in the batches themselves, by the words that only one of the corpora has."""
    found = material(recipe, corpora, "run.weights=[1, 3]")
    tokenizer, samples = found.tokenizer, found.samples
    owners = np.full(len(tokenizer.vocabulary), -1)
    own = [{token for word in words for text in (word, f" {word}") for token in tokenizer.encode(text)}
           for words in WORDS.values()]  # fmt: skip
    for source in range(2):
        owners[list(own[source] - own[1 - source])] = source
    counts = np.zeros(2)
    for epoch in range(2):
        _, order = samples.plan(epoch, 32, 8)
        for at in range(0, len(order) - 7, 8):
            rows = samples.rows(epoch, at, 8, 32)
            shown = np.where(rows.targets >= 0, rows.targets, rows.tokens) if rows.targets is not None else rows.tokens
            for source in range(2):
                counts[source] += (owners[shown] == source).sum()
    assert counts.sum() > 5000
    assert counts[1] / counts.sum() == pytest.approx(0.75, abs=0.01)


def test_every_task_of_ernie_2_has_the_shares_and_a_table_of_queries_takes_none_of_them(corpora, tmp_path):
    table = tmp_path / "clicks.tsv"
    rows = [f"ship {number}\twave {number}\t{number % 2}" for number in range(20)]
    table.write_text("\n".join(["query\ttitle\tlabel", *rows]) + "\n", encoding="utf-8")
    paths = [tmp_path / name for name in WORDS]
    for path, corpus in zip(paths, corpora, strict=True):
        text = corpus.read_text(encoding="utf-8")
        path.write_text(text.replace(" tide ", ", but ").replace(" bark ", ", but "), encoding="utf-8")
    units = ("segmenter=none", 'unit_masking.levels=["word"]', "unit_masking.shares=[1.0]")
    found = material("ernie2-tiny", [*paths, table], "run.weights=[1, 3, 1]", "without=capitals",
                     *(f"corruption.{one}" for one in units))  # fmt: skip
    assert list(found.streams) == ["knowledge", "document", "order", "distance", "discourse", "relevance"]
    for name, samples in found.streams.items():
        plan, order = samples.plan(0, 32)
        counts = tokens_by_source(plan, samples.store, 3)[order].sum(axis=0)
        expected = [0, 0, 1] if name == "relevance" else [0.25, 0.75, 0]
        assert counts / counts.sum() == pytest.approx(expected, abs=0.01), name


def test_rows_too_few_for_the_shares_are_kept():
    """Where every choice of rows is far from the shares, an epoch still has rows of every corpus."""
    store = replace(store_of([10], [10]), sources=np.array([0, 1]))
    plan = SingleSegment().plan(store, np.arange(2), 16, np.random.default_rng(0))
    assert len(balance(plan, store, [1, 1000], np.random.default_rng(0))) == 2


def test_every_corpus_has_a_held_out_share_of_its_own(corpora):
    found = material("bert-tiny", corpora)
    sizes, sources = found.store.document_tokens(), found.store.sources
    for source in range(2):
        held = found.valid_documents[sources[found.valid_documents] == source]
        share = sizes[held].sum() / sizes[sources == source].sum()
        assert 0.05 <= share <= 0.05 + sizes[sources == source].max() / sizes[sources == source].sum()
        assert not set(held.tolist()) & set(found.samples.documents.tolist())
    batches = found.corpus_batches(find("bert-tiny"), 0)
    assert list(batches) == ["sea.txt", "wood.txt"]
    own = {name: set(found.tokenizer.encode(" ".join(words))) for name, words in WORDS.items()}
    seen = {
        name: {int(t) for one in parts["text"] for t in one.source.tokens.flatten()} for name, parts in batches.items()
    }
    assert own["sea.txt"] <= seen["sea.txt"] and own["wood.txt"] <= seen["wood.txt"]
    assert sum(len(parts["text"][0].source.tokens) for parts in batches.values()) > 2


def test_one_corpus_is_split_as_ever(corpora):
    alone = material("bert-tiny", corpora[:1])
    assert alone.corpus_batches(find("bert-tiny"), 0) == {}
    kept = split(alone.store, seed=0, share=0.05)
    assert np.array_equal(kept.valid, alone.valid_documents)


def pretrain(plm, corpora, out, *options):
    sets = [part for setting in TINY for part in ("--set", setting)]
    return plm("pretrain", "bert-tiny", *corpora, "--out", out, "--steps", 40, *sets, *options)


def test_losses_by_corpus_are_shown_logged_and_kept_and_the_rarer_corpus_is_learned_less(plm, corpora, tmp_path):
    ran = pretrain(plm, corpora, tmp_path / "run", "--weights", "12,1", "--set", "run.validations=2", "--json")
    assert ran.code == 0, ran.err
    assert "Share of each corpus in the tokens of every epoch: sea.txt 92." in ran.err.replace("\n", " ")
    assert "Held-out losses at step 20: sea.txt: masked_lm " in ran.err.replace("\n", " ")
    names = [f"corpora/{name}/masked_lm" for name in WORDS]
    sea, wood = (ran.json[name] for name in names)
    assert sea < wood - 0.05
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["result"][names[0]], record["run"]["weights"]) == (sea, [12.0, 1.0])
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if names[0] in line] == [20, 40]
    assert all("valid/masked_lm" in line for line in lines if names[1] in line)
    events = b"".join(path.read_bytes() for path in (tmp_path / "run" / "tensorboard").iterdir())
    assert all(name.encode() in events for name in names)


def test_the_table_at_the_end_has_a_row_per_corpus(plm, corpora, tmp_path):
    ran = pretrain(plm, corpora, tmp_path / "run")
    rows = [line.split() for line in ran.out.splitlines()]
    assert [row[0] for row in rows if row and row[0] in WORDS] == list(WORDS)
    model = plmkit.pretrain("bert-tiny", corpora, tmp_path / "weighted", steps=2, weights=[2, 1], quiet=True,
                            settings=dict(one.split("=", 1) for one in TINY))  # fmt: skip
    assert json.loads((model.folder / "run.json").read_text())["run"]["weights"] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weights", "1,2,3"), "There are 3 sampling weights (--weights, run.weights) for 2 corpora"),
        (("--weights", "2"), "There are 1 sampling weights"),
        (("--weights", "2,x"), "--weights takes a number per corpus, such as 2,1; found '2,x'"),
        (("--weights", "2,0"), "run.weights must all be above 0"),
        (("--weights", "nan,1"), "run.weights must all be above 0"),
        (("--weights", "2,1", "--set", "run.weights=[1, 1]"), "--weights"),
    ],
)
def test_weights_that_do_not_fit_are_refused(plm, corpora, tmp_path, options, message):
    ran = pretrain(plm, corpora, tmp_path / "run", *options)
    assert (ran.code, message in ran.err.replace("\n", " ")) == (2, True), ran.err
    assert len(ran.err.splitlines()) <= 6 and not (tmp_path / "run").exists()


def test_files_of_one_document_each_are_held_out_together(tmp_path):
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text("the ship sails. the wave is salt. a tide.\n" * 3, encoding="utf-8")
    found = material("bert-tiny", sorted(tmp_path.glob("*.txt")))
    assert len(found.store.documents) - 1 == 12 and len(found.valid_documents) == 1


def test_corpora_of_one_file_name_are_told_apart_by_their_folders(corpora, tmp_path):
    for folder, corpus in zip("ab", corpora, strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.txt").write_text(corpus.read_text(encoding="utf-8"), encoding="utf-8")
    paths = [tmp_path / folder / "train.txt" for folder in "ab"]
    assert list(material("bert-tiny", paths).corpus_batches(find("bert-tiny"), 0)) == [str(path) for path in paths]


def test_doctor_takes_the_weights_that_pretrain_takes(plm, corpora):
    ran = plm("doctor", *corpora, "--recipe", "bert-tiny", "--weights", "1,3", "--json")
    assert ran.code == 0, ran.err
    assert sorted(ran.json["mixture"].values()) == pytest.approx([0.25, 0.75], abs=0.01)
    both = plm("doctor", *corpora, "--weights", "1,3", "--set", "run.weights=[1, 3]")
    assert (both.code, "--weights" in both.err) == (2, True)
