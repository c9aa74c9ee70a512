from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from plmkit.architectures.encoder import Encoder, EncoderModel
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.errors import SettingError
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.span_boundary import SpanBoundary, SpanBoundaryHead
from plmkit.training.step import Step

WIDTH, SIZE, LENGTH = 8, 30, 24
SMALL = Encoder(
    layers=1, heads=2, width=WIDTH, inner=16, max_length=LENGTH, dropout=0.0, attention_dropout=0.0, pooler=False
)


def network(**settings) -> Network:
    torch.manual_seed(0)
    model = EncoderModel(SMALL, SIZE)
    tasks = (MaskedLM(), SpanBoundary(**settings))
    made = Network(model, {task.name: task.build(model) for task in tasks}, {task.name: task.weight for task in tasks})
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "norm" not in name:
                weight.normal_(0, 0.4)
    return made


def batch(*spans: tuple[int, int, int], rows: int = 2) -> Batch:
    """Hidden spans as (row, first, last)."""
    tokens = torch.arange(rows * LENGTH).view(rows, LENGTH) % 20 + 5
    targets, edges = torch.full_like(tokens, IGNORE), torch.full((rows, LENGTH, 2), -1)
    for row, first, last in spans:
        targets[row, first : last + 1] = tokens[row, first : last + 1]
        edges[row, first : last + 1] = torch.tensor([first - 1, last + 1])
    return Batch(
        source=Side(
            tokens=tokens.where(targets == IGNORE, 4),
            visible=torch.ones_like(tokens, dtype=torch.bool),
            segments=torch.zeros_like(tokens),
        ),
        targets=targets,
        edges=edges,
    )


GIVEN = batch((0, 3, 5), (0, 9, 9), (1, 1, 2))


def states_of(seed: int = 1) -> States:
    hidden = torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed), requires_grad=True)
    return States(hidden=hidden)


def logits_by_hand(head: SpanBoundaryHead, hidden: torch.Tensor, row: int, place: int, first: int, last: int):
    """LN(GELU(W2 LN(GELU(W1 [x_{s-1}; x_{e+1}; p]))) E + b, written out."""
    read = torch.cat([hidden[row, first - 1], hidden[row, last + 1], head.positions.weight[place - first]])
    assert read.shape == (2 * WIDTH + 200,)
    first_layer = F.layer_norm(
        F.gelu(head.join.weight @ read + head.join.bias), (WIDTH,), head.norm.weight, head.norm.bias, 1e-12
    )
    inner = head.vocabulary
    second_layer = F.layer_norm(
        F.gelu(inner.transform.weight @ first_layer + inner.transform.bias), (WIDTH,), inner.norm.weight,
        inner.norm.bias, 1e-12,
    )  # fmt: skip
    return inner._table[0].weight @ second_layer + inner.bias


def test_the_loss_is_the_mean_over_the_tokens_of_all_spans_by_hand():
    made, states = network(), states_of()
    head = made.heads["span_boundary"]
    wanted = []
    for row, first, last in [(0, 3, 5), (0, 9, 9), (1, 1, 2)]:
        for place in range(first, last + 1):
            logits = logits_by_hand(head, states.hidden, row, place, first, last)
            wanted.append(-logits.log_softmax(-1)[GIVEN.targets[row, place]])
    torch.testing.assert_close(head(states, GIVEN), torch.stack(wanted).mean(), atol=1e-5, rtol=1e-5)
    assert head.scored(GIVEN) == 6


def test_only_the_states_at_the_edges_get_a_gradient():
    states = states_of()
    network().heads["span_boundary"](states, GIVEN).backward()
    edges = torch.zeros(2, LENGTH, dtype=torch.bool)
    edges[0, [2, 6, 8, 10]] = edges[1, [0, 3]] = True
    moved = states.hidden.grad.abs().sum(-1)
    assert (moved[edges] > 0).all()
    assert (moved[~edges] == 0).all()  # exactly: nothing inside a span, nothing further away


