"""A causal Transformer as two ONNX graphs: a step with a key–value cache, and the logits of its states.

torch's exporter would copy the cache at every step. Here onnxruntime's `GroupQueryAttention` writes into it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from plmkit.architectures.decoder import DecoderModel
from plmkit.compression.onnx_extra import library
from plmkit.layers.attention import CausalAttention
from plmkit.layers.transformer import ACTIVATIONS, PreNormBlock

STEP, LOGITS, WEIGHTS = "step.onnx", "logits.onnx", "model.weights"
OPSET, MICROSOFT = 20, "com.microsoft"
BLOCKS = (128, 64, 32, 16)  # numbers of consecutive weights that share a step; the first that divides all widths
MIDDLE = 128  # the number that stands for 0
INTEGER_PRODUCTS = 4  # onnxruntime's accuracy level: inputs are rounded to 8 bits too, each row by itself
PAGE = 4096  # bytes: at its multiples a file can be mapped into memory
GELU = {"gelu": "none", "gelu_tanh": "tanh"}


Places = dict[str, tuple[int, int]]  # the offset and the length of each weight in a file


class Graph:
    """Nodes and constants, and the file of weights that several graphs share."""

    def __init__(self, shared: dict[str, np.ndarray], block: int | None) -> None:
        self.shared, self.block = shared, block
        self.nodes: list[Any] = []
        self.used: dict[str, np.ndarray] = {}
        self.helper = library("onnx.helper")

    def node(self, kind: str, *inputs: str, outputs: int = 1, own: bool = False, **attributes: Any) -> str:
        """Add an operator, onnxruntime's `own` or ONNX's; returns the name of its first output."""
        names = [f"{kind}.{len(self.nodes)}.{number}" for number in range(outputs)]
        domain = MICROSOFT if own else ""
        self.nodes.append(self.helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0]

    def constant(self, name: str, array: np.ndarray) -> str:
        self.used[name] = self.shared.setdefault(name, np.ascontiguousarray(array))
        return name

    def weight(self, name: str, tensor: Tensor) -> str:
        return self.constant(name, tensor.detach().float().numpy())

    def matrix(self, name: str, tensor: Tensor) -> tuple[str, str]:
        """(outputs, inputs) weights in whole numbers of 8 bits, and the steps of their blocks."""
        assert self.block
        if f"{name}.int8" not in self.shared:
            blocks = tensor.detach().float().numpy().reshape(len(tensor), -1, self.block)
            steps = (np.abs(blocks).max(-1) / (MIDDLE - 1)).astype(np.float32)
            steps[steps == 0] = 1.0
            whole = (np.rint(blocks / steps[..., None]) + MIDDLE).astype(np.uint8)
            self.shared |= {f"{name}.int8": whole, f"{name}.step": steps}
        return (self.constant(f"{name}.int8", self.shared[f"{name}.int8"]),
                self.constant(f"{name}.step", self.shared[f"{name}.step"]))  # fmt: skip

    def product(self, inputs: str, name: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """inputs @ weight.T + bias."""
        outputs, width = weight.shape
        if self.block:
            made = self.node(
                "MatMulNBits", inputs, *self.matrix(name, weight), own=True, K=width, N=outputs, bits=8,
                block_size=self.block, accuracy_level=INTEGER_PRODUCTS,
            )  # fmt: skip
        else:
            turned = self.node("Transpose", self.weight(name, weight), perm=[1, 0])
            made = self.node("MatMul", inputs, turned)
        return made if bias is None else self.node("Add", made, self.weight(f"{name}.bias", bias))

    def lookup(self, name: str, table: Tensor, numbers: str) -> str:
        """Rows of an embedding."""
        if not self.block:
            return self.node("Gather", self.weight(name, table), numbers)
        whole, steps = self.matrix(name, table)
        rows = self.node("Gather", whole, numbers)
        floats = self.node("Cast", rows, to=library("onnx").TensorProto.FLOAT)
        centred = self.node("Sub", floats, self.constant("middle", np.array(MIDDLE, dtype=np.float32)))
        sizes = self.node("Unsqueeze", self.node("Gather", steps, numbers), self.constant("last_axis", np.array([-1])))
        scaled = self.node("Mul", centred, sizes)
        return self.node("Reshape", scaled, self.constant("flat", np.array([0, 0, table.shape[1]])))

    def norm(self, inputs: str, name: str, module: nn.Module) -> str:
        if not isinstance(module, nn.LayerNorm):
            return inputs
        scale, bias = self.weight(f"{name}.weight", module.weight), self.weight(f"{name}.bias", module.bias)
        return self.node("LayerNormalization", inputs, scale, bias, axis=-1, epsilon=module.eps)

    def activation(self, inputs: str, function: Any) -> str:
        name = next(name for name, known in ACTIVATIONS.items() if known is function)
        return self.node("Gelu", inputs, approximate=GELU[name]) if name in GELU else self.node("Relu", inputs)

    def attention(self, inputs: str, name: str, module: CausalAttention, layer: int) -> str:
        """Attention to the cache of a layer, into which the new keys and values are written."""
        joint = self.product(inputs, f"{name}.qkv", module.query_key_value.weight, module.query_key_value.bias)
        parts = self.node("Split", joint, outputs=3, axis=-1, num_outputs=3).removesuffix("0")
        mixed = self.node(
            "GroupQueryAttention", f"{parts}0", f"{parts}1", f"{parts}2", f"keys.{layer}", f"values.{layer}",
            "last", "total", outputs=3, own=True, num_heads=module.heads, kv_num_heads=module.heads,
            local_window_size=module.band or -1,
        )  # fmt: skip
        node = self.nodes[-1]
        node.output[1], node.output[2] = f"keys.{layer}.new", f"values.{layer}.new"
        return self.product(mixed, f"{name}.output", module.output.weight, module.output.bias)

    def save(self, path: Path, inputs: Sequence[Any], outputs: Sequence[Any], places: Places) -> None:
        """The graph without the weights that are in the common file."""
        onnx = library("onnx")
        constants = []
        for name, array in self.used.items():
            if name not in places:
                constants.append(library("onnx.numpy_helper").from_array(array, name))
                continue
            made = onnx.TensorProto(
                name=name, dims=array.shape, data_type=self.helper.np_dtype_to_tensor_dtype(array.dtype)
            )
            made.data_location = onnx.TensorProto.EXTERNAL
            offset, length = places[name]
            for key, value in (("location", WEIGHTS), ("offset", offset), ("length", length)):
                made.external_data.add(key=key, value=str(value))
            constants.append(made)
        graph = self.helper.make_graph(self.nodes, path.stem, list(inputs), list(outputs), constants)
        opsets = [self.helper.make_opsetid("", OPSET), self.helper.make_opsetid(MICROSOFT, 1)]
        model = self.helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="plmkit")
        path.write_bytes(model.SerializeToString())


def write_decoder(folder: Path, model: DecoderModel, *, bits: int) -> None:
    """Both graphs and their weights, with 8 or 32 bits each."""
    settings = model.settings
    widths = settings.width, settings.inner
    block = next((size for size in BLOCKS if not any(width % size for width in widths)), None) if bits == 8 else None
    shared: dict[str, np.ndarray] = {}
    graphs = {
        STEP: (step_graph(Graph(shared, block), model), *step_values(settings)),
        LOGITS: (logits_graph(Graph(shared, block), model), *logits_values(settings.width)),
    }
    places = write_weights(folder / WEIGHTS, shared)
    for name, (graph, inputs, outputs) in graphs.items():
        graph.save(folder / name, inputs, outputs, places)


def step_graph(graph: Graph, model: DecoderModel) -> Graph:
    """(B, n) tokens and (n,) positions → (B, n, width) states."""
    tokens = graph.lookup("tokens.weight", model.embed.tokens.weight, "tokens")
    places = graph.node("Gather", graph.weight("positions.weight", model.embed.positions.weight), "positions")
    hidden = graph.node("Add", tokens, places)
    blocks: list[Any] = list(model.blocks)
    for layer, block in enumerate(blocks):
        name, pre = f"block.{layer}", isinstance(block, PreNormBlock)
        for part, module, norm in (
            ("attention", block.attention, block.attention_norm),
            ("feed_forward", block.feed_forward, block.feed_forward_norm),
        ):
            given = graph.norm(hidden, f"{name}.{part}.norm", norm) if pre else hidden
            if part == "attention":
                made = graph.attention(given, f"{name}.attention", module, layer)
            else:
                inner = graph.product(given, f"{name}.expand", module.expand.weight, module.expand.bias)
                made = graph.product(
                    graph.activation(inner, module.activation), f"{name}.contract", module.contract.weight,
                    module.contract.bias,
                )  # fmt: skip
            hidden = graph.node("Add", hidden, made)
            hidden = hidden if pre else graph.norm(hidden, f"{name}.{part}.norm", norm)
    graph.node("Identity", graph.norm(hidden, "norm", model.norm))
    graph.nodes[-1].output[0] = "hidden"
    return graph


def logits_graph(graph: Graph, model: DecoderModel) -> Graph:
    """(N, width) states → (N, vocabulary) logits, by the token embedding."""
    graph.product("hidden", "tokens.weight", model.embed.tokens.weight)
    graph.nodes[-1].output[0] = "logits"
    return graph


def step_values(settings: Any) -> tuple[list[Any], list[Any]]:
    """The inputs and the outputs of a step."""
    helper, kinds = library("onnx.helper"), library("onnx").TensorProto
    kept = ["rows", settings.heads, "most", settings.width // settings.heads]
    caches = [f"{part}.{layer}" for layer in range(settings.layers) for part in ("keys", "values")]
    inputs = [
        helper.make_tensor_value_info("tokens", kinds.INT64, ["rows", "count"]),
        helper.make_tensor_value_info("positions", kinds.INT64, ["count"]),
        helper.make_tensor_value_info("last", kinds.INT32, ["rows"]),
        helper.make_tensor_value_info("total", kinds.INT32, []),
        *(helper.make_tensor_value_info(name, kinds.FLOAT, kept) for name in caches),
    ]
    hidden = helper.make_tensor_value_info("hidden", kinds.FLOAT, ["rows", "count", settings.width])
    return inputs, [hidden, *(helper.make_tensor_value_info(f"{name}.new", kinds.FLOAT, kept) for name in caches)]


def logits_values(width: int) -> tuple[list[Any], list[Any]]:
    helper, kinds = library("onnx.helper"), library("onnx").TensorProto
    return (
        [helper.make_tensor_value_info("hidden", kinds.FLOAT, ["states", width])],
        [helper.make_tensor_value_info("logits", kinds.FLOAT, ["states", "vocabulary"])],
    )


def write_weights(path: Path, arrays: dict[str, np.ndarray]) -> Places:
    """All arrays but small ones in one file; returns where each begins, and its bytes."""
    places: Places = {}
    with open(path, "wb") as file:
        for name, array in arrays.items():
            if array.nbytes < PAGE:
                continue
            file.write(b"\0" * (-file.tell() % PAGE))
            places[name] = file.tell(), array.nbytes
            file.write(array.tobytes())
    return places
