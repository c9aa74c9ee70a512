"""Characters against words: vocabulary sizes and unknown units of new text, by hand and on the command line."""

import pytest

from plmkit.data.corpus import open_corpora
from plmkit.preparation.coverage import coverage, measured

KNOWN = "我们喜欢学习语言模型。"
NEW = "我们学习模型和天文学。"  # 11 characters, of which 和天文 are new


@pytest.fixture
def chinese(tmp_path):
    """Nineteen documents and one more, which is the new text, among twice as many."""
    documents = [NEW if number % 10 == 9 else KNOWN for number in range(20)]
    (tmp_path / "zh.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return tmp_path / "zh.txt"


def test_shares_are_counted_by_hand():
    found = measured(["aab", "b", "ac"], ["abd", "ccx"], 2)
    assert (found.vocabulary, found.unknown_share) == (3, 2 / 6)  # d and x
    assert (found.frequent, found.frequent_unknown_share) == (2, 4 / 6)  # c is the rarest


def test_chinese_words_are_segmented_and_more_of_them_are_unknown(chinese):
    found = coverage(open_corpora([chinese]), 1000)
    assert found["characters"].vocabulary == len(set(KNOWN)) == 11
    assert found["characters"].unknown_share == pytest.approx(3 / 11)
    assert found["words"].vocabulary == 6  # 我们 喜欢 学习 语言 模型 。
    assert found["words"].unknown_share == pytest.approx(2 / 6)  # 我们 学习 模型 和 天文学 。
    assert found["words"].frequent == 6


def test_a_corpus_of_one_document_is_parted_by_its_lines(tmp_path):
    (tmp_path / "one.txt").write_text("a b\n" * 19 + "a c\n", encoding="utf-8")
    assert coverage(open_corpora([tmp_path / "one.txt"]), 10)["words"].unknown_share == 1 / 4


def test_plm_doctor_prints_both(chinese, plm):
    ran = plm("doctor", chinese, "--set", "tokenizer.size=60", "--set", "sentence_task=none")
    assert ran.code == 0, ran.err
    shown = " ".join(ran.out.split())
    assert "characters 11 different, 27.27% of new text unknown; 27.27% with the 11 most frequent" in shown
    assert "words 6 different, 33.33% of new text unknown" in shown
    units = plm("doctor", chinese, "--set", "tokenizer.size=60", "--set", "sentence_task=none", "--json").json["units"]
    assert units["words"] == {"vocabulary": 6, "unknown_share": pytest.approx(1 / 3), "frequent": 6,
                              "frequent_unknown_share": pytest.approx(1 / 3)}  # fmt: skip
