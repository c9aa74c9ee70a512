"""XLNet's tokenizer and folders, both ways: what transformers wrote and opens."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import plmkit
from plmkit.errors import SettingError
from plmkit.generation.likelihood import token_log_probabilities
from plmkit.inference.evaluation import evaluate_text, read_text
from plmkit.inference.loading import read_parts
from plmkit.tasks.framing import batch_of, frame_all
from plmkit.tokenizers.tokenizer import load_tokenizer
from plmkit.tokenizers.unigram import ClosingUnigram

TEXTS = [
    "The cat sees a house, doesn't it?",
    "Café-society: ÉLAN, naïve, 3.14 % (and so on)!",
    "a dog sees the sea and the house",
]
SHAPE = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24, "initializer_range": 0.4, "summary_last_dropout": 0.0}
KINDS = ("XLNetModel", "XLNetLMHeadModel", "XLNetForSequenceClassification")


@pytest.fixture(scope="module")
def tokenizer():
    return ClosingUnigram(size=120).train(TEXTS * 20)


def test_special_tokens_have_the_released_numbers(tokenizer):
    names = "<unk> <s> </s> <cls> <sep> <pad> <mask> <eod> <eop>".split()
    assert tokenizer.vocabulary.names(range(9)) == names
    vocabulary = tokenizer.vocabulary
    found = (vocabulary.unknown, vocabulary.cls, vocabulary.sep, vocabulary.pad, vocabulary.mask, vocabulary.end)
    assert found == (0, 3, 4, 5, 6, 7)
    assert vocabulary.special == frozenset(range(9))


def test_texts_are_framed_with_cls_at_the_end_and_padded_at_the_beginning(tokenizer):
    rows = frame_all([("the cat", None), ("the cat", "a dog sees")], tokenizer, 64)
    batch = batch_of(rows, tokenizer.vocabulary)
    names = tokenizer.vocabulary.names
    (pair, short) = (names(batch.source.tokens[row].tolist()) for row in (1, 0))
    assert pair[-2:] == short[-2:] == ["<sep>", "<cls>"]
    assert pair.count("<sep>") == 2
    length = len(rows[0].tokens)
    assert short[:-length] == ["<pad>"] * (len(pair) - length)
    assert batch.source.visible[0].tolist() == [False] * (len(pair) - length) + [True] * length
    border = pair.index("<sep>") + 1
    assert batch.source.segments[1].tolist() == [0] * border + [1] * (len(pair) - border - 1) + [2]
    assert batch.source.segments[0, -length:].tolist() == [0] * (length - 1) + [2]


def test_a_saved_tokenizer_gives_the_same_rows_in_transformers(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer.encode(text)
    their = theirs([TEXTS[0], TEXTS[2]], [TEXTS[1], "a dog"], padding=True, return_tensors="pt")
    rows = frame_all([(TEXTS[0], TEXTS[1]), (TEXTS[2], "a dog")], load_tokenizer(tmp_path), 512)
    ours = batch_of(rows, tokenizer.vocabulary)
    assert torch.equal(ours.source.tokens, their["input_ids"])
    assert torch.equal(ours.source.visible.long(), their["attention_mask"])
    assert torch.equal(ours.source.segments[ours.source.visible], their["token_type_ids"][ours.source.visible])


def test_their_tokenizer_gives_the_same_tokens_here(tokenizer, tmp_path):
    pieces = json.loads(tokenizer._rust.to_str())["model"]["vocab"]
    theirs = transformers.XLNetTokenizer(vocab=[(piece, score) for piece, score in pieces])
    theirs.save_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    assert ours.vocabulary.closes
    for text in TEXTS:
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    (row,) = frame_all([(TEXTS[0], TEXTS[1])], ours, 512)
    assert row.tokens.tolist() == theirs(TEXTS[0], TEXTS[1])["input_ids"]


def save(kind: str, folder, tokenizer, **settings):
    torch.manual_seed(1)
    made = getattr(transformers, kind)
    network = made(made.config_class(vocab_size=len(tokenizer.vocabulary), **SHAPE, **settings)).eval()
    network.save_pretrained(folder)
    tokenizer.save(folder)
    return network


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_loads_embeds_and_exports_bit_for_bit(kind, tokenizer, plm, tmp_path):
    theirs = save(kind, tmp_path / "hub", tokenizer)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    encoder = getattr(theirs, "transformer", theirs)
    for text, ours in zip(TEXTS, model.embed(TEXTS, level="token"), strict=True):
        batch = batch_of(model.rows([text]), tokenizer.vocabulary)
        with torch.no_grad():
            hidden = encoder(input_ids=batch.source.tokens, token_type_ids=batch.source.segments).last_hidden_state[
                0, :-2
            ]
        np.testing.assert_allclose(ours, hidden.numpy(), atol=1e-5)
    ran = plm("export", tmp_path / "hub", tmp_path / "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["largest_difference"] < 1e-4
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["architectures"], config["model_type"]) == ([kind], "xlnet")
    first, again = (load_file(tmp_path / name / "model.safetensors") for name in ("hub", "out"))
    prefix = "transformer." if kind == "XLNetModel" else ""
    assert all(
        torch.equal(tensor, again[f"{prefix}{name}"]) for name, tensor in first.items() if "lm_loss.w" not in name
    )
    before, after = read_parts(tmp_path / "hub"), read_parts(tmp_path / "out")
    assert before.architecture == after.architecture


def test_scores_are_what_transformers_gives_token_by_token(tokenizer, tmp_path):
    """The left-to-right likelihood: each token from a query that attends to all before it."""
    theirs = save("XLNetLMHeadModel", tmp_path, tokenizer)
    model = plmkit.load(tmp_path, device="cpu")
    tokens = [tokenizer.vocabulary.end, *tokenizer.encode(TEXTS[2])]
    length, total = len(tokens), 0.0
    hidden = torch.ones(length, length).triu()[None]  # neither itself nor what follows
    for place in range(1, length):
        mapping = torch.zeros(1, 1, length)
        mapping[0, 0, place] = 1.0
        with torch.no_grad():
            logits = theirs(input_ids=torch.tensor([tokens]), perm_mask=hidden, target_mapping=mapping).logits
        total += float(logits[0, 0].log_softmax(-1)[tokens[place]])
    found = model.score(TEXTS[2])
    assert found.tokens == length - 1
    assert found.log_probability == pytest.approx(total, abs=1e-4)


def test_without_memory_a_text_is_evaluated_in_windows_and_one_window_gives_its_score(tokenizer, tmp_path):
    save("XLNetLMHeadModel", tmp_path / "hub", tokenizer, mem_len=None)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    (tmp_path / "text.txt").write_text(f"{TEXTS[2]}\n")
    found = evaluate_text(model, tmp_path / "text.txt")
    tokens = [*tokenizer.encode(TEXTS[2]), tokenizer.vocabulary.end]
    (logs,) = token_log_probabilities(model.engine, [[tokenizer.vocabulary.end, *tokens]])
    assert found.tokens == len(tokens)
    assert found.loss == pytest.approx(-logs.mean(), abs=1e-5)
    assert found.reading == "windows of 512 tokens that advance by 256"
    model.max_length = 4  # the same text in windows of four tokens, advancing by two
    assert evaluate_text(model, tmp_path / "text.txt").loss != pytest.approx(found.loss, abs=1e-5)


def test_with_memory_a_text_of_any_length_is_evaluated_as_a_whole(tokenizer, tmp_path):
    save("XLNetLMHeadModel", tmp_path / "hub", tokenizer, mem_len=8)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    (tmp_path / "text.txt").write_text("".join(f"{text}\n" for text in TEXTS) * 40)
    text = read_text(tokenizer, tmp_path / "text.txt")
    assert len(text.tokens) > 2 * (512 + 8)
    found = evaluate_text(model, tmp_path / "text.txt")
    (logs,) = token_log_probabilities(model.engine, [text.tokens.tolist()])
    assert found.reading == "recurrent memory of 8 tokens before the last 512"
    assert found.loss == pytest.approx(-logs.mean(), abs=1e-5)
    longer = evaluate_text(model, tmp_path / "text.txt", memory=2000)
    assert longer.reading == "recurrent memory of 2000 tokens before the last 512"
    assert longer.loss != pytest.approx(found.loss, abs=1e-5)
    assert evaluate_text(model, tmp_path / "text.txt") == found  # the model is unchanged
    with pytest.raises(SettingError, match=r"--stride has no effect\. Leave it out"):
        evaluate_text(model, tmp_path / "text.txt", stride=4)


def test_memory_can_be_set_for_a_model_without_it(tokenizer, tmp_path):
    save("XLNetLMHeadModel", tmp_path / "hub", tokenizer, mem_len=None)
    (tmp_path / "text.txt").write_text(f"{TEXTS[2]}\n")
    model = plmkit.load(tmp_path / "hub", device="cpu")
    windowed, reading = (evaluate_text(model, tmp_path / "text.txt", memory=memory) for memory in (None, 8))
    assert reading.reading == "recurrent memory of 8 tokens before the last 512"
    assert reading.loss == pytest.approx(windowed.loss, abs=1e-5)  # one window has room for it


def test_greedy_text_equals_a_full_pass_at_every_step(tokenizer, tmp_path):
    theirs = save("XLNetLMHeadModel", tmp_path, tokenizer)
    model = plmkit.load(tmp_path, device="cpu")
    ours = model.generate(["the cat sees"], tokens=6, temperature=0)[0]
    tokens = tokenizer.encode("the cat sees")
    banned = sorted(tokenizer.vocabulary.special - {tokenizer.vocabulary.end})
    written: list[int] = []
    while len(written) < 6:
        row = torch.tensor([[*tokens, *written, 0]])
        length = row.shape[1]
        mapping = torch.zeros(1, 1, length)
        mapping[0, 0, -1] = 1.0
        with torch.no_grad():
            hidden = torch.ones(length, length).triu()[None]
            logits = theirs(input_ids=row, perm_mask=hidden, target_mapping=mapping).logits[0, 0]
        logits[banned] = -torch.inf
        written.append(int(logits.argmax()))
        if written[-1] == tokenizer.vocabulary.end:
            written.pop()
            break
    assert ours.text.strip() == tokenizer.decode([*tokens, *written]).removeprefix("the cat sees").strip()


@pytest.mark.parametrize("name, value", [("attn_type", "uni"), ("bi_data", True), ("clamp_len", 4), ("untie_r", False)])
def test_unsupported_settings_of_the_network_are_refused(name, value, tokenizer, tmp_path):
    save("XLNetModel", tmp_path, tokenizer)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, name: value}))
    with pytest.raises(plmkit.errors.InputError, match=f"{name} is {value!r}; only"):
        plmkit.load(tmp_path)
