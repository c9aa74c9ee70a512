"""Files of tagged words as people have them, and files that are wrong."""

import json
from pathlib import Path

import pytest

from plmkit.data.reading.columns import Columns, Search, ignore
from plmkit.tasks.kinds.slots import Slots
from plmkit.tasks.kinds.tag import Tag
from plmkit.tasks.rows import read_labelled

TEXT = "Ann is in New York."
WORDS = ["Ann", "is", "in", "New", "York", "."]
TAGS = ["B-PER", "O", "O", "B-LOC", "I-LOC", "O"]
COLUMNS = "".join(f"{word} X {tag}\n" for word, tag in zip(WORDS, TAGS, strict=True))
SPANS = [[0, 3, "PER"], [10, 18, "LOC"]]
STUDIO = [
    {
        "id": 1,
        "data": {"text": TEXT},
        "annotations": [
            {"was_cancelled": True, "result": []},
            {
                "result": [
                    {"type": "labels", "value": {"start": start, "end": end, "text": TEXT[start:end], "labels": [name]}}
                    for start, end, name in SPANS
                ]
            },
        ],
    },
    {"id": 2, "data": {"text": "nobody looked at this"}, "annotations": []},
]
FILES = {
    "a.conll": f"-DOCSTART- -X- O\n\n{COLUMNS}\n",
    "b.txt": COLUMNS,
    "c.bio": COLUMNS.replace(" X ", "\t"),
    "d.tsv": COLUMNS.replace(" X ", "\t"),
    "e.tsv": COLUMNS.replace(" X ", "\t").replace("Ann", "word\ttag\nAnn", 1),
    "f.conll": COLUMNS.replace("B-", "I-"),  # IOB1
    "g.jsonl": json.dumps({"tokens": WORDS, "tags": TAGS, "text": TEXT}),
    "h.jsonl": json.dumps({"words": WORDS, "ner_tags": TAGS}),
    "i.jsonl": json.dumps({"text": TEXT, "label": SPANS}),  # doccano
    "j.jsonl": json.dumps({"text": TEXT, "entities": SPANS}),  # spaCy
    "k.jsonl": json.dumps({"text": TEXT, "spans": [{"start": a, "end": b, "label": c} for a, b, c in SPANS]}),
    "l.json": json.dumps(STUDIO, indent=2),  # Label Studio
    "m.json": json.dumps([{"text": TEXT, "label": [{"start": a, "end": b, "labels": [c]} for a, b, c in SPANS]}]),
    "n.json": json.dumps([[TEXT, {"entities": SPANS}]]),  # spaCy's older training data
    "o.tsv": f"label\ttext_a\n{' '.join(TAGS)}\t{' '.join(WORDS)}\n",
    "p.csv": 'tokens,tags\n"{}","{}"\n'.format(*(json.dumps(cell).replace('"', '""') for cell in (WORDS, TAGS))),
}


def read(path: Path, task=Tag(), say=ignore, **columns):
    return read_labelled(path, task, Search(named=Columns(**columns)), say).rows


@pytest.mark.parametrize("name", FILES)
def test_every_file_gives_the_same_words_and_tags(name, tmp_path):
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    said = []
    (row,) = read(tmp_path / name, say=said.append)
    assert row.words == WORDS
    assert row.label == tuple(TAGS)
    assert any("IOB1" in text for text in said) == (name == "f.conll")
    assert any("1 row without a label left out" in text for text in said) == (name == "l.json")
    task = Tag().learn([row], tmp_path / name)
    assert task.scheme == "BIO"
    assert task.classes == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert task.describe([row]) == "6 words with BIO tags: PER: 1, LOC: 1"


def test_another_column_is_chosen_by_its_number_or_name(tmp_path):
    (tmp_path / "a.conll").write_text(COLUMNS)
    (row,) = read(tmp_path / "a.conll", label="2")
    assert row.label == ("X",) * 6
    (tmp_path / "a.jsonl").write_text(json.dumps({"tokens": WORDS, "tags": TAGS, "xpos": ["N"] * 6}))
    (row,) = read(tmp_path / "a.jsonl", label="xpos")
    assert row.label == ("N",) * 6


def test_mistakes_in_tags_are_repaired_counted_and_said_with_their_line(tmp_path):
    (tmp_path / "a.conll").write_text("a O\nb I-X\nc I-X\n\nd B-X\n")
    said = []
    rows = read(tmp_path / "a.conll", say=said.append)
    assert [row.label for row in rows] == [("O", "B-X", "I-X"), ("B-X",)]
    assert said == [
        f"! {tmp_path}/a.conll: 1 tag repaired, such as I- without B-; the spans stay. "
        f"The first: {tmp_path}/a.conll, line 2: I-X becomes B-X."
    ]


def test_one_strange_tag_among_tags_of_spans_is_warned_of(tmp_path):
    (tmp_path / "a.conll").write_text("a O\nb B-X\nc I-X\nd B-Y\ne I-Y\n" * 10 + "z ?\n")
    said = []
    read(tmp_path / "a.conll", say=said.append)
    assert "read as plain ones, without spans, because of '?'" in said[0]


