import pytest
import torch
import torch.nn.functional as F
from torch import nn

from plmkit.architectures.encoder_decoder import EncoderDecoder
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.network import Network
from plmkit.objectives.translation_lm import TranslationLM, TranslationLMHead


def example():
    torch.manual_seed(0)
    table = nn.Embedding(11, 4)
    hidden = torch.randn(2, 3, 4, requires_grad=True)
    targets = torch.tensor([[3, 5, IGNORE], [10, IGNORE, IGNORE]])
    side = Side(tokens=torch.zeros(2, 3, dtype=torch.long), visible=torch.ones(2, 3, dtype=torch.bool))
    return table, States(hidden=hidden), Batch(source=side, target=side, targets=targets)


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_both_losses_together_are_torchs_smoothed_cross_entropy(smoothing):
    table, states, batch = example()
    head = TranslationLMHead(table, smoothing)
    loss = head(states, batch) + head.auxiliary_loss(states, batch)
    logits = states.hidden @ table.weight.T
    expected = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)
    own = torch.autograd.grad(loss, [states.hidden, table.weight])
    for found, right in zip(own, torch.autograd.grad(expected, [states.hidden, table.weight]), strict=True):
        torch.testing.assert_close(found, right)


def test_the_loss_that_is_reported_has_no_smoothing():
    table, states, batch = example()
    plain = F.cross_entropy((states.hidden @ table.weight.T).flatten(0, 1), batch.targets.flatten())
    torch.testing.assert_close(TranslationLMHead(table, 0.3)(states, batch), plain)
    model = EncoderDecoder(layers=1, heads=2, width=4, inner=8).build(unnamed(11))
    network = Network(model, {"translation_lm": TranslationLM().build(model)}, {"translation_lm": 1.0})
    assert set(network.train()(batch).losses) == {"translation_lm", "smoothing"}
    assert set(network.eval()(batch).losses) == {"translation_lm"}  # on held-out text


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_is_a_share(smoothing):
    with pytest.raises(SettingError, match="smoothing must be at least 0 and below 1"):
        TranslationLM(smoothing=smoothing)
