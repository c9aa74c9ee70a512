"""The losses of ELECTRA: what they are means of, how they add up, and the two options."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.vocabulary import unnamed
from plmkit.errors import RecipeError, SettingError
from plmkit.objectives.replaced_token import AdversarialGenerator, GeneratorLM, ReplacedToken, ReplacedTokenHead

VOCABULARY = unnamed(30)
SMALL = GeneratorDiscriminator(
    layers=1, heads=2, width=16, inner=32, generator=0.5, max_length=128, dropout=0.0, attention_dropout=0.0
)


def network(*objectives, **settings):
    torch.manual_seed(0)
    recipe = replace(find("electra-tiny"), architecture=replace(SMALL, **settings), objectives=objectives)
    made = recipe.build(VOCABULARY)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "norm" not in name and "variance" not in name:
                weight.normal_(0, 0.3)
    return made.eval()


def batch() -> Batch:
    original = torch.tensor([[2, 7, 14, 9, 3, 18, 3], [2, 24, 21, 26, 3, 0, 0]])
    asked = torch.zeros_like(original, dtype=torch.bool)
    asked[0, 2] = asked[0, 5] = asked[1, 1] = True
    return Batch(
        source=Side(tokens=original.masked_fill(asked, 4), visible=original != 0, segments=torch.zeros_like(original)),
        targets=original.where(asked, torch.tensor(IGNORE)),
    )


def test_the_total_is_the_generators_loss_and_fifty_times_the_discriminators():
    made, given = network(GeneratorLM(), ReplacedToken()), batch()
    states = made.model(given)
    logs = states.guesses.log_softmax(-1)
    named = -(logs[0, 14] + logs[1, 18] + logs[2, 24]) / 3
    chances = torch.sigmoid(made.heads["replaced_token"].logits(states.hidden))
    each = -torch.where(states.replaced, chances, 1 - chances).log()
    found = (each[0].sum() + each[1, :5].sum()) / 12  # all real tokens, [CLS] and [SEP] too, and no padding
    losses = made(given).weighted
    torch.testing.assert_close(losses["generator_lm"], named)
    torch.testing.assert_close(sum(losses.values()), named + 50 * found)
    assert made.scored(given) == {"generator_lm": 3, "replaced_token": 12}


def test_every_real_token_moves_the_loss_and_no_padding_does():
    head = ReplacedTokenHead(16, "gelu")
    torch.manual_seed(0)
    hidden = torch.randn(2, 7, 16, requires_grad=True)
    given = batch()
    head(States(hidden=hidden, replaced=torch.zeros(2, 7, dtype=torch.bool)), given).backward()
    assert torch.equal(hidden.grad.abs().sum(-1) > 0, given.source.visible)


def test_in_training_the_generator_scores_and_samples_only_tokens_of_the_corpus():
    made, given = network(GeneratorLM(corpus_vocabulary=True), ReplacedToken()).train(), batch()
    counts = np.zeros(30, dtype=np.int64)
    counts[[7, 9, 14, 18, 21, 24, 26]] = 5
    made.restrict_vocabulary(lambda: counts)
    scores = made.model.vocabulary(made.model.generator(given).hidden[given.predicted])  # of all tokens
    few = scores[:, counts > 0].log_softmax(-1)
    states = made.model(given)
    torch.testing.assert_close(states.guesses.log_softmax(-1), few)
    torch.testing.assert_close(made(given).weighted["generator_lm"], -(few[0, 2] + few[1, 3] + few[2, 5]) / 3)
    drawn = {token for _ in range(50) for token in made.model(given).sampled.tolist()}
    assert drawn <= {7, 9, 14, 18, 21, 24, 26} and len(drawn) > 3
    assert made.eval().model(given).guesses.shape == (3, 30)


@pytest.mark.parametrize("few", [False, True])
def test_the_right_token_may_be_kept_from_being_put_in(few):
    counts = np.zeros(30, dtype=np.int64)
    counts[[14, 18, 24, 26]] = 5
    given, right = batch(), torch.tensor([14, 18, 24])
    for disallowed in (False, True):
        made = network(GeneratorLM(corpus_vocabulary=True), ReplacedToken(), disallow_correct=disallowed).train()
        if few:
            made.restrict_vocabulary(lambda: counts)
        drawn = [made.model(given) for _ in range(100)]
        hits = torch.stack([states.sampled == right for states in drawn]).any()
        assert bool(hits) != disallowed
        if disallowed:
            assert all(states.replaced[given.predicted].all() for states in drawn)
            assert {token for states in drawn for token in states.sampled[:1].tolist()} >= {18, 24, 26}
            logs = drawn[0].guesses.log_softmax(-1)  # the generator itself learns all the same
            place = made.model.vocabulary.softmax_index(right)
            torch.testing.assert_close(
                made(given).weighted["generator_lm"], -logs.gather(1, place[:, None]).mean(), atol=1e-6, rtol=1e-5
            )


# The generator that wants to fool


def test_the_adversarial_gradient_is_the_reward_above_the_mean_of_the_others():
    made, given = network(AdversarialGenerator(), ReplacedToken()), batch()
    states = made.model(given)
    guesses = states.guesses.detach().requires_grad_()
    head = made.heads["adversarial_generator"]
    head(replace(states, guesses=guesses), given).backward()
    asked = given.targets != IGNORE
    logits = made.heads["replaced_token"].logits(states.hidden[asked])
    rewards = F.binary_cross_entropy_with_logits(logits, states.replaced[asked].float(), reduction="none")
    others = [(rewards.sum() - reward) / 2 for reward in rewards]
    chosen = F.one_hot(states.sampled, 30)
    wanted = [-(rewards[i] - others[i]).item() * (chosen[i] - guesses[i].softmax(-1)).detach() / 3 for i in range(3)]
    torch.testing.assert_close(guesses.grad, torch.stack(wanted), atol=1e-6, rtol=1e-5)
    assert guesses.grad.abs().max() > 1e-4


def test_with_the_generators_own_loss_too_samples_are_tokens_of_the_corpus():
    made = network(GeneratorLM(corpus_vocabulary=True), AdversarialGenerator(), ReplacedToken()).train()
    counts = np.zeros(30, dtype=np.int64)
    counts[[7, 9, 14, 18, 21, 24, 26]] = 5
    made.restrict_vocabulary(lambda: counts)
    given = batch()
    states = made.model(given)
    assert states.guesses.shape == (3, 7) and states.sampled.max() > 6
    scores = made.model.vocabulary(made.model.generator(given).hidden[given.predicted])  # of all tokens
    logs = scores[:, counts > 0].logsumexp(-1) - scores[torch.arange(3), states.sampled]
    rewards = made.heads["adversarial_generator"].rewards(states, given.predicted)
    others = (rewards.sum() - rewards) / 2
    found = made.heads["adversarial_generator"](states, given)
    torch.testing.assert_close(found, ((rewards - others) * logs).mean(), atol=1e-6, rtol=1e-5)


def test_the_adversarial_loss_teaches_the_discriminator_nothing():
    made, given = network(AdversarialGenerator(), ReplacedToken()), batch()
    made(given).weighted["adversarial_generator"].backward()
    for name, weight in made.named_parameters():
        learns = name.startswith(("model.generator.", "model.vocabulary.", "model.embed."))
        assert (weight.grad is not None) == learns, name


def test_a_lone_sample_has_no_baseline():
    made, given = network(AdversarialGenerator(), ReplacedToken()), batch().part(1, 2)
    assert math.isfinite(made(given).weighted["adversarial_generator"].detach())


def test_an_adversarial_generator_without_a_discriminator_is_refused():
    with pytest.raises(RecipeError, match=r"AdversarialGenerator uses the head of ReplacedToken, which is not among"):
        network(AdversarialGenerator())


def test_it_finds_the_discriminator_if_its_weight_is_learned():
    made = network(AdversarialGenerator(), ReplacedToken(learned_weight=True))
    plain = network(AdversarialGenerator(), ReplacedToken())
    torch.testing.assert_close(
        made(batch()).weighted["adversarial_generator"],
        plain(batch()).weighted["adversarial_generator"],
        atol=1e-6,
        rtol=1e-5,
    )


# Learned weights


def test_a_learned_weight_starts_at_the_objectives_own():
    made, plain = (
        network(GeneratorLM(), ReplacedToken(learned_weight=True)),
        network(GeneratorLM(), ReplacedToken()),
    )
    found, wanted = made(batch()).weighted["replaced_token"], plain(batch()).weighted["replaced_token"]
    torch.testing.assert_close(found, wanted - math.log(50), atol=1e-4, rtol=1e-5)
    reported = made(batch()).losses["replaced_token"]
    torch.testing.assert_close(reported, wanted / 50)  # without the weight, as that of the objective alone
    assert float(made.factor("replaced_token").detach()) == pytest.approx(50)


def test_a_learned_weight_rests_at_one_over_the_loss():
    made = network(GeneratorLM(), ReplacedToken(weight=3.0, learned_weight=True))
    optimizer = torch.optim.SGD([made.log_variances["replaced_token"]], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        made.weighted("replaced_token", torch.tensor(0.25)).backward()
        optimizer.step()
    assert float(made.factor("replaced_token").detach()) == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("weight", [0.0, -1.0])
def test_a_learned_weight_must_start_above_0(weight):
    with pytest.raises(SettingError, match=r"objectives\.replaced_token\.weight .* above 0"):
        ReplacedToken(weight=weight, learned_weight=True)
