"""Tags and slots from the command line and from Python: trained, scored, predicted, with windows and on features."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

import plmkit

ANIMALS, PLACES = ("cat", "dog", "bird"), ("sea", "house", "moon", "river")


def write_rows(path: Path, count: int = 40) -> Path:
    """Sentences in which every animal, with its colour, is a span, as are all dogs of Chinese ones."""
    lines = []
    for number in range(count):
        words = ["the", ANIMALS[number % 3], "sees", "the", PLACES[number % 4]]
        tags = ["O", "B-animal", "O", "O", "O"]
        if number % 2:
            words[1:1], tags[1:2] = ["old"], ["B-animal", "I-animal"]
        if number % 5 == 0:
            words, tags = [*"我的狗很可爱。"], ["O", "O", "B-animal", "O", "O", "O", "O"]
        lines.append(json.dumps({"words": words, "tags": tags, "intent": "zh" if number % 5 == 0 else "en"}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rows(made: Path) -> Path:
    return write_rows(made / "tagged.jsonl")


def tune(plm, model: Path, rows: Path, out: Path, *settings: str, task: str = "tag", epochs: int = 12):
    ran = plm("finetune", model, "--task", task, "--train", rows, "--dev", rows, "--out", out, "--epochs", epochs,
              *(part for setting in ("task.batch=8", "task.learning_rate=3e-3", "run.threads=1", *settings)
                for part in ("--set", setting)), "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="module")
def tagger(made: Path, pretrained: Path, rows: Path) -> Path:
    settings = {"task.batch": 8, "task.learning_rate": 5e-3, "run.threads": 1}
    plmkit.finetune(pretrained, "tag", rows, made / "tagger", dev=rows, epochs=20, settings=settings, quiet=True)
    return made / "tagger"


def test_a_tagger_learns_and_is_better_than_the_most_frequent_tag_of_each_word(tagger, rows, plm):
    result = json.loads((tagger / "scores.json").read_text())
    assert result["dev"]["f1"] > 0.95
    assert result["baseline"]["dev"]["answer"] == "the most frequent tag of each word"
    assert result["baseline"]["dev"]["score"] < 0.9
    ran = plm("evaluate", tagger, rows, "--json")
    assert {name: ran.json[name] for name in ("f1", "strict_f1")} == {
        name: result["dev"][name] for name in ("f1", "strict_f1")
    }
    shown = plm("evaluate", tagger, rows).out
    assert "strict_f1" in shown and "animal" in shown


@pytest.mark.filterwarnings("ignore::plmkit.errors.UnknownTokensWarning")
def test_spans_are_cut_from_the_characters_of_the_text_in_both_languages(tagger, plm):
    model = plmkit.load(tagger, device="cpu")
    english, chinese, blank = model.predict(["The  old dog sees the sea.", "我的 狗很可爱。", " "])
    (span,) = english.spans
    assert (span.start, span.end, span.label, span.text) == (5, 12, "animal", "old dog")
    assert 0.3 < span.probability <= 1
    assert english.words == ("The", "old", "dog", "sees", "the", "sea", ".")
    assert english.tags[1:3] == ("B-animal", "I-animal")
    assert [(span.start, span.end, span.text) for span in chinese.spans] == [(3, 4, "狗")]
    assert (blank.label, blank.spans) == (None, ())
    assert model.predict(["the", "dog"])[1].words == ("dog",)  # a list of texts
    assert model.predict([["the", "old", "dog"]])[0].spans[0].text == "old dog"  # a list of lists of words
    assert model.predict({"tokens": ["the", "dog"]}).tags == ("O", "B-animal")
    ran = plm("predict", tagger, "the old dog sees the sea", "--json")
    assert ran.json["predictions"][0]["spans"][0]["text"] == "old dog"
    header, line = plm("predict", tagger, "我的狗很可爱。").out.splitlines()
    assert "predicted_spans" in header and '""text"": ""狗""' in line


def test_predictions_are_written_beside_the_rows_and_as_columns_that_can_be_scored(tagger, rows, plm, tmp_path):
    for name in ("a.jsonl", "a.tsv", "a.conll"):
        ran = plm("predict", tagger, rows, "--out", tmp_path / name)
        assert ran.code == 0, ran.err
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[1])
    assert first["tags"] == first["predicted_tags"] == ["O", "B-animal", "I-animal", "O", "O", "O"]
    assert first["predicted_words"] == first["words"]
    assert (tmp_path / "a.conll").read_text().split("\n\n")[1] == (
        "the\tO\nold\tB-animal\ndog\tI-animal\nsees\tO\nthe\tO\nhouse\tO"
    )
    scored = plm("evaluate", tagger, tmp_path / "a.conll", "--json").json
    assert (scored["f1"], scored["rows"]) == (1.0, 40)
    assert plm("predict", tagger, tmp_path / "a.tsv", "--out", tmp_path / "b.tsv").code == 0  # reads what it writes
    ran = plm("predict", tagger, rows, "--out", tmp_path / "a.txt")
    assert (ran.code, ".conll" in ran.err) == (2, True)


def test_every_word_of_a_text_longer_than_the_model_has_its_tag(tagger):
    model = plmkit.load(tagger, device="cpu")
    text = "the old dog sees the sea . " * 60
    found = model.predict(text)  # no warning that it was truncated
    assert len(found.tags) == 420 > model.max_length
    assert len(found.spans) == 60
    assert found.spans[-1].text == "old dog" and found.spans[-1].start == text.rindex("old dog")


def test_training_reads_long_texts_in_windows_and_says_so(plm, pretrained, tmp_path):
    words = ["the", "old", "dog", "sees"] * 40
    row = json.dumps({"tokens": words, "tags": ["O", "B-x", "I-x", "O"] * 40})
    (tmp_path / "a.jsonl").write_text(f"{row}\n" * 4 + json.dumps({"tokens": ["a", "dog"], "tags": ["O", "B-x"]}))
    ran = tune(plm, pretrained, tmp_path / "a.jsonl", tmp_path / "out", "task.length=32", epochs=2)
    assert "4 of 5 rows are longer than 32 tokens and are read in windows that overlap" in ran.err
    assert ran.json["dev"]["words"] == 642


def test_a_crf_and_parts_of_speech_are_trained_too(plm, pretrained, rows, tmp_path):
    ran = tune(plm, pretrained, rows, tmp_path / "crf", "task.crf=true", epochs=4)
    assert ran.json["dev"]["f1"] == ran.json["dev"]["strict_f1"]  # it makes no mistakes of the scheme
    assert "heads.tag.crf.transitions" in load_file(tmp_path / "crf" / "model.safetensors")
    assert plmkit.load(tmp_path / "crf", device="cpu").predict("the old dog").tags
    ran = plm("export", tmp_path / "crf", tmp_path / "hub")
    assert (ran.code, "transformers has no CRF" in ran.err) == (2, True)
    (tmp_path / "pos.conll").write_text("the DET\ndog NOUN\nsees VERB\n\na DET\nbird NOUN\n\n" * 8)
    ran = tune(plm, pretrained, tmp_path / "pos.conll", tmp_path / "pos")
    assert ran.json["dev"]["accuracy"] > 0.9
    assert ran.json["baseline"]["dev"]["measure"] == "accuracy"
    assert "words with plain tags: DET: 16, NOUN: 16, VERB: 8" in ran.err
    found = plmkit.load(tmp_path / "pos", device="cpu").predict("the bird")
    assert (found.tags, found.spans) == (("DET", "NOUN"), ())


def test_intent_and_slots_are_predicted_together(plm, pretrained, rows, tmp_path):
    ran = tune(plm, pretrained, rows, tmp_path / "slots", task="slots")
    scores = ran.json["dev"]
    assert scores["exact_match"] > 0.9
    assert {"intent_accuracy", "slot_f1", "slot_strict_f1", "slot_accuracy"} <= scores.keys()
    found = plmkit.load(tmp_path / "slots", device="cpu").predict("the old dog sees the sea")
    assert (found.intent, found.spans[0].text) == ("en", "old dog")
    assert found.probability == found.probabilities["en"] > 0.5
    ran = plm("predict", tmp_path / "slots", "我的狗很可爱。", "--json")
    assert ran.json["predictions"][0]["intent"] == "zh"
    ran = plm("export", tmp_path / "slots", tmp_path / "hub")
    assert (ran.code, "computes the same as --task slots" in ran.err) == (2, True)


def test_a_setting_without_effect_is_refused(plm, pretrained, rows, tmp_path):
    ran = plm("finetune", pretrained, "--task", "tag", "--train", rows, "--out", tmp_path / "a", "--set",
              "task.pooling=mean")  # fmt: skip
    assert (ran.code, "task.pooling=mean has no effect on --task tag" in ran.err) == (2, True)
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows, "--out", tmp_path / "a", "--set",
              "task.crf=true")  # fmt: skip
    assert (ran.code, "task.crf is a setting of --task tag, slots" in ran.err) == (2, True)


@pytest.mark.parametrize("frozen", [True, False])
def test_elmo_is_read_as_features_of_words(plm, made, mixed_corpus, rows, tmp_path, frozen):
    elmo = made / "elmo for tags"
    tiny = {"architecture.width": 16, "architecture.cell": 8, "architecture.filters": "[[2, 8]]", "tokenizer.size": 60,
            "stages": "[[1.0, 16]]", "run.threads": 1}  # fmt: skip
    plmkit.pretrain("elmo-tiny", mixed_corpus, elmo, steps=3, settings=tiny, quiet=True)
    places = ("task.features=Features", "task.features.place=both", "task.features.cell=6", "task.features.words=5")
    tune(plm, elmo, rows, tmp_path / "out", *places, f"task.frozen={str(frozen).lower()}", epochs=1)
    before, after = load_file(elmo / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    same = [bool((before[f"model.{name}"] == weight).all()) for full, weight in after.items()
            if (name := full.removeprefix("model.base.")) != full]  # fmt: skip
    assert (all(same), any(same)) == ((True, True) if frozen else (False, False))
    assert after["model.cells.weight_ih_l0"].shape[1] == 5 + 16  # [x; ELMo] at the input of the LSTM
    assert after["heads.tag.classify.weight"].shape[1] == 2 * 6 + 16  # [h; ELMo] at its output
    first, second = (after[f"model.mixes.{place}.weights"] for place in ("input", "output"))
    assert first.abs().sum() > 0 and not (first == second).all()  # mixes of their own, both trained
    assert plmkit.load(tmp_path / "out", device="cpu").predict("the zyx dog").tags


def test_features_of_a_frozen_bert_are_computed_once_for_all_epochs(plm, pretrained, rows, tmp_path):
    some = ("task.features=Features", "task.features.cell=6", "task.frozen=true")
    now = tune(plm, pretrained, rows, tmp_path / "now", *some, epochs=2)
    once = tune(plm, pretrained, rows, tmp_path / "once", *some, "task.features.precomputed=true", epochs=2)
    assert once.json["dev"]["accuracy"] == pytest.approx(now.json["dev"]["accuracy"])
