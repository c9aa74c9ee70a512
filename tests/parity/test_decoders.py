"""Our GPT-2 and GPT-1 equal Hugging Face's on copied random weights: states, logits, losses and every gradient."""

from dataclasses import replace

import pytest
import torch
from copies import CLOSE, VOCABULARY, copied, gradients_of, left_over, roughen, same_gradients, some_batch
from transformers import GPT2Config, GPT2LMHeadModel, OpenAIGPTConfig, OpenAIGPTLMHeadModel

from plmkit.data.batch import IGNORE, Batch
from plmkit.interop.families import gpt2, openai_gpt
from plmkit.interop.naming import from_huggingface
from plmkit.objectives.causal_lm import CausalLM

SHAPE = {"vocab_size": VOCABULARY, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 20, "initializer_range": 0.3}
OFF = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
KINDS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config, {}, gpt2),
    "gpt2-erf": (GPT2LMHeadModel, GPT2Config, {"activation_function": "gelu", "n_inner": 40}, gpt2),
    "gpt1": (OpenAIGPTLMHeadModel, OpenAIGPTConfig, {}, openai_gpt),
}


@pytest.fixture(params=KINDS)
def both(request):
    kind, config, more, family = KINDS[request.param]
    torch.manual_seed(3)
    theirs = roughen(kind(config(**SHAPE, **OFF, **more)), ("bias", "ln_"))
    return theirs, copied(theirs, family, (CausalLM(),)), family


def next_tokens(batch: Batch) -> Batch:
    """The same rows, with the next token as the target at every position but the last."""
    follows = batch.source.tokens.roll(-1, 1)
    asked = batch.source.visible.roll(-1, 1)
    asked[:, -1] = False
    return replace(batch, targets=follows.where(asked, torch.tensor(IGNORE)))


def run_theirs(network, given: Batch):
    return network(
        input_ids=given.source.tokens, attention_mask=given.source.visible.long(),
        labels=given.source.tokens.where(given.source.visible, torch.tensor(IGNORE)), output_hidden_states=True,
    )  # fmt: skip


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_states_logits_and_loss_are_equal(both, training):
    theirs, ours = (network.train(training) for network in both[:2])
    given = next_tokens(some_batch())
    their = run_theirs(theirs, given)
    states = ours.model(given)
    seen = given.source.visible
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][seen], **CLOSE)
    torch.testing.assert_close(ours.heads["causal_lm"].answers(states, given)[seen], their.logits[seen], **CLOSE)
    torch.testing.assert_close(ours(given).weighted["causal_lm"], their.loss, **CLOSE)
    torch.testing.assert_close(states.pooled[1], their.hidden_states[-1][1, 10], **CLOSE)  # the last of 11 tokens


def test_every_gradient_is_equal(both):
    theirs, ours, family = both
    given = next_tokens(some_batch())
    run_theirs(theirs, given).loss.backward()
    ours(given).weighted["causal_lm"].backward()
    same_gradients(ours, from_huggingface(gradients_of(theirs), family, ours.model.settings))


def test_import_export_and_import_again_change_no_bit(both):
    theirs, ours, family = both
    left = left_over(theirs, family, ours.model.settings, ours.heads)
    assert {name for name in left if not name.endswith(".attn.bias")} == {"lm_head.weight"}


def test_the_output_embedding_is_the_token_embedding(both):
    _, ours, _ = both
    table = ours.heads["causal_lm"].vocabulary._table[0].weight
    assert table.data_ptr() == ours.model.embed.tokens.weight.data_ptr()
    assert not list(ours.heads.parameters())
    states = ours.model(given := some_batch())
    torch.testing.assert_close(ours.heads["causal_lm"].answers(states, given), states.hidden @ table.T, **CLOSE)
