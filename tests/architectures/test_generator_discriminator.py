"""ELECTRA's two networks: what they share, what is sampled, and what learns from what."""

from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare

from plmkit.architectures.encoder import EncoderModel
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator, sample_tokens
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.network import Network
from plmkit.objectives.replaced_token import GeneratorLM, ReplacedToken

SMALL = GeneratorDiscriminator(
    layers=2,
    heads=2,
    width=16,
    inner=32,
    embedding=12,
    generator=0.5,
    max_length=12,
    dropout=0.0,
    attention_dropout=0.0,
)
VOCABULARY = 30


def network(settings: GeneratorDiscriminator = SMALL) -> Network:
    torch.manual_seed(0)
    model = settings.build(unnamed(VOCABULARY))
    tasks = (GeneratorLM(), ReplacedToken())
    made = Network(model, {task.name: task.build(model) for task in tasks}, {task.name: task.weight for task in tasks})
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "norm" not in name:
                weight.normal_(0, 0.3)
    return made


def batch() -> Batch:
    original = torch.tensor([[2, 7, 14, 9, 3, 18, 3], [2, 24, 21, 26, 3, 0, 0]])
    asked = torch.zeros_like(original, dtype=torch.bool)
    asked[0, 2] = asked[0, 5] = asked[1, 1] = True
    return Batch(
        source=Side(
            tokens=original.masked_fill(asked, 4),
            visible=original != 0,
            segments=torch.tensor([[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0]]),
        ),
        targets=original.where(asked, torch.tensor(IGNORE)),
    )


def test_each_network_alone_has_the_shared_embeddings_and_its_own_head():
    weights = dict.fromkeys(
        ("model.embed.tokens.weight", "model.generator.norm.bias", "model.vocabulary.bias",
         "model.discriminator.norm.bias", "heads.replaced_token.bias"), torch.zeros(1),
    )  # fmt: skip
    generator, rest = SMALL.generator_alone(weights), SMALL.without_generator(weights)
    assert (generator.architecture.width, rest.architecture.width) == (8, 16)
    assert set(generator.weights) == {
        "model.embed.tokens.weight", "model.norm.bias", "heads.masked_lm.vocabulary.bias"
    }  # fmt: skip
    assert set(rest.weights) == {"model.embed.tokens.weight", "model.norm.bias", "heads.replaced_token.bias"}
    assert rest.architecture.generator_alone(rest.weights) is None
    assert rest.architecture.without_generator(rest.weights) == rest


def peaked(made: Network, token: int) -> None:
    """Make the generator say one token everywhere."""
    with torch.no_grad():
        made.model.vocabulary.bias.zero_()[token] = 1e4


def gradients(made: Network, loss: str, given: Batch) -> dict[str, torch.Tensor]:
    made.zero_grad()
    made(given).weighted[loss].backward()
    return {name: weight.grad for name, weight in made.named_parameters()}


# Shapes


def test_a_token_without_a_share_is_never_drawn():
    """Not even by the highest draw there is, which a product in single precision rounds up to the whole."""
    scores = torch.full((1, 3), -torch.inf)
    scores[0, 1] = 0.3
    with pytest.MonkeyPatch.context() as patch:
        for draw in (0.0, 0.5, 1 - 2**-24):
            patch.setattr(torch, "rand", lambda *size, draw=draw, **options: torch.full(size, draw))
            assert sample_tokens(scores).tolist() == [1]
            patch.setattr(torch, "rand", lambda *size, **options: torch.ones(size))  # as if rounded up
            assert sample_tokens(scores).tolist() == [1]


def test_the_generator_is_as_deep_and_a_fraction_as_wide():
    shape = GeneratorDiscriminator(layers=12, heads=12, width=768, inner=3072, generator=1 / 3).generator_encoder
    assert (shape.layers, shape.width, shape.heads, shape.inner, shape.embedding) == (12, 256, 4, 1024, 768)
    shape = GeneratorDiscriminator(layers=2, heads=2, width=128, inner=512, embedding=64).generator_encoder
    assert (shape.layers, shape.width, shape.heads, shape.inner, shape.embedding) == (2, 32, 1, 128, 64)


@pytest.mark.parametrize("share", [1.01, 2, 0, -0.5, float("nan")])
def test_a_generator_larger_than_the_discriminator_is_refused(share):
    with pytest.raises(
        SettingError,
        match=r"architecture\.generator .* as a share of the discriminator's, above 0 and at most 1; found",
    ):
        replace(SMALL, generator=share)


