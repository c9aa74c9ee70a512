"""Probes: scores checked by hand, files, and every kind of model."""

import json

import numpy as np
import pytest
from models import tiny_model

from plmkit.catalogue import CATALOGUE, find
from plmkit.data.reading.words import sentence_of
from plmkit.errors import InputError, PlmError
from plmkit.insight.probing import (
    Examples,
    counts_of,
    deviation,
    f1,
    first_senses,
    limited,
    linear_tags,
    nearest_senses,
    probe,
    split,
)
from plmkit.insight.tagged import Tagged, lemma_of, read_inventory, read_tagged


def examples(answers, lemmas=(), sentences=None, states=None):
    count = len(answers)
    layers = (np.zeros((count, 1)) if states is None else np.array(states, dtype=np.float32),)
    places = np.zeros(count, dtype=np.int64) if sentences is None else np.array(sentences)
    return Examples(layers=layers, answers=tuple(answers), lemmas=tuple(lemmas), sentences=places)


def test_accuracy_is_the_share_of_right_tags():
    asked = examples([("NOUN",), ("VERB",), ("NOUN",), ("DET",)], sentences=[0, 0, 1, 1])
    counts = counts_of(["NOUN", "NOUN", "NOUN", "DET"], asked)
    assert counts.tolist() == [[1, 2, 2], [2, 2, 2]]
    assert f1(counts) == 0.75


def test_f1_counts_words_without_an_answer_against_recall_only():
    """Two right of three given: precision 2/3; two right of four: recall 1/2; harmonic mean 4/7."""
    asked = examples([("a",), ("b", "c"), ("d",), ("e",)])
    assert f1(counts_of(["a", "c", "x", None], asked)) == pytest.approx(4 / 7)


def test_the_deviation_is_that_of_resampled_sentences():
    even = np.array([[1, 2, 2]] * 5)
    assert deviation(even) == 0
    half = np.array([[1, 1, 1], [0, 1, 1]] * 50)
    assert deviation(half) == pytest.approx((0.25 / 100) ** 0.5, rel=0.15)  # of the mean of 100 coins


def test_a_sense_is_the_nearest_mean_and_a_new_lemma_gets_its_first_sense():
    train = examples(
        [("bank.river",), ("bank.river",), ("bank.money",), ("run.go",)],
        ["bank noun", "bank noun", "bank noun", "run verb"],
        states=[[1, 0.2], [1, -0.2], [0, 1], [1, 1]],
    )
    test = examples(
        [("?",)] * 4, ["bank noun", "bank noun", "tree noun", "new noun"], states=[[5, 1], [0.1, 3], [1, 1], [1, 1]]
    )
    found = nearest_senses(train, test, 0, {"tree noun": "tree.plant"})
    assert found == ["bank.river", "bank.money", "tree.plant", None]


def test_the_first_sense_is_the_most_frequent_one():
    train = examples([("b.1",), ("b.2",), ("b.2",), ("c.1",), ("c.2",)], ["b", "b", "b", "c", "c"])
    assert first_senses(train) == {"b": "b.2", "c": "c.1"}


def test_a_linear_probe_finds_a_line_between_tags():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(200, 2)).astype(np.float32)
    tags = ["left" if x + y < 0 else "right" for x, y in states]
    found = linear_tags(states[:150], tags[:150], states[150:])
    assert np.mean([a == b for a, b in zip(found, tags[150:], strict=True)]) > 0.95


def test_words_become_text_with_spaces_except_next_to_chinese():
    english, chinese = sentence_of(["I", "see", "it"]), sentence_of(["我", "喜欢", "Python", "3", "。"])
    assert english.text == "I see it" and english.words == ["I", "see", "it"]
    assert chinese.text == "我喜欢Python 3。" and chinese.words == ["我", "喜欢", "Python", "3", "。"]


CONLLU = """# text = don't go
1-2\tdon't\t_\t_\t_
1\tdo\tdo\tAUX\tVBP
2\tn't\tnot\tPART\tRB
2.1\tx\tx\tX\tX
3\tgo\tgo\tVERB\tVB

1\tYes\tyes\tINTJ\tUH
"""


