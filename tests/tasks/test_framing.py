from dataclasses import replace

import numpy as np
import pytest

from plmkit.data.rows import cuts
from plmkit.data.spelling import spell
from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.tasks.framing import TOKENS_AT_ONCE, Framed, batch_of, by_length, frame, frame_all
from plmkit.tokenizers.counted import sentence_words
from plmkit.tokenizers.tokenizer import Tokenizer, bert_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bert_tokenizer([*SPECIAL_TOKENS, *"abcdefghij"], lowercase=True)


def framed(tokenizer: Tokenizer, first: str, second: str | None = None, max_length: int = 64) -> str:
    row = frame_all([(" ".join(first), None if second is None else " ".join(second))], tokenizer, max_length)[0]
    return " ".join(tokenizer.vocabulary.names(row.tokens))


def popped(first: int, second: int, room: int) -> tuple[int, int]:
    """The released code, as it stands: while too long, the longer one loses its last token."""
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_one_text_and_two_texts_are_framed_as_in_the_paper(tokenizer):
    assert framed(tokenizer, "abc") == "[CLS] a b c [SEP]"
    assert framed(tokenizer, "abc", "de") == "[CLS] a b c [SEP] d e [SEP]"


def test_some_vocabularies_have_two_separators_between_texts_and_one_segment(tokenizer):
    roberta = replace(tokenizer.vocabulary, separators=2, second=0)
    row = frame(np.array([5, 6, 7]), np.array([8, 9]), roberta, 64)
    assert " ".join(roberta.names(row.tokens)) == "[CLS] a b c [SEP] [SEP] d e [SEP]"
    assert (row.second, row.cut) == (6, 0)
    assert batch_of([row], roberta).source.segments.sum() == 0
    cut = frame(np.arange(5, 10), np.arange(5, 8), roberta, 9)
    assert " ".join(roberta.names(cut.tokens)) == "[CLS] a b c [SEP] [SEP] a b [SEP]"
    assert (len(cut.tokens), cut.cut) == (9, 3)


def test_a_text_that_is_too_long_is_truncated_at_its_end(tokenizer):
    assert framed(tokenizer, "abcdef", max_length=6) == "[CLS] a b c d [SEP]"
    assert framed(tokenizer, "abcd", max_length=6) == "[CLS] a b c d [SEP]"


def test_of_a_pair_the_longer_text_is_truncated_first(tokenizer):
    assert framed(tokenizer, "abcdefg", "hi", max_length=9) == "[CLS] a b c d [SEP] h i [SEP]"
    assert framed(tokenizer, "ab", "cdefghi", max_length=9) == "[CLS] a b [SEP] c d e f [SEP]"
    assert framed(tokenizer, "abcde", "fghij", max_length=8) == "[CLS] a b c [SEP] f g [SEP]"


def test_lengths_after_truncation_equal_those_of_the_released_code():
    for first in range(1, 13):
        for second in range(1, 13):
            for room in range(2, 26):
                lost = cuts(first, second, room)
                assert (first - lost[0], second - lost[1]) == popped(first, second, room), (first, second, room)


def test_how_many_tokens_did_not_fit_is_counted(tokenizer):
    vocabulary = tokenizer.vocabulary
    assert frame(np.arange(5, 15), None, vocabulary, 6).cut == 6
    assert frame(np.arange(5, 15), np.arange(5, 8), vocabulary, 10).cut == 6
    assert frame(np.arange(5, 8), None, vocabulary, 6).cut == 0


def test_written_special_tokens_are_ordinary_text(tokenizer):
    row = frame_all([("a [MASK] [SEP] b", None)], tokenizer, 64)[0]
    vocabulary = tokenizer.vocabulary
    assert (row.tokens == vocabulary.mask).sum() == 0
    assert (row.tokens == vocabulary.sep).sum() == 1


def test_segments_and_padding_stand_where_they_should(tokenizer):
    rows = frame_all([("a b", "c"), ("a", None)], tokenizer, 64)
    batch = batch_of(rows, tokenizer.vocabulary)
    assert batch.source.segments.tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert batch.source.visible.tolist() == [[True] * 6, [True] * 3 + [False] * 3]
    assert batch.source.tokens[1].tolist() == [2, 5, 3, 0, 0, 0]
    assert batch_of(rows, tokenizer.vocabulary, length=8).source.tokens.shape == (2, 8)


def test_batches_by_length_hold_every_row_once_and_are_never_too_large():
    rng = np.random.default_rng(0)
    rows = [Framed(tokens=np.zeros(length), second=length, cut=0) for length in rng.integers(3, 512, 300)]
    groups = list(by_length(rows))
    assert sorted(np.concatenate(groups).tolist()) == list(range(300))
    lengths = np.array([len(row.tokens) for row in rows])
    for group in groups:
        assert len(group) * lengths[group].max() <= TOKENS_AT_ONCE
    assert (np.diff(lengths[np.concatenate(groups)]) <= 0).all()


def test_no_rows_make_no_batches(tokenizer):
    assert frame_all([], tokenizer, 64) == []
    assert list(by_length([])) == []


def test_unknown_words_go_with_the_rows_and_those_cut_off_do_not():
    words = sentence_words(["<S>", "</S>", "<UNK>", "the", "."])
    pair, single = frame_all([("the cat the dog", "a mat ."), ("the .", None)], words, 8)
    assert pair.tokens.tolist() == [0, 3, 2, 3, 1, 2, 2, 1]  # <S> the cat the </S> a mat </S>
    assert (pair.cut, pair.unknown, single.unknown) == (2, ("cat", "a", "mat"), ())
    batch = batch_of([pair, single], words.vocabulary)
    assert batch.source.characters.shape == (2, 8, 50)
    assert batch.source.characters[0, [2, 5, 6]].tolist() == spell(["cat", "a", "mat"]).tolist()
    assert batch.source.characters[0, 1].tolist() == spell(["the"])[0].tolist()
    assert batch_of([single], words.vocabulary).source.characters is None  # all are in the vocabulary
