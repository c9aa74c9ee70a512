"""Folders of networks and heads that are not ours: computed as in the original, or refused with a message."""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoTokenizer, GPT2Config, GPT2ForSequenceClassification

import plmkit
from plmkit.errors import LoadWarning
from plmkit.tokenizers.byte_bpe import StreamByteBPE

SHAPE = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 40, "initializer_range": 0.4, "pad_token_id": 0, "embedding_size": 8,
}  # fmt: skip
XLNET = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24, "initializer_range": 0.4}
TEXTS = ["the cat sees a house.", "企鹅不擅长飞行。 the sea"]


def save(kind: str, folder, pretrained, **settings):
    """A random network of that class in a folder, with the tokenizer of `pretrained`."""
    torch.manual_seed(1)
    size = (pretrained / "vocab.txt").read_text(encoding="utf-8").count("\n")
    made = getattr(transformers, kind)
    shape = XLNET if kind.startswith("XLNet") else SHAPE
    network = made(made.config_class(vocab_size=size, **shape, **settings)).eval()
    network.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pretrained / name, folder / name)
    return network


def spoil(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize("kind", ["BertModel", "RobertaModel", "ElectraModel", "ErnieModel"])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"is_decoder": True}, "is_decoder is True: this network is an encoder used as a causal decoder"),
        ({"add_cross_attention": True}, "add_cross_attention is True: this network has cross-attention to another"),
    ],
    ids=["decoder", "cross attention"],
)
def test_an_encoder_that_is_used_as_a_decoder_is_refused(kind, changes, says, pretrained, plm, tmp_path):
    save(kind, tmp_path / "hub", pretrained)
    assert plm("embed", tmp_path / "hub", text_file(tmp_path), "--out", tmp_path / "a.npy").code == 0
    spoil(tmp_path / "hub", **changes)
    ran = plm("embed", tmp_path / "hub", text_file(tmp_path), "--out", tmp_path / "b.npy")
    assert (ran.code, (tmp_path / "b.npy").exists()) == (2, False)
    assert f"plm: {tmp_path / 'hub'}: {says}" in ran.err


def text_file(folder):
    path = folder / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


UNUSED = ["BertLMHeadModel", "RobertaForCausalLM", "ElectraForCausalLM"]  # trained to read from left to right only


@pytest.mark.parametrize("kind", UNUSED)
def test_a_head_that_nothing_uses_is_named_and_the_network_below_it_embeds(kind, pretrained, plm, tmp_path):
    theirs = save(kind, tmp_path / "hub", pretrained)
    ran = plm("embed", tmp_path / "hub", text_file(tmp_path), "--out", tmp_path / "a.npy")
    assert ran.code == 0, ran.err
    says = f"! {tmp_path / 'hub'}: its head ({kind}) is not used, only the network below it.\n"
    assert ran.err.count(says) == 1
    ran = plm("predict", tmp_path / "hub", text_file(tmp_path))
    assert ran.code == 2
    assert "was not fine-tuned on a task, so it cannot predict.\nFine-tune it first: plm finetune" in ran.err
    with pytest.warns(LoadWarning, match="is not used"):
        model = plmkit.load(tmp_path / "hub", device="cpu")
    states, batch = model.states(model.rows(TEXTS))
    body = getattr(theirs, theirs.base_model_prefix)
    with torch.no_grad():
        seen = {"input_ids": batch.source.tokens, "attention_mask": batch.source.visible.long()}
        wanted = body(**seen, token_type_ids=batch.source.segments.clamp(max=1)).last_hidden_state
    np.testing.assert_allclose(states.hidden[batch.source.visible], wanted[batch.source.visible], atol=1e-5)


def test_without_a_class_a_head_is_recognised_by_its_weights(pretrained, plm, tmp_path):
    save("BertForQuestionAnswering", tmp_path / "hub", pretrained)
    spoil(tmp_path / "hub", architectures=None)
    assert list(plmkit.load(tmp_path / "hub", device="cpu").tasks) == ["qa"]
    save("ElectraForMultipleChoice", tmp_path / "other", pretrained)
    spoil(tmp_path / "other", architectures=None)
    ran = plm("embed", tmp_path / "other", text_file(tmp_path), "--out", tmp_path / "a.npy")
    assert ran.code == 0
    assert f"! {tmp_path / 'other'}: its head (sequence_summary) is not used, only the network below it.\n" in ran.err


