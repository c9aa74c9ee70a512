from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plmkit.architectures.encoder import Encoder, EncoderModel
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence

SMALL = Encoder(layers=1, heads=2, width=8, inner=16, max_length=10, dropout=0.0, attention_dropout=0.0)


def network(**weights: float) -> Network:
    torch.manual_seed(0)
    model = EncoderModel(SMALL, 20)
    tasks = (MaskedLM(weight=weights.get("masked_lm", 1.0)), NextSentence(weight=weights.get("next_sentence", 1.0)))
    made = Network(model, {task.name: task.build(model) for task in tasks}, {task.name: task.weight for task in tasks})
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "norm" not in name:
                weight.normal_(0, 0.4)
    return made


def batch() -> Batch:
    tokens = torch.tensor([[2, 7, 4, 9, 3, 8, 3], [2, 4, 3, 6, 3, 0, 0]])
    targets = torch.full_like(tokens, IGNORE)
    targets[0, 2], targets[0, 5], targets[1, 1] = 11, 8, 12
    return Batch(
        source=Side(
            tokens=tokens, visible=tokens != 0, segments=torch.tensor([[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0, 0]])
        ),
        targets=targets,
        random_next=torch.tensor([0, 1]),
    )


def logits_by_hand(made: Network, given: Batch) -> torch.Tensor:
    return made.heads["masked_lm"].vocabulary(made.model(given).hidden)


def test_the_masked_loss_is_the_mean_over_the_masked_tokens_only():
    made, given = network(), batch()
    logs = logits_by_hand(made, given).log_softmax(-1)
    wanted = -(logs[0, 2, 11] + logs[0, 5, 8] + logs[1, 1, 12]) / 3
    torch.testing.assert_close(made(given).weighted["masked_lm"], wanted, atol=1e-6, rtol=1e-6)
    assert made.scored(given) == {"masked_lm": 3, "next_sentence": 2}


def test_the_gradient_of_the_logits_is_zero_where_nothing_is_masked():
    made, given = network(), batch()
    states = made.model(given)
    hidden = states.hidden.detach().requires_grad_()
    made.heads["masked_lm"](replace(states, hidden=hidden), given).backward()
    asked = given.targets != IGNORE
    assert (hidden.grad[~asked] == 0).all()
    assert (hidden.grad[asked].abs().sum(-1) > 0).all()


def test_every_logit_of_the_whole_vocabulary_at_unselected_places_could_be_anything():
    """The same loss and gradient as projecting all positions and ignoring most: what is left out is not needed."""
    made, given = network(), batch()
    logits = logits_by_hand(made, given).detach().requires_grad_()
    F.cross_entropy(logits.flatten(0, 1), given.targets.flatten(), ignore_index=IGNORE).backward()
    assert (logits.grad[given.targets == IGNORE] == 0).all()
    whole = F.cross_entropy(logits.flatten(0, 1), given.targets.flatten(), ignore_index=IGNORE)
    torch.testing.assert_close(made(given).weighted["masked_lm"], whole, atol=1e-6, rtol=1e-6)


def test_only_masked_positions_are_projected(monkeypatch):
    made, given = network(), batch()
    seen = []
    head = made.heads["masked_lm"].vocabulary
    transformed = head.transformed
    monkeypatch.setattr(head, "transformed", lambda hidden: seen.append(hidden.shape) or transformed(hidden))
    made(given)
    assert seen == [(3, 8)]


def gradient_of(made: Network, loss: torch.Tensor) -> torch.Tensor:
    made.zero_grad()
    loss.backward()
    return made.model.embed.tokens.weight.grad.clone()


@pytest.mark.parametrize("label", [0, 7, 19])
def test_labels_at_unselected_places_could_be_anything(label):
    """As google-research/bert has it: a label everywhere, and a weight of 0 where nothing is predicted."""
    made, given = network(), batch()
    weights = (given.targets != IGNORE).float()
    labels = given.targets.where(given.targets != IGNORE, torch.tensor(label))
    each = -logits_by_hand(made, given).log_softmax(-1).gather(-1, labels[:, :, None]).squeeze(-1)
    wanted, found = (each * weights).sum() / weights.sum(), made(given).weighted["masked_lm"]
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(gradient_of(made, found), gradient_of(made, wanted), atol=1e-6, rtol=1e-5)


def test_tokens_in_the_padding_change_nothing_and_tokens_that_are_shown_do():
    made, given = network(), batch()
    before = made(given).weighted["masked_lm"]
    gradient = gradient_of(made, before)
    unseen, seen = given.source.tokens.clone(), given.source.tokens.clone()
    unseen[1, 5:], seen[1, 3] = 19, 19
    after = made(replace(given, source=replace(given.source, tokens=unseen))).weighted["masked_lm"]
    assert torch.equal(before, after)
    assert torch.equal(gradient_of(made, after), gradient)
    assert (
        abs(
            float(
                made(replace(given, source=replace(given.source, tokens=seen))).weighted["masked_lm"].detach()
                - before.detach()
            )
        )
        > 1e-4
    )


def test_the_total_is_the_plain_sum_of_both_losses():
    made, given = network(), batch()
    losses = made(given).weighted
    assert list(losses) == ["masked_lm", "next_sentence"]
    pooled = made.model(given).pooled
    verdict = F.cross_entropy(made.heads["next_sentence"].classify(pooled), given.random_next)
    logs = logits_by_hand(made, given).log_softmax(-1)
    masked = -(logs[0, 2, 11] + logs[0, 5, 8] + logs[1, 1, 12]) / 3
    torch.testing.assert_close(sum(losses.values()), masked + verdict, atol=1e-6, rtol=1e-6)


def test_a_weight_multiplies_its_loss():
    given = batch()
    plain, weighted = network()(given).weighted, network(next_sentence=0.25)(given).weighted
    assert torch.equal(weighted["masked_lm"], plain["masked_lm"])
    torch.testing.assert_close(weighted["next_sentence"], 0.25 * plain["next_sentence"])


def test_class_zero_says_that_the_second_text_follows():
    made, given = network().requires_grad_(False), batch()
    head = made.heads["next_sentence"]
    with torch.no_grad():
        head.classify.weight.zero_()
        head.classify.bias.copy_(torch.tensor([3.0, 0.0]))  # always says: it follows
    states = made.model(given)
    sure = float(head(states, replace(given, random_next=torch.tensor([0, 0]))))
    wrong = float(head(states, replace(given, random_next=torch.tensor([1, 1]))))
    assert sure == pytest.approx(np.log(1 + np.exp(-3)), abs=1e-6)
    assert wrong == pytest.approx(np.log(1 + np.exp(3)), abs=1e-6)


def test_next_sentence_reads_the_first_position_only():
    made, given = network(), batch()
    states = made.model(given)
    noise = states.hidden.clone()
    noise[:, 1:] = 7.0
    head = made.heads["next_sentence"]
    assert torch.equal(head(states, given), head(replace(states, hidden=noise), given))
    torch.testing.assert_close(states.pooled, torch.tanh(made.model.pooler(states.hidden[:, 0])), atol=1e-6, rtol=0)