def test_conll_u_columns_and_json_lines_are_read(tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU)
    first, second = read_tagged(tmp_path / "a.conllu")
    assert first.words == ("do", "n't", "go") and first.answers == (("AUX",), ("PART",), ("VERB",))
    assert second.words == ("Yes",)
    (tmp_path / "b.txt").write_text("EU NNP B-ORG\nrejects VBZ O\n\n. . O\n")
    assert [one.answers for one in read_tagged(tmp_path / "b.txt")] == [(("B-ORG",), ("O",)), (("O",),)]
    (tmp_path / "c.jsonl").write_text('{"tokens": ["a", "cat"], "tags": ["DET", "NOUN"]}\n')
    assert read_tagged(tmp_path / "c.jsonl")[0].answers == (("DET",), ("NOUN",))


def test_senses_are_read_with_their_lemmas(tmp_path):
    senses = [
        {"i": 2, "lemma": "Bank", "pos": "NN", "key": "k1"},
        {"i": 0, "lemma": "sit", "pos": "VERB", "keys": ["a", "b"]},
    ]
    (tmp_path / "s.jsonl").write_text(json.dumps({"tokens": ["sat", "at", "river_bank"], "senses": senses}))
    (found,) = read_tagged(tmp_path / "s.jsonl")
    assert found == Tagged(
        words=("sat", "at", "river bank"),
        places=(0, 2),
        answers=(("a", "b"), ("k1",)),
        lemmas=("sit verb", "bank noun"),
    )
    (tmp_path / "inventory.tsv").write_text("sense_key\tgloss\nbank%1:17:01::\tland\nbank%1:14:00::\tmoney\n")
    assert read_inventory(tmp_path / "inventory.tsv") == {"bank noun": "bank%1:17:01::"}


def test_parts_of_speech_of_several_tag_sets_are_the_same():
    tags = {"noun": "NN NOUN n", "verb": "VBZ VERB AUX v", "adjective": "JJ ADJ a s", "adverb": "RB ADV adverb r"}
    for name, some in tags.items():
        assert {lemma_of("Well", tag) for tag in some.split()} == {f"well {name}"}


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    (tmp_path / "a.txt").write_text("EU NNP\n", encoding="utf-8-sig")
    assert read_tagged(tmp_path / "a.txt")[0].words == ("EU",)
    (tmp_path / "keys.txt").write_text("bank%1:17:01::\n", encoding="utf-8-sig")
    assert read_inventory(tmp_path / "keys.txt") == {"bank noun": "bank%1:17:01::"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            '{"tokens": ["a"], "tags": ["X"]}\n{"tokens": ["a", "b"], "tags": ["X"]}\n',
            "line 2: 2 tokens, but 1 tag. Each",
        ),
        ('{"tokens": ["a"]}\n', "line 1: the tokens have no tags"),
        ("no json\n", "line 1: this is not JSON"),
        ('{"tokens": ["a"], "senses": [{"i": 1, "lemma": "a", "key": "a"}]}\n', "token 1, but there are 1 tokens"),
        ('{"tokens": ["a"], "senses": [{"i": 0}]}\n', "line 1: a sense has i"),
        ("", "no words with tags"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_refused_with_its_line(tmp_path, content, expected):
    (tmp_path / "bad.jsonl").write_text(content)
    with pytest.raises(InputError, match=expected):
        read_tagged(tmp_path / "bad.jsonl")


def test_sentences_are_split_and_limited():
    tagged = [Tagged(words=(str(n),), places=(0,), answers=(("X",),)) for n in range(10)]
    known, asked = split(tagged)
    assert len(asked) == 2 and {one.words for one in known + asked} == {one.words for one in tagged}
    assert len(limited(tagged, 3)) == 3 and len(limited(tagged, 100)) == 10


SENTENCES = [
    Tagged(words=tuple(text.split()), places=(0, 1, 2), answers=tuple((tag,) for tag in ("DET", "NOUN", "VERB")))
    for text in ("the cat sees", "a bird hears", "the moon sees", "a house hears")
]


KINDS = {type(find(name).architecture): name for name in reversed(CATALOGUE) if not name.startswith("caption")}


@pytest.mark.parametrize("name", KINDS.values())
def test_every_architecture_has_a_score_per_layer(name):
    model = tiny_model(name)
    found = probe(model, SENTENCES, SENTENCES)
    assert [one.layer for one in found.scores] == list(range(model.architecture.layers + 1))
    assert found.baseline == pytest.approx(1 / 3)
    assert all(one.score == 1 for one in found.scores)  # it may learn these twelve words by heart
    assert found.train_words == found.test_words == 12


def test_a_network_that_reads_images_has_no_words_to_probe():
    with pytest.raises(PlmError, match="reads images"):
        probe(tiny_model("caption-tiny"), SENTENCES, SENTENCES)


def test_layers_may_be_chosen():
    model = tiny_model("bert-mini")
    every, one = probe(model, SENTENCES[:2], SENTENCES[2:]), probe(model, SENTENCES[:2], SENTENCES[2:], layers=[1])
    assert one.scores == (every.scores[1],)


def test_a_probe_prints_and_draws(pretrained, plm, tmp_path):
    rows = [json.dumps({"tokens": one.words, "tags": [tag for (tag,) in one.answers]}) for one in SENTENCES * 3]
    (tmp_path / "tags.jsonl").write_text("\n".join(rows) + "\n")
    ran = plm("probe", pretrained, "--task", tmp_path / "tags.jsonl", "--out", tmp_path / "out")
    assert ran.code == 0 and "layer 2" in ran.out and "█" in ran.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"probe.json", "probe.png", "probe.svg"}
    saved = json.loads((tmp_path / "out" / "probe.json").read_text())["models"][0]
    assert saved == plm("probe", pretrained, "--task", tmp_path / "tags.jsonl", "--json").json
    assert len(saved["scores"]) == 3 and saved["metric"] == "accuracy"


