import numpy as np
import pytest
from masking_rows import PIECES, WORDS, Forced, many, rows_of, stretches, words_in

from plmkit.corruption.mask.word import NgramMasking
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws, generator


@pytest.mark.parametrize(
    ("available", "shares"), [(3, [6 / 11, 3 / 11, 2 / 11]), (2, [2 / 3, 1 / 3]), (1, [1.0])], ids=["3", "2", "1"]
)
def test_n_words_are_drawn_with_a_probability_like_one_over_n(available, shares):
    step = NgramMasking()
    drawn = [step.words(draw, available) for draw in generator(0).random(200_000).tolist()]
    assert np.bincount(drawn, minlength=available + 1)[1:] / 200_000 == pytest.approx(shares, abs=0.01)
    assert max(drawn) == available


def hidden_at(rows, step, *draws) -> list[int]:
    out = step(rows, WORDS, Forced(*draws, 0.0, 0.0))
    return np.flatnonzero(out.targets[0] != IGNORE).tolist()


#        0     1   2   3   4  5 6   7  8      9    10    11  12   13
TEXT = "[CLS] the cat sat on a mat un ##want ##ed guest ##s ran [SEP]"


def scores(*first: int) -> list[float]:
    """These positions come first, in this order."""
    return [first.index(place) / 100 if place in first else 0.5 + place / 100 for place in range(14)]


def sizes(**words: float) -> list[float]:
    return [words.get(f"at{place}", 0.0) for place in range(14)]


ONE, TWO, THREE = 0.5, 0.7, 0.9  # draws for this many words


@pytest.mark.parametrize(
    ("rate", "order", "drawn", "masked"),
    [
        (0.20, (2,), {"at2": THREE}, [2, 3, 4]),
        (0.07, (2,), {"at2": THREE}, [2]),  # no room for three, nor for two
        (0.15, (2,), {"at2": THREE}, [2, 3]),
        (0.36, (7,), {"at7": TWO}, [7, 8, 9, 10, 11]),  # two words of five pieces
        (0.28, (7, 5), {"at7": TWO, "at5": ONE}, [5, 7, 8, 9]),  # too long for two: one, and room for another
        (0.14, (7, 1), {"at1": TWO}, [1, 2]),  # three pieces do not fit at all: the next word is tried
        (0.28, (3, 2, 5), {"at3": TWO, "at2": TWO, "at5": TWO}, [3, 4, 5, 6]),  # what would overlap is left out
        (0.14, (12,), {"at12": THREE}, [1, 12]),  # nothing follows the last word
    ],
)
def test_ngrams_are_whole_words_within_the_budget(rate, order, drawn, masked):
    assert hidden_at(rows_of(TEXT), NgramMasking(rate=rate), scores(*order), sizes(**drawn)) == masked


def test_an_ngram_ends_at_a_special_token():
    rows = rows_of("[CLS] the cat [SEP] sat on [SEP]")
    hidden = hidden_at(rows, NgramMasking(rate=0.43), [0.9, 0.9, 0.0, 0.9, 0.8, 0.9, 0.9], [THREE] * 7)
    assert hidden == [2, 4, 5]  # cat alone, then two words of the other text


def test_where_no_word_fits_the_shortest_is_masked():
    rows = rows_of("[CLS] un ##want ##ed guest ##s [SEP]")
    assert hidden_at(rows, NgramMasking(rate=0.15), scores(1)[:7], sizes()[:7]) == [4, 5]


def test_stretches_of_one_word_two_and_three_are_all_found():
    rows = many(4000, 128, pieces=0.2)
    hidden = NgramMasking(rate=0.05)(rows, PIECES, Draws(0, 0, np.arange(4000))).targets != IGNORE
    counts = np.zeros(7)
    for row, mask in zip(rows.tokens, hidden, strict=True):
        first = {word[0] for word in words_in(row, PIECES)}
        for begin, end in stretches(mask):
            counts[sum(place in first for place in range(begin, end + 1))] += 1
    share = counts / counts.sum()
    assert share[1] > share[2] > share[3] > 0.05
    assert share[4:].sum() < 0.08  # n-grams that happen to touch
