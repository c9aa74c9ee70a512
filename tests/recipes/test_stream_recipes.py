"""Recipes that read on from batch to batch: Transformer-XL and the LSTM, from the command line."""

import json

import pytest
import torch
from safetensors.torch import load_file
from test_family_contract import stop_at

import plmkit
from plmkit.catalogue import find
from plmkit.training.checkpoint import MEMORY

SMALL = {
    "transformer-xl-tiny": ("architecture.width=32", "architecture.inner=64", "architecture.memory=12"),
    "lstm-tiny": ("architecture.width=32",),
}
COMMON = (
    "stages=[[1.0, 16]]",
    "schedule.batch=4",
    "run.threads=1",
    "run.log_steps=10",
    "run.checkpoint_steps=10",
)


def options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.mark.parametrize("name", SMALL)
def test_a_run_that_was_stopped_continues_with_its_memory_bit_for_bit(name, plm, mixed_corpus, tmp_path):
    command = ["pretrain", name, mixed_corpus, "--steps", 60, *options(*COMMON, *SMALL[name], "tokenizer.size=300")]
    ran = plm(*command, "--out", tmp_path / "whole")
    assert ran.code == 0, ran.err
    stop_at(35, plm, [*command, "--out", tmp_path / "halved"])
    folder = max((tmp_path / "halved" / "checkpoints").iterdir())
    memory = load_file(folder / MEMORY)["memory.0"]
    assert memory.shape == {"transformer-xl-tiny": (4, 2, 12, 32), "lstm-tiny": (4, 2, 2, 32)}[name]
    ran = plm(*command, "--out", tmp_path / "halved")
    assert ran.code == 0, ran.err
    whole, resumed = (load_file(tmp_path / run / "model.safetensors") for run in ("whole", "halved"))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    loss = f"train/{find(name).objectives[0].name}"
    losses = [line[loss] for line in lines if loss in line]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", ["Words", "Characters", "StreamByteBPE"])
def test_an_lstm_reads_words_pieces_or_characters(kind, plm, mixed_corpus, tmp_path):
    chosen = options(*COMMON, *SMALL["lstm-tiny"], f"tokenizer={kind}", "tokenizer.size=300")
    ran = plm("pretrain", "lstm-tiny", mixed_corpus, "--out", tmp_path / "run", "--steps", 3, *chosen)
    assert ran.code == 0, ran.err
    assert plmkit.load(tmp_path / "run", device="cpu").embed(["the cat sees a house."]).shape == (1, 32)


def test_rare_words_in_narrow_clusters_are_trained_saved_and_loaded(plm, mixed_corpus, tmp_path):
    settings = ("tokenizer=Words", "architecture.cutoffs=[20, 40]", "architecture.shrink=2")
    chosen = options(*COMMON, *SMALL["transformer-xl-tiny"], *settings)
    ran = plm("pretrain", "transformer-xl-tiny", mixed_corpus, "--out", tmp_path / "run", "--steps", 3, *chosen)
    assert ran.code == 0, ran.err
    model = plmkit.load(tmp_path / "run", device="cpu")
    size = len(model.tokenizer.vocabulary)
    assert [len(table.weight) for table in model.network.model.embed.tables] == [20, 20, size - 40]


def test_absolute_positions_are_chosen_trained_read_on_and_know_no_distances(plm, mixed_corpus, tmp_path):
    chosen = options(*COMMON, *SMALL["transformer-xl-tiny"], "tokenizer.size=300", "architecture=AbsoluteRecurrence")
    ran = plm("pretrain", "transformer-xl-tiny", mixed_corpus, "--out", tmp_path / "run", "--steps", 3, *chosen)
    assert ran.code == 0, ran.err
    (tmp_path / "text.txt").write_text("the cat sees a house.\n" * 9)
    ran = plm("evaluate", tmp_path / "run", tmp_path / "text.txt", "--memory", 20, "--json")
    assert ran.json["reading"] == "recurrent memory of 20 tokens"
    ran = plm("evaluate", tmp_path / "run", tmp_path / "text.txt", "--clamp", 5)
    assert ran.code == 2
    assert ran.err == f"plm: {tmp_path / 'run'} has no relative positions, so --clamp has no effect. Leave it out.\n"


@pytest.mark.parametrize("name", SMALL)
def test_a_corpus_shorter_than_one_segment_is_refused(name, plm, tmp_path):
    (tmp_path / "short.txt").write_text("the cat sees a house.\n")
    ran = plm("pretrain", name, tmp_path / "short.txt", "--out", tmp_path / "run", "--set", "tokenizer.size=300")
    assert ran.code == 2
    assert "The training text has 19 tokens, fewer than one segment of 128." in ran.err
    assert "--set stages='[[1.0, 9]]'" in ran.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["gpt1-tiny", "gpt2-tiny", "gpt3-tiny", "char-transformer-tiny"])
