"""Our RoBERTa and ERNIE equal Hugging Face's on copied random weights, forward and every gradient, to 1e-5."""

from dataclasses import replace

import pytest
import torch
import transformers
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

from plmkit.data.batch import Batch
from plmkit.data.vocabulary import unnamed
from plmkit.interop.families import ernie, roberta
from plmkit.interop.naming import from_huggingface, to_huggingface
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence
from plmkit.tasks.heads import ClassHead

PAD = 1
TASKS = {"hidden_act": "gelu", "type_vocab_size": 4, "use_task_id": True, "task_type_vocab_size": 16}  # ERNIE 2
KINDS = {
    "RobertaForMaskedLM": (roberta, {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "max_position_embeddings": 22}),
    "RobertaForSequenceClassification": (roberta, {"type_vocab_size": 1, "max_position_embeddings": 22}),
    "ErnieForMaskedLM": (ernie, {"hidden_act": "relu", "layer_norm_eps": 1e-5}),
    "ErnieForPreTraining": (ernie, {"hidden_act": "relu", "max_position_embeddings": 21}),
    "ErnieForSequenceClassification": (ernie, {"hidden_act": "relu"}),
    "ErnieForMaskedLM with tasks": (ernie, TASKS),
    "ErnieForPreTraining with tasks": (ernie, TASKS),
    "ErnieForSequenceClassification with tasks": (ernie, TASKS),
}
MADE = {"masked_lm": MaskedLM, "next_sentence": NextSentence}


def theirs_of(kind: str):
    """Random weights large enough to matter: at 0.02 all tokens look the same."""
    torch.manual_seed(3)
    family, settings = KINDS[kind]
    kind = kind.removesuffix(" with tasks")
    config = getattr(transformers, kind).config_class(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.3, pad_token_id=PAD,
        **{"max_position_embeddings": 20, **settings},
    )  # fmt: skip
    return roughen(getattr(transformers, kind)(config).eval()), family


def ours_from(theirs, family) -> Network:
    settings = family.architecture(theirs.config.to_dict(), where=None)
    weights = from_huggingface(theirs.state_dict(), family, settings)
    settings = replace(settings, pooler="model.pooler.weight" in weights)
    names = family.CLASSES[type(theirs).__name__]
    heads = {"label": ClassHead(width=24, outputs=2)} if "label" in names else {}
    return copied(theirs, family, [MADE[name]() for name in names if name in MADE], heads, settings).eval()


def run_theirs(network, given: Batch, heads):
    asked = {
        "labels": given.targets if "masked_lm" in heads else given.labels,
        **({"next_sentence_label": given.random_next} if "next_sentence" in heads else {}),
    }
    segments = given.source.segments.clamp(max=network.config.type_vocab_size - 1)
    if given.task is not None:
        asked["task_type_ids"] = given.task[:, None].expand_as(given.source.tokens)
    return network(
        input_ids=given.source.tokens, token_type_ids=segments, attention_mask=given.source.visible.long(),
        output_hidden_states=True, **asked,
    )  # fmt: skip


@pytest.fixture(params=KINDS)
def both(request):
    theirs, family = theirs_of(request.param)
    return theirs, ours_from(theirs, family), family


def batch_for(theirs) -> Batch:
    """Rows of three tasks where the network has task embeddings."""
    given = some_batch(pad=PAD)
    return replace(given, task=torch.tensor([3, 0, 15])) if getattr(theirs.config, "use_task_id", False) else given


def test_states_logits_and_loss_are_equal(both):
    theirs, ours, family = both
    given = batch_for(theirs)
    outputs = family.CLASSES[type(theirs).__name__]
    their = run_theirs(theirs, given, outputs)
    states = ours.model(given)
    seen = given.source.visible
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][seen], **CLOSE)
    for head, output in outputs.items():
        found, wanted = ours.heads[head].answers(states, given), getattr(their, output)
        seen = given.source.visible if head == "masked_lm" else slice(None)
        torch.testing.assert_close(found[seen], wanted[seen], **CLOSE)
    torch.testing.assert_close(sum(ours(given).weighted.values()), their.loss, **CLOSE)


def test_every_gradient_is_equal(both):
    theirs, ours, family = both
    given = batch_for(theirs)
    run_theirs(theirs, given, ours.heads).loss.backward()
    sum(ours(given).weighted.values()).backward()
    wanted = from_huggingface(gradients_of(theirs), family, ours.model.settings)
    same_gradients(ours, wanted)


def test_import_export_and_import_again_change_no_bit(both):
    theirs, ours, family = both
    left = left_over(theirs, family, ours.model.settings, ours.heads)
    assert {name for name in left if not name.endswith(("_ids", "decoder.bias"))} <= {family.DECODER}


def test_the_output_embedding_is_the_token_embedding(both):
    _, ours, _ = both
    if "masked_lm" in ours.heads:
        decodes_by_the_embedding(ours, "masked_lm")
    assert sum(weight.shape == (VOCABULARY, 24) for weight in ours.parameters()) == 1


def test_roberta_counts_its_positions_from_two():
    theirs, family = theirs_of("RobertaForMaskedLM")
    settings = family.architecture(theirs.config.to_dict(), where=None)
    assert (settings.first, settings.max_length, settings.segments) == (2, 20, 1)
    assert len(ours_from(theirs, family).model.embed.positions.weight) == 22


@pytest.mark.parametrize("task", [0, 5])
def test_rows_without_a_task_have_the_architectures_own_and_theirs_without_one_the_first(task):
    """Of a model that is fine-tuned with task 5, the export has that embedding first."""
    theirs, family = theirs_of("ErnieForMaskedLM with tasks")
    settings = replace(family.architecture(theirs.config.to_dict(), where=None), pooler=False, task=task)
    ours = copied(theirs, family, [MaskedLM()], settings=settings).eval()
    given = some_batch(pad=PAD)
    found = ours.model(given).hidden
    same = ours.model(replace(given, task=torch.full((3,), task))).hidden
    assert torch.equal(found, same)
    [net] = family.networks(settings, ours.state_dict(), unnamed(VOCABULARY))
    assert net.architecture.task == 0
    exported = to_huggingface(net.weights, family, net.architecture)
    theirs.load_state_dict(exported, strict=False)
    their = run_theirs(theirs, given, ["masked_lm"]).hidden_states[-1]
    seen = given.source.visible
    torch.testing.assert_close(found[seen], their[seen], **CLOSE)
    other = ours.model(replace(given, task=torch.full((3,), 9))).hidden
    assert (other[seen] - found[seen]).abs().max() > 0.01
