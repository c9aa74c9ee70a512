from dataclasses import replace

import pytest
import torch

from plmkit.architectures.encoder import Encoder, EncoderModel
from plmkit.data.batch import Batch, Side
from plmkit.layers.packing import Packing
from plmkit.layers.transformer import ACTIVATIONS

SMALL = Encoder(layers=2, heads=2, width=16, inner=24, max_length=12, dropout=0.0, attention_dropout=0.0)


def model(seed: int = 0, deviation: float = 0.3, settings: Encoder = SMALL) -> EncoderModel:
    """Weights large enough that every position matters."""
    torch.manual_seed(seed)
    network = EncoderModel(settings, 30).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "norm" not in name:
                weight.normal_(0, deviation)
    return network


def batch(*lengths: int, padded_to: int | None = None, seed: int = 1) -> Batch:
    rng = torch.Generator().manual_seed(seed)
    tokens = torch.randint(5, 30, (len(lengths), max(lengths)), generator=rng)
    tokens = torch.nn.functional.pad(tokens, (0, (padded_to or max(lengths)) - max(lengths)))
    places = torch.arange(tokens.shape[1]).expand_as(tokens)
    visible = places < torch.tensor(lengths)[:, None]
    segments = (places > torch.tensor(lengths)[:, None] // 2).long()
    return Batch(source=Side(tokens=tokens.where(visible, 0), visible=visible, segments=segments.where(visible, 0)))


def test_every_output_depends_on_every_token_of_its_row():
    network = model()
    given = batch(6)
    vectors = network.embed.tokens(given.source.tokens[0]).detach().requires_grad_()
    network.embed.tokens.forward = lambda tokens: vectors
    hidden = network(given).hidden[0]
    for place in range(6):
        (reach,) = torch.autograd.grad(hidden[place, 0] + hidden[place].square().sum(), vectors, retain_graph=True)
        assert (reach.norm(dim=1) > 1e-6).all(), f"output {place} does not see every token"


def test_appending_padding_changes_nothing_at_real_positions():
    network = model()
    plain, padded = network(batch(6, 4)), network(batch(6, 4, padded_to=11))
    seen = batch(6, 4).source.visible
    torch.testing.assert_close(padded.hidden[:, :6][seen], plain.hidden[seen], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(padded.pooled, plain.pooled, atol=1e-6, rtol=1e-6)
    assert (padded.hidden[:, 6:] == 0).all()


def test_rows_do_not_see_each_other():
    network = model()
    given = batch(7, 7, 3)
    for number in range(3):
        alone = network(given.part(number, number + 1)).hidden[0]
        torch.testing.assert_close(network(given).hidden[number], alone, atol=1e-6, rtol=1e-6)


def test_packed_computation_equals_computing_padding_and_all():
    network = model()
    given = batch(9, 2, 5)
    packed = network(given)

    class Unpacked(Packing):
        def __init__(self, visible):
            super().__init__(torch.ones_like(visible))
            self.visible = visible[:, None, None, :]

    states = network.embed(
        given.source.tokens.flatten(), given.source.segments.flatten(), Unpacked(given.source.visible).positions()
    )
    for block in network.blocks:
        states = block(states, Unpacked(given.source.visible))
    whole = states.view(3, 9, -1)
    torch.testing.assert_close(packed.hidden[given.source.visible], whole[given.source.visible], atol=1e-6, rtol=1e-6)
    pooled = torch.tanh(network.pooler(whole[:, 0]))
    torch.testing.assert_close(packed.pooled, pooled, atol=1e-6, rtol=1e-6)


def test_packing_and_unpacking_returns_every_real_value_and_zeros():
    visible = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
    packing = Packing(visible)
    values = torch.arange(9.0).view(3, 3)
    assert packing.pack(values).tolist() == [0, 1, 3, 6, 7, 8]
    assert packing.unpack(packing.pack(values)).tolist() == [[0, 1, 0], [3, 0, 0], [6, 7, 8]]
    assert packing.positions().tolist() == [0, 1, 0, 0, 1, 2]
    assert packing.first.tolist() == [0, 2, 3]


def test_rows_without_padding_are_not_copied():
    packing = Packing(torch.ones(2, 3, dtype=torch.bool))
    values = torch.arange(6.0).view(2, 3)
    assert packing.pack(values).data_ptr() == values.data_ptr()
    assert packing.positions().tolist() == [0, 1, 2, 0, 1, 2]
    assert packing.first.tolist() == [0, 3]
    assert packing.visible is None


def test_a_row_of_nothing_but_padding_is_left_out():
    network, given = model(), batch(*[9] * 30)
    given.source.visible[3] = False
    assert len(Packing(given.source.visible).pack(given.source.tokens)) == 261
    states = network(given)
    states.hidden[given.source.visible].sin().sum().backward()
    assert all(
        parameter.grad.isfinite().all() for name, parameter in network.named_parameters() if "pooler" not in name
    )


def test_rows_may_have_their_padding_in_front():
    visible = torch.ones(4, 10, dtype=torch.bool)
    visible[1, 0] = False
    packing = Packing(visible)
    assert packing.first.tolist() == [0, 10, 19, 29]
    assert packing.last.tolist() == [9, 18, 28, 38]
    assert len(packing.kept) == 39


def test_the_input_before_its_norm_is_the_sum_of_three_rows():
    embed = model().embed
    tokens, segments, positions = torch.tensor([7, 9]), torch.tensor([0, 1]), torch.tensor([0, 5])
    total = embed.total(tokens, segments, positions)
    assert torch.equal(total[1], embed.tokens.weight[9] + embed.segments.weight[1] + embed.positions.weight[5])
    assert torch.equal(embed(tokens, segments, positions), embed.norm(total))


def test_positions_are_learned_and_segments_matter():
    network = model()
    given = batch(6)
    network(given).hidden.square().sum().backward()
    assert network.embed.positions.weight.requires_grad
    assert (network.embed.positions.weight.grad[:6].abs().sum(1) > 0).all()
    assert (network.embed.positions.weight.grad[6:] == 0).all()
    other = network(replace(given, source=replace(given.source, segments=1 - given.source.segments)))
    assert not torch.allclose(other.hidden, network(given).hidden)


@pytest.mark.parametrize("padded_to", [6, 9])
def test_swapping_two_tokens_changes_more_than_their_order(padded_to):
    network = model()
    given = batch(6, padded_to=padded_to)
    swapped = given.source.tokens.clone()
    swapped[0, [2, 3]] = swapped[0, [3, 2]]
    before, after = (
        network(given).hidden[0],
        network(replace(given, source=replace(given.source, tokens=swapped))).hidden[0],
    )
    assert not torch.allclose(before[2], after[3], atol=1e-3)


def test_gelu_in_both_forms():
    points = torch.tensor([-3, -1, -0.5, 0.5, 1, 3])
    erf = [-0.004050, -0.158655, -0.154269, 0.345731, 0.841345, 2.995950]
    tanh = [-0.003637, -0.158808, -0.154286, 0.345714, 0.841192, 2.996363]
    torch.testing.assert_close(ACTIVATIONS["gelu"](points), torch.tensor(erf), atol=1e-6, rtol=0)
    torch.testing.assert_close(ACTIVATIONS["gelu_tanh"](points), torch.tensor(tanh), atol=1e-6, rtol=0)
    grid = torch.linspace(-6, 6, 12001, dtype=torch.float64)
    gap = (ACTIVATIONS["gelu"](grid) - ACTIVATIONS["gelu_tanh"](grid)).abs()
    assert gap.max() == pytest.approx(4.73e-4, abs=1e-6)
    assert abs(grid[gap.argmax()]) == pytest.approx(2.70, abs=0.01)


def test_every_layer_norm_gives_mean_zero_and_variance_one():
    network = EncoderModel(SMALL, 30)
    hidden = network(batch(8)).hidden
    torch.testing.assert_close(hidden.mean(-1), torch.zeros(1, 8), atol=1e-6, rtol=0)
    torch.testing.assert_close(hidden.var(-1, unbiased=False), torch.ones(1, 8), atol=1e-5, rtol=0)


def test_attention_equals_a_loop_over_heads_and_positions():
    attention = model().blocks[0].attention
    hidden = torch.randn(5, 16, generator=torch.Generator().manual_seed(2))
    query, key, value = attention.query_key_value(hidden).split(16, dim=1)
    mixed = torch.zeros(5, 16)
    for head in (slice(0, 8), slice(8, 16)):
        for place in range(5):
            weights = (key[:, head] @ query[place, head] / 8**0.5).softmax(0)
            mixed[place, head] = weights @ value[:, head]
    found = attention(hidden, Packing(torch.ones(1, 5, dtype=torch.bool)))
    torch.testing.assert_close(found, attention.output(mixed), atol=1e-5, rtol=1e-5)


def test_dropout_acts_in_training_only():
    network = model(settings=replace(SMALL, dropout=0.5, attention_dropout=0.5))
    given = batch(6)
    assert torch.equal(network(given).hidden, network(given).hidden)
    network.train()
    assert not torch.equal(network(given).hidden, network(given).hidden)


def test_weights_start_from_a_cut_normal_and_biases_from_zero():
    torch.manual_seed(0)
    network = EncoderModel(replace(SMALL, width=128, inner=256), 2000)
    table = network.embed.tokens.weight
    assert table.abs().max() <= 0.04
    assert table.std().item() == pytest.approx(0.02 * 0.8796, rel=0.02)  # a normal cut at two deviations is narrower
    assert all((weight == 0).all() for name, weight in network.named_parameters() if name.endswith("bias"))
