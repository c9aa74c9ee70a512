"""Our DistilBERT equals Hugging Face's on copied random weights, forward and every gradient, to 1e-5."""

from dataclasses import replace

import pytest
import torch
import transformers
from copies import CLOSE, VOCABULARY, copied, decodes_by_the_embedding, gradients_of, left_over, roughen, same_gradients
from copies import some_batch as rows

from plmkit.interop.families import bert, distilbert
from plmkit.interop.naming import family_of, from_huggingface
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.tasks.heads import ClassHead

KINDS = ["DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification"]


@pytest.fixture(params=KINDS)
def both(request):
    torch.manual_seed(3)
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY, dim=24, n_layers=3, n_heads=4, hidden_dim=40, max_position_embeddings=20, dropout=0.0,
        attention_dropout=0.0, seq_classif_dropout=0.0, initializer_range=0.3,
    )  # fmt: skip
    theirs = roughen(getattr(transformers, request.param)(config).eval())
    settings = distilbert.architecture(config.to_dict(), where=None)
    classifies = "Classification" in request.param
    settings = replace(settings, pooler=classifies)
    heads = {"label": ClassHead(width=24, outputs=2)} if classifies else {}
    tasks = [MaskedLM()] if "Masked" in request.param else []
    state = theirs.state_dict()
    if request.param == "DistilBertModel":
        theirs.state_dict = lambda: {f"distilbert.{name}": weight for name, weight in state.items()}
    return theirs, copied(theirs, distilbert, tasks, heads, settings).eval()


def run_theirs(theirs, given):
    source = given.source
    labels = {
        "DistilBertForMaskedLM": {"labels": given.targets},
        "DistilBertForSequenceClassification": {"labels": given.labels},
    }.get(type(theirs).__name__, {})  # fmt: skip
    return theirs(input_ids=source.tokens, attention_mask=source.visible.long(), output_hidden_states=True, **labels)


def test_states_logits_and_loss_are_equal(both):
    theirs, ours = both
    given = rows()
    their, states, seen = run_theirs(theirs, given), ours.model(given), given.source.visible
    torch.testing.assert_close(states.hidden[seen], their.hidden_states[-1][seen], **CLOSE)
    for name, head in ours.heads.items():
        found, wanted = head.answers(states, given), their.logits
        shown = seen if name == "masked_lm" else slice(None)
        torch.testing.assert_close(found[shown], wanted[shown], **CLOSE)
        torch.testing.assert_close(sum(ours(given).weighted.values()), their.loss, **CLOSE)


def test_every_gradient_is_equal(both):
    theirs, ours = both
    given = rows()
    if ours.heads:
        run_theirs(theirs, given).loss.backward()
        sum(ours(given).weighted.values()).backward()
        wanted = from_huggingface(gradients_of(theirs), distilbert, ours.model.settings)
        same_gradients(ours, wanted)


def test_import_export_and_import_again_change_no_bit(both):
    theirs, ours = both
    left = left_over(theirs, distilbert, ours.model.settings, ours.heads)
    assert {name for name in left if not name.endswith("_ids")} <= {distilbert.DECODER}


def test_the_output_embedding_is_the_token_embedding_and_there_are_no_segments(both):
    _, ours = both
    if "masked_lm" in ours.heads:
        decodes_by_the_embedding(ours, "masked_lm")
    assert not any("segments" in name for name in ours.state_dict())


def test_a_network_without_segments_is_a_distilbert_and_one_with_them_a_bert():
    from plmkit.catalogue import find

    assert family_of(find("distilbert-base").architecture) is distilbert
    assert family_of(find("tinybert-4l").architecture) is bert


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_of_transformers_loads_and_exports_back(name, plm, pretrained, tmp_path):
    import shutil

    from plmkit.tokenizers.tokenizer import load_tokenizer

    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=len(load_tokenizer(pretrained).vocabulary), dim=32, n_layers=2, n_heads=2, hidden_dim=64,
        max_position_embeddings=48,
    )  # fmt: skip
    folder, back = tmp_path / "theirs", tmp_path / "back"
    getattr(transformers, name)(config).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(pretrained / file, folder / file)
    ran = plm("export", folder, back, "--quiet")
    assert ran.code == 0, ran.err
    again = getattr(transformers, name).from_pretrained(back).state_dict()
    first = getattr(transformers, name).from_pretrained(folder).state_dict()
    assert again.keys() == first.keys()
    assert all(torch.equal(again[key], first[key]) for key in first)
