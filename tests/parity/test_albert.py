"""Our ALBERT equals Hugging Face's on copied random weights: states, logits, losses and every gradient, to 1e-5."""

import pytest
import torch
from copies import (
    CLOSE,
    VOCABULARY,
    copied,
    decodes_by_the_embedding,
    gradients_of,
    left_over,
    network_of,
    roughen,
    same_gradients,
    some_batch,
)
from transformers import AlbertConfig, AlbertForPreTraining

from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.data.batch import Batch
from plmkit.interop.families import albert
from plmkit.interop.naming import from_huggingface, to_huggingface
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import SentenceOrder


def theirs_with(**settings) -> AlbertForPreTraining:
    """Random weights large enough to matter: at 0.02 all tokens look the same."""
    torch.manual_seed(3)
    shape = {"embedding_size": 12, "hidden_act": "gelu_new", **settings}
    config = AlbertConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=20, initializer_range=0.3, classifier_dropout_prob=0.0, **shape,
    )  # fmt: skip
    return roughen(AlbertForPreTraining(config))


def ours_from(theirs: AlbertForPreTraining) -> Network:
    return copied(theirs, albert, (MaskedLM(), SentenceOrder()))


def run_theirs(network: AlbertForPreTraining, given: Batch):
    return network(
        input_ids=given.source.tokens, token_type_ids=given.source.segments, attention_mask=given.source.visible.long(),
        labels=given.targets, sentence_order_label=given.swapped_order, output_hidden_states=True,
    )  # fmt: skip


SHAPES = {
    "shared": {},
    "erf": {"hidden_act": "gelu"},
    "wide": {"embedding_size": 24},
    "apart": {"num_hidden_groups": 3},
}


@pytest.fixture(params=SHAPES)
def both(request):
    theirs = theirs_with(**SHAPES[request.param])
    return theirs, ours_from(theirs)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_states_logits_and_loss_are_equal(both, training):
    theirs, ours = (network.train(training) for network in both)
    given = some_batch()
    their = run_theirs(theirs, given)
    states = ours.model(given)
    seen = given.source.visible
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][seen], **CLOSE)
    logits = ours.heads["masked_lm"].answers(states, given)
    torch.testing.assert_close(logits[seen], their.prediction_logits[seen], **CLOSE)
    torch.testing.assert_close(ours.heads["sentence_order"].answers(states, given), their.sop_logits, **CLOSE)
    torch.testing.assert_close(sum(ours(given).weighted.values()), their.loss, **CLOSE)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_every_gradient_is_equal(both, training):
    theirs, ours = (network.train(training) for network in both)
    given = some_batch()
    run_theirs(theirs, given).loss.backward()
    sum(ours(given).weighted.values()).backward()
    wanted = from_huggingface(gradients_of(theirs), albert, ours.model.settings)
    same_gradients(ours, wanted)


def test_all_sharing_is_read_as_one_block_and_groups_as_many():
    assert albert.architecture(theirs_with().config.to_dict(), where=None).sharing == "all"
    assert albert.architecture(theirs_with(num_hidden_groups=3).config.to_dict(), where=None).sharing == "none"
    assert len(ours_from(theirs_with()).model.blocks) == 1


def test_import_export_and_import_again_change_no_bit(both):
    theirs, ours = both
    left = left_over(theirs, albert, ours.model.settings, ours.heads)
    assert left <= {"predictions.decoder.weight", "predictions.decoder.bias"}


@pytest.mark.parametrize("sharing", ["attention", "feed_forward"])
def test_a_separately_shared_sublayer_is_written_for_every_layer(sharing):
    torch.manual_seed(0)
    settings = SharedEncoder(layers=3, heads=4, width=24, inner=40, embedding=12, max_length=20, sharing=sharing)
    ours = roughen(network_of(settings), names=("",), by=0.3).eval()
    theirs = theirs_with(num_hidden_groups=3).eval()
    missing, unexpected = theirs.load_state_dict(to_huggingface(ours.state_dict(), albert, settings), strict=False)
    assert not unexpected
    assert all(name.startswith(("predictions.", "sop_classifier.")) for name in missing)
    given = some_batch()
    hidden = run_theirs(theirs, given).hidden_states[-1]
    torch.testing.assert_close(ours.model(given).hidden[given.source.visible], hidden[given.source.visible], **CLOSE)


def test_the_output_embedding_is_the_token_embedding():
    decodes_by_the_embedding(ours_from(theirs_with()), "masked_lm", width=12)
