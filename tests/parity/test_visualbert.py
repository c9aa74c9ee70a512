"""Our VisualBERT equals Hugging Face's on copied random weights: states, logits, losses and every gradient, to 1e-5."""

from dataclasses import replace

import pytest
import torch
from copies import CLOSE, VOCABULARY, copied, gradients_of, left_over, roughen, same_gradients, some_batch
from transformers import VisualBertConfig, VisualBertForPreTraining

from plmkit.data.batch import Batch, Regions
from plmkit.data.vocabulary import unnamed
from plmkit.interop.families import visual_bert
from plmkit.interop.naming import from_huggingface
from plmkit.network import Network
from plmkit.objectives.image_match import ImageMatch
from plmkit.objectives.masked_lm import MaskedLM

FEATURES, REGIONS = 10, 6


def theirs_with(activation: str = "gelu") -> VisualBertForPreTraining:
    torch.manual_seed(3)
    config = VisualBertConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=20, hidden_act=activation, hidden_dropout_prob=0.0, visual_embedding_dim=FEATURES,
        pad_token_id=0, attention_probs_dropout_prob=0.0, initializer_range=0.3,
    )  # fmt: skip
    theirs = roughen(VisualBertForPreTraining(config))
    with torch.no_grad():  # which begin as copies, by which nobody could tell them apart
        for table in ("visual_token_type_embeddings", "visual_position_embeddings"):
            getattr(theirs.visual_bert.embeddings, table).weight.add_(0.3)
    return theirs


def batch_with_regions() -> Batch:
    """The last two images have fewer regions than the first."""
    batch = some_batch()
    visible = torch.arange(REGIONS) < torch.tensor([6, 4, 1])[:, None]
    features = torch.randn(3, REGIONS, FEATURES) * visible[..., None]
    regions = Regions(features=features, visible=visible, boxes=torch.zeros(3, REGIONS, 4))
    return replace(batch, regions=regions, other_caption=batch.random_next)


def ours_from(theirs: VisualBertForPreTraining) -> Network:
    return copied(theirs, visual_bert, (MaskedLM(), ImageMatch()))


def run_theirs(network: VisualBertForPreTraining, given: Batch):
    unasked = torch.full(given.regions.visible.shape, -100)
    return network(
        input_ids=given.source.tokens, token_type_ids=given.source.segments, attention_mask=given.source.visible.long(),
        visual_embeds=given.regions.features, visual_attention_mask=given.regions.visible.long(),
        visual_token_type_ids=given.regions.visible.long().fill_(1), labels=torch.cat([given.targets, unasked], 1),
        sentence_image_labels=given.other_caption, output_hidden_states=True,
    )  # fmt: skip


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_states_logits_and_loss_are_equal(activation, training):
    theirs = theirs_with(activation)
    theirs, ours = (network.train(training) for network in (theirs, ours_from(theirs)))
    given = batch_with_regions()
    their, states = run_theirs(theirs, given), ours.model(given)
    seen, length = given.source.visible, given.source.tokens.shape[1]
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][:, :length][seen], **CLOSE)
    logits = ours.heads["masked_lm"].vocabulary(states.hidden)
    torch.testing.assert_close(logits[seen], their.prediction_logits[:, :length][seen], **CLOSE)
    verdict = ours.heads["image_match"].classify(states.pooled)
    torch.testing.assert_close(verdict, their.seq_relationship_logits, **CLOSE)
    torch.testing.assert_close(sum(ours(given).weighted.values()), their.loss, **CLOSE)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_every_gradient_is_equal(training):
    theirs = theirs_with()
    theirs, ours = (network.train(training) for network in (theirs, ours_from(theirs)))
    given = batch_with_regions()
    run_theirs(theirs, given).loss.backward()
    sum(ours(given).weighted.values()).backward()
    same_gradients(ours, from_huggingface(gradients_of(theirs), visual_bert, ours.model.settings))


def test_import_export_and_import_again_change_no_bit():
    theirs = theirs_with()
    settings = visual_bert.architecture(theirs.config.to_dict(), where=None)
    left = left_over(theirs, visual_bert, settings, ("masked_lm", "image_match"))
    assert left <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}


def test_without_an_image_it_is_the_encoder_of_the_text():
    ours = ours_from(theirs_with())
    given = replace(batch_with_regions(), regions=None)
    alone = ours.model.settings.text_encoder().build(unnamed(VOCABULARY))
    missing, extra = alone.load_state_dict(ours.model.state_dict(), strict=False)
    assert (missing, {name.split(".")[0] for name in extra}) == ([], {"visual"})
    torch.testing.assert_close(ours.model(given).pooled, alone(given).pooled)
    assert not torch.allclose(ours.model(batch_with_regions()).pooled, alone(given).pooled)


def test_an_image_beyond_its_regions_changes_nothing():
    ours, given = ours_from(theirs_with()), batch_with_regions()
    noise = torch.where(given.regions.visible[..., None], given.regions.features, torch.tensor(7.0))
    changed = replace(given, regions=replace(given.regions, features=noise))
    assert torch.equal(ours.model(given).pooled, ours.model(changed).pooled)


def test_visual_tables_begin_as_copies_of_those_of_the_text():
    model = visual_bert.architecture(theirs_with().config.to_dict(), where=None).build(unnamed(VOCABULARY))
    for part in ("segments", "positions"):
        visual, text = getattr(model.visual, part).weight, getattr(model.embed, part).weight
        assert torch.equal(visual, text)
        assert visual.data_ptr() != text.data_ptr()
