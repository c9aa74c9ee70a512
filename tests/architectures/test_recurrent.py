"""The LSTM: what it computes, and what it carries from row to row."""

from dataclasses import replace

import pytest
import torch

from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.recurrent import Recurrent, RecurrentModel
from plmkit.catalogue import find
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError

TINY = Recurrent(layers=2, width=6, dropout=0.0, initial_range=0.7)


def model_of(settings: Recurrent = TINY) -> RecurrentModel:
    torch.manual_seed(0)
    return settings.build(unnamed(11)).double().eval()


def batch_of(tokens: torch.Tensor, memory: tuple[torch.Tensor, ...] | None = None) -> Batch:
    return Batch(source=Side(tokens=tokens, visible=tokens >= 0, segments=0 * tokens), memory=memory)


def random_tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(1))


def naive(model: RecurrentModel, tokens: list[int]) -> torch.Tensor:
    """One row by the four gates (Hochreiter and Schmidhuber, 1997; Gers et al., 2000)."""
    inputs = [model.embed.tokens.weight[token] for token in tokens]
    for layer in range(model.settings.layers):
        own = {
            name: getattr(model.cells, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        hidden = cell = torch.zeros(model.settings.width, dtype=torch.float64)
        outputs = []
        for given in inputs:
            gates = own["weight_ih"] @ given + own["bias_ih"] + own["weight_hh"] @ hidden + own["bias_hh"]
            enter, forget, new, leave = gates.chunk(4)
            cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * cell.tanh()
            outputs.append(hidden)
        inputs = outputs
    return torch.stack(inputs)


def test_it_computes_what_a_loop_over_the_gates_computes():
    model, tokens = model_of(), random_tokens(2, 7)
    found = model(batch_of(tokens)).hidden
    for row in range(2):
        torch.testing.assert_close(found[row], naive(model, tokens[row].tolist()), atol=1e-12, rtol=0)


@pytest.mark.parametrize("length", [1, 3, 6])
def test_row_after_row_with_its_state_is_one_pass(length):
    model, tokens = model_of(), random_tokens(3, 12)
    whole, memory, parts = model(batch_of(tokens)).hidden, None, []
    for part in tokens.split(length, dim=1):
        states = model(batch_of(part, memory))
        memory = states.memory
        assert memory[0].shape == (3, 2, 2, 6)
        assert not memory[0].requires_grad
        parts.append(states.hidden)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-12, rtol=0)


@pytest.mark.parametrize("steps", [[1] * 12, [12], [5, 1, 6]])
def test_reading_on_is_one_pass(steps):
    model, tokens = model_of(), random_tokens(3, 12)
    cache = model.begin(CacheSettings(3, 12))
    parts = [model.extend(part, cache) for part in tokens.split(steps, dim=1)]
    assert cache.length == 12
    torch.testing.assert_close(torch.cat(parts, dim=1), model(batch_of(tokens)).hidden, atol=1e-12, rtol=0)


def test_rows_of_its_state_are_picked():
    model, tokens = model_of(), random_tokens(3, 8)
    cache = model.begin(CacheSettings(3, 8))
    model.extend(tokens[:, :4], cache)
    cache.pick(torch.tensor([2, 2, 0]))
    found = model.extend(tokens[[2, 2, 0], 4:], cache)
    torch.testing.assert_close(found, model(batch_of(tokens[[2, 2, 0]])).hidden[:, 4:], atol=1e-12, rtol=0)


def test_a_token_changes_no_state_before_it():
    model, tokens = model_of(), random_tokens(1, 8)
    before = model(batch_of(tokens)).hidden
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 11
    after = model(batch_of(changed)).hidden
    assert torch.equal(after[:, :5], before[:, :5])
    assert not torch.allclose(after[:, 5:], before[:, 5:])


def test_the_state_of_a_row_is_that_of_its_last_token():
    model, tokens = model_of(), random_tokens(2, 5)
    visible = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    states = model(Batch(source=Side(tokens=tokens, visible=visible, segments=0 * tokens)))
    assert torch.equal(states.pooled, torch.stack([states.hidden[0, 4], states.hidden[1, 2]]))


def test_its_parameters_are_the_table_and_four_gates_a_layer():
    model = replace(TINY, layers=3, width=10).build(unnamed(50))
    assert sum(p.numel() for p in model.parameters()) == 50 * 10 + 3 * (4 * 10 * (10 + 10) + 2 * 4 * 10)


@pytest.mark.parametrize("changes", [{"layers": 0}, {"dropout": 1.0}, {"initial_range": 0.0}])
def test_settings_that_cannot_be_are_refused(changes):
    with pytest.raises(SettingError, match=f"architecture.{next(iter(changes))}"):
        replace(TINY, **changes)


def test_an_lstm_learns_a_small_text_by_heart():
    """Perplexity below 1.2, with the recipe's objective; each token is read once, so it knows what came before."""
    text = "the sea is wide and the sky is high but the ship is small and the way is long so we sail on"
    words = sorted(set(text.split()))
    tokens = torch.tensor([[5 + words.index(word) for word in text.split()]])
    torch.manual_seed(0)
    recipe = replace(find("gpt1-lstm-mini"), architecture=Recurrent(layers=1, width=48, dropout=0.0))
    network = recipe.build(unnamed(5 + len(words)))
    batch = Batch(source=Side(tokens=tokens[:, :-1], visible=tokens[:, 1:] >= 0), targets=tokens[:, 1:])
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-2)
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        losses.append(network(batch).losses["causal_lm"])
        losses[-1].backward()
        optimizer.step()
    with torch.no_grad():
        perplexity = network.eval()(batch).losses["causal_lm"].exp()
    assert losses[0].exp() > 10 and perplexity < 1.2
