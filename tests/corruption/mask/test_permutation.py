"""Orders and predicted spans: which position attends to which, exactly, and how often."""

import numpy as np
import pytest
from masking_rows import PIECES, many

from plmkit.corruption.mask.permutation import PermutedSpans, attention_order
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import SPECIAL_TOKENS


def hidden_by(order: np.ndarray) -> np.ndarray:
    """(L, L) 1 where the row may not read the column."""
    return (order[:, None, 1] <= order[None, :, 0]).astype(int)


def order_of(*positions: int, asked: tuple[int, ...] | None = None) -> np.ndarray:
    """The reading order where positions, counted from 1, come one after another; all are predicted by default."""
    draw = np.argsort(np.array(positions) - 1).astype(float)
    chosen = np.isin(np.arange(1, len(positions) + 1), positions if asked is None else asked)
    return attention_order(draw, chosen, np.ones(len(positions), dtype=bool), border=0)


def sees(order: np.ndarray, position: int) -> set[int]:
    return {int(j) + 1 for j in np.flatnonzero(hidden_by(order)[position - 1] == 0)}


def test_the_order_3_2_4_1_masks_what_the_paper_draws():
    query = hidden_by(order_of(3, 2, 4, 1))
    assert query.tolist() == [[1, 0, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1], [1, 0, 0, 1]]
    content = query * (1 - np.eye(4, dtype=int))
    assert content.tolist() == [[0, 0, 0, 0], [1, 0, 0, 1], [1, 1, 0, 1], [1, 0, 0, 0]]


@pytest.mark.parametrize(
    ("order", "seen"),
    [((3, 2, 4, 1), set()), ((2, 4, 3, 1), {2, 4}), ((1, 4, 2, 3), {1, 4, 2}), ((4, 3, 1, 2), {4})],
)
def test_the_third_token_sees_what_comes_before_it_in_each_order(order, seen):
    assert sees(order_of(*order), 3) == seen


def test_a_context_before_may_hold_words_that_stand_after():
    assert sees(order_of(4, 2, 3, 1), 3) == {4, 2}


def test_the_order_of_the_text_gives_triangles():
    query = hidden_by(order_of(1, 2, 3, 4, 5))
    assert (query == 1 - np.tril(np.ones((5, 5), dtype=int), -1)).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_nth_of_an_order_sees_those_before_it_and_never_itself(seed):
    positions = np.random.default_rng(seed).permutation(9) + 1
    hidden = hidden_by(order_of(*positions))
    assert hidden.diagonal().all()
    assert [9 - hidden[place - 1].sum() for place in positions] == list(range(9))


def test_positions_that_are_not_predicted_are_seen_by_all_and_see_no_target():
    order = order_of(3, 2, 4, 1, asked=(2, 4))
    assert [sees(order, position) for position in (1, 2, 3, 4)] == [{1, 3}, {1, 3}, {1, 3}, {1, 2, 3}]


def test_separators_stand_in_the_order_and_read_themselves():
    text = np.array([True, True, False, True])  # the third is [SEP]
    draw = np.array([0.0, 0.1, 0.2, 0.3])
    order = attention_order(draw, np.array([False, True, False, True]), text, border=0)
    assert [sees(order, position) for position in (1, 2, 3, 4)] == [{1}, {1}, {1, 2, 3}, {1, 2, 3}]


def test_the_first_part_of_a_row_reads_nothing_of_the_second_which_reads_all_of_it():
    draw = np.array([0.3, 0.2, 0.1, 0.3, 0.2, 0.1])
    asked = np.array([True, False, True, True, False, False])
    order = attention_order(draw, asked, np.array([True] * 5 + [False]), border=3)
    assert [sees(order, position) for position in range(1, 7)] == [
        {2, 3}, {2}, {2}, {1, 2, 3, 5, 6}, {1, 2, 3, 5}, {1, 2, 3, 5, 6},
    ]  # fmt: skip


def run(step: PermutedSpans, rows: Rows, epoch: int = 0) -> tuple[Rows, np.ndarray]:
    out = step(rows, PIECES, Draws(3, epoch, np.arange(len(rows.tokens))))
    return out, out.targets != IGNORE


def test_85_of_512_are_predicted_43_in_the_part_that_is_read_again():
    _, asked = run(PermutedSpans(), many(40, 512, pieces=0.3))
    assert (asked[:, :256].sum(axis=1) == 43).all()
    assert (asked[:, 256:].sum(axis=1) == 42).all()


