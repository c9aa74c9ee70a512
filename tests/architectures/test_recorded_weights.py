"""Every attention layer can be asked for its weights, which are its own, and asking changes nothing."""

from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F
from test_architecture_contract import GENERATING, TINY, batch_of, model_of
from torch import Tensor, nn

from plmkit.architectures.captioner import Captioner
from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.elmo import Elmo
from plmkit.architectures.recurrent import Recurrent
from plmkit.architectures.recurrent_seq2seq import RecurrentEncoder
from plmkit.architectures.two_stream import TwoStream
from plmkit.data.batch import Batch, States
from plmkit.layers.attention import SelfAttention
from plmkit.layers.recording import AttentionWeights, recording
from plmkit.layers.relative import RelativeAttention

WITHOUT = Recurrent | RecurrentEncoder | Elmo | Captioner  # a captioner attends to its image only: test_captioner.py
WITH_ATTENTION = [name for name in TINY if not isinstance(TINY[name], WITHOUT)]
REMEMBERING = [name for name in TINY if TINY[name].memory_length]


def batch_for(name: str) -> Batch:
    """Rows of 9 and of 6 tokens; without predictions, so that all layers compute all positions."""
    batch = replace(batch_of(last=isinstance(TINY[name], TwoStream)), targets=None)
    return batch if TINY[name].describes_images else replace(batch, images=None)  # with: test_seeing.py


def left_to_right(batch: Batch) -> Batch:
    """Every token is predicted from those before it, as XLNet does when it generates."""
    places = torch.arange(batch.source.tokens.shape[1]).expand_as(batch.source.tokens)
    order = torch.stack([places, places], dim=-1)
    return replace(batch, attention_order=order, targets=batch.source.tokens)


def same(one: States, other: States) -> bool:
    for field in fields(States):
        values = getattr(one, field.name), getattr(other, field.name)
        pairs = zip(*values, strict=True) if isinstance(values[0], tuple) else [values]
        if not all(a is b is None or torch.equal(a, b) for a, b in pairs):
            return False
    return True


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", TINY)
def test_outputs_are_the_same_to_the_bit_when_weights_are_recorded(name, trained):
    architecture = TINY[name].with_settings(dropout=0.3)
    model, batch = model_of(architecture).float().train(trained), replace(batch_for(name), all_layers=True)
    with torch.set_grad_enabled(trained):
        torch.manual_seed(7)
        plain = model(batch)
        torch.manual_seed(7)
        with recording() as kept:
            recorded = model(batch)
    assert same(plain, recorded)
    attended = [layer for layer in kept if layer.kind != "cross"]
    assert len(attended) == (TINY[name].layers if name in WITH_ATTENTION else 0)


@pytest.mark.parametrize("name", WITH_ATTENTION)
def test_the_weights_of_a_query_add_up_to_one_and_padding_gets_none(name):
    batch = batch_for(name)
    with recording() as kept, torch.no_grad():
        model_of(TINY[name])(batch)
    visible, causal = batch.source.visible, TINY[name].generates == "causal"
    for layer in kept:
        rows = layer.weights.transpose(1, 2)[visible]  # (T, heads, keys)
        assert torch.allclose(rows.sum(-1), torch.ones(()).double())
        if causal:
            assert not layer.weights.triu(1).any()
        to_padding = visible[:, None, :, None] & ~visible[:, None, None, :]
        assert not layer.weights[to_padding.expand_as(layer.weights)].any()


@pytest.mark.parametrize(
    ("name", "remembers"), [*((name, False) for name in WITH_ATTENTION), *((name, True) for name in REMEMBERING)]
)
def test_weights_times_values_are_what_the_layer_hands_to_its_output(name, remembers):
    batch = batch_for(name)
    if remembers:
        batch = replace(batch, memory=(torch.randn(2, TINY[name].layers, 5, TINY[name].width).double(),))
    with torch.no_grad():
        kept, mixed = recorded_with_outputs(model_of(TINY[name]), batch)
    assert len(kept) == len(mixed) == TINY[name].layers
    for number, (layer, (attention, hidden, output)) in enumerate(zip(kept, mixed, strict=True)):
        memory = batch.memory[0][:, number] if batch.memory else None
        assert layer.memory == (5 if remembers else 0)
        values = values_of(attention, hidden, batch.source.visible, memory)
        expected = (layer.weights @ values).transpose(1, 2).flatten(2)  # (B, L, width)
        shown = batch.source.visible
        assert torch.allclose(expected[shown], output if output.dim() == 2 else output[shown], atol=1e-10)


Call = tuple[nn.Module, Tensor, Tensor]  # an attention layer, its input, and what it hands to its output projection


def recorded_with_outputs(model: nn.Module, batch: Batch) -> tuple[list[AttentionWeights], list[Call]]:
    inputs: dict[nn.Module, Tensor] = {}
    calls: list[Call] = []
    for attention in model.modules():
        if isinstance(attention, SelfAttention | RelativeAttention):
            attention.register_forward_pre_hook(lambda module, given: inputs.update({module: given[0]}))
            attention.output.register_forward_pre_hook(
                lambda _, given, owner=attention: calls.append((owner, inputs[owner], given[0]))
            )
    with recording() as kept:
        model(batch)
    return kept, calls


