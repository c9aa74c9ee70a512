"""What `model.attend` returns: the model's own weights, and attributions that hold."""

import numpy as np
import pytest
import torch
from models import tiny_model
from safetensors.torch import load_file

import plmkit
from plmkit.architectures.contract import CacheSettings
from plmkit.data.batch import Side
from plmkit.errors import InputError, PlmError, SettingError
from plmkit.insight import attending
from plmkit.insight.attention import AttentionPart
from plmkit.layers.recording import recording


def test_the_weights_are_those_that_transformers_returns(hub_folder):
    from transformers import AutoTokenizer, BertModel

    text, second = "the cat sees a house.", "我的狗很可爱。"
    attended = plmkit.load(hub_folder, device="cpu").attend(text, second)
    theirs = BertModel.from_pretrained(hub_folder, attn_implementation="eager").eval()
    given = AutoTokenizer.from_pretrained(hub_folder)(text, second, return_tensors="pt")
    with torch.no_grad():
        expected = torch.cat(theirs(**given, output_attentions=True).attentions).numpy()
    (part,) = attended.parts
    assert (part.kind, part.memory, part.queries) == ("self", 0, part.keys)
    assert part.weights.shape == expected.shape == (2, 2, len(attended.tokens), len(attended.tokens))
    assert np.allclose(part.weights, expected, atol=1e-5)
    assert (attended.tokens[0], attended.tokens[-1]) == ("[CLS]", "[SEP]")


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("bert-tiny", "token at the [MASK]"),
        ("albert-tiny", "token at the [MASK]"),
        ("electra-tiny", "replaced or not"),
        ("gpt2-tiny", "next token"),
        ("gpt3-tiny", "next token"),
        ("char-transformer-tiny", "next token"),
        ("transformer-xl-tiny", "next token"),
        ("xlnet-mini", "last token, given those before it"),
        ("transformer-tiny", "log-probability of the output “a bird.”"),
        ("rnn-attention-tiny", "log-probability of the output “a bird.”"),
    ],
)
def test_an_attribution_is_the_effect_of_making_an_embedding_longer(name, output):
    """Gradient × input of a token is the derivative of the output by the length of its embedding."""
    model = tiny_model(name)
    if name == "electra-tiny":  # loaded, it is the discriminator
        model.network.model = model.network.model.discriminator
    text = "the cat [MASK] a house." if "[MASK]" in output else "the cat sees a house."
    target = "a bird." if "a bird." in output else None
    attribution = model.attend(text, target=target).attribution
    assert attribution.output.startswith(output)
    assert len(attribution.scores) == len(attribution.tokens) > 4
    embedding = model.network.model.token_embedding or model.network.model.adaptive_embedding
    place = 3
    values = [value_with(model, embedding, text, target, place, factor) for factor in (1.01, 0.99)]
    assert (values[0] - values[1]) / 0.02 == pytest.approx(attribution.scores[place], rel=0.03, abs=2e-4)


def value_with(model, embedding, text, target, place, factor):
    """The output if the embedding of the token at a place is `factor` times as long."""
    seen, passes = [], []

    def scale(_, __, found):
        passes.append(found)
        if target is not None and len(passes) > 1:  # the decoder's own input
            return found
        flat = found.clone().flatten(0, -2)
        flat[place] *= factor
        return flat.view_as(found)

    plain = attending.attributed
    attending.attributed = lambda output, watched: seen.append(output.value.item()) or plain(output, watched)
    handle = embedding.register_forward_hook(scale)
    try:
        model.attend(text, target=target)
    finally:
        handle.remove()
        attending.attributed = plain
    return seen[0]


def test_the_masked_token_is_the_one_that_fill_finds(pretrained):
    model = plmkit.load(pretrained, device="cpu")
    text = "the cat [MASK] a house."
    best = model.fill(text, top=2)[0]
    assert model.attend(text).attribution.output == (
        f"token at the [MASK]: {best[0].token} ({best[0].probability:.1%})"
    )
    other = model.attend(text, target=best[1].token).attribution.output
    assert other == f"token at the [MASK]: {best[1].token} ({best[1].probability:.1%})"


def test_the_class_is_the_predicted_one_unless_another_is_named(finetuned):
    model = plmkit.load(finetuned, device="cpu")
    text = "the cat sees a house."
    found = model.predict(text)
    assert model.attend(text).attribution.output == f"class: {found.label} ({found.probability:.1%})"
    (other,) = {"good", "bad"} - {found.label}
    named = model.attend(text, target=other).attribution.output
    assert named == f"class: {other} ({found.probabilities[other]:.1%})"
    with pytest.raises(SettingError, match="has no class 'godo'"):
        model.attend(text, target="godo")


