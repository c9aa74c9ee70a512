import subprocess
import sys

import pytest

from plmkit.errors import InputError, SettingError
from plmkit.tokenizers import unigram
from plmkit.tokenizers.unigram import PARTS, Unigram, in_order

TEXTS = [
    "The cat sat on the mat, the cat sat.",
    "newest newer new; walking talked walks talking walked.",
    "天地玄黄，宇宙洪荒。天地玄黄。我们的天地，我们的宇宙。",
] * 4
SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def tokenizer():
    return Unigram(size=90, coverage=1.0).train(TEXTS)


def named(tokenizer, text):
    return tokenizer.vocabulary.names(tokenizer.encode(text))


def test_special_tokens_stand_where_albert_has_them(tokenizer):
    vocabulary = tokenizer.vocabulary
    assert vocabulary.tokens[:5] == SPECIAL
    assert (vocabulary.pad, vocabulary.unknown, vocabulary.cls, vocabulary.sep, vocabulary.mask) == (0, 1, 2, 3, 4)
    assert (vocabulary.separators, vocabulary.second) == (1, 1)


def test_words_are_split_into_likely_pieces_with_their_space(tokenizer):
    assert named(tokenizer, "The cat  sat") == ["▁the", "▁cat", "▁sat"]
    assert "".join(named(tokenizer, "walked newest")) == "▁walked▁newest"
    assert named(tokenizer, "天地玄黄")[0].startswith("▁")


def test_text_is_cleaned_as_albert_does(tokenizer):
    assert tokenizer.encode("ＣＡＴ Cát\u00a0cat \x00") == tokenizer.encode("cat cat cat")
    typed = Unigram(size=60, coverage=1.0).train(["``the'' \"cat\" the cat"] * 4)
    assert typed.encode("``the''") == typed.encode('"the"')
    assert typed.vocabulary.unknown not in typed.encode("``the''")


def test_a_cased_tokenizer_keeps_case_and_accents():
    kept = Unigram(size=60, lowercase=False, coverage=1.0).train(["The Élan, the élan"] * 4)
    assert kept.decode(kept.encode("The Élan")) == "The Élan"
    lost = Unigram(size=60, coverage=1.0).train(["The Élan, the élan"] * 4)
    assert lost.decode(lost.encode("The Élan")) == "the elan"
    assert (kept.lowercase, lost.lowercase) == (False, True)


def test_characters_that_are_too_rare_are_unknown():
    text = ["ab" * 50 + " q"]
    assert "<unk>" not in named(Unigram(size=20, coverage=1.0).train(text), "q")
    assert named(Unigram(size=20, coverage=0.98).train(text), "q")[-1] == "<unk>"


def test_a_small_size_drops_the_rarest_characters():
    tokens = Unigram(size=8, coverage=1.0).train(["天 天 天 地 地 人"]).vocabulary.tokens
    assert set(tokens) == {*SPECIAL, "▁", "天", "地"}


def test_pieces_never_mix_letters_digits_and_symbols(tokenizer):
    assert PARTS.findall("▁don't▁ab12_x▁中文ab，。▁") == [
        "▁don", "'", "t", "▁ab", "12", "_", "x", "▁中文", "ab", "，。", "▁",
    ]  # fmt: skip
    assert not any(any(sign in token[1:] for sign in ",.;，。") for token in tokenizer.vocabulary.tokens[5:])


def test_a_written_mask_is_the_mask_only_in_encode(tokenizer):
    assert named(tokenizer, "the [MASK] sat") == ["▁the", "[MASK]", "▁sat"]
    assert "[MASK]" not in named_plain(tokenizer, "the [MASK]")
    assert tokenizer.decode(tokenizer.encode("the [MASK] sat")) == "the [MASK] sat"


def named_plain(tokenizer, text):
    return tokenizer.vocabulary.names(tokenizer.encode_plain(text))