def test_a_generator_that_its_heads_cannot_share_is_refused():
    with pytest.raises(
        SettingError, match=r"gives a generator of width 205, which cannot be divided among its 3 heads"
    ):
        GeneratorDiscriminator(layers=1, heads=4, width=256, inner=512, generator=0.8)


@pytest.mark.parametrize("temperature", [0, -1, float("nan")])
def test_a_temperature_that_is_not_above_0_is_refused(temperature):
    with pytest.raises(SettingError, match=r"architecture\.temperature"):
        replace(SMALL, temperature=temperature)


def test_settings_of_both_are_checked_under_their_own_names():
    with pytest.raises(SettingError, match=r"architecture\.width=16 is not a multiple of architecture\.heads=3"):
        replace(SMALL, heads=3)


# Sharing


def test_tied_tables_are_one_and_are_saved_once():
    model = SMALL.build(unnamed(VOCABULARY))
    assert model.generator.embed is model.discriminator.embed is model.embed
    tables = [name for name, weight in model.state_dict().items() if weight.shape == (VOCABULARY, 12)]
    assert tables == ["embed.tokens.weight"]
    assert model.vocabulary._table[0] is model.embed.tokens


def test_untied_tables_are_two_and_the_generator_answers_with_its_own():
    model = replace(SMALL, tied=False).build(unnamed(VOCABULARY))
    tables = [name for name, weight in model.state_dict().items() if weight.shape == (VOCABULARY, 12)]
    assert tables == ["embed.tokens.weight", "generator.embed.tokens.weight"]
    assert model.vocabulary._table[0] is model.generator.embed.tokens


