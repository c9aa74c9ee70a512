"""Windows over long contexts, the most context of a token, and where an answer is in tokens."""

from dataclasses import replace

import numpy as np
import pytest

from plmkit.tasks.answering.rows import Question
from plmkit.tasks.answering.windows import NULL, PASSAGE, most_context, spans_of, tightened, windows_of
from plmkit.tasks.batches import one_by_one
from plmkit.tasks.framing import batch_of
from plmkit.tasks.kinds.qa import QA
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.tokenizer import bert_tokenizer
from plmkit.tokenizers.unigram import ClosingUnigram

MILK = "the man went to the store and bought a gallon of milk"
SOME = ["the man went to the store and bought milk, john smith (1895-1943). 我在 new york。 日本語"] * 30


@pytest.fixture(scope="module")
def words():
    """A tokenizer with the words of the examples."""
    texts = f"{MILK} who bought leader was john smith ( 1895 - 1943 ) . ?".split()
    return bert_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(texts)], lowercase=True)


def asked(context: str, answer: str | None = None, question: str = "who bought ?") -> Question:
    start = None if not answer else context.index(answer)
    return Question(
        text=question, other=context, line=1, label=answer, start=start, answers=(answer,) if answer else ()
    )


def test_a_window_begins_a_stride_after_the_one_before_until_one_reaches_the_end():
    assert spans_of(11, 5, 3) == [(0, 5), (3, 5), (6, 5)]
    assert spans_of(12, 5, 3) == [(0, 5), (3, 5), (6, 5), (9, 3)]
    assert spans_of(12, 5, 9) == [(0, 5), (5, 5), (10, 2)]  # nothing is skipped
    assert spans_of(3, 5, 3) == [(0, 3)]
    assert spans_of(0, 5, 3) == [(0, 0)]


def test_the_most_context_of_bought_is_in_the_third_window():
    """`to the store and bought` has nothing after it; `and bought a gallon of` has one word before and three after."""
    spans = [(0, 5), (3, 5), (6, 5)]
    tokens = MILK.split()[:11]
    best = most_context(spans, len(tokens))
    place = tokens.index("bought")
    second, third = best[1][place - 3], best[2][place - 6]
    assert (bool(second), bool(third)) == (False, True)
    owners = np.zeros(11, dtype=int)
    for (start, length), own in zip(spans, best, strict=True):
        owners[start : start + length] += own
    assert owners.tolist() == [1] * 11  # every token is scored in exactly one window


def test_of_two_windows_with_equal_context_the_longer_and_then_the_first_counts():
    assert [own.tolist() for own in most_context([(0, 2), (1, 2)], 3)] == [[True, True], [False, True]]
    assert [own.tolist() for own in most_context([(0, 2), (1, 3)], 4)] == [[True, False], [True, True, True]]


def test_windows_hold_the_question_and_their_part_of_the_context(words):
    (made,) = windows_of([asked(MILK, "bought")], words, 11, stride=3, question_length=64)
    names = [" ".join(words.vocabulary.names(window.tokens)) for window in made.inputs]
    assert names == [
        "[CLS] who bought ? [SEP] the man went to the [SEP]",
        "[CLS] who bought ? [SEP] to the store and bought [SEP]",
        "[CLS] who bought ? [SEP] and bought a gallon of [SEP]",
        "[CLS] who bought ? [SEP] gallon of milk [SEP]",
    ]
    assert made.inputs[0].places.tolist() == [NULL, 0, 0, 0, 0, *[PASSAGE] * 5, 0]
    assert np.asarray(made.label).tolist() == [[0, 0], [9, 9], [6, 6], [0, 0]]  # [CLS] where the answer is missing


def test_an_answer_that_a_window_cuts_is_not_in_it(words):
    (made,) = windows_of([asked(MILK, "bought a gallon")], words, 11, stride=3, question_length=64)
    assert np.asarray(made.label).tolist() == [[0, 0], [0, 0], [6, 8], [0, 0]]


def test_a_question_without_an_answer_points_to_the_null_token(words):
    (made,) = windows_of([asked(MILK, "")], words, 32, stride=3, question_length=64)
    assert np.asarray(made.label).tolist() == [[0, 0]]


