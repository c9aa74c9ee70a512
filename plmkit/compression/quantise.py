"""An ONNX graph with 8-bit weights, whose products onnxruntime quantises dynamically."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plmkit.compression.onnx_extra import library

LARGEST = 127  # of the whole numbers: symmetric, so that a product needs no correction for a zero point
FOLDED = ("Slice", "Split", "Transpose", "Reshape")  # of a weight
MIN_ROWS = 1024  # of an embedding: smaller ones stay as they are
MICROSOFT = "com.microsoft"  # operators that are built into onnxruntime


def steps_of(weight: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers from -127 to 127, and the step of each row or column that they are multiples of."""
    steps = (np.abs(weight).max(axis, keepdims=True) / LARGEST).astype(np.float32)
    steps[steps == 0] = 1.0
    return np.rint(weight / steps).astype(np.int8), steps.squeeze(axis)


class Weights:
    """The constants of a graph by name."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.numpy = graph, library("onnx.numpy_helper")
        self.found = {one.name: one for one in graph.initializer}

    def __contains__(self, name: str) -> bool:
        return name in self.found

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.numpy.to_array(self.found[name]))

    def add(self, name: str, array: np.ndarray) -> str:
        if name not in self.found:
            self.found[name] = self.numpy.from_array(np.ascontiguousarray(array), name)
        return name

    def write(self, nodes: Sequence[Any]) -> None:
        """Into the graph: these nodes, and the constants that they use."""
        used = {name for node in nodes for name in node.input} | {one.name for one in self.graph.output}
        del self.graph.node[:], self.graph.initializer[:], self.graph.value_info[:]
        self.graph.node.extend(nodes)
        self.graph.initializer.extend(one for name, one in self.found.items() if name in used)


def quantised(model: Any) -> Any:
    """The same model, changed in place: products with weight matrices, and large embeddings, have 8 bits per weight.

    Each output of a product has a step of its own, and each row of an embedding. Activations are quantised by
    onnxruntime when they are known.
    """
    weights = Weights(model.graph)
    nodes: list[Any] = []
    for node in folded(model.graph, weights):
        if node.op_type in ("Gemm", "MatMul") and is_matrix(weights, node.input[1]):
            nodes.append(product(node, weights))
        elif node.op_type == "Gather" and is_matrix(weights, node.input[0]) and len(weights[node.input[0]]) >= MIN_ROWS:
            nodes += lookup(node, weights)
        else:
            nodes.append(node)
    weights.write(nodes)
    if not any(known.domain == MICROSOFT for known in model.opset_import):
        model.opset_import.append(library("onnx.helper").make_opsetid(MICROSOFT, 1))
    return model


def is_matrix(weights: Weights, name: str) -> bool:
    return name in weights and weights[name].ndim == 2 and weights[name].dtype == np.float32


def folded(graph: Any, weights: Weights) -> list[Any]:
    """The nodes of a graph, without those that cut or turn a weight: their results become weights."""
    evaluator = library("onnx.reference").ReferenceEvaluator
    nodes = []
    for node in graph.node:
        given = [name for name in node.input if name]
        if node.op_type in FOLDED and given and all(name in weights for name in given):
            made = evaluator(node).run(None, {name: weights[name] for name in given})
            for name, array in zip(node.output, made, strict=True):
                weights.add(name, np.asarray(array))
        else:
            nodes.append(node)
    return nodes


def product(node: Any, weights: Weights) -> Any:
    """inputs @ weight + bias as one node that quantises the inputs first."""
    helper = library("onnx.helper")
    name, given = node.input[1], {one.name: helper.get_attribute_value(one) for one in node.attribute}
    matrix = weights[name].T if given.get("transB") else weights[name]
    whole, steps = steps_of(matrix, axis=0)
    place = f"{name}.{'t' if given.get('transB') else 'n'}"
    inputs = [
        node.input[0], weights.add(f"{place}.int8", whole), weights.add(f"{place}.step", steps),
        weights.add(f"{place}.zero", np.zeros(len(steps), dtype=np.int8)), *node.input[2:3],
    ]  # fmt: skip
    return helper.make_node("DynamicQuantizeMatMul", inputs, list(node.output), domain=MICROSOFT)


def lookup(node: Any, weights: Weights) -> list[Any]:
    """Rows of an embedding as whole numbers, times their steps."""
    helper = library("onnx.helper")
    table, rows, (out,) = node.input[0], node.input[1], node.output
    whole, steps = steps_of(weights[table], axis=1)
    numbers, sizes = weights.add(f"{table}.rows.int8", whole), weights.add(f"{table}.rows.step", steps[:, None])
    return [
        helper.make_node("Gather", [numbers, rows], [f"{out}.int8"]),
        helper.make_node("Cast", [f"{out}.int8"], [f"{out}.whole"], to=library("onnx").TensorProto.FLOAT),
        helper.make_node("Gather", [sizes, rows], [f"{out}.step"]),
        helper.make_node("Mul", [f"{out}.whole", f"{out}.step"], [out]),
    ]