def test_the_next_token_of_a_causal_model_is_the_greedy_one():
    model = tiny_model("gpt2-tiny")
    continued = model.generate("the cat", tokens=1, temperature=0).text
    assert model.attend("the cat").attribution.output.startswith(
        f"next token: {continued.strip() or repr(continued)} ("
    )


def test_the_first_text_is_in_the_memory_of_transformer_xl():
    model = tiny_model("transformer-xl-tiny", memory=20)
    attended = model.attend("the cat sees a house.", "a bird.")
    (part,) = attended.parts
    first = len(model.tokenizer.encode("the cat sees a house."))
    assert (part.memory, part.queries) == (first, attended.tokens)
    assert "".join(part.keys) == "the·cat·sees·a·house.a·bird."
    assert part.weights.shape == (2, 2, len(part.queries), len(part.keys))
    assert np.allclose(part.weights.sum(-1), 1, atol=1e-5)
    assert not np.triu(part.weights, 1 + part.memory).any()
    joined = model.network.model.begin(CacheSettings(1, 40))
    model.network.model.extend(torch.tensor([model.tokenizer.encode("the cat sees a house.")]), joined)
    with recording() as kept:  # step by step, with keys and values in a cache instead
        model.network.model.extend(torch.tensor([model.tokenizer.encode("a bird.")]), joined)
    assert np.allclose(part.weights[1], kept[1].weights[0].numpy(), atol=1e-5)


def test_a_long_text_is_in_the_memory_of_transformer_xl_up_to_its_last_segment():
    model = tiny_model("transformer-xl-tiny", memory=40)
    (part,) = model.attend("the cat sees a house. a bird hears the moon. " * 2).parts
    assert len(part.queries) == model.max_length == 24
    assert part.memory == len(part.keys) - 24 > 0
    with pytest.raises(InputError, match="reads at most 64"):
        model.attend("the cat sees a house. a bird hears the moon. " * 5)


def test_xlnet_shows_both_streams():
    content, query = tiny_model("xlnet-mini").attend("the cat.").parts
    assert (content.kind, query.kind) == ("self", "query")
    assert content.weights.shape == query.weights.shape
    assert np.allclose(content.weights.sum(-1), 1, atol=1e-5)
    assert np.triu(content.weights, 1).any() and not np.triu(query.weights).any()
    assert np.allclose(query.weights.sum(-1)[..., 1:], 1, atol=1e-5)


def test_an_encoder_decoder_shows_its_alignment_and_both_sides():
    model = tiny_model("transformer-tiny")
    attended = model.attend("the cat sees a house.", target="a bird.")
    encoder, decoder, cross = attended.parts
    assert attended.part is cross
    outputs = (*model.tokenizer.labels(model.tokenizer.encode("a bird.")), "[SEP]")
    assert (cross.kind, cross.queries, cross.keys) == ("cross", outputs, attended.tokens)
    assert (decoder.queries, decoder.keys) == (("[CLS]", *outputs[:-1]),) * 2
    assert (encoder.encodes, encoder.queries, decoder.encodes) == (True, attended.tokens, False)
    assert all(np.allclose(part.weights.sum(-1), 1, atol=1e-5) for part in attended.parts)
    assert not np.triu(decoder.weights, 1).any() and np.triu(encoder.weights, 1).any()
    source = torch.tensor([model.tokenizer.vocabulary.source_row(model.tokenizer.encode("the cat sees a house."))])
    with torch.no_grad():  # one token after the other, as in beam search
        cache = model.network.model.begin(
            CacheSettings(1, 20, source=Side(tokens=source, visible=torch.ones_like(source, dtype=torch.bool)))
        )
        steps = []
        for token in [model.tokenizer.vocabulary.start, *model.tokenizer.encode("a bird.")]:
            with recording() as kept:
                model.network.model.extend(torch.tensor([[token]]), cache)
            steps.append(torch.stack([layer.weights[0, :, 0] for layer in kept if layer.kind == "cross"]))
    assert np.allclose(torch.stack(steps, dim=2).numpy(), cross.weights, atol=1e-5)


def test_without_a_target_an_encoder_decoder_shows_its_own_translation():
    model = tiny_model("transformer-tiny")
    own = model.tokenizer.encode(model.translate("the cat sees.").text)[: model.max_length - 1]
    assert model.attend("the cat sees.").part.queries == (*model.tokenizer.labels(own), "[SEP]")
    with pytest.raises(SettingError, match="reads one text; give its output with --target"):
        model.attend("the cat sees.", "a bird.")