def test_one_in_six_is_predicted_whatever_the_length():
    for length in (64, 128, 256, 512):
        _, asked = run(PermutedSpans(), many(50, length))
        assert (asked.sum(axis=1) == length // 6).all()
        assert asked.mean() == pytest.approx(1 / 6, rel=0.02) or length == 64  # 10 of 64 are less than a sixth


def test_no_token_is_changed_and_no_mask_is_shown():
    rows = many(50, 64, pieces=0.3)
    out, asked = run(PermutedSpans(), rows)
    assert np.array_equal(out.tokens, rows.tokens)
    assert not (out.tokens == PIECES.mask).any()
    assert (out.targets[asked] == rows.tokens[asked]).all()


def test_an_order_is_new_in_every_epoch_and_one_for_each_row():
    """All text is predicted, so that nothing differs but the order."""
    step = PermutedSpans(rate=0.97, reuse=0.0)
    rows = many(20, 64)
    text = rows.tokens >= len(SPECIAL_TOKENS)
    made = [run(step, rows, epoch) for epoch in (0, 1)]
    assert all((asked == text).all() for _, asked in made)
    first, second = (out.attention_order for out, _ in made)
    assert first.shape == (20, 64, 2)
    for order in first[:, :, 0]:
        assert sorted(order) == list(range(1, 65))  # an order of all positions
    assert (first != second).any(axis=(1, 2)).all()
    assert len({row.tobytes() for row in first}) == 20
    assert np.array_equal(run(step, rows)[0].attention_order, first)


@pytest.mark.parametrize(("reuse", "parts"), [(0.0, [slice(0, 32)]), (0.5, [slice(0, 16), slice(16, 32)])])
def test_any_position_comes_at_any_time_in_the_order_of_its_part(reuse, parts):
    out, _ = run(PermutedSpans(rate=0.97, reuse=reuse), many(2000, 32))  # all text is predicted
    for part in parts:
        numbers = out.attention_order[:, part, 0]
        ranks = np.argsort(np.argsort(numbers, axis=1), axis=1)
        size = ranks.shape[1]
        near = 4 * size / np.sqrt(12 * 2000)  # four deviations of a mean of 2,000 uniform ranks
        assert ranks.mean(axis=0) == pytest.approx(np.full(size, (size - 1) / 2), abs=near)


def test_no_target_ever_reads_itself_and_no_other_text_reads_a_target():
    rows = many(50, 64, pieces=0.3)
    out, asked = run(PermutedSpans(), rows)
    text = ~np.isin(rows.tokens, (PIECES.cls, PIECES.sep))
    for order, mine, words in zip(out.attention_order, asked, text, strict=True):
        hidden = hidden_by(order)
        assert hidden.diagonal()[mine].all()
        for half in (slice(0, 32), slice(32, 64)):
            assert hidden[half, half][np.ix_((words & ~mine)[half], mine[half])].all()
        assert hidden[:32, 32:].all() and not hidden[32:, :32].any()


def test_span_lengths_fall_like_one_over_n():
    step = PermutedSpans()
    draws = np.random.default_rng(0).random(200_000)
    counts = np.bincount([step.pieces(draw) for draw in draws], minlength=6)[1:] / len(draws)
    assert counts == pytest.approx([0.437956, 0.218978, 0.145985, 0.109489, 0.087591], abs=0.004)
    assert (counts * np.arange(1, 6)).sum() == pytest.approx(2.18978, abs=0.01)


def test_spans_start_with_words_and_leave_their_context_alone():
    step = PermutedSpans()
    starts = [place % 3 == 0 for place in range(60)]
    # n = 2 from the draws, so 12 pieces around it: 6 before, then to the next word
    assert step.spans(starts, needed=4, sizes=[0.5] * 60, lefts=[0.5] * 60) == [(6, 8), (21, 23)]
    # what is wanted ends the last one early
    assert step.spans(starts, needed=3, sizes=[0.5] * 60, lefts=[0.5] * 60) == [(6, 8), (18, 19)]


def test_backward_rows_predict_the_mirror_of_what_forward_rows_do():
    rows = many(30, 64, pieces=0.4)
    turned = Rows(
        tokens=rows.tokens[:, ::-1], segments=rows.segments, visible=rows.visible, reversed=np.ones(30, dtype=bool)
    )
    step = PermutedSpans(reuse=0.0)
    whole = PIECES.is_continuation
    _, asked = run(step, turned)
    natural = asked[:, ::-1]
    begins = natural & ~np.concatenate([np.zeros((30, 1), dtype=bool), natural[:, :-1]], axis=1)
    inside = whole[rows.tokens][begins].mean()
    assert inside < 0.25  # only single tokens that fill up begin inside a word, where 40% of the pieces lie
    _, forward = run(step, rows)
    assert np.array_equal(natural, forward)
