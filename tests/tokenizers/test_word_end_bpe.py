"""GPT-1's BPE: lower-cased words, with `</w>` on the last piece."""

import json
import pickle
import subprocess
import sys

import pytest

from plmkit.errors import InputError, SettingError
from plmkit.tokenizers.byte_bpe import StreamByteBPE
from plmkit.tokenizers.tokenizer import load_tokenizer
from plmkit.tokenizers.word_end_bpe import WordEndBPE

TEXTS = ["The cat sat on the mat, the cat sat.", "newest newer new, lower lowest", "don't stop!"] * 4


@pytest.fixture(scope="module")
def tokenizer():
    return WordEndBPE(size=120).train(TEXTS)


def test_the_last_piece_marks_the_end_of_a_word(tokenizer):
    names = tokenizer.vocabulary.names(tokenizer.encode("The CAT sat."))
    assert names == ["the</w>", "cat</w>", "sat</w>", ".</w>"]
    assert tokenizer.vocabulary.tokens[:2] == ("<unk>", "<|endoftext|>")
    assert (tokenizer.vocabulary.unknown, tokenizer.vocabulary.end) == (0, 1)
    assert tokenizer.vocabulary.lacks(("cls", "sep", "mask", "pad")) == ["cls", "sep", "mask", "pad"]


def test_text_comes_back_in_lower_case_with_its_punctuation(tokenizer):
    assert tokenizer.decode(tokenizer.encode("The cat sat, don't stop! Newest.")) == "the cat sat, don't stop! newest."
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([*ids, 1, *ids]) == "the cat <|endoftext|> the cat"


def test_unseen_characters_are_unknown(tokenizer):
    assert tokenizer.encode("中") == [0]


def test_the_same_texts_give_the_same_vocabulary_in_every_process():
    script = (
        "from plmkit.tokenizers.word_end_bpe import WordEndBPE\n"
        "words = [''.join(chr(97 + i * step % 25) for step in (1, 7, 11, 13)) for i in range(2000)]\n"
        "print(WordEndBPE(size=600, min_frequency=1).train([' '.join(words)]).fingerprint())"
    )
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, check=True) for _ in range(2)]
    assert len({run.stdout for run in runs}) == 1


def test_a_saved_or_pickled_tokenizer_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    for again in (load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tokenizer))):
        assert again.vocabulary == tokenizer.vocabulary
        assert again.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])
        assert again.fingerprint() == tokenizer.fingerprint()


def test_ids_are_those_of_transformers(tokenizer, tmp_path):
    from transformers import AutoTokenizer, OpenAIGPTTokenizer

    tokenizer.save(tmp_path / "ours")
    theirs = OpenAIGPTTokenizer.from_pretrained(tmp_path / "ours")
    auto = AutoTokenizer.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    back = load_tokenizer(tmp_path / "theirs")
    for text in (*TEXTS, "Zebra  crossing;  HÉLLO 123"):
        wanted = tokenizer.encode(text)
        assert theirs(text)["input_ids"] == auto(text)["input_ids"] == back.encode(text) == wanted


def write_released(folder, encoder, merges):
    """GPT-1's files, tiny."""
    letters = ["a", "b", "a</w>", "b</w>"]
    numbers = {token: number for number, token in enumerate(["<unk>", *letters, "ab</w>", "\n</w>"])}
    (folder / encoder).write_text(json.dumps(numbers))
    (folder / merges).write_text("#version: 0.2\na b</w>\n")


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder_bpe_40000.json", "vocab_40000.bpe")])
@pytest.mark.parametrize("given", ["the folder", "the vocabulary", "the merges"])
def test_the_released_files_separate_texts_by_a_line_break(tmp_path, names, given):
    write_released(tmp_path, *names)
    places = {"the folder": tmp_path, "the vocabulary": tmp_path / names[0], "the merges": tmp_path / names[1]}
    ours = load_tokenizer(places[given])
    assert ours.vocabulary.names(ours.encode("AB a b")) == ["ab</w>", "a</w>", "b</w>"]
    assert ours.vocabulary.end == 6
    assert len(ours.vocabulary) == 7  # nothing is added
    assert ours.decode([5, 6, 5]) == "ab\nab"


def test_the_released_vocabulary_takes_the_merges_that_were_published_with_it(tmp_path):
    write_released(tmp_path, "encoder_bpe_40000.json", "vocab_40000.bpe")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nb a</w>\n")  # of another vocabulary
    ours = load_tokenizer(tmp_path)
    assert ours.vocabulary.names(ours.encode("ab")) == ["ab</w>"]


def test_the_released_vocabulary_without_its_merges_is_refused(tmp_path):
    write_released(tmp_path, "encoder_bpe_40000.json", "vocab_40000.bpe")
    (tmp_path / "vocab_40000.bpe").unlink()
    with pytest.raises(
        InputError, match=r"BPE also needs one of merges.txt, vocab.bpe, vocab_40000.bpe in the same folder"
    ):
        load_tokenizer(tmp_path)


