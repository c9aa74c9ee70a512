"""Which characters are ideographs; sentences end where a reader would end them, and no character is lost."""

import random
import re
import time

import pytest

from plmkit.data.text import HAN, LONGEST_SENTENCE, WIDE, is_ideograph, split_sentences


@pytest.mark.parametrize("letter", "一龥鿿㐀䶿豈𠀀𲎯")
def test_han_characters_of_every_block_are_ideographs(letter):
    assert is_ideograph(ord(letter))
    assert re.fullmatch(f"[{HAN}]", letter)
    assert re.fullmatch(f"[{WIDE}]", letter)


@pytest.mark.parametrize("letter", "aあ한。，䷀1")
def test_kana_hangul_signs_and_hexagrams_are_none(letter):
    assert not is_ideograph(ord(letter))
    assert not re.fullmatch(f"[{HAN}]", letter)


def test_nothing_is_spaced_around_kana_and_wide_signs():
    assert all(re.fullmatch(f"[{WIDE}]", letter) for letter in "あア。，“…—")
    assert not re.fullmatch(f"[{WIDE}]", "a")


def test_english_sentences_end_at_stops_before_a_capital_a_digit_or_a_quote() -> None:
    assert split_sentences('He left. She stayed! Why? "No idea." 3 came back. (Two did.) End') == [
        "He left.",
        "She stayed!",
        "Why?",
        '"No idea."',
        "3 came back.",
        "(Two did.)",
        "End",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "Mr. Smith and Dr. Brown met Mrs. Jones.",
        "J. K. Rowling and A. Milne wrote it.",
        "The U.S. Senate and the E.U. Parliament agreed.",
        "See Fig. 3, No. 5 and vol. 2, pp. 7 to 9.",
        "Fruit, e.g. Apples, i.e. Red ones, etc. Are sold here.",
        "Tests vs. Proofs by Dijkstra et al. In short.",
        "Pi is 3.14 and example.com is a host.",
        'He asked "Why?" and then "How?" in vain.',
        "She said so... and left.",
        "1. Introduction",
    ],
)
def test_stops_inside_a_sentence_do_not_end_it(sentence: str) -> None:
    assert split_sentences(sentence) == [sentence]


def test_no_is_a_word_unless_a_number_follows() -> None:
    assert split_sentences("She said no. Then No. 5 left.") == ["She said no.", "Then No. 5 left."]


def test_a_number_ends_a_sentence_but_does_not_make_one() -> None:
    assert split_sentences("1. It began in 1990. Then it grew.") == ["1. It began in 1990.", "Then it grew."]


def test_a_bracket_around_an_abbreviation_does_not_hide_the_end() -> None:
    assert split_sentences("Apples (pears, etc.). They are red.") == [
        "Apples (pears, etc.).",
        "They are red.",
    ]


def test_chinese_sentences_keep_their_stops_and_closing_marks() -> None:
    text = "他说：“你好！”然后走了。真的吗？！不会吧……好（真的。）。第一；第二。「是。」『对。』"
    assert split_sentences(text) == [
        "他说：“你好！”",
        "然后走了。",
        "真的吗？！",
        "不会吧……",
        "好（真的。）。",
        "第一；",
        "第二。",
        "「是。」",
        "『对。』",
    ]


def test_a_comma_after_a_quotation_carries_the_sentence_on() -> None:
    assert split_sentences("“真的吗？”，他问。") == ["“真的吗？”，他问。"]


def test_straight_quotes_close_or_open_by_turns() -> None:
    assert split_sentences('他说。"好的。"他走了。"嗯。"') == ["他说。", '"好的。"', "他走了。", '"嗯。"']


def test_chinese_with_narrow_stops_needs_no_space() -> None:
    text = "很好!下次再来.还行?用Python 3.11写的,见example.com。"
    assert split_sentences(text) == ["很好!", "下次再来.", "还行?", "用Python 3.11写的,见example.com。"]


def test_mixed_text_is_cut_by_the_rules_of_both() -> None:
    text = "我喜欢 BERT。It works. 效果很好！ Dr. Li agrees."
    assert split_sentences(text) == ["我喜欢 BERT。", "It works.", "效果很好！", "Dr. Li agrees."]


def test_runs_of_stops_stay_together() -> None:
    assert split_sentences("Wow!!! Really?! Yes... 好。。。嗯？？") == [
        "Wow!!!",
        "Really?!",
        "Yes...",
        "好。。。",
        "嗯？？",
    ]


@pytest.mark.parametrize("blank", ["", " ", "\t\u3000 \n"])
def test_blank_text_has_no_sentence(blank: str) -> None:
    assert split_sentences(blank) == []


def test_text_without_stops_is_cut_at_a_comma_or_space_or_hard() -> None:
    spaced = split_sentences("word " * 500)
    assert [len(piece) for piece in spaced] == [999, 999, 499]
    assert split_sentences("好，" * 600)[0] == "好，" * 500
    assert [len(piece) for piece in split_sentences("x" * 2500)] == [1000, 1000, 500]


def test_no_character_is_lost_moved_or_left_blank_in_random_text() -> None:
    rng = random.Random(0)
    alphabet = "aAb J1.!?…。！？；，,\"'”“（）() \t\n\u3000中文\u200b\x00é😀" + "etc. Mr. e.g. "
    for _ in range(3000):
        text = "".join(rng.choices(alphabet, k=rng.randrange(60)))
        sentences = split_sentences(text)
        assert "".join("".join(sentences).split()) == "".join(text.split())
        assert all(sentence and sentence == sentence.strip() for sentence in sentences)


def test_long_random_text_is_kept_whole_in_bounded_pieces() -> None:
    rng = random.Random(1)
    text = "".join(rng.choices("ab,中， ", weights=[50, 50, 1, 20, 1, 1], k=30_000))
    sentences = split_sentences(text)
    assert re.sub(r"\s", "", "".join(sentences)) == re.sub(r"\s", "", text)
    assert max(map(len, sentences)) <= LONGEST_SENTENCE


@pytest.mark.parametrize("unit", ['……"，', '."', ". A", "A. ", '!"中', ".,", "1. ", "?!", '"', " "])
def test_odd_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    begin = time.perf_counter()
    split_sentences(unit * 100_000)
    assert time.perf_counter() - begin < 20  # less than a second; a quadratic rule would take minutes
