"""Ranks of what is missing of triples: by hand, by brute force, filtered and raw."""

import numpy as np
import pytest
import torch

from plmkit.data.graph import Graph, Terms
from plmkit.inference.ranking import Ranks, answers_of, mean_reciprocal_rank, ranks_of, without


def test_the_mean_reciprocal_rank_is_that_of_a_hand():
    assert mean_reciprocal_rank(np.array([1, 2, 4])) == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)
    assert mean_reciprocal_rank(np.array([10])) == pytest.approx(0.1)


def test_ranks_hits_and_means_of_four_answers():
    ranks = Ranks(raw=np.array([1.0, 3.0, 5.0, 20.0]), filtered=np.array([1.0, 2.0, 4.0, 10.0]))
    assert ranks.scores() == pytest.approx(
        {
            "mrr": (1 + 1 / 2 + 1 / 4 + 1 / 10) / 4, "mean_rank": 17 / 4, "hits@1": 1 / 4, "hits@3": 1 / 2,
            "hits@10": 1.0, "raw_mrr": (1 + 1 / 3 + 1 / 5 + 1 / 20) / 4, "raw_mean_rank": 29 / 4,
        }
    )  # fmt: skip


def test_a_rank_counts_what_is_above_and_half_of_what_is_equal_and_leaves_out_what_is_true():
    scores = torch.tensor([[5.0, 4.0, 3.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    known = [np.array([0, 2]), np.array([4])]
    ranks = ranks_of(scores, torch.tensor([2, 4]), known)
    assert ranks.raw.tolist() == [3.5, 3.0]  # of the first: 0 and 1 are above, 3 is equal
    assert ranks.filtered.tolist() == [2.5, 3.0]  # 0 is true itself


def test_a_filtered_rank_is_never_above_the_raw_one_and_equals_a_count():
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.integers(0, 30, size=(50, 40)).astype(np.float32))  # with equal scores
    answers = rng.integers(40, size=50)
    known = [np.unique(np.append(rng.integers(40, size=rng.integers(0, 12)), answer)) for answer in answers]
    ranks = ranks_of(scores, torch.from_numpy(answers), known)
    assert (ranks.filtered <= ranks.raw).all() and (ranks.filtered >= 1).all()
    assert (ranks.filtered < ranks.raw).any()
    for row, (answer, true) in enumerate(zip(answers.tolist(), known, strict=True)):
        own = scores[row, answer]
        others = [place for place in range(40) if place != answer]
        left = [place for place in others if place not in set(true.tolist())]
        for found, places in ((ranks.raw[row], others), (ranks.filtered[row], left)):
            above, equal = (
                sum(bool(test(scores[row, place], own)) for place in places) for test in (torch.gt, torch.eq)
            )
            assert found == 1 + above + equal / 2


def test_the_known_answers_of_a_query_are_all_of_the_graph():
    triples = np.array([[0, 0, 1], [0, 0, 2], [3, 0, 1], [0, 1, 4]])
    assert [some.tolist() for some in answers_of(triples, without(triples, 2), 2)] == [[1, 2], [1, 2], [1], [4]]
    assert [some.tolist() for some in answers_of(triples, without(triples, 0), 0)] == [[0, 3], [0], [0, 3], [0]]
    assert [some.tolist() for some in answers_of(triples, without(triples, 1), 1)] == [[0], [0], [0], [1]]
    assert [some.tolist() for some in answers_of(triples, np.array([[9, 0, 0]]), 2)] == [[]]


def test_ids_and_names_are_found_and_what_is_not_there_has_the_number_minus_one():
    entities = Terms(ids=("Q1", "Q2"), names=("New York", "Paris"))
    graph = Graph(entities=entities, relations=Terms(ids=("in",), names=("in",)), triples=np.zeros((0, 3), dtype=int))
    assert [entities.find(text) for text in ("Q1", "new york", "NEWYORK", "Paris", "Rome")] == [0, 0, 0, 1, None]
    assert graph.numbered([("Q1", "in", "Q2"), ("Q1", "at", "Q3")]).tolist() == [[0, 0, 1], [0, -1, -1]]
    assert graph.same_terms(graph) and not graph.same_terms(None)
