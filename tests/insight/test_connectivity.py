"""Which tokens a state depends on, by gradients: the three networks of Devlin et al. (2018, figure 3)."""

import pytest
import torch
from models import tiny_model
from torch import Tensor

from plmkit.architectures.elmo import Elmo
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import Vocabulary
from plmkit.insight.attribution import watched_embeddings

LENGTH = 6
FULL = torch.ones(LENGTH, LENGTH, dtype=torch.bool)


def batch_of(tokens: Tensor) -> Batch:
    return Batch(source=Side(tokens=tokens[None], visible=torch.ones(1, LENGTH, dtype=torch.bool)))


def connected(states: Tensor, embeddings: Tensor) -> Tensor:
    """(L, L) True where the state at i depends on the embedding at j."""
    rows = [torch.autograd.grad(state.pow(2).sum(), embeddings, retain_graph=True)[0] for state in states]
    return torch.stack([row.flatten(0, -2).abs().sum(-1) for row in rows]) > 0


@pytest.mark.parametrize(
    ("name", "expected"), [("bert-tiny", FULL), ("gpt1-tiny", FULL.tril()), ("gpt2-tiny", FULL.tril())]
)
def test_bert_sees_both_sides_and_gpt_the_left(name, expected):
    model = tiny_model(name).network.model
    with watched_embeddings(model) as kept:
        states = model(batch_of(torch.arange(20, 20 + LENGTH))).hidden[0]
    assert torch.equal(connected(states, *kept.values()), expected)


def test_elmo_sees_the_left_in_one_half_of_a_state_and_the_right_in_the_other():
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ant", "bee", "cow", "dog", "eel", "fox")
    torch.manual_seed(0)
    model = Elmo(layers=2, width=8, cell=6, filters=((1, 4), (2, 4)), highways=1).build(Vocabulary.from_tokens(words))
    kept: list[Tensor] = []
    model.embed.register_forward_hook(lambda _, __, made: kept.append(made.detach().requires_grad_()) or kept[-1])
    states = model.eval()(batch_of(torch.arange(5, 5 + LENGTH))).hidden[0]
    assert torch.equal(connected(states[:, :4], kept[0]), FULL.tril())
    assert torch.equal(connected(states[:, 4:], kept[0]), FULL.triu())
    assert torch.equal(connected(states, kept[0]), FULL)  # only because the halves are next to each other
