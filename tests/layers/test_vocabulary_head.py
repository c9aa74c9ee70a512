"""The vocabulary layer, and which tokens its softmax covers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from plmkit.layers.vocabulary_head import VocabularyHead

COUNTS = np.array([0, 9000, 0, 3000, 0, 1000])  # the corpus uses three of six tokens


@pytest.fixture
def head() -> VocabularyHead:
    torch.manual_seed(0)
    table = nn.Embedding(6, 4)
    nn.init.normal_(table.weight, std=0.02)
    return VocabularyHead(table, width=4, activation="gelu", epsilon=1e-12)


def test_in_training_the_softmax_covers_only_tokens_of_the_corpus(head):
    head.restrict(COUNTS)
    hidden, targets = torch.randn(5, 4), torch.tensor([1, 3, 5, 1, 3])
    logits = head(hidden)[:, [1, 3, 5]]
    expected = F.cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1]))
    assert torch.allclose(head.train().loss(hidden, targets), expected)


def test_leaving_them_out_changes_the_loss_in_the_third_decimal(head):
    head.restrict(COUNTS)
    hidden, targets = torch.randn(5, 4), torch.tensor([1, 3, 5, 1, 3])
    with torch.no_grad():
        head.bias.copy_(torch.from_numpy(np.log((COUNTS + 0.5) / (COUNTS + 0.5).sum())))
        some, all_of_them = float(head.train().loss(hidden, targets)), float(head.eval().loss(hidden, targets))
    assert some < all_of_them < some + 0.001


def test_held_out_text_is_scored_over_the_whole_vocabulary(head):
    head.restrict(COUNTS)
    hidden, targets = torch.randn(2, 4), torch.tensor([0, 2])  # tokens that the training text does not have
    assert torch.allclose(head.eval().loss(hidden, targets), F.cross_entropy(head(hidden), targets))


def test_without_counts_the_softmax_covers_every_token(head):
    hidden, targets = torch.randn(2, 4), torch.tensor([0, 2])
    assert torch.allclose(head.train().loss(hidden, targets), F.cross_entropy(head(hidden), targets))


def test_a_token_that_never_occurs_is_not_moved(head):
    head.restrict(COUNTS)
    head.train().loss(torch.randn(5, 4), torch.tensor([1, 3, 5, 1, 3])).backward()
    moved = head._table[0].weight.grad.abs().sum(1) > 0
    assert moved.tolist() == [False, True, False, True, False, True]


def test_the_counts_are_not_saved(head):
    before = set(head.state_dict())
    head.restrict(COUNTS)
    assert set(head.state_dict()) == before
