"""Saved folders give the same tokens in Hugging Face's library."""

import json
import shutil

import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.tokenizers.byte_bpe import ByteBPE, StreamByteBPE
from plmkit.tokenizers.tokenizer import load_tokenizer
from plmkit.tokenizers.unigram import Unigram
from plmkit.tokenizers.wordpiece import WordPiece

TEXTS = [
    "The quick brown fox isn't jumping over thirteen lazy dogs, is it?",
    "Café-society: ÉLAN, naïve, 3.14 % (and so on) … don't!",
    "我的狗很可爱。企鹅不擅长飞行，对吗？",
    "在PyTorch里训练BERT-base模型，batch=32，学习率１e-4。",
    "한국어 и русский, ไทย 😀 \u200b\x00 豈 İstanbul straße",
    "pair [MASK] of [SEP] marks [UNK] [CLS]",
    "x" * 150,
    "",
]


@pytest.fixture(params=[True, False], ids=["lower-case", "cased"])
def folder(request, tmp_path):
    WordPiece(size=400, lowercase=request.param, min_frequency=1).train(TEXTS).save(tmp_path)
    return tmp_path


@pytest.fixture
def theirs(folder):
    return AutoTokenizer.from_pretrained(folder)


def test_single_texts_have_the_same_tokens(folder, theirs):
    ours = load_tokenizer(folder)
    for text in TEXTS:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)


def test_pairs_are_framed_and_numbered_as_bert_does(folder, theirs):
    ours = load_tokenizer(folder)
    first, second = ours.encode(TEXTS[0]), ours.encode(TEXTS[2])
    cls, sep = ours.vocabulary.cls, ours.vocabulary.sep
    pair = theirs(TEXTS[0], TEXTS[2])
    assert pair["input_ids"] == [cls, *first, sep, *second, sep]
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert theirs(TEXTS[0])["input_ids"] == [cls, *first, sep]


def test_special_tokens_have_their_roles(folder, theirs):
    ours = load_tokenizer(folder).vocabulary
    assert theirs.pad_token_id == ours.pad
    assert theirs.unk_token_id == ours.unknown
    assert theirs.cls_token_id == ours.cls
    assert theirs.sep_token_id == ours.sep
    assert theirs.mask_token_id == ours.mask
    assert len(theirs) == len(ours)


def test_a_folder_with_a_model_next_to_the_tokenizer_is_read_the_same(folder, theirs):
    (folder / "config.json").write_text('{"model_type": "bert", "vocab_size": 400}')
    again = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert again(text)["input_ids"] == theirs(text)["input_ids"]


def test_the_class_for_bert_reads_the_folder_too(folder):
    from transformers import BertTokenizer

    ours, theirs = load_tokenizer(folder), BertTokenizer.from_pretrained(folder)
    for text in TEXTS:
        if len(text) < 100 or " " in text:  # for that class, words of more than 100 characters are unknown
            assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)


def test_a_folder_they_saved_is_read_by_us(folder, theirs, tmp_path):
    from transformers import BertTokenizer

    BertTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "saved")
    saved = load_tokenizer(tmp_path / "saved")
    assert saved.lowercase is load_tokenizer(folder).lowercase
    for text in TEXTS[:6]:
        assert saved.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]


MIXED = [
    *TEXTS,
    "  two  spaces,\ta tab\nand a line ",
    "emoji 👩\u200d👧🏽 in 中文😀text, ``typed'' quotes; 2,000 items (or 9, or 10)",
    "e\u0301 ﬁ ½ Å ＦＵＬＬ　ｗｉｄｔｈ",
    "a <mask> b <s> </s> <unk> <pad>",
]
OTHERS = {
    "byte-level": (ByteBPE(size=400), "RobertaTokenizerFast", "roberta"),
    "unigram": (Unigram(size=400), "AlbertTokenizer", "albert"),
    "unigram, cased": (Unigram(size=400, lowercase=False), "AlbertTokenizer", "albert"),
}


