"""A manifest tells whether the files of a folder are as they were written, and what to do where they are not."""

import json
import os
from pathlib import Path

import pytest

from plmkit.errors import FolderError
from plmkit.storage import manifest
from plmkit.storage.files import unfinished
from plmkit.storage.manifest import MANIFEST, check, seal, unseal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"layers": 2}')
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    unfinished(tmp_path / "config.json").write_text("half")
    seal(tmp_path)
    return tmp_path


def test_it_has_the_size_and_the_hash_of_every_file(folder):
    found = json.loads((folder / MANIFEST).read_text())["files"]
    assert sorted(found) == ["1_Pooling/config.json", "config.json", "metrics.jsonl"]
    assert found["1_Pooling/config.json"]["bytes"] == 2
    assert (
        found["1_Pooling/config.json"]["sha256"] == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )
    assert check(folder) and check(folder, verify=True)


def test_a_changed_letter_is_reported_with_the_file_and_what_to_do(folder):
    (folder / "config.json").write_text('{"layers": 3}')
    with pytest.raises(FolderError) as refusal:
        check(folder)
    assert str(refusal.value) == (
        f"{folder / 'config.json'} was changed after it was written: its SHA-256 differs.\n"
        "Copy the folder again from its source, or create it again. "
        f"If you made the change, delete {folder / MANIFEST} to use the folder as it is."
    )
    unseal(folder)
    assert not check(folder)  # as a folder of somebody else's


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda file: file.unlink(), "is missing."),
        (lambda file: file.write_text("{}"), "was changed after it was written: it has 2 bytes, not 13."),
        (lambda file: (file.unlink(), file.mkdir()), "is not a regular file."),
        (lambda file: (file.unlink(), file.symlink_to("/dev/zero")), "is not a regular file."),
    ],
)
def test_what_became_of_a_file_is_reported(folder, change, found):
    change(folder / "config.json")
    with pytest.raises(FolderError) as refusal:
        check(folder)
    assert str(refusal.value).startswith(f"{folder / 'config.json'} {found}\n")


def test_a_file_that_its_caller_can_do_without_may_be_missing_but_not_changed(folder):
    (folder / "config.json").rename(folder / "kept")
    assert check(folder, optional=("config.json",))
    (folder / "config.json").write_text('{"layers": 3}')
    with pytest.raises(FolderError, match="its SHA-256 differs"):
        check(folder, optional=("config.json",))


def test_a_copy_with_other_times_is_as_good(folder):
    os.utime(folder / "config.json", ns=(1, 1))
    assert check(folder)


def test_of_a_large_file_size_and_time_are_compared_first_and_the_hash_by_verify(folder, monkeypatch):
    monkeypatch.setattr(manifest, "SMALL_BYTES", 5)
    file, before = folder / "config.json", (folder / "config.json").stat().st_mtime_ns
    file.write_text('{"layers": 3}')
    os.utime(file, ns=(before, before))  # as a disk that rots does it
    assert check(folder)
    with pytest.raises(FolderError, match="its SHA-256 differs"):
        check(folder, verify=True)
    os.utime(file, ns=(before, before + 1))
    with pytest.raises(FolderError, match="its SHA-256 differs"):
        check(folder)


def test_a_log_may_be_removed_and_only_verifying_misses_it(folder):
    (folder / "metrics.jsonl").unlink()
    assert check(folder)
    with pytest.raises(FolderError, match=r"metrics\.jsonl is missing"):
        check(folder, verify=True)


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "{}", '{"files": [1]}', '{"files": {"config.json": 3}}', "[" * 100_000,
        '{"files": {"config.json": {"bytes": "13", "modified": 1, "sha256": ""}}}',
        '{"files": {"../config.json": {"bytes": 13, "modified": 1, "sha256": ""}}}',
        '{"files": {"/dev/zero": {"bytes": 0, "modified": 1, "sha256": ""}}}',
    ],
)  # fmt: skip
def test_a_manifest_that_is_damaged_itself_is_reported(folder, content):
    (folder / MANIFEST).write_text(content)
    with pytest.raises(FolderError) as refusal:
        check(folder)
    assert str(refusal.value) == (
        f"{folder / MANIFEST} is damaged.\n"
        "Copy the folder again from its source, or delete this file to use the folder unchecked."
    )