def test_an_answer_is_tightened_to_its_own_tokens(words):
    """`1895` in `(1895-1943).` is one token of a word with brackets around it."""
    text = "the leader was john smith (1895-1943)."
    (made,) = windows_of([asked(text, "1895")], words, 32, stride=8, question_length=64)
    first, last = np.asarray(made.label)[0]
    assert words.vocabulary.names(made.inputs[0].tokens[first : last + 1]) == ["1895"]
    assert tightened(made.offsets, *(text.index("smith"), text.index("-"))) == (4, 6)


def test_a_long_question_is_cut_and_leaves_half_of_the_row(words):
    rows = [asked(MILK, "milk", question="who bought ? " * 30)]
    (made,) = windows_of(rows, words, 13, stride=3, question_length=64)
    assert {window.second for window in made.inputs} == {7}  # [CLS], five of its tokens, [SEP]
    assert made.cut == 85
    (short,) = windows_of(rows, words, 64, stride=3, question_length=4)
    assert short.inputs[0].second == 6


def test_a_context_is_tokenized_once_for_all_its_questions(words, monkeypatch):
    seen = []
    encode = type(words).encode_many
    monkeypatch.setattr(type(words), "encode_many", lambda self, texts: seen.append(list(texts)) or encode(self, texts))
    windows_of([asked(MILK, "milk"), asked(MILK, "store", "who ?")], words, 32, stride=3, question_length=64)
    assert seen == [[MILK], ["who bought ?", "who ?"]]


@pytest.mark.parametrize("recipe", [ByteBPE(size=330), ClosingUnigram(size=110)], ids=["bytes", "unigram"])
@pytest.mark.parametrize("answer", ["1895", "new york", "我在", "日本語", "store and bought"])
def test_any_tokenizer_finds_the_tokens_that_cover_an_answer(recipe, answer):
    tokenizer = recipe.train(SOME)
    (made,) = windows_of([asked(SOME[0], answer)], tokenizer, 200, stride=8, question_length=64)
    first, last = np.asarray(made.label)[0] - made.inputs[0].second
    begin, end = made.offsets[first, 0], made.offsets[last, 1]
    assert answer in SOME[0][begin:end]
    assert len(SOME[0][begin:end].strip()) <= len(answer) + 2  # a piece may hold a neighbour too


def test_where_cls_comes_last_the_null_token_is_the_last_and_labels_move_with_the_padding():
    tokenizer = ClosingUnigram(size=110).train(SOME)
    task = QA()
    long, short = (asked(SOME[0][:size], "store") for size in (60, 34))
    examples = task.frame([long, short], tokenizer, 200)
    batch = batch_of([example.inputs[0] for example in examples], tokenizer.vocabulary)
    labels = task.labels(examples, tokenizer.vocabulary, batch.source.tokens.shape[1])
    assert (batch.places[:, -1] == NULL).all()
    for row, example, label in zip(batch.source.tokens, examples, labels, strict=True):
        own = np.asarray(example.label)[0]
        assert row[label[0] : label[1] + 1].tolist() == example.inputs[0].tokens[own[0] : own[1] + 1].tolist()
    assert (labels[1].numpy() > np.asarray(examples[1].label)[0]).all()


def test_windows_are_trained_on_one_by_one(words):
    (made,) = windows_of([asked(MILK, "bought")], words, 11, stride=3, question_length=64)
    alone = one_by_one(QA(), [made])
    assert [example.inputs for example in alone] == [(window,) for window in made.inputs]
    assert QA().labels(alone, words.vocabulary, 11).tolist() == [[0, 0], [9, 9], [6, 6], [0, 0]]


def test_a_causal_model_has_the_null_token_at_the_end(words):
    tokenizer = words.with_tokens({"extract": "_classify_"})
    (made,) = windows_of([asked(MILK, "")], tokenizer, 32, stride=3, question_length=64)
    assert np.flatnonzero(made.inputs[0].places == NULL).tolist() == [len(made.inputs[0].tokens) - 1]


def test_unknown_words_of_a_window_are_those_of_its_own_part(words):
    spelled = replace(words.vocabulary, spelled=True)
    words.vocabulary, before = spelled, words.vocabulary
    try:
        row = asked("xx the man went to yy the store zz", "the man", question="who qq ?")
        (made,) = windows_of([row], words, 9, stride=3, question_length=64)
    finally:
        words.vocabulary = before
    for window in made.inputs:
        assert len(window.unknown) == int((window.tokens == spelled.unknown).sum())
    assert [window.unknown for window in made.inputs][:2] == [("qq", "xx"), ("qq", "yy")]
