"""Exact match and F1 by the official rules, to the last digit.

The figures of SQuAD were computed with `squad_evaluate` of transformers 4.44 for these very predictions, those of CMRC
2018 with a plain transcription of its published rules.
"""

from plmkit.tasks.answering.scores import (
    best_threshold,
    cmrc,
    cmrc_units,
    judged_cmrc,
    judged_v1,
    judged_v2,
    longest_common,
    normalised,
    squad_v1,
    squad_v2,
)

GOLD = {
    "a": ["the Rhine", "Rhine", "Rhine river"],
    "b": ["1,230 km (760 mi)"],
    "c": [],
    "d": ["North Sea", "the North Sea in the Netherlands"],
    "e": ["King George V"],
    "f": [],
    "g": ["an A"],
    "h": ["the"],
    "i": ["bold, brave and old", "brave"],
}
FOUND = {
    "a": "The Rhine!", "b": "about 1,230 km", "c": "the Alps", "d": "North Sea in Netherlands", "e": "",
    "f": "", "g": "A", "h": "the", "i": "old and brave and very old",
}  # fmt: skip
NULL = {"a": -5.0, "b": 0.5, "c": 2.5, "d": -1.0, "e": 1.25, "f": 3.0, "g": -2.0, "h": -0.5, "i": 0.75}
CHINESE = {
    "甲": ["《战国无双3》", "战国无双3"],
    "乙": ["光荣和ω-force"],
    "丙": ["1985年12月25日", "12月25日"],
    "丁": ["nba (美国)"],
}
CHINESE_FOUND = {"甲": "战国无双3", "乙": "由光荣和ω-force开发", "丙": "1985年", "丁": "NBA（美国）"}


def test_squad_1_is_scored_as_by_its_script():
    some = {name: GOLD[name] for name in "abdei"}
    half = 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)  # `about 1230 km` for `1230 km 760 mi`
    exact, f1 = 1 + 1, 1 + half + 1 + 0 + 2 * 0.5 * 0.75 / (0.5 + 0.75)
    assert squad_v1(FOUND, some) == {"exact_match": 100.0 * exact / 5, "f1": 100.0 * f1 / 5}
    article = squad_v1(FOUND, {"h": GOLD["h"]})  # nothing is left of `the`: no word in common, but the same text
    assert article == {"exact_match": 100.0, "f1": 0.0}


def test_squad_2_is_scored_as_by_its_script_with_and_without_answers():
    assert squad_v2(FOUND, GOLD) == {
        "exact": 55.55555555555556, "f1": 68.57142857142857, "total": 9,
        "HasAns_exact": 57.142857142857146, "HasAns_f1": 73.87755102040816, "HasAns_total": 7,
        "NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2,
    }  # fmt: skip


def test_the_best_thresholds_are_those_of_the_script():
    assert squad_v2(FOUND, GOLD, NULL, 0.6) == {
        "exact": 66.66666666666667, "f1": 73.01587301587301, "total": 9,
        "HasAns_exact": 57.142857142857146, "HasAns_f1": 65.3061224489796, "HasAns_total": 7,
        "NoAns_exact": 100.0, "NoAns_f1": 100.0, "NoAns_total": 2,
        "best_exact": 66.66666666666667, "best_exact_thresh": -0.5,
        "best_f1": 79.68253968253968, "best_f1_thresh": 0.75,
    }  # fmt: skip


def test_a_question_without_a_prediction_is_wrong():
    assert squad_v1({}, {"a": ["x"]}) == {"exact_match": 0.0, "f1": 0.0}
    assert cmrc({}, {"a": ["x"]}) == {"AVERAGE": 0.0, "F1": 0.0, "EM": 0.0, "TOTAL": 1, "SKIP": 1}


def test_cmrc_is_scored_as_by_its_script():
    scores = {"AVERAGE": 46.59090909090909, "F1": 68.18181818181819, "EM": 25.0}
    assert cmrc(CHINESE_FOUND, CHINESE) == {**scores, "TOTAL": 4, "SKIP": 0}


def test_articles_punctuation_and_case_do_not_count_in_english():
    assert normalised("  The  U.S.A., an Answer ") == "usa answer"
    assert judged_v1("a cat", ["The cat!"]).exact == 1.0


def test_only_an_empty_answer_is_right_where_there_is_none():
    assert [judged_v2(text, []).f1 for text in ("", "cat")] == [1.0, 0.0]
    assert [judged_cmrc(text, []).f1 for text in ("", "猫")] == [1.0, 0.0]


def test_chinese_is_compared_by_characters_and_other_text_by_words():
    assert cmrc_units("我在 New York（2019）") == ["我", "在", "new", "york2019"]
    assert cmrc_units("约 50% 的人, cannot") == ["约", "50", "%", "的", "人", ",", "can", "not"]
    assert longest_common("abcde", "xbcdy") == 3
    assert judged_cmrc("世界第一大", ["第一大国"]).f1 == 2 * (3 / 5) * (3 / 4) / (3 / 5 + 3 / 4)


def test_the_best_threshold_answers_the_questions_below_it():
    right, wrong, none = judged_v2("x", ["x"]), judged_v2("y", ["x"]), judged_v2("y", [])
    assert best_threshold([right, wrong, none], [-1.0, 2.0, 1.0], [True] * 3, "f1") == (200 / 3, -1.0)
    assert best_threshold([none, none], [-1.0, 2.0], [True] * 2, "f1") == (100.0, 0.0)
