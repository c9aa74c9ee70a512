"""Token vectors from which tokens stand near each other: what counting knows of words before any training."""

import numpy as np
from scipy import sparse

from plmkit.data.randomness import generator
from plmkit.data.shards import TokenStore, let_go

REACH = 8  # tokens to either side that are near
MOST_TOKENS = 2_000_000  # that are counted, in documents drawn at random: memory grows with them
SMOOTHING = 0.75  # of how often a neighbour occurs: rare ones would weigh too much (Levy et al., 2015, 3.1)
CHOICE, TURN = 41, 42  # purposes of random numbers


def token_vectors(store: TokenStore, documents: np.ndarray, size: int, width: int, seed: int) -> np.ndarray:
    """(size, width) a vector of length 1 for each token, tokens with like neighbours alike; zeros if nothing is known.

    The strongest directions of positive pointwise mutual information (Levy and Goldberg, 2014), turned at random: no
    column is stronger than another.
    """
    from sklearn.utils.extmath import randomized_svd
    from threadpoolctl import threadpool_limits

    known = information(count_near(text_of(store, drawn(store, documents, seed)), size))
    some = np.diff(known.indptr) > 0
    vectors = np.zeros((size, width), dtype=np.float32)
    if not some.any():
        return vectors
    rank = min(width, size)
    with threadpool_limits(1):  # or else the last bits are of how many cores there are
        left, strengths, _ = randomized_svd(known, rank, n_iter=2, random_state=seed % 2**32)
        turn, _ = np.linalg.qr(generator(seed, TURN).normal(size=(width, width)))
        vectors[some, :rank] = (left * np.sqrt(strengths))[some]
        vectors[some] -= vectors[some].mean(0)  # what all have in common tells none apart
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors @ turn.astype(np.float32)


def drawn(store: TokenStore, documents: np.ndarray, seed: int) -> np.ndarray:
    """As many of the documents as have MOST_TOKENS in all, or all of them, in the order of the text."""
    order = generator(seed, CHOICE).permutation(documents)
    tokens = store.document_tokens()[order]
    return np.sort(order[np.cumsum(tokens) - tokens < MOST_TOKENS])


def text_of(store: TokenStore, documents: np.ndarray) -> np.ndarray:
    """Their tokens in one row, with so many -1 behind each that documents are not near each other."""
    parts = [np.full(REACH, -1, dtype=np.int32)]
    for document in documents.tolist():
        begin, end = store.stretch(document)
        parts += [store.tokens[begin : min(end, begin + MOST_TOKENS)].astype(np.int32), parts[0]]
    let_go(store.tokens)
    return np.concatenate(parts)


def count_near(row: np.ndarray, size: int) -> sparse.csr_array:
    """(size, size) how often each token stands near each other one."""
    counts = sparse.csr_array((size, size), dtype=np.float32)
    for distance in range(1, REACH + 1):
        one, other = row[:-distance], row[distance:]
        both = (one >= 0) & (other >= 0)
        ones = np.ones(int(both.sum()), dtype=np.float32)
        counts = counts + sparse.coo_array((ones, (one[both], other[both])), shape=(size, size)).tocsr()
    return sparse.csr_array(counts + counts.T)


def information(near: sparse.csr_array) -> sparse.csr_array:
    """How much oftener than by chance two tokens stand near each other, as a logarithm; 0 where it is not oftener.

    The counts are used up: they are the largest thing here, and are changed in place.
    """
    totals = near.sum(1)
    smooth = totals**SMOOTHING
    near.data *= smooth.sum()
    near.data /= np.repeat(totals, np.diff(near.indptr))
    near.data /= smooth[near.indices]
    np.log(np.maximum(near.data, 1, out=near.data), out=near.data)
    near.eliminate_zeros()
    return near
