"""Rows by which a graph is compared with its network."""

from plmkit.compression.texts import SIZES, lengths_of, rows_at
from plmkit.inference.loading import load


def test_there_are_four_lengths_and_four_batch_sizes():
    assert lengths_of(512) == [8, 32, 128, 512]
    assert SIZES == (1, 2, 4, 8)


def test_the_first_row_has_the_length_and_the_others_leave_padding(pretrained):
    rows = rows_at(load(pretrained), 32, 4)
    lengths = [len(row.tokens) for row in rows]
    assert lengths[0] == 32
    assert all(16 <= length <= 32 for length in lengths) and len(set(lengths)) > 1
