"""Our ALBERT equals Hugging Face's on copied random weights: states, logits, losses and every gradient, to 1e-5."""

import pytest
import torch
from transformers import AlbertConfig, AlbertForPreTraining

from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.data.batch import IGNORE, Batch
from plmkit.interop.families import albert
from plmkit.interop.huggingface import all_pairs, from_huggingface, to_huggingface
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import SentenceOrder
from plmkit.training.checkpoint import put_weights

VOCABULARY, LENGTHS = 61, (16, 11, 5)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def theirs_with(**settings) -> AlbertForPreTraining:
    """Random weights large enough to matter: at 0.02 every token looks alike."""
    torch.manual_seed(3)
    shape = {"embedding_size": 12, "hidden_act": "gelu_new", **settings}
    config = AlbertConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=20, initializer_range=0.3, classifier_dropout_prob=0.0, **shape,
    )  # fmt: skip
    network = AlbertForPreTraining(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias") or "orm" in name:  # these start at 0 and 1, where a mistake hides
                parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def ours_from(theirs: AlbertForPreTraining) -> Network:
    settings = albert.architecture(theirs.config.to_dict(), where=None)
    model = settings.build(range(VOCABULARY))
    heads = {task.name: task.build(model) for task in (MaskedLM(), SentenceOrder())}
    network = Network(model, heads, dict.fromkeys(heads, 1.0))
    put_weights(network, from_huggingface(theirs.state_dict(), albert, settings), source=None)
    return network


def batch() -> Batch:
    """Three rows of 16, 11 and 5 tokens, two segments each, a few positions asked."""
    torch.manual_seed(4)
    lengths = torch.tensor(LENGTHS)
    places = torch.arange(max(LENGTHS)).expand(len(LENGTHS), -1)
    visible = places < lengths[:, None]
    tokens = torch.randint(1, VOCABULARY, visible.shape).where(visible, torch.tensor(0))
    asked = (torch.rand(visible.shape) < 0.3) & visible
    asked[:, 1] = True
    targets = torch.randint(VOCABULARY, visible.shape).where(asked, torch.tensor(IGNORE))
    segments = ((places > lengths[:, None] // 2) & visible).long()
    return Batch(tokens=tokens, segments=segments, visible=visible, targets=targets, follows=torch.tensor([0, 1, 1]))


def run_theirs(network: AlbertForPreTraining, given: Batch):
    return network(
        input_ids=given.tokens, token_type_ids=given.segments, attention_mask=given.visible.long(),
        labels=given.targets, sentence_order_label=given.follows, output_hidden_states=True,
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
    given = batch()
    their = run_theirs(theirs, given)
    states = ours.model(given)
    seen = given.visible
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][seen], **CLOSE)
    logits = ours.heads["masked_lm"].answers(states, given)
    torch.testing.assert_close(logits[seen], their.prediction_logits[seen], **CLOSE)
    torch.testing.assert_close(ours.heads["sentence_order"].answers(states, given), their.sop_logits, **CLOSE)
    torch.testing.assert_close(sum(ours(given).values()), their.loss, **CLOSE)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_every_gradient_is_equal(both, training):
    theirs, ours = (network.train(training) for network in both)
    given = batch()
    run_theirs(theirs, given).loss.backward()
    sum(ours(given).values()).backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    wanted = from_huggingface(gradients, albert, ours.model.settings)
    found = {name: weight.grad for name, weight in ours.named_parameters()}
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}")
        assert gradient.abs().max() > 1e-4, f"{name}: equal zeros would say nothing"


def test_all_sharing_is_read_as_one_block_and_groups_as_many():
    assert albert.architecture(theirs_with().config.to_dict(), where=None).sharing == "all"
    assert albert.architecture(theirs_with(num_hidden_groups=3).config.to_dict(), where=None).sharing == "none"
    assert len(ours_from(theirs_with()).model.blocks) == 1


def test_import_export_and_import_again_change_no_bit(both):
    theirs, ours = both
    settings = ours.model.settings
    first = from_huggingface(theirs.state_dict(), albert, settings)
    exported = to_huggingface(first, albert, settings)
    again = from_huggingface(exported, albert, settings)
    wanted = {name for name, _ in all_pairs(albert, settings, ("masked_lm", "sentence_order"))}
    assert first.keys() == again.keys() == wanted
    assert all(torch.equal(first[name], again[name]) for name in first)
    own = theirs.state_dict()
    assert all(torch.equal(exported[name], own[name]) for name in exported)
    assert own.keys() - exported.keys() <= {"predictions.decoder.weight", "predictions.decoder.bias"}


@pytest.mark.parametrize("sharing", ["attention", "feed_forward"])
def test_a_sublayer_shared_alone_is_written_out_for_every_layer(sharing):
    torch.manual_seed(0)
    settings = SharedEncoder(layers=3, heads=4, width=24, inner=40, embedding=12, longest=20, sharing=sharing)
    model = settings.build(range(VOCABULARY)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    ours = Network(model, {}, {})
    theirs = theirs_with(num_hidden_groups=3).eval()
    missing, unexpected = theirs.load_state_dict(to_huggingface(ours.state_dict(), albert, settings), strict=False)
    assert not unexpected
    assert all(name.startswith(("predictions.", "sop_classifier.")) for name in missing)
    given = batch()
    hidden = run_theirs(theirs, given).hidden_states[-1]
    torch.testing.assert_close(ours.model(given).hidden[given.visible], hidden[given.visible], **CLOSE)


def test_the_decoder_is_the_token_table_itself():
    ours = ours_from(theirs_with())
    table = ours.heads["masked_lm"].vocabulary._table[0].weight
    assert table.data_ptr() == ours.model.embed.tokens.weight.data_ptr()
    assert sum(weight.shape == (VOCABULARY, 12) for weight in ours.parameters()) == 1
