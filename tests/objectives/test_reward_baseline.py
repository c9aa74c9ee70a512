"""A sample's reward is compared with the mean of the others, however few they are."""

from math import log

import pytest
import torch
from torch import nn

from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.objectives.replaced_token import AdversarialGeneratorHead


class Discriminator(nn.Module):
    """Its verdict is the first number of a state."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden[:, 0]


class AllTokens:
    """A vocabulary head whose softmax covers every token, each at the place of its id."""

    def softmax_index(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens


@pytest.mark.parametrize(
    ("odds", "loss"),
    [
        ([3.0], log(4) * log(2)),  # alone: the reward itself, and both tokens are as likely
        ([3.0, 1.0], 0.0),  # log 4 - log 2 and log 2 - log 4, each times log 2
    ],
)
def test_the_loss_of_one_sample_and_of_two(odds, loss):
    """A discriminator with odds of 3 to 1 for `replaced`, where nothing was: its loss, the reward, is log 4."""
    asked = torch.ones(1, len(odds), dtype=torch.bool)
    states = States(
        hidden=torch.tensor(odds).log().view(1, -1, 1),
        guesses=torch.zeros(len(odds), 2, requires_grad=True),
        sampled=torch.zeros(len(odds), dtype=torch.long),
        replaced=~asked,
    )
    batch = Batch(
        source=Side(tokens=asked.long(), visible=asked, segments=asked.long()), targets=torch.where(asked, 1, IGNORE)
    )
    head = AdversarialGeneratorHead(AllTokens(), temperature=1.0)
    head.connect({"replaced_token": Discriminator()})
    found = head(states, batch)
    assert found.item() == pytest.approx(loss, abs=1e-6)
    found.backward()
    advantages = [log(4)] if len(odds) == 1 else [log(2), -log(2)]
    wanted = [[advantage / len(odds) * -0.5, advantage / len(odds) * 0.5] for advantage in advantages]
    torch.testing.assert_close(states.guesses.grad, torch.tensor(wanted))