def test_only_the_places_in_use_of_the_position_table_get_a_gradient():
    head = network().heads["span_boundary"]
    head(states_of(), GIVEN).backward()
    assert (head.positions.weight.grad.abs().sum(-1) > 0).tolist() == [True] * 3 + [False] * 12


def test_states_inside_a_span_can_be_anything():
    head, states = network().heads["span_boundary"], states_of()
    noise = states.hidden.detach().clone()
    noise[0, 3:6], noise[0, 9], noise[1, 1:3] = 50.0, -7.0, 3.0
    assert torch.equal(head(states, GIVEN), head(States(hidden=noise), GIVEN))


def test_the_head_reads_two_states_and_a_position_of_200():
    head = network().heads["span_boundary"]
    assert head.join.weight.shape == (WIDTH, 2 * WIDTH + 200)
    assert head.positions.weight.shape == (15, 200)
    assert head.vocabulary.transform.weight.shape == (WIDTH, WIDTH)


def test_the_decoder_is_the_token_table_with_a_bias_of_its_own():
    made = network()
    masked, boundary = made.heads["masked_lm"].vocabulary, made.heads["span_boundary"].vocabulary
    assert boundary._table[0] is masked._table[0] is made.model.embed.tokens
    assert boundary.bias is not masked.bias
    assert boundary.transform is not masked.transform
    assert not any(weight.shape == (SIZE, WIDTH) for weight in made.heads["span_boundary"].parameters())


def test_tokens_beyond_the_fifteenth_of_a_span_are_not_predicted():
    made, states = network(), states_of()
    head = made.heads["span_boundary"]
    long = batch((0, 2, 20))  # 19 tokens
    assert head.scored(long) == 15
    wanted = [
        -logits_by_hand(head, states.hidden, 0, place, 2, 20).log_softmax(-1)[long.targets[0, place]]
        for place in range(2, 17)
    ]
    torch.testing.assert_close(head(states, long), torch.stack(wanted).mean(), atol=1e-5, rtol=1e-5)


def test_spans_without_edges_are_left_out():
    head, states = network().heads["span_boundary"], states_of()
    targets = GIVEN.targets.clone()
    targets[1, 20:] = 7  # hidden up to the last place: asked of MaskedLM, not here
    without = replace(GIVEN, targets=targets)
    assert head.scored(without) == head.scored(GIVEN)
    assert torch.equal(head(states, without), head(states, GIVEN))
    nothing = batch()
    assert head.scored(nothing) == 0


def test_only_masked_tokens_are_projected_to_the_vocabulary(monkeypatch):
    head = network().heads["span_boundary"]
    seen = []
    transformed = head.vocabulary.transformed
    monkeypatch.setattr(head.vocabulary, "transformed", lambda joined: seen.append(joined.shape) or transformed(joined))
    head(states_of(), GIVEN)
    assert seen == [(6, WIDTH)]


def test_every_masked_token_is_in_both_losses():
    assert network().scored(GIVEN) == {"masked_lm": 6, "span_boundary": 6}


def test_a_batch_in_pieces_has_the_gradient_of_the_whole_though_a_row_has_no_span():
    given = batch((0, 3, 5), (2, 4, 4), (2, 8, 9), rows=3)
    gradients = []
    for rows_at_once in (None, 1):
        made = network()
        losses = Step(made, torch.optim.SGD(made.parameters()), rows_at_once=rows_at_once).gradients(given).losses
        gradients.append([weight.grad for weight in made.parameters()] + [torch.tensor(list(losses.values()))])
    for whole, pieces in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, pieces, atol=1e-5, rtol=1e-4)


def test_a_network_with_another_activation_keeps_the_papers_here():
    model = EncoderModel(replace(SMALL, activation="relu"), SIZE)
    head = SpanBoundary().build(model)
    numbers = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(head.vocabulary.activation(numbers), F.gelu(numbers))


@pytest.mark.parametrize("name", ["positions", "position_width"])
def test_sizes_that_cannot_be_are_refused(name):
    with pytest.raises(SettingError, match=rf"objectives\.{name} must be at least 1; found 0"):
        SpanBoundary(**{name: 0})
