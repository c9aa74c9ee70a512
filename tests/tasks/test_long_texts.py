"""Rows longer than the model: cut, or in windows that overlap and whose answers become one."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import plmkit
from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import Batch, States
from plmkit.network import Network
from plmkit.tasks.batches import LabelledExamples, one_by_one, predictions_of
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.kinds.choose import Choose
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.kinds.multilabel import MultiLabel
from plmkit.tasks.kinds.pair import Pair
from plmkit.tasks.kinds.paraphrase import Paraphrase
from plmkit.tasks.kinds.regress import Regress
from plmkit.tasks.kinds.similarity import Similarity
from plmkit.tasks.sharing import passes_of
from plmkit.tasks.windows import spread, windows_needed
from plmkit.tokenizers.counted import SentenceWords
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.tokenizers.wordpiece import WordPiece


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """Every letter is a token."""
    return WordPiece(size=70).train(["a b c d e f g h i j u v w x y z"] * 9)


def words_of(letters: Tokenizer, example: Example) -> list[str]:
    return [" ".join(letters.vocabulary.names(framed.tokens)) for framed in example.inputs]


def test_windows_hold_a_text_evenly_and_overlap_by_half():
    assert [windows_needed(total, 8) for total in (1, 8, 9, 12, 13, 16, 17)] == [1, 1, 2, 2, 3, 3, 4]
    assert spread(8, 8, 1) == [(0, 8)]
    assert spread(9, 8, 2) == [(0, 8), (1, 9)]
    assert spread(16, 8, 3) == [(0, 8), (4, 12), (8, 16)]
    assert spread(5, 8, 2) == [(0, 5), (0, 5)]  # another version of the row needs two
    for total in range(1, 60):
        for room in range(1, 20):
            made = spread(total, room, windows_needed(total, room))
            assert (made[0][0], made[-1][1]) == (0, total)
            assert all(after[0] <= max(before[0] + 1, before[1] - room // 2) for before, after in pairwise(made))


def test_the_windows_of_a_text_are_framed_like_a_text(letters):
    text = "a b c d e f g h i j"
    (made,) = Classify(long="windows").frame([Row(text=text, line=1)], letters, 8)
    assert words_of(letters, made) == ["[CLS] a b c d e f [SEP]", "[CLS] c d e f g h [SEP]", "[CLS] e f g h i j [SEP]"]
    assert (made.windows, made.versions, made.cut) == (3, 1, 0)
    (cut,) = Classify().frame([Row(text=text, line=1)], letters, 8)
    assert (words_of(letters, cut), cut.cut) == (["[CLS] a b c d e f [SEP]"], 4)


def test_of_a_pair_the_longer_text_is_in_windows_and_the_other_in_each(letters):
    short, long = "x y", "a b c d e f g"
    (made,) = Pair(long="windows").frame([Row(text=short, other=long, line=1)], letters, 9)
    parts = ("a b c d", "c d e f", "d e f g")
    assert words_of(letters, made) == [f"[CLS] x y [SEP] {part} [SEP]" for part in parts]
    (made,) = Pair(long="windows").frame([Row(text=long, other=short, line=1)], letters, 9)
    assert words_of(letters, made)[-1] == "[CLS] d e f g [SEP] x y [SEP]"
    assert [framed.second for framed in made.inputs] == [6, 6, 6]


def test_two_long_texts_share_a_row_and_what_does_not_fit_of_the_shorter_is_counted(letters):
    (made,) = Pair(long="windows").frame([Row(text="u v w x y", other="a b c d e f", line=1)], letters, 9)
    assert all(words.startswith("[CLS] u v w [SEP] ") for words in words_of(letters, made))
    assert (made.cut, words_of(letters, made)[-1]) == (2, "[CLS] u v w [SEP] d e f [SEP]")


def test_both_orders_of_a_pair_have_the_same_windows_next_to_each_other(letters):
    for kind in (Paraphrase, Similarity):
        (made,) = kind(long="windows").frame([Row(text="x y", other="a b c d e f", line=1)], letters, 9)
        assert words_of(letters, made) == [
            "[CLS] x y [SEP] a b c d [SEP]", "[CLS] a b c d [SEP] x y [SEP]",
            "[CLS] x y [SEP] c d e f [SEP]", "[CLS] c d e f [SEP] x y [SEP]",
        ]  # fmt: skip
        assert (made.windows, made.versions) == (2, 2)
        assert words_of(letters, made.alone(1)) == words_of(letters, made)[2:]


def test_all_choices_of_a_row_have_as_many_windows_as_the_longest_needs(letters):
    row = Row(text="a b c d e f", choices=("x", "x y"), label="x", line=1)
    (made,) = Choose(long="windows").frame([row], letters, 9)
    assert (made.windows, made.versions) == (2, 2)
    assert words_of(letters, made) == [
        "[CLS] a b c d e [SEP] x [SEP]", "[CLS] a b c d [SEP] x y [SEP]",
        "[CLS] b c d e f [SEP] x [SEP]", "[CLS] c d e f [SEP] x y [SEP]",
    ]  # fmt: skip


def test_unknown_words_that_are_read_by_their_characters_stay_with_their_window():
    tokenizer = SentenceWords(size=20).train(["a b c d e"] * 9)
    assert tokenizer.vocabulary.spelled
    (made,) = Classify(long="windows").frame([Row(text="a Q b R c S", line=1)], tokenizer, 5)
    assert [framed.unknown for framed in made.inputs] == [("Q",), ("Q", "R"), ("R",), ("R", "S")]


# Answers


class Finder(nn.Module):
    """A network whose state of a row is 1 where it has the token, and -1 where not, and the number of its rows."""

    def __init__(self, token: int) -> None:
        super().__init__()
        self.token, self.rows = token, 0

    def forward(self, batch: Batch) -> States:
        self.rows += len(batch.source.tokens)
        found = (batch.source.tokens == self.token).any(1).float() * 2 - 1
        return States(hidden=batch.source.tokens[:, :, None].float(), pooled=torch.stack([-found, found], 1))


def answered(task: Task, rows: list[Row], letters) -> tuple[list, int]:
    """The predictions of a network that looks for `z`, and the number of rows that it has read."""
    vocabulary = letters.vocabulary
    head = task.head(Encoder(layers=1, heads=1, width=2, inner=2), 0.0)
    outputs = len(head.classify.weight)
    with torch.no_grad():
        head.classify.weight.copy_(torch.eye(2)[-outputs:])
        head.classify.bias.zero_()
    model = Finder(vocabulary.tokens.index("z"))
    network = Network(model, {task.name: head}, {task.name: 1.0}).eval()
    examples = task.frame(rows, letters, 8)
    return predictions_of(network, task, examples, vocabulary, torch.device("cpu")), model.rows


END = "a b c d e f g h i z"  # in three windows of six, the last of which has the word that decides


def test_what_decides_at_the_end_of_a_text_is_found_in_windows_and_cut_off_otherwise(letters):
    rows = [Row(text=END, line=1), Row(text="a b", line=2), Row(text="a z", line=3)]
    logits = {}
    for long in ("cut", "windows", "windows_max"):
        found, read = answered(Classify(classes=("no", "yes"), long=long), rows, letters)
        assert read == (3 if long == "cut" else 5)
        logits[long] = [round(np.log(one.probabilities["yes"] / one.probabilities["no"]), 4) for one in found]
    assert logits["cut"] == [-2, -2, 2]
    assert logits["windows"] == [pytest.approx(-2 / 3, abs=1e-3), -2, 2]  # the mean of -2, -2 and 2
    assert logits["windows_max"] == [0, -2, 2]  # the highest logit of each class


def test_numbers_labels_and_choices_of_windows_are_joined(letters):
    rows = [Row(text=END, line=1), Row(text="a z", line=2)]
    for long, wanted in (("cut", [-1, 1]), ("windows", [-1 / 3, 1]), ("windows_max", [1, 1])):
        found, _ = answered(Regress(long=long), rows, letters)
        assert [one.label for one in found] == pytest.approx(wanted)
        found, _ = answered(MultiLabel(classes=("no", "yes"), long=long), rows, letters)
        shares = [one.probabilities["yes"] for one in found]
        assert shares == pytest.approx(torch.tensor(wanted, dtype=torch.float).sigmoid().tolist())
    choices = [
        Row(text="a b c d e f g h", choices=("i", "z", "c"), line=1),
        Row(text="a", choices=("i", "z"), line=2),
    ]
    found, _ = answered(Choose(long="windows"), choices, letters)
    assert [one.label for one in found] == ["z", "z"]
    assert [len(one.probabilities) for one in found] == [3, 2]


def test_tasks_that_read_the_same_windows_share_them_and_one_that_cuts_rows_does_not(letters):
    rows = [Row(text=END, line=1), Row(text="a b", line=2), Row(text="a z", line=3)]
    mean, most, cut = (
        Classify(name=long, classes=("no", "yes"), long=long) for long in ("windows", "windows_max", "cut")
    )
    framed = {task.name: dict(enumerate(task.frame(rows, letters, 8))) for task in (mean, most, cut)}
    passes = passes_of([mean, cut, most], framed)
    assert [([task.name for task in one.tasks], one.steps) for one in passes] == [
        (["windows", "windows_max"], 5), (["cut"], 3)
    ]  # fmt: skip


@pytest.mark.parametrize("long", ["windows", "windows_max"])
def test_short_texts_are_answered_as_if_there_were_no_windows(long, finetuned, rows_file, tmp_path):
    model = plmkit.load(finetuned, device="cpu")
    (task,) = model.tasks.values()
    texts = [line.split("\t")[0] for line in rows_file.read_text().splitlines()[1:]]
    before = model.predict(texts)
    model.tasks[task.name] = replace(task, long=long)
    assert model.predict(texts) == before


def test_every_window_is_trained_on_with_the_label_of_its_row(letters):
    rows = [Row(text=END, label="x", line=1), Row(text="a b", label="y", line=2)]
    task = Classify(classes=("x", "y"), long="windows", length=8)
    alone = one_by_one(task, task.frame(rows, letters, 8))
    assert [(example.label, example.windows, len(example.inputs)) for example in alone] == [(0, 1, 1)] * 3 + [(1, 1, 1)]
    source = LabelledExamples(task, alone, letters.vocabulary, seed=0)
    assert len(source) == 4


def test_a_task_with_long_texts_is_trained_evaluated_and_predicts(pretrained, plm, tmp_path):
    """The last word decides, and a row holds the first fifteen: whether it is read can be told from the scores."""
    filler = "the old man sees a long road and the sea and the moon and the garden and a house and"
    rows = [{"text": f"{filler} {word} .", "label": label} for word, label in (("king", "x"), ("bird", "y"))] * 16
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = {}
    for long in ("cut", "windows"):
        ran = plm("finetune", pretrained, "--task", "classify", "--train", tmp_path / "rows.jsonl", "--dev",
                  tmp_path / "rows.jsonl", "--out", tmp_path / long, "--epochs", 12, "--set", "task.batch=8", "--set",
                  "task.learning_rate=1e-3", "--set", "task.length=16", "--set", f"task.long={long}", "--set",
                  "task.ngrams=false", "--set", "run.threads=1")  # fmt: skip
        assert ran.code == 0, ran.err
        assert ("32 of 32 rows are longer than 16 tokens and are read in windows" in ran.err) == (long == "windows")
        ran = plm("evaluate", tmp_path / long, tmp_path / "rows.jsonl", "--json")
        scores[long] = ran.json["accuracy"]
        assert ("truncated" in ran.err or "longer than" in ran.err) == (long == "cut")
    assert scores == {"cut": 0.5, "windows": 1.0}
