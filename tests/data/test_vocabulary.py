from dataclasses import replace

import numpy as np
import pytest

from plmkit.data.vocabulary import ALBERT_NAMES, BYTE_SPACE, META_SPACE, ROBERTA_NAMES, SPECIAL_TOKENS, Vocabulary
from plmkit.errors import InputError

TOKENS = (*SPECIAL_TOKENS, "run", "##ning", "中", "##")


def test_special_tokens_are_found_by_name():
    vocabulary = Vocabulary.from_tokens(["the", "[MASK]", "[SEP]", "[CLS]", "[UNK]", "[PAD]"])
    assert (vocabulary.pad, vocabulary.unknown, vocabulary.cls, vocabulary.sep, vocabulary.mask) == (
        5,
        4,
        3,
        2,
        1,
    )
    assert vocabulary.special == {1, 2, 3, 4, 5}
    assert len(vocabulary) == 6


@pytest.mark.parametrize("names", [SPECIAL_TOKENS, ALBERT_NAMES, ROBERTA_NAMES])
def test_roles_are_found_whatever_their_names(names):
    vocabulary = Vocabulary.from_tokens(["a", *names[::-1], "b"])
    assert vocabulary.roles == dict(zip(("pad", "unknown", "cls", "sep", "mask"), names, strict=True))
    assert (vocabulary.pad, vocabulary.mask) == (5, 1)


def test_names_that_are_given_come_before_known_ones():
    tokens = [*ROBERTA_NAMES, "<cls>", "a"]
    assert Vocabulary.from_tokens(tokens).cls == 2
    assert Vocabulary.from_tokens(tokens, named={"cls": "<cls>"}).cls == 5
    tokens.remove("<cls>")
    with pytest.raises(InputError, match=r"has no <sep>\. It needs all of <pad> <unk> <s> <sep> <mask>"):
        Vocabulary.from_tokens(tokens, named={"sep": "<sep>"})
    with pytest.raises(InputError, match="Two special tokens have the same name"):
        Vocabulary.from_tokens(tokens, named={"sep": "<s>"})


@pytest.mark.parametrize("mark", [BYTE_SPACE, META_SPACE])
def test_where_words_bear_their_space_all_others_continue(mark):
    vocabulary = Vocabulary.from_tokens([*ROBERTA_NAMES, f"{mark}run", "ning", ",", mark], mark=mark)
    assert vocabulary.is_continuation.tolist() == [False] * 5 + [False, True, True, False]


def test_rows_of_one_text_have_two_special_tokens_and_pairs_one_or_two_more():
    vocabulary = Vocabulary.from_tokens(TOKENS)
    assert (vocabulary.specials(1), vocabulary.specials(2)) == (2, 3)
    roberta = replace(vocabulary, separators=2)
    assert (roberta.specials(1), roberta.specials(2)) == (2, 4)


def test_only_special_tokens_are_not_ordinary():
    vocabulary = Vocabulary.from_tokens(TOKENS)
    tokens = np.array([[2, 5, 6], [3, 7, 0]], dtype=np.uint32)
    assert vocabulary.is_ordinary(tokens).tolist() == [[False, True, True], [False, True, False]]


def test_further_tokens_can_be_special():
    vocabulary = Vocabulary.from_tokens(TOKENS, also_special=[7])
    assert vocabulary.is_ordinary(np.arange(9)).tolist() == [False] * 5 + [True, True, False, True]


def test_continuations_are_the_pieces_with_two_hashes_and_more():
    vocabulary = Vocabulary.from_tokens(TOKENS)
    assert np.flatnonzero(vocabulary.is_continuation).tolist() == [6]


def test_names_are_the_tokens_as_written():
    assert Vocabulary.from_tokens(TOKENS).names(np.array([5, 6, 4])) == ["run", "##ning", "[MASK]"]


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ([], "empty"),
        (["[PAD]", "[UNK]", "a"], r"of 3 tokens has no \[CLS\], \[SEP\], \[MASK\]"),
        ([*TOKENS, "run"], "contains 'run' twice, with ids 5 and 9"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_refused(tokens, says):
    with pytest.raises(InputError, match=says):
        Vocabulary.from_tokens(tokens)