def test_so_it_is_of_models_that_remember_nothing(name, plm, tmp_path):
    (tmp_path / "short.txt").write_text("the cat sees a house.\n")
    ran = plm("pretrain", name, tmp_path / "short.txt", "--out", tmp_path / "run", "--set", "tokenizer.size=300")
    assert ran.code == 2
    assert "tokens, fewer than one segment of" in ran.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", SMALL)
def test_a_corpus_too_small_for_its_streams_is_reported(name, plm, corpus):
    """Streams of one row each: every step begins the text again. With two rows each, the second remembers the first."""
    rows = plm("doctor", corpus, "--recipe", name, "--set", "tokenizer.size=300", "--json").json["examples"]
    for batch, reported in ((rows // 2, False), (rows // 2 + 1, True), (2 * rows, True)):
        sets = options("tokenizer.size=300", f"schedule.batch={batch}")
        said = plm("doctor", corpus, "--recipe", name, *sets, "--json").json["warnings"]
        expected = (
            f"Rows per epoch: {rows}, fewer than two for each of {batch} streams (schedule.batch): every "
            "step starts the text again, so no row has a memory of another. Add text, or lower schedule.batch."
        )
        assert (expected in said) == reported


def test_a_run_with_another_batch_size_is_refused_and_nothing_is_lost(plm, mixed_corpus, tmp_path):
    chosen = options(*COMMON, *SMALL["transformer-xl-tiny"], "tokenizer.size=300")
    command = ["pretrain", "transformer-xl-tiny", mixed_corpus, "--out", tmp_path / "run", "--steps", 30, *chosen]
    stop_at(15, plm, command)
    (folder,) = (tmp_path / "run" / "checkpoints").iterdir()
    before = (folder / MEMORY).read_bytes()
    ran = plm(*command, "--set", "schedule.batch=8")
    assert ran.code == 2
    assert "schedule.batch was 4, is 8" in ran.err
    assert (folder / MEMORY).read_bytes() == before


@pytest.mark.parametrize("name", ["transformer-xl-enwik8", "transformer-xl-text8", "transformer-xl-wt103"])
def test_transformer_xl_keeps_the_settings_of_the_released_scripts(name):
    base, large = find(name), find(f"{name}-large")
    words = name.endswith("wt103")
    for recipe in (base, large):
        schedule = recipe.schedule
        assert (schedule.learning_rate, schedule.clip, schedule.shape, schedule.optimizer.decay) == (
            2.5e-4,
            0.25,
            "cosine",
            0.0,
        )
        assert recipe.architecture.memory == recipe.max_length
        assert recipe.architecture.cutoffs == ((20_000, 40_000, 200_000) if words else ())
    assert (base.schedule.batch, base.max_length, base.schedule.steps) == (
        (60, 150, 200_000) if words else (22, 512, 400_000)
    )
    assert (large.schedule.batch, large.max_length, large.schedule.steps) == (
        (128, 384, 4_000_000) if words else (64, 768, 400_000)
    )
    assert large.schedule.warmup * large.schedule.steps == pytest.approx(16_000 if words else 4_000)
    assert large.architecture.shrink == (4 if words else 1)


def test_transformer_xl_of_the_billion_words_keeps_the_settings_of_the_released_script():
    recipe = find("transformer-xl-lm1b")
    schedule, shape = recipe.schedule, recipe.architecture
    assert (shape.layers, shape.width, shape.heads, shape.inner, shape.shrink) == (18, 1024, 8, 4096, 4)
    assert shape.cutoffs == (60_000, 100_000, 640_000)
    assert shape.dropout == shape.attention_dropout == 0.0
    assert (schedule.batch, recipe.max_length, shape.memory, shape.max_length) == (224, 32, 32, 32)
    assert (schedule.steps, schedule.warmup * schedule.steps) == (500_000, pytest.approx(20_000))
    assert (schedule.learning_rate, schedule.clip, schedule.shape, schedule.optimizer.decay) == (
        2.5e-4,
        0.25,
        "cosine",
        0.0,
    )


@pytest.mark.parametrize("vocabulary", [50, 204])
def test_transformer_xls_parameters_follow_the_closed_form(vocabulary):
    from plmkit.config.counting import parameters

    shape = find("transformer-xl-mini").architecture
    d, inner = shape.width, shape.inner
    block = 5 * d**2 + 2 * d + (d * inner + inner) + (inner * d + d) + 2 * d
    assert (
        parameters(find("transformer-xl-mini"), vocabulary)
        == vocabulary * d + vocabulary + 2 * d + shape.layers * block
    )