def test_a_classifier_of_several_labels_predicts_each_by_its_own_sigmoid(pretrained, plm, tmp_path):
    theirs = save(
        "BertForSequenceClassification", tmp_path / "hub", pretrained, problem_type="multi_label_classification"
    )
    model = plmkit.load(tmp_path / "hub", device="cpu")
    found = model.predict("the cat sees a house.")
    (row,) = model.rows(["the cat sees a house."])
    with torch.no_grad():
        shares = theirs.eval()(input_ids=torch.from_numpy(row.tokens)[None]).logits[0].sigmoid().tolist()
    assert list(found.probabilities.values()) == pytest.approx(shares, abs=1e-5)
    assert found.label == tuple(name for name, share in found.probabilities.items() if share >= 0.5)


def test_heads_that_are_used_cause_no_warning(pretrained, plm, tmp_path):
    for kind in ("BertForPreTraining", "RobertaForMaskedLM", "ElectraForPreTraining", "AlbertForPreTraining"):
        save(kind, tmp_path / kind, pretrained)
        ran = plm("embed", tmp_path / kind, text_file(tmp_path), "--out", tmp_path / f"{kind}.npy")
        assert (ran.code, "not used" in ran.err) == (0, False), kind


def test_a_roberta_without_a_padding_token_is_refused(pretrained, plm, tmp_path):
    save("RobertaModel", tmp_path / "hub", pretrained)
    for wrong in (None, -1, "0", 1.5):
        spoil(tmp_path / "hub", pad_token_id=wrong)
        ran = plm("embed", tmp_path / "hub", text_file(tmp_path), "--out", tmp_path / "a.npy")
        assert (ran.code, (tmp_path / "a.npy").exists()) == (2, False)
        assert f"pad_token_id is {wrong}, but RoBERTa's positions start after it." in ran.err


def test_a_gpt2_classifier_frames_texts_as_its_own_tokenizer_does_and_answers_the_same(tmp_path):
    StreamByteBPE(size=300).train(["the cat sat on the mat, a dog ran."] * 3).save(tmp_path)
    theirs_tokens = AutoTokenizer.from_pretrained(tmp_path)
    torch.manual_seed(2)
    config = GPT2Config(
        vocab_size=len(theirs_tokens), n_embd=16, n_layer=2, n_head=2, n_positions=32, initializer_range=0.5,
        num_labels=3, pad_token_id=theirs_tokens.eos_token_id,
    )  # fmt: skip
    theirs = GPT2ForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    texts = ["the cat", "a dog ran on the mat.", "x", "the mat, the cat, the dog"]
    model = plmkit.load(tmp_path, device="cpu")
    for text, answer in zip(texts, model.predict(texts), strict=True):
        with torch.no_grad():
            wanted = theirs(**theirs_tokens(text, return_tensors="pt")).logits.softmax(-1)[0]
        assert list(answer.probabilities.values()) == pytest.approx(wanted.tolist(), abs=1e-5)
    assert [row.tokens.tolist() for row in model.rows(texts)] == theirs_tokens(texts)["input_ids"]
    assert model.rows([""])[0].tokens.tolist() == [theirs_tokens.eos_token_id]
    assert len(model.predict(["", "the cat"])) == 2


def test_the_network_below_an_unused_head_is_fine_tuned(pretrained, rows_file, plm, tmp_path):
    save("BertLMHeadModel", tmp_path / "hub", pretrained)
    options = ("--task", "classify", "--train", rows_file, "--out", tmp_path / "tuned", "--epochs", 0.1)
    ran = plm("finetune", tmp_path / "hub", *options)
    assert ran.code == 0, ran.err
    assert "its head (BertLMHeadModel) is not used" in ran.err
    assert sorted(plmkit.load(tmp_path / "tuned", device="cpu").classes) == ["bad", "good"]
