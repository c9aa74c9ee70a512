"""ERNIE 2's tasks on the reader's own text: what `plm doctor` shows of each, and what is left out or refused."""

import re
from pathlib import Path

import pytest

from plmkit.data.orders import order_of

ENGLISH = [
    "Apple is in Paris. It opened a house there because the city likes it. The king came, but he left soon.",
    "The Dog sees a house. However, it likes the garden. It rained, so they stayed at home. The Sea is far.",
    "If it rains, they stay at home. The old man paints the moon. Moreover, he paints the Sea. A bird sings.",
]
CHINESE = ["我的狗很可爱。它喜欢花园，因为那里很安静。", "企鹅不擅长飞行。但是它们会游泳。他很累，所以没有去。"]
CLICKS = "query\ttitle\tlabel\nred car\tred cars to buy\t0\nred car\tthe old king\t1\nthe sea\ta long road\t1\n" \
         "the sea\tthe sea in summer\t0\n"  # fmt: skip


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def english(tmp_path):
    return write(tmp_path / "english.txt", "\n\n".join(["\n".join(ENGLISH * 3), *ENGLISH * 6]) + "\n")


@pytest.fixture
def chinese(tmp_path):
    return write(tmp_path / "chinese.txt", "\n\n".join(["\n".join(CHINESE * 5), *CHINESE * 6]) + "\n")


DOCTOR = ("--recipe", "ernie2-tiny", "--set", "corruption.unit_masking.segmenter=none", "--set",
          'corruption.unit_masking.levels=["word"]', "--set", "corruption.unit_masking.shares=[1.0]",
          "--set", "corruption.frequent=1.0")  # fmt: skip


def test_doctor_shows_each_task_with_its_label_in_words(plm, english, tmp_path):
    clicks = write(tmp_path / "clicks.tsv", CLICKS)
    ran = plm("doctor", english, clicks, *DOCTOR, "--json")
    assert ran.code == 0, ran.err
    found = dict(zip(ran.json["streams"], ran.json["labels"], strict=True))
    names = "knowledge capitals document order distance discourse relevance".split()
    assert list(found) == names and not found["knowledge"]
    rows = dict(zip(ran.json["streams"], (seen for seen, _ in ran.json["preview"]), strict=True))
    capitals = dict(one.rsplit(" ", 1) for one in found["capitals"].removeprefix("capital letter: ").split(", ")
                    if not one.endswith("…"))  # fmt: skip
    assert set(capitals.values()) <= {"0", "1", "1 …", "0 …"} and {"apple", "dog", "if"} & set(capitals)
    assert re.fullmatch(r"elsewhere in its document: (\S+ [01](, )?)+( …)?", found["document"])
    order, label = re.fullmatch(r"order ([\d ]+) → class (\d)", found["order"]).groups()
    assert [int(part) - 1 for part in order.split()] == list(order_of(int(label)))
    assert re.fullmatch(
        r"distance (0: adjacent|1: same document, not adjacent|2: different documents)", found["distance"]
    )
    connective, relation = found["discourse"].split(" → ")
    assert {"because": "cause", "but": "contrast", "however": "contrast", "so": "result", "if": "condition",
            "moreover": "addition"}[connective] == relation  # fmt: skip
    assert f" {connective} " not in f" {rows['discourse']} "
    assert re.fullmatch(
        r"relevance (0: clicked|1: shown, but not clicked|2: not shown for this query)", found["relevance"]
    )
    shown = plm("doctor", english, clicks, *DOCTOR).out
    assert f"what is predicted of it (order)\n{found['order']}\n" in shown
    assert "4 titles of queries, 2 clicked, 2 shown but not clicked, 0 not shown" in ran.err
    assert "mix by tokens" in shown and "read per epoch" not in shown


def test_the_shares_of_texts_are_shown_and_tables_of_queries_are_none_of_them(plm, english, chinese, tmp_path):
    clicks = write(tmp_path / "clicks.tsv", CLICKS)
    ran = plm("doctor", english, chinese, clicks, *DOCTOR, "--set", "run.weights=[1, 3, 1]", "--json")
    assert ran.json["mixture"] == pytest.approx({"english.txt": 0.25, "chinese.txt": 0.75}, abs=0.05)


def test_rules_for_english_are_remarked_where_the_text_is_chinese(plm, english, chinese):
    said = "of the text is Chinese, but rules for English look for its units"
    settings = ("--recipe", "ernie2-tiny", "--json")
    (remark,) = [one for one in plm("doctor", chinese, *settings).json["warnings"] if said in one]
    assert remark.endswith("--set corruption.segmenter=Jieba --set corruption.segmenter.level=entity.")
    jieba = ("--set", "corruption.segmenter=Jieba", "--set", "corruption.segmenter.level=entity")
    for command in ((chinese, *settings, *jieba), (english, *settings)):
        assert not any(said in one for one in plm("doctor", *command).json["warnings"])


