"""Our BERT equals Hugging Face's on copied random weights: states, logits, losses and every gradient, to 1e-5."""

from dataclasses import replace

import pytest
import torch
from copies import (
    CLOSE,
    VOCABULARY,
    copied,
    decodes_by_the_embedding,
    gradients_of,
    left_over,
    roughen,
    same_gradients,
    some_batch,
)
from transformers import BertConfig, BertForPreTraining

from plmkit.data.batch import Batch
from plmkit.interop.families import bert
from plmkit.interop.naming import from_huggingface
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence


def theirs_with(activation: str = "gelu", layers: int = 3) -> BertForPreTraining:
    """Random weights large enough to matter: at BERT's own 0.02 all tokens look the same."""
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=20, hidden_act=activation, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.3,
    )  # fmt: skip
    return roughen(BertForPreTraining(config))


def ours_from(theirs: BertForPreTraining) -> Network:
    return copied(theirs, bert, (MaskedLM(), NextSentence()))


def run_theirs(network: BertForPreTraining, given: Batch):
    return network(
        input_ids=given.source.tokens, token_type_ids=given.source.segments, attention_mask=given.source.visible.long(),
        labels=given.targets, next_sentence_label=given.random_next, output_hidden_states=True,
    )  # fmt: skip


@pytest.fixture(params=["gelu", "gelu_new"])
def both(request):
    theirs = theirs_with(request.param)
    return theirs, ours_from(theirs)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_states_logits_and_loss_are_equal(both, training):
    theirs, ours = (network.train(training) for network in both)
    given = some_batch()
    their = run_theirs(theirs, given)
    states = ours.model(given)
    seen = given.source.visible
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][seen], **CLOSE)
    logits = ours.heads["masked_lm"].vocabulary(states.hidden)
    torch.testing.assert_close(logits[seen], their.prediction_logits[seen], **CLOSE)
    verdict = ours.heads["next_sentence"].classify(states.pooled)
    torch.testing.assert_close(verdict, their.seq_relationship_logits, **CLOSE)
    torch.testing.assert_close(sum(ours(given).weighted.values()), their.loss, **CLOSE)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_every_gradient_is_equal(both, training):
    theirs, ours = (network.train(training) for network in both)
    given = some_batch()
    run_theirs(theirs, given).loss.backward()
    sum(ours(given).weighted.values()).backward()
    wanted = from_huggingface(gradients_of(theirs), bert, ours.model.settings)
    same_gradients(ours, wanted)


def test_the_two_forms_of_gelu_differ():
    given = some_batch()
    erf, tanh = (ours_from(theirs_with(name)).model(given).hidden for name in ("gelu", "gelu_new"))
    assert (erf - tanh).abs().max() > 1e-4


def test_tokens_at_padding_change_nothing_and_the_last_real_token_does(both):
    _, ours = both
    given = some_batch()
    changed = given.source.tokens.clone()
    changed[2, 5:] = 7  # padding
    same = ours.model(replace(given, source=replace(given.source, tokens=changed))).hidden[given.source.visible]
    assert torch.equal(same, ours.model(given).hidden[given.source.visible])
    changed[2, 4] = (given.source.tokens[2, 4] + 1) % VOCABULARY
    assert not torch.allclose(
        ours.model(replace(given, source=replace(given.source, tokens=changed))).hidden[2, 0],
        ours.model(given).hidden[2, 0],
    )


def test_rows_without_padding_are_equal_too(both):
    theirs, ours = both
    given = some_batch().part(0, 1)
    assert given.source.visible.all()
    torch.testing.assert_close(ours.model(given).hidden, run_theirs(theirs, given).hidden_states[-1], **CLOSE)


def test_import_export_and_import_again_change_no_bit():
    theirs = theirs_with()
    left = left_over(
        theirs, bert, bert.architecture(theirs.config.to_dict(), where=None), ("masked_lm", "next_sentence")
    )
    assert left <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "bert.embeddings.position_ids"}


def test_the_output_embedding_is_the_token_embedding():
    decodes_by_the_embedding(ours_from(theirs_with()), "masked_lm")
