"""Random numbers that are pure functions of (seed, epoch, index): nothing to store, nothing to replay."""

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
WORD = 0xFFFFFFFFFFFFFFFF


def generator(*key: int) -> np.random.Generator:
    """A generator for one purpose, named by whole numbers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([part & WORD for part in key])))


def scramble(words: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser (Steele et al., 2014): neighbouring counters give unrelated words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class Draws:
    """Numbers for a batch of rows; row i's depend on (seed, epoch, indices[i]) and on no other row."""

    def __init__(self, seed: int, epoch: int, indices: np.ndarray) -> None:
        start = np.array([seed & WORD], dtype=np.uint64)
        start = scramble(start + np.uint64(GOLDEN))
        start = scramble(start ^ np.uint64((epoch * GOLDEN + 1) & WORD))
        self.rows = scramble(start + np.asarray(indices, dtype=np.uint64) * np.uint64(GOLDEN))
        self.drawn = 0

    def uniform(self, count: int) -> np.ndarray:
        """(rows, count) numbers in [0, 1); a later call gives new ones."""
        counter = np.arange(self.drawn + 1, self.drawn + 1 + count, dtype=np.uint64) * np.uint64(GOLDEN)
        self.drawn += count
        words = scramble(self.rows[:, None] + counter)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
