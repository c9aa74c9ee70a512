import json
import os
import random

import numpy as np
import pytest

from plmkit.data.survey import count_scripts, sampled
from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.preparation.preview import masked_units
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.tokenizer import bert_tokenizer
from plmkit.training import memory as room

WORDS = ". 。 the cat sees a house dog likes sea bird hears moon king calls"
TEXT = """The cat sees a house. The dog likes the sea.
A bird hears the moon.

The cat sees a house. The dog likes the sea.
A bird hears the moon.

我的狗很可爱。企鹅不擅长飞行。

the king calls the \N{REPLACEMENT CHARACTER}.
zq the king.
"""


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    tokens = [*SPECIAL_TOKENS, *WORDS.split(), *sorted(set("我的狗很可爱企鹅不擅长飞行"))]
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_every_count_is_exact(small, vocabulary, plm):
    ran = plm("doctor", small, "--tokenizer", vocabulary, "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert found["documents"] == 4
    assert found["sentences"] == 10
    assert found["tokens"] == 18 + 18 + 15 + 9
    assert found["vocabulary"] == len(SPECIAL_TOKENS) + len(WORDS.split()) + 13
    assert found["duplicate_share"] == 1 / 4
    assert found["unknown_share"] == 1 / 60  # zq
    assert found["replaced"] == 1
    assert found["replaced_at"] == f"{small}, line 9"
    assert found["lines"] == 7
    assert (found["longest_line"], found["longest_line_at"]) == (44, f"{small}, line 1")
    letters = sum(character.isascii() and character.isalpha() for character in TEXT)
    assert found["languages"] == {
        "Chinese": round(13 / (13 + letters), 4),
        "Latin": round(letters / (13 + letters), 4),
        "other": 0.0,
    }
    assert found["sources"] == {str(small): 1.0}
    assert found["held_out"] == 1


def test_three_examples_are_shown_as_the_model_sees_them_and_as_they_were(small, vocabulary, plm):
    ran = plm("doctor", small, "--tokenizer", vocabulary, "--json")
    assert len(ran.json["preview"]) == 3
    for seen, whole in ran.json["preview"]:
        assert seen.startswith("[CLS] ")
        assert seen.endswith("[SEP]")
        assert "[MASK]" not in whole
        assert whole.count("[SEP]") == 2
    assert any("[MASK]" in seen for seen, _ in ran.json["preview"])
    said = plm("doctor", small, "--tokenizer", vocabulary).out
    for seen, whole in ran.json["preview"]:
        assert seen in said
        assert whole in said


def test_the_examples_are_those_of_the_first_batch_of_training(small, vocabulary, plm):
    first, second, other = (
        plm("doctor", small, "--tokenizer", vocabulary, "--json", "--seed", seed).json["preview"] for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_what_is_wrong_is_said_with_what_to_do(small, vocabulary, plm):
    long = small.with_name("long.txt")
    long.write_text("word " * 3000 + "\n\n" + TEXT, encoding="utf-8")
    said = plm("doctor", long, "--tokenizer", vocabulary).out
    assert "tokens are few" in said
    assert "20% of the documents are duplicates; remove them" in said
    assert "of the tokens are unknown to the vocabulary" in said
    assert f"Lines over 10,000 characters: 1. The longest has 14,999 ({long}, line 1)." in said
    assert f"Characters lost to U+FFFD: 1, the first in {long}, line 11. The text was once decoded" in said


def test_of_a_single_document_nothing_is_held_out_and_this_is_reported(small, vocabulary, plm):
    one = small.with_name("one.txt")
    one.write_text(TEXT.replace("\n\n", "\n"), encoding="utf-8")
    reported = ["doctor", one, "--tokenizer", vocabulary, "--set", "run.layout=document-per-file", "--json"]
    alone = plm(*reported, "--set", "sentence_task=none").json
    assert alone["documents"] == 1
    assert any("single document, so nothing is held out" in warning for warning in alone["warnings"])
    assert not any("held out" in warning for warning in plm("doctor", small, "--json").json["warnings"])


def test_a_text_smaller_than_a_batch_is_reported(small, vocabulary, plm):
    found = plm("doctor", small, "--tokenizer", vocabulary, "--set", "schedule.batch=64", "--json").json
    assert (
        f"Rows per epoch: {found['examples']}, fewer than a batch (schedule.batch=64): every step reads "
        "the whole text. Add text, or use a smaller batch."
    ) in found["warnings"]


def test_several_corpora_are_weighed_by_tokens(small, vocabulary, plm, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("the cat sees. the dog likes the sea.\n\nthe moon. the sea.\n", encoding="utf-8")
    found = plm("doctor", small, more, "--tokenizer", vocabulary, "--json").json
    assert found["documents"] == 6
    assert found["sources"] == {str(small): round(60 / 76, 4), str(more): round(16 / 76, 4)}


def test_examples_are_counted_for_the_recipe_that_is_named(plm, tmp_path):
    rng = random.Random(0)
    path = tmp_path / "corpus.txt"
    sentences = [" ".join(rng.choices("abcdefgh", k=20)) + "." for _ in range(400)]
    path.write_text("\n\n".join("\n".join(sentences[i : i + 20]) for i in range(0, 400, 20)), encoding="utf-8")
    short, long = (
        plm("doctor", path, "--json", "--recipe", "bert-base", "--set", f"stages=[[1.0, {length}]]").json
        for length in (64, 256)
    )
    assert short["examples"] > 2 * long["examples"]
    assert short["tokens_per_example"] <= 61
    assert 128 < long["tokens_per_example"] <= 253


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no text in"),
        (b" \n\n \n", "no text in"),
        (b"\x7fELF\x02\x01\x00\x00\x00 text", "not text"),
        (b"a line.\nanother\0line.\n", "line 2"),
        (b"a line.\nanother line.\n\xff\xfe\xfa broken.\n", "line 3"),
        (b"One sentence.\n\nAnother one.\n\nA third.\n", "has two sentences"),
        (b"One document. Of two sentences.\n", "the corpus has 1 document to train on"),
    ],
    ids=["empty", "blank", "program", "zero-byte", "not-utf-8", "no-pairs", "one-document"],
)
def test_what_cannot_train_is_refused_by_doctor_and_by_pretrain(content, complaint, plm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_bytes(content)
    for command in (["doctor", path], ["pretrain", "bert-tiny", path, "--out", tmp_path / "out", "--steps", 1]):
        ran = plm(*command, "--set", "run.layout=blank-lines")
        assert ran.code == 2
        assert ran.out == ""
        message = ran.err[ran.err.index("plm: ") :]
        assert complaint in message
        assert "corpus.txt" in message
        assert len(message.splitlines()) <= 3
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("setting", "weights"),
    [("architecture.width=1e9", "at least 4,000,000,000,000,000,000"), ("architecture.max_length=3e6", "771,301,155")],
)
def test_a_recipe_that_no_memory_here_holds_is_warned_about(setting, weights, small, vocabulary, plm, monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda device: 8_000_000_000)
    command = ("doctor", small, "--tokenizer", vocabulary, "--json")
    reported = plm(*command, "--set", setting).json["warnings"][-1]
    assert reported.startswith(f"bert-mini with these settings has {weights} weights: ")
    assert " and 8.0 GB are free on this machine. Lower architecture." in reported
    assert "GB are free" not in " ".join(plm(*command).json["warnings"])


def test_rows_from_left_to_right_are_shown_with_what_follows(small, plm):
    chosen = ("--recipe", "gpt2-tiny", "--set", "stages=[[1.0,16]]")
    found = plm("doctor", small, *chosen, "--json").json
    for (seen, asked), units in zip(found["preview"], found["hidden"], strict=True):
        assert seen != asked
        assert seen[-5:-1] in asked  # the same text, one token on
        assert units == []
    assert any("<|endoftext|>" in seen for seen, _ in found["preview"])
    assert "the next token at each position" in plm("doctor", small, *chosen).out


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("i'll go with the well-known men", ["known", "men"]),
        ("well-known men don't go", ["t", "go"]),
        ("the men's well-known men", ["s", "known"]),
        ("the well-known men", ["-"]),
    ],
)
def test_a_colour_covers_its_word_after_a_hyphen_and_an_apostrophe(text, units):
    tokenizer = bert_tokenizer(
        [*SPECIAL_TOKENS, *"i ' ll go with the well - known men don t s".split()], lowercase=True
    )
    tokens = tokenizer.encode(text)
    whole = tokenizer.decode(tokens)
    assert whole == text
    names = tokenizer.vocabulary.names(tokens)
    last = [len(names) - 1 - names[::-1].index(unit) for unit in units]
    hidden = np.isin(np.arange(len(tokens)), last)
    spans = masked_units(tokens, hidden, np.ones(len(tokens), dtype=bool), tokenizer.decode)
    assert [whole[begin:end] for begin, end in spans] == units


