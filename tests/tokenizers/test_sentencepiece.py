"""SentencePiece's own file, written here byte by byte in its format."""

import struct
import unicodedata

import pytest
from transformers import XLNetTokenizer

from plmkit.errors import InputError
from plmkit.tokenizers.rules import albert_normalizer
from plmkit.tokenizers.sentencepiece import ends_in_number_comma, pieces_in, varint
from plmkit.tokenizers.tokenizer import load_tokenizer

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4
PIECES = [
    ("<pad>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN), ("[CLS]", 0.0, CONTROL), ("[SEP]", 0.0, CONTROL),
    ("[MASK]", 0.0, CONTROL), ("(", 0.0, USER), ("▁", -2.0, NORMAL), ("▁the", -3.0, NORMAL), ("▁cat", -4.0, NORMAL),
    ("s", -4.5, NORMAL), ("▁9,", -5.0, NORMAL), ("9", -6.0, NORMAL), (",", -6.5, NORMAL), ("中文", -7.0, NORMAL),
    *((letter, -9.0, NORMAL) for letter in "theca"),
]  # fmt: skip


def number(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def message(field: int, content: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(content)) + content


def piece(text: str, score: float, kind: int) -> bytes:
    return message(1, message(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + number(kind))


def model(pieces=PIECES, model_type: int = 1) -> bytes:
    trainer = message(2, b"\x18" + number(model_type) + b"\xa0\x06" + number(300))
    return b"".join(piece(*entry) for entry in pieces) + trainer + message(3, message(1, b"identity"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spiece.model").write_bytes(model())
    return tmp_path


def test_pieces_scores_and_special_tokens_are_read():
    found = pieces_in(model())
    assert found.pieces[7:9] == (("▁the", -3.0), ("▁cat", -4.0))
    assert (found.unknown, found.charsmap, found.byte_fallback) == (1, None, False)
    assert found.control == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


def test_numbers_of_several_bytes_are_read():
    assert varint(bytes([172, 2, 9]), 0) == (300, 2)
    for value in (0, 127, 128, 2**40 + 5):
        assert varint(number(value), 0) == (value, len(number(value)))


def test_a_model_alone_is_albert(folder):
    for path in (folder, folder / "spiece.model"):
        tokenizer = load_tokenizer(path)
        assert tokenizer.vocabulary.roles == {
            "pad": "<pad>", "unknown": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]",
        }  # fmt: skip
        names = tokenizer.vocabulary.names
        assert names(tokenizer.encode("The  Cáts")) == ["▁the", "▁cat", "s"]
        assert names(tokenizer.encode("the (中文")) == ["▁the", "▁", "(", "中文"]
        assert names(tokenizer.encode("q cat")) == ["▁", "<unk>", "▁cat"]


def test_a_number_and_its_comma_are_two_as_in_the_released_code(folder):
    tokenizer = load_tokenizer(folder)
    assert tokenizer.vocabulary.names(tokenizer.encode("9, cat")) == ["▁", "9", ",", "▁cat"]
    assert [ends_in_number_comma(text) for text in ("▁9,", ",", "a,", "9")] == [True, False, False, False]


def test_settings_next_to_it_decide_the_case(folder):
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "keep_accents": true}')
    tokenizer = load_tokenizer(folder)
    assert not tokenizer.lowercase
    assert "<unk>" in tokenizer.vocabulary.names(tokenizer.encode("The"))


def test_what_was_read_is_saved_and_read_again(folder, tmp_path):
    tokenizer = load_tokenizer(folder)
    tokenizer.save(tmp_path / "saved")
    assert not (tmp_path / "saved" / "spiece.model").exists()
    again = load_tokenizer(tmp_path / "saved")
    assert (again.vocabulary, again.fingerprint()) == (tokenizer.vocabulary, tokenizer.fingerprint())


BAD = {
    "empty": (b"", "not a SentencePiece model, or it is damaged"),
    "text": (b"hello, world: this is no model\n", "not a SentencePiece model, or it is damaged"),
    "cut short": (model()[:100], "not a SentencePiece model, or it is damaged"),
    "of another kind": (model(model_type=2), "not a unigram model. Convert it"),
    "without unknown": (model([entry for entry in PIECES if entry[2] != UNKNOWN]), "has no unknown token"),
    "without mask": (model([entry for entry in PIECES if entry[0] != "[MASK]"]), r"has no \[MASK\]"),
    "twice the same": (model([*PIECES, PIECES[-1]]), "twice"),
    "a broken map": (model() + message(3, message(2, b"\xff" * 9)), "character normalisation map is damaged"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, bad):
    content, says = BAD[bad]
    (tmp_path / "spiece.model").write_bytes(content)
    with pytest.raises(InputError, match=rf"spiece\.model: .*{says}"):
        load_tokenizer(tmp_path)


def test_any_bytes_are_read_or_refused(tmp_path):
    whole = model()
    for place in range(0, len(whole), 7):
        broken = whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :]
        (tmp_path / "spiece.model").write_bytes(broken)
        try:
            load_tokenizer(tmp_path)
        except InputError as error:
            assert "spiece.model" in str(error)


XLNET_PIECES = [
    ("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<cls>", 0.0, CONTROL),
    ("<sep>", 0.0, CONTROL), ("<pad>", 0.0, CONTROL), ("<mask>", 0.0, CONTROL), ("<eod>", 0.0, CONTROL),
    ("▁", -2.0, NORMAL), ("▁The", -3.0, NORMAL), ("▁the", -3.5, NORMAL), *((letter, -9.0, NORMAL) for letter in "TheC"),
]  # fmt: skip


def test_xlnets_keeps_capitals_as_its_class_does_unless_settings_differ(tmp_path):
    (tmp_path / "spiece.model").write_bytes(model(XLNET_PIECES))
    tokenizer = load_tokenizer(tmp_path)
    theirs = XLNetTokenizer(vocab=[(text, score) for text, score, _ in XLNET_PIECES])
    for text in ("The Thé", "the TeC"):
        assert tokenizer.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.vocabulary.names(tokenizer.encode("The")) == ["▁The"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary.names(tokenizer.encode("The")) == ["▁the"]


WORDS_WITH_MARKS = ["हिन्दी", "தமிழ்", "ไทยเพื่อน", "Café Ångström", "ΐ", "שָׁלוֹם", "が ぱ", "한국어", "e\u0301\u0302"]


@pytest.mark.parametrize("word", WORDS_WITH_MARKS)
def test_accents_are_stripped_as_in_the_released_code_and_vowel_signs_stay(word):
    decomposed = unicodedata.normalize("NFKD", word)
    wanted = "".join(letter for letter in decomposed if not unicodedata.combining(letter)).lower()
    made = albert_normalizer(lowercase=True, keep_accents=False).normalize_str(word)
    assert made == unicodedata.normalize("NFKC", wanted)


def test_hindi_keeps_its_vowels_and_english_loses_its_accents():
    made = albert_normalizer(lowercase=True, keep_accents=False)
    assert made.normalize_str("हिन्दी Café") == "हिनदी cafe"