def test_texts_are_cut_as_the_words_of_training_are(tmp_path):
    def units(*sentences) -> str:
        lines = [json.dumps({"tokens": words, "tags": [*"NV" * len(words)][: len(words)]}) for words in sentences]
        (tmp_path / "a.jsonl").write_text("\n".join(lines))
        task = Tag().learn(read(tmp_path / "a.jsonl"), tmp_path)
        return "|".join(task.input_row("我们在New York，1998年", 1, tmp_path).words)

    assert units(["the", "cat"], ["U.S."]) == "我|们|在|New|York|，|1998|年"
    assert units([*"我们在Win98年"]) == "我|们|在|N|e|w|Y|o|r|k|，|1|9|9|8|年"
    assert units(["我们", "在", "北京"]) == "我们|在|New|York|，|1998|年"
    assert units(["我", "在", "York", "年"]) == "我|们|在|New|York|，|1998|年"


def test_a_text_file_is_read_line_by_line_unless_it_has_the_tags_of_the_model(tmp_path):
    task = Tag(classes=("O", "B-LOC", "I-LOC"))
    (tmp_path / "a.txt").write_text("hello there\ngood day\n")
    rows, _ = task.read(task.open(tmp_path / "a.txt", Search(), ignore), Search(), ignore, labelled=False)
    assert [row.text for row in rows] == ["hello there", "good day"]
    (tmp_path / "a.txt").write_text("hello O\nthere B-LOC\n")
    rows, _ = task.read(task.open(tmp_path / "a.txt", Search(), ignore), Search(), ignore, labelled=False)
    assert [row.text for row in rows] == ["hello there"]
    (tmp_path / "a.conll").write_text("hello\nthere\n")  # words alone
    rows, _ = task.read(task.open(tmp_path / "a.conll", Search(), ignore), Search(), ignore, labelled=False)
    assert rows[0].words == ["hello", "there"]


BAD = {
    "lengths.jsonl": (
        '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a", "b"], "tags": ["O"]}\n',
        "line 2: 2 tokens, but 1 tag. Each",
    ),
    "empty.jsonl": ('{"tokens": ["a", " "], "tags": ["O", "O"]}\n', "line 1: every token must be a text, and none"),
    "overlap.jsonl": (
        '{"text": "a b c", "entities": [[0, 3, "X"], [2, 5, "Y"]]}\n',
        "line 1: the spans 'a b' (0–3, X) and 'b c' (2–5, Y) overlap",
    ),
    "outside.json": ('[\n{"text": "a", "label": [[0, 9, "X"]]}]', "line 2: the span 0–9 (X) lies outside the text"),
    "columns.conll": ("a O\nb\n", "line 2: expected a word and its tag"),
    "none.jsonl": ('{"body": "a"}\n', "has no column of tags"),
    "words.jsonl": ('{"x": "a"}\n', "has no column of words"),
    "plain.txt": ("just some text\nthat nobody has tagged yet\n", "has no column of tags"),
    "same.conll": ("a O\nb O\n", "at least two different tags; all words of"),
    "object.json": ("[1]", "line 1: not a JSON object"),
    "empty.conll": ("\n", "has no words"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_wrong_is_refused_with_its_line(name, tmp_path, pretrained, plm):
    content, expected = BAD[name]
    (tmp_path / name).write_text(content, encoding="utf-8")
    ran = plm("finetune", pretrained, "--task", "tag", "--train", tmp_path / name, "--out", tmp_path / "out")
    assert ran.code == 2
    assert str(tmp_path / name) in ran.err and expected in ran.err
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_tag_that_training_lacks_is_refused_and_a_very_rare_one_counts_as_a_mistake(tmp_path, pretrained, plm):
    (tmp_path / "train.conll").write_text("a B-X\nb O\n")
    (tmp_path / "dev.conll").write_text("a B-X\n\nb O\nc B-Z\n")
    ran = plm("finetune", pretrained, "--task", "tag", "--train", tmp_path / "train.conll", "--dev",
              tmp_path / "dev.conll", "--out", tmp_path / "out")  # fmt: skip
    assert ran.code == 2
    assert f"{tmp_path}/dev.conll, line 4: tag 'B-Z' of the word 'c' does not occur in training." in ran.err
    (tmp_path / "dev.conll").write_text("b O\n" * 1200 + "c B-Z\n")
    said = []
    Tag(classes=("O", "B-X", "I-X")).check(read(tmp_path / "dev.conll"), tmp_path / "dev.conll", said.append)
    assert "line 1201: 'c', B-Z." in said[0]


def test_an_intent_that_is_missing_or_new_is_refused(tmp_path):
    lines = [{"tokens": ["a", "b"], "tags": ["O", "B-X"], "intent": name} for name in ("x", "y", None)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    said = []
    rows = read(tmp_path / "a.jsonl", Slots(), said.append)
    assert [row.intent for row in rows] == ["x", "y"]
    assert "1 row without a label left out (line 3)" in said[0]
    task = Slots().learn(rows, tmp_path)
    assert task.intents == ("x", "y")
    with pytest.raises(Exception, match=r"line 1: intent 'x' does not occur in training"):
        Slots(classes=task.classes, intents=("y", "z")).check(rows, tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text('{"tokens": ["a"], "tags": ["O"]}')
    with pytest.raises(Exception, match="has no column of an intent"):
        read(tmp_path / "b.jsonl", Slots())
