"""What is pruned, by which importance, and that the rest computes what it did."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plmkit.architectures.encoder import Encoder
from plmkit.compression.pruning import Kept, best_of, importance_of, inputs_of, kept_of, pruned
from plmkit.data.batch import Batch, Side
from plmkit.errors import SettingError
from plmkit.inference.loading import model_of, read_parts
from plmkit.layers.attention import without_heads
from plmkit.tasks.rows import read_rows


def test_the_least_important_of_all_layers_go_but_one_stays_in_each():
    importance = [np.array([0.9, 0.1, 0.8]), np.array([0.02, 0.01, 0.03])]
    kept = [places.tolist() for places in best_of(importance, 0.5)]
    assert kept == [[0, 2], [2]]  # 0.01, 0.02 and 0.1 go; 0.03 is the best of its layer
    assert [places.tolist() for places in best_of(importance, 0.0)] == [[0, 1, 2], [0, 1, 2]]
    assert [places.tolist() for places in best_of(importance, 0.99)] == [[0], [2]]


def states(model):
    tokens = torch.arange(5, 29).view(3, 8)
    visible = torch.ones(3, 8, dtype=torch.bool)
    visible[1, 5:] = False
    with torch.inference_mode():
        made = model.network.model(Batch(source=Side(tokens=tokens, visible=visible)))
    return made.hidden[visible], made.pooled


def test_a_pruned_network_computes_what_the_whole_one_does_without_these_heads(finetuned):
    parts = read_parts(finetuned)
    inner = parts.architecture.inner
    kept = Kept(heads=[np.array([1]), np.array([0, 1])], units=[np.arange(inner), np.arange(inner)])
    small, whole = model_of(pruned(parts, kept), "cpu"), model_of(parts, "cpu")
    first = whole.network.model.blocks[0].attention
    before = states(whole)
    with without_heads(first, 0):
        expected = states(whole)
    for one, other in zip(states(small), expected, strict=True):
        torch.testing.assert_close(one, other)
    assert not torch.allclose(before[0], expected[0], atol=1e-4)
    assert small.network.model.blocks[0].attention.query_key_value.weight.shape == (3 * 16, 32)


def test_units_that_are_pruned_are_those_whose_activation_is_left_out(finetuned):
    parts = read_parts(finetuned)
    units = [np.arange(0, parts.architecture.inner, 2), np.arange(parts.architecture.inner)]
    small = model_of(pruned(parts, Kept(heads=[np.arange(2)] * 2, units=units)), "cpu")
    whole = model_of(parts, "cpu")
    with torch.no_grad():
        whole.network.model.blocks[0].feed_forward.contract.weight[:, 1::2] = 0
    for one, other in zip(states(small), states(whole), strict=True):
        torch.testing.assert_close(one, other)


def test_importance_is_the_gradient_of_a_gate_in_front_of_each_head(finetuned, rows_file):
    """A gate of 1 times the output of a head changes nothing; its gradient is the importance (Michel et al., 2.3)."""
    model = model_of(read_parts(finetuned), "cpu")
    rows = read_rows(rows_file, paired=False)[:3]
    found = importance_of(model, {"classify": rows})
    task, blocks = model.tasks["classify"], model.network.model.blocks
    expected = [np.zeros(2), np.zeros(2)]
    for example in task.frame(rows, model.tokenizer, task.length):
        gates = [torch.ones(2, requires_grad=True) for _ in blocks]
        hooks = [
            block.attention.output.register_forward_pre_hook(
                lambda _, given, gate=gate: (given[0] * gate.repeat_interleave(16),)
            )
            for block, gate in zip(blocks, gates, strict=True)
        ]
        tokens = torch.from_numpy(example.inputs[0].tokens)[None]
        batch = Batch(source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool)))
        head = model.network.heads["classify"]
        logits = head.answers(model.network.model(batch), batch)
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([task.classes.index(example.row.label)]))
        for layer, gradient in enumerate(torch.autograd.grad(loss, gates)):
            expected[layer] += gradient.abs().numpy()
        for hook in hooks:
            hook.remove()
    for ours, theirs in zip(found.heads, expected, strict=True):
        np.testing.assert_allclose(ours, theirs / np.linalg.norm(theirs), rtol=1e-3)


def test_hooks_are_removed():
    layer = torch.nn.Linear(2, 2)
    with inputs_of([layer]) as kept:
        layer(torch.ones(1, 2))
    assert kept[layer].tolist() == [[1.0, 1.0]] and not layer._forward_pre_hooks


def test_kept_counts_are_checked():
    settings = Encoder(layers=2, heads=4, width=16, inner=32)
    assert replace(settings, kept_heads=(1, 4)).is_pruned and not settings.is_pruned
    for wrong in ((1,), (0, 1), (1, 5)):
        with pytest.raises(SettingError, match=r"architecture\.kept_heads"):
            replace(settings, kept_heads=wrong)
    with pytest.raises(SettingError, match=r"architecture\.kept_inner"):
        replace(settings, kept_inner=(33, 1))


def test_nothing_is_pruned_by_a_share_of_zero():
    from plmkit.compression.pruning import Importance

    importance = Importance(heads=[np.array([0.1, 0.2])], units=[np.array([0.3, 0.4, 0.5])])
    kept = kept_of(importance, 0.5, 0.0)
    assert kept.heads[0].tolist() == [1] and kept.units[0].tolist() == [0, 1, 2]
