import hashlib
import subprocess
import sys

import pytest

from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.errors import InputError, SettingError
from plmkit.tokenizers import wordpiece
from plmkit.tokenizers.wordpiece import WordPiece, count_pieces

TEXTS = [
    "The lowest of the low, lower than low.",
    "newer and newest; the new widest wide.",
    "天地玄黄，宇宙洪荒。",
] * 3


def test_a_vocabulary_is_special_tokens_then_characters_then_pieces():
    tokens = WordPiece(size=12, min_frequency=1).train(["aab aab aab ab"]).vocabulary.tokens
    assert tokens == (*SPECIAL_TOKENS, "a", "b", "##a", "##b", "aa", "aab", "ab")


def test_frequent_words_become_one_token():
    tokenizer = WordPiece(size=200).train(TEXTS)
    assert tokenizer.vocabulary.names(tokenizer.encode("the newest low")) == ["the", "newest", "low"]


def test_chinese_is_tokenized_by_character():
    tokenizer = WordPiece(size=200).train(TEXTS)
    assert tokenizer.vocabulary.names(tokenizer.encode("宇宙洪荒。天地")) == list("宇宙洪荒。天地")
    assert not any(token in tokenizer.vocabulary.tokens for token in ("宇宙", "##宙"))


def test_a_cased_tokenizer_keeps_case():
    assert "The" in WordPiece(size=200, lowercase=False).train(TEXTS).vocabulary.tokens
    assert "The" not in WordPiece(size=200).train(TEXTS).vocabulary.tokens


def test_characters_below_min_frequency_are_unknown():
    tokenizer = WordPiece(size=100, min_frequency=2).train(["好 好 坏 ab ab qb"])
    assert tokenizer.vocabulary.names(tokenizer.encode("好坏")) == ["好", "[UNK]"]
    assert not {"坏", "q", "qb"} & set(tokenizer.vocabulary.tokens)


def test_a_small_size_drops_the_rarest_characters():
    tokens = WordPiece(size=7, min_frequency=1).train(["天 天 天 地 地 人"]).vocabulary.tokens
    assert tokens == (*SPECIAL_TOKENS, "地", "天")


def test_every_frequent_character_comes_before_any_word():
    characters = "".join(map(chr, range(0x4E00, 0x4E00 + 3000)))
    tokenizer = WordPiece(size=3100).train([characters, characters, "word word"])
    assert tokenizer.vocabulary.unknown not in tokenizer.encode(characters)


def test_a_small_corpus_gives_a_small_vocabulary():
    assert len(WordPiece(size=30522).train(["low low"]).vocabulary) == 5 + 3 + 2 + 2


def test_the_vocabulary_never_exceeds_its_size():
    for size in (6, 20, 40, 60):
        assert len(WordPiece(size=size, min_frequency=1).train(TEXTS).vocabulary) == size


SCRIPT = """
import hashlib
from plmkit.tokenizers.wordpiece import WordPiece
words = ["".join(chr(97 + i * step % 25) for step in (1, 7, 11, 13)) for i in range(3000)]
tokens = WordPiece(size=900, min_frequency=1).train([" ".join(words), "é ü 天地 " * 9]).vocabulary.tokens
print(hashlib.sha256("\\n".join(tokens).encode()).hexdigest())
"""


def test_the_same_texts_give_the_same_vocabulary_in_every_process():
    runs = [subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True) for _ in range(3)]
    assert len({run.stdout for run in runs}) == 1
    assert len(runs[0].stdout.strip()) == hashlib.sha256().digest_size * 2
    assert all(run.stderr == b"" for run in runs)


def test_the_order_of_texts_does_not_matter():
    assert WordPiece(size=80).train(TEXTS).fingerprint() == WordPiece(size=80).train(TEXTS[::-1]).fingerprint()


def test_texts_are_read_once_and_progress_is_reported():
    seen = []
    tokenizer = WordPiece(size=80).train((text for text in TEXTS), on_progress=seen.append)
    assert seen == [9]
    assert tokenizer.fingerprint() == WordPiece(size=80).train(TEXTS).fingerprint()


def test_counting_keeps_a_bounded_number_of_pieces(monkeypatch):
    monkeypatch.setattr(wordpiece, "MOST_PIECES", 10)
    pieces = count_pieces(["often " * 5 + " ".join(f"rare{number}" for number in range(50)), "天" * 9])
    assert len(pieces) == 5
    assert (pieces["often"], pieces["天"]) == (5, 9)


def test_words_that_are_always_unknown_are_not_counted():
    assert count_pieces(["a" * 200 + " " + "b" * 201]) == {"a" * 200: 1}


def test_broken_characters_do_not_stop_the_training():
    tokens = WordPiece(size=30, min_frequency=1).train(["a\ud800b \x00 \ufffd ab"]).vocabulary.tokens
    assert tokens == (*SPECIAL_TOKENS, "a", "b", "##b", "ab")


@pytest.mark.parametrize("texts", [[], ["", " \n"], ["\x00\ufffd"], ["abc"]])
def test_text_without_frequent_characters_is_refused(texts):
    with pytest.raises(InputError, match="No character occurs 2 times"):
        WordPiece().train(texts)


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match=r"tokenizer.size is 5"):
        WordPiece(size=5)
    with pytest.raises(SettingError, match=r"tokenizer.min_frequency is 0"):
        WordPiece(min_frequency=0)
