"""Runs that do not fit into memory: refused before they start, reported if it happens later, and nothing lost."""

import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from plmkit.catalogue import find
from plmkit.config.counting import parameters
from plmkit.config.machine import settle
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import is_out_of_memory
from plmkit.terminal.screen import Screen
from plmkit.training import memory as room
from plmkit.training.loop import Budget
from plmkit.training.memory import (
    OutOfMemory,
    check_batch,
    check_shape,
    check_step,
    check_weights,
    free_memory,
    kept_bytes,
)
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest
from plmkit.training.step import Step

CPU = torch.device("cpu")
TINY = (
    "architecture.layers=1", "architecture.width=16", "architecture.heads=2", "architecture.inner=32",
    "architecture.max_length=32", "schedule.batch=4", "stages=[[1.0, 32]]", "tokenizer.size=120",
    "run.threads=1", "run.checkpoint_steps=2",
)  # fmt: skip
REFUSED = (
    "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
)


def have(monkeypatch: pytest.MonkeyPatch, free: int | None) -> None:
    monkeypatch.setattr(room, "free_memory", lambda device: free)


def network(*settings: str):
    return settle(find("bert-tiny"), [*TINY, *settings]).recipe.build(unnamed(120))


def batch(rows: int, length: int = 32) -> Batch:
    tokens = torch.arange(5, 5 + length).expand(rows, -1)
    targets = tokens.where(torch.arange(length) % 8 == 0, torch.tensor(IGNORE))
    visible = torch.ones(rows, length, dtype=torch.bool)
    follows = torch.zeros(rows, dtype=torch.long)
    return Batch(
        source=Side(tokens=tokens, visible=visible, segments=torch.zeros_like(tokens)),
        targets=targets,
        random_next=follows,
    )


@pytest.mark.parametrize("name", ["bert-mini", "albert-mini", "electra-tiny", "gpt2-tiny", "char-transformer-tiny"])
def test_many_layers_are_counted_as_if_they_were_built(name):
    recipe = settle(find(name), ["architecture.layers=9"]).recipe
    with torch.device("meta"):
        assert parameters(recipe, 300) == recipe.build(unnamed(300)).parameter_count


@pytest.mark.parametrize(
    ("setting", "least", "needed"),
    [
        ("architecture.width=1e9", "4,000,000,000,000,000,000", "64,000,000,000.0 GB"),
        ("architecture.layers=1e9", "262,144,000,000,000", "4,244,304.0 GB"),
        ("architecture.inner=1e17", "102,400,000,000,000,000,000", "1,638,400,000,000.0 GB"),
        ("architecture.max_length=1e15", "1,000,000,000,000,000", "16,000,000.0 GB"),
    ],
)
def test_a_shape_beyond_all_memory_is_refused_before_any_text_is_read(
    setting, least, needed, plm, tmp_path, monkeypatch
):
    have(monkeypatch, 8_000_000_000)
    ran = plm(
        "pretrain", "bert-mini", tmp_path / "never-read.txt", "--out", tmp_path / "out", "--steps", 1, "--set", setting
    )
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"plm: bert-mini with these settings has at least {least} weights: they, their gradients and the optimizer "
        f"need {needed}, and 8.0 GB are free on this machine.\n"
        f"Lower {setting.partition('=')[0]}, or use a smaller recipe: `plm recipes` lists them.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_layers_that_are_shared_or_narrow_take_memory_too(monkeypatch):
    have(monkeypatch, 8_000_000_000)
    for name in ("albert-mini", "lstm-tiny"):
        recipe = settle(find(name), ["architecture.layers=1e7", "architecture.width=64"]).recipe
        with pytest.raises(OutOfMemory, match=r"Lower architecture\.layers, or use a smaller recipe"):
            check_shape(recipe, CPU)


def test_a_machine_that_does_not_say_its_memory_refuses_only_what_no_machine_has(monkeypatch):
    have(monkeypatch, None)
    check_shape(find("gpt3-175b"), CPU)
    with pytest.raises(OutOfMemory, match="and no machine has that"):
        check_shape(settle(find("bert-mini"), ["architecture.width=1e9"]).recipe, CPU)


@pytest.mark.parametrize("verb", ["doctor", "pretrain"])
def test_a_vocabulary_beyond_all_memory_is_refused_before_it_is_learned(verb, plm, corpus, tmp_path, monkeypatch):
    have(monkeypatch, 8_000_000_000)
    command = ("doctor", corpus) if verb == "doctor" else (verb, "bert-mini", corpus, "--out", tmp_path / "out")
    ran = plm(*command, "--set", "tokenizer.size=1e12")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(
        "plm: tokenizer.size=1,000,000,000,000: training a vocabulary of this size needs 100,000.0 GB, and 8.0 GB are "
        "free on this machine.\nLower tokenizer.size: 8,000 to 50,000 are usual.\n"
    )
    assert list(tmp_path.iterdir()) == [corpus]


def test_weights_that_are_too_many_are_refused_without_being_made(monkeypatch):
    have(monkeypatch, 8_000_000_000)
    recipe = settle(find("bert-mini"), ["architecture.width=100000", "architecture.heads=10"]).recipe
    with pytest.raises(OutOfMemory) as caught:
        check_weights(recipe, 8000, CPU)
    assert str(caught.value) == (
        "bert-mini with these settings has 181,675,012,098 weights: they, their gradients and the optimizer need "
        "2,906.8 GB, and 8.0 GB are free on this machine.\n"
        "Lower architecture.layers or architecture.width, or use a smaller recipe: `plm recipes` lists them."
    )
    check_weights(find("bert-mini"), 8000, CPU)


