from collections import Counter

import numpy as np
import pytest
from masking_rows import WORDS, Forced, characters, rows_of

from plmkit.corruption.mask.word import WordMasking, fitting
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws

BEGIN = 1  # the bit that says: a word begins


def masked_words(rows, vocabulary, step, epoch: int) -> str:
    out = step(rows, vocabulary, Draws(0, epoch, np.arange(1)))
    return "".join(vocabulary.names(out.targets[0][out.targets[0] != IGNORE]))


def test_chinese_words_are_masked_whole_though_tokens_are_characters():
    rows, vocabulary = characters("使用语言模型", [BEGIN, 0, BEGIN, 0, BEGIN, 0])
    assert [len(name) for name in vocabulary.names(rows.tokens[0, 1:-1])] == [1] * 6
    one = Counter(masked_words(rows, vocabulary, WordMasking(rate=0.25), epoch) for epoch in range(600))
    assert one.keys() == {"使用", "语言", "模型"}
    assert min(one.values()) > 150  # each as likely
    two = {masked_words(rows, vocabulary, WordMasking(rate=0.5), epoch) for epoch in range(100)}
    assert two == {"使用语言", "使用模型", "语言模型"}


def test_language_and_model_are_masked_as_wholes():
    rows, vocabulary = characters("使用语言模型", [BEGIN, 0, BEGIN, 0, BEGIN, 0])
    first = [0.9, 0.9, 0.9, 0.1, 0.9, 0.2, 0.9, 0.9]  # 语言, then 模型
    out = WordMasking(rate=0.5)(rows, vocabulary, Forced(first, 0.0, 0.0))
    assert "".join(vocabulary.names(out.tokens[0])) == "[CLS]使用[MASK][MASK][MASK][MASK][SEP]"


def test_without_units_the_pieces_of_an_english_word_belong_together():
    rows = rows_of("[CLS] the un ##want ##ed guest ##s ran away [SEP]")
    seen = {masked_words(rows, WORDS, WordMasking(rate=0.3), epoch) for epoch in range(200)}
    whole = {"un##want##ed", "theguest##s", "guest##sran", "guest##saway", "theranaway"}
    assert seen == whole | {"guest##sran", "theranaway"}


def test_every_piece_draws_its_own_treatment():
    rows = rows_of("[CLS] the un ##want ##ed ran away over hills far still [SEP]")
    scores = [0.9] * 12
    scores[2] = 0.1
    treatment = [0.0] * 12
    treatment[2], treatment[3], treatment[4] = 0.5, 0.85, 0.95
    cat = (WORDS.tokens.index("cat") + 0.5) / len(WORDS)
    out = WordMasking(rate=0.25)(rows, WORDS, Forced(scores, treatment, cat))
    assert WORDS.names(out.tokens[0, 1:6]) == ["the", "[MASK]", "cat", "##ed", "ran"]
    assert WORDS.names(out.targets[0, 2:5]) == ["un", "##want", "##ed"]


@pytest.mark.parametrize(
    ("sizes", "room", "taken"),
    [
        ([2, 3, 1], 3, [0, 2]),  # the second breaks the budget and is skipped, the third fits
        ([1, 1, 1], 2, [0, 1]),
        ([4, 4], 4, [0]),
        ([5, 3, 4], 2, [1]),  # none fits: the shortest, so that the row masks something
        ([], 2, []),
    ],
)
def test_a_word_that_breaks_the_budget_is_skipped(sizes, room, taken):
    assert fitting(sizes, room) == taken


def test_no_word_runs_across_a_special_token():
    """A row may be cut inside a word: what is left of it is a word of its own."""
    rows = rows_of("[CLS] ##want ##ed guest [SEP] ##s ran [SEP]")
    seen = {masked_words(rows, WORDS, WordMasking(rate=0.25), epoch) for epoch in range(200)}
    assert seen == {"##want##ed", "guest##s", "guestran", "##sran"}


def test_unknown_words_are_words():
    rows = rows_of("[CLS] [UNK] ##s [SEP]")
    assert masked_words(rows, WORDS, WordMasking(rate=0.5), 0) == "[UNK]##s"
