"""The penalty for attention that covers the regions of an image unevenly (Xu et al., 2015, 4.2.1)."""

from dataclasses import replace

import pytest
import torch

from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.vocabulary import unnamed
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.doubly_stochastic_attention import DoublyStochasticAttention, DoublyStochasticAttentionHead
from plmkit.training.step import pieces

SHARES = torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])  # of 3 regions at 2 words


def batch_of(targets: list[list[int]]) -> Batch:
    made = torch.tensor(targets)
    tokens = torch.full_like(made, 5)
    return Batch(source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool)), targets=made)


def penalty(attention: torch.Tensor, targets: list[list[int]]) -> torch.Tensor:
    states = States(hidden=torch.zeros(*attention.shape[:2], 4), region_attention=attention)
    return DoublyStochasticAttentionHead()(states, batch_of(targets))


def captions() -> tuple[torch.nn.Module, Batch]:
    """An untrained captioner, and two captions of 6 and 3 words."""
    torch.manual_seed(0)
    recipe = replace(find("caption-tiny"), objectives=find("caption-base").objectives)
    network = recipe.build(unnamed(30)).eval()
    tokens = torch.randint(5, 30, (2, 6))
    targets = torch.randint(5, 30, (2, 6))
    targets[1, 3:] = IGNORE
    visible = targets != IGNORE
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    return network, Batch(source=Side(tokens=tokens, visible=visible), targets=targets, images=images)


def test_by_hand_two_words_and_three_regions():
    """The regions get 0.75, 0.75 and 0.5: 0.0625 + 0.0625 + 0.25 = 0.375, for two words."""
    assert penalty(SHARES[None], [[7, 8]]).item() == 0.375 / 2


def test_it_is_zero_if_every_region_gets_an_attention_of_one_in_all_and_only_then():
    even = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.4, 0.5], [0.4, 0.3, 0.3]], dtype=torch.float64)  # rows, columns: 1
    three = [[7, 8, 9]]
    assert penalty(even[None], three).item() == pytest.approx(0, abs=1e-30)
    assert penalty(torch.eye(3)[None], three).item() == 0
    shifted = even.clone()
    shifted[1] += torch.tensor([0.1, 0.0, -0.1])  # still a distribution at every word
    assert penalty(shifted[None], three).item() == pytest.approx((0.1**2 + 0.1**2) / 3)


def test_positions_without_a_word_do_not_count():
    padding = torch.tensor([[0.0, 0.0, 1.0]])
    padded = torch.cat([SHARES, padding])[None]
    assert penalty(padded, [[7, 8, IGNORE]]) == penalty(SHARES[None], [[7, 8]])
    assert penalty(padded, [[7, 8, 9]]) != penalty(SHARES[None], [[7, 8]])


def test_both_losses_together_are_the_papers_over_the_words_of_the_batch():
    """Equation 14 for each caption, -log p(caption) + Σ (1 - Σ a)², with loops over captions, words and regions."""
    network, batch = captions()
    states = network.model(batch)
    scores = network.heads["causal_lm"].answers(states, batch).log_softmax(-1)
    total, words = 0.0, 0
    for row in range(2):
        covered = [0.0] * 64
        for place, target in enumerate(batch.targets[row].tolist()):
            if target == IGNORE:
                continue
            words += 1
            total -= scores[row, place, target].item()
            for region in range(64):
                covered[region] += states.region_attention[row, place, region].item()
        total += sum((1 - share) ** 2 for share in covered)
    found = network(batch)
    assert found.weighted.keys() == {"causal_lm", "doubly_stochastic_attention"}
    assert sum(found.weighted.values()).item() == pytest.approx(total / words, rel=1e-5)


def test_micro_batches_add_up_to_the_batch():
    network, batch = captions()
    head = network.heads["doubly_stochastic_attention"]
    parts = [(head(network.model(part), part), head.scored(part)) for part in pieces(batch, 1)]
    assert [count for _, count in parts] == [6, 3]
    whole = sum(loss * count for loss, count in parts) / head.scored(batch)
    torch.testing.assert_close(whole, head(network.model(batch), batch))


def test_its_gradient_reaches_the_attention_and_evens_it_out():
    network, batch = captions()
    for parameter in network.model.attention.parameters():
        torch.nn.init.normal_(parameter)
    head = network.heads["doubly_stochastic_attention"]
    weights = list(network.model.attention.parameters())[:-2]  # all but the gate of the context
    optimizer = torch.optim.SGD(weights, lr=1e-2)
    losses = []
    for _ in range(20):
        loss = head(network.model(batch), batch)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        assert all(weight.grad.abs().sum() > 0 for weight in weights)
        optimizer.step()
    assert losses[-1] < losses[0]


def test_it_has_no_weights_and_the_recipe_of_the_paper_has_it_with_the_weight_one():
    network, _ = captions()
    assert not list(network.heads["doubly_stochastic_attention"].parameters())
    assert find("caption-base").objectives == (CausalLM(), DoublyStochasticAttention(weight=1.0))


def test_without_it_a_captioner_is_trained_on_its_words_alone():
    lone = find("caption-tiny").build(unnamed(30)).eval()
    _, batch = captions()
    assert lone(batch).losses.keys() == {"causal_lm"}
