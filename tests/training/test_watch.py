import json
from pathlib import Path

import pytest

from plmkit.data.samples import Place, Position
from plmkit.errors import FolderError
from plmkit.training.watch import METRICS, Log, epoch_of, read_metrics


def write(folder: Path, *lines: str) -> Path:
    path = folder / METRICS
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_every_line_is_json_and_there_at_once(tmp_path):
    with Log(tmp_path) as log:
        log.write(10, {"train/masked_lm": 2.5, "learning_rate": 0.001})
        assert read_metrics(tmp_path) == [{"step": 10, "train/masked_lm": 2.5, "learning_rate": 0.001}]
        log.write(20, {"train/masked_lm": 2.25, "learning_rate": 0.0})
    assert [line["step"] for line in read_metrics(tmp_path)] == [10, 20]


def test_tensorboard_gets_the_same_points(tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    with Log(tmp_path) as log:
        log.write(10, {"loss": 2.5, "name": "not a number"})
    (events,) = (tmp_path / "tensorboard").iterdir()
    points = [
        (event.step, value.tag, value.tensor.float_val[0])
        for event in EventFileLoader(str(events)).Load()
        for value in event.summary.value
    ]
    assert points == [(10, "loss", 2.5)]


def test_lines_after_the_checkpoint_and_a_line_cut_short_are_dropped(tmp_path):
    path = write(tmp_path, '{"step": 10, "a": 1}\n', '{"step": 20, "a": 2}\n', '{"step": 30, "a": 3}\n', '{"step": 4')
    with Log(tmp_path, step=20) as log:
        log.write(30, {"a": 4})
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 10, "a": 1},
        {"step": 20, "a": 2},
        {"step": 30, "a": 4},
    ]


def test_what_was_logged_before_a_crash_is_not_logged_twice(tmp_path):
    write(tmp_path, '{"step": 20, "train/a": 1}\n', '{"step": 20, "valid/a": 2, "seconds": 3}\n')
    with Log(tmp_path, step=20) as log:
        log.write(20, {"valid/a": 2, "seconds": 99})
        log.write(21, {"valid/a": 2, "seconds": 99})
    assert read_metrics(tmp_path)[1:] == [
        {"step": 20, "valid/a": 2, "seconds": 3},
        {"step": 21, "valid/a": 2, "seconds": 99},
    ]


def test_a_run_without_metrics_has_none(tmp_path):
    assert read_metrics(tmp_path) == []


def test_a_full_disk_is_an_error_of_ours(tmp_path):
    (tmp_path / METRICS).symlink_to("/dev/full")
    log = Log(tmp_path)
    with pytest.raises(FolderError, match="No space left on device"):
        log.write(1, {"a": 1})
    with pytest.raises(FolderError, match="No space left on device"):
        log.close()


def test_the_epoch_is_counted_from_one_and_told_for_each_stream():
    assert epoch_of(Position(places={"text": Place(epoch=2, index=30)})) == "epoch 3"
    places = {"sentences": Place(epoch=1), "pairs": Place(index=4)}
    assert epoch_of(Position(places=places)) == "epoch 1 of pairs, epoch 2 of sentences"
    assert epoch_of(Position(places={"pairs": Place(index=4), "sentences": Place(index=8)})) == "epoch 1"
