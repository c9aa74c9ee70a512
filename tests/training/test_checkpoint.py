"""Checkpoints: all or nothing, checked before they are believed, and never able to run code."""

import errno
import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from plmkit.data.samples import Place, Position
from plmkit.errors import CheckpointError, FolderError
from plmkit.schedules.optimizers import AdamW, BertAdam, Lamb
from plmkit.storage import files
from plmkit.storage import tensors as tensor_files
from plmkit.storage.tensors import checksum, load_tensors
from plmkit.training import checkpoint
from plmkit.training.checkpoint import (
    OPTIMIZER,
    STATE,
    WEIGHTS,
    checkpoints,
    digest,
    load_checkpoint,
    put_weights,
    save_checkpoint,
    weights_of,
)
from plmkit.training.loop import State

OPTIMIZERS = [AdamW(), BertAdam(), Lamb()]


def parts(settings=OPTIMIZERS[0], seed: int = 0, width: int = 3):
    """A network and its optimizer after two steps."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Embedding(5, width), nn.Linear(width, 2), nn.LayerNorm(2))
    optimizer = settings.build(network.named_parameters(), 0.1)
    for _ in range(2):
        step(network, optimizer)
    return network, optimizer


def step(network, optimizer) -> None:
    network(torch.tensor([0, 1, 4])).pow(2)[:, 0].sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def state(number: int) -> State:
    places = {"text": Place(epoch=2, index=number), "pairs": Place(index=3)}
    return State(step=number, tokens=12345, seconds=1.25, position=Position(stage=1, places=places))


def saved(folder: Path, *steps: int):
    """Checkpoints of these steps, each with weights of its own; the networks, and what may be overwritten."""
    networks = {}
    for number in steps:
        networks[number], optimizer = parts(seed=number)
        save_checkpoint(folder, networks[number], optimizer, state(number))
    return networks


def load(folder: Path):
    network, optimizer = parts(seed=99)
    said = []
    return load_checkpoint(folder, network, optimizer, said.append), network, said


def same(first: nn.Module, second: nn.Module) -> bool:
    return all(map(torch.equal, weights_of(first).values(), weights_of(second).values()))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("settings", OPTIMIZERS, ids=lambda settings: type(settings).__name__)
def test_what_is_loaded_is_what_was_saved_to_the_bit(settings, tmp_path):
    network, optimizer = parts(settings)
    save_checkpoint(tmp_path, network, optimizer, state(7))
    other, other_optimizer = parts(settings, seed=1)
    assert load_checkpoint(tmp_path, other, other_optimizer, print) == state(7)
    assert same(network, other)
    for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
        kept, loaded = optimizer.state[mine], other_optimizer.state[theirs]
        assert kept.keys() == loaded.keys() and len(kept) >= 2
        assert all(torch.equal(kept[key], loaded[key]) and kept[key].dtype == loaded[key].dtype for key in kept)
    step(network, optimizer)
    step(other, other_optimizer)
    assert same(network, other)  # and continues in the same way


def test_before_the_first_checkpoint_there_is_nothing_to_load(tmp_path):
    assert load(tmp_path)[0] is None
    assert load(tmp_path / "missing")[0] is None
    (tmp_path / "step-7.partial").mkdir()
    (tmp_path / "notes").mkdir()
    assert load(tmp_path)[0] is None


def test_the_last_two_are_kept(tmp_path):
    networks = saved(tmp_path, 1, 2, 3, 10)
    assert names(tmp_path) == ["step-00000003", "step-00000010"]
    assert names(tmp_path / "step-00000010") == [WEIGHTS, OPTIMIZER, STATE]
    found, network, said = load(tmp_path)
    assert (found, said) == (state(10), [])
    assert same(network, networks[10])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [flip, truncate, empty, Path.unlink])
@pytest.mark.parametrize("file", [WEIGHTS, OPTIMIZER, STATE])
def test_a_damaged_newest_gives_way_to_the_one_before_and_says_so(file, harm, tmp_path):
    networks = saved(tmp_path, 1, 2)
    harm(tmp_path / "step-00000002" / file)
    found, network, said = load(tmp_path)
    assert found == state(1)
    assert same(network, networks[1])
    assert len(said) == 1
    assert said[0].startswith(f"Checkpoint {tmp_path / 'step-00000002'} is damaged: ")
    assert said[0].endswith(" Using the previous one.")


@pytest.mark.parametrize(
    "content", ["3", "[]", '"x"', "null", "{}", '{"checksum": 1}', '{"state": {}, "checksums": {}}']
)
def test_a_state_that_is_json_of_another_kind_is_damage_too(content, tmp_path):
    saved(tmp_path, 1, 2)
    (tmp_path / "step-00000002" / STATE).write_text(content)
    assert load(tmp_path)[0] == state(1)


def test_if_all_checkpoints_are_damaged_the_run_does_not_silently_start_over(tmp_path):
    saved(tmp_path, 1, 2)
    for path in tmp_path.glob(f"*/{WEIGHTS}"):
        flip(path)
    said: list[str] = []
    with pytest.raises(CheckpointError, match=r"Found 2 checkpoints in .*, none intact\.\n"):
        checkpoint.newest_whole(tmp_path, said.append)
    assert said == []  # there is none to go back to


def test_a_damaged_one_is_replaced_when_its_step_comes_again(tmp_path):
    saved(tmp_path, 1, 2)
    flip(tmp_path / "step-00000002" / WEIGHTS)
    networks = saved(tmp_path, 2)
    found, network, said = load(tmp_path)
    assert (found, said) == (state(2), [])
    assert same(network, networks[2])
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


def test_what_a_killed_process_left_unfinished_is_swept_up_by_the_next_save(tmp_path):
    left = tmp_path / ".step-00000001.0123456789abcdef0123456789abcdef.partial"
    left.mkdir()
    (left / WEIGHTS).write_bytes(b"half")
    saved(tmp_path, 2)
    assert names(tmp_path) == ["step-00000002"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda weights: weights.pop("1.bias"), r"has no weight '1\.bias' \(1 missing\)"),
        (lambda weights: weights.update(more=torch.ones(1)), r"has a weight 'more' that this network does not have"),
        (
            lambda weights: weights.update({"1.bias": torch.ones(7)}),
            r"'1\.bias' has shape \(7,\), but this network needs \(2,\)",
        ),
    ],
)
def test_weights_of_another_network_are_refused_and_nothing_is_changed(change, says, tmp_path):
    network, _ = parts()
    before = {name: tensor.clone() for name, tensor in weights_of(network).items()}
    weights = {name: tensor + 1 for name, tensor in before.items()}
    change(weights)
    with pytest.raises(CheckpointError, match=says):
        put_weights(network, weights, tmp_path / WEIGHTS)
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights_of(network).items())


def test_the_checkpoint_of_another_network_is_refused(tmp_path):
    network, optimizer = parts(width=4)
    save_checkpoint(tmp_path, network, optimizer, state(1))
    with pytest.raises(CheckpointError, match=r"step-00000001.*'0\.weight' has shape \(5, 4\), but .* needs \(5, 3\)"):
        load(tmp_path)


def test_an_optimizer_that_knows_other_weights_is_refused(tmp_path):
    saved(tmp_path, 1)
    folder = tmp_path / "step-00000001"
    save_file({"2.weights|exp_avg": torch.ones(2)}, folder / OPTIMIZER)
    sign(folder)
    with pytest.raises(CheckpointError, match=r"The optimizer state has a weight '2\.weights'"):
        load(tmp_path)


def test_a_fused_adam_finds_its_count_of_steps_where_its_weights_are():
    network, optimizer = parts()
    tensors = checkpoint.optimizer_tensors(network, optimizer)
    elsewhere = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2), nn.LayerNorm(2)).to("meta")
    for fused, place in ((True, "meta"), (False, "cpu")):
        adam = torch.optim.AdamW(elsewhere.parameters())
        adam.param_groups[0]["fused"] = fused
        checkpoint.put_optimizer(elsewhere, adam, tensors)
        assert {entry["step"].device.type for entry in adam.state.values()} == {place}
        assert {entry["exp_avg"].device.type for entry in adam.state.values()} == {"meta"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (torch.tensor([0.0, float("nan")]), "has values that are not finite (NaN or infinity)"),
        (torch.tensor([0.0, float("inf")]), "has values that are not finite (NaN or infinity)"),
        (torch.tensor([0.0, -float("inf")]).half(), "has values that are not finite (NaN or infinity)"),
        (torch.tensor([0, 1]), "has the type int64; weights must be floating-point numbers."),
        (torch.tensor([True, False]), "has the type bool; weights must be floating-point numbers."),
    ],
)
def test_weights_that_are_no_finite_numbers_are_refused_and_the_network_stays(value, reason, tmp_path):
    network, _ = parts()
    before = {name: tensor.clone() for name, tensor in weights_of(network).items()}
    with pytest.raises(CheckpointError) as refusal:
        put_weights(network, {**before, "1.bias": value}, tmp_path / WEIGHTS)
    assert str(refusal.value).startswith(f"{tmp_path / WEIGHTS}: '1.bias' {reason}")
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights_of(network).items())


def test_weights_of_half_precision_are_read(tmp_path):
    network, _ = parts()
    put_weights(network, {name: tensor.bfloat16() for name, tensor in weights_of(network).items()}, tmp_path)
    assert network[1].bias.dtype == torch.float32


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def sign(folder: Path) -> None:
    """Make the checksums fit the files, as one who tampers would."""
    content = json.loads((folder / STATE).read_text())
    content["checksums"] = {name: checksum(folder / name) for name in (WEIGHTS, OPTIMIZER)}
    del content["checksum"]
    (folder / STATE).write_text(json.dumps({**content, "checksum": digest(content)}))


@pytest.mark.parametrize("write", [lambda data, path: path.write_bytes(pickle.dumps(data)), torch.save])
@pytest.mark.parametrize("file", [WEIGHTS, OPTIMIZER])
def test_a_pickle_in_place_of_weights_is_never_unpickled(file, write, tmp_path):
    trap = tmp_path / "sprung"
    saved(tmp_path / "run", 1)
    folder = tmp_path / "run" / "step-00000001"
    write({"weight": Trap(trap)}, folder / file)
    sign(folder)
    with pytest.raises(CheckpointError, match=r"Found 1 checkpoint in .*, none intact"):
        load(tmp_path / "run")
    with pytest.raises(CheckpointError, match="cannot be read as weights"):
        load_tensors(folder / file)
    assert not trap.exists()


def endless(folder: Path) -> None:
    """The state names a device that never ends, with all its sums in order."""
    content = json.loads((folder / STATE).read_text())
    content["checksums"]["/dev/zero"] = "0"
    del content["checksum"]
    (folder / STATE).write_text(json.dumps({**content, "checksum": digest(content)}))


def piped(folder: Path) -> None:
    (folder / STATE).unlink()
    os.mkfifo(folder / STATE)


def linked(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (endless, "its checksum does not match."),
        (linked, f"{WEIGHTS} is not a regular file. Copy it again from its source."),
        (lambda folder: (folder / STATE).write_text("[" * 100_000), "its JSON is nested too deeply. Copy it again."),
        (piped, f"{STATE} is not a file. Copy it again from its source. Using"),
    ],
)
def test_a_checkpoint_that_would_never_be_read_to_its_end_is_passed_over(tamper, reason, tmp_path):
    networks = saved(tmp_path, 1, 2)
    tamper(tmp_path / "step-00000002")
    found, loaded, said = load(tmp_path)
    assert found == state(1) and same(loaded, networks[1])
    (line,) = said
    assert reason in line and line.endswith("Using the previous one.")


def full_disk(*_args, **_settings):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_disk_in_rust(*_args, **_settings):
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("module", "name", "failure"),
    [
        (tensor_files, "save_file", full_disk_in_rust),
        (tensor_files, "save_file", full_disk),
        (files.os, "fsync", full_disk),
        (files.os, "replace", full_disk),
    ],
)
def test_a_full_disk_leaves_the_checkpoints_that_were_there_and_no_part_of_the_new_one(
    module, name, failure, tmp_path, monkeypatch
):
    networks = saved(tmp_path, 1, 2)
    network, optimizer = parts(seed=5)
    for step_number in (2, 3):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, failure)
            with pytest.raises(FolderError, match=r"cannot be written: .*No space left on device"):
                save_checkpoint(tmp_path, network, optimizer, state(step_number))
        assert names(tmp_path) == ["step-00000001", "step-00000002"]
        found, loaded, said = load(tmp_path)
        assert (found, said) == (state(2), [])
        assert same(loaded, networks[2])


def test_a_disk_that_fills_up_between_the_two_moves_gives_the_old_one_back(tmp_path, monkeypatch):
    networks = saved(tmp_path, 2)
    network, optimizer = parts(seed=5)
    replace, moves = os.replace, []

    def second_fails(source, target):
        if str(target).endswith("step-00000002") and not moves:
            moves.append(source)
            full_disk()
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", second_fails)
    with pytest.raises(FolderError):
        save_checkpoint(tmp_path, network, optimizer, state(2))
    assert names(tmp_path) == ["step-00000002"]
    assert same(load(tmp_path)[1], networks[2])


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    network, optimizer = parts()
    with pytest.raises(FolderError, match=r"file cannot be written: (Not a directory|File exists)\.\nFree some space"):
        save_checkpoint(blocked, network, optimizer, state(1))
    assert blocked.read_text() == "not a folder"


def test_checkpoints_are_listed_newest_first(tmp_path):
    for name in ("step-00000009", "step-00000100", "step-100000000", "step-x", "other"):
        (tmp_path / name).mkdir()
    assert [found.step for found in checkpoints(tmp_path)] == [100000000, 100, 9]
