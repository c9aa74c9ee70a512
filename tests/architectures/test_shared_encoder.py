"""ALBERT's encoder: what is shared is one tensor, used by every layer."""

import copy
from dataclasses import replace

import pytest
import torch
from loud import loud, rows_of

from plmkit.architectures.encoder import Encoder
from plmkit.architectures.shared_encoder import SHARINGS, SharedEncoder, SharedEncoderModel
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError

BASE = SharedEncoder(layers=12, heads=12, width=768, inner=3072)
SMALL = SharedEncoder(layers=3, heads=2, width=16, inner=24, embedding=8, max_length=12)


def count(settings: SharedEncoder, vocabulary: int = 30_000) -> int:
    with torch.device("meta"):
        return sum(weight.numel() for weight in settings.build(unnamed(vocabulary)).parameters())


def model(settings: SharedEncoder = SMALL) -> SharedEncoderModel:
    return loud(settings).eval()


@pytest.mark.parametrize(
    ("embedding", "sharing", "parameters"),
    [
        (64, "all", 9_681_408),
        (128, "all", 11_683_584),
        (256, "all", 15_687_936),
        (768, "all", 31_705_344),
        (None, "all", 31_114_752),
        (64, "attention", 61_661_952),
        (128, "attention", 63_664_128),
        (256, "attention", 67_668_480),
        (None, "attention", 83_095_296),
        (64, "feed_forward", 35_701_248),
        (128, "feed_forward", 37_703_424),
        (256, "feed_forward", 41_707_776),
        (None, "feed_forward", 57_134_592),
        (64, "none", 87_648_000),
        (128, "none", 89_650_176),
        (256, "none", 93_654_528),
        (None, "none", 109_081_344),
    ],
)
def test_parameters_of_the_base_size_are_exact_for_every_sharing(embedding, sharing, parameters):
    assert count(replace(BASE, embedding=embedding, sharing=sharing)) == parameters


@pytest.mark.parametrize("sharing", SHARINGS)
def test_a_projection_between_equal_widths_is_one_more_layer(sharing):
    bare, projected = (count(replace(BASE, embedding=width, sharing=sharing)) for width in (None, 768))
    assert projected - bare == 768 * 768 + 768


@pytest.mark.parametrize("layers", [1, 2, 24])
def test_with_all_shared_the_count_does_not_depend_on_depth(layers):
    assert count(replace(BASE, layers=layers)) == 11_683_584
    assert count(replace(BASE, layers=layers, sharing="none")) == 4_595_712 + layers * 7_087_872


@pytest.mark.parametrize("embedding", [1, 8, 40])
def test_the_table_costs_vocabulary_times_embedding_and_a_projection(embedding):
    network = SharedEncoderModel(replace(SMALL, embedding=embedding), 100)
    front = sum(part.numel() for part in (network.embed.tokens.weight, *network.project.parameters()))
    assert front == 100 * embedding + embedding * 16 + 16


@pytest.mark.parametrize("sharing", ["all", "attention", "feed_forward"])
def test_shared_weights_are_saved_once_and_are_the_same_storage_in_every_layer(sharing):
    network = model(replace(SMALL, sharing=sharing))
    used: dict[str, list[int]] = {"attention": [], "feed_forward": []}
    for layer in range(3):
        block = network.blocks[layer % len(network.blocks)]
        for name in used:
            sublayer = getattr(block, name)
            owner = sublayer._sublayer[0] if hasattr(sublayer, "_sublayer") else sublayer
            used[name].append(next(owner.parameters()).data_ptr())
    shared = {"all": {"attention", "feed_forward"}}.get(sharing, {sharing})
    assert {name: len(set(pointers)) for name, pointers in used.items()} == {
        name: 1 if name in shared else 3 for name in used
    }
    pointers = [tensor.data_ptr() for tensor in network.state_dict().values()]
    assert len(pointers) == len(set(pointers))


