"""What attention is, by the formula and by torch's own layer, and what papers and notes claim of it."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.layers.attention import SelfAttention, attend, softmax_weights
from plmkit.layers.packing import Packing
from plmkit.layers.transformer import FeedForward, PreNormBlock

WIDTH, HEADS = 8, 2


def every(rows: int, length: int) -> Packing:
    return Packing(torch.ones(rows, length, dtype=torch.bool))


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_scaled_dot_product_attention_is_torchs():
    query, key, value = numbers(2, 3, 4, 6), numbers(2, 3, 5, 6, seed=1), numbers(2, 3, 5, 6, seed=2)
    visible = torch.tensor([True, False, True, True, False]).expand(2, 1, 4, 5)
    weights = softmax_weights(query, key, visible)
    assert weights.shape == (2, 3, 4, 5)  # of 4 queries to 5 keys
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))
    assert (weights[..., [1, 4]] == 0).all()
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
    torch.testing.assert_close(weights @ value, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(attend(query, key, value, visible, 0.0), expected, atol=1e-6, rtol=0)


def test_without_scaling_wide_heads_saturate_the_softmax():
    """The variance of a dot product is its width, so that scores grow and entropies fall unless they are scaled."""
    entropies = {"scaled": [], "unscaled": []}
    for width in (16, 64, 256, 1024):
        query, key = numbers(1, 1, 500, width), numbers(1, 1, 500, width, seed=1)
        assert (query * key).sum(-1).var() == pytest.approx(width, rel=0.3)
        assert (query @ key.mT).var() == pytest.approx(width, rel=0.05)
        for name, scaled in (("scaled", query), ("unscaled", query * math.sqrt(width))):
            weights = softmax_weights(scaled, key)
            entropies[name].append(float(torch.special.entr(weights).sum(-1).mean()))
    assert entropies["unscaled"] == sorted(entropies["unscaled"], reverse=True)
    assert entropies["unscaled"][-1] < 0.2 * entropies["unscaled"][0]
    assert max(entropies["scaled"]) - min(entropies["scaled"]) < 0.05 * entropies["scaled"][0]


@pytest.mark.parametrize("heads", [1, HEADS])
def test_heads_are_a_loop_over_heads_and_torchs_layer(heads):
    torch.manual_seed(0)
    layer = SelfAttention(WIDTH, heads, 0.0).double()
    theirs = nn.MultiheadAttention(WIDTH, heads, batch_first=True).double()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.randn_like(weight))
        theirs.in_proj_weight.copy_(layer.query_key_value.weight)
        theirs.in_proj_bias.copy_(layer.query_key_value.bias)
        theirs.out_proj.load_state_dict(layer.output.state_dict())
    hidden, inside = numbers(5, WIDTH), WIDTH // heads
    parts = hidden @ layer.query_key_value.weight.T + layer.query_key_value.bias
    seen = []
    for head in range(heads):
        query, key, value = (parts[:, part * WIDTH + head * inside :][:, :inside] for part in range(3))
        seen.append((query @ key.T / math.sqrt(inside)).softmax(-1) @ value)
    found = layer(hidden, every(1, 5))
    torch.testing.assert_close(found, torch.cat(seen, dim=1) @ layer.output.weight.T + layer.output.bias)
    torch.testing.assert_close(found, theirs(hidden[None], hidden[None], hidden[None])[0][0])


def test_multiplying_scores_by_a_mask_leaks_and_ours_does_not():
    """softmax(QK ⊙ M) gives hidden keys the weight of a score of 0; a mask must make their scores minus infinity."""
    scores, mask = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, False])
    product = (scores * mask).softmax(-1)
    torch.testing.assert_close(product, torch.tensor([0.576117, 0.211942, 0.211942]), atol=1e-6, rtol=0)
    query, key = torch.ones(1, 1, 1, 1), scores.reshape(1, 1, 3, 1)
    assert softmax_weights(query, key, mask).flatten().tolist() == [1.0, 0.0, 0.0]
    value = torch.eye(3)[None, None]
    assert attend(query.expand(1, 1, 1, 1), key, value, mask[None, None, None], 0.0).flatten().tolist() == [
        1.0,
        0.0,
        0.0,
    ]


def test_in_two_layers_a_token_sees_itself_through_its_neighbours():
    """Its own key is masked and its first query knows the position only; there is no residual path around attention."""
    tokens, places = numbers(5, WIDTH).requires_grad_(), numbers(5, WIDTH, seed=1)
    others = ~torch.eye(5, dtype=torch.bool)

    def read(query: Tensor, states: Tensor) -> Tensor:
        return attend(query[None, None], states[None, None], states[None, None], others, 0.0)[0, 0]

    first = read(places, tokens)
    second = read(first, first)
    for made, leaks in ((first, False), (second, True)):
        own = [torch.autograd.grad(made[i].sum(), tokens, retain_graph=True)[0][i].abs().sum() for i in range(5)]
        assert [bool(gradient > 1e-9) for gradient in own] == [leaks] * 5


class NoResidual(nn.Module):
    """In place of a block's dropout: what a sublayer made, without its input."""

    def add(self, hidden: Tensor, numbers: Tensor) -> Tensor:
        return numbers


def stack(layers: int, seed: int, *, residual: bool = True, norm: bool = True) -> list[PreNormBlock]:
    torch.manual_seed(seed)
    blocks = [
        PreNormBlock(SelfAttention(16, 2, 0.0), FeedForward(16, 32, "relu"), width=16, dropout=0.0, epsilon=1e-5)
        for _ in range(layers)
    ]
    for block in blocks:
        if not residual:
            block.dropout = NoResidual()
        if not norm:
            block.attention_norm = block.feed_forward_norm = nn.Identity()
    return blocks


def losses(blocks: list[PreNormBlock], steps: int) -> list[float]:
    """Of predicting the token before each, among eight."""
    table, places, output = nn.Embedding(8, 16), nn.Embedding(6, 16), nn.Linear(16, 8)
    weights = [weight for part in (table, places, output, *blocks) for weight in part.parameters()]
    optimizer = torch.optim.Adam(weights, lr=3e-3)
    packing, found = every(16, 6), []
    for step in range(steps):
        tokens = torch.randint(8, (16, 6), generator=torch.Generator().manual_seed(step))
        hidden = (table(tokens) + places.weight).flatten(0, 1)
        for block in blocks:
            hidden = block(hidden, packing)
        loss = F.cross_entropy(output(hidden).unflatten(0, (16, 6))[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.mark.slow
def test_residual_connections_let_48_layers_learn_and_without_them_they_stay_at_chance():
    chance = math.log(8)
    assert losses(stack(48, 0), 50)[-1] < 0.8 * chance
    assert losses(stack(48, 0, residual=False), 50)[-1] > 0.97 * chance


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_layer_normalisation_reaches_a_loss_in_fewer_steps(seed):
    def steps(norm: bool) -> int:
        curve = losses(stack(12, seed, norm=norm), 110)
        return next((step for step, loss in enumerate(curve) if loss < 0.05), len(curve))

    assert steps(norm=True) < steps(norm=False)
