"""A run that format 1 of run folders has, written here by hand: it is loaded, and continued where it stopped."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from test_family_contract import stop_at

import plmkit
from plmkit.tasks.settings import DEV_SHARE
from plmkit.training.run_record import HELD_OUT

RECIPE = {
    "kind": "Recipe", "name": "electra-tiny-weighted", "paper": "arXiv:2003.10555", "summary": "", "notes": "",
    "vocabulary": 30522,
    "tokenizer": {"kind": "WordPiece", "size": 300, "lowercase": True, "min_frequency": 2},
    "corruption": [
        {"kind": "ContiguousSegments", "single": 0.1, "short": 0.05},
        {"kind": "ReplacedMasking", "rate": 0.4, "masked": 1.0, "most": None},
    ],
    "architecture": {
        "kind": "GeneratorDiscriminator", "layers": 1, "heads": 2, "width": 16, "inner": 32, "embedding": 16,
        "generator": 0.5, "temperature": 1.0, "longest": 32, "segments": 2, "activation": "gelu", "dropout": 0.0,
        "attention_dropout": 0.0, "epsilon": 1e-12, "tied": True, "neighbours": False, "disallow_correct": False,
    },
    "objectives": [
        {"kind": "LearnedWeight", "objective": {"kind": "GeneratorLM", "weight": 1.0, "frequency_bias": True}},
        {"kind": "LearnedWeight", "objective": {"kind": "ReplacedToken", "weight": 50}},
    ],
    "schedule": {
        "kind": "Schedule", "steps": 10000, "batch": 4, "lengths": [[1.0, 32]], "rate": 0.001, "warmup": 0.1,
        "shape": "linear_product", "clip": 1.0,
        "optimizer": {"kind": "AdamW", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-08, "decay": 0.01},
    },
    "tuning": {
        "kind": "Tuning", "rate": 0.0001, "warmup": 0.1, "shape": "linear_product",
        "optimizer": {"kind": "BertAdam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-06, "decay": 0.01},
        "clip": 1.0, "layer_decay": 0.8,
    },
}  # fmt: skip
MACHINE = {
    "kind": "Machine", "device": "auto", "dtype": "float32", "threads": 1, "processes": None, "rows_at_once": None,
    "compile": False, "checkpoint_steps": 3, "log_steps": 10, "validations": 5, "valid_share": 0.01, "layout": "auto",
    "column": None, "header": True, "weights": [],
}  # fmt: skip
GIVEN = [
    "tokenizer.size=300", "architecture.layers=1", "architecture.width=16", "architecture.inner=32",
    "architecture.embedding=16", "architecture.longest=32", "architecture.neighbours=false", "schedule.batch=4",
    "schedule.lengths=[[1.0, 32]]", "run.dtype=float32", "run.threads=1", "run.checkpoint_steps=3",
]  # fmt: skip


def old_name(weight: str) -> str:
    weight = re.sub(r"^log_variances\.(\w+)", r"heads.\1.log_variance", weight)
    return re.sub(r"^heads\.replaced_token\.(?=transform|verdict)", "heads.replaced_token.inner.", weight)


def rename_weights(file: Path) -> str:
    """Write the file with the names that weights had; what is returned is its checksum."""
    weights = load_file(file)
    renamed = {old_name(name): weight for name, weight in weights.items()}
    assert len(renamed.keys() - weights.keys()) >= 4
    save_file(renamed, file)
    return hashlib.blake2b(file.read_bytes()).hexdigest()


def as_format_1(folder: Path, corpus: Path, state: str) -> None:
    """Write a run folder as format 1 had it."""
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    old = {
        "plmkit": "0.1.0", "format": 1, "kind": "pretrain", "recipe": RECIPE, "run": MACHINE, "corpora": [str(corpus)],
        "budget": {"steps": 6}, "asked": {"steps": 6}, "seed": 0, "from": None, "tokenizer": None, "valid": None,
        "state": state, "tokens_key": about["tokens_key"], "dtype": "float32",
    }  # fmt: skip
    for checkpoint in (folder / "checkpoints").iterdir():
        found = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))["state"]
        (place,) = found["position"]["places"].values()
        content = {
            "state": {**found, "position": {"stage": 0, **place}},
            "checksums": {name: rename_weights(checkpoint / name) for name in sorted(found_files(checkpoint))},
        }
        digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode()).hexdigest()
        (checkpoint / "state.json").write_text(json.dumps({**content, "checksum": digest}), encoding="utf-8")
    if state == "finished":
        old |= {"result": about["result"], "checksum": rename_weights(folder / "model.safetensors")}
    (folder / "run.json").write_text(json.dumps(old), encoding="utf-8")
    (folder / "plmkit-manifest.json").unlink()


def found_files(checkpoint: Path) -> list[str]:
    return [file.name for file in checkpoint.glob("*.safetensors")]


@pytest.fixture
def command(mixed_corpus: Path) -> list:
    given = [part for setting in GIVEN for part in ("--set", setting)]
    return ["pretrain", "electra-tiny-weighted", mixed_corpus, "--steps", 6, *given]


def test_an_unfinished_run_of_format_1_continues_and_ends_with_the_same_weights(command, mixed_corpus, plm, tmp_path):
    whole, halved = tmp_path / "whole", tmp_path / "halved"
    assert plm(*command, "--out", whole).code == 0
    stop_at(4, plm, [*command, "--out", halved])
    as_format_1(halved, mixed_corpus, "unfinished")
    ran = plm(*command, "--out", halved)
    assert ran.code == 0, ran.err
    assert "from step 3" in ran.err
    ended, resumed = load_file(whole / "model.safetensors"), load_file(halved / "model.safetensors")
    assert ended.keys() == resumed.keys()
    assert all((ended[name] == resumed[name]).all() for name in ended)


def test_a_finished_run_of_format_1_is_used_as_one_of_today(command, mixed_corpus, plm, tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    assert plm(*command, "--out", new).code == 0
    shutil.copytree(new, old)
    as_format_1(old, mixed_corpus, "finished")
    blank = "the cat [MASK] a house."
    assert plmkit.load(old, device="cpu").fill(blank) == plmkit.load(new, device="cpu").fill(blank)
    given = [part for part in GIVEN if not part.startswith(("tokenizer.", "architecture.neighbours"))]
    settings = [part for setting in given for part in ("--set", setting)]
    further = [*command[:3], "--steps", 1, *settings, "--out", tmp_path / "further", "--from", old]
    ran = plm(*further)
    assert ran.code == 0, ran.err
    ran = plm(*command, "--out", old)
    assert ran.code == 0, ran.err
    assert (old / "model.safetensors").read_bytes() != (new / "model.safetensors").read_bytes()  # left as it is


# A fine-tuning of format 2, as the version before held-out rows, windows and class weights wrote it

COLUMNS = {"kind": "Columns", "text": "text", "text_a": None, "text_b": None, "label": "label", "header": True}
SINCE = {"long", "temperature", "class_weights", "label_smoothing", "sigmoid", "dropout"}  # fields of tasks
SETTINGS_SINCE = {"patience", "evaluations", "dev_share", "train_share"}


def as_before(folder: Path) -> dict:
    """Write run.json without what was not there."""
    path = folder / "run.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    for task in about["tasks"]:
        for name in SINCE & task.keys():
            del task[name]
    for name in SETTINGS_SINCE:
        del about["task"][name]
    about.pop("learned", None)
    path.write_text(json.dumps(about), encoding="utf-8")
    (folder / "plmkit-manifest.json").unlink()
    return about


@pytest.mark.parametrize("dev", [True, False])
@pytest.mark.parametrize("kind", ["classify", "regress"])
def test_a_finished_fine_tuning_of_before_is_the_same_when_its_command_is_repeated(
    kind, dev, pretrained, plm, tmp_path
):
    rows = tmp_path / "rows.tsv"
    labels = ("good", "bad") if kind == "classify" else ("1", "2.5")
    lines = [f"the cat number {number} sees the house\t{labels[number % 2]}\n" for number in range(200)]
    rows.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    out = tmp_path / "task"
    command = ["finetune", pretrained, "--task", kind, "--train", rows, "--epochs", 0.1, "--out", out, "--set",
               "run.threads=1", "--set", "task.ngrams=false", *(["--dev", rows] if dev else [])]  # fmt: skip
    assert plm(*command).code == 0
    about = as_before(out)
    wanted = {"kind", "name", "classes", "pooling", "length", "columns"}
    assert (about["tasks"][0].keys(), about["tasks"][0]["columns"]) == (wanted, COLUMNS)
    ran = plm(*command)
    assert ran.code == 0, ran.err
    assert "holds this fine-tuning, finished" in ran.err
    if not dev:
        ran = plm(*command, "--set", "task.dev_share=0.2")
        assert ran.code == 2
        assert "task.dev_share was none, is 0.2" in ran.err
    (out / "run.json").write_text(json.dumps({**about, "state": "unfinished"}), encoding="utf-8")
    if dev:
        return
    ran = plm(*command)  # training on other rows would not be the same
    assert ran.code == 2
    assert "task.dev_share was none, is 0.1" in ran.err


def test_the_default_share_that_is_held_out_is_the_one_that_records_know():
    assert HELD_OUT == DEV_SHARE