def test_what_a_step_keeps_grows_with_its_rows_and_leaves_weights_out():
    made = network("architecture.layers=2")  # of the last layer little is kept: only states that are used
    one, four = kept_bytes(made, batch(1)), kept_bytes(made, batch(4))
    assert 3.5 * one < four < 4.2 * one
    keyed = 32 * 16 * 4  # one vector for each token of a row
    assert one > 10 * keyed


def test_for_a_step_that_is_too_large_the_number_of_rows_that_fit_is_reported(monkeypatch):
    made = network()
    row, fixed = kept_bytes(made, batch(4)) // 4, made.parameter_count * 12
    have(monkeypatch, fixed + 10 * row)
    check_step(made, batch(4), 10, CPU, "schedule.batch")
    with pytest.raises(OutOfMemory) as caught:
        check_step(made, batch(4), 1000, CPU, "schedule.batch")
    shown = str(caught.value)
    assert "for the activations of 1,000 rows" in shown
    assert shown.endswith(
        "\nSet run.micro_batch=10 (gradient accumulation, with the same result), or lower schedule.batch."
    )
    have(monkeypatch, fixed)
    with pytest.raises(OutOfMemory, match=r"\nLower schedule.batch\.$"):
        check_step(made, batch(4), 1, CPU, "schedule.batch")


def test_a_batch_that_cannot_be_made_is_refused(monkeypatch):
    have(monkeypatch, 1_000_000_000)
    check_batch(1000, 128, "schedule.batch")
    with pytest.raises(OutOfMemory) as caught:
        check_batch(1_000_000, 128, "schedule.batch")
    assert str(caught.value) == (
        "A batch of 1,000,000 rows of 128 tokens needs 12.8 GB, and 1.0 GB are free.\nLower schedule.batch."
    )


def test_where_the_machine_does_not_say_nothing_is_refused(monkeypatch):
    have(monkeypatch, None)
    check_batch(10**12, 512, "schedule.batch")
    check_step(network(), batch(1), 10**12, CPU, "schedule.batch")
    assert free_memory(torch.device("meta")) is None


def test_free_memory_is_what_the_machine_and_the_container_leave(monkeypatch, tmp_path):
    info, limit, used = (tmp_path / name for name in ("meminfo", "memory.max", "memory.current"))
    info.write_text("MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:  5000 kB\n")
    monkeypatch.setattr(room, "MEMINFO", info)
    monkeypatch.setattr(room, "GROUPS", ((limit, used),))
    assert free_memory(CPU) == 5000 * 1024
    limit.write_text("max\n")
    used.write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 2000\ninactive_file 500\n")
    assert free_memory(CPU) == 5000 * 1024
    limit.write_text("4000\n")
    assert free_memory(CPU) == 4000 - (3000 - 500)
    info.write_text("nothing that we know\n")
    assert free_memory(CPU) is None


def test_the_errors_of_numpy_and_torch_are_known_for_what_they_are():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError(REFUSED))
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    assert not is_out_of_memory(ValueError("not enough memory"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rng = random.Random(0)
    words = ["cat", "dog", "bird", "sees", "hears", "a", "the", "my", "red", "old"]
    sentences = [" ".join(rng.choices(words, k=5)) + "." for _ in range(100)]
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join("\n".join(sentences[i : i + 5]) for i in range(0, 100, 5)) + "\n")
    return path


def order(corpus: Path, out: Path, *sets: str) -> PretrainRequest:
    settings = settle(find("bert-tiny"), [*TINY, *sets])
    return PretrainRequest(settings=settings, corpora=(str(corpus),), out=out, budget=Budget(steps=5))


def test_a_run_that_runs_out_of_memory_keeps_its_checkpoint_and_resumes_with_micro_batches(
    corpus, tmp_path, monkeypatch
):
    monkeypatch.setenv("PLM_CACHE", str(tmp_path / "cache"))
    pretrain(order(corpus, tmp_path / "whole"), Screen())
    steps, real = iter(range(1, 100)), Step.gradients

    def fail_at_four(*given):
        if next(steps) == 4:
            raise RuntimeError(REFUSED)
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Step, "gradients", fail_at_four)
        with pytest.raises(OutOfMemory) as caught:
            pretrain(order(corpus, tmp_path / "run"), Screen())
    assert str(caught.value) == (
        "Out of memory. The run is saved up to step 2.\nSet run.micro_batch to fewer rows, "
        "or lower schedule.batch, the lengths of stages or architecture.layers."
    )
    shown = pretrain(order(corpus, tmp_path / "run"), Screen())
    assert shown.result["steps"] == 5
    whole, run = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "run"))
    assert all(torch.equal(whole[name], run[name]) for name in whole)


def test_a_run_that_has_no_room_writes_nothing(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("PLM_CACHE", str(tmp_path / "cache"))
    have(monkeypatch, 100_000)
    with pytest.raises(OutOfMemory):
        pretrain(order(corpus, tmp_path / "run"), Screen())
    assert not (tmp_path / "run").exists()