def test_electra_says_of_each_token_whether_it_was_replaced():
    model = tiny_model("electra-tiny")
    model.network.model = model.network.model.discriminator
    attended = model.attend("the cat sees a house.")
    states, _ = model.states(model.rows(["the cat sees a house."]))
    with torch.no_grad():
        expected = torch.sigmoid(model.network.heads["replaced_token"].logits(states.hidden))[0]
    assert np.allclose(attended.replaced, expected.numpy(), atol=1e-6)
    assert len(attended.replaced) == len(attended.tokens)


def test_a_model_without_attention_and_a_text_that_is_too_long_are_refused():
    with pytest.raises(PlmError, match="has no attention to look at: Recurrent reads a text without it"):
        tiny_model("lstm-tiny").attend("the cat")
    with pytest.raises(PlmError, match=r"RecurrentSeq2Seq reads a text without it\.\nUse .* rnn-attention-mini"):
        tiny_model("rnn-tiny").attend("the cat", target="a bird.")
    with pytest.raises(InputError, match=r"special tokens included; gpt2-tiny reads at most 24\.\nShorten"):
        tiny_model("gpt2-tiny").attend("the cat sees a house. " * 9)
    with pytest.raises(InputError, match="The text is empty"):
        tiny_model("gpt2-tiny").attend("")
    with pytest.raises(PlmError, match=r"Show them: plm caption caption-tiny photo\.jpg --attention out\.png"):
        tiny_model("caption-tiny").attend("a cat")
    with pytest.raises(InputError, match="the text has none that bert-tiny could fill"):
        tiny_model("bert-tiny").attend("the cat", target="cat")


def part_of(weights: list[list[float]], **options: object) -> AttentionPart:
    array = np.array(weights, dtype=np.float32)[None, None]
    names = [
        tuple(f"{letter}{place}" for place in range(size)) for letter, size in zip("qk", array.shape[2:], strict=True)
    ]
    return AttentionPart(**{"kind": "self", "queries": names[0], "keys": names[1], "weights": array, **options})


def test_entropy_distance_and_diagonal_of_a_head():
    part = part_of([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25]])
    assert part.entropy[0, 0] == pytest.approx((0 + 1 + 1.5) / 3)
    assert part.distance[0, 0] == pytest.approx((0 + 0.5 + 1.25) / 3)
    assert part.diagonal[0, 0] == pytest.approx((1 + 0.5 + 0.25) / 3)


def test_the_position_of_a_query_comes_after_the_memory():
    part = part_of([[0.5, 0.5, 0], [0, 0.25, 0.75]], memory=1)
    assert part.distance[0, 0] == pytest.approx((0.5 + 0.25) / 2)
    assert part.diagonal[0, 0] == pytest.approx((0.5 + 0.75) / 2)


def test_the_diagonal_of_an_alignment_runs_from_corner_to_corner():
    part = part_of([[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]], kind="cross")
    assert (part.diagonal[0, 0], part.distance[0, 0]) == (1.0, 0.0)


def test_a_query_that_sees_nothing_does_not_count():
    part = part_of([[0, 0], [1, 0]], kind="query")
    assert (part.distance[0, 0], part.diagonal[0, 0], part.entropy[0, 0]) == (1.0, 0.0, 0.0)


def test_a_heat_map_has_a_row_per_query_and_a_column_per_key():
    part = tiny_model("transformer-xl-tiny", memory=20).attend("the cat.", "a bird hears.").parts[0]
    for shown in (part.heat_map(), part.heat_map(1), part.heat_map(2, 1)):
        assert shown.shape == (len(part.queries), len(part.keys))
        assert np.allclose(shown.sum(-1), 1, atol=1e-5)
    assert np.array_equal(part.heat_map(2, 1), part.weights[1, 0])
    with pytest.raises(SettingError, match="--head must be between 1 and 2; found 3"):
        part.heat_map(1, 3)


def scaled_value(model, text, place, factor):
    """The log-probability of the predicted class if the vectors of one word are `factor` times as long."""

    def scale(_, __, found):
        return found * torch.where(torch.arange(found.shape[1]) == place, factor, 1.0)[:, None]

    handles = [part.register_forward_hook(scale) for part in model.network.model.input_embeddings]
    found = model.predict(text).probability
    for handle in handles:
        handle.remove()
    return float(np.log(found))


