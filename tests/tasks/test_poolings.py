"""Every pooling, in every architecture: its shape, the state that it reads, and that padding does not change it."""

import pytest
import torch
from untrained import READING, untrained

from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.tasks.batches import batch_of_examples
from plmkit.tasks.contract import Row
from plmkit.tasks.heads import POOLINGS
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.kinds.match import Match
from plmkit.tasks.kinds.nli import NLI
from plmkit.tokenizers.tokenizer import Tokenizer

LENGTH = 24
ROWS = [
    Row(text="the cat sees a house.", other="a dog.", label="x", line=1),
    Row(text="a bird", other="the moon hears the sea and the king.", label="y", line=2),
]


@pytest.mark.parametrize("name", READING)
def test_every_pooling_has_its_shape_and_ignores_padding(name, tmp_path):
    parts = untrained(name, tmp_path)
    architecture = parts.architecture.for_task(0.1)
    model = architecture.build(parts.vocabulary).eval()
    width, vocabulary = architecture.width, parts.tokenizer.vocabulary
    for pooling in POOLINGS:
        task = NLI(classes=("x", "y"), pooling=pooling, length=LENGTH)
        examples = task.frame(ROWS, parts.tokenizer, LENGTH)
        assert len({example.length for example in examples}) == 2
        head = task.head(architecture, 0.0).eval()
        with torch.no_grad():
            both = batch_of_examples(examples, vocabulary, task.fixed_length)
            pooled = head.pool(model(both), both)
            alone = [batch_of_examples([one], vocabulary, task.fixed_length) for one in examples]
            found = torch.cat([head.pool(model(batch), batch) for batch in alone])
        assert pooled.shape == (2, LENGTH * width if pooling == "concat" else width), pooling
        torch.testing.assert_close(pooled, found, atol=1e-5, rtol=1e-4, msg=lambda text, of=pooling: f"{of}: {text}")


WANTED = {"bert-tiny": "[SEP]", "xlnet-tiny": "<sep>", "gpt1-tiny": "_classify_", "lstm-tiny": "_classify_"}


@pytest.mark.parametrize("name", WANTED)
def test_the_separator_is_the_last_one_of_a_row(name, tmp_path):
    parts = untrained(name, tmp_path)
    vocabulary = parts.tokenizer.vocabulary
    for rows, kind in ((ROWS, NLI), ([Row(text="a bird", line=1), Row(text="the cat sees", line=2)], Classify)):
        batch = batch_of_examples(kind(classes=("x", "y")).frame(rows, parts.tokenizer, LENGTH), vocabulary)
        tokens = batch.source.tokens
        read = tokens[torch.arange(len(tokens)), batch.separators].tolist()
        assert vocabulary.names(read) == [WANTED[name]] * 2
        names = [vocabulary.names(row[shown].tolist()) for row, shown in zip(tokens, batch.source.visible, strict=True)]
        lasts = [max(place for place, token in enumerate(row) if token == WANTED[name]) for row in names]
        firsts = batch.source.visible.int().argmax(1).tolist()
        assert batch.separators.tolist() == [first + last for first, last in zip(firsts, lasts, strict=True)]


def test_the_last_state_is_that_of_the_last_token_and_the_separator_that_of_its_own(tmp_path):
    parts = untrained("xlnet-tiny", tmp_path)  # ... <sep> <cls>, padding first
    examples = Classify(classes=("x", "y")).frame([Row(text="a bird", line=1)], parts.tokenizer, LENGTH)
    batch = batch_of_examples(examples, parts.tokenizer.vocabulary)
    states = parts.architecture.build(parts.vocabulary).eval()(batch)
    for pooling, place in (("last", -1), ("separator", -2)):
        head = Classify(classes=("x", "y"), pooling=pooling).head(parts.architecture)
        assert torch.equal(head.pool(states, batch), states.hidden[:, place])


def test_a_vocabulary_without_a_separator_refuses_to_read_its_state(tmp_path):
    class Bare(Tokenizer):
        vocabulary = Vocabulary(tokens=("a", "b"), special=frozenset())

        def __init__(self) -> None: ...

    assert Bare.vocabulary.separator is None
    with pytest.raises(SettingError, match=r"ends a row without one. Take first, last, mean or max\."):
        Classify(pooling="separator").frame([Row(text="a", line=1)], Bare(), LENGTH)


@pytest.mark.parametrize("pooling", ["concat", "last", "separator"])
def test_vectors_of_match_have_the_poolings_of_sentence_vectors(pooling):
    with pytest.raises(SettingError, match=f"takes first, mean or max; found '{pooling}'"):
        Match(pooling=pooling)
