"""What an arrangement says of its rows is what they are: texts, segments, and how much of a row they fill."""

from dataclasses import replace

import numpy as np
import pytest
from stores import all_documents, store_of

from plmkit.corruption.arrange.dialogue import Dialogue
from plmkit.corruption.arrange.packing import ContiguousSegments, DocSentences, FullSentences, SingleSegment
from plmkit.corruption.arrange.pairs import OrderedPairs, SentencePairs
from plmkit.data.rows import Rows
from plmkit.data.samples import Samples
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary

SHORT = store_of(*([[1] * 60] * 40))  # sentences of one token: rows can be filled to the last place
LONG = store_of(*([[20] * 4] * 40))
WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, "word"))
TEXTS = {SentencePairs: 2, OrderedPairs: 2, ContiguousSegments: 2, Dialogue: 3, SingleSegment: 1, FullSentences: 1,
         DocSentences: 1}  # fmt: skip


def rows_of(kind: type, separators: int) -> Rows:
    """An epoch of rows of at most 32 tokens."""
    vocabulary = replace(WORDS, separators=separators)
    lengths = LONG if kind is Dialogue else SHORT  # an utterance is one sentence
    store = replace(lengths, tokens=np.full_like(lengths.tokens, len(SPECIAL_TOKENS)))
    samples = Samples(store, all_documents(store), [kind()], vocabulary, seed=0)
    return samples.rows(0, 0, len(samples.plan(0, 32)[1]), 32)


@pytest.mark.parametrize(
    ("kind", "separators"), [*((kind, 1) for kind in TEXTS), *((kind, 2) for kind in TEXTS if kind is not Dialogue)]
)
def test_rows_are_filled_to_the_last_place_and_no_further_however_many_separators_stand_between_texts(kind, separators):
    rows = rows_of(kind, separators)
    lengths = rows.visible.sum(1)
    assert lengths.max() == 32
    assert (rows.tokens == WORDS.sep).sum(1).max() == 1 + (TEXTS[kind] - 1) * separators
    assert (rows.tokens[np.arange(len(lengths)), lengths - 1] == WORDS.sep).all()


@pytest.mark.parametrize("kind", TEXTS, ids=lambda kind: kind.__name__)
def test_rows_have_as_many_segments_as_the_network_is_given(kind):
    assert rows_of(kind, 1).segments.max() + 1 == kind.segments