def test_the_mix_of_a_task_on_features_is_shown_and_adds_up_to_one(made, mixed_corpus, rows_file):
    tiny = {"architecture.width": 16, "architecture.cell": 8, "architecture.filters": "[[2, 8]]", "tokenizer.size": 60,
            "stages": "[[1.0, 16]]", "run.threads": 1}  # fmt: skip
    elmo, out = made / "elmo to look at", made / "elmo task to look at"
    plmkit.pretrain("elmo-tiny", mixed_corpus, elmo, steps=3, settings=tiny, quiet=True)
    with pytest.raises(PlmError, match=r"has no attention to look at: Elmo .*\nA task on its features"):
        plmkit.load(elmo, device="cpu").attend("the cat")
    plmkit.finetune(elmo, "classify", rows_file, out, epochs=1, settings={"run.threads": 1}, quiet=True)
    attended = plmkit.load(out, device="cpu").attend("the cat sees a zyzzyva.")
    assert (attended.parts, attended.tokens[0]) == ((), "<S>")
    assert attended.tokens[-3] == "zyzzyva"  # it is read by its characters
    model = plmkit.load(out, device="cpu")
    with torch.no_grad():  # everything that the task reads of a word, 1% longer and 1% shorter
        values = [scaled_value(model, "the cat sees a zyzzyva.", 2, factor) for factor in (1.01, 0.99)]
    assert (values[0] - values[1]) / 0.02 == pytest.approx(attended.attribution.scores[2], rel=0.03, abs=2e-4)
    weights = torch.from_numpy(np.log(attended.mix["input"]))
    stored = load_file(out / "model.safetensors")["model.mixes.input.weights"]
    assert torch.allclose(weights - weights[0], stored - stored[0], atol=1e-5)
    assert attended.mix["input"].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "settings",
    [{"task.ngrams": True}, {"task.pooling": "separator"}, {"task.pooling": "concat", "task.length": 24},
     {"task.pooling": "max"}],
    ids=lambda settings: "-".join(map(str, settings.values())),
)  # fmt: skip
def test_what_is_explained_is_what_the_task_predicts(pretrained, rows_file, tmp_path, settings):
    model = plmkit.finetune(pretrained, "classify", rows_file, tmp_path / "out", dev=rows_file, epochs=1, quiet=True,
                            settings={"run.threads": 1, "task.ngrams": False, **settings})  # fmt: skip
    found = model.predict("the cat sees a house.")
    assert model.attend("the cat sees a house.").attribution.output == f"class: {found.label} ({found.probability:.1%})"


@pytest.mark.parametrize("recipe", ["bert-tiny", "gpt1-tiny"])
def test_the_class_of_a_pair_is_explained(mixed_corpus, tmp_path, recipe):
    rows = "".join(f"the cat ran {n}.\tthe dog {n % 3} sat.\t{n % 2}\n" for n in range(24))
    (tmp_path / "pairs.tsv").write_text("text_a\ttext_b\tlabel\n" + rows)
    tiny = {"architecture.layers": 2, "architecture.width": 32, "architecture.inner": 64, "tokenizer.size": 300,
            "stages": "[[1.0, 32]]", "run.threads": 1}  # fmt: skip
    plmkit.pretrain(recipe, mixed_corpus, tmp_path / "run", steps=2, settings=tiny, quiet=True)
    model = plmkit.finetune(tmp_path / "run", "pair", tmp_path / "pairs.tsv", tmp_path / "task", epochs=1, quiet=True,
                            settings={"run.threads": 1, "task.san": recipe == "bert-tiny"})  # fmt: skip
    found = model.predict([("the cat ran.", "the dog sat.")])[0]
    shown = model.attend("the cat ran.", "the dog sat.").attribution.output
    assert shown == f"class: {found.label} ({found.probability:.1%})"


def test_the_tag_of_a_word_is_explained(pretrained, tmp_path):
    (tmp_path / "a.conll").write_text("the O\ncat B-x\n\na O\ncat B-x\n")
    for kind in ("false", "true"):
        model = plmkit.finetune(pretrained, "tag", tmp_path / "a.conll", tmp_path / kind, epochs=1, quiet=True,
                                settings={"run.threads": 1, "task.crf": kind == "true"})  # fmt: skip
        found = model.attend("the cat", target="B-x").attribution
        assert found.output.startswith("tag of ") and ": B-x (" in found.output
        assert model.attend("the cat").attribution.output.partition(": ")[2][:3] in ("B-x", "I-x")


def test_an_unknown_token_shows_what_the_text_has_in_its_place():
    model = tiny_model("bert-tiny")
    found = model.attend("the 龘 [MASK] 😀", "a Ω").tokens
    assert found == ("[CLS]", "the", "龘 [UNK]", "[MASK]", "😀 [UNK]", "[SEP]", "a", "Ω [UNK]", "[SEP]")
    assert model.attend("[UNK] 龘").tokens == ("[CLS]", "[UNK]", "龘 [UNK]", "[SEP]")
