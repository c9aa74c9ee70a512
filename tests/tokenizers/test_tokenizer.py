import json
import pickle

import numpy as np
import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, processors

from plmkit.data.vocabulary import ROBERTA_NAMES, SPECIAL_TOKENS
from plmkit.errors import FolderError, InputError
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.rules import BYTES
from plmkit.tokenizers.tokenizer import bert_tokenizer, load_tokenizer
from plmkit.tokenizers.wordpiece import WordPiece

# The order of the released test, with the two special tokens it lacks at the end.
RELEASED = [
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "want",
    "##want",
    "##ed",
    "wa",
    "un",
    "runn",
    "##ing",
    ",",
    "[PAD]",
    "[MASK]",
]
LETTERS = ["ah", "zz", "hello", "how", "are", "you", "HeLLo", "Are", "yoU", "mask", "sep", "don", "t"]
WORDS = [*SPECIAL_TOKENS, *LETTERS, *"博推我，!?[]-'()."]


def named(tokens, *, lowercase=True):
    tokenizer = bert_tokenizer(tokens, lowercase=lowercase)
    return lambda text: tokenizer.vocabulary.names(tokenizer.encode(text))


def test_words_are_split_into_the_longest_pieces():
    tokenizer = bert_tokenizer(RELEASED, lowercase=True)
    assert tokenizer.encode("UNwant\u00e9d,running") == [7, 4, 5, 10, 8, 9]


def test_a_word_with_an_unknown_part_is_unknown_as_a_whole():
    assert named(RELEASED)("unwantedX running") == ["[UNK]", "runn", "##ing"]


def test_no_text_is_no_tokens():
    assert named(RELEASED)("") == []
    assert named(RELEASED)(" \t\n\u3000") == []


def test_chinese_characters_are_separate_tokens():
    assert named(WORDS)("ah\u535a\u63a8zz") == ["ah", "博", "推", "zz"]


@pytest.mark.parametrize(("lowercase", "tokens"), [(True, "hello ! how are you ?"), (False, "HeLLo ! how Are yoU ?")])
def test_case_is_kept_only_without_lowercase(lowercase, tokens):
    assert named(WORDS, lowercase=lowercase)(" \tHeLLo!how  \n Are yoU?  ") == tokens.split()


def test_lower_case_also_strips_accents():
    assert named(WORDS)("H\u00e9llo") == ["hello"]
    assert named([*WORDS, "H\u00e9llo"], lowercase=False)("H\u00e9llo") == ["H\u00e9llo"]


@pytest.mark.parametrize(("length", "tokens"), [(200, 200), (201, 1)])
def test_a_word_of_more_than_200_characters_is_unknown(length, tokens):
    assert len(named([*SPECIAL_TOKENS, "a", "##a"])("a" * length)) == tokens


PLAIN = ["how", "[", "mask", "]", "you", "[", "sep", "]"]


def test_a_written_special_token_is_special_only_in_encode():
    tokenizer = bert_tokenizer(WORDS, lowercase=True)
    names = tokenizer.vocabulary.names
    assert names(tokenizer.encode("how [MASK]you [SEP]")) == ["how", "[MASK]", "you", "[SEP]"]
    assert names(tokenizer.encode_plain("how [MASK]you [SEP]")) == PLAIN
    tokens, lengths = tokenizer.encode_many(["how [MASK]you", "", "[SEP]"])
    assert names(tokens) == PLAIN
    assert lengths.tolist() == [5, 0, 3]


def test_many_texts_are_one_array_and_their_lengths():
    tokens, lengths = bert_tokenizer(RELEASED, lowercase=True).encode_many(["want, wa", "", "unwanted"])
    assert (tokens.tolist(), lengths.tolist()) == ([3, 10, 6, 7, 4, 5], [3, 0, 3])
    assert (tokens.dtype, lengths.dtype) == (np.uint32, np.int64)
    nothing, none = bert_tokenizer(RELEASED, lowercase=True).encode_many([])
    assert (nothing.dtype, none.dtype, len(nothing), len(none)) == (np.uint32, np.int64, 0, 0)


def test_lone_surrogates_are_dropped_like_other_broken_characters():
    tokenizer = bert_tokenizer(WORDS, lowercase=True)
    assert tokenizer.encode("h\ud800ow \udfffyou") == tokenizer.encode("how you")
    assert tokenizer.offsets("\ud800how") == [(1, 4)]
    assert tokenizer.encode_many(["h\ud800ow", "you"])[0].tolist() == tokenizer.encode("how you")


