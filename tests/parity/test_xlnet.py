"""Our XLNet equals Hugging Face's on copied random weights: both streams, memory, loss and every gradient, to 1e-5."""

from dataclasses import replace

import pytest
import torch
from copies import CLOSE, VOCABULARY, copied, decodes_by_the_embedding, gradients_of, left_over, roughen, same_gradients
from transformers import XLNetConfig, XLNetForSequenceClassification, XLNetLMHeadModel

from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.interop.families import xlnet
from plmkit.interop.naming import from_huggingface
from plmkit.network import Network
from plmkit.objectives.permuted_lm import PermutedLM
from plmkit.training.checkpoint import put_weights

ROWS, LENGTH, ASKED = 3, 12, (4, 4, 2)


def theirs_with(kind=XLNetLMHeadModel, **settings):
    """Random weights large enough to matter: at 0.02 all tokens look the same."""
    torch.manual_seed(3)
    shape = {"ff_activation": "gelu_new", "mem_len": 7, "reuse_len": 5, "use_mems_train": True, **settings}
    config = XLNetConfig(
        vocab_size=VOCABULARY, d_model=24, n_layer=3, n_head=4, d_inner=40, initializer_range=0.3, dropout=0.0,
        summary_last_dropout=0.0, **shape,
    )  # fmt: skip
    return roughen(kind(config), names=("bias", "transformer"))


def ours_from(theirs) -> Network:
    settings = xlnet.architecture(theirs.config.to_dict(), where=None)
    assert settings.reuse == 5 / 512
    settings = replace(settings, reuse=5 / LENGTH)  # of these rows
    return copied(theirs, xlnet, (PermutedLM(),), settings=settings)


def content_batch() -> Batch:
    """Rows padded on the left, three segments in each."""
    torch.manual_seed(4)
    visible = torch.arange(LENGTH).expand(ROWS, -1) >= torch.tensor([0, 3, 7])[:, None]
    tokens = torch.randint(1, VOCABULARY, visible.shape)
    segments = (torch.arange(LENGTH) > 8).long() + (torch.arange(LENGTH) > 10).long()
    return Batch(source=Side(tokens=tokens, visible=visible, segments=segments.expand(ROWS, -1)))


def permuted_batch() -> Batch:
    """Some positions predicted in a random order, the others visible to all."""
    given = content_batch()
    asked = torch.zeros(ROWS, LENGTH, dtype=torch.bool)
    for row, many in enumerate(ASKED):
        asked[row, torch.randperm(LENGTH)[:many]] = True
    rank = torch.stack([torch.randperm(LENGTH) for _ in range(ROWS)])
    read, reads = torch.where(asked, rank, -1), torch.where(asked, rank, 0)
    targets = torch.where(asked, given.source.tokens, IGNORE)
    return replace(
        given,
        source=replace(given.source, visible=torch.ones_like(asked)),
        targets=targets,
        attention_order=torch.stack([read, reads], dim=-1),
    )


def memory() -> tuple[torch.Tensor]:
    return (torch.randn(ROWS, 3, 7, 24, generator=torch.Generator().manual_seed(5)),)


def run_theirs(network, given: Batch):
    mems = None if given.memory is None else list(given.memory[0].permute(1, 2, 0, 3))
    if given.attention_order is None:
        return network.transformer(
            input_ids=given.source.tokens,
            token_type_ids=given.source.segments,
            attention_mask=given.source.visible.float(),
            mems=mems,
        )
    most = max(ASKED)
    mapping, labels = torch.zeros(ROWS, most, LENGTH), torch.full((ROWS, most), IGNORE)
    for row, asked in enumerate(given.targets != IGNORE):
        for number, place in enumerate(asked.nonzero().flatten().tolist()):
            mapping[row, number, place] = 1.0
            labels[row, number] = given.source.tokens[row, place]
        mapping[row, asked.sum() :, 0] = 1.0  # an unused query
    hidden = given.attention_order[:, :, None, 1] <= given.attention_order[:, None, :, 0]
    return network(
        input_ids=given.source.tokens, token_type_ids=given.source.segments, perm_mask=hidden.float(),
        target_mapping=mapping,
        labels=labels, mems=mems,
    )  # fmt: skip


@pytest.fixture(params=["gelu_new", "gelu", "relu"])
def both(request):
    theirs = theirs_with(ff_activation=request.param)
    return theirs, ours_from(theirs)


