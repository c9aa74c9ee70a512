import errno
import json
import os
from pathlib import Path

import pytest

from plmkit.errors import FolderError, InputError
from plmkit.storage.files import (
    cache_folder,
    discard_abandoned,
    held,
    leftovers,
    lock,
    new_file,
    new_folder,
    read_json,
    reported_os_errors,
    sweep,
    unfinished,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_its_folders(tmp_path):
    write_text(tmp_path / "a" / "b" / "file.txt", "猫\nline\n")
    assert (tmp_path / "a" / "b" / "file.txt").read_bytes() == "猫\nline\n".encode()
    assert names(tmp_path / "a" / "b") == ["file.txt"]


def test_json_is_readable_by_people(tmp_path):
    write_json(tmp_path / "file.json", {"name": "猫", "sizes": [1, 2]})
    text = (tmp_path / "file.json").read_text(encoding="utf-8")
    assert "猫" in text and text.endswith("}\n")
    assert json.loads(text) == {"name": "猫", "sizes": [1, 2]}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(step, tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(FolderError) as refusal:
            write_text(path, "new")
    assert str(refusal.value) == (
        f"{tmp_path} cannot be written: No space left on device.\n"
        "Free some space, fix its permissions or choose another folder. Existing files are unchanged."
    )
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_disk_that_is_really_full_is_an_error_of_ours():
    with (
        pytest.raises(FolderError, match="No space left on device"),
        reported_os_errors(Path("/dev")),
        open("/dev/full", "w") as file,
    ):
        file.write("x")


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with new_folder(tmp_path / "made") as partial:
        (partial / "file").write_text("content")
        assert not (tmp_path / "made").exists()
    assert names(tmp_path) == ["made"]
    assert (tmp_path / "made" / "file").read_text() == "content"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_folder_that_is_not_completed_vanishes_and_the_old_one_stays(error, tmp_path):
    path = tmp_path / "made"
    path.mkdir()
    (path / "file").write_text("old")
    with pytest.raises(FolderError if error is OSError else error), new_folder(path) as partial:
        (partial / "file").write_text("new")
        raise error
    assert names(tmp_path) == ["made"]
    assert (path / "file").read_text() == "old"


def test_a_folder_replaces_the_one_before(tmp_path):
    for content in ("old", "new"):
        with new_folder(tmp_path / "made") as partial:
            (partial / content).write_text(content)
    assert names(tmp_path) == ["made"]
    assert names(tmp_path / "made") == ["new"]


def test_only_what_was_left_unfinished_is_swept_away(tmp_path):
    unfinished(tmp_path / "run.json").write_text("half")
    folder = unfinished(tmp_path / "step-1")
    folder.mkdir()
    (folder / "weights").write_text("half")
    (tmp_path / ".vocab.txt.4711.partial").write_text("half")
    mine = [".hidden", ".notes.partial", "a.partial", "run.json"]
    for name in mine:
        (tmp_path / name).write_text("whole")
    assert len(leftovers(tmp_path)) == 3
    sweep(tmp_path)
    assert names(tmp_path) == mine
    sweep(tmp_path / "missing")


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("PLM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("PLM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "plmkit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "plmkit"


def test_a_folder_is_one_process_at_a_time(tmp_path):
    out = tmp_path / "run"
    with lock(out), pytest.raises(FolderError, match="Another process is writing to"), lock(out):
        pass
    with lock(out):  # free again
        assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b"[1, 2]", "contains a list of 2, not a JSON object of settings"),
        (b"3", "contains an int (3), not a JSON object of settings"),
        (b'{"a": ', "cannot be read as JSON: Expecting value"),
        (b'{"a": "\xff"}', "cannot be read as JSON: 'utf-8' codec"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read as JSON: Exceeds the limit"),
    ],
    ids=["deep", "list", "number", "cut", "not utf-8", "digits"],
)
def test_json_that_is_no_object_is_refused_by_name(tmp_path, content, says):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_json(path)
    assert str(error.value).startswith(f"{path} ")
    assert says in str(error.value)


def test_json_that_is_an_object_is_read_with_or_without_a_mark_of_its_encoding(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"名": 1}', encoding="utf-8-sig")
    assert read_json(path) == {"名": 1}


def test_json_that_is_not_a_file_or_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_json(tmp_path / "config.json")
    with pytest.raises(InputError, match="/dev/zero is not a file"):
        read_json(Path("/dev/zero"))


def test_what_a_killed_process_left_of_a_file_or_folder_goes_when_it_is_written_again(tmp_path):
    unfinished(tmp_path / "vectors.npy").write_text("half")
    unfinished(unfinished(tmp_path / "exported")).mkdir()  # an export that was killed before it was compared
    (unfinished(tmp_path / "exported") / "model").mkdir(parents=True)
    other = unfinished(tmp_path / "other")
    other.write_text("of another file")
    with new_file(tmp_path / "vectors.npy") as partial:
        partial.write_text("whole")
    with new_folder(tmp_path / "exported"):
        pass
    assert names(tmp_path) == sorted([other.name, "exported", "vectors.npy"])


@pytest.mark.parametrize("write", [new_file, new_folder])
def test_what_another_process_is_writing_at_this_moment_is_no_leftover(write, tmp_path):
    with write(tmp_path / "made") as theirs, write(tmp_path / "made") as mine:
        assert names(tmp_path) == sorted([theirs.name, mine.name])
    draft = unfinished(tmp_path / "exported")
    draft.mkdir()
    with held(draft), new_folder(tmp_path / "exported"):
        assert draft.is_dir()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_was_swept_before_it_was_locked_is_made_again(make, tmp_path):
    """Another process takes what is not locked yet for a leftover of a killed one."""
    made: list[Path] = []

    def swept_at_first(path: Path) -> None:
        make(path)
        made.append(path)
        if len(made) == 1:
            discard_abandoned(path)

    partial = unfinished(tmp_path / "made")
    with held(partial, swept_at_first):
        assert partial.exists()
        discard_abandoned(partial)
        assert partial.exists()
    assert len(made) == 2
    discard_abandoned(partial)
    assert not partial.exists()


def test_a_name_that_is_no_utf8_comes_back_from_json(tmp_path):
    name = os.fsdecode(b"caf\xe9.txt")
    write_json(tmp_path / "run.json", {"corpora": [name, "café"]})
    assert (tmp_path / "run.json").read_bytes() == (
        b'{\n  "corpora": [\n    "caf\\udce9.txt",\n    "' + "café".encode() + b'"\n  ]\n}\n'
    )
    assert read_json(tmp_path / "run.json") == {"corpora": [name, "café"]}


def test_without_a_home_folder_the_message_asks_for_a_cache(monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("PLM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(FolderError) as refusal:
        cache_folder()
    assert str(refusal.value) == (
        "This user has no home folder, so there is no place to cache prepared text.\n"
        "Set PLM_CACHE to a writable folder."
    )
    with pytest.raises(FolderError, match="Free some space"), reported_os_errors(Path("runs")):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_cache_that_cannot_be_written_is_reported_with_the_name_of_its_setting(monkeypatch, tmp_path):
    monkeypatch.delenv("PLM_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / ".cache").write_text("a file where the folder should be")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    with pytest.raises(FolderError) as refusal, new_folder(cache_folder() / "tokens" / "key"):
        pass
    assert str(refusal.value) == (
        f"{tmp_path / '.cache/plmkit/tokens'} cannot be written: Not a directory.\n"
        "Set PLM_CACHE to a writable folder with free space."
    )
