"""Models by their names on the Hugging Face hub: from a cache laid out as by its library, or refused with a reason."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError
from safetensors.torch import load_file

import plmkit
from plmkit.errors import InputError
from plmkit.interop.hub import MODEL_FILES, find_model, find_tokenizer

NAME = "some-lab/bert-of-theirs"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached(cache: Path, folder: Path, name: str = NAME) -> Path:
    """A folder put into a cache as the library would have: blobs by their hash, and links to them by their names."""
    place = cache / f"models--{name.replace('/', '--')}"
    snapshot = place / "snapshots" / COMMIT
    for part in (place / "blobs", place / "refs", snapshot):
        part.mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        blob, link = (
            place / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest(),
            snapshot / file.relative_to(folder),
        )
        shutil.copy(file, blob)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub, and a working folder without models."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "hub-cache"


@pytest.fixture
def asked(monkeypatch):
    """Requests to the hub; a test sets its answers."""
    calls = []

    def answer(error):
        def snapshot_download(name, allow_patterns):
            calls.append((name, tuple(allow_patterns)))
            raise error

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        return calls

    answer(AssertionError("the network was asked"))
    return answer


def http_error(kind):
    error = kind.__new__(kind)
    Exception.__init__(error, "404 Client Error")
    return error


def test_a_name_in_the_cache_is_used_without_a_network(hub_folder, tmp_path):
    """By the real command, with the cache given by HF_HOME alone."""
    cached(tmp_path / "home" / "hub", hub_folder)
    (tmp_path / "work").mkdir()
    (tmp_path / "texts.txt").write_text("the cat sees a house.\n")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    command = [sys.executable, "-m", "plmkit.cli", "embed", NAME, tmp_path / "texts.txt", "--out", tmp_path / "v.npy"]
    ran = subprocess.run(command, cwd=tmp_path / "work", env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    whole = plmkit.load(hub_folder, device="cpu")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), whole.embed(["the cat sees a house."]), atol=1e-6)


def test_every_command_takes_a_name(pretrained, cache, asked, plm, corpus, rows_file, tiny_settings):
    assert plm("export", pretrained, "exported").code == 0
    cached(cache, Path("exported"))
    assert plmkit.load(NAME, device="cpu").fill("a [MASK]") == plmkit.load(pretrained, device="cpu").fill("a [MASK]")
    assert plm("fill", NAME, "the cat [MASK]").code == 0
    assert plm("export", NAME, "again").code == 0
    settings = [setting for setting in tiny_settings if not setting.startswith("tokenizer.")]
    settings = [part for setting in settings if setting != "--set" for part in ("--set", setting)]
    ran = plm("pretrain", "bert-tiny", corpus, "--from", NAME, "--out", "more", "--steps", 1, *settings)
    assert ran.code == 0, ran.err
    ran = plm("finetune", NAME, "--task", "classify", "--train", rows_file, "--out", "tuned", "--epochs", 0.1)
    assert ran.code == 0, ran.err
    ran = plm("doctor", corpus, "--tokenizer", NAME, "--json")
    assert ran.code == 0, ran.err


def test_a_folder_of_that_name_wins(hub_folder, pretrained, cache, asked):
    cached(cache, hub_folder)
    shutil.copytree(pretrained, NAME)
    assert find_model(Path(NAME)) == Path(NAME)
    assert plmkit.load(NAME, device="cpu").folder == Path(NAME)


def test_a_name_of_one_part_is_found_in_the_cache_and_never_requested(hub_folder, cache, asked):
    snapshot = cached(cache, hub_folder, "bert-of-old")
    assert find_model(Path("bert-of-old")) == snapshot
    assert find_model(Path("bert-of-odl")) == Path("bert-of-odl")


@pytest.mark.parametrize("name", ["a--b/c", "a/b..c", "a/b/c", "名/b", "a" * 60 + "/" + "b" * 60, "-a/b", "a/b?"])
def test_what_cannot_be_a_name_is_a_path(cache, asked, name):
    assert find_model(Path(name)) == Path(name)


def test_a_cached_model_without_a_tokenizer_is_requested_again(hub_folder, cache, asked, tmp_path):
    folder = shutil.copytree(hub_folder, tmp_path / "copy")
    for name in ("tokenizer.json", "vocab.txt"):
        (folder / name).unlink()
    snapshot = cached(cache, folder)
    calls = asked(LocalEntryNotFoundError("no network"))
    assert find_model(Path(NAME)) == snapshot
    assert len(calls) == 1


def test_a_mistyped_path_is_not_sent_to_the_hub(cache, asked, plm):
    Path("runs/bert").mkdir(parents=True)
    ran = plm("fill", "runs/brt", "a [MASK]")
    assert ran.code == 2
    assert (
        "There is no folder 'runs/brt'. Did you mean 'runs/bert'? Give a run folder, a Hugging Face folder or a"
        in ran.err
    )


def test_without_a_network_the_cache_and_the_remedy_are_named(cache, asked, plm):
    asked(LocalEntryNotFoundError("a long story\nin two lines"))
    ran = plm("fill", NAME, "a [MASK]")
    assert ran.code == 2
    assert f"There is no folder 'some-lab'. The model '{NAME}' is not in {cache}, the cache of the" in ran.err
    assert "the hub cannot be reached (HF_HUB_OFFLINE is set)." in ran.err
    assert f"run `hf download {NAME} --local-dir DIR`, and give DIR." in ran.err


def test_a_hub_that_does_not_answer_is_reported_by_the_real_library(cache, plm, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    ran = plm("fill", NAME, "a [MASK]")
    assert ran.code == 2
    assert f"There is no local folder '{NAME}': looking for a model of that name on the Hugging Face hub." in ran.err
    assert (
        f"The model '{NAME}' is not in {cache}, the cache of the Hugging Face hub, either, and the hub cannot be"
        in ran.err
    )
    assert "be reached (ConnectError: [Errno 111] Connection refused)." in ran.err
    assert not cache.exists()


def test_only_files_without_code_are_requested(cache, asked):
    calls = asked(LocalEntryNotFoundError("no network"))
    with pytest.raises(InputError):
        find_model(Path(NAME))
    with pytest.raises(InputError):
        find_tokenizer(Path(NAME))
    assert [name for name, _ in calls] == [NAME, NAME]
    assert calls[0][1] == MODEL_FILES
    assert {Path(pattern).suffix for pattern in MODEL_FILES} == {".json", ".safetensors", ".txt", ".model"}
    assert not [pattern for pattern in calls[1][1] if "safetensors" in pattern]


def test_what_the_hub_does_not_give_is_reported(cache, asked, plm):
    asked(http_error(RepositoryNotFoundError))
    ran = plm("fill", NAME, "a [MASK]")
    assert (ran.code, f"The Hugging Face hub has no model '{NAME}' either." in ran.err) == (2, True)
    asked(http_error(GatedRepoError))
    ran = plm("fill", NAME, "a [MASK]")
    assert (ran.code, "but it is open only to users who have accepted its terms" in ran.err) == (2, True)


def test_a_cached_pickle_is_named_and_can_be_imported(hub_folder, cache, asked, plm, tmp_path):
    folder = shutil.copytree(hub_folder, tmp_path / "copy")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    snapshot = cached(cache, folder)
    calls = asked(LocalEntryNotFoundError("no network"))
    ran = plm("fill", NAME, "a [MASK]")
    assert ran.code == 2
    assert f"{snapshot} is not a model yet: it holds pytorch_model.bin, a PyTorch pickle" in ran.err
    assert len(calls) == 1  # the hub may have had safetensors
    assert plm("import", NAME, "--out", "imported").code == 0
    assert plm("fill", "imported", "the cat [MASK]").code == 0
