"""A compressed folder is used like the one that it was made from."""

import csv
import io
import json

import numpy as np
import pytest

import plmkit
from plmkit.compression.folder import COMPRESSED, GRAPH
from plmkit.storage.manifest import MANIFEST

TEXTS = ["the cat sees a house.", "the king sings", "今天天气很好"]
SAFE = {".json", ".onnx", ".safetensors", ".txt"}


def table(text: str) -> tuple[list[str], list[list[str]]]:
    names, *rows = csv.reader(io.StringIO(text), delimiter="\t")
    return names, rows


def test_predictions_have_the_same_columns_and_the_same_values(plm, compressed, finetuned, rows_file):
    before, after = (plm("predict", folder, rows_file) for folder in (finetuned, compressed("onnx")))
    (names, rows), (own_names, own_rows) = table(before.out), table(after.out)
    assert after.code == 0 and names == own_names
    place = names.index("probability")
    assert [row[:place] for row in rows] == [row[:place] for row in own_rows]
    theirs, ours = (np.array([list(map(float, row[place:])) for row in found]) for found in (rows, own_rows))
    np.testing.assert_allclose(theirs, ours, atol=2e-6)


def test_scores_of_a_graph_are_those_of_the_network(plm, compressed, finetuned, rows_file):
    before, after = (plm("evaluate", folder, rows_file, "--json").json for folder in (finetuned, compressed("onnx")))
    assert before["accuracy"] == after["accuracy"] and before["confusion"] == after["confusion"]


@pytest.mark.parametrize(("to", "most"), [("onnx", 1e-5), ("int8", 0.2)])
def test_vectors_of_sentences_and_tokens_are_close(compressed, finetuned, to, most):
    before, after = plmkit.load(finetuned), plmkit.load(compressed(to))
    sizes = np.abs(before.embed(TEXTS)).max()
    assert 0 < np.abs(before.embed(TEXTS) - after.embed(TEXTS)).max() < most * sizes or to == "onnx"
    np.testing.assert_allclose(before.embed(TEXTS), after.embed(TEXTS), atol=most * sizes)
    for one, other in zip(before.embed(TEXTS, level="token"), after.embed(TEXTS, level="token"), strict=True):
        np.testing.assert_allclose(one, other, atol=2 * most * np.abs(one).max())


def test_eight_bit_weights_take_less_space_and_are_products_of_whole_numbers(compressed):
    import onnx

    graphs = {to: onnx.load(compressed(to) / GRAPH).graph for to in ("onnx", "int8")}
    kinds = {to: [node.op_type for node in graph.node] for to, graph in graphs.items()}
    products = kinds["onnx"].count("Gemm")
    assert products >= 2 * 4 and kinds["int8"].count("DynamicQuantizeMatMul") == products
    assert "Gemm" not in kinds["int8"]
    sizes = {to: (compressed(to) / GRAPH).stat().st_size for to in graphs}
    assert sizes["int8"] < 0.7 * sizes["onnx"]  # of a network this small, embeddings of 300 tokens stay as they are


def test_a_compressed_folder_holds_nothing_that_could_run(compressed):
    for to in ("onnx", "int8"):
        files = [path for path in compressed(to).rglob("*") if path.is_file()]
        assert {path.suffix for path in files} <= SAFE
        assert json.loads((compressed(to) / COMPRESSED).read_text())["to"] == to
        assert (compressed(to) / MANIFEST).is_file()


@pytest.mark.parametrize(
    "verb",
    [
        ("finetune", "{folder}", "--task", "classify", "--train", "{rows}", "--out", "{out}"),
        ("pretrain", "bert-tiny", "{rows}", "--from", "{folder}", "--out", "{out}"),
        ("export", "{folder}", "{out}"),
        ("compress", "{folder}", "--to", "onnx", "--out", "{out}"),
        ("fill", "{folder}", "a [MASK]"),
        ("score", "{folder}", "a text"),
        ("attend", "{folder}", "a text"),
        ("embed", "{folder}", "a text", "--layers", "mean"),
    ],
    ids=lambda verb: verb[0],
)
def test_verbs_that_need_the_network_refuse_in_a_sentence(plm, compressed, rows_file, tmp_path, verb):
    out = tmp_path / "out"
    ran = plm(*(word.format(folder=compressed("onnx"), rows=rows_file, out=out) for word in verb))
    assert ran.code == 2 and not out.exists()
    assert "compressed" in ran.err and len(ran.err.strip().splitlines()) <= 3


def test_a_damaged_graph_is_named(compressed, tmp_path, plm):
    import shutil

    folder = shutil.copytree(compressed("onnx"), tmp_path / "broken")
    whole = (folder / GRAPH).read_bytes()
    (folder / GRAPH).write_bytes(whole[: len(whole) // 2])
    ran = plm("predict", folder, "a text")
    assert ran.code == 2 and f"{folder / GRAPH} was changed" in ran.err
    (folder / MANIFEST).unlink()
    ran = plm("predict", folder, "a text")
    assert ran.code == 2 and f"{folder / GRAPH} cannot be read as an ONNX graph" in ran.err


def test_without_onnxruntime_a_sentence_says_how_to_install_it(compressed, monkeypatch, plm):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("plmkit.compression.onnx_extra.import_module", missing)
    ran = plm("predict", compressed("onnx"), "a text")
    assert ran.code == 2 and "pip install 'plmkit[onnx]'" in ran.err


def test_a_pruned_folder_is_an_ordinary_one(plm, compressed, rows_file, tmp_path):
    folder = compressed("pruned")
    model = plmkit.load(folder)
    assert sum(model.architecture.kept_heads) == 2 and sum(model.architecture.kept_inner) == 96
    out = tmp_path / "again"
    ran = plm(
        "finetune", folder, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--epochs", "1",
        "--set", "task.ngrams=false", "--out", out,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert plmkit.load(out).architecture.kept_heads == model.architecture.kept_heads
