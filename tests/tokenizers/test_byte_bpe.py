import hashlib
import random
import subprocess
import sys

import numpy as np
import pytest

from plmkit.errors import InputError, SettingError
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.readable import BYTE_OF, byte_characters
from plmkit.tokenizers.rules import BYTES

TEXTS = ["the cat sat on the mat, the cat sat.", "newest newer new", "天地玄黄，宇宙洪荒。天地玄黄。"] * 3
EMPTY = 4 + 256 + 1  # special tokens, bytes, the mask


@pytest.fixture(scope="module")
def tokenizer():
    return ByteBPE(size=330).train(TEXTS)


def test_the_byte_map_is_one_to_one_and_has_the_published_corners():
    assert sorted(byte_characters().values()) == list(range(256))
    assert set(BYTE_OF) == BYTES
    assert (BYTE_OF["\u0120"], BYTE_OF["\u010a"], BYTE_OF["\u0100"]) == (ord(" "), ord("\n"), 0)
    assert sum(chr(byte) in BYTE_OF for byte in range(256)) == 188
    assert BYTE_OF["a"] == ord("a")


def test_special_tokens_stand_where_roberta_has_them(tokenizer):
    vocabulary = tokenizer.vocabulary
    assert vocabulary.tokens[:4] == ("<s>", "<pad>", "</s>", "<unk>")
    assert vocabulary.tokens[-1] == "<mask>"
    assert (vocabulary.cls, vocabulary.pad, vocabulary.sep, vocabulary.unknown) == (0, 1, 2, 3)
    assert vocabulary.mask == len(vocabulary) - 1
    assert (vocabulary.separators, vocabulary.second) == (2, 0)
    assert vocabulary.tokens[4:6] == ("!", '"')


def test_frequent_words_become_one_token_with_their_space(tokenizer):
    assert tokenizer.vocabulary.names(tokenizer.encode("the cat sat")) == ["the", "\u0120cat", "\u0120sat"]
    assert tokenizer.vocabulary.names(tokenizer.encode(" the")) == ["\u0120the"]


def any_text(draw: random.Random) -> str:
    """Random characters of all planes, with known difficult ones."""
    nasty = [
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "\u00a0",
        "\u2028",
        "\ufeff",
        "\ufffd",
        "e\u0301",
        "'s",
        "👩\u200d👧🏽",
        "中",
    ]

    def part() -> str:
        code = draw.randrange(0x110000) if draw.random() < 0.3 else draw.randrange(0x3000)
        return draw.choice(nasty) if draw.random() < 0.4 or 0xD800 <= code <= 0xDFFF else chr(code)

    return "".join(part() for _ in range(draw.randrange(30)))


def test_any_text_comes_back_as_it_was(tokenizer):
    draw = random.Random(0)
    texts = [any_text(draw) for _ in range(3000)]
    for text in texts:
        assert tokenizer.decode(tokenizer.encode(text)) == text, ascii(text)
    tokens, lengths = tokenizer.encode_many(texts)
    rows = np.split(tokens, np.cumsum(lengths)[:-1])
    assert [row.tolist() for row in rows] == [tokenizer.encode_plain(text) for text in texts]
    assert tokenizer.vocabulary.unknown not in tokens


def test_a_written_mask_absorbs_the_space_before_it_and_is_plain_text_in_encode_plain(tokenizer):
    names = tokenizer.vocabulary.names
    assert names(tokenizer.encode("the <mask> sat")) == ["the", "<mask>", "\u0120sat"]
    assert "<mask>" not in names(tokenizer.encode_plain("the <mask> sat"))
    assert tokenizer.decode(tokenizer.encode("the <mask> sat")) == "the <mask> sat"
    assert tokenizer.decode(tokenizer.encode_plain("the <mask> sat")) == "the <mask> sat"
    assert tokenizer.decode([0, *tokenizer.encode("the cat"), 2, 2, *tokenizer.encode("sat"), 2]) == (
        "<s>the cat</s></s>sat</s>"
    )


