"""Our ELECTRA equals Hugging Face's two models on copied random weights: logits, losses and every gradient, to 1e-5."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from copies import CLOSE, VOCABULARY, network_of, roughen, same_gradients, some_batch
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining, ElectraForSequenceClassification

from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.interop.families import electra
from plmkit.interop.naming import from_huggingface, to_huggingface
from plmkit.network import Network
from plmkit.objectives.replaced_token import GeneratorLM, ReplacedToken
from plmkit.training.checkpoint import put_weights, weights_of

OURS = GeneratorDiscriminator(
    layers=2, heads=4, width=24, inner=40, embedding=16, generator=1 / 3, max_length=20,
    dropout=0.0, attention_dropout=0.0,
)  # fmt: skip


def ours_with(settings: GeneratorDiscriminator = OURS) -> Network:
    made = network_of(settings, tasks=(GeneratorLM(), ReplacedToken()))
    torch.manual_seed(3)
    roughen(made, names=("",), by=0.3)  # at 0.02 all tokens look the same
    return made


def theirs_with(ours: Network) -> tuple[ElectraForMaskedLM, ElectraForPreTraining]:
    settings, weights = ours.model.settings, weights_of(ours)
    made = []
    for kind, alone in (
        (ElectraForMaskedLM, settings.generator_alone(weights)),
        (ElectraForPreTraining, settings.without_generator(weights)),
    ):
        network = kind(ElectraConfig(**electra.config(alone.architecture), vocab_size=VOCABULARY))
        left = network.load_state_dict(to_huggingface(alone.weights, electra, alone.architecture), strict=False)
        assert not left.unexpected_keys
        assert set(left.missing_keys) <= {"generator_lm_head.weight"}  # tied to the token embedding
        network.tie_weights()
        made.append(network)
    return made[0], made[1]


def batch() -> Batch:
    """Three rows of 16, 11 and 5 tokens, two segments each, a few positions masked."""
    drawn = some_batch(asked_share=0.4)
    asked = drawn.targets != IGNORE
    return Batch(
        source=Side(
            tokens=drawn.source.tokens.masked_fill(asked, 4),
            visible=drawn.source.visible,
            segments=drawn.source.segments,
        ),
        targets=drawn.source.tokens.where(asked, torch.tensor(IGNORE)),
    )


def run(network, given: Batch, tokens: torch.Tensor, labels: torch.Tensor):
    return network(
        input_ids=tokens, token_type_ids=given.source.segments, attention_mask=given.source.visible.long(),
        labels=labels,
        output_hidden_states=True,
    )  # fmt: skip


def read_by_the_discriminator(states, given: Batch) -> torch.Tensor:
    asked = given.targets != IGNORE
    return given.source.tokens.masked_scatter(asked, states.sampled)


@pytest.mark.parametrize("settings", [OURS, replace(OURS, tied=False), replace(OURS, embedding=None, generator=1.0)],
                         ids=["tied", "untied", "wide"])  # fmt: skip
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_logits_losses_and_every_gradient_are_equal(settings, training):
    ours = ours_with(settings).train(training)
    generator, discriminator = (network.train(training) for network in theirs_with(ours))
    given, asked = batch(), batch().targets != IGNORE
    torch.manual_seed(7)
    states = ours.model(given)
    read = read_by_the_discriminator(states, given)
    named = run(generator, given, given.source.tokens, given.targets)
    detected = run(discriminator, given, read, states.replaced.long())
    torch.testing.assert_close(states.guesses, named.logits[asked], **CLOSE)
    torch.testing.assert_close(
        states.hidden[given.source.visible], detected.hidden_states[-1][given.source.visible], **CLOSE
    )
    verdicts = ours.heads["replaced_token"].answers(states, given)
    torch.testing.assert_close(verdicts[given.source.visible], detected.logits[given.source.visible], **CLOSE)
    torch.manual_seed(7)
    losses = ours(given).weighted
    torch.testing.assert_close(losses["generator_lm"], named.loss, **CLOSE)
    torch.testing.assert_close(losses["replaced_token"], 50 * detected.loss, atol=5e-4, rtol=1e-5)
    (named.loss + detected.loss).backward()
    (losses["generator_lm"] + losses["replaced_token"] / 50).backward()
    wanted = gradients(generator, discriminator, settings)
    same_gradients(ours, wanted)


def gradients(generator, discriminator, settings: GeneratorDiscriminator) -> dict[str, torch.Tensor]:
    """Theirs, under our names; shared weights get the sum of both."""
    first, second = (
        from_huggingface({n: w.grad for n, w in network.named_parameters()}, electra, encoder)
        for network, encoder in (
            (generator, settings.generator_encoder),
            (discriminator, settings.discriminator_encoder),
        )
    )
    out = {}
    for name, gradient in first.items():
        if name.startswith("heads.masked_lm."):
            out[name.replace("heads.masked_lm.", "model.")] = gradient
        elif name.startswith("model.embed.") and settings.tied:
            out[name] = gradient
        else:
            out[name.replace("model.", "model.generator.", 1)] = gradient
    for name, gradient in second.items():
        if name.startswith("model.embed."):
            out[name] = out.get(name, 0) + gradient
        else:
            out[name if name.startswith("heads.") else name.replace("model.", "model.discriminator.", 1)] = gradient
    return out


def test_import_export_and_import_again_change_no_bit():
    for theirs in theirs_with(ours_with()):
        encoder = electra.architecture(theirs.config.to_dict(), where=None)
        first = from_huggingface(theirs.state_dict(), electra, encoder)
        exported = to_huggingface(first, electra, encoder)
        own = theirs.state_dict()
        assert own.keys() - exported.keys() <= {"generator_lm_head.weight", "electra.embeddings.position_ids"}
        assert all(torch.equal(exported[name], own[name]) for name in exported)
        again = from_huggingface(exported, electra, encoder)
        assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_classifier_uses_the_first_token_as_theirs_does():
    from plmkit.tasks.heads import ClassHead

    torch.manual_seed(0)
    encoder = OURS.for_task(0.0)
    model = encoder.build(unnamed(VOCABULARY))
    head = ClassHead(width=24, outputs=3, dropout=0.0)
    network = Network(model, {"label": head}, {"label": 1.0})
    roughen(network)
    theirs = ElectraForSequenceClassification(
        ElectraConfig(**electra.config(encoder), vocab_size=VOCABULARY, num_labels=3)
    )
    theirs.load_state_dict(to_huggingface(weights_of(network), electra, encoder))
    given = replace(batch(), labels=torch.tensor([0, 2, 1]))
    states = model(given)
    out = theirs(
        input_ids=given.source.tokens,
        token_type_ids=given.source.segments,
        attention_mask=given.source.visible.long(),
        labels=given.labels,
    )
    torch.testing.assert_close(head.answers(states, given), out.logits, **CLOSE)
    torch.testing.assert_close(head(states, given), F.cross_entropy(out.logits, given.labels), **CLOSE)
    back = encoder.build(unnamed(VOCABULARY))
    again = Network(back, {"label": ClassHead(width=24, outputs=3)}, {"label": 1.0})
    put_weights(again, from_huggingface(theirs.state_dict(), electra, encoder), source=None)
