"""Decoders read what stands before, never what follows, and begin as their papers say."""

from dataclasses import replace

import pytest
import torch

from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.layers.attention import band

SHAPE = {"layers": 2, "heads": 2, "width": 16, "inner": 64, "max_length": 24, "dropout": 0.0, "attention_dropout": 0.0}
KINDS = {
    "pre": Decoder(**SHAPE),
    "post": PostNormDecoder(**SHAPE),
    "banded": BandedDecoder(**SHAPE, band=3),
}


def rows(tokens: torch.Tensor, visible: torch.Tensor | None = None) -> Batch:
    visible = torch.ones_like(tokens, dtype=torch.bool) if visible is None else visible
    return Batch(source=Side(tokens=tokens, visible=visible, segments=torch.zeros_like(tokens)))


def loud(settings, size: int = 30):
    """Weights so large that every token tells."""
    torch.manual_seed(0)
    model = settings.build(unnamed(size)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_changing_a_token_changes_nothing_before_it(kind):
    model = loud(KINDS[kind])
    tokens = torch.randint(30, (2, 12))
    before = model(rows(tokens)).hidden
    for place in (1, 6, 11):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 30
        after = model(rows(changed)).hidden
        assert (after[:, :place] - before[:, :place]).abs().max() <= 1e-7
        assert (after[:, place] - before[:, place]).abs().min(1).values.max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_no_output_has_a_gradient_to_a_later_input(kind):
    model = loud(KINDS[kind])
    vectors = []
    model.embed.register_forward_hook(lambda _, __, out: vectors.append(out) or out.retain_grad())
    hidden = model(rows(torch.randint(30, (1, 8)))).hidden
    for place in range(8):
        (gradient,) = torch.autograd.grad(hidden[0, place].sum(), vectors[0], retain_graph=True)
        assert gradient[place + 1 :].abs().sum() == 0
        assert gradient[place].abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_padding_after_a_row_changes_nothing_and_the_pooled_state_is_the_last_real_one(kind):
    model = loud(KINDS[kind])
    tokens = torch.randint(30, (2, 9))
    visible = torch.arange(9) < torch.tensor([[9], [5]])
    padded, alone = model(rows(tokens, visible)), model(rows(tokens[1:, :5]))
    torch.testing.assert_close(padded.hidden[1, :5], alone.hidden[0], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(padded.pooled[1], padded.hidden[1, 4])
    torch.testing.assert_close(padded.pooled[0], padded.hidden[0, 8])


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["kernel", "dropout"])
def test_with_and_without_dropout_what_follows_is_masked(share):
    """On a CPU, dropout takes another path; its mask must be the same."""
    model = loud(replace(KINDS["pre"], attention_dropout=share)).train()
    tokens = torch.randint(30, (1, 8))
    changed = tokens.clone()
    changed[0, 5] += 1 if changed[0, 5] < 29 else -1
    outputs = []
    for given in (tokens, changed):
        torch.manual_seed(1)
        outputs.append(model(rows(given)).hidden[0, :5])
    assert torch.equal(*outputs)


def test_the_embedding_is_the_sum_of_two_rows_and_positions_learn():
    model = KINDS["post"].build(unnamed(30))
    tokens = torch.tensor([[7, 3]])
    wanted = model.embed.tokens.weight[tokens[0]] + model.embed.positions.weight[:2]
    assert torch.equal(model.embed(tokens[0], torch.arange(2)), wanted)
    assert model.embed.positions.weight.requires_grad


# bands


def test_a_band_is_the_formula():
    assert band(4, 2, torch.device("cpu")).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert torch.equal(band(5, 1, torch.device("cpu")), torch.eye(5).bool())  # itself only
    assert torch.equal(band(5, 5, torch.device("cpu")), torch.ones(5, 5).tril().bool())


def test_a_band_as_wide_as_the_row_is_dense():
    dense, banded = loud(Decoder(**SHAPE)), loud(BandedDecoder(**SHAPE, band=12))
    banded.load_state_dict(dense.state_dict())
    tokens = torch.randint(30, (2, 12))
    assert torch.equal(dense(rows(tokens)).hidden, banded(rows(tokens)).hidden)
    narrow = BandedDecoder(**SHAPE, band=11).build(unnamed(30)).eval()
    narrow.load_state_dict(dense.state_dict())
    hidden = narrow(rows(tokens)).hidden
    torch.testing.assert_close(hidden[:, :11], dense(rows(tokens)).hidden[:, :11], atol=1e-6, rtol=1e-6)
    assert (hidden[:, 11] - dense(rows(tokens)).hidden[:, 11]).abs().max() > 1e-4


@pytest.mark.parametrize(("layers", "width"), [(1, 3), (2, 3), (3, 2), (2, 1)])
def test_what_banded_layers_see_grows_by_a_band_less_one_each(layers, width):
    """All layers banded: position i sees the `layers * (width - 1) + 1` positions up to itself."""
    model = loud(BandedDecoder(**{**SHAPE, "layers": 2 * layers}, band=width))
    model.blocks = torch.nn.ModuleList(model.blocks[1::2])  # every second layer is the banded one
    vectors = []
    model.embed.register_forward_hook(lambda _, __, out: vectors.append(out))
    hidden = model(rows(torch.randint(30, (1, 16)))).hidden
    (gradient,) = torch.autograd.grad(hidden[0, 15].sum(), vectors[0])
    seen = gradient.abs().sum(1) > 0
    assert seen.sum() == layers * (width - 1) + 1
    assert seen[-int(seen.sum()) :].all()


def test_layers_are_dense_and_banded_in_turn():
    model = BandedDecoder(**{**SHAPE, "layers": 4}, band=3).build(unnamed(30))
    names = [type(block.attention).__name__ for block in model.blocks]
    assert names == ["CausalAttention", "BandedAttention"] * 2


# the start


def test_gpt2_starts_with_smaller_weights_where_layers_add_to_the_residual_stream():
    torch.manual_seed(0)
    model = Decoder(layers=8, heads=4, width=128, inner=512).build(unnamed(500))
    scaled = 0.02 / (2 * 8) ** 0.5
    for block in model.blocks:
        assert block.attention.output.weight.std().item() == pytest.approx(scaled, rel=0.05)
        assert block.feed_forward.contract.weight.std().item() == pytest.approx(scaled, rel=0.05)
        assert block.attention.query_key_value.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert block.feed_forward.expand.bias.abs().max() == 0
    assert model.embed.tokens.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.embed.positions.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert isinstance(model.norm, torch.nn.LayerNorm)


def test_gpt1_has_the_same_initial_weights_everywhere_and_no_last_norm():
    torch.manual_seed(0)
    model = PostNormDecoder(layers=2, heads=4, width=128, inner=512).build(unnamed(500))
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            assert weight.std().item() == pytest.approx(0.02, rel=0.05), name
    assert not list(model.norm.parameters())


def test_gradients_reach_the_first_of_48_layers():
    torch.manual_seed(0)
    model = Decoder(layers=48, heads=2, width=16, inner=64, dropout=0.0, attention_dropout=0.0).build(unnamed(50))
    model(rows(torch.randint(50, (4, 16)))).hidden.pow(2).mean().backward()
    norms = [
        torch.stack([p.grad.norm() for p in block.parameters()]).norm().item()
        for block in (model.blocks[0], model.blocks[-1])
    ]
    assert 0.1 < norms[0] / norms[1] < 10


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": 3}, "architecture.width=16 is not a multiple of architecture.heads=3"),
        ({"layers": 0}, "architecture.layers must be at least 1"),
        ({"activation": "swish"}, "Unknown architecture.activation 'swish'"),
        ({"dropout": 1.0}, "architecture.dropout must be at least 0 and below 1"),
        ({"band": 0}, "architecture.band must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, says):
    with pytest.raises(SettingError, match=says):
        BandedDecoder(**{**SHAPE, **changes})