def test_decoded_text_is_readable(tokenizer):
    for text in ("the cat sat, the mat.", "天地玄黄，我们的宇宙。", "the 天地"):
        assert tokenizer.decode(tokenizer.encode(text)) == text.replace("，", ",")
    tokens = [2, *tokenizer.encode("the cat"), 3, *tokenizer.encode("sat"), 3]
    assert tokenizer.decode(tokens) == "[CLS] the cat [SEP] sat [SEP]"
    assert tokenizer.readable(tokenizer.encode("cat")[0]) == "▁cat"


def test_offsets_exclude_the_space(tokenizer):
    assert tokenizer.offsets("The cat  sat") == [(0, 3), (4, 7), (9, 12)]


def test_a_token_continues_a_word_unless_it_has_a_space(tokenizer):
    vocabulary = tokenizer.vocabulary
    for token, continues in zip(vocabulary.tokens, vocabulary.is_continuation, strict=True):
        assert continues == (token not in SPECIAL and not token.startswith("▁"))


SCRIPT = """
from plmkit.tokenizers.unigram import Unigram
words = ["".join(chr(97 + i * step % 25) for step in (1, 7, 11, 13)) for i in range(1000)]
chinese = ["".join(chr(0x4e00 + i * step % 400) for step in range(9)) for i in range(300)]
print(Unigram(size=700).train([" ".join(words), "。".join(chinese), "é ü 天地 " * 9]).fingerprint())
"""


def test_the_same_texts_give_the_same_vocabulary_in_every_process():
    runs = [subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True) for _ in range(3)]
    assert len({run.stdout for run in runs}) == 1
    assert len(runs[0].stdout.strip()) == 32
    assert all(run.stderr == b"" for run in runs)


def test_scores_that_depend_on_hashing_are_made_equal():
    scores = {"▁the": -1.0, "ab": -9.0, "x": -8.9999, "y": -8.9998, "z": -5.00001}
    assert in_order(scores, 9) == [("▁the", -1.0), ("z", -5.0), ("ab", -9.0), ("x", -9.0), ("y", -9.0)]
    assert in_order(scores, 4) == [("▁the", -1.0), ("z", -5.0), ("x", -9.0), ("y", -9.0)]


def test_the_order_of_texts_does_not_matter():
    assert Unigram(size=80).train(TEXTS).fingerprint() == Unigram(size=80).train(TEXTS[::-1]).fingerprint()


def test_the_vocabulary_never_exceeds_its_size():
    for size in (7, 30, 50, 90):
        assert len(Unigram(size=size).train(TEXTS).vocabulary) <= size


def test_texts_are_read_once_and_progress_is_reported():
    seen = []
    Unigram(size=80).train((text for text in TEXTS), on_progress=seen.append)
    assert seen == [12]


def test_counting_keeps_a_bounded_number_of_words(monkeypatch):
    monkeypatch.setattr(unigram, "MOST_WORDS", 10)
    words = Unigram().count_words(["often " * 5 + " ".join(f"rare{chr(97 + n)}" for n in range(20))], None)
    assert len(words) == 5
    assert words["▁often"] == 5


def test_only_the_most_frequent_words_of_many_are_trained_on(monkeypatch):
    monkeypatch.setattr(unigram, "MOST_CHARACTERS", 3)
    handed = list(unigram.repeated({"ab": 2, "cd": 9, "ef": 1}, set("abcdef")))
    assert handed == ["cd " * 5, "cd\1 " * 4, "ab ", "ab\1 "]


def test_a_frequent_word_is_one_piece_even_if_no_other_word_contains_it(tokenizer):
    assert {"▁sat", "▁on", "天地玄黄"} <= set(tokenizer.vocabulary.tokens)
    assert not any("\1" in token for token in tokenizer.vocabulary.tokens)


def test_broken_characters_do_not_stop_the_training():
    assert Unigram(size=30).train(["a\ud800b ab \x00"] * 3).encode("ab") != []


@pytest.mark.parametrize("texts", [[], ["", " \n"], ["\x00"]])
def test_no_text_is_refused(texts):
    with pytest.raises(InputError, match="There is no text to train"):
        Unigram().train(texts)


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match=r"tokenizer.size is 6"):
        Unigram(size=6)
    with pytest.raises(SettingError, match=r"tokenizer.coverage is 0"):
        Unigram(coverage=0.0)
