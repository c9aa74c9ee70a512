"""From logits to answers: only spans of the context, the null score, and the naive baseline."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from plmkit.data.batch import Batch, Side, States
from plmkit.tasks.answering.heads import ConditionalSpanHead, SpanHead
from plmkit.tasks.answering.rows import Question
from plmkit.tasks.answering.search import answer_of, decided, naive_answer
from plmkit.tasks.answering.windows import windows_of
from plmkit.tasks.framing import batch_of
from plmkit.tasks.kinds.qa import QA
from plmkit.tokenizers.tokenizer import bert_tokenizer
from plmkit.tokenizers.unigram import ClosingUnigram

CONTEXT = "the cat sat. a dog ran!"  # the cat sat . a dog ran !
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", ".", "a", "dog", "ran", "!", "who", "?"]
SETTINGS = {"n_best": 20, "max_answer": 30}


@pytest.fixture(scope="module")
def tokenizer():
    return bert_tokenizer(WORDS, lowercase=True)


def framed(tokenizer, length: int = 32, stride: int = 3, context: str = CONTEXT):
    row = Question(text="who?", other=context, line=1)
    return windows_of([row], tokenizer, length, stride=stride, question_length=64)[0]


def answers(example, tokenizer, starts, ends, n_best: int = 20) -> np.ndarray:
    """What the head gives for these logits of every window: {position: logit}, elsewhere -10."""
    batch = batch_of(example.inputs, tokenizer.vocabulary)
    head = SpanHead(width=2, n_best=n_best)
    with torch.no_grad():
        head.classify.weight.copy_(torch.eye(2))
        head.classify.bias.zero_()
    hidden = torch.full((*batch.source.tokens.shape, 2), -10.0)
    for window, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for side, logits in enumerate((start, end)):
            for place, logit in logits.items():
                hidden[window, place, side] = logit
    return head.answers(States(hidden=hidden), batch).detach().numpy()


def test_logits_are_products_with_a_start_and_an_end_vector():
    """Devlin et al., 2018, 4.2: S·T_i and E·T_i; the span of the fixture is from 2 to 3."""
    head = SpanHead(width=3, n_best=4)
    head.classify.weight.data = torch.tensor([[1.0, 0.5, 0.0], [-0.5, 1.0, 0.0]])
    hidden = torch.linspace(-1, 1, 15).view(1, 5, 3)
    start, end = (head.classify.weight[side] for side in (0, 1))
    hidden[0, 2], hidden[0, 3] = 9 * start / start.dot(start), 9 * end / end.dot(end)
    head.classify.bias.data = torch.tensor([0.25, -0.5])
    side = Side(tokens=torch.zeros(1, 5, dtype=torch.long), visible=torch.ones(1, 5, dtype=torch.bool))
    places = torch.tensor([[2, 1, 1, 1, 1]])
    batch = Batch(source=side, places=places)
    logits = head.logits(States(hidden=hidden), batch)
    for place in range(5):
        expected = torch.stack([hidden[0, place].dot(start) + 0.25, hidden[0, place].dot(end) - 0.5])
        torch.testing.assert_close(logits[0, place], expected)
    best = head.answers(States(hidden=hidden), batch)[0, 0]
    assert best[:2].tolist() == [2, 3]


def test_an_answer_is_cut_from_the_original_characters(tokenizer):
    example = framed(tokenizer)  # [CLS] who ? [SEP] the cat sat . a dog ran ! [SEP]
    found = answer_of(answers(example, tokenizer, [{5: 4.0}], [{6: 5.0}]), example, threshold=None, **SETTINGS)
    assert (found.label, found.start, found.end) == ("cat sat", 4, 11)
    assert found.n_best[0].score == 9.0
    assert CONTEXT[found.start : found.end] == "cat sat"


def test_a_span_never_ends_before_it_starts_nor_leaves_the_context(tokenizer):
    example = framed(tokenizer)
    high = {1: 9.0, 8: 8.0, 5: 1.0}  # a word of the question, `a`, `cat`
    found = answer_of(answers(example, tokenizer, [high], [{2: 9.0, 12: 9.0, 4: 8.0, 6: 1.0}]), example,
                      threshold=None, **SETTINGS)  # fmt: skip
    assert found.label == "cat sat"  # `a` to `the` would score 16
    assert all(span.start < span.end <= len(CONTEXT) for span in found.n_best)


@pytest.mark.parametrize(("most", "label"), [(1, "cat"), (2, "cat sat"), (7, "cat sat. a dog ran!")])
def test_an_answer_has_at_most_so_many_tokens(most, label, tokenizer):
    example = framed(tokenizer)
    table = answers(example, tokenizer, [{5: 5.0}], [{5: 1.0, 6: 2.0, 11: 3.0}])
    assert answer_of(table, example, n_best=20, max_answer=most, threshold=None).label == label


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_logits_answers_are_spans_of_the_context(seed, tokenizer):
    example = framed(tokenizer, length=9, stride=2)
    rng = np.random.default_rng(seed)
    logits = [[dict(enumerate(rng.normal(size=len(window.tokens)) * 3)) for window in example.inputs] for _ in range(2)]
    table = answers(example, tokenizer, *logits, n_best=6)
    found = answer_of(table, example, n_best=6, max_answer=3, threshold=None)
    assert found.n_best
    for span in found.n_best:
        assert CONTEXT[span.start : span.end] == span.text == span.text.strip()
        first, last = (tokenizer.offsets(CONTEXT).index(next(o for o in tokenizer.offsets(CONTEXT) if o[side] == edge))
                       for side, edge in ((0, span.start), (1, span.end)))  # fmt: skip
        assert 0 <= last - first < 3
    assert sum(span.probability for span in found.n_best) == pytest.approx(1)
    assert len({span.text for span in found.n_best}) == len(found.n_best)
    assert decided(found, -math.inf).label == ""
    assert decided(found, math.inf).label == decided(found, None).label == found.n_best[0].text


def test_no_answer_wins_at_threshold_0_if_the_null_score_is_higher(tokenizer):
    example = framed(tokenizer)
    table = answers(example, tokenizer, [{0: 3.0, 5: 2.0}], [{0: 3.0, 6: 2.5}])
    found = answer_of(table, example, threshold=0.0, **SETTINGS)
    assert (found.label, found.start, found.end, found.null_difference) == ("", None, None, 1.5)
    assert found.probability == found.null_probability > found.n_best[0].probability
    assert decided(found, 1.5).label == "cat sat"  # only above the threshold
    assert decided(found, None).label == "cat sat"


def test_the_null_score_is_the_lowest_of_all_windows(tokenizer):
    example = framed(tokenizer, length=9, stride=2)  # three windows of four tokens
    count = len(example.inputs)
    table = answers(example, tokenizer, [{0: 5.0 - w} for w in range(count)], [{0: 1.0} for _ in range(count)])
    found = answer_of(table, example, threshold=0.0, **SETTINGS)
    assert found.null_difference == (5.0 - (count - 1) + 1.0) - found.n_best[0].score


def test_a_start_counts_only_in_the_window_where_it_has_the_most_context(tokenizer):
    example = framed(tokenizer, length=9, stride=2)  # windows `the cat sat .`, `sat . a dog`, `a dog ran !`
    assert [window.best.tolist() for window in example.inputs[:2]] == [
        [True, True, True, False],
        [False, True, True, False],
    ]
    high = [{}, {4: 5.0}, {}]  # `sat` in the second window, which has more context in the first
    table = answers(example, tokenizer, high, [{}, {4: 5.0}, {}])
    assert "sat" not in [span.text for span in answer_of(table, example, threshold=None, **SETTINGS).n_best[:1]]
    table = answers(example, tokenizer, [{6: 5.0}, {}, {}], [{6: 5.0}, {}, {}])
    assert answer_of(table, example, threshold=None, **SETTINGS).label == "sat"


def test_without_any_valid_pair_there_is_no_answer_and_its_score_is_0(tokenizer):
    example = framed(tokenizer)
    table = answers(example, tokenizer, [{1: 5.0}], [{2: 5.0}], n_best=1)
    found = answer_of(table, example, threshold=None, n_best=1, max_answer=30)
    assert (found.label, found.start, found.n_best, found.null_difference) == ("", None, (), -20.0)


def test_probabilities_are_the_softmax_of_the_scores(tokenizer):
    example = framed(tokenizer)
    table = answers(example, tokenizer, [{4: 2.0, 5: 1.0}], [{5: 0.0}], n_best=2)
    found = answer_of(table, example, threshold=None, n_best=2, max_answer=30)
    first, second = (span.probability for span in found.n_best)
    assert (found.n_best[0].text, found.n_best[1].text) == ("the cat", "cat")
    assert first / second == pytest.approx(math.e)


def test_the_naive_baseline_has_no_answer_where_the_end_comes_first(tokenizer):
    example = framed(tokenizer)
    assert naive_answer(answers(example, tokenizer, [{6: 5.0}], [{5: 5.0}]), example).label == ""
    found = naive_answer(answers(example, tokenizer, [{5: 5.0}], [{6: 5.0}]), example)
    assert (found.label, found.start, found.end) == ("cat sat", 4, 11)
    task = QA(naive=True)
    table = torch.from_numpy(answers(example, tokenizer, [{6: 5.0}], [{5: 5.0}]))
    assert [answer.label for answer in task.decide(table, [example])] == [""]
    assert [answer.label for answer in QA().decide(table, [example])] != [""]


def test_the_threshold_is_the_best_on_dev_and_is_kept(tokenizer):
    example = framed(tokenizer)
    logits = [({5: 3.0, 0: 1.0}, {5: 3.0}), ({5: 2.0, 0: 4.0}, {5: 2.0}), ({5: 1.0, 0: 9.0}, {5: 1.0})]
    tables = [answers(example, tokenizer, [start], [end | {0: 0.0}]) for start, end in logits]  # -5, 0, 7
    rows = [replace(example.row, label="cat", answers=("cat",)), replace(example.row, label="cat", answers=("cat",)),
            replace(example.row, label="", answers=())]  # fmt: skip
    task = QA(threshold=-3.0)
    found = [task.decide(torch.from_numpy(table), [example])[0] for table in tables]
    assert [answer.label for answer in found] == ["cat", "", ""]
    tuned = task.tuned(found, rows)
    assert tuned.threshold == 0.0
    assert [tuned.revised(answer).label for answer in found] == ["cat", "cat", ""]
    scores = tuned.score([tuned.revised(answer) for answer in found], rows)
    assert (scores["f1"], scores["best_f1"], scores["answerable_exact"], scores["unanswerable_f1"]) == (1, 1, 1, 1)
    assert (scores["threshold"], task.score(found, rows)["exact"]) == (0.0, 2 / 3)


def test_a_conditional_head_reads_ends_after_their_start_and_has_a_null_logit_of_its_own(tokenizer):
    example = framed(tokenizer)
    batch = batch_of(example.inputs, tokenizer.vocabulary)
    torch.manual_seed(0)
    head = ConditionalSpanHead(width=8, beams=3)
    head.requires_grad_(False)
    states = States(hidden=torch.randn(*batch.source.tokens.shape, 8))
    table = head.answers(states, batch).detach().numpy()
    assert table.shape == (1, 10, 3)
    places = {int(place) for place in table[0, :-1, :2].flatten()}
    assert places <= {0, *range(4, 12)}  # the null token and the context
    first, last = int(table[0, 0, 0]), int(table[0, 0, 1])
    starts = head.start_logits(states, batch).log_softmax(-1)
    ends = head.end_logits(states, batch, torch.tensor([[first]])).log_softmax(-1)
    assert table[0, 0, 2] == pytest.approx(float(starts[0, first] + ends[0, 0, last]), abs=1e-5)
    found = answer_of(table, example, threshold=0.0, **SETTINGS)
    null = float(head.null_logits(states, batch, head.start_logits(states, batch)))
    assert found.null_difference == pytest.approx(null, abs=1e-5)
    assert found.null_probability == pytest.approx(1 / (1 + math.exp(-null)), abs=1e-5)


@pytest.mark.parametrize("head", [SpanHead(width=4, n_best=3), ConditionalSpanHead(width=4, beams=3)])
def test_positions_are_counted_from_the_first_token_where_padding_comes_first(head):
    tokenizer = ClosingUnigram(size=60).train([CONTEXT] * 30)
    short, long = (framed(tokenizer, 64, context=text).inputs[0] for text in ("a dog ran!", CONTEXT))
    torch.manual_seed(0)
    hidden = torch.randn(1, len(short.tokens), 4)
    alone = batch_of([short], tokenizer.vocabulary)
    both = batch_of([short, long], tokenizer.vocabulary)
    wide = torch.zeros(2, len(long.tokens), 4)
    wide[0, -len(short.tokens) :] = hidden[0]
    with torch.no_grad():
        expected = head.answers(States(hidden=hidden), alone)[0]
        found = head.answers(States(hidden=wide), both)[0]
    torch.testing.assert_close(found[:-1], expected[:-1])
    torch.testing.assert_close(found[-1, 2], expected[-1, 2])
