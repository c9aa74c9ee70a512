"""Taggers of Hugging Face: read with their heads, and written so that transformers answers the same."""

import json

import numpy as np
import pytest
import torch
import transformers
from test_heads_and_frames import save

import plmkit
from plmkit.catalogue import find
from plmkit.tokenizers.byte_bpe import StreamByteBPE

TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
LABELS = {"id2label": dict(enumerate(TAGS)), "label2id": {tag: number for number, tag in enumerate(TAGS)}}
TEXT = "the cat sees a house. 企鹅不擅长飞行。"
KINDS = ["Bert", "Roberta", "Ernie", "Albert", "Electra", "XLNet"]


def theirs_of(network, tokenizer, text: str) -> tuple[dict[int, int], list[str], list[float]]:
    """By transformers: the token of each character, the tags of all tokens, and their probabilities."""
    given = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = given.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        shares = network(**given).logits[0].softmax(-1)
    best = shares.argmax(-1)
    names = network.config.id2label
    firsts = {}
    for place, (begin, end) in enumerate(offsets):
        for character in range(begin, end):
            firsts.setdefault(character, place)
    return firsts, [names[int(number)] for number in best], shares.amax(-1).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_tagger_of_transformers_predicts_and_is_scored_at_once(kind, pretrained, plm, tmp_path, recwarn):
    network = save(f"{kind}ForTokenClassification", tmp_path / "hub", pretrained, num_labels=5, **LABELS)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    found = model.predict(TEXT)
    (row,) = model.rows([TEXT])
    with torch.no_grad():
        logits = network(input_ids=torch.from_numpy(row.tokens)[None]).logits[0].softmax(-1)
    assert not [str(one.message) for one in recwarn if "is not used" in str(one.message)]
    task = model.tasks["tag"]
    assert (task.classes, task.scheme) == (tuple(TAGS), "BIO")
    (example,) = task.frame([task.input_row(TEXT, 1, tmp_path)], model.tokenizer, 40)
    shares = logits[example.words[:, 1] % len(row.tokens)]
    assert found.tags == tuple(TAGS[number] for number in shares.argmax(-1).tolist())
    np.testing.assert_allclose(found.tag_probabilities, shares.amax(-1), atol=1e-5)
    (tmp_path / "gold.conll").write_text("the O\ncat B-PER\n\nsees O\n")
    ran = plm("evaluate", tmp_path / "hub", tmp_path / "gold.conll", "--json")
    assert ran.code == 0, ran.err
    assert {"f1", "strict_f1", "accuracy"} <= ran.json.keys()


def small(name: str) -> dict[str, object]:
    """Settings of a recipe that make it tiny."""
    shape = {"max_length": 40, "layers": 2, "heads": 2, "width": 16, "inner": 64, "embedding": 8}
    own = find(name).architecture
    known = {key: value for key, value in shape.items() if getattr(own, key, None) is not None}
    stages = json.dumps([[stage.until, 32] for stage in find(name).stages])
    return {f"architecture.{key}": value for key, value in known.items()} | {
        "tokenizer.size": 300, "stages": stages, "run.threads": 1,
    }  # fmt: skip


RECIPES = ["bert-tiny", "roberta-tiny", "albert-tiny", "electra-tiny", "xlnet-tiny", "gpt2-tiny"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_fine_tuned_tagger_is_written_as_the_class_of_transformers_and_answers_the_same(
    name, mixed_corpus, plm, tmp_path
):
    plmkit.pretrain(name, mixed_corpus, tmp_path / "run", steps=2, settings=small(name), quiet=True)
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": ["the", "cat", "sees"], "tags": ["O", "B-a", "O"]}))
    settings = {"run.threads": 1, "task.length": 32}
    model = plmkit.finetune(
        tmp_path / "run", "tag", tmp_path / "a.jsonl", tmp_path / "tag", epochs=2, settings=settings, quiet=True
    )
    ran = plm("export", tmp_path / "tag", tmp_path / "hub", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["checked"] and ran.json["largest_difference"] < 1e-4
    config = json.loads((tmp_path / "hub" / "config.json").read_text())
    (name,) = config["architectures"]
    assert name.endswith("ForTokenClassification")
    assert config["id2label"] == {"0": "O", "1": "B-a", "2": "I-a"}
    network = getattr(transformers, name).from_pretrained(tmp_path / "hub").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hub")
    text = "the cat sees a house."
    found = model.predict(text)
    firsts, tags, shares = theirs_of(network, tokenizer, text)
    places = [firsts[text.index(word)] for word in ("the", "cat", "sees", "a house", "house")]
    assert [tags[place] for place in places] == list(found.tags[:5])
    np.testing.assert_allclose([shares[place] for place in places], found.tag_probabilities[:5], atol=1e-4)
    again = plmkit.load(tmp_path / "hub", device="cpu").predict(text)
    assert again.tags == found.tags
    np.testing.assert_allclose(again.tag_probabilities, found.tag_probabilities, atol=1e-6)


def test_a_gpt_2_tagger_of_transformers_predicts(tmp_path):
    StreamByteBPE(size=300).train(["the cat sat on the mat, a dog ran."] * 3).save(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    torch.manual_seed(2)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=32,
        initializer_range=0.5,
        num_labels=5,
        **LABELS,
    )
    network = transformers.GPT2ForTokenClassification(config).eval()
    network.save_pretrained(tmp_path)
    found = plmkit.load(tmp_path, device="cpu").predict("the cat sat")
    firsts, tags, _ = theirs_of(network, tokenizer, "the cat sat")
    assert found.tags == tuple(tags[firsts[place]] for place in (0, 4, 8))


def test_gpt_1_has_no_class_for_tags(tmp_path, plm, mixed_corpus):
    plmkit.pretrain("gpt1-tiny", mixed_corpus, tmp_path / "run", steps=2, settings=small("gpt1-tiny"), quiet=True)
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": ["the", "cat"], "tags": ["O", "B-a"]}))
    plmkit.finetune(tmp_path / "run", "tag", tmp_path / "a.jsonl", tmp_path / "tag", epochs=1,
                    settings={"run.threads": 1}, quiet=True)  # fmt: skip
    ran = plm("export", tmp_path / "tag", tmp_path / "hub")
    assert (ran.code, (tmp_path / "hub").exists()) == (2, False)
    assert "No Hugging Face GPT-1 computes the same as --task tag" in ran.err
