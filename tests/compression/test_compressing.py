"""`plm compress`: what it prints, what it refuses, and that it then writes nothing."""

from types import SimpleNamespace

import onnx
import pytest
from onnx import numpy_helper

from plmkit.compression.comparing import TOLERANCE
from plmkit.compression.compress import check_able
from plmkit.compression.folder import GRAPH
from plmkit.compression.measuring import files_of
from plmkit.errors import PlmError, SettingError


def test_one_table_has_size_speed_and_score(plm, finetuned, tmp_path):
    out = tmp_path / "small"
    ran = plm("compress", finetuned, "--to", "pruned", "--heads", "0.5", "--margin", "1", "--out", out)
    assert ran.code == 0 and (out / "run.json").is_file()
    assert [line.split("  ")[0].strip() for line in ran.out.splitlines()[1:]] == [
        "size (MB)", "texts/s, one by one", "texts/s, batches of 2 and 2", "accuracy",
    ]  # fmt: skip
    found = plm("compress", finetuned, "--to", "pruned", "--margin", "1", "--out", tmp_path / "other", "--json").json
    assert found["before"]["size"] > found["after"]["size"] and found["written"]
    assert found["before"]["scores"].keys() == {"classify"} and found["measures"] == {"classify": "accuracy"}


def test_a_score_that_falls_too_far_is_shown_and_nothing_is_written(plm, finetuned, tmp_path, monkeypatch):
    scores = iter([("accuracy", 0.91), ("accuracy", 0.88)] * 2)
    monkeypatch.setattr("plmkit.compression.measuring.score_of", lambda *_: next(scores))
    out = tmp_path / "small"
    ran = plm("compress", finetuned, "--to", "pruned", "--margin", "0.02", "--out", out)
    assert ran.code == 2 and not out.exists() and list(tmp_path.iterdir()) == []
    assert "accuracy is worse by 0.0300, more than the margin of 0.02" in ran.err
    assert "0.9100" in ran.out and "0.8800" in ran.out and "-0.0300" in ran.out
    assert plm("compress", finetuned, "--to", "pruned", "--margin", "0.04", "--out", out).code == 0


def test_a_graph_that_computes_something_else_is_not_written(plm, finetuned, compressed, tmp_path, monkeypatch):
    graph = onnx.load(compressed("onnx") / GRAPH)
    norm = next(node for node in graph.graph.node if node.op_type == "LayerNormalization")
    weight = next(one for one in graph.graph.initializer if one.name == norm.input[1])
    array = numpy_helper.to_array(weight).copy()
    array[0] += 1e-2
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    monkeypatch.setattr("plmkit.compression.compress.graph_of", lambda *_: graph)
    out = tmp_path / "graph"
    ran = plm("compress", finetuned, "--to", "onnx", "--out", out)
    assert ran.code == 2 and not out.exists()
    assert f"more than {TOLERANCE:.0e}" in ran.err and "is not written" in ran.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "onxx"), "Did you mean 'onnx'?"),
        (("--to", "int8", "--margin", "-1"), "--margin must be 0 or more"),
        (("--to", "int8", "--margin", "1.5"), "--margin 1.5: scores of this model are at most 1"),
        (("--to", "pruned", "--heads", "1"), "shares, from 0 to below 1"),
        (("--to", "int8", "--dev", "missing.tsv"), "missing.tsv"),
    ],
)
def test_bad_options_are_explained(plm, finetuned, tmp_path, options, said):
    ran = plm("compress", finetuned, *options, "--out", tmp_path / "out")
    assert ran.code == 2 and said in ran.err and not (tmp_path / "out").exists()


def test_a_folder_with_files_is_left_as_it_is(plm, finetuned, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    ran = plm("compress", finetuned, "--to", "onnx", "--out", tmp_path)
    assert (
        ran.code == 2 and "is left as it is" in ran.err and [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    )


def test_a_model_without_a_task_is_not_pruned(plm, pretrained, tmp_path):
    ran = plm("compress", pretrained, "--to", "pruned", "--out", tmp_path / "out")
    assert ran.code == 2 and "fine-tuned encoder" in ran.err


def test_each_of_several_tasks_has_its_own_dev_file(tmp_path):
    several = SimpleNamespace(folder=tmp_path, tasks={"topic": None, "mood": None})
    given = files_of(several, ["mood=a.tsv", "topic=b=c.tsv"], {})
    assert {name: str(path) for name, path in given.items()} == {"mood": "a.tsv", "topic": "b=c.tsv"}
    with pytest.raises(SettingError, match="--dev NAME=FILE"):
        files_of(several, ["a.tsv", "mood=b.tsv"], {})


def test_a_model_that_reads_images_is_refused_as_one_that_does():
    parts = SimpleNamespace(architecture=SimpleNamespace(reads_images=True, translates=True), folder="seen", tasks=())
    with pytest.raises(PlmError, match=r"^seen reads images; plm compress takes models that read text alone\.$"):
        check_able(parts)