@pytest.mark.parametrize("sharing", SHARINGS)
def test_every_sharing_equals_an_unshared_encoder_with_the_weights_repeated(sharing):
    shared = model(replace(SMALL, sharing=sharing))
    whole = Encoder.build(shared.settings.unshared, unnamed(30)).eval()
    own = shared.state_dict()
    repeated = {}
    for name in whole.state_dict():
        parts = name.split(".")
        first = ".".join([*parts[:2], *parts[2:]]).replace(f"blocks.{parts[1]}.", "blocks.0.", 1)
        repeated[name] = own[name] if name in own else own[first]
    whole.load_state_dict(repeated)
    given = rows_of(9, 4)
    torch.testing.assert_close(shared(given).hidden, whole(given).hidden, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(shared(given).pooled, whole(given).pooled, atol=1e-6, rtol=1e-6)


def test_the_gradient_of_a_shared_layer_is_the_sum_over_its_uses():
    shared = model()
    apart = model(replace(SMALL, sharing="none"))
    own = shared.state_dict()
    apart.load_state_dict(
        {name: own[f"blocks.0.{name.split('.', 2)[2]}" if "blocks" in name else name] for name in apart.state_dict()}
    )
    for network in (shared, apart):
        network(rows_of(9, 4)).hidden.sin().sum().backward()
    for name, weight in shared.blocks[0].named_parameters():
        uses = [dict(block.named_parameters())[name].grad for block in apart.blocks]
        torch.testing.assert_close(weight.grad, sum(uses), atol=1e-5, rtol=1e-4)
        assert (weight.grad - uses[0]).abs().max() > 1e-3


def test_a_copy_of_the_network_borrows_from_its_own_blocks():
    network = model(replace(SMALL, sharing="attention"))
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.blocks[0].attention.output.weight.zero_()
    given = rows_of(6)
    assert not torch.allclose(network(given).hidden, other(given).hidden)
    assert other.blocks[2].attention._sublayer[0] is other.blocks[0].attention


def test_padding_changes_nothing_at_real_positions():
    network = model()
    alone = network(rows_of(9, 4).part(1, 2)).hidden[0, :4]
    torch.testing.assert_close(network(rows_of(9, 4)).hidden[1, :4], alone, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("width", "heads", "embedding"), [(256, 4, 128), (128, 2, 64), (128, 2, None), (64, 2, 96)])
@pytest.mark.parametrize("sharing", ["all", "attention"])
def test_heads_initially_attend_to_neighbours_after_the_projection(width, heads, embedding, sharing):
    torch.manual_seed(0)
    settings = SharedEncoder(
        layers=2, heads=heads, width=width, inner=64, embedding=embedding, local_heads=True, sharing=sharing
    )
    network = SharedEncoderModel(settings, 500)
    tokens = torch.randint(500, (60,))
    hidden = network.embed(tokens, torch.zeros_like(tokens), torch.arange(60))
    hidden = network.project(hidden) if network.project else hidden
    query, key, _ = network.blocks[0].attention.query_key_value(hidden).split(width, dim=-1)
    query, key = (part.unflatten(-1, (heads, width // heads)).transpose(0, 1) for part in (query, key))
    attention = (query @ key.transpose(-1, -2) / (width // heads) ** 0.5).softmax(-1).detach()
    for head, step in zip(range(heads), (-1, 1, -2, 2), strict=False):
        share = {offset: float(attention[head].diagonal(offset).mean()) for offset in range(-5, 6)}
        assert max(share, key=share.__getitem__) == step
        assert share[step] > 0.15  # heads of 32 are less sharp than those of 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sharing": "norms"}, "architecture.sharing must be one of all, attention, feed_forward, none; found 'norms'"),
        ({"embedding": 0}, "architecture.embedding at least 1"),
        ({"heads": 3}, "is not a multiple of architecture.heads=3"),
        ({"local_heads": True, "embedding": 4}, "found 4 and heads of 8"),
        ({"local_heads": True, "embedding": 9}, "needs an even architecture.embedding"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, message):
    with pytest.raises(SettingError, match=message):
        replace(SMALL, **change)


def test_for_a_task_it_judges_rows():
    bare = replace(SMALL, pooler=False, sharing="attention")
    assert bare.writes == {"hidden", "layers"}
    assert bare.for_task(0.2) == replace(SMALL, sharing="attention", dropout=0.2, attention_dropout=0.2)
    assert model(bare)(rows_of(4)).pooled is None
