"""Folders of RoBERTa, ERNIE and ALBERT that transformers wrote, and ours that it opens."""

import json
import reprlib
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import plmkit
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.catalogue import find
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary, unnamed
from plmkit.errors import CheckpointError, InputError, LoadWarning
from plmkit.inference.loading import model_of, read_parts
from plmkit.interop.families import FAMILIES, albert, bert, ernie, roberta
from plmkit.interop.families.family import Family
from plmkit.interop.huggingface import write_huggingface
from plmkit.interop.naming import family_of
from plmkit.interop.reference import hub_network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.storage.manifest import unseal
from plmkit.storage.tensors import checksum
from plmkit.tokenizers.tokenizer import load_tokenizer

TEXTS = ["the cat sees a house.", "企鹅不擅长飞行。 the sea"]
SHAPE = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 40, "initializer_range": 0.4, "pad_token_id": 0,
}  # fmt: skip
ROBERTA = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
KINDS = {
    "RobertaModel": ROBERTA,
    "RobertaForMaskedLM": ROBERTA,
    "RobertaForSequenceClassification": ROBERTA,
    "ErnieModel": {"hidden_act": "relu"},
    "ErnieForMaskedLM": {"hidden_act": "gelu"},  # as in ERNIE 3; it stays an ERNIE
    "ErnieForPreTraining": {"hidden_act": "relu"},
    "ErnieForNextSentencePrediction": {"hidden_act": "relu"},
    "ErnieForSequenceClassification": {"hidden_act": "relu"},
    "AlbertModel": {"embedding_size": 8},
    "AlbertForMaskedLM": {"embedding_size": 8, "num_hidden_groups": 2},
    "AlbertForPreTraining": {"embedding_size": 8},
    "AlbertForSequenceClassification": {"embedding_size": 8},
}


def save(kind: str, folder, pretrained, **settings):
    """A random network of that class in a folder, with the tokenizer of `pretrained`."""
    torch.manual_seed(1)
    size = (pretrained / "vocab.txt").read_text(encoding="utf-8").count("\n")
    made = getattr(transformers, kind)
    network = made(made.config_class(vocab_size=size, **{**SHAPE, **KINDS[kind], **settings})).eval()
    network.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pretrained / name, folder / name)
    return network


def test_a_config_without_a_type_is_recognised_by_its_weights(pretrained, tmp_path):
    kind = next(name for name in KINDS if name.startswith("Albert") and not name.endswith("Model"))
    save(kind, tmp_path, pretrained)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["model_type"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_parts(tmp_path).model_type == "albert"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_loads_embeds_and_exports_bit_for_bit(kind, pretrained, plm, tmp_path):
    theirs = save(kind, tmp_path / "hub", pretrained)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    encoder = getattr(theirs, theirs.config.model_type, theirs)
    for text, ours in zip(TEXTS, model.embed(TEXTS, level="token"), strict=True):
        tokens = torch.from_numpy(model.rows([text])[0].tokens)[None]
        with torch.no_grad():
            hidden = encoder(input_ids=tokens).last_hidden_state[0, 1:-1]
        np.testing.assert_allclose(ours, hidden.numpy(), atol=1e-5)
    ran = plm("export", tmp_path / "hub", tmp_path / "out", "--json")
    assert ran.code == 0
    assert ran.json["largest_difference"] < 1e-4
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["architectures"], config["model_type"]) == ([kind], theirs.config.model_type)
    first, again = (load_file(tmp_path / name / "model.safetensors") for name in ("hub", "out"))
    prefix = f"{theirs.config.model_type}." if kind.endswith("Model") else ""
    for name, tensor in first.items():
        if "decoder" not in name:
            assert torch.equal(tensor, again[f"{prefix}{name}"])
    before, after = read_parts(tmp_path / "hub"), read_parts(tmp_path / "out")
    assert before.architecture == after.architecture
    assert before.weights.keys() == after.weights.keys()
    assert all(torch.equal(before.weights[name], after.weights[name]) for name in before.weights)


@pytest.mark.parametrize("kind", ["RobertaForMaskedLM", "ErnieForMaskedLM", "AlbertForMaskedLM"])
def test_tied_weights_are_one_tensor_after_loading(kind, pretrained, tmp_path):
    save(kind, tmp_path, pretrained)
    network = plmkit.load(tmp_path, device="cpu").network
    table = network.heads["masked_lm"].vocabulary._table[0].weight
    assert table.data_ptr() == network.model.embed.tokens.weight.data_ptr()


