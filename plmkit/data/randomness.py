"""Random numbers that are pure functions of (seed, epoch, index): nothing to store, nothing to replay."""

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
WORD = 0xFFFFFFFFFFFFFFFF
CALL = 1 << 32  # more numbers than any call draws for a row


def generator(*key: int) -> np.random.Generator:
    """A generator for one purpose, identified by integers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([part & WORD for part in key])))


def scramble(words: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser (Steele et al., 2014): neighbouring counters give unrelated words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = words ^ (words >> np.uint64(31))
    return mixed


class Draws:
    """Numbers for a batch of rows; row i's depend on (seed, epoch, indices[i]) and on no other row."""

    def __init__(self, seed: int, epoch: int, indices: np.ndarray) -> None:
        start = np.array([seed & WORD], dtype=np.uint64)
        start = scramble(start + np.uint64(GOLDEN))
        start = scramble(start ^ np.uint64((epoch * GOLDEN + 1) & WORD))
        self.rows = scramble(start + np.asarray(indices, dtype=np.uint64) * np.uint64(GOLDEN))
        self.calls = 0

    def uniform(self, count: int) -> np.ndarray:
        """(rows, count) numbers in [0, 1); a later call gives new ones."""
        self.calls += 1  # each call counts from its own start, so that a wider batch changes no row's numbers
        start = (self.calls * CALL) & WORD
        counter = np.arange(start, start + count, dtype=np.uint64) * np.uint64(GOLDEN)
        words = scramble(self.rows[:, None] + counter)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
