"""Units from a file that the user brings."""

from pathlib import Path

import pytest

from plmkit.data.text import split_sentences
from plmkit.errors import InputError, SettingError
from plmkit.segmentation.bio import Bio

CHINESE = "我 O\n爱 O\n北 B-LOC\n京 I-LOC\n。 O\n\n清 B-WORK\n明 I-WORK\n上 I-WORK\n河 I-WORK\n图 I-WORK\n"
ENGLISH = "The\tDT\tB-NP\nold\tJJ\tI-NP\nman\tNN\tI-NP\nsees\tVBZ\tO\nNew\tNNP\tB-NP\nYork\tNNP\tI-NP\n.\t.\tO\n"


def write(folder: Path, content: str) -> str:
    path = folder / "units.bio"
    path.write_text(content, encoding="utf-8")
    return str(path)


def units(texts: list[str], settings: Bio, kind: str) -> list[str]:
    joined = "\n".join(texts)
    return [joined[begin:end] for begin, end in getattr(settings.build().spans(texts), kind).tolist()]


def refusal(settings: Bio, *texts: str) -> str:
    with pytest.raises(InputError) as refused:
        settings.build().spans(texts)
    assert len(str(refused.value).splitlines()) <= 3
    return str(refused.value)


def test_sentences_are_found_by_their_text_in_any_order(tmp_path):
    settings = Bio(file=write(tmp_path, CHINESE))
    texts = ["清明上河图", "我爱北京。", "清明 上河图"]
    assert units(texts, settings, "entities") == ["清明上河图", "北京", "清明 上河图"]
    assert units(texts[1:2], settings, "words") == list("我爱北京。")


def test_chunks_are_phrases_and_tokens_are_words(tmp_path):
    settings = Bio(file=write(tmp_path, ENGLISH), level="phrase")
    text = "The old man sees New York."
    assert units([text], settings, "phrases") == ["The old man", "New York"]
    assert units([text], settings, "words") == "The old man sees New York .".split()
    assert units([text], settings, "entities") == []


def test_tags_may_mark_words(tmp_path):
    tags = "语 B\n言 E\n模 B\n型 I\n的 S\n词 O\n"
    assert units(["语言模型的词"], Bio(file=write(tmp_path, tags), level="word"), "words") == "语言 模型 的 词".split()


def test_an_inside_without_a_beginning_begins(tmp_path):
    tags = "a I-X\nb I-X\nc O\nd I-X\n\ne I-X\n"
    assert units(["a b c d", "e"], Bio(file=write(tmp_path, tags)), "entities") == ["a b", "d", "e"]


def test_sentences_may_be_cut_elsewhere_than_in_the_file(tmp_path):
    tags = "".join(f"{letter} O\n" for letter in "他说好。她走了。")
    tags = tags.replace("她 O", "她 B-X") + "\n" + "".join(f"{letter} O\n" for letter in "那么一二三四五六七八九十，")
    tags += "\n十 B-X\n一 I-X\n"
    settings = Bio(file=write(tmp_path, tags))
    assert units(["她走了。"], settings, "entities") == ["她"]  # our rules cut the first in two
    assert units(["那么一二三四五六七八九十，十一"], settings, "entities") == ["十一"]  # and leave these together


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["我爱南京。"], "line 3: differs from the corpus, which has '南京。' after '我爱'; the file has '北京。"),
        (
            ["清明上河"],
            "line 11: differs from the corpus, which has the end of a sentence after '清明上河'; the file has '图'",
        ),
        (
            ["清明上河图画"],
            "line 11: differs from the corpus, which has '画' after '清明上河图'; the file has noth",
        ),
        (["龙"], "line 1: differs from the corpus, which has '龙'; the file has '我爱北京。"),
    ],
)
def test_a_file_out_of_step_is_refused_by_the_line_where_it_departs(texts, says, tmp_path):
    assert f"units.bio, {says}" in refusal(Bio(file=write(tmp_path, CHINESE)), *texts)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("我 O\n爱\n", "units.bio, line 2: '爱' is not a token and its tag."),
        ("我 O\n爱 X-LOC\n", "units.bio, line 2: '爱 X-LOC' is not a token and its tag."),
        ("我 LOC\n", "units.bio, line 1: '我 LOC' is not a token and its tag."),
        ("\n\n", "units.bio has no tokens."),
        ("-DOCSTART- -X- O\n\n", "units.bio has no tokens."),
    ],
)
def test_a_broken_line_is_refused(content, says, tmp_path):
    with pytest.raises(InputError) as refused:
        Bio(file=write(tmp_path, content)).check()
    assert says in str(refused.value)


def test_a_file_is_needed_and_must_be_there_and_be_text(tmp_path):
    with pytest.raises(SettingError, match=r"Bio needs a file: --set corruption\.segmenter\.file="):
        Bio().check()
    with pytest.raises(InputError, match="does not exist"):
        Bio(file=str(tmp_path / "units.bio")).check()
    (tmp_path / "units.bio").write_bytes("我 O\n爱 O\n".encode("gb18030"))
    with pytest.raises(InputError, match=r"units\.bio, line 1: not valid UTF-8"):
        Bio(file=str(tmp_path / "units.bio")).check()


def test_what_it_finds():
    assert Bio(file="x").finds == ("word", "entity")
    assert Bio(file="x", level="word").finds == ("word",)


def test_white_space_that_a_file_of_characters_cannot_show_may_end_a_sentence(tmp_path):
    line = "他住A1. 王明也许不对! 但没错。"
    tags = {"王": "B-PER", "明": "I-PER"}
    content = "".join(f"{letter} {tags.get(letter, 'O')}\n" for letter in line if letter != " ")
    settings = Bio(file=write(tmp_path, f"我 O\n\n{content}\n走 O\n"))
    assert split_sentences(line) == ["他住A1.", "王明也许不对!", "但没错。"]
    assert units(split_sentences(line), settings, "entities") == ["王明"]
    assert "differs from the corpus" in refusal(settings, "王明也许")
    assert "differs from the corpus" in refusal(settings, "住A1.")
