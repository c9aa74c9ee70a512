"""ERNIE 2: its tasks, its sizes, the one setting for their order, and runs with the tasks that a corpus allows."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from plmkit.catalogue import find
from plmkit.config.counting import encoder_parameters
from plmkit.config.machine import settle
from plmkit.config.pretraining_tasks import task_order, tasks_of
from plmkit.data.batch import IGNORE
from plmkit.errors import RecipeError, SettingError
from plmkit.preparation.prepare import prepare
from plmkit.recipe import Recipe
from plmkit.schedules.task_stages import continual, joint, sequential
from plmkit.terminal.screen import Screen

SEVEN = ("knowledge", "capitals", "document", "order", "distance", "discourse", "relevance")
TINY = find("ernie2-tiny")
SMALL = (
    "architecture.layers=1", "architecture.width=16", "architecture.heads=2", "architecture.inner=16",
    "architecture.max_length=32", "tokenizer.size=300", "schedule.batch=4", "run.threads=1", "run.log_steps=1",
    "initialisation.cooccurrence_embeddings=false", "run.valid_share=0.1", "streams.document.frequent=1",
)  # fmt: skip


def settled(*assignments: str) -> Recipe:
    return settle(TINY, assignments).recipe


def test_the_sizes_are_those_of_the_released_networks():
    """BERT's, with two segments more and sixteen tasks."""
    assert encoder_parameters(find("ernie2-base")) == encoder_parameters(find("bert-base")) + 18 * 768 == 109_496_064
    assert encoder_parameters(find("ernie2-large")) == 335_160_320


@pytest.mark.parametrize("name", ["ernie2-tiny", "ernie2-mini", "ernie2-base", "ernie2-large"])
def test_seven_tasks_have_a_stream_an_embedding_and_a_head_each(name):
    recipe = find(name)
    assert tasks_of(recipe) == SEVEN
    assert [stream.task for stream in recipe.streams] == list(range(7))
    assert [stream.heads for stream in recipe.streams] == [(objective.name,) for objective in recipe.objectives]
    assert task_order(recipe) == "continual"
    assert recipe.stages == continual(SEVEN, recipe.max_length)


def test_one_setting_chooses_when_the_tasks_are_trained():
    assert settled("tasks=sequential").stages == sequential(SEVEN, 128)
    assert settled("tasks=joint").stages == joint(SEVEN, 128)
    assert replace(settled("tasks=joint"), stages=TINY.stages) == TINY
    assert settled("tasks=continual") == TINY


def test_one_setting_leaves_tasks_out():
    recipe = settled("without=capitals")
    left = tuple(name for name in SEVEN if name != "capitals")
    assert tasks_of(recipe) == left
    assert recipe.stages == continual(left, 128)
    assert "capital_prediction" not in {objective.name for objective in recipe.objectives}
    assert len(recipe.objectives) == 6
    assert [stream.task for stream in recipe.streams] == [0, 2, 3, 4, 5, 6]  # as in a run with all of them
    both = settled("without=order,relevance", "tasks=joint")
    assert both.stages == joint([name for name in SEVEN if name not in ("order", "relevance")], 128)


@pytest.mark.parametrize(
    ("recipe", "assignment", "message"),
    [
        (TINY, "tasks=jiont", r"tasks takes continual, sequential, joint; found 'jiont'\. Did you mean 'joint'"),
        (TINY, "without=capital", r"has no such pretraining task\. Did you mean 'capitals'"),
        (TINY, "without=" + ",".join(SEVEN), "without all of its tasks"),
        (TINY, "sentence_task=nsp", "has pretraining tasks of its own"),
        (TINY, "streams.order.task=16", r"for task 16, but TaskEncoder has 16 task embeddings"),
        (TINY, "architecture.task=16", r"0 to 15; found 16"),
        (find("bert-tiny"), "tasks=joint", r"bert-tiny has no pretraining tasks by name"),
        (find("ernie-mini"), "without=phrase", r"ernie-mini has no pretraining tasks by name"),
        (find("bert-tiny"), "streams.text.task=1", r"for task 1, but Encoder has 0 task embeddings"),
    ],
)
def test_what_cannot_be_is_refused(recipe, assignment, message):
    with pytest.raises((SettingError, RecipeError), match=message):
        settle(recipe, [assignment])


def write_text(path: Path, *, capitals: bool) -> Path:
    rng = random.Random(0)
    things, does = "cat dog house river king garden moon sea boat tree".split(), "sees likes meets finds".split()
    line = lambda: f"The {rng.choice(things)} {rng.choice(does)} the {rng.choice(things)}."  # noqa: E731
    because = lambda: f"The {rng.choice(things)} left because the {rng.choice(things)} came back."  # noqa: E731
    text = "\n\n".join("\n".join(rng.choice((line, line, because))() for _ in range(20)) for _ in range(30))
    path.write_text(text if capitals else text.lower(), encoding="utf-8")
    return path