def test_offsets_are_characters_of_the_given_text():
    text = "  UNwant\u00e9d,我running"
    tokenizer = bert_tokenizer([*RELEASED, "我"], lowercase=True)
    assert tokenizer.offsets(text) == [(2, 4), (4, 8), (8, 10), (10, 11), (11, 12), (12, 16), (16, 19)]
    assert len(tokenizer.offsets(text)) == len(tokenizer.encode(text))


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("[CLS] unwanted running, wa [SEP]", "[CLS] unwanted running, wa [SEP]"),
        ("[CLS]我 博 推，我[MASK]推[SEP]", "[CLS]我博推，我[MASK]推[SEP]"),
        ("hello, how are you? (zz) don't", "hello, how are you? (zz) don't"),
        ("you [MASK] - ah!", "you [MASK] - ah!"),
        ("you-are, ' zz '", "you-are, ' zz '"),
        ("", ""),
    ],
)
def test_decoded_text_is_readable(text, readable):
    tokenizer = bert_tokenizer(list(dict.fromkeys([*WORDS, *RELEASED])), lowercase=True)
    assert tokenizer.decode(tokenizer.encode(text)) == readable


def test_a_saved_tokenizer_is_the_same_when_loaded(tmp_path):
    for lowercase in (True, False):
        tokenizer = bert_tokenizer(WORDS, lowercase=lowercase)
        folder = tmp_path / str(lowercase)
        tokenizer.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == [
            "special_tokens_map.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.txt",
        ]
        for path in (folder, str(folder), folder / "tokenizer.json", folder / "vocab.txt"):
            loaded = load_tokenizer(path)
            assert loaded.vocabulary == tokenizer.vocabulary
            assert loaded.lowercase is lowercase
            assert loaded.fingerprint() == tokenizer.fingerprint()


def test_fingerprints_differ_where_tokens_could():
    prints = {
        bert_tokenizer(WORDS, lowercase=True).fingerprint(),
        bert_tokenizer(WORDS, lowercase=False).fingerprint(),
        bert_tokenizer([*WORDS, "more"], lowercase=True).fingerprint(),
        bert_tokenizer(WORDS[::-1], lowercase=True).fingerprint(),
        bert_tokenizer(WORDS, lowercase=True, strip_accents=False).fingerprint(),
    }
    assert len(prints) == 5


def test_a_worker_process_gets_the_same_tokenizer():
    tokenizer = bert_tokenizer(WORDS, lowercase=False)
    assert pickle.loads(pickle.dumps(tokenizer)).fingerprint() == tokenizer.fingerprint()


@pytest.mark.parametrize(
    ("extra", "lowercase"),
    [
        (["the"], True),
        (["COVID"], True),  # one added to an uncased vocabulary
        (["The", "##T"], False),
        (["<S>", "<T>"], True),  # of the Chinese vocabulary
        (["É", "Ü"], True),  # the guess uses ASCII letters only
    ],
)
def test_a_lone_vocabulary_is_lower_case_unless_a_tenth_of_its_words_has_capitals(tmp_path, extra, lowercase):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *"abcdefghijk", *extra]), encoding="utf-8")
    assert load_tokenizer(path).lowercase is lowercase


def test_settings_next_to_a_vocabulary_decide_the_case(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "the", "é"]), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary.names(tokenizer.encode("the The é")) == ["the", "[UNK]", "é"]


def test_settings_override_the_tokenizer_file_next_to_them(tmp_path):
    bert_tokenizer(WORDS, lowercase=True).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": null}')
    tokenizer = load_tokenizer(tmp_path)
    assert not tokenizer.lowercase
    assert tokenizer.vocabulary.names(tokenizer.encode("HeLLo you")) == ["HeLLo", "you"]
    assert tokenizer.encode_many(["HeLLo you"])[0].tolist() == tokenizer.encode("HeLLo you")


