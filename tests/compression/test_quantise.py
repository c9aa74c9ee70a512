"""Whole numbers in place of weights."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from plmkit.compression.quantise import MIN_ROWS, quantised, steps_of


def graph_of(nodes, weights, kind=TensorProto.FLOAT, given=("n", 4), made=("n", 2)):
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("x", kind, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, made)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(model, x):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_each_column_has_a_step_of_its_own():
    whole, steps = steps_of(np.array([[127.0, 0.5], [-64.0, -1.27]], dtype=np.float32), axis=0)
    np.testing.assert_allclose(steps, [1.0, 0.01])
    assert whole.tolist() == [[127, 50], [-64, -127]] and whole.dtype == np.int8


def test_a_column_of_zeros_stays_zero():
    whole, steps = steps_of(np.zeros((3, 1), dtype=np.float32), axis=0)
    assert whole.tolist() == [[0], [0], [0]] and steps.tolist() == [1.0]


def test_products_of_both_kinds_are_those_of_the_weights_that_they_had():
    weight = np.array([[127, 1], [-64, 127], [5, 0], [0, -90]], dtype=np.float32)
    x = np.array([[0, 255, 1, 2]], dtype=np.float32)  # whole numbers too, so that nothing is rounded
    expected = x @ weight + [1, 2]
    turned = graph_of(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        {"w": weight.T.copy(), "b": np.array([1, 2], dtype=np.float32)},
    )
    plain = graph_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weight})
    np.testing.assert_allclose(run(turned, x), expected)
    np.testing.assert_allclose(run(quantised(turned), x), expected, atol=0.01)
    np.testing.assert_allclose(run(quantised(plain), x), expected - [1, 2], atol=0.01)
    kinds = {node.op_type for model in (turned, plain) for node in model.graph.node}
    assert kinds == {"DynamicQuantizeMatMul"}
    assert all(one.data_type != TensorProto.FLOAT or len(one.dims) == 1 for one in turned.graph.initializer)


def test_a_weight_that_is_cut_first_is_quantised_too():
    weight = np.arange(16, dtype=np.float32).reshape(4, 4)
    cut = helper.make_node("Slice", ["w", "from", "to", "axis"], ["cut"])
    model = graph_of(
        [cut, helper.make_node("MatMul", ["x", "cut"], ["y"])],
        {"w": weight, "from": np.array([1]), "to": np.array([3]), "axis": np.array([1])},
    )
    x = np.array([[1, 0, 0, 255]], dtype=np.float32)
    found = run(quantised(model), x)
    np.testing.assert_allclose(found, x @ weight[:, 1:3], rtol=0.01)
    assert [node.op_type for node in model.graph.node] == ["DynamicQuantizeMatMul"]


def test_large_embeddings_have_a_step_per_row_and_small_ones_stay():
    rng = np.random.default_rng(0)
    for rows, kinds in ((MIN_ROWS, ["Gather", "Cast", "Gather", "Mul"]), (MIN_ROWS - 1, ["Gather"])):
        table = rng.standard_normal((rows, 8)).astype(np.float32) * 10.0 ** rng.integers(-3, 3, (rows, 1))
        table = table.astype(np.float32)
        gather = helper.make_node("Gather", ["t", "x"], ["y"])
        model = graph_of([gather], {"t": table}, TensorProto.INT64, ["n"], ["n", 8])
        numbers = np.array([0, 5, rows - 1])
        found = run(quantised(model), numbers)
        assert [node.op_type for node in model.graph.node] == kinds
        assert (np.abs(found - table[numbers]) <= np.abs(table[numbers]).max(1, keepdims=True) / 250).all()
