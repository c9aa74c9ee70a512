"""Long candidates of a ranking, and long texts to match: each in windows of its own."""

import json

import numpy as np
import pytest
import torch

import plmkit
from plmkit.data.samples import Place
from plmkit.errors import SettingError
from plmkit.tasks.batches import LabelledExamples
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.kinds.match import Match
from plmkit.tasks.kinds.rank import Rank
from plmkit.tasks.split_texts import SplitExample
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.tokenizers.wordpiece import WordPiece


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """Every letter is a token."""
    return WordPiece(size=70).train(["a b c d e f g h i j u v w x y z"] * 9)


def words_of(letters: Tokenizer, example: Example) -> list[str]:
    return [" ".join(letters.vocabulary.names(framed.tokens)) for framed in example.inputs]


QUERY = Row(text="x y", choices=("a", "a b c d e f g", "h i"), label=(0.0, 1.0, 0.0), line=1)
RANKED = [
    "[CLS] x y [SEP] a [SEP]",
    "[CLS] x y [SEP] a b c d [SEP]", "[CLS] x y [SEP] c d e f [SEP]", "[CLS] x y [SEP] d e f g [SEP]",
    "[CLS] x y [SEP] h i [SEP]",
]  # fmt: skip


def test_a_long_candidate_is_read_in_windows_and_the_others_once(letters):
    (made,) = Rank(long="windows").frame([QUERY], letters, 9)
    assert (words_of(letters, made), made.counts, made.windows, made.cut) == (RANKED, (1, 3, 1), 5, 0)
    (cut,) = Rank().frame([QUERY], letters, 9)
    assert (words_of(letters, cut), cut.cut) == ([RANKED[0], RANKED[1], RANKED[4]], 3)
    (short,) = Rank(long="windows").frame([QUERY], letters, 20)
    assert not isinstance(short, SplitExample)


@pytest.mark.parametrize(("long", "score"), [("windows", 3.0), ("windows_max", 6.0)])
def test_the_score_of_a_candidate_is_the_mean_or_the_maximum_over_its_windows(long, score, letters):
    task = Rank(long=long)
    (made,) = task.frame([QUERY], letters, 9)
    (found,) = task.decide(torch.tensor([[1.0], [1.0], [2.0], [6.0], [4.0]]), [made])
    assert found.scores == (1.0, score, 4.0)
    assert found.ranks[1] == (1 if score > 4 else 2)


def test_each_epoch_trains_on_one_window_of_each_text_drawn_by_its_seed(letters):
    for task, rows, name in (
        (Rank(long="windows", candidates=3), [QUERY], RANKED[1:4]),
        (Match(long="windows"), [Row(text="x", other="a b c d e f g h i", label=1.0, line=1)], None),
    ):
        examples = task.frame(rows, letters, 9)
        seen = set()
        for epoch in range(12):
            (one,) = task.for_epoch(examples, 0, epoch)
            (again,) = task.for_epoch(examples, 0, epoch)
            assert words_of(letters, one) == words_of(letters, again)
            assert len(one.inputs) == (3 if task.kind == "rank" else 2)
            seen |= {*words_of(letters, one)} - {RANKED[0], RANKED[4], "[CLS] x [SEP]"}
        assert seen == {*(name or words_of(letters, examples[0])[1:])}
        batch, _ = LabelledExamples(task, examples, letters.vocabulary, seed=0).next(Place(), 8, 9)
        assert len(batch.source.tokens) == len(one.inputs)


def test_the_vector_of_a_long_text_is_the_mean_of_those_of_its_windows(letters):
    task = Match(long="windows", form="graded")
    (made,) = task.frame([Row(text="x", other="a b c d e f g h i j", label=1.0, line=1)], letters, 9)
    assert made.counts == (1, 2)
    (found,) = task.decide(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), [made])
    assert found.cosine == pytest.approx(0.5**0.5)
    assert found.vectors[1].tolist() == pytest.approx([0.5**0.5, 0.5**0.5])


def test_equal_texts_are_no_negatives_whichever_windows_are_read(letters):
    task = Match(long="windows", loss="negatives", form="pairs")
    long = "a b c d e f g h i j u v"
    rows = [Row(text=long, other="x", label=1.0, line=1), Row(text=long, other="y", label=1.0, line=2)]
    shown = task.for_epoch(task.frame(rows, letters, 9), 0, 0)
    first, second = task.labels(shown, letters.vocabulary, 9).tolist()
    assert (first[0] == second[0], first[1] == second[1]) == (True, False)


def test_a_maximum_over_vectors_is_refused():
    with pytest.raises(SettingError, match=r"one vector of the windows of a text, their mean: task\.long takes cut or"):
        Match(long="windows_max")


def test_embed_and_search_read_the_windows_that_matching_was_trained_on(plm, pretrained, tmp_path):
    end = " ".join(["it rains"] * 40) + " the dog sees birds"
    rows = [{"text_a": f"a cat {n}", "text_b": end if n % 2 else f"the cat {n}", "label": n % 3} for n in range(24)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = plm(
        "finetune", pretrained, "--task", "match", "--train", tmp_path / "train.jsonl", "--out", tmp_path / "out",
        "--epochs", 1, "--set", "task.long=windows", "--set", "task.length=32", "--set", "run.threads=1",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "are read in windows that overlap" in ran.out + ran.err
    model = plmkit.load(tmp_path / "out", device="cpu")
    first, second, cut = model.embed(["a cat 1", end, " ".join(["it rains"] * 40)])
    assert np.linalg.norm(second) == pytest.approx(1.0, abs=1e-5)
    assert abs(second - cut).max() > 1e-4  # what comes after the first 32 tokens counts
    (predicted,) = model.predict([("a cat 1", end)])
    assert predicted.cosine == pytest.approx(float(first @ second), abs=1e-5)