def test_parts_of_speech_and_senses_of_a_trained_elmo_are_printed_by_layer(plm, mixed_corpus, tmp_path):
    sets = ("architecture.width=16", "architecture.cell=16", "architecture.filters=[[2, 8]]", "tokenizer.size=60",
            "stages=[[1.0, 16]]", "run.threads=1")  # fmt: skip
    given = [part for one in sets for part in ("--set", one)]
    assert plm("pretrain", "elmo-tiny", mixed_corpus, "--out", tmp_path / "elmo", "--steps", 5, *given).code == 0
    tags = [{"tokens": one.words, "tags": [tag for (tag,) in one.answers]} for one in SENTENCES * 3]
    senses = [{"tokens": one["tokens"], "senses": [{"i": 1, "lemma": "it", "key": one["tokens"][0]}]} for one in tags]
    for task, rows in (("pos", tags), ("senses", senses)):
        (tmp_path / task).with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
        ran = plm("probe", tmp_path / "elmo", "--task", task, "--train", tmp_path / f"{task}.jsonl")
        lines = [line.split() for line in ran.out.splitlines() if "█" in line or "%" in line]
        assert [line[0] for line in lines].count("layer") == 2, ran.out  # after the baseline and the embeddings
        assert len(lines) == 4


def test_the_number_of_words_limits_the_training_file_only(pretrained, plm, tmp_path):
    (tmp_path / "tags.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["X", "Y"]}\n' * 20)
    arguments = ("probe", pretrained, "--task", tmp_path / "tags.jsonl", "--words", "10", "--layers", "0", "--json")
    given = plm(*arguments, "--test", tmp_path / "tags.jsonl").json
    assert (given["train_words"], given["test_words"]) == (10, 40)
    held_out = plm(*arguments).json
    assert (held_out["train_words"], held_out["test_words"]) == (8, 2)


def test_files_and_layers_that_do_not_fit_are_refused(pretrained, plm, tmp_path):
    (tmp_path / "tags.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["X", "Y"]}\n' * 5)
    (tmp_path / "bad.jsonl").write_text('{"tokens": ["a", "b"], "tags": ["X"]}\n')
    for arguments, expected in (
        (["--task", "senses", "--train", tmp_path / "tags.jsonl"], "has tags, not senses"),
        (["--task", "pos"], "--train is missing"),
        (["--task", "poss"], "found 'poss'. Did you mean 'pos'?"),
        (["--task", "sense", "--train", tmp_path / "tags.jsonl"], "found 'sense'. Did you mean 'senses'?"),
        (["--task", "tag.jsonl"], "found 'tag.jsonl'. There is no file 'tag.jsonl'."),
        (["--task", tmp_path / "tags.jsonl", "--train", tmp_path / "bad.jsonl"], "Leave one of them out"),
        (["--task", tmp_path / "tags.jsonl", "--inventory", tmp_path / "x"], "--inventory is for senses"),
        (["--task", tmp_path / "tags.jsonl", "--layers", "7"], "found --layer 7"),
        (["--task", tmp_path / "tags.jsonl", "--layers", "x"], "found 'x'"),
        (["--task", tmp_path / "bad.jsonl"], "2 tokens, but 1 tag. Each"),
    ):
        ran = plm("probe", pretrained, *arguments)
        assert ran.code == 2 and expected in ran.err