@pytest.mark.parametrize("kind", ["RobertaForMaskedLM", "AlbertForPreTraining"])
def test_an_untied_output_embedding_is_refused(kind, pretrained, tmp_path):
    save(kind, tmp_path, pretrained)
    weights = load_file(tmp_path / "model.safetensors")
    (table,) = (tensor for name, tensor in weights.items() if name.endswith("word_embeddings.weight"))
    decoder = "lm_head.decoder.weight" if kind.startswith("Roberta") else "predictions.decoder.weight"
    save_file({**weights, decoder: table + 1}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="only tied weights"):
        plmkit.load(tmp_path)


def spoil(folder, **changes):
    unseal(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize(
    ("kind", "changes", "error", "message"),
    [
        (
            "ErnieModel",
            {"use_task_id": True},
            CheckpointError,
            r"not a complete ERNIE: .*'model\.embed\.tasks\.weight'",
        ),
        ("RobertaModel", {"hidden_act": "relu"}, InputError, "only hidden_act 'gelu'"),
        ("AlbertModel", {"inner_group_num": 2}, InputError, "2 layers in 1 groups of 2 are not supported"),
        ("AlbertModel", {"num_hidden_layers": 4, "num_hidden_groups": 2}, InputError, "4 layers in 2 groups of 1"),
        ("AlbertModel", {"num_hidden_layers": 3, "num_hidden_groups": 3}, CheckpointError, "not a complete ALBERT"),
        (
            "RobertaModel",
            {"num_hidden_layers": 3},
            CheckpointError,
            r"not a complete RoBERTa: the weight 'model\.blocks\.2",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(kind, changes, error, message, pretrained, tmp_path):
    save(kind, tmp_path, pretrained)
    spoil(tmp_path, **changes)
    with pytest.raises(error, match=message):
        plmkit.load(tmp_path)


def test_a_vocab_size_other_than_that_of_the_weights_is_warned_about(pretrained, tmp_path):
    save("RobertaModel", tmp_path, pretrained)
    said: list[str] = []
    rows = read_parts(tmp_path, said.append).vocabulary_size
    assert said == []
    spoil(tmp_path, vocab_size=rows + 1000)
    assert read_parts(tmp_path, said.append).vocabulary_size == rows
    assert said == [
        f"! {tmp_path / 'config.json'}: vocab_size is {rows + 1000}, but the weights have embeddings for {rows} "
        "tokens, which are used."
    ]
    with pytest.warns(LoadWarning, match=f"vocab_size is {rows + 1000}, but the weights have embeddings for {rows} t"):
        plmkit.load(tmp_path)


def test_roberta_reads_pairs_in_its_only_segment(pretrained, tmp_path):
    save("RobertaModel", tmp_path, pretrained)
    model = plmkit.load(tmp_path, device="cpu")
    rows = model.rows([(TEXTS[0], TEXTS[1])])
    states, batch = model.states(rows)
    assert batch.source.segments.max() == 1
    gap = states.hidden - hub_network(tmp_path)(batch)["hidden"]
    assert gap.abs().max() < 1e-5


def test_the_family_is_found_by_what_the_network_computes():
    plain = Encoder(layers=1, heads=1, width=4, inner=4)
    assert family_of(plain) is bert
    assert family_of(replace(plain, activation="relu")) is ernie
    assert family_of(replace(plain, activation="relu"), "bert") is bert  # it was imported as one
    assert family_of(replace(plain, first=2, activation="gelu")) is roberta
    assert family_of(SharedEncoder(layers=1, heads=1, width=4, inner=4)) is albert
    for other in (replace(plain, first=2), replace(plain, embedding=2)):
        with pytest.raises(CheckpointError, match="No Hugging Face model has the same structure as this Encoder,"):
            family_of(other)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lstm-tiny", "this Recurrent, so it cannot be exported: transformers has no LSTM."),
        (
            "transformer-xl-tiny",
            "this SegmentRecurrence, so it cannot be exported: transformers no longer has Transformer-XL",
        ),
        (
            "char-transformer-tiny",
            "this CharacterDecoder, so it cannot be exported: transformers has no decoder with",
        ),
        ("gpt3-tiny", "this BandedDecoder, so it cannot be exported: GPT-2 has no banded attention."),
    ],
)
def test_what_transformers_does_not_have_is_refused_with_its_own_reason(name, says):
    with pytest.raises(CheckpointError, match="share its run folder") as refused:
        family_of(find(name).architecture)
    assert says in str(refused.value)
    assert "RoBERTa" not in str(refused.value)


def test_transformers_shows_no_progress_bar_in_an_export(pretrained, plm, tmp_path):
    ran = plm("export", pretrained, tmp_path / "hub")
    assert ran.code == 0, ran.err
    assert "Loading weights" not in ran.err + ran.out
    assert transformers.utils.logging.is_progress_bar_enabled()  # as it was before


def test_transformers_does_not_report_weights_that_a_class_has_no_use_for(tmp_path, capfd):
    config = transformers.AlbertConfig(
        vocab_size=20, hidden_size=8, embedding_size=4, num_attention_heads=2, intermediate_size=8
    )
    transformers.AlbertForPreTraining(config).save_pretrained(tmp_path)
    config.architectures = ["AlbertForMaskedLM"]  # which has no pooler
    config.save_pretrained(tmp_path)
    level = transformers.utils.logging.get_verbosity()
    capfd.readouterr()
    hub_network(tmp_path)
    assert capfd.readouterr().err == ""
    assert transformers.utils.logging.get_verbosity() == level


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.TITLE)
def test_every_family_names_classes_that_transformers_has_and_heads_of_its_own(family):
    for name, outputs in family.CLASSES.items():
        assert getattr(transformers, name).config_class.model_type == family.MODEL_TYPE
        assert outputs.keys() <= family.HEADS.keys()


@pytest.mark.parametrize("first", [1, 2, 5])
@pytest.mark.parametrize("pad", [0, 1, 4])
def test_positions_move_to_where_robertas_start(first, pad):
    words = Vocabulary.from_tokens(SPECIAL_TOKENS)
    encoder = Encoder(layers=1, heads=1, width=2, inner=4, first=first, max_length=3, activation="gelu")
    table = torch.arange(2.0 * (first + 3)).view(-1, 2)
    (net,) = roberta.networks(encoder, {roberta.POSITIONS: table}, replace(words, pad=pad))
    assert (net.architecture.first, net.architecture.max_length) == (pad + 1, 3)
    moved = net.weights[roberta.POSITIONS]
    assert torch.equal(moved[pad + 1 :], table[first:])
    assert len(moved) == pad + 4
    if first == pad + 1:
        assert torch.equal(moved, table)


def exported(architecture, pretrained, folder):
    """A network of random weights, written to a folder of theirs."""
    torch.manual_seed(2)
    tokenizer = load_tokenizer(pretrained)
    model = architecture.build(tokenizer.vocabulary)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    weights = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    write_huggingface(folder, weights, architecture, tokenizer, vocabulary_size=len(tokenizer.vocabulary))
    return model_of(replace(read_parts(pretrained), architecture=architecture, weights=weights), "cpu")


@pytest.mark.parametrize(
    "architecture",
    [
        Encoder(layers=2, heads=2, width=16, inner=24, max_length=30, first=2, segments=1, activation="gelu"),
        Encoder(layers=2, heads=2, width=16, inner=24, max_length=30, activation="relu"),
        SharedEncoder(layers=3, heads=2, width=16, inner=24, max_length=30, embedding=8),
        SharedEncoder(layers=3, heads=2, width=16, inner=24, max_length=30, embedding=None, sharing="none"),
        SharedEncoder(layers=3, heads=2, width=16, inner=24, max_length=30, embedding=8, sharing="attention"),
        SharedEncoder(layers=3, heads=2, width=16, inner=24, max_length=30, embedding=8, sharing="feed_forward"),
    ],
    ids=["roberta", "ernie", "all", "unprojected", "attention", "feed_forward"],
)
def test_what_we_write_transformers_computes_and_we_read_back(architecture, pretrained, tmp_path):
    model = exported(architecture, pretrained, tmp_path / "out")
    states, batch = model.states(model.rows([*TEXTS, tuple(TEXTS)]))
    seen = batch.source.visible
    theirs = hub_network(tmp_path / "out")(batch)["hidden"]
    torch.testing.assert_close(states.hidden[seen], theirs[seen], atol=1e-5, rtol=1e-5)
    again, _ = plmkit.load(tmp_path / "out", device="cpu").states(model.rows([*TEXTS, tuple(TEXTS)]))
    torch.testing.assert_close(states.hidden, again.hidden, atol=1e-6, rtol=1e-6)


def test_a_head_that_they_do_not_have_is_left_out(pretrained, plm, tmp_path):
    shutil.copytree(pretrained, tmp_path / "run")
    weights = load_file(tmp_path / "run" / "model.safetensors")
    order = {
        name.replace("next_sentence", "sentence_order"): tensor
        for name, tensor in weights.items()
        if name.startswith("heads.next_sentence")
    }
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("heads.next_sentence")}
    save_file({**kept, **order}, tmp_path / "run" / "model.safetensors")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    about["checksum"] = checksum(tmp_path / "run" / "model.safetensors")
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    unseal(tmp_path / "run")
    ran = plm("export", tmp_path / "run", tmp_path / "out", "--json")
    assert ran.code == 0
    assert "A Hugging Face BERT has no head for sentence_order; this head is left out." in ran.err
    assert ran.json["checked"]
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    assert not any("seq_relationship" in name for name in load_file(tmp_path / "out" / "model.safetensors"))


