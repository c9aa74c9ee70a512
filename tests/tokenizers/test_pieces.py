import random

import numpy as np
import pytest

from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.tokenizers.pieces import ALONE, IDEOGRAPHS, IN_RUN, SPACE, PieceCache, cut, kinds
from plmkit.tokenizers.tokenizer import bert_tokenizer
from plmkit.tokenizers.wordpiece import WordPiece

# Each has broken a tokenizer somewhere.
NASTY = [
    *"aZé Éß İıſŉǅΣς ﬁ ½ Å",  # cases that grow, shrink or depend on their neighbours
    *"e\u0301 \u0323\u0307 \u0338 \u20dd \u3099 \u0345 \u0903",  # combining marks, spacing and not
    *"\x00\x01\x07\x0b\x0c\x1c\x7f\x85\xad",  # control characters
    *"\u200b\u200c\u200d\u200e\u2060\ufeff\ufffc\ufffd\ufdd0\ufffe\uffff\ue000",
    *"\t\n\r \u00a0\u1680\u2003\u2028\u2029\u202f\u3000",  # white space
    *"한국어 ᄒ각 カタｶﾞか゛ ไทย हिन्दी العربية ،؟ ։ ། ǃ",
    *"中文博㐀䶿鿿\ua000豈\ufaff\U00020000\U0002a6df\U0002a6e0\U0002b73f\U0002b820\U0002b91f\U0002b920\U0002ceaf\U0002f800\U0002fa1f\U00030000",
    *"，。、；：？！…—·“”‘’（）《》「」～￥％＋Ａｂ１〇々〆",
    *"[]()#$%&'*+-./:;<=>?@\\^_`{|}~¡§«»¿†‡•‰′※",
    *"😀👩\u200d👧🏽\ufe0f🇨🇳\U0010ffff\ud7ff\ue000",
    *("[MASK]", "[SEP]", "##", "##a", "don't", "ｆｕｌｌ", "a" * 99, "é" * 101, "b" * 201, "www.x.cn/?q=1"),
]


def nasty_texts(seed: int, count: int) -> list[str]:
    """Short texts that mix nasty characters with any others."""
    draw = random.Random(seed)

    def part() -> str:
        if draw.random() < 0.1:
            code = draw.randrange(0x110000)
            return "" if 0xD800 <= code <= 0xDFFF else chr(code)
        return draw.choice(NASTY)

    return ["".join(part() for _ in range(draw.randrange(40))) for _ in range(count)]


@pytest.fixture(scope="module", params=[True, False], ids=["lower-case", "cased"])
def tokenizer(request):
    return WordPiece(size=3000, lowercase=request.param, min_frequency=1).train(nasty_texts(0, 2000))


def test_any_text_has_the_same_tokens_as_on_its_own(tokenizer):
    texts = nasty_texts(1, 4000)
    expected = [tokenizer.encode_plain(text) for text in texts]
    unknown = np.concatenate(expected) == tokenizer.vocabulary.unknown
    assert unknown.mean() < 0.2  # the others have their own tokens
    for start in range(0, len(texts), 1000):  # the cache is empty at first, then fills
        tokens, lengths = tokenizer.encode_many(texts[start : start + 1000])
        rows = np.split(tokens, np.cumsum(lengths)[:-1])
        for text, row, tokens_alone in zip(texts[start:], rows, expected[start:], strict=False):
            assert row.tolist() == tokens_alone, ascii(text)


def test_every_cut_character_is_isolated_between_any_neighbours(tokenizer):
    rust = tokenizer._plain
    certain = [chr(code) for code in np.flatnonzero(kinds() != IN_RUN).tolist()]

    def words(text: str) -> list[str]:
        return [word for word, _ in rust.pre_tokenizer.pre_tokenize_str(rust.normalizer.normalize_str(text))]

    for character in certain:
        alone = words(character)
        assert len(alone) == (kinds()[ord(character)] == ALONE), ascii(character)
        assert words(f"x{character}\u0323y") == [*words("x"), *alone, *words("\u0323y")], ascii(character)


def test_all_eight_ranges_of_ideographs_are_isolated():
    assert len(IDEOGRAPHS) == 8
    for first, last in IDEOGRAPHS:
        assert (kinds()[first : last + 1] == ALONE).all()
    assert (kinds()[0x2B820:0x2B920] == IN_RUN).all()  # where the library differs from the released code
    assert (kinds()[[ord(" "), ord("\n"), 0x3000]] == SPACE).all()
    assert (kinds()[[ord("a"), 0, 0xFFFD, 0xAC00, 0x3042]] == IN_RUN).all()


def test_pieces_are_runs_and_single_characters_in_order():
    found = cut(["don't 停", "", "a b"])
    assert found.runs == ["don", "t", "a", "b"]
    assert [chr(code) for code in found.alone] == ["'", "停"]
    assert found.is_alone.tolist() == [False, True, False, True, False, False]
    assert found.stops.tolist() == [4, 4, 6]


def test_a_full_cache_is_emptied_and_changes_nothing():
    tokenizer = bert_tokenizer([*SPECIAL_TOKENS, "a", "##a", "b", "中"], lowercase=True)
    small = PieceCache(tokenizer._plain, most_characters=20)
    for text in ("a b aa", "中aaa b", "aaaa 中", "b"):
        assert small.encode([text])[0].tolist() == tokenizer.encode_plain(text)
    assert len(small.number) < 4


def test_an_interrupted_call_leaves_no_wrong_tokens():
    tokenizer = bert_tokenizer([*SPECIAL_TOKENS, "a", "##a", "b", "中"], lowercase=True)
    pieces = PieceCache(tokenizer._plain)
    pieces.number["b"]  # numbered, but the call was interrupted before it had tokens
    assert pieces.encode(["a b"])[0].tolist() == tokenizer.encode_plain("a b")


def test_texts_of_any_length_are_taken_in_groups():
    tokenizer = bert_tokenizer([*SPECIAL_TOKENS, "a", "b", "中"], lowercase=True)
    texts = ["a " * 400_000, "中" * 600_000, "b", "", "a b"]
    tokens, lengths = tokenizer.encode_many(texts)
    assert lengths.tolist() == [400_000, 600_000, 1, 0, 2]
    assert tokens[-3:].tolist() == [6, 5, 6]
    assert (tokens[400_000:1_000_000] == 7).all()


def test_offsets_equal_those_of_the_tokenizer_itself():
    tokenizer = bert_tokenizer(
        [*SPECIAL_TOKENS, "a", "##a", "##b", "b", "i", "e", "中", "文", "。", "'"], lowercase=True
    )
    rng = random.Random(0)
    letters = [*NASTY, *"aab中文。' " * 8]
    texts = ["".join(rng.choices(letters, k=rng.randint(0, 12))) for _ in range(2000)]
    small = PieceCache(tokenizer._plain, most_characters=200)  # emptied on the way
    expected = [tokenizer._plain.encode(text, add_special_tokens=False).offsets for text in texts]
    for few in (7, 2000):
        found = np.concatenate([small.locate(texts[begin : begin + few]) for begin in range(0, 2000, few)])
        assert list(map(tuple, found.tolist())) == [pair for pairs in expected for pair in pairs]
    assert tokenizer.offsets_many([]).shape == (0, 2)
    tokenizer._pieces = None  # as for tokenizers of other rules
    assert np.array_equal(tokenizer.offsets_many(texts), found)
