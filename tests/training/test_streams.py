"""A recipe with two streams, which this file alone defines: sentences to fill, and pairs of texts to classify."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from plmkit.catalogue import find
from plmkit.config.machine import Settings, settle
from plmkit.config.settings import to_json
from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.arrange.stream import ParallelStreams
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.samples import Place, Position
from plmkit.errors import RecipeError, SettingError
from plmkit.objectives.contract import Head
from plmkit.preparation.prepare import prepare
from plmkit.recipe import DataStream, Recipe, recipe_from_json
from plmkit.schedules.schedule import Stage
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import CHECKPOINTS, read_position
from plmkit.training.loop import Budget, State, train
from plmkit.training.run_folder import RunFolder
from plmkit.training.step import Step

TINY = (
    "tokenizer.size=150", "architecture.layers=1", "architecture.heads=2", "architecture.width=16",
    "architecture.inner=16", "architecture.max_length=32", "schedule.batch=4", "stages=[[1.0, 32]]", "run.threads=1",
    "run.valid_share=0.2", "run.log_steps=1", "run.device=cpu", "run.dtype=float32", "schedule.learning_rate=1e-3",
)  # fmt: skip
SENTENCES = DataStream(
    name="sentences", arrangement=SingleSegment(), maskings=(TokenMasking(),), heads=("masked_lm",), weight=3
)
PAIRS = DataStream(name="pairs", arrangement=SentencePairs(), heads=("next_sentence",), weight=1)


def two_streams(**changes) -> Recipe:
    base = settle(find("bert-tiny"), TINY).recipe
    return replace(base, name="two-streams", **{"streams": (SENTENCES, PAIRS), **changes})


@pytest.fixture(scope="module")
def settings() -> Settings:
    return replace(settle(find("bert-tiny"), TINY), recipe=two_streams())


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    rng, path = random.Random(0), tmp_path_factory.mktemp("text") / "corpus.txt"
    words = "the a cat dog house river sees likes red old moon garden".split()
    line = lambda: " ".join(rng.choices(words, k=7)) + "."  # noqa: E731
    path.write_text("\n\n".join("\n".join(line() for _ in range(6)) for _ in range(40)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def material(settings, text):
    return prepare(settings, [str(text)], None, 0, Screen())


def go(recipe: Recipe, material, *, until: int = 12, start=None):
    """Train up to a step, from the beginning or from weights, optimizer state and position."""
    torch.manual_seed(0)
    network = recipe.build(material.tokenizer.vocabulary)
    optimizer = recipe.schedule.optimizer.build(network.named_parameters(), recipe.schedule.learning_rate)
    state = State()
    if start is not None:
        network.load_state_dict(start[0])
        optimizer.load_state_dict(start[1])
        state = start[2]
    losses = []

    def watch(report) -> bool:
        losses.append(report.losses)
        return report.state.step < until

    step = Step(network, optimizer, clip=recipe.schedule.clip)
    state = train(step, material.source(recipe, 0), recipe.schedule, Budget(steps=12), watch, seed=0, state=state)
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    return weights, optimizer.state_dict(), state, losses


def test_each_step_has_the_losses_of_its_stream(settings, material):
    *_, state, losses = go(settings.recipe, material)
    assert {tuple(step) for step in losses} == {("masked_lm",), ("next_sentence",)}
    counts = {name: sum(name in step for step in losses) for name in ("masked_lm", "next_sentence")}
    places = {"sentences": Place(index=4 * counts["masked_lm"]), "pairs": Place(index=4 * counts["next_sentence"])}
    assert state.position == Position(places=places)


def test_heads_run_on_their_batches_alone(settings, material, monkeypatch):
    seen = []
    plain = Head.__call__

    def noted(head, states, batch):
        seen.append((type(head).__name__, batch.heads))
        return plain(head, states, batch)

    monkeypatch.setattr(Head, "__call__", noted)
    go(settings.recipe, material)
    assert set(seen) == {
        ("MaskedLMHead", frozenset({"masked_lm"})), ("SentencePairHead", frozenset({"next_sentence"})),
    }  # fmt: skip


@pytest.mark.parametrize("stop", [1, 5, 9])
def test_a_run_that_is_resumed_ends_with_the_same_weights(settings, material, stop):
    weights, *_, whole = go(settings.recipe, material)
    *start, before = go(settings.recipe, material, until=stop)
    resumed, *_, after = go(settings.recipe, material, start=start)
    assert before + after == whole
    assert all(torch.equal(resumed[name], weights[name]) for name in weights)


def pretrained(settings: Settings, text: Path, out: Path, steps: int, *, extend: bool = False):
    from plmkit.training.pretrain import pretrain
    from plmkit.training.request import PretrainRequest

    request = PretrainRequest(
        settings=settings, corpora=(str(text),), out=out, budget=Budget(steps=steps), extend=extend
    )
    return pretrain(request, Screen())


def test_a_run_folder_has_the_place_of_each_stream_and_held_out_losses_by_stream(settings, text, tmp_path):
    record = pretrained(settings, text, tmp_path / "run", 10)
    scores = {name for name in record.result if name.startswith("valid/")}
    assert scores == {"valid/sentences/masked_lm", "valid/pairs/next_sentence"}
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {name for line in lines for name in line if name.startswith("train/")} == {
        "train/masked_lm", "train/next_sentence",
    }  # fmt: skip
    saved = json.loads((tmp_path / "run" / CHECKPOINTS / "step-00000010" / "state.json").read_text())
    rows = {name: place["index"] for name, place in saved["state"]["position"]["places"].items()}
    assert rows.keys() == {"sentences", "pairs"}
    assert sum(rows.values()) == 40
    assert RunFolder(tmp_path / "run").record.recipe == settings.recipe
    assert load_file(tmp_path / "run" / "model.safetensors")


def test_settings_reach_one_stream_or_all_of_them():
    recipe = settle(two_streams(), ["streams.pairs.weight=2", "streams.sentences.rate=0.3"]).recipe
    assert [stream.weight for stream in recipe.streams] == [3, 2]
    assert recipe.streams[0].maskings == (TokenMasking(rate=0.3),)
    assert settle(two_streams(), ["corruption.rate=0.3"]).recipe.streams[0].maskings == (TokenMasking(rate=0.3),)
    with pytest.raises(SettingError, match=r"There is no setting 'streams\.pair\.weight'\. Did you mean 'pairs'\?"):
        settle(two_streams(), ["streams.pair.weight=2"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"streams": (SENTENCES, replace(PAIRS, name="sentences"))}, "streams need unique names"),
        ({"streams": (SENTENCES, replace(PAIRS, weight=0))}, "streams.pairs.weight must be above 0; found 0"),
        ({"streams": (SENTENCES, replace(PAIRS, heads=("order",)))}, "'pairs' trains order, which is not an objective"),
        ({"streams": (SENTENCES, replace(SENTENCES, name="more"))}, "no stream trains next_sentence"),
        ({"streams": (replace(SENTENCES, heads=None), PAIRS)}, "NextSentence reads random_next"),
        ({"streams": (SENTENCES, replace(PAIRS, place="sentences"))}, "but arrange rows differently"),
        ({"stages": (Stage(length=32, streams=("sentences",)),)}, "no stage uses the stream 'pairs'"),
        ({"stages": (Stage(length=32, streams=("words",)),)}, "a stage uses the stream 'words'"),
    ],
)  # fmt: skip
def test_streams_that_do_not_fit_are_refused(changes, said):
    with pytest.raises(RecipeError) as refused:
        two_streams(**changes)
    assert str(refused.value).startswith("two-streams: ")
    assert said in str(refused.value)


def test_a_stream_that_continues_from_batch_to_batch_runs_alone():
    base = settle(find("lstm-tiny"), ["stages=[[1.0, 32]]"]).recipe
    both = tuple(DataStream(name=name, arrangement=ParallelStreams()) for name in ("a", "b"))
    with pytest.raises(RecipeError, match="must be alone in its stage; found a, b"):
        replace(base, streams=both)
    apart = (Stage(until=0.5, length=32, streams=("a",)), Stage(length=32, streams=("b",)))
    assert replace(base, streams=both, stages=apart)


def test_a_position_of_an_older_checkpoint_is_that_of_the_only_stream():
    old = {"stage": 1, "epoch": 2, "index": 30}
    assert read_position(old) == Position(stage=1, places={"text": Place(epoch=2, index=30)})


def test_the_recipe_of_an_older_run_is_the_one_that_the_same_settings_give_today():
    about = json.loads((Path(__file__).parents[1] / "config" / "run_of_format_1.json").read_text(encoding="utf-8"))
    given = [
        "architecture.layers=1", "architecture.width=16", "architecture.heads=2", "architecture.inner=16",
        "architecture.max_length=32", "schedule.lengths=[[0.25,16],[0.5,16],[1.0,32]]", "tokenizer.size=120",
        "schedule.batch=2", "corruption.masked=0.7",
    ]  # fmt: skip
    old, new = recipe_from_json(about["recipe"]), settle(find("ernie-mini"), given).recipe
    assert old.streams == new.streams
    assert old.stages == new.stages
    assert old.schedule == new.schedule
    assert recipe_from_json(to_json(old)) == old
