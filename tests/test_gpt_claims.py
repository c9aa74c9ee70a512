"""What is said of GPT, checked in the small."""

import random

import numpy as np
import pytest
import torch
from sentences import OBJECTS, SUBJECTS, VERBS, sentence
from stores import store_of

import plmkit
from plmkit.architectures.decoder import Decoder, PostNormDecoder
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.corruption.arrange.stream import Stream
from plmkit.data.batch import IGNORE, Batch, Side, as_batch
from plmkit.data.vocabulary import Vocabulary, unnamed
from plmkit.objectives.causal_lm import CausalLM
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

SMALL = (
    "stages=[[1.0, 32]]", "architecture.max_length=32", "architecture.layers=2", "architecture.heads=2",
    "architecture.width=32", "architecture.inner=64", "tokenizer.size=400", "run.threads=1",
    "schedule.learning_rate=1e-2",
)  # fmt: skip


@pytest.fixture(scope="module")
def writer(made):
    """A GPT-2 that has read simple sentences for a few seconds."""
    rng = random.Random(4)
    corpus = made / "simple.txt"
    corpus.write_text("\n\n".join(" ".join(sentence(rng) for _ in range(6)) for _ in range(150)), encoding="utf-8")
    request = PretrainRequest(
        settings=settle(find("gpt2-tiny"), SMALL), corpora=(str(corpus),), out=made / "writer",
        budget=Budget(steps=120),
    )  # fmt: skip
    pretrain(request, Screen())
    return plmkit.load(request.out, device="cpu")


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
    settings = Decoder(layers=2, heads=2, width=16, inner=64, max_length=24, dropout=dropout, attention_dropout=dropout)
    model = settings.build(unnamed(30))
    return model, CausalLM().build(model)


def rows(tokens: torch.Tensor, length: int) -> Batch:
    """Rows of tokens with padding up to a length."""
    padded = torch.nn.functional.pad(tokens, (0, length - tokens.shape[1]))
    visible = torch.arange(length).expand(len(tokens), -1) < tokens.shape[1]
    targets = padded.roll(-1, 1).masked_fill(torch.arange(length) >= tokens.shape[1] - 1, IGNORE)
    return Batch(source=Side(tokens=padded, visible=visible, segments=torch.zeros_like(padded)), targets=targets)


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


WINDOW = 6
LETTERS = Vocabulary.from_tokens([*"abcdefghijklmnopqrs", "<|endoftext|>"], needed=("end",))


def text_in_windows() -> Batch:
    """The letters from a to s and an end, in rows of six: the rows of GPT-1's pretraining."""
    store, step = store_of([19]), Stream()
    plan = step.plan(store, np.array([0]), WINDOW, np.random.default_rng(0))
    rows = step.fill(store, plan, np.arange(len(plan)), LETTERS, WINDOW)
    return as_batch(rows)


@pytest.mark.parametrize("kind", [PostNormDecoder, Decoder])
def test_a_token_depends_on_those_of_its_window_and_on_none_that_is_older(kind):
    """L1 of Radford et al., 2018, 3.1: the log-likelihood of each token given at most k before it."""
    torch.manual_seed(0)
    shape = {"layers": 2, "heads": 2, "width": 16, "inner": 64, "dropout": 0.0, "attention_dropout": 0.0}
    model = kind(**shape, max_length=WINDOW).build(LETTERS)
    head, batch, vectors = CausalLM().build(model), text_in_windows(), []
    model.embed.register_forward_hook(lambda part, given, made: vectors.append(made))
    states = model(batch)
    logs = (states.hidden[batch.source.visible] @ model.embed.tokens.weight.T).log_softmax(-1)
    reported = torch.stack([logs[place - 1, place] for place in range(1, 20)])  # token n stands at place n of the text
    torch.testing.assert_close(head(states, batch), -reported.mean())
    for place in range(1, 20):
        (gradient,) = torch.autograd.grad(reported[place - 1], vectors[0], retain_graph=True)
        reached = gradient.abs().amax(1).nonzero().flatten().tolist()
        begins = (place - 1) // WINDOW * WINDOW
        assert reached == list(range(begins, place))
        assert place - reached[0] <= WINDOW


def test_the_summary_tells_depth_and_direction(plm):
    shown = plm("recipes", "gpt1").out
    assert "architecture: PostNormDecoder: Causal Transformer" in shown
    assert "architecture.layers=12" in shown
    shown = plm("recipes", "elmo-original").out
    assert "architecture: Elmo: Two stacks of LSTMs, one per direction" in shown
    assert "architecture.layers=2" in shown