def values_of(attention: nn.Module, hidden: Tensor, visible: Tensor, memory: Tensor | None) -> Tensor:
    """(B, heads, keys, width / heads) by the last third of the projection, with zeros at padding."""
    width = hidden.shape[-1]
    if hidden.dim() == 2:  # packed
        hidden = hidden.new_zeros(*visible.shape, width).masked_scatter(visible[..., None], hidden)
    if memory is not None:
        hidden = torch.cat([memory, hidden], dim=1)
    joint = attention.query_key_value
    bias = None if joint.bias is None else joint.bias[-width:]
    return F.linear(hidden, joint.weight[-width:], bias).unflatten(-1, (attention.heads, -1)).transpose(1, 2)


@pytest.mark.parametrize("name", ["segment recurrence", "absolute recurrence"])
def test_the_columns_of_recurrent_memory_are_counted_and_attended_to(name):
    architecture = TINY[name]
    batch = replace(batch_of((9, 9)), targets=None)
    memory = (torch.randn(2, architecture.layers, 5, architecture.width).double(),)
    with recording() as kept, torch.no_grad():
        model_of(architecture)(replace(batch, memory=memory))
    for layer in kept:
        assert (layer.memory, layer.weights.shape) == (5, (2, 2, 9, 14))
        assert (layer.weights[..., :5] > 0).all()
        assert not layer.weights.triu(6).any()  # the first query stands at key 5


def test_the_query_stream_of_xlnet_sees_no_more_than_the_tokens_before():
    batch = left_to_right(replace(batch_of((9, 9)), targets=None))
    with recording() as kept, torch.no_grad():
        model_of(TINY["two streams"])(batch)
    assert [layer.kind for layer in kept] == ["self", "query", "self", "query", "query"]  # the last content is not used
    for layer in kept:
        own = layer.kind == "self"
        assert not layer.weights.triu(1 if own else 0).any()
        seeing = layer.weights.sum(-1) if own else layer.weights.sum(-1)[..., 1:]  # the first query sees nothing
        assert torch.allclose(seeing, torch.ones(()).double())


@pytest.mark.parametrize("name", [name for name in GENERATING if name != "lstm"])
@pytest.mark.parametrize("sizes", [(9,), (4, 5), (1,) * 9])
def test_weights_with_a_cache_are_those_without_one(name, sizes):
    model, batch = model_of(TINY[name]), replace(batch_of((9, 9)), targets=None)
    tokens = batch.source.tokens
    batch = replace(batch, source=replace(batch.source, segments=None))  # as a text that is generated
    with torch.no_grad():
        cache = model.begin(CacheSettings(2, 9))
        plain = torch.cat([model.extend(part, cache) for part in tokens.split(sizes, dim=1)], dim=1)
        with recording() as expected:
            model(left_to_right(batch) if isinstance(TINY[name], TwoStream) else batch)
        cache, begin = model.begin(CacheSettings(2, 9)), 0
        hidden = []
        for part in tokens.split(sizes, dim=1):
            with recording() as kept:
                hidden.append(model.extend(part, cache))
            end = begin + part.shape[1]
            for layer, whole in zip(kept, expected, strict=True):
                seen = layer.weights.shape[-1]
                assert (layer.kind, layer.memory) == (whole.kind, seen - part.shape[1])
                ahead = int(layer.kind == "query")  # the query after a token is one position on
                rows = whole.weights[:, :, begin + ahead : end + ahead, end - seen : end]
                assert torch.allclose(layer.weights[:, :, : rows.shape[2]], rows, atol=1e-10)
            begin = end
    assert torch.equal(plain, torch.cat(hidden, dim=1))


def test_weights_over_a_full_context_are_those_of_the_band():
    """With a context shorter than the text, the kernel of the band computes, which keeps no weights."""
    model = model_of(TINY["segment recurrence"])
    tokens = batch_of((12, 12)).source.tokens
    with torch.no_grad():
        cache = model.begin(CacheSettings(2, 12, context_length=4))
        model.extend(tokens[:, :4], cache)
        with recording() as kept:
            model.extend(tokens[:, 4:6], cache)
        assert cache.banded
        one_by_one = model.begin(CacheSettings(2, 12, context_length=4))
        model.extend(tokens[:, :4], one_by_one)
        steps = []
        for place in (4, 5):
            with recording() as step:
                model.extend(tokens[:, place : place + 1], one_by_one)
            steps.append(step)
    for number, layer in enumerate(kept):
        assert layer.weights.shape[-1] == 5  # query 4 sees keys 1 to 4, query 5 sees keys 2 to 5
        assert torch.allclose(layer.weights[:, :, 0, :4], steps[0][number].weights[:, :, 0])
        assert torch.allclose(layer.weights[:, :, 1, 1:], steps[1][number].weights[:, :, 0])
        assert not layer.weights[:, :, 0, 4].any() and not layer.weights[:, :, 1, 0].any()
