"""Where only some last states are used, the last block computes only these: the same numbers, less work."""

from dataclasses import replace

import pytest
import torch
from loud import loud, rows_of

from plmkit.architectures.encoder import Encoder
from plmkit.architectures.shared_encoder import SHARINGS, SharedEncoder
from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch
from plmkit.data.vocabulary import unnamed
from plmkit.kernels.autograd import take_once
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence
from plmkit.objectives.span_boundary import SpanBoundary
from plmkit.tasks.heads import ChoiceHead, ClassHead

SHAPE = {"heads": 2, "width": 16, "inner": 24, "max_length": 12, "dropout": 0.0, "attention_dropout": 0.0}
ENCODERS = [
    Encoder(layers=1, **SHAPE),
    Encoder(layers=3, **SHAPE),
    Encoder(layers=2, embedding=8, **SHAPE),
    *(SharedEncoder(layers=3, embedding=8, sharing=sharing, **SHAPE) for sharing in SHARINGS),
]


@pytest.mark.parametrize("settings", ENCODERS)
@pytest.mark.parametrize("lengths", [(9, 9, 9), (9, 4, 7)])
def test_wanted_states_and_their_gradients_are_those_of_the_whole(settings, lengths):
    network, given = loud(settings), rows_of(*lengths)
    wanted = torch.zeros_like(given.source.visible)
    wanted[0, [2, 3]] = wanted[2, 6] = wanted[2, 0] = True  # of the second row nothing

    def reported(batch: Batch):
        network.zero_grad()
        states = network(batch)
        (states.hidden[wanted].square().sum() + states.pooled[:, 0].sum()).backward()
        return states, [weight.grad.clone() for weight in network.parameters()]

    (whole, whole_gradients), (some, gradients) = reported(given), reported(replace(given, needed=wanted))
    torch.testing.assert_close(some.hidden[wanted], whole.hidden[wanted], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(some.pooled, whole.pooled, atol=1e-6, rtol=1e-5)
    for mine, theirs in zip(gradients, whole_gradients, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    beginning = torch.zeros_like(wanted)
    beginning[:, 0] = True
    assert (some.hidden[~wanted & ~beginning] == 0).all()


def test_padding_that_is_wanted_is_left_out():
    network, given = loud(ENCODERS[1]), rows_of(9, 4)
    states = network(replace(given, needed=torch.ones_like(given.source.visible)))
    torch.testing.assert_close(states.hidden, network(given).hidden, atol=1e-6, rtol=1e-5)


def test_the_last_block_computes_wanted_tokens_and_the_first_of_each_row():
    made = network_of(MaskedLM(), NextSentence())
    seen = []
    for block in made.model.blocks:
        block.feed_forward.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    made(masked_batch())
    assert seen == [20, 20, 2 + 3 + 1]  # two hidden in the first row, one in the second, and three first tokens


@pytest.mark.parametrize(
    "objectives", [(MaskedLM(),), (NextSentence(),), (MaskedLM(), NextSentence()), (MaskedLM(), SpanBoundary())]
)
def test_losses_are_those_of_all_states(objectives):
    made, given = network_of(*objectives), masked_batch()
    whole = {name: head(made.model(given), given) for name, head in made.heads.items()}
    some = made(given).losses
    torch.testing.assert_close(some, whole, atol=1e-5, rtol=1e-5)
    weights = list(made.parameters())
    for ours, theirs in zip(*(gradients(losses, weights) for losses in (some, whole)), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def gradients(losses, weights):
    return torch.autograd.grad(sum(losses.values()), weights, allow_unused=True)


def test_a_row_that_masks_nothing_costs_its_first_token():
    made, given = network_of(MaskedLM(), NextSentence()), masked_batch()
    nothing = replace(given, targets=torch.full_like(given.targets, IGNORE))
    losses = made(nothing).losses
    assert losses.keys() == {"next_sentence"}
    torch.testing.assert_close(losses["next_sentence"], made.heads["next_sentence"](made.model(given), given))


def test_dropout_draws_for_wanted_tokens_alone_and_leaves_the_mean_as_it_is():
    network, given = loud(replace(ENCODERS[0], dropout=0.1, attention_dropout=0.1)), rows_of(9, 4, 7)
    wanted = torch.zeros_like(given.source.visible)
    wanted[:, 2] = True
    torch.manual_seed(0)
    with torch.no_grad():
        means = [
            torch.stack([network(asked).hidden[wanted] for _ in range(1500)]).mean(0)
            for asked in (replace(given, needed=wanted), given)
        ]
    torch.testing.assert_close(*means, atol=0.15, rtol=0.0)


def test_rows_taken_once_and_their_gradients_are_those_of_an_index():
    for shape in ((7,), (7, 3), (7, 2, 3)):
        rows, places = torch.randn(shape, dtype=torch.double, requires_grad=True), torch.tensor([5, 0, 3])
        assert torch.equal(take_once(rows, places), rows[places])
        assert torch.autograd.gradcheck(lambda rows, places=places: take_once(rows, places), rows)


def test_readings_of_a_row_are_needed_like_rows():
    model = loud(ENCODERS[1])
    head = ChoiceHead(width=16, bias=False)
    made = Network(model, {"label": head}, {"label": 1.0}).eval()
    given = replace(rows_of(9, 4, 7, 5), alternatives=torch.tensor([0, 0, 1, 1]), labels=torch.tensor([0, 1]))
    whole = made.heads["label"](model(given), given)
    torch.testing.assert_close(made(given).losses["label"], whole, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("pooling", "rows"), [("first", 3), ("mean", 20), ("max", 20)])
def test_a_task_that_reads_the_first_state_has_only_that_computed(pooling, rows):
    model = loud(ENCODERS[1])
    made = Network(model, {"label": ClassHead(width=16, outputs=2, pooling=pooling)}, {"label": 1.0})
    seen = []
    model.blocks[-1].feed_forward.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    made(replace(rows_of(9, 4, 7), labels=torch.tensor([0, 1, 0])))
    assert seen == [rows]


def test_a_detector_reads_every_state_and_its_generator_only_the_masked():
    made = find("electra-tiny").build(unnamed(30))
    seen = {"generator": [], "discriminator": []}
    for name, rows in seen.items():
        last = getattr(made.model, name).blocks[-1]
        last.feed_forward.register_forward_hook(lambda _, inputs, __, rows=rows: rows.append(len(inputs[0])))
    made(masked_batch())
    assert seen == {"generator": [6], "discriminator": [20]}


def network_of(*objectives) -> Network:
    model = loud(ENCODERS[1])
    torch.manual_seed(2)
    return Network(model, {o.name: o.build(model) for o in objectives}, {o.name: 1.0 for o in objectives})


def masked_batch() -> Batch:
    """Three masked tokens in rows of nine, four and seven."""
    given = rows_of(9, 4, 7)
    targets = torch.full_like(given.source.tokens, IGNORE)
    edges = torch.full((*targets.shape, 2), -1)
    for row, place, before, after in ((0, 3, 2, 5), (0, 4, 2, 5), (1, 2, 1, 3)):
        targets[row, place] = given.source.tokens[row, place]
        edges[row, place] = torch.tensor([before, after])
    return replace(given, targets=targets, edges=edges, random_next=torch.tensor([0, 1, 0]))
