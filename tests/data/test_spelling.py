"""Words as rows of character ids; the rows are those of the tests of allenai/bilm-tf and allenai/allennlp."""

import numpy as np

from plmkit.data.spelling import BEGIN_SENTENCE, END_SENTENCE, spell, spell_mark
from plmkit.data.vocabulary import Vocabulary
from plmkit.tokenizers.counted import sentence_words


def test_a_word_is_its_bytes_between_two_marks_cut_and_padded_to_the_length():
    assert spell(["th", "thhhhh", "Āt"], 5).tolist() == [
        [258, 116, 104, 259, 260],
        [258, 116, 104, 104, 259],
        [258, 196, 128, 116, 259],
    ]
    assert spell_mark(BEGIN_SENTENCE, 5).tolist() == [258, 256, 259, 260, 260]
    assert spell_mark(END_SENTENCE, 5).tolist() == [258, 257, 259, 260, 260]


def test_a_row_has_fifty_characters_whatever_the_word():
    assert spell(["", "x" * 48, "x" * 80]).shape == (3, 50)
    assert spell([""])[0, :3].tolist() == [258, 259, 260]
    assert spell(["x" * 48]).tolist() == spell(["x" * 80]).tolist()
    assert spell([]).shape == (0, 50)


def test_the_vocabulary_spells_its_words_and_the_borders_of_sentences_by_their_marks():
    words = sentence_words(["<S>", "</S>", "<UNK>", "the", "."])
    assert words.vocabulary.spelled
    assert words.vocabulary.spelling[0].tolist() == spell_mark(BEGIN_SENTENCE).tolist()
    assert words.vocabulary.spelling[1].tolist() == spell_mark(END_SENTENCE).tolist()
    assert words.vocabulary.spelling[3:].tolist() == spell(["the", "."]).tolist()


def test_sentences_have_their_borders_and_unknown_words_are_given_as_written():
    words = sentence_words(["<S>", "</S>", "<UNK>", "the", "."])
    before, _, after = words.vocabulary.frame(1)
    assert [*before, *words.encode_plain("the unknown ."), *after] == [0, 3, 2, 4, 1]
    assert words.unknown_words(["the unknown .", "the.", "Ünknown的 the x"]) == [
        ["unknown"],
        [],
        ["Ünknown", "的", "x"],
    ]
    assert words.unknown_words([]) == []


def test_rows_beyond_the_tokens_have_no_character():
    padded = Vocabulary(tokens=("a",), special=frozenset(), padded=3)
    assert (padded.spelling[1:] == 260).all()
    assert np.array_equal(padded.spelling[:1], spell(["a"]))
