"""Our encoder with RoBERTa's settings equals Hugging Face's on copied random weights, every gradient included."""

from dataclasses import replace

import pytest
import torch
from transformers import RobertaConfig, RobertaForMaskedLM

from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch
from plmkit.interop.huggingface import from_huggingface
from plmkit.network import Network
from plmkit.training.checkpoint import put_weights

VOCABULARY, LENGTHS, PAD = 61, (16, 11, 5), 1
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
HEAD = {
    "lm_head.dense": "cls.predictions.transform.dense",
    "lm_head.layer_norm": "cls.predictions.transform.LayerNorm",
    "lm_head.bias": "cls.predictions.bias",
}


def as_bert(weights: dict) -> dict:
    """Their names for RoBERTa as their names for BERT."""
    out = {}
    for name, tensor in weights.items():
        for old, new in {"roberta.": "bert.", **HEAD}.items():
            name = name.replace(old, new)
        out[name] = tensor
    return out


@pytest.fixture
def both() -> tuple[RobertaForMaskedLM, Network]:
    torch.manual_seed(3)
    recipe = find("roberta-base")
    shape = replace(
        recipe.architecture, layers=2, heads=4, width=24, inner=40, longest=20, dropout=0.0, attention_dropout=0.0
    )
    config = RobertaConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=22, type_vocab_size=1, layer_norm_eps=1e-5, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.3, pad_token_id=PAD,
    )  # fmt: skip
    theirs = RobertaForMaskedLM(config)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith("bias") or "norm" in name.lower():
                parameter.add_(0.2 * torch.randn_like(parameter))
    model = shape.build(range(VOCABULARY))
    ours = Network(model, {task.name: task.build(model) for task in recipe.objectives}, {"masked_lm": 1.0})
    put_weights(ours, from_huggingface(as_bert(theirs.state_dict()), 2), source=None)
    return theirs, ours


def batch() -> Batch:
    torch.manual_seed(4)
    visible = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    tokens = torch.randint(5, VOCABULARY, visible.shape).where(visible, torch.tensor(PAD))
    asked = (torch.rand(visible.shape) < 0.3) & visible
    asked[:, 1] = True
    targets = torch.randint(VOCABULARY, visible.shape).where(asked, torch.tensor(IGNORE))
    return Batch(tokens=tokens, segments=torch.zeros_like(tokens), visible=visible, targets=targets)


def test_states_logits_loss_and_every_gradient_are_equal(both):
    theirs, ours = both
    given = batch()
    their = theirs(
        input_ids=given.tokens, attention_mask=given.visible.long(), labels=given.targets, output_hidden_states=True
    )
    states = ours.model(given)
    assert states.pooled is None
    seen = given.visible
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][seen], **CLOSE)
    logits = ours.heads["masked_lm"].vocabulary(states.hidden)
    torch.testing.assert_close(logits[seen], their.logits[seen], **CLOSE)
    loss = ours(given)["masked_lm"]
    torch.testing.assert_close(loss, their.loss, **CLOSE)
    loss.backward()
    their.loss.backward()
    wanted = from_huggingface(as_bert({name: weight.grad for name, weight in theirs.named_parameters()}), 2)
    found = {name: weight.grad for name, weight in ours.named_parameters()}
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}")
        assert gradient.abs().max() > 1e-4, f"{name}: equal zeros would say nothing"


def test_positions_begin_at_two(both):
    _, ours = both
    ours(batch())["masked_lm"].backward()
    used = ours.model.embed.positions.weight.grad.abs().sum(dim=1) > 0
    assert used.nonzero().flatten().tolist() == list(range(2, 2 + max(LENGTHS)))
