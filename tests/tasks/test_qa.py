"""Question answering from a file to answers: trained, scored, predicted, by the command line and from Python."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import plmkit
from plmkit.catalogue import CATALOGUE, find
from plmkit.config.machine import settle
from plmkit.data.samples import Place
from plmkit.errors import InputError
from plmkit.inference.loading import Parts, read_parts, without_generator
from plmkit.tasks.answering.heads import ConditionalSpanHead, SpanHead
from plmkit.tasks.answering.rows import Question
from plmkit.tasks.answering.search import Answer
from plmkit.tasks.batches import LabelledExamples, one_by_one, predictions_of
from plmkit.tasks.features import with_features
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.tasks.kinds.qa import QA
from plmkit.tasks.seed_result import SeedResult, load_result, save_result
from plmkit.tasks.seed_run import build, optimizer_of
from plmkit.tasks.settings import TaskSettings
from plmkit.training.step import Step

ANIMALS, PLACES = ("cat", "dog", "bird", "fish"), ("sea", "house", "moon", "river")
QUICK = ("--set", "run.threads=1", "--set", "task.batch=16", "--set", "task.learning_rate=3e-3",
         "--set", "task.length=32", "--set", "task.stride=8")  # fmt: skip


def questions(path: Path, count: int, seed: int) -> Path:
    """Which animal is it? Every fourth text has none; every third is longer than a row."""
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        animal, place = rng.choice(ANIMALS), rng.choice(PLACES)
        words = f"my friend hears the {place}. the old {animal if number % 4 else 'king'} sees a {place}."
        text = words if number % 3 else f"{'the moon calls the sea. ' * 5}{words}{' a king hears the house.' * 3}"
        answers = [{"text": f"old {animal}", "answer_start": text.index(f"old {animal}")}] if number % 4 else []
        row = {"id": f"q{number}", "question": "the animal that sees", "context": text, "answers": answers}
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def answering(made, pretrained):
    """A run folder fine-tuned on toy questions, and the file they are in."""
    rows = questions(made / "questions.jsonl", 48, seed=0)
    plmkit.finetune(
        pretrained, "qa", rows, made / "answering", dev=rows, epochs=12,
        settings={"run.threads": 1, "task.batch": 16, "task.learning_rate": 3e-3, "task.length": 32,
                  "task.stride": 8},
    )  # fmt: skip
    return made / "answering", rows


def test_toy_questions_are_learned_with_their_threshold(answering, plm):
    folder, rows = answering
    record = json.loads((folder / "run.json").read_text())
    dev = record["result"]["dev"]
    assert dev["exact"] >= 0.8
    assert {"answerable_f1", "unanswerable_f1", "best_f1", "best_exact"} <= dev.keys()
    assert record["learned"]["qa"]["threshold"] == dev["threshold"]
    assert read_parts(folder).tasks[0].threshold == dev["threshold"]
    assert dev["f1"] == dev["best_f1"]  # on dev, the threshold is the best one
    again = plm("evaluate", folder, rows, "--json").json
    assert {name: value for name, value in again.items() if isinstance(value, float)} == pytest.approx(
        {name: value for name, value in dev.items() if isinstance(value, float)}
    )
    assert record["result"]["baseline"]["dev"]["measure"] == "f1"


def test_the_same_command_finds_the_run_finished_although_the_threshold_was_learned(answering, pretrained):
    folder, rows = answering
    before = (folder / "run.json").read_bytes()
    plmkit.finetune(
        pretrained, "qa", rows, folder, dev=rows, epochs=12,
        settings={"run.threads": 1, "task.batch": 16, "task.learning_rate": 3e-3, "task.length": 32,
                  "task.stride": 8},
    )  # fmt: skip
    assert (folder / "run.json").read_bytes() == before


def test_what_a_finished_seed_learned_is_kept_for_an_interrupted_run(tmp_path):
    made = SeedResult(choice=1.0, scores={"dev": {}}, weights={"a": torch.zeros(1)}, learned={"threshold": -2.75})
    save_result(tmp_path / "0", made)
    found = load_result(tmp_path / "0", QA())
    assert found is not None
    assert (found.learned, found.choice) == ({"threshold": -2.75}, 1.0)


def test_python_answers_with_the_place_in_the_text(answering):
    model = plmkit.load(answering[0], device="cpu")
    context = "my friend hears the sea.  The old DOG sees a sea."
    found = model.predict({"question": "the animal that sees", "context": context})
    assert (found.label, context[found.start : found.end]) == ("old DOG", "old DOG")
    assert 0 < found.probability <= 1
    assert found.n_best[0].text == found.label
    pairs = model.predict([("the animal that sees", context)] * 2)
    assert [one.label for one in pairs] == ["old DOG"] * 2
    assert "a part of the text" in repr(model)


def test_a_document_of_many_windows_is_answered_as_if_it_were_short(answering):
    model = plmkit.load(answering[0], device="cpu")
    around = "the moon calls the sea. " * 400
    context = f"{around}the old bird sees a house. {around}"
    found = model.predict({"question": "the animal that sees", "context": context})
    assert any(span.text == "old bird" for span in found.n_best[:3])
    assert context[found.n_best[0].start : found.n_best[0].end] == found.n_best[0].text


def test_the_score_of_the_answer_is_attributed_to_question_and_context(answering):
    model = plmkit.load(answering[0], device="cpu")
    found = model.attend("the animal that sees", "the old cat sees a house.")
    assert found.attribution is not None
    assert np.abs(found.attribution.scores).max() > 0


def test_predict_adds_columns_to_a_file(answering, plm, tmp_path):
    folder, rows = answering
    ran = plm("predict", folder, rows, "--out", tmp_path / "a.jsonl")
    assert ran.code == 0, ran.err
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[1])
    assert list(first) == ["id", "question", "context", "answers", "answer", "probability", "start", "end",
                           "null_probability"]  # fmt: skip
    assert first["context"][first["start"] : first["end"]] == first["answer"]


def test_predict_takes_a_question_about_a_text_or_a_file(answering, plm, tmp_path):
    folder, _ = answering
    ask = ("--question", "the animal that sees")
    context = "my friend hears the sea. the old cat sees a house."
    ran = plm("predict", folder, *ask, context, "--json")
    assert ran.code == 0, ran.err
    (found,) = ran.json["predictions"]
    assert (found["label"], found["start"], found["end"]) == ("old cat", 29, 36)
    assert found["n_best"][0]["text"] == "old cat"
    assert {"probability", "null_probability", "null_difference", "row"} <= found.keys()
    (tmp_path / "text.txt").write_text(context.replace(". ", ".\n"), encoding="utf-8")  # a file is one text
    ran = plm("predict", folder, *ask, tmp_path / "text.txt", "--json")
    assert [one["label"] for one in ran.json["predictions"]] == ["old cat"]
    (tmp_path / "texts.csv").write_text(f"context\n{context}\n{context}\n", encoding="utf-8")
    assert len(plm("predict", folder, *ask, tmp_path / "texts.csv", "--json").json["predictions"]) == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["a text"], "is plain text without questions. Ask one about it: --question TEXT"),
        (["--question", " ", "a text"], "The question is empty"),
        (["--question", "who?", "  "], "The text is empty"),
    ],
)
def test_predict_refuses_what_is_no_question(given, says, answering, plm):
    ran = plm("predict", answering[0], *given)
    assert (ran.code, says in ran.err) == (2, True), ran.err


def test_a_question_is_refused_by_a_classifier(finetuned, plm):
    ran = plm("predict", finetuned, "--question", "who?", "a text")
    assert (ran.code, "--question is for models that answer questions" in ran.err) == (2, True)


def test_python_refuses_rows_that_are_no_questions(answering):
    model = plmkit.load(answering[0], device="cpu")
    with pytest.raises(InputError, match="row 1 must have `question` and `context`; found a str"):
        model.predict("a text")
    with pytest.raises(InputError, match="Row 2: the question is empty"):
        model.predict([("who?", "a text"), ("", "a text")])


def test_settings_of_the_kind_are_taken_and_checked(pretrained, plm, tmp_path):
    rows = questions(tmp_path / "q.jsonl", 8, seed=1)
    options = ("finetune", pretrained, "--task", "qa", "--train", rows, "--out", tmp_path / "out", *QUICK)
    for setting, says in {
        "task.stride=0": "task.stride must be at least 1; found 0.",
        "task.n_best=0": "task.n_best must be at least 1; found 0.",
        "task.pooling=mean": "task.pooling is for answers about whole rows",
        "task.threshold=1": "There is no setting 'task.threshold'",
    }.items():
        ran = plm(*options, "--set", setting)
        assert (ran.code, says in ran.err) == (2, True), ran.err
    assert not (tmp_path / "out").exists()


def test_questions_without_any_answer_cannot_be_trained_on(pretrained, plm, tmp_path):
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": "who?", "context": "a b", "answers": []}) + "\n")
    ran = plm("finetune", pretrained, "--task", "qa", "--train", tmp_path / "q.jsonl", "--out", tmp_path / "out")
    assert (ran.code, "no question has an answer, so there is nothing to learn" in ran.err) == (2, True)


def test_by_default_rows_have_the_length_of_the_paper(pretrained, plm, tmp_path):
    assert QA.usual_length == 384
    defaults = QA()
    assert (defaults.stride, defaults.question_length, defaults.max_answer, defaults.n_best) == (128, 64, 30, 20)
    rows = questions(tmp_path / "q.jsonl", 8, seed=1)
    ran = plm("finetune", pretrained, "--task", "qa", "--train", rows, "--out", tmp_path / "out", "--epochs", 0.1,
              "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    assert read_parts(tmp_path / "out").tasks[0].length == 64  # the network reads no more


def test_both_languages_get_scores_of_their_own():
    rows = [Question(text="who?", other="the cat", answers=("cat",), label="cat", line=1),
            Question(text="谁？", other="战国无双3", answers=("战国无双",), label="战国无双", line=2)]  # fmt: skip
    scores = QA().score([Answer(label="The cat"), Answer(label="战国")], rows)
    assert (scores["english_exact"], scores["english_f1"]) == (1.0, 1.0)
    assert (scores["chinese_exact"], scores["chinese_f1"]) == (0.0, 2 * 1.0 * 0.5 / 1.5)
    assert scores["f1"] == (1.0 + 2 / 3) / 2


def test_the_baseline_is_the_sentence_with_the_words_of_the_question_or_no_answer():
    text = "It is old. The Rhine flows into the North Sea. 它很长。"
    row = Question(
        text="Where does the Rhine flow into?", other=text, answers=("North Sea",), label="North Sea", line=1
    )
    baseline = QA().baseline([row], [row])
    assert baseline.answer == "the sentence with the most words of the question"
    assert baseline.score == 2 * (2 / 5) * 1.0 / (2 / 5 + 1.0)  # `rhine flows into north sea`
    none = Question(text="Who?", other=text, answers=(), label="", line=2)
    assert QA().baseline([row], [row, none, none]).answer == "no answer to any question"


# Every family


FAMILIES = ("bert", "roberta", "albert", "electra", "xlnet", "gpt2", "gpt1", "lstm", "transformer-xl", "elmo",
            "transformer", "ernie", "char-transformer", "rnn", "gpt3")  # fmt: skip
TEXTS = ["the old cat sees the sea. my friend hears the moon. the animal that sees"] * 20
SMALL = {"layers": 2, "heads": 2, "width": 16, "inner": 32, "embedding": 8, "max_length": 64}


def parts_of(family: str, folder: Path) -> Parts:
    """A tiny network of the family with random weights."""
    recipe = find(next(name for name in (f"{family}-tiny", f"{family}-mini") if name in CATALOGUE))
    shape = vars(recipe.architecture)
    sets = [f"architecture.{name}={size}" for name, size in SMALL.items() if shape.get(name) is not None]
    stages = json.dumps([[stage.until, 32] for stage in recipe.stages])
    recipe = settle(recipe, [f"stages={stages}", "tokenizer.size=300", *sets]).recipe
    tokenizer = recipe.tokenizer.train(TEXTS)
    torch.manual_seed(0)
    model = recipe.architecture.build(tokenizer.vocabulary)
    parts = Parts(
        folder=folder, architecture=recipe.architecture, tokenizer=tokenizer, tuning=recipe.tuning,
        weights={f"model.{name}": weight for name, weight in model.state_dict().items()},
    )  # fmt: skip
    return with_task_tokens(without_generator(parts))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_and_answers(family, tmp_path):
    parts = parts_of(family, tmp_path)
    settings = TaskSettings(learning_rate=1e-2).settled(parts.architecture, parts.tuning)
    parts = with_features(parts, settings.features)
    context = "my friend hears the moon. the old cat sees the sea."
    rows = [Question(text="the animal that sees", other=context, answers=("old cat",), label="old cat",
                     start=context.index("old cat"), line=1),
            Question(text="the animal that sees", other="the sea.", answers=(), label="", line=2)]  # fmt: skip
    task = QA(length=24, stride=6).learn(rows, tmp_path)
    examples = task.frame(rows, parts.tokenizer, task.length)
    network = build(settings, parts, [task], seed=0)
    expected = ConditionalSpanHead if family == "xlnet" else SpanHead
    assert type(network.heads["qa"]) is expected
    vocabulary = parts.tokenizer.vocabulary
    source = LabelledExamples(task, one_by_one(task, examples), vocabulary, seed=0, heads=frozenset(network.heads))
    step = Step(network, optimizer_of(network, settings), clip=1.0)
    batch, losses = source.next(Place(), 8, task.length)[0], []
    for _ in range(2):
        losses.append(step.gradients(batch).loss)
        step.update(1.0)
    assert np.isfinite(losses).all()
    assert losses[1] < losses[0]
    found = predictions_of(network.eval(), task, examples, vocabulary, torch.device("cpu"))
    assert all(context[one.start : one.end] == one.label for one in found[:1] if one.start is not None)
    assert all(isinstance(one.label, str) and np.isfinite(one.null_difference) for one in found)