def test_chinese_text_is_shown_in_chinese_and_the_task_of_capitals_is_left_out(plm, chinese, monkeypatch):
    ran = plm("doctor", chinese, *DOCTOR, "--json")
    assert ran.json["streams"] == "knowledge document order distance discourse".split()
    assert (
        "The stream 'capitals' is left out: the text has no capital letter (Chinese has none)." in ran.json["warnings"]
    )
    assert "The stream 'relevance' is left out: no query–title table is given." in ran.json["warnings"]
    monkeypatch.setenv("PLM_LANG", "zh")
    shown = plm("doctor", chinese, *DOCTOR).out
    assert re.search(r"(因为|所以|但是) → (原因|结果|转折)", shown)
    assert re.search(r"顺序 [\d ]+ → 类别 \d", shown)


def test_a_text_with_both_has_labels_on_letters_only(plm, english, chinese):
    ran = plm("doctor", english, chinese, *DOCTOR, "--json")
    assert "capitals" in ran.json["streams"]


@pytest.mark.parametrize("verb", ["doctor", "pretrain"])
def test_an_unknown_label_is_refused_with_file_and_line_and_nothing_is_written(verb, plm, english, tmp_path):
    clicks = write(tmp_path / "clicks.tsv", CLICKS.replace("long road\t1", "long road\tgood"))
    command = ("doctor", english, clicks, *DOCTOR)
    if verb == "pretrain":
        command = ("pretrain", "ernie2-tiny", english, clicks, *DOCTOR[2:], "--out", tmp_path / "run", "--steps", 2)
    ran = plm(*command)
    assert ran.code == 2
    message = ran.err[ran.err.index("plm: ") :]
    assert "clicks.tsv, line 4: column 'label' has the unknown label 'good'." in message
    assert len(message.splitlines()) <= 3 and "Traceback" not in ran.err
    assert not (tmp_path / "run").exists()


def test_a_table_of_queries_alone_is_not_enough(plm, tmp_path):
    ran = plm("doctor", write(tmp_path / "clicks.tsv", CLICKS), *DOCTOR)
    assert (ran.code, "has queries and titles only; the other tasks of ernie2-tiny need text" in ran.err) == (2, True)


def test_sentences_without_documents_have_no_order_and_no_distance_and_train_the_other_tasks(plm, tmp_path):
    """A line per document, as many corpora have."""
    text = write(tmp_path / "lines.txt", "\n\n".join(sentence for text in ENGLISH * 9 for sentence in text.split(". ")))
    ran = plm("doctor", text, *DOCTOR, "--json")
    assert ran.code == 0, ran.err
    assert {"order", "distance"}.isdisjoint(ran.json["streams"]) and "knowledge" in ran.json["streams"]
    assert "The stream 'order' is left out: no document has two sentences." in ran.json["warnings"]
    assert (
        "The stream 'distance' is left out: it takes two documents, one of them with at least 3 sentences."
        in ran.json["warnings"]
    )


def test_a_text_that_gives_no_task_anything_is_refused(plm, chinese):
    keep = ("knowledge", "document", "order", "distance", "discourse", "relevance")
    ran = plm("doctor", chinese, "--recipe", "ernie2-tiny", "--set", f"without=[{','.join(keep)}]")
    assert ran.code == 2
    assert "left out: the text has no capital letter (Chinese has none).\nernie2-tiny has nothing to train." in ran.err


def test_a_tokenizer_that_keeps_the_case_is_remarked(plm, english):
    ran = plm("doctor", english, *DOCTOR, "--set", "tokenizer.lowercase=false", "--json")
    assert any(warning.startswith("The tokenizer keeps capital letters") for warning in ran.json["warnings"])


def test_a_few_steps_train_every_task_that_the_text_has(plm, english, tmp_path, tiny_settings):
    clicks = write(tmp_path / "clicks.tsv", CLICKS + CLICKS.partition("\n")[2] * 9)
    small = [part for part in tiny_settings if "length" not in part and "stages" not in part and part != "--set"]
    chosen = [part for one in ("tasks=joint", "run.log_steps=1", *small) for part in ("--set", one)]
    ran = plm(
        "pretrain", "ernie2-tiny", english, clicks, *DOCTOR[2:], *chosen, "--out", tmp_path / "run", "--steps", 16
    )
    assert ran.code == 0, ran.err
    logged = (tmp_path / "run" / "metrics.jsonl").read_text()
    for loss in ("masked_lm", "capital_prediction", "token_document_relation", "sentence_reordering",
                 "sentence_distance", "discourse_relation", "search_relevance"):  # fmt: skip
        assert f'"train/{loss}"' in logged, loss
