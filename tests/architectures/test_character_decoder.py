"""The character Transformer: positions at every layer, and losses that are switched off in the course of a run."""

import pytest
import torch
import torch.nn.functional as F

from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.architectures.contract import CacheSettings
from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.network import Network
from plmkit.objectives.causal_lm import AuxiliaryLM

TINY = CharacterDecoder(layers=3, heads=2, width=8, inner=12, max_length=16, dropout=0.0, attention_dropout=0.0)


def network_of(settings: CharacterDecoder = TINY, **changes: float) -> Network:
    torch.manual_seed(0)
    model = settings.build(unnamed(11))
    made = Network(model, {"auxiliary_lm": AuxiliaryLM(**changes).build(model)}, {"auxiliary_lm": 1.0}).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


def batch_of(tokens: torch.Tensor) -> Batch:
    targets = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], IGNORE)], dim=1)
    return Batch(source=Side(tokens=tokens, visible=tokens >= 0, segments=0 * tokens), targets=targets)


def random_tokens(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(seed))


def test_each_layer_has_its_own_position_embeddings():
    model = network_of().model
    assert model.positions.shape == (3, 16, 8)
    tokens = random_tokens(1, 5)
    hidden = model.embed(tokens)[0]
    for block, table in zip(model.blocks, model.positions, strict=True):
        given = hidden + table[:5]
        query, key, value = (
            part.view(5, 2, 4).transpose(0, 1) for part in block.attention.query_key_value(given).split(8, -1)
        )
        scores = query @ key.transpose(-1, -2) / 2
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
        mixed = block.attention.output((scores.softmax(-1) @ value).transpose(0, 1).reshape(5, 8))
        middle = block.attention_norm(given + mixed)
        hidden = block.feed_forward_norm(middle + block.feed_forward.contract(block.feed_forward.expand(middle).relu()))
    torch.testing.assert_close(model(batch_of(tokens)).hidden[0], hidden, atol=1e-10, rtol=0)


def test_a_token_changes_no_state_before_it():
    model, tokens = network_of().model, random_tokens(1, 10)
    before = model(batch_of(tokens)).hidden
    changed = tokens.clone()
    changed[0, 6] = (changed[0, 6] + 1) % 11
    after = model(batch_of(changed)).hidden
    torch.testing.assert_close(after[:, :6], before[:, :6], atol=1e-12, rtol=0)
    assert not torch.allclose(after[:, 6:], before[:, 6:])


@torch.no_grad()
def test_rows_share_nothing():
    """Segments are trained on independently: in another order, each has the same loss."""
    made = network_of().eval()
    tokens = random_tokens(4, 12)
    alone = [float(made(batch_of(tokens[[row]])).losses["auxiliary_lm"]) for row in range(4)]
    mixed = [float(made(batch_of(tokens[[row]])).losses["auxiliary_lm"]) for row in (2, 0, 3, 1)]
    assert mixed == [alone[row] for row in (2, 0, 3, 1)]
    together = float(made(batch_of(tokens[[2, 0, 3, 1]])).losses["auxiliary_lm"])
    assert together == pytest.approx(sum(alone) / 4, abs=1e-12)
    assert made.model(batch_of(tokens)).memory is None


@pytest.mark.parametrize(
    ("progress", "layers"),
    [(0.0, [0, 1]), (0.16, [0, 1]), (1 / 6, [1]), (0.33, [1]), (1 / 3, []), (0.5, []), (1.0, [])],
)
def test_layer_l_of_n_predicts_until_a_share_of_l_over_2n_of_the_run(progress, layers):
    made, batch = network_of(), batch_of(random_tokens(2, 6))
    made.advance(progress)
    head, states = made.heads["auxiliary_lm"], made.states(batch)
    assert [number for number, _ in head.predicting_layers(states)] == layers
    expected = 0.5 * loss_of(states.hidden, head.after_next[2], batch, 2)
    for number in layers:
        expected += loss_of(states.layers[number + 1], head.before_last[number], batch, 1)
        expected += 0.5 * loss_of(states.layers[number + 1], head.after_next[number], batch, 2)
    losses = made(batch).weighted
    plain = loss_of(states.hidden, head.vocabulary, batch, 1)
    torch.testing.assert_close(losses["auxiliary_lm"], plain, atol=1e-10, rtol=0)  # as on held-out text
    torch.testing.assert_close(losses["auxiliary"], expected, atol=1e-10, rtol=0)
    assert losses.keys() == made.scored(batch).keys() == {"auxiliary_lm", "auxiliary"}


def test_the_auxiliary_losses_have_the_weight_of_the_objective_learned_or_not():
    made, batch = network_of(), batch_of(random_tokens(2, 6))
    plain = made(batch).weighted
    made.weights["auxiliary_lm"] = 0.25
    assert made(batch).weighted == {name: 0.25 * loss for name, loss in plain.items()}
    learned = Network(made.model, dict(made.heads.items()), {"auxiliary_lm": 0.25}, ["auxiliary_lm"]).double()
    torch.testing.assert_close(learned(batch).weighted["auxiliary"], 0.25 * plain["auxiliary"])


def loss_of(hidden: torch.Tensor, classify: torch.nn.Linear, batch: Batch, ahead: int) -> torch.Tensor:
    """Cross entropy of the token this many positions ahead."""
    logits = classify(hidden[:, :-ahead]).flatten(0, 1)
    return F.cross_entropy(logits, batch.source.tokens[:, ahead:].flatten())


def test_outside_training_only_the_last_layer_predicts_and_only_the_next_token():
    made, batch = network_of().eval(), batch_of(random_tokens(2, 6))
    states = made.model(batch)
    assert states.layers is None
    head = made.heads["auxiliary_lm"]
    torch.testing.assert_close(made(batch).losses["auxiliary_lm"], loss_of(states.hidden, head.vocabulary, batch, 1))
    assert made(batch).losses.keys() == made.scored(batch).keys() == {"auxiliary_lm"}


def test_a_layer_that_no_longer_predicts_gets_no_gradient_from_its_classifier():
    made, batch = network_of(), batch_of(random_tokens(2, 6))
    made.advance(0.2)
    sum(made(batch).weighted.values()).backward()
    head = made.heads["auxiliary_lm"]
    assert head.before_last[0].weight.grad is None
    assert head.after_next[0].weight.grad is None
    assert head.before_last[1].weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "learning", "reading"),
    [("char-transformer-12l", 44_171_264, 41_156_608), ("char-transformer-64l", 235_012_096, 218_365_952)],
)
def test_its_matrices_are_the_papers_count(name, learning, reading):
    """44M and 235M in training, 41M and 219M without what only training needs; biases and norms are not in it."""
    recipe = find(name)
    with torch.device("meta"):
        made = recipe.build(unnamed(256))
    matrices = {key: p.numel() for key, p in made.named_parameters() if p.dim() > 1}
    assert sum(matrices.values()) == learning
    assert (
        sum(count for key, count in matrices.items() if ".before_last." not in key and ".after_next." not in key)
        == reading
    )


@pytest.mark.parametrize("steps", [[1] * 12, [12], [5, 1, 6]])
@torch.inference_mode()
def test_reading_on_with_a_cache_is_one_pass(steps):
    model, tokens = network_of().eval().model, random_tokens(3, 12)
    cache = model.begin(CacheSettings(3, 12))
    parts = [model.extend(part, cache) for part in tokens.split(steps, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(batch_of(tokens)).hidden, atol=1e-10, rtol=0)
