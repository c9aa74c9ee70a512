"""Our XLNet equals Hugging Face's on copied random weights: both streams, memory, loss and every gradient, to 1e-5."""

from dataclasses import replace

import pytest
import torch
from transformers import XLNetConfig, XLNetForSequenceClassification, XLNetLMHeadModel

from plmkit.data.batch import IGNORE, Batch
from plmkit.interop.families import xlnet
from plmkit.interop.huggingface import all_pairs, from_huggingface, to_huggingface
from plmkit.network import Network
from plmkit.objectives.permuted_lm import PermutedLM
from plmkit.training.checkpoint import put_weights

VOCABULARY, ROWS, LENGTH, ASKED = 61, 3, 12, (4, 4, 2)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def theirs_with(kind=XLNetLMHeadModel, **settings):
    """Random weights large enough to matter: at 0.02 every token looks alike."""
    torch.manual_seed(3)
    shape = {"ff_activation": "gelu_new", "mem_len": 7, "reuse_len": 5, "use_mems_train": True, **settings}
    config = XLNetConfig(
        vocab_size=VOCABULARY, d_model=24, n_layer=3, n_head=4, d_inner=40, initializer_range=0.3, dropout=0.0,
        summary_last_dropout=0.0, **shape,
    )  # fmt: skip
    network = kind(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias") or "orm" in name:  # these start at 0 and 1, where a mistake hides
                parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def ours_from(theirs) -> Network:
    settings = xlnet.architecture(theirs.config.to_dict(), where=None)
    assert settings.reuse == 5 / 512
    settings = replace(settings, reuse=5 / LENGTH)  # of the rows that stand here
    model = settings.build(range(VOCABULARY))
    heads = {task.name: task.build(model) for task in (PermutedLM(),)}
    network = Network(model, heads, dict.fromkeys(heads, 1.0))
    put_weights(network, from_huggingface(theirs.state_dict(), xlnet, settings), source=None)
    return network


def content_batch() -> Batch:
    """Rows padded on the left, three segments in each."""
    torch.manual_seed(4)
    visible = torch.arange(LENGTH).expand(ROWS, -1) >= torch.tensor([0, 3, 7])[:, None]
    tokens = torch.randint(1, VOCABULARY, visible.shape)
    segments = (torch.arange(LENGTH) > 8).long() + (torch.arange(LENGTH) > 10).long()
    return Batch(tokens=tokens, segments=segments.expand(ROWS, -1), visible=visible)


def permuted_batch() -> Batch:
    """Some positions asked in a random order, the others seen by all."""
    given = content_batch()
    asked = torch.zeros(ROWS, LENGTH, dtype=torch.bool)
    for row, many in enumerate(ASKED):
        asked[row, torch.randperm(LENGTH)[:many]] = True
    rank = torch.stack([torch.randperm(LENGTH) for _ in range(ROWS)])
    read, reads = torch.where(asked, rank, -1), torch.where(asked, rank, 0)
    targets = torch.where(asked, given.tokens, IGNORE)
    return replace(
        given, visible=torch.ones_like(asked), targets=targets, reading=torch.stack([read, reads], dim=-1)
    )  # fmt: skip


def memory() -> torch.Tensor:
    return torch.randn(ROWS, 3, 7, 24, generator=torch.Generator().manual_seed(5))


def run_theirs(network, given: Batch):
    mems = None if given.memory is None else list(given.memory.permute(1, 2, 0, 3))
    if given.reading is None:
        return network.transformer(
            input_ids=given.tokens, token_type_ids=given.segments, attention_mask=given.visible.float(), mems=mems
        )
    most = max(ASKED)
    mapping, labels = torch.zeros(ROWS, most, LENGTH), torch.full((ROWS, most), IGNORE)
    for row, asked in enumerate(given.targets != IGNORE):
        for number, place in enumerate(asked.nonzero().flatten().tolist()):
            mapping[row, number, place] = 1.0
            labels[row, number] = given.tokens[row, place]
        mapping[row, asked.sum() :, 0] = 1.0  # a query that nobody asks for
    hidden = given.reading[:, :, None, 1] <= given.reading[:, None, :, 0]
    return network(
        input_ids=given.tokens, token_type_ids=given.segments, perm_mask=hidden.float(), target_mapping=mapping,
        labels=labels, mems=mems,
    )  # fmt: skip


@pytest.fixture(params=["gelu_new", "gelu", "relu"])
def both(request):
    theirs = theirs_with(ff_activation=request.param)
    return theirs, ours_from(theirs)


@pytest.mark.parametrize("remembers", [False, True], ids=["alone", "with-memory"])
def test_the_content_stream_and_what_it_remembers_are_equal(both, remembers):
    theirs, ours = both[0].eval(), both[1].eval()
    given = replace(content_batch(), memory=memory() if remembers else None)
    their, states = run_theirs(theirs, given), ours.model(given)
    seen = given.visible
    torch.testing.assert_close(states.hidden[seen], their.last_hidden_state[seen], **CLOSE)
    assert states.memory.shape == (ROWS, 3, 7 if remembers else 5, 24)
    wanted = torch.stack(list(their.mems)).permute(2, 0, 1, 3)
    kept = seen[:, :5, None].expand(-1, -1, 24) if not remembers else torch.ones(ROWS, 7, 24, dtype=torch.bool)
    if remembers:
        kept[:, 2:] = seen[:, :5, None]  # what is computed at padding means nothing
    for layer in range(3):
        torch.testing.assert_close(states.memory[:, layer][kept], wanted[:, layer][kept], **CLOSE)


@pytest.mark.parametrize("remembers", [False, True], ids=["alone", "with-memory"])
def test_the_query_stream_its_logits_and_the_loss_are_equal(both, remembers):
    theirs, ours = both[0].train(), both[1].train()
    given = replace(permuted_batch(), memory=memory() if remembers else None)
    their, states = run_theirs(theirs, given), ours.model(given)
    asked = given.targets != IGNORE
    answered = torch.cat([their.logits[row, :many] for row, many in enumerate(ASKED)])
    torch.testing.assert_close(ours.heads["permuted_lm"].vocabulary(states.hidden[asked]), answered, **CLOSE)
    assert not states.hidden[~asked].any()
    torch.testing.assert_close(ours(given)["permuted_lm"], their.loss, **CLOSE)
    wanted = torch.stack(list(their.mems)).permute(2, 0, 1, 3)
    torch.testing.assert_close(states.memory, wanted, **CLOSE)
    assert not states.memory.requires_grad


@pytest.mark.parametrize("remembers", [False, True], ids=["alone", "with-memory"])
def test_every_gradient_is_equal(both, remembers):
    theirs, ours = both[0].train(), both[1].train()
    given = replace(permuted_batch(), memory=memory() if remembers else None)
    run_theirs(theirs, given).loss.backward()
    sum(ours(given).values()).backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    wanted = from_huggingface(gradients, xlnet, ours.model.settings)
    found = {name: weight.grad for name, weight in ours.named_parameters()}
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}")
        assert gradient.abs().max() > 1e-4, f"{name}: equal zeros would say nothing"


