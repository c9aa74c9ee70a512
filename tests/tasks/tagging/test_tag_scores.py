"""Scores of tags."""

import pytest

from plmkit.tasks.tagging.scores import tag_scores


def tags(*sentences: str) -> list[tuple[str, ...]]:
    return [tuple(sentence.split()) for sentence in sentences]


def test_seqevals_modes_disagree_on_a_span_without_its_beginning():
    gold, predicted = tags("B-a I-a O", "B-b O O"), tags("I-a I-a O", "B-b O O")
    scores = tag_scores(predicted, gold, "BIO")
    assert [scores[name] for name in ("precision", "recall", "f1")] == [1.0, 1.0, 1.0]
    assert [scores[f"strict_{name}"] for name in ("precision", "recall", "f1")] == [1.0, 0.5, pytest.approx(2 / 3)]
    assert scores["accuracy"] == pytest.approx(5 / 6)
    assert scores["words"] == 6


def test_entity_scores_equal_a_count_by_hand():
    """Of three spans, one is found, one with another type, and one too long; a fourth is none: 1 of 3, and 1 of 4."""
    gold = tags("B-a I-a O B-b O B-a O")
    predicted = tags("B-a I-a O B-a B-b B-a I-a")
    scores = tag_scores(predicted, gold, "BIO")
    assert [scores[name] for name in ("precision", "recall", "f1")] == pytest.approx([1 / 4, 1 / 3, 2 / 7])


def test_each_type_has_its_row_and_longer_spans_are_wrong():
    scores = tag_scores(tags("B-a I-a O", "O S-b O".replace("S", "B")), tags("B-a O O", "O B-b O"), "BIO")
    assert scores["types"] == [
        {"type": "a", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1},
        {"type": "b", "precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1},
    ]


def test_bioes_is_scored_by_its_own_scheme():
    scores = tag_scores(tags("B-a E-a O S-a"), tags("B-a E-a O S-a"), "BIOES")
    assert scores["f1"] == scores["strict_f1"] == 1.0


def test_texts_without_spans_have_scores_too():
    scores = tag_scores(tags("O O"), tags("O O"), "BIO")
    assert (scores["f1"], scores["strict_f1"], scores["accuracy"], scores["types"]) == (0.0, 0.0, 1.0, [])
    assert tag_scores(tags("O O"), tags("B-a O"), "BIO")["f1"] == 0.0


def test_plain_tags_are_scored_word_by_word():
    scores = tag_scores(tags("n v n", "n"), tags("n v v", "n"), "plain")
    assert scores["accuracy"] == 0.75
    assert scores["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)
    assert [row["support"] for row in scores["types"]] == [2, 2]
    assert "f1" not in scores