def test_an_incomplete_character_decodes_to_a_replacement_and_its_token_shows_its_name(tokenizer):
    first = tokenizer.vocabulary.tokens.index("\u00f0")  # the first of the four bytes of an emoji
    assert tokenizer.decode([first]) == "\ufffd"
    assert tokenizer.readable(first) == "\u00f0"
    assert tokenizer.readable(tokenizer.encode(" cat")[0]) == " cat"


def test_offsets_exclude_the_space_and_bytes_share_their_character(tokenizer):
    text = "the cat 😀"
    assert tokenizer.offsets(text) == [(0, 3), (4, 7), (8, 8), *[(8, 9)] * 4]


def test_a_token_continues_a_word_unless_it_has_a_space(tokenizer):
    tokens = tokenizer.encode("the cat, sat.")
    names, continues = tokenizer.vocabulary.names(tokens), tokenizer.vocabulary.is_continuation[tokens]
    assert dict(zip(names, continues.tolist(), strict=True)) == {
        "the": True, "\u0120cat": False, ",": True, "\u0120sat": False, ".": True,
    }  # fmt: skip
    assert not tokenizer.vocabulary.is_continuation[list(tokenizer.vocabulary.special)].any()


def test_continued_sentences_keep_the_space_between_them_but_not_in_chinese(tokenizer):
    sentences = ["The cat sat.", "The mat.", "天地。", "玄黄。"]
    assert tokenizer.with_spaces(sentences, first=True) == ["The cat sat.", " The mat.", "天地。", "玄黄。"]
    assert tokenizer.with_spaces(sentences[1:], first=False) == [" The mat.", "天地。", "玄黄。"]
    assert tokenizer.with_spaces([], first=True) == []


SCRIPT = """
from plmkit.tokenizers.byte_bpe import ByteBPE
words = ["".join(chr(97 + i * step % 25) for step in (1, 7, 11, 13)) for i in range(3000)]
print(ByteBPE(size=900, min_frequency=1).train([" ".join(words), "é ü 天地 " * 9]).fingerprint())
"""


def test_the_same_texts_give_the_same_vocabulary_in_every_process():
    runs = [subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True) for _ in range(3)]
    assert len({run.stdout for run in runs}) == 1
    assert len(runs[0].stdout.strip()) == hashlib.blake2b(digest_size=16).digest_size * 2
    assert all(run.stderr == b"" for run in runs)


def test_the_order_of_texts_does_not_matter():
    assert ByteBPE(size=300).train(TEXTS).fingerprint() == ByteBPE(size=300).train(TEXTS[::-1]).fingerprint()


def test_the_vocabulary_never_exceeds_its_size_and_a_small_corpus_gives_a_small_one():
    for size in (EMPTY, EMPTY + 1, 300):
        assert len(ByteBPE(size=size).train(TEXTS).vocabulary) == size
    assert len(ByteBPE().train(["ab ab"]).vocabulary) == EMPTY + 1  # ab; " ab" occurs once
    assert len(ByteBPE(min_frequency=1).train(["ab ab"]).vocabulary) == EMPTY + 2


def test_texts_are_read_once_and_progress_is_reported():
    seen = []
    ByteBPE(size=300).train((text for text in TEXTS), on_progress=seen.append)
    assert seen == [9]


def test_broken_characters_do_not_stop_the_training():
    assert ByteBPE(size=300).train(["a\ud800b a\ud800b"]).encode("a\ud800b") != []


@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_no_text_is_refused(texts):
    with pytest.raises(InputError, match="There is no text to train"):
        ByteBPE().train(texts)


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match=r"tokenizer.size is 260, but the bytes and special tokens alone take 261"):
        ByteBPE(size=260)
    with pytest.raises(SettingError, match=r"tokenizer.min_frequency is 0"):
        ByteBPE(min_frequency=0)
