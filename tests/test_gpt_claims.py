"""What is said of GPT, checked in the small."""

import random
from dataclasses import replace

import pytest
import torch
from conftest import OBJECTS, SUBJECTS, VERBS, sentence

import plmkit
from plmkit.architectures.decoder import Decoder
from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch
from plmkit.objectives.causal_lm import CausalLM
from plmkit.run import settle
from plmkit.training.loop import Budget
from plmkit.training.pretrain import Order, pretrain
from plmkit.training.progress import Screen

SMALL = (
    "schedule.lengths=[[1.0, 32]]", "architecture.longest=32", "architecture.layers=2", "architecture.heads=2",
    "architecture.width=32", "architecture.inner=64", "tokenizer.size=400", "run.threads=1", "schedule.rate=1e-2",
)  # fmt: skip


@pytest.fixture(scope="module")
def writer(made):
    """A GPT-2 that has read simple sentences for a few seconds."""
    rng = random.Random(4)
    corpus = made / "simple.txt"
    corpus.write_text("\n\n".join(" ".join(sentence(rng) for _ in range(6)) for _ in range(150)), encoding="utf-8")
    order = Order(
        settings=settle(find("gpt2-tiny"), SMALL), corpora=(str(corpus),), out=made / "writer",
        budget=Budget(steps=120),
    )  # fmt: skip
    pretrain(order, Screen())
    return plmkit.load(order.out, device="cpu")


def test_a_sentence_is_likelier_than_its_words_in_another_order(writer):
    rng = random.Random(9)
    right = 0
    for _ in range(30):
        words = f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}.".split()
        shuffled = rng.sample(words, len(words))
        while shuffled == words:
            shuffled = rng.sample(words, len(words))
        right += writer.score(" ".join(words)).log_probability > writer.score(" ".join(shuffled)).log_probability
    assert right >= 27  # of 30


def test_what_is_grammatical_is_likelier_than_a_pair_that_is_not(writer):
    """Pairs that differ by one place: a verb where a verb may stand, and where none may."""
    rng = random.Random(2)
    right = 0
    for _ in range(30):
        subject, verb, thing = rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS)
        good, bad = f"{subject} {verb} {thing}.", f"{subject} {thing} {verb}."
        right += writer.score(good).log_probability > writer.score(bad).log_probability
    assert right >= 24  # of 30


# rows


def network(dropout: float):
    torch.manual_seed(0)
    settings = Decoder(layers=2, heads=2, width=16, inner=64, longest=24, dropout=dropout, attention_dropout=dropout)
    model = settings.build(range(30))
    return model, CausalLM().build(model)


def rows(tokens: torch.Tensor, length: int) -> Batch:
    """Rows of tokens with padding up to a length."""
    padded = torch.nn.functional.pad(tokens, (0, length - tokens.shape[1]))
    visible = torch.arange(length).expand(len(tokens), -1) < tokens.shape[1]
    targets = padded.roll(-1, 1).masked_fill(torch.arange(length) >= tokens.shape[1] - 1, IGNORE)
    return Batch(tokens=padded, segments=torch.zeros_like(padded), visible=visible, targets=targets)


def test_padding_does_not_change_the_loss():
    model, head = network(0.0)
    tokens = torch.randint(30, (3, 7))
    losses = [head(model(batch), batch).item() for batch in (rows(tokens, 7), rows(tokens, 12))]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_dropout_changes_training_and_leaves_use_alone():
    model, _ = network(0.3)
    batch = rows(torch.randint(30, (2, 8)), 8)
    first, again = model.train()(batch).hidden, model(batch).hidden
    assert not torch.equal(first, again)
    model.eval()
    assert torch.equal(model(batch).hidden, model(batch).hidden)


def test_nothing_before_the_window_is_read():
    """A row is all that there is: the loss of a row is the same whatever row stands beside it."""
    model, head = network(0.0)
    tokens = torch.randint(30, (2, 8))
    alone = rows(tokens[:1], 8)
    other = rows(torch.cat([tokens[:1], (tokens[1:] + 1) % 30]), 8)
    only = replace(other, targets=other.targets.masked_fill(torch.tensor([[False], [True]]), IGNORE))
    assert head(model(alone), alone).item() == pytest.approx(head(model(only), only).item(), abs=1e-6)


def test_the_summary_tells_depth_and_direction(plm):
    shown = plm("recipes", "gpt1").out
    assert "architecture: PostNormDecoder: Causal Transformer" in shown
    assert "architecture.layers=12" in shown
