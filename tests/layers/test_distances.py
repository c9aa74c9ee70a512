"""Keys and biases of distances: attention that knows how far apart two positions are, and not where they are."""

import pytest
import torch

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.interop.families import FAMILIES
from plmkit.layers.attention import RelativeSelfAttention, SelfAttention
from plmkit.layers.packing import NeededTokens, Packing
from plmkit.layers.recording import recording

WIDTH, HEADS = 8, 2


def attention(relative_keys: int = 0, distance_bias: int = 0) -> RelativeSelfAttention:
    torch.manual_seed(0)
    made = RelativeSelfAttention(WIDTH, HEADS, 0.0, relative_keys=relative_keys, distance_bias=distance_bias).double()
    if made.distance_bias is not None:
        torch.nn.init.normal_(made.distance_bias)
    return made


def shifted(by: int, *lengths: int) -> Packing:
    places = torch.arange(max(lengths) + by)
    return Packing((places >= by) & (places < by + torch.tensor(lengths)[:, None]))


@pytest.mark.parametrize(
    "kinds", [{"relative_keys": 2}, {"distance_bias": 2}, {"relative_keys": 1, "distance_bias": 3}]
)
def test_shifting_all_positions_changes_nothing_and_permuting_them_does(kinds):
    layer, hidden = attention(**kinds), torch.randn(8, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        plain = layer(hidden, shifted(0, 5, 3))
        torch.testing.assert_close(layer(hidden, shifted(4, 5, 3)), plain, atol=1e-8, rtol=0)
        turned = torch.tensor([4, 2, 0, 1, 3, 5, 6, 7])
        assert not torch.allclose(layer(hidden[turned], shifted(0, 5, 3)), plain[turned], atol=1e-3)


def test_a_key_of_the_distance_is_added_to_the_key_and_far_distances_share_one():
    """softmax_j(q_i (k_j + a_clip(j - i)) / sqrt(d)), by a loop (Shaw et al., 2018, equation 4)."""
    layer, hidden = attention(relative_keys=2), torch.randn(6, WIDTH, dtype=torch.float64)
    query, key, value = layer.query_key_value(hidden).unflatten(-1, (3, HEADS, -1)).unbind(1)  # (6, heads, width)
    table = layer.relative_keys.weight
    rows = []
    for i in range(6):
        heads = []
        for head in range(HEADS):
            scores = torch.stack(
                [query[i, head] @ (key[j, head] + table[min(max(j - i, -2), 2) + 2]) for j in range(6)]
            )
            heads.append((scores / 2).softmax(0) @ value[:, head])
        rows.append(torch.cat(heads))
    torch.testing.assert_close(layer(hidden, shifted(0, 6)), layer.output(torch.stack(rows)))


def test_a_bias_of_zero_is_plain_attention_and_a_positive_one_near_the_diagonal_raises_its_share():
    layer, hidden = attention(distance_bias=3), torch.randn(6, WIDTH, dtype=torch.float64)
    plain = SelfAttention(WIDTH, HEADS, 0.0).double()
    plain.load_state_dict({name: weight for name, weight in layer.state_dict().items() if name != "distance_bias"})
    packing = shifted(0, 6)
    with torch.no_grad():
        layer.distance_bias.zero_()
        torch.testing.assert_close(layer(hidden, packing), plain(hidden, packing))
        shares = []
        for bias in (0.0, 1.0, 2.0):
            layer.distance_bias[:, 3] = bias  # the distance 0
            with recording() as records:
                layer(hidden, packing)
            shares.append(records[0].weights.diagonal(dim1=-2, dim2=-1).mean().item())
    assert shares[0] < shares[1] < shares[2]


def test_needed_tokens_have_the_states_that_they_have_among_all():
    layer, hidden, packing = attention(relative_keys=2), torch.randn(8, WIDTH, dtype=torch.float64), shifted(0, 5, 3)
    needed = NeededTokens(packing, torch.tensor([[0, 0, 0, 1, 0], [0, 1, 0, 0, 0]], dtype=torch.bool))
    torch.testing.assert_close(layer(hidden, packing, needed), layer(hidden, packing)[[0, 3, 5, 6]])


@pytest.mark.parametrize(
    ("name", "stacks"),
    [
        ("bert-tiny", ["blocks"]), ("roberta-tiny", ["blocks"]), ("ernie2-tiny", ["blocks"]),
        ("albert-tiny", ["blocks"]), ("transformer-tiny", ["blocks"]),
        ("electra-tiny", ["generator.blocks", "discriminator.blocks"]),
    ],
)  # fmt: skip
def test_any_encoder_takes_them_by_a_setting(name, stacks):
    recipe = settle(find(name), ["architecture.relative_keys=4", "architecture.distance_bias=2"]).recipe
    model = recipe.architecture.build(unnamed(30))
    for block in (block for stack in stacks for block in model.get_submodule(stack)):
        assert (block.attention.relative_keys.weight.shape[0], block.attention.distance_bias.shape[1]) == (9, 5)
        assert not block.attention.distance_bias.any()
    side = Side(tokens=torch.randint(30, (2, 6)), visible=torch.ones(2, 6, dtype=torch.bool))
    model(Batch(source=side)).hidden[..., 0].square().sum().backward()
    assert model.get_submodule(stacks[-1])[0].attention.relative_keys.weight.grad.abs().sum() > 0
    assert not any(family.writes(recipe.architecture) for family in FAMILIES)  # transformers has no such network


def test_a_negative_distance_is_refused():
    with pytest.raises(SettingError, match=r"architecture\.relative_keys must be a number of positions, or 0 for none"):
        settle(find("bert-tiny"), ["architecture.relative_keys=-1"])
