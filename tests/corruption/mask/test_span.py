import numpy as np
import pytest
from masking_rows import PIECES, WORDS, Forced, many, rows_of, stretches
from scipy.stats import chisquare

from plmkit.corruption.contract import Counts
from plmkit.corruption.mask.masking import runs_of
from plmkit.corruption.mask.span import SpanMasking, edges_of
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws, generator
from plmkit.data.rows import Rows

PMF = [0.2241, 0.1792, 0.1434, 0.1147, 0.0918, 0.0734, 0.0587, 0.0470, 0.0376, 0.0301]


def run(rows: Rows, **settings):
    out = SpanMasking(**settings)(rows, PIECES, Draws(2, 0, np.arange(len(rows.tokens))))
    return out, out.targets != IGNORE


def test_lengths_are_geometric_cut_at_ten_and_renormalised():
    evenly = (np.arange(1_000_000) + 0.5) / 1_000_000
    lengths = SpanMasking().lengths(evenly)
    assert np.bincount(lengths)[1:] / 1_000_000 == pytest.approx(PMF, abs=1e-4)
    assert lengths.mean() == pytest.approx(3.7971, abs=1e-3)
    assert lengths.var() == pytest.approx(6.5240, abs=5e-3)


def test_drawn_lengths_have_a_mean_of_3_80():
    lengths = SpanMasking().lengths(generator(1).random(300_000))
    assert np.bincount(lengths)[1:] / 300_000 == pytest.approx(PMF, abs=0.01)
    assert lengths.mean() == pytest.approx(3.80, abs=0.03)
    assert (lengths.min(), lengths.max()) == (1, 10)


@pytest.mark.parametrize(("geometric", "max_length", "mean"), [(0.5, 2, 4 / 3), (0.2, 1, 1.0), (0.4, 3, 3.28 / 1.96)])
def test_other_lengths_can_be_set(geometric, max_length, mean):
    lengths = SpanMasking(geometric=geometric, max_length=max_length).lengths((np.arange(10_000) + 0.5) / 10_000)
    assert lengths.mean() == pytest.approx(mean, abs=1e-3)


def test_swapped_tokens_come_as_often_as_they_occur_in_the_corpus():
    corpus = np.repeat(np.array([7, 9, 11, 400], dtype=np.uint16), [10, 20, 30, 40])
    step = SpanMasking(mask_share=0.0, random_share=1.0).prepared(Counts(tokens=corpus))
    out = step(many(400, 64), PIECES, Draws(0, 0, np.arange(400)))
    hidden = out.targets != IGNORE
    found, counts = np.unique(out.tokens[hidden], return_counts=True)
    assert found.tolist() == [7, 9, 11, 400]
    assert chisquare(counts, hidden.sum() * np.array([0.1, 0.2, 0.3, 0.4])).pvalue > 0.001
    assert counts.sum() == hidden.sum() > 3000


def length_draw(words: int) -> float:
    return float(np.cumsum([0, *PMF])[words - 1] + PMF[words - 1] / 2)


def anchor_draw(number: int, free: int) -> float:
    return (number + 0.5) / free


#        0     1   2   3   4  5 6   7  8      9    10    11  12  13   14   15
TEXT = "[CLS] the cat sat on a mat un ##want ##ed guest ##s ran away over [SEP]"  # 14 pieces of text
ROOM = {3: 0.2, 4: 0.28, 6: 0.42, 7: 0.5}  # rates that leave room for this many


@pytest.mark.parametrize(
    ("room", "spans", "masked"),
    [
        (3, [(3, 2, 14)], [3, 4, 5]),
        (7, [(3, 7, 14), (1, 0, 8)], [1, 7, 8, 9, 10, 11, 12]),  # ##want leads back to un; three words, six pieces
        (4, [(3, 8, 14)], [7, 8, 9, 10]),  # the last span ends inside a word, where the room does
        (4, [(3, 11, 14), (1, 0, 11)], [1, 12, 13, 14]),
        (4, [(9, 12, 14), (2, 0, 12)], [1, 2, 13, 14]),  # [SEP] ends a span
        (6, [(2, 3, 14), (4, 1, 12), (1, 0, 10)], [1, 2, 3, 4, 5, 6]),
        (4, [(2, 3, 14), (4, 2, 12)], [3, 4, 5, 6]),  # words hidden already count in the span, not in the room
    ],
)
def test_spans_are_placed_as_the_draws_say(room, spans, masked):
    lengths = [length_draw(words) for words, _, _ in spans]
    anchors = [anchor_draw(number, free) for _, number, free in spans]
    rest = [0.0] * (16 - len(spans))
    step = SpanMasking(rate=ROOM[room])
    out = step(rows_of(TEXT), WORDS, Forced(0.0, 0.0, lengths + rest, anchors + rest))
    assert np.flatnonzero(out.targets[0] != IGNORE).tolist() == masked