@pytest.mark.parametrize("remembers", [False, True], ids=["alone", "with-memory"])
def test_the_content_stream_and_its_memory_are_equal(both, remembers):
    theirs, ours = both[0].eval(), both[1].eval()
    given = replace(content_batch(), memory=memory() if remembers else None)
    their, states = run_theirs(theirs, given), ours.model(given)
    seen = given.source.visible
    torch.testing.assert_close(states.hidden[seen], their.last_hidden_state[seen], **CLOSE)
    assert states.memory[0].shape == (ROWS, 3, 7 if remembers else 5, 24)
    wanted = torch.stack(list(their.mems)).permute(2, 0, 1, 3)
    kept = seen[:, :5, None].expand(-1, -1, 24) if not remembers else torch.ones(ROWS, 7, 24, dtype=torch.bool)
    if remembers:
        kept[:, 2:] = seen[:, :5, None]  # outputs at padding are undefined
    for layer in range(3):
        torch.testing.assert_close(states.memory[0][:, layer][kept], wanted[:, layer][kept], **CLOSE)


@pytest.mark.parametrize("remembers", [False, True], ids=["alone", "with-memory"])
def test_the_query_stream_its_logits_and_the_loss_are_equal(both, remembers):
    theirs, ours = both[0].train(), both[1].train()
    given = replace(permuted_batch(), memory=memory() if remembers else None)
    their, states = run_theirs(theirs, given), ours.model(given)
    asked = given.targets != IGNORE
    answered = torch.cat([their.logits[row, :many] for row, many in enumerate(ASKED)])
    torch.testing.assert_close(ours.heads["permuted_lm"].vocabulary(states.hidden[asked]), answered, **CLOSE)
    assert not states.hidden[~asked].any()
    torch.testing.assert_close(ours(given).weighted["permuted_lm"], their.loss, **CLOSE)
    wanted = torch.stack(list(their.mems)).permute(2, 0, 1, 3)
    torch.testing.assert_close(states.memory[0], wanted, **CLOSE)
    assert not states.memory[0].requires_grad


@pytest.mark.parametrize("remembers", [False, True], ids=["alone", "with-memory"])
def test_every_gradient_is_equal(both, remembers):
    theirs, ours = both[0].train(), both[1].train()
    given = replace(permuted_batch(), memory=memory() if remembers else None)
    run_theirs(theirs, given).loss.backward()
    sum(ours(given).weighted.values()).backward()
    same_gradients(ours, from_huggingface(gradients_of(theirs), xlnet, ours.model.settings))


def test_the_summary_of_a_row_is_its_last_position():
    theirs = theirs_with(XLNetForSequenceClassification).eval()
    settings = replace(xlnet.architecture(theirs.config.to_dict(), where=None), pooler=True)
    weights = from_huggingface(theirs.state_dict(), xlnet, settings)
    model = settings.build(unnamed(VOCABULARY)).eval()
    put_weights(Network(model, {}, {}), {k: v for k, v in weights.items() if k.startswith("model.")}, source=None)
    given = content_batch()
    their = theirs(
        input_ids=given.source.tokens, token_type_ids=given.source.segments, attention_mask=given.source.visible.float()
    )
    pooled = model(given).pooled
    label = {kind: weights[f"heads.label.classify.{kind}"] for kind in ("weight", "bias")}
    torch.testing.assert_close(torch.nn.functional.linear(pooled, **label), their.logits, **CLOSE)


def test_two_directions_in_a_batch_are_equal_to_theirs():
    theirs = theirs_with().eval()
    theirs.transformer.bi_data = True
    given = content_batch().part(0, 2)
    ours = ours_from(theirs_with()).eval()
    their = run_theirs(theirs, given).last_hidden_state
    states = ours.model(replace(given, reversed=torch.tensor([False, True])))
    torch.testing.assert_close(states.hidden[given.source.visible], their[given.source.visible], **CLOSE)


def test_import_export_and_import_again_change_no_bit(both):
    theirs, ours = both
    assert left_over(theirs, xlnet, ours.model.settings, ours.heads) <= {"lm_loss.weight"}


def test_the_output_embedding_is_the_token_embedding():
    decodes_by_the_embedding(ours_from(theirs_with()), "permuted_lm")
