"""Chinese words, phrases and entities."""

import logging
import warnings
from pathlib import Path

import numpy as np
import pytest

from plmkit.errors import InputError, SettingError
from plmkit.segmentation.chinese import Jieba

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jieba
    import jieba.posseg

PLAIN = "使用语言模型来预测下一个词的probability。"
# names and new words that no dictionary has, ambiguous cuts, classical text, lists
SENTENCES = (
    "使用语言模型来预测下一个词的概率。",
    "研究生命的起源，结婚的和尚未结婚的。",
    "南京市长江大桥欢迎您，乒乓球拍卖完了。",
    "张安惠讲述了自己艰辛奋进的早年身世。",
    "小明硕士毕业于中国科学院计算所，后在日本京都大学深造。",
    "这是一个伸手不见五指的黑夜。我叫孙悟空，我爱北京。",
    "李斐岚和布莱科尔去了麦纳麦，钱其琛没去。",
    "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？",
    "工信处女干事每月经过下属科室都要亲口交代交换机等技术性器件的安装工作。",
    "他来到了网易杭研大厦，买了一部华为手机，一晚没睡。",
)


@pytest.fixture(scope="module")
def own_jieba():
    """jieba itself, without the cache file that it keeps in the folder for temporary files."""
    jieba.setLogLevel(logging.CRITICAL)
    tokenizer = jieba.Tokenizer()
    with open(Path(jieba.__file__).with_name("dict.txt"), "rb") as file:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(file)
    tokenizer.initialized = True
    return tokenizer


def units(text: str, settings: Jieba, kind: str = "words") -> list[str]:
    return [text[begin:end] for begin, end in getattr(settings.build().spans([text]), kind).tolist()]


def test_words_are_found_and_english_stays_whole():
    assert units(PLAIN, Jieba()) == "使用 语言 模型 来 预测 下 一个 词 的 probability 。".split()


@pytest.mark.parametrize("word", ["乒乓球", "清明上河图", "五颜六色"])
def test_words_that_one_could_guess_from_their_parts_are_one_unit(word):
    assert units(word, Jieba()) == [word]


@pytest.mark.parametrize("unlisted", [True, False])
def test_the_words_are_those_of_jieba_itself(unlisted, own_jieba):
    segmenter = Jieba(unlisted=unlisted).build()
    text = "\n".join(SENTENCES)
    found = [text[begin:end] for begin, end in segmenter.spans(SENTENCES).words.tolist()]
    assert found == [word for line in SENTENCES for word in own_jieba.lcut(line, HMM=unlisted)]


@pytest.mark.parametrize(
    ("text", "ours", "jiebas"),
    [
        ("买了AT恤", "买 了 AT 恤", "买 了 A T恤"),
        ("一件T恤", "一件 T恤", "一件 T恤"),  # where letters begin, both find it
        ("ABP机响了", "ABP 机 响 了", "A BP机 响 了"),
        ("café店", "café 店", "caf é 店"),
        ("全角ＡＢ字", "全角 ＡＢ 字", "全角 Ａ Ｂ 字"),
        ("1,000元", "1,000 元", "1 , 000 元"),
        ("第1.2.3版", "第 1.2.3 版", "第 1.2 . 3 版"),
        ("3.14%的GPU用v2.0", "3.14% 的 GPU 用 v2.0", "3.14% 的 GPU 用 v2.0"),
    ],
)
def test_next_to_letters_and_digits_a_run_of_them_stays_whole_where_jieba_cuts_it(text, ours, jiebas, own_jieba):
    assert units(text, Jieba()) == ours.split()
    assert own_jieba.lcut(text) == jiebas.split()


def test_with_tags_the_words_are_the_same():
    plain, tagged = (Jieba(level=level).build().spans(SENTENCES).words for level in ("word", "entity"))
    assert np.array_equal(plain, tagged)


def placed(pairs: list[tuple[str, str]]) -> dict[tuple[int, str], str]:
    """The tag of each word by its place."""
    ends = np.cumsum([len(word) for word, _ in pairs]).tolist()
    return {(end, word): tag for end, (word, tag) in zip(ends, pairs, strict=True)}


def test_tags_are_those_of_jiebas_tagger(own_jieba):
    """Nearly: jieba cuts unlisted words once more by a model of its tagger, rjieba tags the words that it cut."""
    tagger, ours = jieba.posseg.POSTokenizer(own_jieba), Jieba(level="entity").build().jieba
    same = other = alone = 0
    for line in SENTENCES:
        found, theirs = placed(ours.tag(line)), placed([(pair.word, pair.flag) for pair in tagger.lcut(line)])
        for key, tag in found.items():
            same += theirs.get(key) == tag
            other += key in theirs and theirs[key] != tag
            alone += key not in theirs
    assert (same, other, alone) == (118, 1, 7)