def test_the_summary_of_a_row_is_its_last_position():
    theirs = theirs_with(XLNetForSequenceClassification).eval()
    settings = replace(xlnet.architecture(theirs.config.to_dict(), where=None), pooler=True)
    weights = from_huggingface(theirs.state_dict(), xlnet, settings)
    model = settings.build(range(VOCABULARY)).eval()
    put_weights(Network(model, {}, {}), {k: v for k, v in weights.items() if k.startswith("model.")}, source=None)
    given = content_batch()
    their = theirs(input_ids=given.tokens, token_type_ids=given.segments, attention_mask=given.visible.float())
    pooled = model(given).pooled
    label = {kind: weights[f"heads.label.classify.{kind}"] for kind in ("weight", "bias")}
    torch.testing.assert_close(torch.nn.functional.linear(pooled, **label), their.logits, **CLOSE)


def test_two_directions_in_a_batch_are_equal_to_theirs():
    theirs = theirs_with().eval()
    theirs.transformer.bi_data = True
    given = content_batch().rows(slice(0, 2))
    ours = ours_from(theirs_with()).eval()
    their = run_theirs(theirs, given).last_hidden_state
    states = ours.model(replace(given, backward=torch.tensor([False, True])))
    torch.testing.assert_close(states.hidden[given.visible], their[given.visible], **CLOSE)


def test_import_export_and_import_again_change_no_bit(both):
    theirs, ours = both
    settings = ours.model.settings
    first = from_huggingface(theirs.state_dict(), xlnet, settings)
    exported = to_huggingface(first, xlnet, settings)
    again = from_huggingface(exported, xlnet, settings)
    wanted = {name for name, _ in all_pairs(xlnet, settings, ("permuted_lm",)) if "pooler" not in name}
    assert first.keys() == again.keys() == wanted
    assert all(torch.equal(first[name], again[name]) for name in first)
    own = theirs.state_dict()
    assert all(torch.equal(exported[name], own[name]) for name in exported)
    assert own.keys() - exported.keys() <= {"lm_loss.weight"}


def test_the_decoder_is_the_token_table_itself():
    ours = ours_from(theirs_with())
    table = ours.heads["permuted_lm"].vocabulary._table[0].weight
    assert table.data_ptr() == ours.model.embed.tokens.weight.data_ptr()
    assert sum(weight.shape == (VOCABULARY, 24) for weight in ours.parameters()) == 1