def test_a_vocabulary_may_hold_a_line_separator_and_windows_line_ends(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(("\ufeff" + "\r\n".join([*SPECIAL_TOKENS, "\u2028", "中"]) + "\r\n").encode())
    assert load_tokenizer(path).vocabulary.tokens == (*SPECIAL_TOKENS, "\u2028", "中")


def test_truncation_and_padding_of_a_file_are_disabled(tmp_path):
    bert_tokenizer(WORDS, lowercase=True).save(tmp_path)
    rust = RustTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    rust.enable_truncation(3)
    rust.enable_padding(length=8)
    rust.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    assert len(tokenizer.encode("how are you ? how are you ?")) == 8
    assert tokenizer.encode_many(["how", "are you ? how"])[1].tolist() == [1, 4]


def test_rules_other_than_berts_give_the_same_tokens_in_batches(tmp_path):
    bert_tokenizer(WORDS, lowercase=True).save(tmp_path)
    rust = RustTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    rust.add_tokens(["how are"])
    rust.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    tokens, lengths = tokenizer.encode_many(["you how are [MASK]", "", "zz\ud800"])
    assert tokenizer.vocabulary.names(tokens) == ["you", "how are", "[", "mask", "]", "zz"]
    assert (tokens.dtype, lengths.tolist()) == (np.uint32, [5, 0, 1])


BAD_FILES = {
    "empty": ("vocab.txt", b"", "vocab.txt: this file is empty"),
    "blank": ("vocab.txt", b"\n\n", "vocab.txt: this file is empty"),
    "special tokens missing": (
        "vocab.txt",
        b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n",
        r"of 5 tokens has no \[MASK\]",
    ),
    "twice": (
        "vocab.txt",
        "\n".join([*SPECIAL_TOKENS, "a", "a"]).encode(),
        "'a' twice, with ids 5 and 6",
    ),
    "not text": ("vocab.txt", b"[PAD]\n\xff\xfe\n", "vocab.txt: line 2 is not UTF-8"),
    "broken JSON": ("tokenizer.json", b'{"model": ', "tokenizer.json: this is not a tokenizer.json"),
    "other JSON": ("tokenizer.json", b"[1, 2]", "tokenizer.json: this is not a tokenizer.json"),
    "empty JSON": ("tokenizer.json", b"", "tokenizer.json: this is not a tokenizer.json"),
}


@pytest.mark.parametrize("bad", BAD_FILES)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, bad):
    name, content, says = BAD_FILES[bad]
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(InputError, match=says) as caught:
            load_tokenizer(path)
        assert len(str(caught.value).splitlines()) <= 3


def test_a_tokenizer_file_without_special_tokens_is_refused(tmp_path):
    RustTokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"tokenizer.json: The vocabulary of 2 tokens has no \[PAD\]"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_file_of_another_kind_is_refused(tmp_path):
    RustTokenizer(models.BPE({"a": 0}, [])).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="This kind of BPE tokenizer is not supported"):
        load_tokenizer(tmp_path)


def byte_files(folder, **changed):
    """The smallest vocabulary of bytes with its merges, in the files of GPT-2."""
    tokens = [*ROBERTA_NAMES, *sorted(BYTES), "ab"]
    content = {
        "vocab.json": json.dumps({token: number for number, token in enumerate(tokens)}),
        "merges.txt": "#version: 0.2\na b\n",
    }
    for name, text in {**content, **changed}.items():
        (folder / name).write_bytes(text.encode())


BAD_BYTE_FILES = {
    "vocabulary is not JSON": ({"vocab.json": "{"}, "vocab.json cannot be read as JSON"),
    "vocabulary is a list": (
        {"vocab.json": "[1]"},
        "vocab.json contains a list of 1, not a JSON object of tokens and their ids",
    ),
    "numbers are text": ({"vocab.json": '{"a": "b"}'}, "vocab.json is not a JSON object of tokens and their ids"),
    "a merge of one": ({"merges.txt": "#version: 0.2\na b\nab\n"}, "merges.txt, line 3: a merge is two tokens"),
    "a merge of three": ({"merges.txt": "a b c\n"}, "merges.txt, line 1: a merge is two tokens"),
    "an unknown merge": ({"merges.txt": "x y\n"}, "the merges do not fit the vocabulary"),
    "bytes are missing": ({"vocab.json": '{"a": 0, "b": 1, "ab": 2}'}, "254 of the 256 bytes have no token"),
}


@pytest.mark.parametrize("bad", BAD_BYTE_FILES)
def test_bad_files_of_byte_level_bpe_are_named_with_what_is_wrong(tmp_path, bad):
    changed, says = BAD_BYTE_FILES[bad]
    byte_files(tmp_path, **changed)
    with pytest.raises(InputError, match=says):
        load_tokenizer(tmp_path)