def test_words_of_the_user_win_as_they_do_in_jieba(own_jieba, tmp_path):
    path, entries = tmp_path / "words.txt", {"多头注意力": None, "自注意": 3, "大语言模型": 5000, "桥欢": None}
    path.write_text("".join(f"{word} {frequency or ''}\n" for word, frequency in entries.items()), encoding="utf-8")
    theirs = jieba.Tokenizer()
    theirs.FREQ, theirs.total, theirs.initialized = dict(own_jieba.FREQ), own_jieba.total, True
    for word, frequency in entries.items():
        theirs.add_word(word, frequency)
    for text in ("多头注意力和自注意力", "大语言模型很强", *SENTENCES):
        assert units(text, Jieba(dictionary=str(path))) == theirs.lcut(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2018年GPU降价3.14%", "2018 年 GPU 降价 3.14%"),
        ("1,000元，v2.0版", "1,000 元 ， v2.0 版"),
        ("全角ＡＢＣ１２３字", "全角 ＡＢＣ１２３ 字"),
        ("好的😀走👩\u200d💻了❤\ufe0f", "好 的 😀 走 👩\u200d💻 了 ❤\ufe0f"),
        ("㐂龘", "㐂 龘"),
        ("cafe\u0301店 naïve", "cafe\u0301 店 naïve"),
        ("T恤和AT恤", "T恤 和 AT 恤"),  # no word begins amid letters
        ("x86的C++", "x86 的 C++"),
        ("他说：“好！”", "他 说 ： “ 好 ！ ”"),
        ("  语言\u3000模型 ", "语言 模型"),
        ("", ""),
    ],
)
def test_mixed_text(text, words):
    assert units(text, Jieba()) == words.split()


def test_texts_do_not_touch_each_other():
    segmenter = Jieba(unlisted=False).build()
    assert segmenter.spans(["语", "言模", "型"]).words.tolist() == [[0, 1], [2, 3], [3, 4], [5, 6]]
    assert len(segmenter.spans([]).words) == 0
    assert segmenter.spans(["", "语言", ""]).words.tolist() == [[1, 3]]


def test_a_dictionary_makes_words(tmp_path):
    path = tmp_path / "words.txt"
    text = "多头注意力和大语言模型很强"
    assert "多头注意力" not in units(text, Jieba())
    path.write_text("\ufeff多头注意力\r\n\r\n大语言模型 5000 nz\r\n很强 a\r\n", encoding="utf-8")
    settings = Jieba(dictionary=str(path), level="entity")
    assert units(text, settings) == "多头注意力 和 大语言模型 很强".split()
    assert units(text, settings, "entities") == ["大语言模型"]  # by its tag


def test_entities_are_names_titles_dates_and_what_a_lexicon_lists(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("语言模型\n大语言模型\tTECH\nGPU\n", encoding="utf-8")
    text = "2018年3月，毛泽东和乔治·华盛顿在北京大学看《清明上河图》，大语言模型用GPU不用GPUS。"
    named = units(text, Jieba(level="entity", lexicon=str(path)), "entities")
    assert named == ["2018年3月", "毛泽东", "乔治·华盛顿", "北京大学", "清明上河图", "大语言模型", "GPU"]
    assert units(text, Jieba(level="entity"), "entities") == named[:5]
    assert units(text, Jieba(level="phrase"), "entities") == []


def test_phrases_are_nouns_with_what_modifies_them():
    text = "使用语言模型，重要的方向，大型客运机场，他走了"
    assert units(text, Jieba(level="phrase"), "phrases") == ["语言模型", "大型客运机场"]
    assert units(text, Jieba(level="word"), "phrases") == []


def test_units_never_overlap():
    found = Jieba(level="entity").build().spans([*SENTENCES, "《北京大学》2018年《一》"] * 3)
    for spans in (found.words, found.phrases, found.entities):
        assert (np.diff(spans.reshape(-1)) >= 0).all()
        assert (spans[:, 1] > spans[:, 0]).all()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("语言 12 n\n模型 12 n extra\n".encode(), "words.txt, line 2: '模型 12 n extra' is not a dictionary entry."),
        ("语言 1.5\n".encode(), "words.txt, line 1: '语言 1.5' is not a dictionary entry."),
        ("语言 ²\n".encode(), "words.txt, line 1: '语言 ²' is not a dictionary entry."),
        (f"语言 {'1' * 5000}\n".encode(), f"words.txt, line 1: '语言 {'1' * 57}' is not a dictionary entry."),
        ("语言\n\n模型 0\n".encode(), "words.txt, line 3: '模型 0' is not a dictionary entry."),
        ("语言\n模型\n".encode("gb18030"), "words.txt, line 1: not valid UTF-8."),
        ("语言\n".encode() + b"\xff\n", "words.txt, line 2: not valid UTF-8."),
        ("语言\n模\0型\n".encode(), "words.txt, line 2: a NUL byte"),
        (b"\n \n", "words.txt has no words."),
    ],
)
def test_a_broken_dictionary_is_refused_by_its_line(content, says, tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        Jieba(dictionary=str(path)).check()
    assert says in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 3


def test_a_missing_file_is_refused_with_the_nearest_name(tmp_path):
    (tmp_path / "words.txt").write_text("语言\n", encoding="utf-8")
    for settings in (
        Jieba(dictionary=str(tmp_path / "word.txt")),
        Jieba(lexicon=str(tmp_path / "word.txt"), level="entity"),
    ):
        with pytest.raises(InputError, match=r"word\.txt does not exist\. Did you mean 'words\.txt'\?"):
            settings.check()
    with pytest.raises(InputError, match="is a folder"):
        Jieba(dictionary=str(tmp_path)).check()


@pytest.mark.parametrize("level", ["word", "phrase"])
def test_a_lexicon_that_nobody_would_look_into_is_refused(level):
    with pytest.raises(SettingError, match=f"lists entities, but corruption.segmenter.level is {level}"):
        Jieba(lexicon="names.txt", level=level).check()


def test_a_level_that_is_none_is_refused():
    with pytest.raises(
        SettingError, match=r"corruption\.segmenter\.level must be one of word, phrase, entity; found 'wrd'"
    ):
        Jieba(level="wrd")