def test_a_gpt1_is_pretrained_with_the_released_files(tmp_path, plm):
    (tmp_path / "gpt1").mkdir()
    write_released(tmp_path / "gpt1", "encoder_bpe_40000.json", "vocab_40000.bpe")
    (tmp_path / "text.txt").write_text("ab a b ab\n\n" * 200)
    ran = plm("pretrain", "gpt1-tiny", tmp_path / "text.txt", "--out", tmp_path / "run", "--steps", 3,
              "--tokenizer", tmp_path / "gpt1", "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    released = load_tokenizer(tmp_path / "gpt1").vocabulary.tokens
    assert load_tokenizer(tmp_path / "run").vocabulary.tokens[: len(released)] == released


@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_no_text_is_refused(texts):
    with pytest.raises(InputError, match="no vocabulary can be built"):
        WordEndBPE().train(texts)


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match=r"tokenizer.size is 2, but the special tokens alone take 2"):
        WordEndBPE(size=2)
    with pytest.raises(SettingError, match=r"tokenizer.min_frequency is 0"):
        WordEndBPE(min_frequency=0)
    with pytest.raises(
        SettingError, match=r"tokenizer.size is 256, but the bytes and the end-of-text token alone take 257"
    ):
        StreamByteBPE(size=256)


# GPT-2's


def test_gpt2s_only_special_token_is_the_end_of_text_and_comes_last(tmp_path):
    from transformers import AutoTokenizer

    ours = StreamByteBPE(size=300).train(["the cat sat on the mat, the cat sat."] * 3)
    vocabulary = ours.vocabulary
    assert vocabulary.special == {len(vocabulary) - 1}
    assert vocabulary.tokens[-1] == "<|endoftext|>"
    assert vocabulary.end == len(vocabulary) - 1
    assert vocabulary.tokens[:3] == ("!", '"', "#")  # bytes first, in GPT-2's order
    assert vocabulary.frame(1) == ([], [], [])
    ours.save(tmp_path)
    assert load_tokenizer(tmp_path).vocabulary == vocabulary  # by the settings next to it
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.eos_token_id == theirs.bos_token_id == vocabulary.end
    for text in ("The cat\nsat 😀", "one<|endoftext|>two", "天地玄黄"):
        assert theirs(text)["input_ids"] == ours.encode(text)


def test_gpt2_keeps_line_breaks():
    ours = StreamByteBPE(size=300).train(["the cat sat on the mat"] * 3)
    assert ours.with_spaces(["One.", "Two."], first=True) == ["One.", " Two."]
    assert ours.with_spaces(["Three.", "Four."], first=False) == ["\nThree.", " Four."]
    assert ours.with_spaces(["天地。"], first=False) == ["\n天地。"]
    assert ours.with_spaces([], first=False) == []


def test_bare_files_of_gpt2_get_only_the_needed_special_tokens(tmp_path):
    StreamByteBPE(size=300).train(["the cat sat on the mat"] * 3).save(tmp_path / "whole")
    (tmp_path / "bare").mkdir()
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "bare" / name).write_bytes((tmp_path / "whole" / name).read_bytes())
    whole = load_tokenizer(tmp_path / "whole").vocabulary
    assert load_tokenizer(tmp_path / "bare", needed=("end",)).vocabulary == whole
    assert len(load_tokenizer(tmp_path / "bare").vocabulary) == len(whole) + 5  # those of a masked model


def test_task_tokens_come_after_the_last_token():
    ours = StreamByteBPE(size=300).train(["the cat sat on the mat"] * 3)
    grown = ours.with_tokens({"cls": "_start_", "sep": "_delimiter_", "extract": "_classify_"})
    size = len(ours.vocabulary)
    assert len(grown.vocabulary) == size + 3
    assert grown.vocabulary.frame(2) == ([size], [size + 1], [size + 2])
    assert grown.vocabulary.frame(1) == ([size], [], [size + 2])
    assert grown.vocabulary.end == ours.vocabulary.end
    assert pickle.loads(pickle.dumps(grown)).vocabulary == grown.vocabulary


def test_settled_tokens_decode_the_same_whatever_follows(tokenizer):
    text = "the cat sat - don't stop! newest-new, the <|endoftext|> cat's mat."
    names = tokenizer.vocabulary.names(tokenizer.encode(text))
    whole = tokenizer.kind.join(names, {})
    for count in range(len(names) + 1):
        settled = tokenizer.kind.settled(names[:count])
        assert settled <= count
        assert whole.startswith(tokenizer.kind.join(names[:settled], {})), names[:settled]
    assert tokenizer.kind.settled(names) >= len(names) - 3
