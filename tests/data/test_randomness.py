import numpy as np
import pytest

from plmkit.data.randomness import GOLDEN, Draws, generator, scramble


def test_the_words_are_those_of_splitmix64():
    states = np.array([1234567 + number * GOLDEN & (2**64 - 1) for number in (1, 2, 3)], dtype=np.uint64)
    assert scramble(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_numbers_follow_from_seed_epoch_and_index_alone():
    whole = Draws(7, 3, np.arange(10)).uniform(5)
    assert np.array_equal(Draws(7, 3, np.array([4, 9, 0])).uniform(5), whole[[4, 9, 0]])
    for seed, epoch in ((8, 3), (7, 4), (3, 7)):
        assert not np.isin(Draws(seed, epoch, np.arange(10)).uniform(5), whole).any()


def test_a_later_call_gives_new_numbers():
    draws = Draws(1, 2, np.arange(3))
    first, second = draws.uniform(4), draws.uniform(6)
    assert first.shape == (3, 4) and second.shape == (3, 6)
    assert not np.isin(second, first).any()


def test_the_numbers_of_a_later_call_do_not_depend_on_how_many_were_drawn_before():
    narrow, wide = Draws(1, 2, np.arange(3)), Draws(1, 2, np.arange(3))
    assert np.array_equal(narrow.uniform(8), wide.uniform(24)[:, :8])
    assert np.array_equal(narrow.uniform(8), wide.uniform(24)[:, :8])


@pytest.mark.parametrize("seed", [-1, 0, 2**63, 2**64 - 1, 2**80 + 5])
def test_any_whole_number_is_a_seed(seed):
    numbers = Draws(seed, 10**12, np.array([0, 2**40])).uniform(3)
    assert numbers.shape == (2, 3)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert generator(seed, 1).random() == generator(seed, 1).random()


def test_numbers_are_spread_evenly_and_neighbours_are_strangers():
    numbers = Draws(0, 0, np.arange(2000)).uniform(200)
    assert abs(numbers.mean() - 0.5) < 0.002
    assert np.histogram(numbers, bins=20, range=(0, 1))[0] == pytest.approx(20_000, rel=0.05)
    for first, second in ((numbers[:-1], numbers[1:]), (numbers[:, :-1], numbers[:, 1:])):
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.01
    assert len(np.unique(numbers)) == numbers.size


def test_each_purpose_has_a_generator_of_its_own():
    drawn = [generator(*key).random() for key in ((1,), (2,), (1, 1), (1, 2), (1, 1, 1), (-1,))]
    assert len(set(drawn)) == len(drawn)
    assert generator(1, 2).random() == generator(1, 2).random()
