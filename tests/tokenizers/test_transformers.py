"""Saved folders give the same tokens in Hugging Face's library."""

import pytest

from plmkit.tokenizers.tokenizer import load_tokenizer
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
def theirs(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoTokenizer

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


def test_a_folder_with_a_model_beside_the_tokenizer_is_read_alike(folder, theirs):
    from transformers import AutoTokenizer

    (folder / "config.json").write_text('{"model_type": "bert", "vocab_size": 400}')
    again = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        assert again(text)["input_ids"] == theirs(text)["input_ids"]


def test_the_class_for_bert_reads_the_folder_too(folder):
    from transformers import BertTokenizer

    ours, theirs = load_tokenizer(folder), BertTokenizer.from_pretrained(folder)
    for text in TEXTS:
        if len(text) < 100 or " " in text:  # that class gives up words of more than 100 characters
            assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text)


def test_a_folder_they_saved_is_read_by_us(folder, theirs, tmp_path):
    from transformers import BertTokenizer

    BertTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "saved")
    saved = load_tokenizer(tmp_path / "saved")
    assert saved.lowercase is load_tokenizer(folder).lowercase
    for text in TEXTS[:6]:
        assert saved.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
