"""torch.compile changes nothing but the time."""

import logging

import pytest
import torch

from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed


@pytest.mark.filterwarnings("ignore")  # torch warns of itself
def test_a_compiled_network_gives_the_states_and_gradients_of_the_plain_one(caplog):
    settings = Encoder(layers=2, heads=2, width=16, inner=32, max_length=16, dropout=0.1, attention_dropout=0.1)
    torch.manual_seed(0)
    network = settings.build(unnamed(30))
    visible = torch.ones(3, 10, dtype=torch.bool)
    visible[1, 6:] = False
    wanted = torch.zeros_like(visible)
    wanted[:, 2:4] = True
    tokens = torch.randint(5, 30, (3, 10))
    batch = Batch(source=Side(tokens=tokens, visible=visible, segments=torch.zeros_like(tokens)), needed=wanted)
    found = []
    for model in (network, torch.compile(network, backend="aot_eager")):
        network.zero_grad()
        torch.manual_seed(1)
        states = model(batch)
        (states.hidden.sin().sum() + states.pooled.sin().sum()).backward()
        found.append([states.hidden.detach(), *(parameter.grad.clone() for parameter in network.parameters())])
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)
    reported = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert not reported, "no word about breaks in the graph"
