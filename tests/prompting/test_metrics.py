"""Metrics of generated answers, computed by hand."""

from math import exp

import pytest

from plmkit.prompting.metrics import bleu, exact, f1, longest_common_subsequence, plain, rouge_l, words


def test_words_are_lower_case_and_signs_and_ideographs_are_words():
    assert words("The cat's 2nd HOUSE, 我的狗!") == ["the", "cat", "'", "s", "2nd", "house", ",", "我", "的", "狗", "!"]


def test_an_answer_is_compared_without_articles_case_and_punctuation():
    assert plain("  The cat, an   Apple! (a theatre)") == "cat apple theatre"
    assert exact(["The cat!", "dog", "a bird"], ["cat", "a cat", "bird."]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("said", "wanted", "score"),
    [
        ("red cat", "red dog", 1 / 2),
        ("red red cat", "red dog", 2 / 5),  # a word counts as often as it is wanted
        ("cat", "a big red cat", 2 * 1 / (1 + 3)),
        ("我的狗", "我的猫", 2 / 3),
        ("", "", 1.0),
        ("", "cat", 0.0),
        ("cat", "", 0.0),
    ],
)
def test_f1_is_twice_the_words_in_common_over_all_words(said, wanted, score):
    assert f1([said], [wanted]) == pytest.approx(score)
    assert f1([said, "cat"], [wanted, "cat"]) == pytest.approx((score + 1) / 2)


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [("a b c d", "a b c d", 4), ("a b c d", "b d a c", 2), ("a a b", "a b b", 2), ("a b", "c d", 0), ("b a", "a b", 1)],
)
def test_words_in_order_may_have_others_between_them(first, second, length):
    assert longest_common_subsequence(first.split(), second.split()) == length
    assert longest_common_subsequence(second.split(), first.split()) == length


def test_rouge_l_is_twice_the_words_in_order_over_all_words():
    assert rouge_l(["the cat sat down"], ["the dog sat down"]) == pytest.approx(2 * 3 / 8)
    assert rouge_l(["sat", "a b"], ["the cat sat", "c d"]) == pytest.approx((2 * 1 / 4 + 0) / 2)


@pytest.mark.parametrize(
    ("said", "wanted", "precisions", "factor"),
    [
        ("the cat sat on it", "the cat sat on it", (5 / 5, 5 / 5, 4 / 4, 3 / 3), 1.0),
        ("the cat sat", "the cat sat on the mat", (3 / 3, 3 / 3, 2 / 2, 1 / 1), exp(1 - 6 / 3)),  # too short
        ("the cat sat down here", "the cat sat on a mat", (3 / 5, 3 / 5, 2 / 4, 1 / 3), exp(1 - 6 / 5)),
        ("the the the cat", "the cat", (2 / 4, 2 / 4, 1 / 3, 1 / 2), 1.0),  # clipped; longer is no gain
        ("dog", "cat", (0, 1, 1, 1), 1.0),
        ("", "cat", (0, 1, 1, 1), 1.0),
    ],
)
def test_bleu_is_the_mean_of_four_precisions_smoothed_from_the_second_on(said, wanted, precisions, factor):
    one, two, three, four = precisions
    assert bleu([said], [wanted]) == pytest.approx((one * two * three * four) ** 0.25 * factor)


def test_bleu_counts_over_all_answers():
    found = bleu(["the cat", "a dog ran"], ["the cat sat", "a dog"])
    precisions = (2 + 2) / 5, (1 + 1 + 1) / (1 + 2 + 1), (0 + 1) / (1 + 1), 1
    assert found == pytest.approx((precisions[0] * precisions[1] * precisions[2] * precisions[3]) ** 0.25)
