"""Words as tokens: the first token of each, and windows in which every word is predicted once."""

from dataclasses import replace

import numpy as np
import pytest

from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.tasks.batches import batch_of_examples
from plmkit.tasks.contract import Example
from plmkit.tasks.tagging.framing import framed
from plmkit.tasks.tagging.rows import with_words
from plmkit.tasks.windows import context, windows_of
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.tokenizer import bert_tokenizer
from plmkit.tokenizers.unigram import Unigram

PIECES = ["john", "johan", "##son", "'", "s", "house", "北", "京", "a", "##b", "the"]


@pytest.fixture(scope="module")
def tokenizer():
    return bert_tokenizer([*SPECIAL_TOKENS, *PIECES], lowercase=True)


def row(words: str):
    return with_words(words.split(), "", None, None)


def test_the_first_token_of_each_word_is_found_as_in_the_readme_of_bert(tokenizer):
    (made,) = framed([row("john johanson 's house")], tokenizer, 16)
    names = tokenizer.vocabulary.names(made.inputs[0].tokens)
    assert names == "[CLS] john johan ##son ' s house [SEP]".split()
    assert made.words.tolist() == [[0, 1], [0, 2], [0, 4], [0, 6]]


def test_characters_of_one_word_each_have_a_token(tokenizer):
    made, other = framed(
        [with_words([*"北京ab"], "北京ab", None, None), with_words([*"北as"], "北as", None, None)], tokenizer, 16
    )
    assert tokenizer.vocabulary.names(made.inputs[0].tokens) == ["[CLS]", "北", "京", "a", "##b", "[SEP]"]
    assert made.words[:, 1].tolist() == [1, 2, 3, 4]
    assert tokenizer.vocabulary.names(other.inputs[0].tokens) == ["[CLS]", "北", "a", "s", "[SEP]"]  # `as` is unknown


def test_a_word_without_tokens_is_unknown(tokenizer):
    (made,) = framed([with_words(["the", "\u200b", "house"], "", None, None)], tokenizer, 16)
    assert tokenizer.vocabulary.names(made.inputs[0].tokens) == ["[CLS]", "the", "[UNK]", "house", "[SEP]"]


@pytest.mark.parametrize("kind", [Unigram(size=60), ByteBPE(size=300)])
def test_a_piece_of_several_words_is_cut_and_marks_no_space_that_is_not_there(kind):
    tokenizer = kind.train(["北京大学 the house", "北京大学", "the house 北京大学 北 京 大 学"] * 20)
    words = ["北", "京", "大", "学", "the", "house"]
    (made,) = framed([with_words(words, "北京大学 the house", None, None)], tokenizer, 64)
    places = made.words[:, 1].tolist()
    assert places == sorted(set(places))  # each word has a token of its own
    text = tokenizer.decode(made.inputs[0].tokens)
    assert "北京大学 the house" in text


def test_windows_overlap_by_half_and_the_last_is_full():
    assert windows_of(np.arange(5), 5, 5) == [(0, 5)]
    assert windows_of(np.arange(10), 10, 4) == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert windows_of(np.arange(9), 9, 4) == [(0, 4), (2, 6), (4, 8), (5, 9)]


def test_the_window_with_most_context_is_that_of_berts_released_code():
    """`bought` in: the man went to the | to the store and bought | and bought a gallon of."""
    bought = np.array([7])
    assert context(bought, 3, 8) == pytest.approx(0.05)
    assert context(bought, 6, 11) == pytest.approx(1.05)


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("length", [8, 9, 21, 64])
def test_every_word_of_a_long_text_is_predicted_once_wherever_padding_is(tokenizer, length, closes):
    rng = np.random.default_rng(0)
    words = rng.choice(["the", "house", "johanson", "johnjohansonjohanson", "a"], size=40).tolist()
    changed = bert_tokenizer([*SPECIAL_TOKENS, *PIECES, "##johan", "##john"], lowercase=True)
    changed.vocabulary = replace(changed.vocabulary, closes=closes)
    rows = [row(" ".join(words)), row("the")]
    made = framed(rows, changed, length)
    assert all(len(part.tokens) <= length for one in made for part in one.inputs)
    batch = batch_of_examples(
        [Example(row=one, inputs=two.inputs, words=two.words) for one, two in zip(rows, made, strict=True)],
        changed.vocabulary,
    )
    starts = np.array([0, len(made[0].inputs)])
    found = [batch.source.tokens[starts[example] + at, place] for example, at, place in positions(batch)]
    names = changed.vocabulary.names(int(token) for token in found)
    first = {"johanson": "johan", "johnjohansonjohanson": "john"}
    assert names == [first.get(word, word) for word in [*words, "the"]]
    assert all(bool(batch.source.visible[starts[example] + at, place]) for example, at, place in positions(batch))


def positions(batch):
    words = batch.words.tolist()
    return [(example, at, place) for example, own in enumerate(words) for at, place in own if place >= 0]
