"""Random damage to every file of a run, an export and a cache: it is reported, or changes nothing."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import plmkit
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.errors import PlmError
from plmkit.interop import export as exporting
from plmkit.preparation.prepare import prepare
from plmkit.storage.files import cache_folder, unfinished
from plmkit.storage.manifest import MANIFEST
from plmkit.terminal.screen import Screen

TEXT = "the cat sees a red car."
UNREAD = ("metrics.jsonl", "scores.json", MANIFEST)  # what a model is not made from
APART = ("checkpoints", "tensorboard")  # tested with checkpoints; read by nothing


class Told(Screen):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(scope="module")
def exported(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "transformers_installed", lambda: False)  # which is tested elsewhere
        folder = tmp_path_factory.mktemp("exported") / "model"
        exporting.export(pretrained, folder, "huggingface", Told())
    return folder


def flip(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def letter(content: bytes, rng: random.Random) -> bytes:
    """A digit or a letter becomes another: what is still text, still JSON."""
    places = [place for place, byte in enumerate(content) if chr(byte).isalnum() and byte < 128]
    place = rng.choice(places or [0])
    return content[:place] + (b"7" if content[place : place + 1] != b"7" else b"8") + content[place + 1 :]


def damages(folder: Path, seed: int) -> Iterator[str]:
    """Damage each file in turn, in several ways; after each, all is as before."""
    rng = random.Random(seed)
    ways: list[Callable[[bytes, random.Random], bytes | None]] = [
        flip, letter, lambda content, rng: content[: rng.randrange(len(content))], lambda content, rng: None,
    ]  # fmt: skip
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for file in files:
        if file.relative_to(folder).parts[0] in APART:
            continue
        content, times = file.read_bytes(), file.stat()
        for number, way in enumerate(ways):
            file.unlink()
            if (left := way(content, rng)) is not None:
                file.write_bytes(left)
            yield f"{file.relative_to(folder)}, way {number}"
            file.write_bytes(content)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("kind", ["pretrained", "finetuned", "exported"])
def test_a_damaged_model_is_refused_or_answers_to_the_bit_what_it_did(kind, request, tmp_path):
    folder = Path(shutil.copytree(request.getfixturevalue(kind), tmp_path / "model"))
    whole = plmkit.load(folder, device="cpu").embed([TEXT])
    refused, used = [], []
    for damage in damages(folder, seed=0):
        try:
            found = plmkit.load(folder, device="cpu").embed([TEXT])
        except PlmError as error:
            assert 1 <= len(str(error).splitlines()) <= 3
            refused.append(damage)
        else:
            assert np.array_equal(found, whole), damage
            used.append(damage)
    assert len(refused) > 12
    assert all(damage.startswith(UNREAD) for damage in used), used


def test_a_damaged_cache_is_reported_and_made_again(mixed_corpus):
    settings = settle(find("bert-tiny"), ["tokenizer.size=300"])

    def prepared() -> tuple[list[str], list[int], str]:
        screen = Told()
        found = prepare(settings, [str(mixed_corpus)], None, 0, screen)
        return screen.lines, found.store.tokens.tolist(), found.tokenizer.fingerprint()

    prepared()
    quiet, tokens, vocabulary = prepared()
    assert len(tokens) > 1000
    count = 0
    for damage in damages(cache_folder(), seed=1):
        said, found, counted = prepared()
        assert (found, counted) == (tokens, vocabulary), damage
        kind, key = damage.split("/")[:2]
        what = "tokenized text" if kind == "tokens" else "vocabulary"
        folder = cache_folder() / kind / key
        line = f"! {folder} is damaged: the cached {what} is made again."
        if MANIFEST not in damage or said != quiet:  # a manifest with another time is not wrong
            assert [line for line in said if line not in quiet] == [line], damage
        assert prepared()[0] == quiet  # mended
        count += 1
    assert count >= 4 * 10


def test_a_run_whose_settings_were_edited_is_not_continued(pretrained, tmp_path, plm, mixed_corpus, tiny_settings):
    folder = Path(shutil.copytree(pretrained, tmp_path / "run"))
    run = folder / "run.json"
    run.write_text(run.read_text().replace('"steps": 40', '"steps": 41'))
    ran = plm("pretrain", "bert-tiny", mixed_corpus, "--out", folder, "--steps", 40, *tiny_settings)
    assert ran.code == 2
    assert ran.err == (
        f"plm: {run} was changed after it was written: its SHA-256 differs.\n"
        "Copy the folder again from its source, or create it again. "
        f"If you made the change, delete {folder / MANIFEST} to use the folder as it is.\n"
    )


def test_an_old_run_without_a_manifest_is_used_and_its_weights_are_checked(finetuned, tmp_path, plm, rows_file):
    folder = Path(shutil.copytree(finetuned, tmp_path / "run"))
    (folder / MANIFEST).unlink()
    assert plm("predict", folder, rows_file).code == 0
    weights, whole = folder / "model.safetensors", (folder / "model.safetensors").read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert (
        f"{weights} is damaged: its checksum differs from the one in run.json.\n"
        in plm("predict", folder, rows_file).err
    )
    weights.write_bytes(whole)
    about = json.loads((folder / "run.json").read_text())
    del about["checksum"]
    (folder / "run.json").write_text(json.dumps(about))
    ran = plm("predict", folder, rows_file)
    assert ran.code == 2
    assert ran.err == f"plm: {folder / 'run.json'} is damaged ('checksum'). Copy the folder again.\n"


@pytest.mark.parametrize("kind", ["pretrained", "finetuned"])
def test_a_finished_run_whose_weights_are_missing_says_so(kind, request, tmp_path, plm):
    folder = Path(shutil.copytree(request.getfixturevalue(kind), tmp_path / "run"))
    (folder / "model.safetensors").unlink()
    ran = plm("embed", folder, __file__, "--out", tmp_path / "vectors.npy")
    assert ran.code == 2
    assert ran.err == (
        f"plm: The run in {folder} is finished, but its weights (model.safetensors) are missing.\n"
        "Copy them again from their source, or run the same command again to restore them.\n"
    )


def test_doctor_verifies_every_folder_below_and_names_what_is_damaged_and_what_is_unchecked(
    finetuned, exported, tmp_path, plm
):
    whole = Path(shutil.copytree(finetuned, tmp_path / "runs" / "a"))
    files = len(json.loads((whole / MANIFEST).read_text())["files"])
    shown = f"{whole}: {files} files checked by SHA-256, all unchanged."
    damaged = Path(shutil.copytree(exported, tmp_path / "runs" / "b"))
    foreign = Path(shutil.copytree(exported, tmp_path / "runs" / "c", ignore=shutil.ignore_patterns(MANIFEST)))
    ran = plm("doctor", "--verify", whole)
    assert (ran.code, ran.out) == (0, f"{shown}\n")
    (damaged / "vocab.txt").write_text("")
    ran = plm("doctor", "--verify", tmp_path / "runs")
    assert ran.code == 2
    lines = ran.out.splitlines()
    assert lines[0] == shown
    assert lines[1].startswith(f"{damaged / 'vocab.txt'} was changed after it was written: it has 0 bytes, not ")
    assert lines[-1] == f"{foreign} has no {MANIFEST}: its files are unchecked."
    verdicts = plm("doctor", "--verify", tmp_path / "runs", "--json").json["folders"]
    assert [(verdict["folder"], verdict["damage"] is None) for verdict in verdicts] == [
        (str(whole), True), (str(damaged), False), (str(foreign), True),
    ]  # fmt: skip


def test_doctor_verifies_checkpoints_and_refuses_what_holds_nothing_to_verify(pretrained, tmp_path, plm):
    folder = Path(shutil.copytree(pretrained, tmp_path / "run"))
    (state,) = folder.glob("checkpoints/*/state.json")
    assert plm("doctor", "--verify", folder).code == 0
    state.write_text(state.read_text().replace('"step": 40', '"step": 41'))
    ran = plm("doctor", "--verify", folder)
    assert ran.code == 2
    assert f"Checkpoint {state.parent} is damaged: its checksum does not match.\n" in ran.out
    (tmp_path / "empty").mkdir()
    ran = plm("doctor", "--verify", tmp_path / "empty")
    assert (ran.code, ran.err) == (
        2, f"plm: There is no model in {tmp_path / 'empty'}. --verify checks folders that plmkit wrote.\n",
    )  # fmt: skip
    for option in (
        ["--set", "run.threads=1"], ["--recipe", "bert-mini"], ["--seed", "0"], ["--tokenizer", "vocab.txt"],
        ["--text", "a"], ["--source", "a"], ["--target", "b"], ["--no-header"],
    ):  # fmt: skip
        ran = plm("doctor", "--verify", folder, *option)
        assert (ran.code, ran.err) == (2, f"plm: --verify reads no text: leave out {option[0]}.\n")


def test_what_a_killed_export_or_embedding_left_goes_with_the_next_one(
    pretrained, rows_file, tmp_path, plm, monkeypatch
):
    monkeypatch.setattr(exporting, "transformers_installed", lambda: False)
    for left in (unfinished(tmp_path / "model"), unfinished(unfinished(tmp_path / "model"))):
        left.mkdir()
        (left / "model.safetensors").write_text("half")
    unfinished(tmp_path / "vectors.npy").write_text("half")
    assert plm("export", pretrained, tmp_path / "model").code == 0
    assert plm("embed", pretrained, rows_file, "--out", tmp_path / "vectors.npy").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "vectors.npy"]


def test_a_fine_tuning_that_another_process_finished_meanwhile_is_left_as_it_is(
    pretrained, finetuned, rows_file, tmp_path, plm, monkeypatch
):
    from plmkit.tasks import finetune

    out, report_examples = tmp_path / "out", finetune.report_examples

    def meanwhile(*arguments):
        shutil.copytree(finetuned, out)
        return report_examples(*arguments)

    monkeypatch.setattr(finetune, "report_examples", meanwhile)  # the last that is said before the folder is locked
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", out, "--epochs", 1)
    assert ran.code == 2
    assert f"plm: --out {out} holds another fine-tuning: " in ran.err
    assert (out / "run.json").read_bytes() == (finetuned / "run.json").read_bytes()
    assert (out / "model.safetensors").read_bytes() == (finetuned / "model.safetensors").read_bytes()


def test_a_fine_tuning_that_diverges_names_its_own_setting(pretrained, rows_file, tmp_path, plm):
    ran = plm(
        "finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "out",
        "--epochs", 1, "--set", "task.learning_rate=1e38", "--set", "task.batch=48", "--set", "run.threads=1",
    )  # fmt: skip
    assert ran.code == 2
    assert ran.err.endswith(
        "plm: The weights or the loss are not finite after step 1; the run stops here.\n"
        "Lower the learning rate (--set task.learning_rate=...) and run the same command with a new folder.\n"
    )
    assert not list((tmp_path / "out").rglob("*.safetensors"))