def test_a_colour_covers_the_character_whose_bytes_are_hidden_and_the_break_that_is():
    tokenizer = ByteBPE(size=300).train(["a b"])
    tokens = tokenizer.encode("a 狗\nb")
    whole = tokenizer.decode(tokens)
    assert whole == "a 狗\nb"
    assert len(tokens) == 7  # three of them are the bytes of one character
    for place, covered in {0: "a", 1: " ", 2: "狗", 3: "狗", 4: "狗", 5: "\n", 6: "b"}.items():
        hidden = np.arange(7) == place
        ((begin, end),) = masked_units(tokens, hidden, np.ones(7, dtype=bool), tokenizer.decode)
        assert whole[begin:end] == covered


LINES = ["The cat sees a house. It is red.", "The dog likes the sea.", "A bird hears the moon, and it sings all night."]


@pytest.mark.parametrize(
    ("layout", "between", "line"),
    [("document-per-line", "\n", 6), ("document-per-line", "\n\n", 11), ("document-per-file", "\n", 6),
     ("document-per-file", "\n\n", 11), ("blank-lines", "\n", 6)],
)  # fmt: skip
def test_the_longest_line_is_the_one_that_is_named(layout, between, line, plm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(between.join([*LINES[:2], *LINES[:2], LINES[1], LINES[2], LINES[0]]) + "\n", encoding="utf-8")
    found = plm("doctor", path, "--set", f"run.layout={layout}", "--set", "sentence_task=none", "--json").json
    assert path.read_text(encoding="utf-8").split("\n")[line - 1] == LINES[2]
    assert (found["longest_line"], found["longest_line_at"]) == (len(LINES[2]), f"{path}, line {line}")


def marked_up(path, lines):
    plain = ["The cat sees a house. 3 < 4 & 5 > 4.", "- He came, she saw #1 *there*.", "AT&T; a_b_c [1] (see 2)."] * 16
    path.write_text("\n".join([*plain, *lines, *plain]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("HTML", ["<p>The <b>cat</b>.</p>", "a line<br/>", "of&nbsp;all", '<a href="x.html">here</a>']),
        ("Markdown", ["## A title", "```python", "|---|:--:|", "see [here](http://x.org/a)", "**bold** words"]),
    ],
)
def test_markup_is_remarked_with_its_share_and_first_line(kind, lines, plm, tmp_path):
    path = marked_up(tmp_path / "corpus.txt", lines)
    (reported,) = [
        warning
        for warning in plm("doctor", path, "--set", "sentence_task=none", "--json").json["warnings"]
        if "HTML" in warning or "Markdown" in warning
    ]
    share = f"{100 * len(lines) / (96 + len(lines)):.1f}%"
    assert reported == (
        f"{kind} in {len(lines)} lines ({share}), the first in {path}, line 49: the model would learn the markup as "
        f"text. `pandoc -f {kind.lower()} -t plain --wrap=none` converts a file to plain text."
    )


def test_plain_text_is_not_taken_for_markup(plm, tmp_path):
    path = marked_up(tmp_path / "corpus.txt", [])
    found = plm("doctor", path, "--set", "sentence_task=none", "--json").json
    assert (found["lines"], found["html_lines"], found["markdown_lines"]) == (96, 0, 0)
    assert (found["html_at"], found["markdown_at"]) == ("", "")


@pytest.fixture
def folder(tmp_path):
    """Three files that can be read, three that cannot, and one that is empty."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("b", "d", "f"):
        (folder / f"{name}.txt").write_text(TEXT.replace("\N{REPLACEMENT CHARACTER}", name), encoding="utf-8")
    (folder / "a.txt").write_bytes(b"One line.\n\nAnother\0line.\n")
    (folder / "c.jsonl").write_text('{"text": "A sentence. And one more."}\n{"text": 3\n', encoding="utf-8")
    (folder / "e.txt.gz").write_bytes(b"no gzip at all")
    (folder / "g.txt").write_bytes(b"")
    return folder


def test_every_bad_file_of_a_folder_is_reported_and_then_the_rest(folder, plm):
    ran = plm("doctor", folder, "--json")
    assert ran.code == 2
    found = ran.json
    assert list(found["bad_files"]) == [str(folder / name) for name in ("a.txt", "c.jsonl", "e.txt.gz")]
    reported = list(found["bad_files"].values())
    assert reported[0] == f"{folder / 'a.txt'}, line 3: binary data (a NUL byte), not text. Give plain text files."
    assert reported[1].startswith(f"{folder / 'c.jsonl'}, line 2: not JSON")
    assert reported[2].startswith(f"{folder / 'e.txt.gz'} is not a valid .gz file")
    assert found["documents"] == 3 * 4
    said = plm("doctor", folder).out
    assert said.startswith(
        "! 3 files cannot be read; pretraining refuses the corpus until this is fixed. "
        f"The report covers the others.\n- {reported[0]}\n- {reported[1]}\n- {reported[2]}\n"
    )
    assert "documents     12," in said
    assert "example 1" in said


def test_pretraining_refuses_a_folder_with_a_bad_file(folder, plm, tmp_path):
    ran = plm("pretrain", "bert-tiny", folder, "--out", tmp_path / "out", "--steps", 1)
    assert (ran.code, ran.out) == (2, "")
    assert f"plm: {folder / 'a.txt'}, line 3: binary data" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_corpus_of_bad_files_alone_is_left_out_of_several_and_refused_alone(folder, small, plm):
    bad = [folder / "a.txt", folder / "c.jsonl"]
    ran = plm("doctor", *bad, small, "--json")
    assert (ran.code, list(ran.json["sources"]), len(ran.json["bad_files"])) == (2, [str(small)], 2)
    alone = plm("doctor", *bad)
    assert (alone.code, alone.out) == (2, "")
    assert alone.err.startswith(f"plm: None of the 2 files can be read.\n{bad[0]}, line 3: binary data")
    assert f"\n{bad[1]}, line 2: not JSON" in alone.err


ONE_LINE = "The cat sees a house. The dog likes the sea. A bird hears the moon. The king calls."


@pytest.mark.parametrize(
    ("text", "by_line"),
    [(ONE_LINE, False), ("\n".join([ONE_LINE] * 3), True), (ONE_LINE.replace(". ", ".\n"), False)],
    ids=["one line", "three lines", "a sentence per line"],
)
def test_only_a_layout_that_helps_is_advised(text, by_line, plm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(text + "\n", encoding="utf-8")
    ran = plm("doctor", path, "--set", "run.layout=document-per-file")
    layout = " treat each line as a document (run.layout=document-per-line)," if by_line else ""
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"plm: {path}, line 1: the corpus has 1 document to train on, but pairs need at least two.\n"
        f"Give at least three documents (in plain text, with blank lines between them),{layout} or train without "
        "pairs: --set sentence_task=none.\n"
    )
    assert plm("doctor", path, "--set", "sentence_task=none").code == 0
    assert (plm("doctor", path, "--set", "run.layout=document-per-line").code == 0) == by_line


def test_of_two_documents_the_one_that_is_held_out_is_named(plm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(f"{ONE_LINE}\n\n{ONE_LINE}\n", encoding="utf-8")
    ran = plm("doctor", path)
    assert (ran.code, ran.out) == (2, "")
    assert "has 1 document to train on and 1 held out (run.valid_share=0 holds none out), but pairs" in ran.err
    assert plm("doctor", path, "--set", "run.valid_share=0").code == 0


def test_each_stage_of_a_recipe_is_shown_on_the_same_row(plm, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(["南京市长江大桥很长。我爱北京天安门。他在清华大学学习。"] * 9), encoding="utf-8")
    found = plm("doctor", path, "--recipe", "ernie-mini", "--json").json
    assert found["stages"] == [0, 1, 2]
    assert len({whole for _, whole in found["preview"]}) == 1
    lengths = [{end - begin for begin, end in units} for units in found["hidden"]]
    assert lengths[0] == {1}  # characters
    assert max(lengths[1] | lengths[2]) > 1
    said = plm("doctor", path, "--recipe", "ernie-mini").out
    for title in (
        "example 1 in stage 1 of 3 (0–33% of the run, streams: character), input of the model",
        "example 2 in stage 2 of 3 (33–67% of the run, streams: phrase), input of the model",
        "example 3 in stage 3 of 3 (67–100% of the run, streams: entity), input of the model",
    ):
        assert title in said


def test_files_whose_names_are_no_utf_8_are_read_and_named(plm, tmp_path, tiny_settings):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, content in {b"caf\xe9.txt": TEXT, b"empty\xe9.txt": "", b"z\xe9.txt": "a \0"}.items():
        with open(os.path.join(os.fsencode(folder), name), "w", encoding="utf-8") as file:
            file.write(content)
    good = folder / os.fsdecode(b"caf\xe9.txt")
    ran = plm("doctor", folder, "--json")
    assert ran.code == 2
    assert ran.json["longest_line_at"] == f"{folder}/caf\\xe9.txt, line 1"
    assert list(ran.json["bad_files"]) == [f"{folder}/z\\xe9.txt"]
    assert "empty\\xe9.txt has no text: skipped." in ran.err
    assert list(plm("doctor", good, "--json").json["sources"]) == [f"{folder}/caf\\xe9.txt"]
    assert f"characters ({folder}/caf\\xe9.txt, line 1)" in plm("doctor", good).out
    command = ("pretrain", "bert-tiny", good, "--out", tmp_path / "out", "--steps", 1, *tiny_settings)
    assert plm(*command).code == 0
    assert json.loads((tmp_path / "out/run.json").read_text(encoding="utf-8"))["corpora"] == [str(good)]
    assert "holds a finished run" in plm(*command).err


def test_scripts_are_counted_all_over_a_block_of_documents():
    english, chinese = "letters " * 5_000, "汉字" * 2_500
    found = count_scripts(sampled(english + chinese))
    assert found[0] / sum(found) == pytest.approx(5_000 / (35_000 + 5_000), abs=0.02)


def test_a_corpus_without_real_next_sentences_is_reported_by_doctor_and_by_pretrain(plm, tmp_path, tiny_settings):
    corpus = tmp_path / "corpus.txt"
    single = [f"the cat sees {number} houses." for number in range(60)]
    corpus.write_text("\n\n".join(["the dog likes the sea.\nthe bird hears the moon.", *single]) + "\n")
    layout = ("--set", "run.layout=blank-lines", "--set", "run.valid_share=0")
    found = plm("doctor", corpus, *layout, "--json").json
    assert (found["documents"], found["single_sentences"], found["following"] in (0, 1)) == (61, 60, True)
    said = (
        f"Real next sentences: {found['following']} in {found['examples']} pairs, as 60 of 61 documents are one "
        "sentence; a next-sentence loss near 0 then means nothing. Separate documents, not sentences, by blank "
        "lines, or train without pairs: --set sentence_task=none."
    )
    assert said in found["warnings"]
    ran = plm("pretrain", "bert-tiny", corpus, "--out", tmp_path / "run", "--steps", 1, *tiny_settings, *layout)
    assert ran.code == 0, ran.err
    assert any(line.startswith("! Real next sentences: ") and "60 of 61" in line for line in ran.err.splitlines())


def test_next_sentences_are_counted_only_where_they_are_predicted_and_few_are_reported_only_if_so(plm, corpus):
    found = plm("doctor", corpus, "--json").json
    assert 0.2 * found["examples"] < found["following"] < 0.8 * found["examples"]
    assert not any("next sentences" in warning for warning in found["warnings"])
    assert plm("doctor", corpus, "--recipe", "roberta-mini", "--json").json["following"] is None