@pytest.fixture(params=OTHERS)
def other(request, tmp_path):
    """A saved tokenizer of another kind, the class that transformers has for it, and the model's type."""
    settings, name, model = OTHERS[request.param]
    settings.train(MIXED * 2).save(tmp_path / "other")
    import transformers

    return tmp_path / "other", getattr(transformers, name), model


def test_other_kinds_have_the_same_tokens_with_and_without_a_model_next_to_them(other):
    folder, _, model = other
    ours = load_tokenizer(folder)
    for _ in range(2):
        theirs = AutoTokenizer.from_pretrained(folder)
        for text in MIXED:
            assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text), text
        (folder / "config.json").write_text(f'{{"model_type": "{model}"}}')


def test_other_kinds_frame_rows_as_our_vocabulary_does(other):
    folder, _, model = other
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    vocabulary = ours.vocabulary
    first, second = ours.encode(TEXTS[0]), ours.encode(TEXTS[2])
    pair = theirs(TEXTS[0], TEXTS[2], return_token_type_ids=True)
    cls, sep = vocabulary.cls, vocabulary.sep
    between = [sep, sep] if model == "roberta" else [sep]
    assert pair["input_ids"] == [cls, *first, *between, *second, sep]
    of_second = 0 if model == "roberta" else 1
    assert pair["token_type_ids"] == [0] * (1 + len(first) + len(between)) + [of_second] * (len(second) + 1)
    assert (vocabulary.separators, vocabulary.second) == (len(between), of_second)
    roles = (theirs.pad_token, theirs.unk_token, theirs.cls_token, theirs.sep_token, theirs.mask_token)
    assert roles == tuple(vocabulary.roles.values())
    assert len(theirs) == len(vocabulary)


@pytest.mark.parametrize("other", ["byte-level", "unigram"], indirect=True)
def test_the_class_for_the_model_reads_the_folder_too(other):
    folder, kind, _ = other
    ours, theirs = load_tokenizer(folder), kind.from_pretrained(folder)
    for text in (*TEXTS[:4], MIXED[8], MIXED[9].replace("\u200d", "")):  # without its map, ALBERT's keeps joiners
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text), text


def test_a_folder_that_the_class_for_the_model_saved_is_read_by_us(other, tmp_path):
    folder, kind, _ = other
    theirs = kind.from_pretrained(folder)
    theirs.save_pretrained(tmp_path / "saved")
    saved = load_tokenizer(tmp_path / "saved")
    assert saved.vocabulary == load_tokenizer(folder).vocabulary
    for text in MIXED:
        assert saved.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text


def test_a_vocabulary_and_its_merges_are_roberta(tmp_path):
    from transformers import RobertaTokenizerFast

    ByteBPE(size=400).train(MIXED * 2).save(tmp_path / "whole")
    (tmp_path / "old").mkdir()
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(tmp_path / "whole" / name, tmp_path / "old" / name)
    theirs = RobertaTokenizerFast.from_pretrained(tmp_path / "old")
    whole = load_tokenizer(tmp_path / "whole")
    for path in (tmp_path / "old", tmp_path / "old" / "vocab.json", tmp_path / "old" / "merges.txt"):
        ours = load_tokenizer(path)
        assert ours.vocabulary == whole.vocabulary
        assert all(ours.encode(text) == whole.encode(text) for text in MIXED)
        for text in MIXED[:-1]:
            assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)


