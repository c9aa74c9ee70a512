"""Our heads for answers equal Hugging Face's on copied random weights: logits, losses and every gradient, to 1e-5."""

from collections.abc import Mapping

import pytest
import torch
import torch.nn.functional as F
from copies import CLOSE, VOCABULARY, copied, gradients_of, roughen
from transformers import BertConfig, BertForQuestionAnswering, XLNetConfig, XLNetForQuestionAnswering

from plmkit.data.batch import Batch, Side
from plmkit.interop.families import bert, xlnet
from plmkit.interop.huggingface import from_huggingface
from plmkit.network import Network
from plmkit.tasks.answering.heads import ConditionalSpanHead, SpanHead

LENGTH, WIDTH = 12, 24


def rows(null: int) -> Batch:
    """Two rows without padding, which transformers' loss would count as positions; the second has no answer."""
    torch.manual_seed(5)
    tokens = torch.randint(1, VOCABULARY, (2, LENGTH))
    segments = (torch.arange(LENGTH) > 4).long().expand(2, -1)
    places = torch.zeros(2, LENGTH, dtype=torch.long)
    places[:, 5:-1] = 1
    places[:, null] = 2
    return Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool), segments=segments),
        labels=torch.tensor([[6, 8], [null % LENGTH, null % LENGTH]]), places=places,
    )  # fmt: skip


def given(batch: Batch) -> dict[str, torch.Tensor]:
    return {"input_ids": batch.source.tokens, "token_type_ids": batch.source.segments,
            "attention_mask": batch.source.visible.long()}  # fmt: skip


@pytest.fixture
def berts():
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.3,
    )  # fmt: skip
    theirs = roughen(BertForQuestionAnswering(config))
    settings = bert.architecture(config.to_dict(), where=None).with_settings(pooler=False)
    return theirs, copied(theirs, bert, heads={"span": SpanHead(width=WIDTH, n_best=4)}, settings=settings)


def test_berts_logits_loss_and_gradients_are_equal(berts):
    theirs, ours = berts
    batch = rows(null=0)
    start, end = batch.labels.unbind(1)
    their = theirs(**given(batch), start_positions=start, end_positions=end)
    logits = ours.heads["span"].logits(ours.model(batch), batch)
    torch.testing.assert_close(logits, torch.stack([their.start_logits, their.end_logits], -1), **CLOSE)
    loss = ours(batch).losses["span"]
    torch.testing.assert_close(loss, their.loss, **CLOSE)
    loss.backward()
    their.loss.backward()
    same(ours, from_huggingface(gradients_of(theirs), bert, ours.model.settings))


def test_padding_changes_neither_loss_nor_answers(berts):
    _, ours = berts
    batch = rows(null=0)

    def padded(tensor: torch.Tensor, with_what: int) -> torch.Tensor:
        return F.pad(tensor, (0, 3), value=with_what)

    wide = Batch(
        source=Side(tokens=padded(batch.source.tokens, 0), visible=padded(batch.source.visible, False),
                    segments=padded(batch.source.segments, 0)),
        labels=batch.labels, places=padded(batch.places, 0),
    )  # fmt: skip
    torch.testing.assert_close(ours(wide).losses["span"], ours(batch).losses["span"], **CLOSE)
    head = ours.heads["span"]
    torch.testing.assert_close(head.answers(ours.model(wide), wide), head.answers(ours.model(batch), batch), **CLOSE)


@pytest.fixture
def xlnets():
    torch.manual_seed(3)
    config = XLNetConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, n_layer=2, n_head=4, d_inner=40, dropout=0.0, initializer_range=0.3,
        mem_len=None, start_n_top=3, end_n_top=3,
    )  # fmt: skip
    theirs = roughen(XLNetForQuestionAnswering(config))
    settings = xlnet.architecture(config.to_dict(), where=None)
    heads = {"conditional_span": ConditionalSpanHead(width=WIDTH, beams=3)}
    return theirs, copied(theirs, xlnet, heads=heads, settings=settings)


def test_xlnets_answers_are_equal(xlnets):
    theirs, ours = (network.eval() for network in xlnets)
    batch = rows(null=-1)
    mask = (batch.places == 0).float()
    with torch.no_grad():
        their = theirs(**given(batch), p_mask=mask)
        states = ours.model(batch)
        starts, first, ends, last, null = ours.heads["conditional_span"].beam(states, batch)
    torch.testing.assert_close(starts.exp(), their.start_top_log_probs, **CLOSE)
    torch.testing.assert_close(first, their.start_top_index)
    torch.testing.assert_close(ends.exp().transpose(1, 2).flatten(1), their.end_top_log_probs, **CLOSE)
    torch.testing.assert_close(last.transpose(1, 2).flatten(1), their.end_top_index)
    torch.testing.assert_close(null, their.cls_logits, **CLOSE)


def test_xlnets_loss_and_gradients_are_equal(xlnets):
    """Theirs trains the null logit on the state of the true start; the released code, and ours, on the expected one."""
    theirs, ours = xlnets
    batch = rows(null=-1)
    mask = (batch.places == 0).float()
    start, end = batch.labels.unbind(1)
    spans = theirs(**given(batch), p_mask=mask, start_positions=start, end_positions=end).loss
    hidden = theirs.transformer(**given(batch)).last_hidden_state
    expected = torch.einsum("blh,bl->bh", hidden, theirs.start_logits(hidden, p_mask=mask).softmax(-1))
    null = theirs.answer_class(hidden, start_states=expected)
    loss = spans + 0.5 * F.binary_cross_entropy_with_logits(null, torch.tensor([0.0, 1.0]))
    found = ours(batch).losses["conditional_span"]
    torch.testing.assert_close(found, loss, **CLOSE)
    found.backward()
    loss.backward()
    own = {name: grad for name, grad in gradients_of(theirs).items() if grad is not None}  # of one stream
    same(ours, from_huggingface(own, xlnet, ours.model.settings))


def same(ours: Network, wanted: Mapping[str, torch.Tensor]) -> None:
    """Every gradient is equal; only what adds the same at all positions may have none: their softmax ignores it."""
    found = {name: gradient for name, gradient in gradients_of(ours).items() if gradient is not None}
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}")
        assert gradient.abs().max() > 1e-5 or name.endswith("bias"), f"{name}: equal zeros would show nothing"
