"""ALBERT from end to end: trained, stopped, gone on with, fine-tuned, exported."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import plmkit
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.catalogue import find
from plmkit.config.machine import Machine, settle
from plmkit.storage.manifest import unseal
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.registry import find_kind
from plmkit.tasks.seed_run import optimizer_of
from plmkit.tasks.settings import TaskSettings
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

TINY = (
    "architecture.layers=3", "architecture.width=16", "architecture.heads=2", "architecture.inner=32",
    "architecture.embedding=8", "architecture.max_length=32", "schedule.batch=4", "stages=[[1.0, 32]]",
    "tokenizer.size=300", "run.threads=1", "run.log_steps=1", "run.checkpoint_steps=3", "schedule.optimizer=Lamb",
    "schedule.learning_rate=0.01", "schedule.optimizer.decay=0.02",
)  # fmt: skip


def order(corpus: Path, out: Path, *sets: str, steps: int = 5) -> PretrainRequest:
    settings = settle(find("albert-tiny"), (*TINY, *sets))
    return PretrainRequest(settings=settings, corpora=(str(corpus),), out=out, budget=Budget(steps=steps))


@pytest.fixture(params=["all", "attention", "feed_forward", "none"])
def run(request, corpus, tmp_path):
    """A finished run of five steps, and its corpus."""
    given = order(corpus, tmp_path / "run", f"architecture.sharing={request.param}")
    pretrain(given, Screen())
    return given


def test_a_run_that_was_stopped_continues_to_the_same_bits(run, tmp_path):
    again = Path(shutil.copytree(run.out, tmp_path / "again"))
    shutil.rmtree(again / "checkpoints" / "step-00000005")
    (again / "model.safetensors").unlink()
    about = json.loads((again / "run.json").read_text())
    (again / "run.json").write_text(json.dumps({**about, "state": "unfinished"}))
    unseal(again)
    pretrain(PretrainRequest(**{**vars(run), "out": again}), Screen())
    assert (again / "model.safetensors").read_bytes() == (run.out / "model.safetensors").read_bytes()
    kept = [
        load_file(folder / "checkpoints" / "step-00000005" / "optimizer.safetensors") for folder in (again, run.out)
    ]
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[0])


def test_every_weight_has_moved_and_is_saved_once(run):
    weights = load_file(run.out / "model.safetensors")
    fresh = run.settings.recipe.architecture
    assert isinstance(fresh, SharedEncoder)
    blocks = {name.split(".")[2] for name in weights if name.startswith("model.blocks.")}
    assert len(blocks) == (1 if fresh.sharing == "all" else 3)
    assert ("model.blocks.2.attention.output.weight" in weights) == (fresh.sharing in ("feed_forward", "none"))
    moments = load_file(run.out / "checkpoints" / "step-00000005" / "optimizer.safetensors")
    assert {name.split("|")[0] for name in moments} == weights.keys()
    assert all(moments[f"{name}|exp_avg_sq"].sum() > 0 for name in weights)


def test_it_is_fine_tuned_and_exported(run, plm, labelled, tmp_path):
    rows = labelled(tmp_path / "rows.tsv", 24, 3)
    tuned = FinetuneRequest(
        model=run.out, task=find_kind("classify")(), train=rows, dev=rows, test=None, out=tmp_path / "tuned",
        settings=TaskSettings(epochs=1, batch=8, layer_decay=0.5), machine=Machine(threads=1),
    )  # fmt: skip
    finetune(tuned, Screen())
    for folder, kind in ((run.out, "AlbertForPreTraining"), (tuned.out, "AlbertForSequenceClassification")):
        ran = plm("export", folder, tmp_path / kind, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["largest_difference"] < 1e-5
        assert json.loads((tmp_path / kind / "config.json").read_text())["architectures"] == [kind]
    texts = ["the cat sees a house.", "my friend paints the sea."]
    ours, theirs = (
        plmkit.load(folder, device="cpu").predict(texts)
        for folder in (tuned.out, tmp_path / "AlbertForSequenceClassification")
    )
    for one, other in zip(ours, theirs, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_layers_that_share_all_learn_at_one_rate_and_the_embeddings_below_it(corpus, tmp_path):
    given = order(corpus, tmp_path / "run")
    pretrain(given, Screen())
    model = plmkit.load(given.out, device="cpu")
    network, settings = model.network, TaskSettings(layer_decay=0.5, learning_rate=1.0).settled(model.architecture)
    optimizer = optimizer_of(network, settings)
    names = {id(weight): name for name, weight in network.named_parameters()}
    peaks = {names[id(weight)]: group["peak"] for group in optimizer.param_groups for weight in group["params"]}
    assert {peak for name, peak in peaks.items() if name.startswith("model.blocks.")} == {0.25}
    assert {peak for name, peak in peaks.items() if name.startswith(("model.embed", "model.project"))} == {0.125}
    assert {peak for name, peak in peaks.items() if name.startswith(("heads.", "model.pooler"))} == {1.0}


def test_the_size_for_minutes_learns(corpus, tmp_path):
    sets = ("stages=[[1.0, 32]]", "tokenizer.size=300", "run.threads=1", "run.log_steps=1")
    settings = settle(find("albert-tiny"), sets)
    given = PretrainRequest(settings=settings, corpora=(str(corpus),), out=tmp_path / "run", budget=Budget(steps=60))
    pretrain(given, Screen())
    lines = [json.loads(line) for line in (given.out / "metrics.jsonl").read_text().splitlines()]
    losses = [line["train/masked_lm"] for line in lines if "train/masked_lm" in line]
    assert sum(losses[-5:]) < 0.85 * sum(losses[:5])
