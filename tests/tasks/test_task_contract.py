"""Every kind of task keeps the contract: read, frame, head, decide, score, render; and what it declares, it fills."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import plmkit
from plmkit.data.reading.columns import Columns, Search, ignore
from plmkit.data.reading.whole import read_table
from plmkit.data.samples import Place
from plmkit.errors import SettingError
from plmkit.inference.loading import read_parts
from plmkit.network import Network
from plmkit.storage.manifest import unseal
from plmkit.tasks.batches import LabelledExamples, predictions_of
from plmkit.tasks.contract import Task, stored
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.registry import KINDS, find_kind, stored_tasks, with_named_head
from plmkit.training.checkpoint import checksum
from plmkit.training.run_folder import RunFolder

ROWS: dict[str, list[dict]] = {
    "classify": [{"text": "the cat", "label": "good"}, {"text": "a dog", "label": "bad"}],
    "choose": [
        {"question": "who?", "choices": ["cat", "dog"], "label": 1},
        {"question": "what?", "choices": ["sea", "a", "b"], "label": "a"},
    ],
    "tag": [{"tokens": ["the", "cat"], "tags": ["O", "B-X"]}, {"tokens": ["a", "b", "c"], "tags": ["O", "O", "B-X"]}],
    "slots": [
        {"tokens": ["the", "cat"], "tags": ["O", "B-X"], "intent": "yes"},
        {"tokens": ["a", "b", "c"], "tags": ["O", "O", "B-X"], "intent": "no"},
    ],
    "qa": [
        {"question": "who?", "context": "the cat sees a dog.", "answers": [{"text": "the cat", "answer_start": 0}]},
        {"question": "what?", "context": "the sea", "answers": []},
    ],
    "rank": [
        {"query": "who?", "candidates": ["the cat", "a dog"], "labels": [1, 0]},
        {"query": "what?", "candidates": ["sea", "a", "b"], "label": "a"},
    ],
    "match": [
        {"text_a": "the cat", "text_b": "a cat", "label": 4.5},
        {"text_a": "a dog", "text_b": "the sea", "label": 0.5},
    ],
    "multilabel": [{"text": "the cat", "labels": ["x", "y"]}, {"text": "a dog", "labels": []}],
    "regress": [{"text": "the cat", "label": 1.5}, {"text": "a dog", "label": -2.0}],
    "similarity": [
        {"text_a": "the cat", "text_b": "a cat", "label": 4.5},
        {"text_a": "a dog", "text_b": "the sea", "label": 0.5},
    ],
}
PAIRS = [{"text_a": "the cat", "text_b": "a cat", "label": "yes"}, {"text_a": "a dog", "text_b": "sea", "label": "no"}]


def table_of(kind: str, folder: Path):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS.get(kind, PAIRS)), encoding="utf-8")
    return read_table(path), path


@pytest.fixture(scope="module")
def parts(pretrained):
    return read_parts(pretrained)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_the_contract(kind, parts, tmp_path):
    made = find_kind(kind)
    assert (made.kind, made().name, issubclass(made, Task)) == (kind, kind, True)
    table, path = table_of(kind, tmp_path)
    rows, columns = made().read(table, Search(), ignore)
    assert [row.line for row in rows] == [1, 2]
    assert all(row.label is not None for row in rows)
    task = replace(made(), columns=columns, length=32).learn(rows, path)
    task.check(rows, path)
    unlabelled, _ = task.read(table, Search(), ignore, labelled=False)
    assert [row.label for row in unlabelled] == [None, None]
    examples = task.frame(rows, parts.tokenizer, task.length)
    assert [example.row for example in examples] == rows
    assert all(len(framed.tokens) <= 32 for example in examples for framed in example.inputs)
    head = task.head(parts.architecture, 0.0)
    assert isinstance(head, TaskHead)
    model = parts.architecture.build(parts.vocabulary)
    network = Network(model, {task.name: head}, {task.name: 1.0}).eval()
    vocabulary = parts.tokenizer.vocabulary
    batch, _ = LabelledExamples(task, examples, vocabulary, seed=0, heads=frozenset({task.name})).next(Place(), 64, 0)
    by_words = kind in ("tag", "slots")  # these read the states of all words, the others one pooled vector
    assert (batch.words is not None) == by_words
    assert (batch.examples, head.scored(batch)) == (2, 5 if by_words else 2)
    outcome = network(batch)
    assert outcome.losses.keys() == {task.name}
    outcome.losses[task.name].backward()
    assert all(weight.grad is not None for weight in head.parameters())
    predictions = predictions_of(network, task, examples, vocabulary, torch.device("cpu"))
    shown = [str] * len(rows) if kind == "rank" else [type(row.label) for row in rows]  # the best candidate
    assert [type(found.label) for found in predictions] == shown
    scores = task.score(predictions, rows)
    assert isinstance(scores[task.measure], float)
    columns_of = [list(task.render(found)) for found in (*predictions, task.nothing())]
    assert columns_of[0] == columns_of[1] == columns_of[2]
    baseline = task.baseline(rows, rows)
    assert baseline is None or baseline.measure in scores
    assert task.describe(rows)
    assert task.answers
    assert (task.problem is None) == (
        kind in ("paraphrase", "similarity", "slots", "match")
    )  # no class of Hugging Face
    for ending in task.writes:
        assert task.written(rows, predictions, ending)


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_is_stored_and_read_back(kind):
    task = find_kind(kind)(name="mine", classes=("a", "b"), pooling="mean", length=24, columns=Columns(text="t"))
    assert stored_tasks(json.loads(json.dumps([stored(task)]))) == (task,)


def test_a_task_has_a_name_that_a_weight_can_have():
    with pytest.raises(SettingError, match="only letters"):
        find_kind("classify")(name="my.task")


def test_a_folder_of_format_1_is_read_with_its_one_head(finetuned, tmp_path):
    """Format 1, before tasks had names: the head is `label`, and run.json has one task at its top level."""
    weights = with_named_head(load_file(finetuned / "model.safetensors"), "classify", "label")
    assert "heads.label.classify.weight" in weights
    about = json.loads((finetuned / "run.json").read_text())
    (task,) = about.pop("tasks")
    about |= {"format": 1, "task_kind": task["kind"], "classes": task["classes"], "length": task["length"]}
    old = written(finetuned, tmp_path / "old", about, weights)
    new, again = (plmkit.load(folder, device="cpu") for folder in (finetuned, old))
    texts = ["the cat sees a house.", "my friend"]
    assert again.predict(texts) == new.predict(texts)
    assert again.tasks["classify"].classes == ("bad", "good")
    assert RunFolder(old).record.tasks[0]["columns"] is None


def written(folder: Path, out: Path, about: dict, weights: dict) -> Path:
    """A copy of a run folder with another run.json and other weights."""
    shutil.copytree(folder, out)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    about |= {"checksum": checksum(out / "model.safetensors")}
    (out / "run.json").write_text(json.dumps(about))
    unseal(out)
    return out


# several tasks in one folder


def test_a_folder_of_several_tasks_answers_all_of_them_or_the_one_that_is_named(finetuned, tmp_path, plm):
    one = plmkit.load(finetuned, device="cpu")
    other = replace(one.tasks["classify"], name="other", classes=("x", "y", "z"))
    head = {f"heads.other.{name}": weight for name, weight in other.head(one.architecture).state_dict().items()}
    about = json.loads((finetuned / "run.json").read_text())
    about["tasks"] += [stored(other)]
    two = written(finetuned, tmp_path / "two", about, load_file(finetuned / "model.safetensors") | head)
    model = plmkit.load(two, device="cpu")
    both = model.predict("the cat")
    assert both == {name: model.predict("the cat", task=name) for name in ("classify", "other")}
    with pytest.raises(SettingError, match="has no task 'third'"):
        model.predict("the cat", task="third")
    assert model.predict("the cat", task="other").label in ("x", "y", "z")
    assert model.predict("the cat", task="classify") == one.predict("the cat")
    assert model.classes == ()
    found = plm("predict", two, "the cat", "--json").json["predictions"][0]["tasks"]
    assert (found["classify"]["label"], found["other"]["label"]) == (both["classify"].label, both["other"].label)
    reported = plm("predict", two, "the cat", "--task", "other", "--json").json
    assert reported["predictions"][0]["probabilities"].keys() == {"x", "y", "z"}
