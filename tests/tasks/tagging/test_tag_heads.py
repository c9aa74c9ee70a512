"""Heads of tags: one layer for all positions, equal to that of transformers; the CRF, against all sequences."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification

from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.vocabulary import unnamed
from plmkit.interop.families import bert
from plmkit.interop.huggingface import from_huggingface
from plmkit.network import Network
from plmkit.tasks.heads import ClassHead
from plmkit.tasks.kinds.slots import Slots
from plmkit.tasks.kinds.tag import Tag
from plmkit.tasks.tagging.heads import CrfHead, SlotsHead, TagHead

ENCODER = Encoder(
    layers=1, heads=2, width=16, inner=24, max_length=12, dropout=0.0, attention_dropout=0.0, activation="gelu"
)
TASK = Tag(classes=("O", "B-a", "I-a"), scheme="BIO")


def batch_of(words: list[list[tuple[int, int]]], labels: list[list[int]], rows: int, length: int = 6) -> Batch:
    side = Side(tokens=torch.arange(rows * length).view(rows, length), visible=torch.ones(rows, length).bool())
    most = max(map(len, words))
    places = [[*own, *[(-1, -1)] * (most - len(own))] for own in words]
    tags = [[*own, *[IGNORE] * (most - len(own))] for own in labels]
    return Batch(source=side, words=torch.tensor(places), labels=torch.tensor(tags))


def test_one_layer_serves_all_positions_so_its_size_does_not_depend_on_the_length():
    """Not a layer per position, as is sometimes drawn."""
    sizes = {
        length: sum(weight.numel() for weight in replace(TASK, length=length).head(ENCODER).parameters())
        for length in (8, 512)
    }
    assert sizes == {8: 16 * 3 + 3, 512: 16 * 3 + 3}


def test_answers_are_those_of_the_first_tokens_also_in_several_windows():
    torch.manual_seed(0)
    head = TagHead(width=4, tags=2).eval()
    hidden = torch.randn(3, 6, 4)
    batch = replace(batch_of([[(0, 1), (1, 2)], [(0, 4)]], [[0, 1], [1]], 3), alternatives=torch.tensor([0, 0, 1]))
    answers = head.answers(States(hidden=hidden), batch)
    torch.testing.assert_close(answers[0], head.classify(hidden[[0, 1], [1, 2]]))
    torch.testing.assert_close(answers[1, 0], head.classify(hidden[2, 4]))
    needed = head.needed(batch)
    assert needed.nonzero().tolist() == [[0, 1], [1, 2], [2, 4]]
    assert head.scored(batch) == 3
    second = batch.part(1, 2)  # a micro-batch of the second example
    torch.testing.assert_close(head.answers(States(hidden=hidden[2:]), second), answers[1:])


def test_loss_and_gradients_are_those_of_transformers_on_the_same_weights():
    torch.manual_seed(1)
    theirs = BertForTokenClassification(
        BertConfig(
            vocab_size=40,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=12,
            num_labels=3,
            initializer_range=0.3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=39,
        )
    ).train()
    model = ENCODER.build(unnamed(40))
    network = Network(model, {"tag": TASK.head(ENCODER, 0.0)}, {"tag": 1.0}).train()
    found = from_huggingface(dict(theirs.state_dict()), bert, ENCODER, type(theirs).__name__)
    network.load_state_dict({**network.state_dict(), **{k: w for k, w in found.items() if k in network.state_dict()}})
    batch = batch_of([[(0, 1), (0, 3), (0, 4)], [(0, 1)]], [[0, 2, 1], [1]], 2)
    labels = torch.full((2, 6), IGNORE)
    labels[0, [1, 3, 4]], labels[1, 1] = torch.tensor([0, 2, 1]), 1
    ours = network(batch).losses["tag"]
    wanted = theirs(input_ids=batch.source.tokens, labels=labels).loss
    torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=1e-5)
    ours.backward()
    wanted.backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, other in (
        ("heads.tag.classify.weight", "classifier.weight"),
        ("heads.tag.classify.bias", "classifier.bias"),
        ("model.embed.tokens.weight", "bert.embeddings.word_embeddings.weight"),
        ("model.blocks.0.feed_forward.expand.weight", "bert.encoder.layer.0.intermediate.dense.weight"),
    ):
        torch.testing.assert_close(network.get_parameter(name).grad, gradients[other], atol=1e-5, rtol=1e-5)


@pytest.fixture
def crf() -> CrfHead:
    torch.manual_seed(2)
    head = replace(TASK, crf=True).head(replace(ENCODER, width=4), 0.0).eval()
    with torch.no_grad():
        for weight in (head.crf.transitions, head.crf.start_transitions, head.crf.end_transitions):
            weight += torch.randn_like(weight)
    return head


def scores_of(head: CrfHead, logits: torch.Tensor) -> dict[tuple[int, ...], torch.Tensor]:
    """The score of every sequence of tags."""
    found = {}
    for tags in product(range(3), repeat=len(logits)):
        total = head.crf.start_transitions[tags[0]] + head.crf.end_transitions[tags[-1]]
        total = total + sum(logits[place, tag] for place, tag in enumerate(tags))
        found[tags] = total + sum(head.crf.transitions[a, b] for a, b in pairwise(tags))
    return found


@torch.no_grad()
def test_the_crf_finds_the_best_of_all_sequences_and_the_probability_of_each_tag(crf):
    hidden = torch.randn(2, 6, 4)
    batch = batch_of([[(0, 1), (0, 2), (0, 4)], [(0, 3)]], [[0, 1, 2], [1]], 2)
    states = States(hidden=hidden)
    logits = crf.logits(states, batch)
    answers = crf.answers(states, batch)
    losses = []
    for row, (count, gold) in enumerate(((3, (0, 1, 2)), (1, (1,)))):
        scores = scores_of(crf, logits[row, :count])
        assert tuple(answers[row, :count, 3].long().tolist()) == max(scores, key=scores.__getitem__)
        shares = torch.stack([*scores.values()]).softmax(0)
        for place, tag in product(range(count), range(3)):
            mass = sum(share for tags, share in zip(scores, shares, strict=True) if tags[place] == tag)
            assert float(answers[row, place, tag]) == pytest.approx(float(mass), abs=1e-5)
        losses.append(torch.stack([*scores.values()]).logsumexp(0) - scores[gold])
    torch.testing.assert_close(crf(states, batch), sum(losses) / 4)


def test_the_crf_never_predicts_a_span_without_its_beginning(crf):
    with torch.no_grad():
        crf.classify.weight.zero_()
        crf.classify.bias.copy_(torch.tensor([1.0, 0.0, 9.0]))  # I-a alone would win everywhere
    batch = batch_of([[(0, place) for place in range(5)]], [[0] * 5], 1)
    path = crf.answers(States(hidden=torch.randn(1, 6, 4)), batch).detach()[0, :, 3].long().tolist()
    assert path == [1, 2, 2, 2, 2]


def test_the_losses_of_intent_and_slots_are_added():
    task = Slots(classes=TASK.classes, intents=("x", "y"))
    head = task.head(ENCODER, 0.0).eval()
    assert isinstance(head, SlotsHead)
    batch = batch_of([[(0, 1), (0, 2)], [(0, 1)]], [[0, 2], [1]], 2)
    states = States(hidden=torch.randn(2, 6, 16), pooled=torch.randn(2, 16))
    both = replace(batch, labels=torch.cat([torch.tensor([[1], [0]]), batch.labels], dim=1))
    intent: ClassHead = head.intent
    expected = intent(states, replace(batch, labels=torch.tensor([1, 0]))) + head.tags(states, batch)
    torch.testing.assert_close(head(states, both), expected)
    assert head.answers(states, both).shape == (2, 3, 3)