@pytest.mark.parametrize("tied", [True, False])
def test_every_matrix_starts_at_a_deviation_of_two_hundredths(tied):
    torch.manual_seed(0)
    model = GeneratorDiscriminator(layers=1, heads=2, width=64, inner=128, embedding=64, tied=tied).build(unnamed(500))
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and weight.numel() > 1000:
            assert 0.015 < float(weight.detach().std()) < 0.02, name  # cut at two deviations


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_the_first_head_of_both_starts_by_reading_the_token_before(tied, share):
    settings = GeneratorDiscriminator(
        layers=1, heads=2, width=64, inner=64, generator=share, tied=tied, local_heads=True, max_length=40
    )
    torch.manual_seed(0)
    model = settings.build(unnamed(VOCABULARY))
    alone = EncoderModel(settings.discriminator_encoder, VOCABULARY)
    assert torch.equal(model.embed.positions.weight, alone.embed.positions.weight)
    for encoder in (model.generator, model.discriminator):
        width, heads = encoder.settings.width, encoder.settings.heads
        hidden = encoder.embed.norm(encoder.embed.positions.weight)
        hidden = hidden if encoder.project is None else encoder.project(hidden)
        joint = encoder.blocks[0].attention.query_key_value(hidden)
        query, key = joint[:, : width // heads], joint[:, width : width + width // heads]
        assert ((query @ key.T).argmax(1)[1:-1] == torch.arange(38)).float().mean() > 0.8


# Sampling


def fit(drawn: torch.Tensor, shares: torch.Tensor) -> float:
    """How likely a fair draw looks as odd as this one."""
    shares = shares.double() / shares.double().sum()
    return chisquare(drawn.bincount(minlength=len(shares)), shares * len(drawn)).pvalue


def test_samples_follow_the_softmax():
    torch.manual_seed(5)
    scores = torch.randn(40) * 2
    drawn = sample_tokens(scores.expand(200_000, -1), torch.Generator().manual_seed(1))
    assert fit(drawn, scores.softmax(0)) > 0.001


def test_samples_do_not_follow_another_softmax():
    """The test above can fail."""
    torch.manual_seed(5)
    scores = torch.randn(40) * 2
    drawn = sample_tokens((scores / 1.05).expand(200_000, -1), torch.Generator().manual_seed(1))
    assert fit(drawn, scores.softmax(0)) < 0.001


def test_temperature_divides_the_scores():
    torch.manual_seed(5)
    scores = torch.randn(40) * 2
    model = replace(SMALL, temperature=2.5).build(unnamed(VOCABULARY)).eval()
    drawn = model.sample(scores.expand(200_000, -1))
    assert fit(drawn, (scores / 2.5).softmax(0)) > 0.001


def test_scores_far_apart_are_sampled_without_overflow():
    scores = torch.tensor([[-1e5, 1e4, 9e3], [0.0, -torch.inf, -torch.inf]]).expand(2, 3)
    assert sample_tokens(scores).tolist() == [1, 0]


def test_held_out_text_gets_the_same_samples_each_time_and_training_numbers_are_not_used_up():
    made, given = network().eval(), batch()
    before = torch.get_rng_state()
    first = made.model(given)
    torch.manual_seed(99)
    assert torch.equal(made.model(given).sampled, first.sampled)
    torch.set_rng_state(before)
    made.model(given)
    assert torch.equal(torch.get_rng_state(), before)


def test_training_samples_follow_from_the_seed_of_the_step():
    made, given = network().train(), batch()
    drawn = []
    for seed in (1, 1, 2, 3, 4):
        torch.manual_seed(seed)
        drawn.append(made.model(given).sampled.tolist())
    assert drawn[0] == drawn[1]
    assert len({tuple(row) for row in drawn}) > 2


# What is read


def test_the_discriminator_reads_the_text_with_the_samples_in_it():
    made, given = network().eval(), batch()
    peaked(made, 11)
    states = made.model(given)
    read = given.source.tokens.clone()
    read[0, 2] = read[0, 5] = read[1, 1] = 11
    assert states.sampled.tolist() == [11, 11, 11]
    assert torch.equal(
        states.hidden, made.model.discriminator(replace(given, source=replace(given.source, tokens=read))).hidden
    )
    assert torch.equal(states.replaced, given.targets != IGNORE)


def test_a_sample_that_is_the_original_counts_as_real():
    made, given = network().eval(), batch()
    peaked(made, 14)  # the token that is masked at row 0, position 2
    assert made.model(given).replaced.nonzero().tolist() == [[0, 5], [1, 1]]


def test_a_chosen_token_that_stayed_visible_may_be_replaced_too():
    """google-research/electra leaves 15% of the chosen as they are; the generator guesses them all the same."""
    made, given = network().eval(), batch()
    tokens = given.source.tokens.clone()
    tokens[0, 2] = 14
    peaked(made, 11)
    states = made.model(replace(given, source=replace(given.source, tokens=tokens)))
    assert states.replaced.nonzero().tolist() == [[0, 2], [0, 5], [1, 1]]


def test_text_with_nothing_masked_is_read_as_it_is():
    made, given = network().train(), replace(batch(), targets=None)
    before = torch.get_rng_state()
    states = made.model(given)
    assert torch.equal(states.hidden, made.model.discriminator(given).hidden)
    assert states.guesses is states.replaced is None
    assert torch.equal(torch.get_rng_state(), before)


def test_the_vocabulary_is_scored_at_the_masked_tokens_only():
    made, given = network(), batch()
    assert made.model(given).guesses.shape == (3, VOCABULARY)


# Leakage


@pytest.mark.parametrize("tied", [True, False])
def test_the_generator_learns_nothing_from_the_discriminators_loss(tied):
    found = gradients(network(replace(SMALL, tied=tied)), "replaced_token", batch())
    for name, gradient in found.items():
        if name.startswith(("model.generator.", "model.vocabulary.")):
            assert gradient is None or not gradient.any(), name
        else:
            assert gradient.any(), name


def test_shared_tables_learn_from_both_losses():
    made, given = network(), batch()
    for loss in ("generator_lm", "replaced_token"):
        assert gradients(made, loss, given)["model.embed.tokens.weight"].any(), loss


def test_tables_that_are_not_shared_learn_from_their_own_loss_alone():
    made, given = network(replace(SMALL, tied=False)), batch()
    own, other = "model.generator.embed.tokens.weight", "model.embed.tokens.weight"
    found = gradients(made, "replaced_token", given)
    assert found[own] is None
    assert found[other].any()
    found = gradients(made, "generator_lm", given)
    assert found[own].any()
    assert found[other] is None


def test_the_discriminator_learns_nothing_from_the_generators_loss():
    found = gradients(network(), "generator_lm", batch())
    assert all(g is None for name, g in found.items() if name.startswith(("model.discriminator.", "heads.")))