def test_the_task_of_knowledge_masks_whole_units_and_its_loss_is_the_mean_over_their_tokens(tmp_path):
    """An entity of two words is masked as a whole or not at all, as ERNIE 1 does."""
    text = tmp_path / "text.txt"
    lines = ["The king met Harry Potter in the garden.", "They saw a boat in New York and a house in the sea."]
    text.write_text("\n\n".join("\n".join(lines) for _ in range(30)) + "\n", encoding="utf-8")
    shares = "corruption.unit_masking.shares=[0.0, 0.0, 1.0]"  # of words, phrases and entities
    settings = settle(TINY, [*SMALL, f"stages={json.dumps([[stage.until, 32] for stage in TINY.stages])}", shares])
    material = prepare(settings, [str(text)], None, 0, Screen(quiet=True))
    samples, vocabulary = material.streams["knowledge"], material.tokenizer.vocabulary
    seen, rows = Counter[tuple[str, bool]](), samples.rows(0, 0, 29, 32)
    for tokens, targets in zip(rows.tokens, rows.targets, strict=True):
        names = vocabulary.names(np.where(targets == IGNORE, tokens, targets))
        for first, second in (("harry", "potter"), ("new", "york")):
            for at in range(len(names) - 1):
                if (names[at], names[at + 1]) == (first, second):
                    hidden = targets[at] != IGNORE, targets[at + 1] != IGNORE
                    assert hidden[0] == hidden[1], names
                    seen[f"{first} {second}", bool(hidden[0])] += 1
    assert {(name, hidden) for name in ("harry potter", "new york") for hidden in (True, False)} == set(seen)

    stream = next(one for one in settings.recipe.streams if one.name == "knowledge")
    torch.manual_seed(0)
    network = settings.recipe.build(vocabulary).eval()
    batch = samples.batch(0, 0, 8, 32).of_stream(frozenset(stream.heads), stream.task)
    with torch.inference_mode():
        losses = network(batch).losses
        logs = network.heads["masked_lm"].vocabulary(network.model(batch).hidden).log_softmax(-1)
    masked = [(row, at) for row, at in np.argwhere(batch.targets.numpy() != IGNORE).tolist()]
    by_hand = -np.mean([float(logs[row, at, batch.targets[row, at]]) for row, at in masked])
    assert losses.keys() == {"masked_lm"}
    assert float(losses["masked_lm"]) == pytest.approx(by_hand, abs=1e-4)


def counts(folder: Path) -> Counter[str]:
    """The number of steps of each task: every line of the log is one step."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    named = {objective.name: stream.name for objective, stream in zip(TINY.objectives, TINY.streams, strict=True)}
    return Counter(named[key.removeprefix("train/")] for line in lines for key in line if key.startswith("train/"))


def run(plm, paths: tuple[Path, ...], out: Path, steps: int, *assignments: str):
    stages = json.dumps([[stage.until, 32] for stage in TINY.stages])
    given = [*SMALL, *([] if any("tasks=" in one for one in assignments) else [f"stages={stages}"]), *assignments]
    ran = plm("pretrain", "ernie2-tiny", *paths, "--out", out, "--steps", steps,
              *(part for one in given for part in ("--set", one)))  # fmt: skip
    assert ran.code == 0, ran.err
    return ran


def test_a_corpus_without_capitals_or_titles_trains_the_other_tasks_and_each_gets_its_steps(plm, tmp_path):
    ran = run(plm, (write_text(tmp_path / "text.txt", capitals=False),), tmp_path / "run", 60)
    assert "The stream 'capitals' is left out: the text has no capital letter (Chinese has none)." in ran.out + ran.err
    assert "The stream 'relevance' is left out: no query–title table is given." in ran.out + ran.err
    left = [name for name in SEVEN if name not in ("capitals", "relevance")]
    assert counts(tmp_path / "run") == dict.fromkeys(left, 12)


def test_with_query_titles_all_seven_are_trained(plm, tmp_path):
    text = write_text(tmp_path / "text.txt", capitals=True)
    titles = tmp_path / "titles.tsv"
    rows = [f"where is the {word} {number}\tthe {word} of {number}\t{number % 2}"
            for number in range(8) for word in ("cat", "dog", "king", "sea")]  # fmt: skip
    titles.write_text("\n".join(["query\ttitle\tlabel", *rows]), encoding="utf-8")
    run(plm, (text, titles), tmp_path / "run", 56)
    assert counts(tmp_path / "run") == dict.fromkeys(SEVEN, 8)
    fine_tunes_with_any_task_embedding(plm, tmp_path)


def fine_tunes_with_any_task_embedding(plm, folder: Path) -> None:
    """The first, unless another is chosen; the architecture of the fine-tuned model keeps the choice."""
    rows = folder / "rows.tsv"
    rows.write_text("text\tlabel\n" + "the cat sees the sea.\tgood\nthe king met the dog.\tbad\n" * 8)
    for chosen, settings in ((0, ()), (3, ("--set", "task.task_embedding=3"))):
        out = folder / f"task-{chosen}"
        ran = plm("finetune", folder / "run", "--task", "classify", "--train", rows, "--epochs", 1, "--out", out,
                  "--set", "run.threads=1", *settings)  # fmt: skip
        assert ran.code == 0, ran.err
        assert json.loads((out / "run.json").read_text())["architecture"]["task"] == chosen
    ran = plm("finetune", folder / "run", "--task", "classify", "--train", rows, "--out", folder / "none",
              "--set", "task.task_embedding=16")  # fmt: skip
    assert (ran.code, "one of the model's task embeddings, 0 to 15; found 16" in ran.err) == (2, True)
