"""Ranking: lists of candidates, their losses and scores, and tables that come back in their own order."""

import json
from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import plmkit
from plmkit.data.batch import Batch, Side, States
from plmkit.data.reading.columns import Search, ignore
from plmkit.data.reading.whole import read_table
from plmkit.errors import SettingError
from plmkit.inference.loading import read_parts
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.framing import Framed
from plmkit.tasks.kinds.rank import Rank
from plmkit.tasks.lexical import BM25, words_in
from plmkit.tasks.rank_head import rank_head
from plmkit.tasks.rank_scores import random_average_precision, random_reciprocal_rank, rank_scores

ROWS = """label\tqid\ttext_a\ttext_b
0\t7\twho sees the moon?\tthe dog hears a song.
1\tb\twhat is red?\tthe car is red.
1\t7\twho sees the moon?\tthe cat sees the moon.
0\tb\twhat is red?\tthe old man paints.
0\t7\twho sees the moon?\tthe king sings.
"""


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def arrays(*rows) -> list[np.ndarray]:
    return [np.array(row, dtype=float) for row in rows]


# scores


def test_scores_are_those_computed_by_hand():
    found = rank_scores(arrays([3, 2, 1], [0.1, 0.9]), arrays([0, 1, 1], [0, 1]))
    assert found["map"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    assert found["mrr"] == pytest.approx((1 / 2 + 1) / 2)
    assert (found["hits_at_1"], found["hits_at_3"], found["queries"]) == (0.5, 1.0, 2)
    second, third = 1 / np.log2(3), 1 / np.log2(4)
    assert found["ndcg_at_10"] == pytest.approx(((second + third) / (1 + second) + 1) / 2)


def test_a_query_without_a_relevant_candidate_is_counted_and_left_out():
    found = rank_scores(arrays([1, 2], [5, 4, 3]), arrays([0, 1], [0, 0, 0]))
    assert (found["map"], found["queries"], found["without_relevant"]) == (1.0, 1, 1)


def test_higher_grades_belong_further_up():
    right, wrong = (rank_scores(arrays(scores), arrays([0, 1, 3])) for scores in ([0, 1, 2], [0, 2, 1]))
    assert right["ndcg_at_10"] == 1.0 > wrong["ndcg_at_10"]
    assert right["map"] == wrong["map"] == 1.0


def test_equal_scores_are_worth_no_more_than_the_worst_order():
    found = rank_scores(arrays([1, 1, 1, 1]), arrays([1, 0, 0, 0]))
    assert (found["mrr"], found["hits_at_1"], found["map"]) == (0.25, 0.0, 0.25)


@pytest.mark.parametrize(("relevant", "candidates"), [(1, 1), (1, 4), (2, 5), (3, 3)])
def test_what_a_random_order_reaches_is_the_mean_over_all_orders(relevant, candidates):
    labels = [1] * relevant + [0] * (candidates - relevant)
    every = [rank_scores(arrays(range(candidates, 0, -1)), arrays(order)) for order in set(permutations(labels))]
    assert random_average_precision(relevant, candidates) == pytest.approx(np.mean([one["map"] for one in every]))
    assert random_reciprocal_rank(relevant, candidates) == pytest.approx(np.mean([one["mrr"] for one in every]))


def test_bm25_prefers_rare_shared_words_and_short_texts():
    texts = ["the red car", "the cat", "the the the house by the sea", "红色的车"]
    found = BM25(texts)
    scores = found.scores("the red moon", texts)
    assert list(np.argsort(-scores)) == [0, 2, 1, 3]
    assert scores[3] == 0
    assert found.rarity("red") > found.rarity("the") > 0
    # one text of four has it; lengths 3, and 4 on average
    length = 1 - 0.75 + 0.75 * 3 / 4
    assert found.scores("red", texts)[0] == pytest.approx(np.log(1 + 3.5 / 1.5) * 2.2 / (1 + 1.2 * length))
    assert words_in("The cat, 红车!") == ["the", "cat", "红", "车"]


# the lists of an epoch


def example(*relevance: float) -> Example:
    inputs = tuple(Framed(tokens=np.array([number]), second=1, cut=0) for number in range(len(relevance)))
    choices = tuple(map(str, range(len(relevance))))
    return Example(row=Row(text="q", choices=choices, line=1), inputs=inputs, label=np.array(relevance))


def numbers(examples: list[Example]) -> list[list[int]]:
    return [[int(framed.tokens[0]) for framed in one.inputs] for one in examples]


@pytest.mark.parametrize(
    ("relevant", "others", "lists"), [(1, 3, 1), (2, 20, 7), (5, 3, 5), (3, 6, 3), (1, 1, 1), (0, 4, 0), (2, 0, 0)]
)
def test_each_list_has_one_relevant_candidate_and_every_candidate_is_in_a_list(relevant, others, lists):
    whole = example(*[1] * relevant, *[0] * others)
    made = Rank(candidates=4).for_epoch([whole], seed=3, epoch=1)
    assert len(made) == lists
    assert all(sum(one.label > 0) == 1 and len(set(row)) == len(row) <= 4
               for one, row in zip(made, numbers(made), strict=True))  # fmt: skip
    seen = Counter(number for row in numbers(made) for number in row)
    assert set(seen) == (set(range(relevant + others)) if lists else set())
    assert all(row[0] < relevant for row in numbers(made))


def test_lists_are_a_pure_function_of_seed_and_epoch():
    whole, rank = [example(1, *[0] * 20), example(1, 0, 0)], Rank(candidates=4)
    first, again, later, other = (
        numbers(rank.for_epoch(whole, *key)) for key in ((0, 0), (0, 0), (0, 1), (1, 0))
    )  # fmt: skip
    assert first == again
    assert first != later != other != first
    assert len(first) == len(later) == len(other)


def test_with_sigmoid_lists_may_lack_a_sort():
    made = Rank(loss="sigmoid", candidates=4).for_epoch([example(0, 0, 0, 0, 0), example(1, 1)], seed=0, epoch=0)
    assert sorted(map(len, numbers(made))) == [1, 2, 4]


def test_a_step_has_as_many_candidates_as_the_batch_has_rows():
    assert [Rank().examples_per_step(batch) for batch in (32, 16, 4)] == [4, 2, 1]


# losses


def head_and_scores(loss: str, counts: list[int], relevance: list[list[float]]):
    torch.manual_seed(0)
    head = rank_head(loss, {"width": 4, "dropout": 0.0}).eval()
    rows = sum(counts)
    side = Side(tokens=torch.zeros(rows, 1, dtype=torch.long), visible=torch.ones(rows, 1, dtype=torch.bool))
    own = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    states = States(hidden=torch.randn(rows, 1, 4), pooled=torch.randn(rows, 4))
    batch = Batch(source=side, alternatives=own, labels=torch.tensor(relevance))
    return head(states, batch), head.classify(states.pooled).squeeze(1), head.scored(batch)


def test_the_softmax_loss_is_the_cross_entropy_of_the_relevant_candidate():
    loss, scores, scored = head_and_scores("softmax", [3, 2], [[0, 2, 0], [1, 0, 0]])
    wanted = F.cross_entropy(scores[:3], torch.tensor(1)) + F.cross_entropy(scores[3:], torch.tensor(0))
    torch.testing.assert_close(loss, wanted / 2)
    assert scored == 2


def test_several_relevant_candidates_share_the_target():
    loss, scores, _ = head_and_scores("softmax", [3, 2], [[1, 1, 0], [1, 0, 0]])
    logs = scores[:3].log_softmax(0)
    wanted = -(logs[0] + logs[1]) / 2 + F.cross_entropy(scores[3:], torch.tensor(0))
    torch.testing.assert_close(loss, wanted / 2)


def test_the_sigmoid_loss_is_the_mean_over_all_candidates():
    loss, scores, scored = head_and_scores("sigmoid", [3, 2], [[0, 2, 0], [1, 0, 0]])
    torch.testing.assert_close(loss, F.binary_cross_entropy_with_logits(scores, torch.tensor([0, 1.0, 0, 1, 0])))
    assert scored == 5


def test_training_lowers_the_loss_over_candidates_and_puts_the_relevant_one_first():
    torch.manual_seed(0)
    head = rank_head("softmax", {"width": 4, "dropout": 0.0})
    side = Side(tokens=torch.zeros(6, 1, dtype=torch.long), visible=torch.ones(6, 1, dtype=torch.bool))
    states = States(hidden=torch.randn(6, 1, 4), pooled=torch.randn(6, 4))
    batch = Batch(
        source=side, alternatives=torch.tensor([0, 0, 0, 1, 1, 1]), labels=torch.tensor([[0.0, 1, 0], [0, 0, 1]])
    )
    optimizer, losses = torch.optim.SGD(head.parameters(), lr=0.5), []
    for _ in range(60):
        loss = head(states, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    scores = head.answers(states, batch).detach()
    assert scores.argmax(1).tolist() == [1, 2]


# tables


def test_rows_of_one_qid_are_one_query_wherever_they_stand(tmp_path):
    rows, columns = Rank().read(read_table(put(tmp_path / "r.tsv", ROWS)), Search(), ignore)
    assert [(row.text, row.label, row.places) for row in rows] == [
        ("who sees the moon?", (0.0, 1.0, 0.0), (0, 2, 4)), ("what is red?", (1.0, 0.0), (1, 3)),
    ]  # fmt: skip
    assert rows[0].choices[1] == "the cat sees the moon."
    assert columns.named == {"text_a": "text_a", "text_b": "text_b", "label": "label"}


def test_candidates_may_have_a_usual_name_of_their_own(tmp_path):
    said = []
    table = read_table(put(tmp_path / "r.csv", "question_id,question,answer,label\n1,who,me,1\n1,who,you,0\n"))
    rows, columns = Rank().read(table, Search(), said.append)
    assert (rows[0].choices, columns.text_b) == (("me", "you"), "answer")
    assert any("reading column 'answer' as candidates" in line for line in said)


@pytest.mark.parametrize(
    ("label", "relevance"),
    [({"label": 2}, (0, 0, 1)), ({"label": "b"}, (0, 1, 0)), ({"labels": [0, 2, 1]}, (0, 2, 1)),
     ({"label": [1, 0, 0]}, (1, 0, 0))],
)  # fmt: skip
def test_lists_have_the_relevance_of_each_candidate_or_name_one(label, relevance, tmp_path):
    path = put(tmp_path / "r.jsonl", json.dumps({"query": "q", "candidates": ["a", "b", "c"], **label}) + "\n")
    (row,), _ = Rank().read(read_table(path), Search(), ignore)
    assert row.label == relevance


HEAD = "label\tqid\ttext_a\ttext_b\n1\t1\twho\tme\n0\t1\twho\tyou\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.tsv", HEAD + "1\t2\twho\t\n", "line 4: qid 2 has no candidate in this row"),
        ("r.tsv", HEAD + "1\t\twho\tme\n", "line 4: qid is missing"),
        ("r.tsv", HEAD + "1\t3\t \tme\n", "line 4: the query is empty"),
        ("r.tsv", HEAD + "-1\t3\twho\tme\n", "line 4: label '-1' is no relevance"),
        ("r.tsv", HEAD + "yes\t3\twho\tme\n", "line 4: label 'yes' is no relevance"),
        ("r.tsv", HEAD + "0\t1\twhy\tme\n", "line 4: the rows of qid 1 have different queries, such as 'who'"),
        ("r.tsv", HEAD + "\t1\twho\tme\n", "line 4: the label is missing, but other candidates of qid 1 have one"),
        ("r.tsv", "label\ttext_a\ttext_b\n1\twho\tme\n", "has no column qid"),
        ("r.tsv", "label\tqid\ttext_a\ttext_b\n1\t1\twho\tme\n", "none of its 1 queries has both"),
        ("r.jsonl", '{"query": "q", "candidates": [], "label": 0}\n', "line 1: a query needs at least two"),
        ("r.jsonl", '{"query": "q", "candidates": ["a"], "label": 0}\n', "found only one"),
        ("r.jsonl", '{"query": "q", "candidates": ["a", " "], "label": 0}\n', "line 1: candidate 1 (from 0) is empty"),
        ("r.jsonl", '{"query": "", "candidates": ["a", "b"], "label": 0}\n', "line 1: the query is empty"),
        ("r.jsonl", '{"query": "q", "candidates": ["a", "b"], "label": 2}\n', "line 1: label '2' is neither"),
        ("r.jsonl", '{"query": "q", "candidates": ["a", "b"], "labels": [1]}\n', "line 1: 1 labels, but 2 candidates"),
        ("r.jsonl", '{"query": "q", "candidates": ["a", "b"]}\n', "has the columns query, candidates"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused_with_their_line(name, text, message, plm, pretrained, tmp_path):
    path = put(tmp_path / name, text)
    ran = plm("finetune", pretrained, "--task", "rank", "--train", path, "--out", tmp_path / "out")
    assert (ran.code, message in ran.err) == (2, True), ran.err
    assert not (tmp_path / "out").exists()


def test_columns_of_lists_have_their_own_names(plm, pretrained, tmp_path):
    path = put(tmp_path / "r.jsonl", '{"query": "q", "candidates": ["a", "b"], "label": 0}\n')
    ran = plm("finetune", pretrained, "--task", "rank", "--train", path, "--text-a", "query", "--out", tmp_path / "out")
    assert (ran.code, "--text-a names a column that this task does not read" in ran.err) == (2, True), ran.err


def test_settings_are_checked():
    for settings in ({"loss": "hinge"}, {"candidates": 1}):
        with pytest.raises(SettingError, match=r"task\.(loss takes softmax, sigmoid|candidates must be at least 2)"):
            Rank(**settings)


# a run


@pytest.fixture(scope="module")
def ranked(made, pretrained):
    """A model that was trained to rank."""
    train = put(made / "rank.tsv", ROWS)
    plmkit.finetune(
        pretrained, "rank", train, made / "ranked", dev=train, epochs=1,
        settings={"task.length": 64, "run.threads": 1}, quiet=True,
    )  # fmt: skip
    return made / "ranked", train


def test_predictions_stand_beside_the_rows_in_their_order(plm, ranked, tmp_path):
    folder, train = ranked
    assert plm("predict", folder, train, "--out", tmp_path / "out.tsv").code == 0
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert [line.rsplit("\t", 3)[0] for line in lines] == ROWS.splitlines()
    assert lines[0].endswith("\tscore\trank\tprobability")
    scores, ranks, shares = zip(*[line.split("\t")[-3:] for line in lines[1:]], strict=True)
    assert sum(float(shares[place]) for place in (0, 2, 4)) == pytest.approx(1, abs=1e-5)  # of one query
    own = [(float(scores[place]), int(ranks[place])) for place in (0, 2, 4)]
    assert [rank for _, rank in sorted(own, reverse=True)] == [1, 2, 3]
    assert sorted(int(ranks[place]) for place in (1, 3)) == [1, 2]
    found = plm("predict", folder, train, "--json").json["predictions"]
    assert [(one["row"]["text_b"], one["rank"]) for one in found] == [
        (line.split("\t")[3], int(rank)) for line, rank in zip(ROWS.splitlines()[1:], ranks, strict=True)
    ]


def test_the_scores_of_a_run_stand_beside_what_needs_no_network(ranked, plm):
    folder, train = ranked
    about = json.loads((folder / "scores.json").read_text())
    assert about["baseline"]["dev"]["answer"] == "the order by shared words (BM25)"
    assert [one["answer"] for one in about["baselines"]["dev"]] == [
        "the order by shared words (BM25)",
        "a random order",
    ]
    assert about["baseline"]["dev"]["score"] == 1.0
    assert about["baselines"]["dev"][1]["score"] == pytest.approx(((1 + 1 / 2 + 1 / 3) / 3 + 3 / 4) / 2)
    assert plm("evaluate", folder, train, "--json").json["map"] == about["dev"]["map"]


def test_a_score_does_not_depend_on_the_other_candidates(ranked):
    model = plmkit.load(ranked[0], device="cpu")
    texts = [f"the cat sees {'a very ' * (number % 9)}red house." for number in range(40)]
    every = model.predict({"query": "the cat sees", "candidates": texts})
    two = model.predict([{"query": "the cat sees", "candidates": [texts[5], texts[9]]}])[0]
    assert every.label == texts[every.ranks.index(1)]
    assert every.scores[every.ranks.index(1)] == max(every.scores)
    np.testing.assert_allclose(two.scores, [every.scores[5], every.scores[9]], atol=1e-5)


@pytest.mark.filterwarnings("default::DeprecationWarning", "default::FutureWarning")
def test_an_export_gives_the_same_scores_in_sentence_transformers(ranked, plm, tmp_path):
    from sentence_transformers import CrossEncoder

    assert plm("export", ranked[0], tmp_path / "hub", "--quiet").code == 0
    texts = ["the cat sees the moon.", "the dog hears a song."]
    found = plmkit.load(ranked[0], device="cpu").predict({"query": "the king", "candidates": texts})
    theirs = CrossEncoder(str(tmp_path / "hub"), device="cpu", activation_fn=torch.nn.Identity())
    np.testing.assert_allclose(theirs.predict([("the king", text) for text in texts]), found.scores, atol=1e-5)


def test_sigmoid_scores_are_probabilities(pretrained):
    parts = read_parts(pretrained)
    answers = torch.tensor([[2.0], [-1.0]])
    one = replace(example(1, 0), row=Row(text="q", choices=("a", "b"), line=1))
    (found,) = Rank(loss="sigmoid", length=parts.architecture.max_length).decide(answers, [one])
    assert found.scores == pytest.approx(torch.sigmoid(answers[:, 0]).tolist())
    assert (found.label, found.ranks) == ("a", (1, 2))