BASE = {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "intermediate_size": 3072}
LARGE = {"num_hidden_layers": 24, "num_attention_heads": 16, "hidden_size": 1024, "intermediate_size": 4096}
PUBLISHED = {  # configs as they were published, their vocabulary, and the parameters of the encoder with its pooler
    "roberta-base": (roberta, {**BASE, "max_position_embeddings": 514, "type_vocab_size": 1}, 50_265, 124_645_632),
    "roberta-large": (roberta, {**LARGE, "max_position_embeddings": 514, "type_vocab_size": 1}, 50_265, 355_359_744),
    "ernie-1.0": (ernie, {**BASE, "max_position_embeddings": 513, "hidden_act": "relu"}, 18_000, 99_866_112),
    "albert-base": (albert, BASE, 30_000, 11_683_584),
    "albert-large": (albert, LARGE, 30_000, 17_683_968),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_give_the_published_counts(name, tmp_path):
    family, config, vocabulary, wanted = PUBLISHED[name]
    settings = family.architecture(config, tmp_path)
    with torch.device("meta"):
        model = settings.build(unnamed(vocabulary))
        head = MaskedLM().build(model)
    assert settings.max_length == config.get("max_position_embeddings", 512) - getattr(settings, "first", 0)
    assert sum(weight.numel() for weight in model.parameters()) == wanted
    if family is roberta:  # published with the masked LM head, without the pooler
        pooler = sum(weight.numel() for weight in model.pooler.parameters())
        whole = wanted - pooler + sum(weight.numel() for weight in head.parameters())
        assert whole == {768: 124_697_433, 1024: 355_412_057}[settings.width]


def test_settings_of_an_impossible_network_are_refused(finetuned, plm, tmp_path):
    assert plm("export", finetuned, tmp_path / "hub").code == 0
    unseal(tmp_path / "hub")
    config = json.loads((tmp_path / "hub" / "config.json").read_text())
    wrong = {
        "num_hidden_layers": ["two", 10**6, 0, 2.0, True, None],
        "hidden_size": [1e308, -1, 10**30, [32]],
        "num_attention_heads": [0],
        "layer_norm_eps": [float("nan"), -1, 0, float("inf"), "small"],
        "hidden_dropout_prob": [1, -0.1, None],
        "hidden_act": [["gelu"], None],
        "model_type": [7],
        "architectures": ["BertModel", [1]],
        "id2label": [["a", "b"]],
    }
    for name, values in wrong.items():
        for value in values:
            (tmp_path / "hub" / "config.json").write_text(json.dumps({**config, name: value}))
            ran = plm("predict", tmp_path / "hub", tmp_path / "rows.txt")
            assert ran.code == 2
            assert f"config.json: {name} is {reprlib.repr(value)}; it must be a" in ran.err, ran.err
            assert ran.err.count("\n") <= 3


def test_a_config_of_another_width_is_refused_before_memory_is_taken_for_it(finetuned, plm, tmp_path):
    assert plm("export", finetuned, tmp_path / "hub").code == 0
    spoil(tmp_path / "hub", hidden_size=10**6, num_attention_heads=1)
    ran = plm("predict", tmp_path / "hub", tmp_path / "rows.txt")
    assert (ran.code, "but config.json gives [" in ran.err) == (2, True)
    assert "The files do not belong together." in ran.err


def test_settings_nested_too_deeply_are_refused(finetuned, plm, tmp_path):
    assert plm("export", finetuned, tmp_path / "hub").code == 0
    unseal(tmp_path / "hub")
    for name in ("config.json", "tokenizer_config.json"):
        whole = (tmp_path / "hub" / name).read_text()
        (tmp_path / "hub" / name).write_text('{"a": ' * 100_000 + "1" + "}" * 100_000)
        ran = plm("predict", tmp_path / "hub", tmp_path / "rows.txt")
        assert (ran.code, f"{name} cannot be read: its JSON is nested too deeply" in ran.err) == (2, True)
        (tmp_path / "hub" / name).write_text(whole)


def test_quantized_weights_are_refused(finetuned, plm, tmp_path):
    assert plm("export", finetuned, tmp_path / "hub").code == 0
    spoil(tmp_path / "hub", quantization_config={"bits": 8})
    ran = plm("predict", tmp_path / "hub", tmp_path / "rows.txt")
    assert (ran.code, "the weights are quantized, which is not supported" in ran.err) == (2, True)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.TITLE)
def test_every_family_states_the_members_of_the_contract(family):
    assert isinstance(family, Family)
    for name in ("MODEL_TYPE", "TITLE", "RECIPE", "PREFIX", "DECODER"):
        assert isinstance(getattr(family, name), str)
    assert find(family.RECIPE)
    assert family.refusal(find("bert-tiny").architecture) in (None, bert.REFUSALS[Encoder]())