def test_a_gpt2_vocabulary_gets_special_tokens_after_its_own(tmp_path):
    from transformers import GPT2Tokenizer

    ByteBPE(size=400).train(MIXED * 2).save(tmp_path)
    numbers = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    words = [token for token in numbers if not (token.startswith("<") and token.endswith(">") and len(token) > 2)]
    (tmp_path / "gpt2").mkdir()
    content = {token: number for number, token in enumerate([*words, "<|endoftext|>"])}
    (tmp_path / "gpt2" / "vocab.json").write_text(json.dumps(content))
    shutil.copy(tmp_path / "merges.txt", tmp_path / "gpt2" / "merges.txt")
    ours, theirs = load_tokenizer(tmp_path / "gpt2"), GPT2Tokenizer.from_pretrained(tmp_path / "gpt2")
    assert ours.vocabulary.tokens[-6:] == ("<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert len(content) - 1 in ours.vocabulary.special
    for text in [*MIXED[:-1], "one<|endoftext|>two"]:
        assert theirs(text)["input_ids"] == ours.encode(text)


# Settings in a folder, or defaults of its class in transformers


def change(folder, name: str, **changes) -> None:
    """Change settings in a JSON file; None removes one."""
    path = folder / name
    found = (json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}) | changes
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))


def same_tokens(folder, texts) -> None:
    theirs, ours = AutoTokenizer.from_pretrained(folder), load_tokenizer(folder)
    for text in texts:
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text


def test_a_token_with_a_capital_does_not_make_an_uncased_vocabulary_cased(tmp_path):
    tokens = [*SPECIAL_TOKENS, "the", "cat", "covid", "COVID", "[NEW]"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    change(tmp_path, "config.json", model_type="bert")
    same_tokens(tmp_path, ["The CAT", "COVID covid"])
    assert load_tokenizer(tmp_path).encode("The CAT") == [5, 6]


@pytest.mark.parametrize("kind", ["BertTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("given", [True, False, None])
@pytest.mark.parametrize("written", [True, False])
def test_the_case_follows_both_files_as_in_their_class(tmp_path, kind, given, written):
    WordPiece(size=400, lowercase=written, min_frequency=1).train(TEXTS).save(tmp_path)
    change(tmp_path, "tokenizer_config.json", tokenizer_class=kind, do_lower_case=given, strip_accents=None)
    same_tokens(tmp_path, TEXTS[:6])


@pytest.mark.parametrize("kind", ["RobertaTokenizer", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("given", [True, False, None])
@pytest.mark.parametrize("written", [True, False])
def test_the_space_before_a_text_follows_both_files_as_in_their_class(tmp_path, kind, given, written):
    ByteBPE(size=400).train(MIXED * 2).save(tmp_path)
    change(tmp_path, "tokenizer_config.json", tokenizer_class=kind, add_prefix_space=given)
    change(tmp_path, "tokenizer.json", pre_tokenizer=byte_level(written))
    same_tokens(tmp_path, [*MIXED[:-1], " spaced", "\ntext"])


def byte_level(add_prefix_space: bool) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": True}


def test_the_space_before_a_text_is_added_without_a_tokenizer_file_too_and_survives_saving(tmp_path):
    StreamByteBPE(size=400).train(MIXED * 2).save(tmp_path / "one")
    (tmp_path / "one" / "tokenizer.json").unlink()
    change(tmp_path / "one", "tokenizer_config.json", tokenizer_class="GPT2Tokenizer", add_prefix_space=True)
    same_tokens(tmp_path / "one", MIXED)
    ours = load_tokenizer(tmp_path / "one")
    assert ours.vocabulary.names(ours.encode("the"))[0].startswith("Ġ")
    ours.save(tmp_path / "two")
    same_tokens(tmp_path / "two", MIXED)
    assert load_tokenizer(tmp_path / "two").encode("the") == ours.encode("the")


def test_gpt2_has_only_the_frame_of_its_files(tmp_path):
    StreamByteBPE(size=400).train(MIXED * 2).save(tmp_path)
    bare, theirs = load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert bare.vocabulary.frame(1) == ([], [], [])
    assert bare.encode("the cat") == theirs("the cat")["input_ids"]
    end = bare.vocabulary.end
    rust = RustTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    rust.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A $B", special_tokens=[("<|endoftext|>", end)]
    )
    rust.save(str(tmp_path / "tokenizer.json"))
    ours, theirs = load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert ours.vocabulary.frame(1) == ([end], [], [])
    assert [end, *ours.encode("the cat")] == theirs("the cat")["input_ids"]
    ours.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").vocabulary == ours.vocabulary