def test_byte_level_bpe_needs_both_files(tmp_path):
    byte_files(tmp_path)
    assert len(load_tokenizer(tmp_path).vocabulary) == 5 + 256 + 1
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(
        InputError, match=r"vocab.json: BPE also needs one of merges.txt, vocab.bpe, vocab_40000.bpe in the same folder"
    ):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("entry", ['"[START]"', '{"content": "[START]", "lstrip": false}'])
@pytest.mark.parametrize("file", ["special_tokens_map.json", "tokenizer_config.json"])
def test_the_files_next_to_a_tokenizer_name_its_special_tokens(tmp_path, file, entry):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[START]", "[SEP]", "[MASK]", "a", "[CLS]"]))
    assert load_tokenizer(tmp_path).vocabulary.cls == 6
    (tmp_path / file).write_text(f'{{"cls_token": {entry}}}')
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.vocabulary.cls, tokenizer.vocabulary.roles["cls"]) == (2, "[START]")
    assert tokenizer.encode("[START] a") == [2, 5]
    assert pickle.loads(pickle.dumps(tokenizer)).vocabulary == tokenizer.vocabulary
    tokenizer.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").vocabulary == tokenizer.vocabulary


def test_a_special_token_that_is_named_but_missing_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "a"]))
    (tmp_path / "special_tokens_map.json").write_text('{"mask_token": "[HIDE]"}')
    with pytest.raises(InputError, match=r"has no \[HIDE\]"):
        load_tokenizer(tmp_path)


def test_the_frame_of_pairs_follows_the_file(tmp_path):
    bert_tokenizer(WORDS, lowercase=True).save(tmp_path)
    rust = RustTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    rust.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS]:0 $A:0 [SEP]:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    rust.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_tokenizer(tmp_path).vocabulary
    assert (vocabulary.separators, vocabulary.second) == (2, 0)


def test_a_tokenizer_file_whose_numbers_have_gaps_is_refused(tmp_path):
    numbers = {name: 2 * number for number, name in enumerate(SPECIAL_TOKENS)}
    RustTokenizer(models.WordPiece(numbers, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="5 tokens are not numbered from 0"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_broken_settings_are_refused(tmp_path, content):
    bert_tokenizer(WORDS, lowercase=True).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(InputError, match=r"tokenizer_config\.json"):
        load_tokenizer(tmp_path)


def test_a_missing_path_and_a_folder_without_tokenizer_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"There is no file or folder .*absent"):
        load_tokenizer(tmp_path / "absent")
    with pytest.raises(InputError, match=r"has no tokenizer: it contains none of tokenizer.json, vocab.txt"):
        load_tokenizer(tmp_path)


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(FolderError, match="cannot be written to"):
        bert_tokenizer(WORDS, lowercase=True).save(tmp_path / "taken")


def test_a_save_that_fails_leaves_the_former_files_whole(tmp_path, monkeypatch):
    bert_tokenizer(WORDS, lowercase=True).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("plmkit.storage.files.os.fsync", full)
    with pytest.raises(FolderError, match="No space left on device"):
        bert_tokenizer([*WORDS, "more"], lowercase=True).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_saved_settings_name_the_rules(tmp_path):
    bert_tokenizer(WORDS, lowercase=True, strip_accents=False).save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert settings["do_lower_case"] is True
    assert settings["strip_accents"] is False
    assert settings["tokenize_chinese_chars"] is True


def test_labels_show_spaces_and_number_the_parts_of_a_character():
    made = ByteBPE(size=300).train(["the cat sees a house."] * 5)
    text = "the 猫\n😀"
    labels = made.labels(made.encode(text))
    assert labels == ("the", "·", "猫 1/3", "猫 2/3", "猫 3/3", "↵", "😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4")
    words = WordPiece(size=100).train(["the cat sees 猫."] * 5)
    assert words.labels(words.encode("the 猫 [MASK]")) == ("the", "猫", "[MASK]")


def test_labels_of_half_a_character_are_its_names():
    made = ByteBPE(size=300).train(["the cat sees a house."] * 5)
    half = made.encode("猫")[:2]
    assert made.labels(half) == tuple(made.vocabulary.names(half))
