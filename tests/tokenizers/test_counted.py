"""Characters and whole words as tokens."""

import pytest

from plmkit.errors import InputError, SettingError
from plmkit.tokenizers.counted import Characters, Words
from plmkit.tokenizers.tokenizer import load_tokenizer

TEXTS = ["the cat sees the dog.", "我的狗 the"]


def test_characters_are_numbered_by_frequency_after_the_special_tokens():
    made = Characters().train(["abac", "ab"])
    assert made.vocabulary.tokens == ("<unk>", "<|endoftext|>", "a", "b", " ", "c")
    assert made.vocabulary.roles == {"unknown": "<unk>", "end": "<|endoftext|>"}
    assert made.encode("cab d") == [5, 2, 3, 4, 0]
    assert made.decode([5, 2, 3, 4]) == "cab "


def test_a_text_is_its_characters_line_breaks_included():
    made = Characters().train(["a\n\nb 我😀"])
    assert made.vocabulary.names(made.encode_plain("a\n\n我 😀")) == ["a", "\n", "\n", "我", " ", "😀"]
    assert made.decode(made.encode_plain("b\n我 😀")) == "b\n我 😀"
    assert made.with_spaces(["One.", "Two."], first=True) == ["One.", " Two."]


def test_words_are_numbered_by_frequency_and_punctuation_marks_are_words():
    made = Words().train(TEXTS)
    assert made.vocabulary.tokens[:3] == ("<unk>", "<|endoftext|>", "the")
    assert made.vocabulary.names(made.encode("the dog, the 狗.")) == ["the", "dog", "<unk>", "the", "狗", "."]
    assert made.decode(made.encode("the cat sees the dog.")) == "the cat sees the dog."


def test_without_punctuation_words_are_split_at_spaces_only():
    made = Words(punctuation=False).train(["the @-@ cat <unk> sat ."])
    assert made.vocabulary.names(made.encode_plain("cat @-@ <unk> sat.")) == ["cat", "@-@", "<unk>", "<unk>"]


def test_case_is_kept_unless_lowercase_is_set():
    assert Words(lowercase=True).train(["The Cat"]).vocabulary.tokens[2:] == ("cat", "the")
    assert Words().train(["The Cat"]).vocabulary.tokens[2:] == ("Cat", "The")


@pytest.mark.parametrize("kind", [Characters, Words])
def test_the_rarest_are_dropped_by_size_and_min_frequency(kind):
    text = ["a a a b b c" if kind is Words else "aaabbc"]
    assert "c" not in kind(min_frequency=2).train(text).vocabulary.tokens
    assert len(kind(size=4).train(text).vocabulary) == 4


@pytest.mark.parametrize("kind", [Characters(), Words(), Words(punctuation=False, lowercase=True)])
def test_a_saved_tokenizer_comes_back_the_same_and_others_open_it(kind, tmp_path):
    made = kind.train(TEXTS)
    made.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.fingerprint() == made.fingerprint()
    assert again.vocabulary == made.vocabulary
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in (*TEXTS, "The cat, the 😀"):
        assert theirs(text, add_special_tokens=False)["input_ids"] == made.encode(text)
    assert theirs.eos_token == "<|endoftext|>"


@pytest.mark.parametrize("kind", [Characters, Words])
def test_impossible_settings_are_refused(kind):
    with pytest.raises(SettingError, match=r"tokenizer\.size is 2"):
        kind(size=2)
    with pytest.raises(SettingError, match="min_frequency is 0"):
        kind(min_frequency=0)
    with pytest.raises(InputError, match="no text"):
        kind().train(["  "])
