"""Positions as distances: FACTS that both Transformer-XL and XLNet stand on."""

import pytest
import torch

from plmkit.layers.relative import distances_around, distances_before, relative_shift, sinusoids


def test_scores_by_distance_come_under_their_keys_and_the_future_is_garbage():
    scores = torch.arange(15).view(3, 5)
    assert relative_shift(scores, keys=5).tolist() == [[2, 3, 4, 0, 5], [6, 7, 8, 9, 0], [10, 11, 12, 13, 14]]


def test_columns_labelled_by_distance_give_each_pair_its_distance_before():
    columns = distances_before(5).expand(3, -1)
    assert columns[0].tolist() == [4, 3, 2, 1, 0]
    shifted = relative_shift(columns, keys=5)
    assert [row[: 3 + i].tolist() for i, row in enumerate(shifted)] == [[2, 1, 0], [3, 2, 1, 0], [4, 3, 2, 1, 0]]


def test_columns_in_both_directions_leave_nothing_garbage():
    columns = distances_around(3, 3)
    assert columns.tolist() == [2, 1, 0, -1, -2]
    assert relative_shift(columns.expand(3, -1), keys=3).tolist() == [[0, -1, -2], [1, 0, -1], [2, 1, 0]]


def test_memory_stands_before_the_first_query():
    columns = distances_around(2, 4).expand(2, -1)
    assert relative_shift(columns, keys=4).tolist() == [[2, 1, 0, -1], [3, 2, 1, 0]]


def test_a_single_query_reads_its_row_as_it_is():
    scores = torch.arange(4.0).view(1, 4)
    assert relative_shift(scores, keys=4).tolist() == scores.tolist()


@pytest.mark.parametrize("queries, keys", [(1, 1), (1, 7), (4, 4), (5, 9), (8, 13)])
def test_the_shift_is_a_gather_by_distance_with_the_same_gradient(queries, keys):
    torch.manual_seed(0)
    scores = torch.randn(2, 3, queries, keys + queries - 1, requires_grad=True)
    query, key = torch.arange(queries)[:, None], torch.arange(keys)
    distance = query + keys - queries - key
    gathered = scores.gather(-1, (keys - 1 - distance).expand(2, 3, -1, -1))
    shifted = relative_shift(scores, keys)
    assert torch.equal(shifted, gathered)
    weights = torch.randn_like(shifted)
    (ours,) = torch.autograd.grad((shifted * weights).sum(), scores)
    (theirs,) = torch.autograd.grad((gathered * weights).sum(), scores)
    assert torch.equal(ours, theirs)


def test_all_distances_make_the_shift_a_view():
    scores = torch.randn(2, 4, 9)
    assert relative_shift(scores, keys=6).data_ptr() == scores[0, 0, 3:].data_ptr()


def test_waves_are_all_sines_then_all_cosines():
    waves = sinusoids(torch.tensor([0, 1, 2, -1]), width=4)
    expected = [
        [0.0, 0.0, 1.0, 1.0],
        [0.841471, 0.010000, 0.540302, 0.999950],
        [0.909297, 0.019999, -0.416147, 0.999800],
        [-0.841471, -0.010000, 0.540302, 0.999950],
    ]
    assert torch.allclose(waves, torch.tensor(expected), atol=1e-6)