def test_edges_are_the_places_just_outside_and_touching_spans_are_one():
    lengths, anchors = [length_draw(2)] * 2 + [0.0] * 14, [anchor_draw(2, 14), anchor_draw(2, 12)] + [0.0] * 14
    out = SpanMasking(rate=0.28)(rows_of(TEXT), WORDS, Forced(0.0, 0.0, lengths, anchors))
    assert np.flatnonzero(out.targets[0] != IGNORE).tolist() == [3, 4, 5, 6]  # sat on, then a mat
    assert out.edges.shape == (1, 16, 2)
    assert out.edges[0, 3:7].tolist() == [[2, 7]] * 4
    assert (np.delete(out.edges[0], [3, 4, 5, 6], axis=0) == -1).all()


def test_a_span_without_a_token_before_or_after_has_no_edges():
    hidden = np.array([[True, True, False, True, False, True], [False, True, False, False, True, False]])
    visible = np.array([[True] * 6, [True] * 5 + [False]])
    assert edges_of(runs_of(hidden), visible).tolist() == [
        [[-1, -1], [-1, -1], [-1, -1], [2, 4], [-1, -1], [-1, -1]],
        [[-1, -1], [0, 2], [-1, -1], [-1, -1], [-1, -1], [-1, -1]],
    ]


def test_edges_are_those_of_every_span_in_many_rows():
    out, hidden = run(many(500, 64, pieces=0.2))
    for mask, edges in zip(hidden, out.edges, strict=True):
        wanted = np.full((64, 2), -1)
        for begin, end in stretches(mask):
            wanted[begin : end + 1] = begin - 1, end + 1
        assert (edges == wanted).all()
        assert not mask[edges[mask]].any()  # an edge is never hidden


def test_the_budget_is_used_up_exactly():
    for length, room in [(10, 2), (40, 6), (64, 10), (128, 19), (23, 3)]:  # three special tokens do not count
        assert room == -(-3 * (length - 3) // 20)
        _, hidden = run(many(300, length, pieces=0.3))
        assert (hidden.sum(axis=1) == room).all()


def test_all_tokens_of_a_span_are_treated_in_the_same_way():
    out, hidden = run(many(6000, 128, pieces=0.2))
    kinds, lucky, alone, swapped = np.zeros(3), 0, 0, 0
    for shown, true, mask in zip(out.tokens, out.targets, hidden, strict=True):
        for begin, end in stretches(mask):
            inside = slice(begin, end + 1)
            masked, same = shown[inside] == PIECES.mask, shown[inside] == true[inside]
            assert masked.all() or not masked.any()
            kinds[0 if masked.all() else 2 if same.all() else 1] += 1
            lucky += same.any() and not same.all()  # a random token that is the right one
            if not masked.any() and not same.any() and end > begin:
                swapped += 1
                alone += len(set(shown[inside].tolist())) > 1
    assert kinds / kinds.sum() == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    assert lucky < 0.02 * kinds[1]  # about four tokens a span, each right once in a thousand
    assert alone > 0.99 * swapped > 0  # each random token is its own draw


def test_spans_start_anywhere_with_the_same_chance():
    """Room for one token: its place is where the span begins."""
    _, hidden = run(many(20_000, 64), rate=0.01)
    starts = np.delete(hidden.sum(axis=0), [0, 32, 63])
    assert starts.sum() == 20_000
    assert chisquare(starts).pvalue > 0.001


def test_spans_start_evenly_away_from_the_ends():
    rows = many(10_000, 128)
    rows.tokens[:, 64] = 7  # one text
    _, hidden = run(rows, rate=0.05)  # seven tokens: one span, or a few
    begins = hidden & ~np.roll(hidden, 1, axis=1)
    assert chisquare(begins[:, 15:112].sum(axis=0)).pvalue > 0.001


def test_merged_spans_of_single_pieces_are_3_9_tokens_long():
    rows = many(1000, 510)
    rows.tokens[:, 255] = 7
    _, hidden = run(rows)
    sizes = [end - begin + 1 for mask in hidden for begin, end in stretches(mask)]
    assert np.mean(sizes) == pytest.approx(3.9, abs=0.15)
    assert max(sizes) > 10  # where spans touch
