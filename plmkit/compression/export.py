"""A network as an ONNX graph, by torch's exporter, for any number of rows of any length."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from plmkit.architectures.contract import Model
from plmkit.compression.onnx_extra import library
from plmkit.data.batch import Batch, Side
from plmkit.errors import PlmError
from plmkit.language import tr, translated

OPSET = 20  # of the operators; from 20 on Gelu is one of them
INPUTS = ("tokens", "visible", "segments", "places")
OUTPUTS = ("hidden", "pooled")
SHAPE = 3, 7  # rows and positions of the batch that is traced; any other works as well, but 1 would be fixed
MAX_BYTES = 2_000_000_000  # of a protobuf file


class Traced(nn.Module):
    """The states of a model, from tensors instead of a batch."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, visible: Tensor, segments: Tensor, places: Tensor) -> tuple[Tensor, ...]:
        """(B, L) tokens, and (N,) places in all rows, the first of them 0 → (B, N, width) states, and pooled ones."""
        states = self.model(Batch(source=Side(tokens=tokens, visible=visible, segments=segments), needed=places))
        return (states.hidden,) if states.pooled is None else (states.hidden, states.pooled)


@torch.no_grad()
def graph_of(model: Model, tokens: int, name: str) -> Any:
    """The `onnx.ModelProto` of a model in evaluation mode with that many tokens in its vocabulary.

    A model that cannot be exported is refused; `name` is that of its folder.
    """
    library("onnxscript")
    if model.settings.not_a_graph:
        raise refused(model, name, translated(model.settings.not_a_graph))
    if sum(weight.numel() * weight.element_size() for weight in model.parameters()) > MAX_BYTES:
        raise PlmError(tr("{folder} has more than 2 GB of weights, which an ONNX file cannot hold.", folder=name))
    rows, length = SHAPE
    given = torch.arange(rows * length).view(SHAPE) % tokens
    visible = torch.ones(SHAPE, dtype=torch.bool)
    visible[1, -2:] = False
    traced = Traced(model).eval()
    batch = {"rows": torch.export.Dim("rows"), "length": torch.export.Dim("length", max=model.settings.max_length)}
    by_row = {0: batch["rows"], 1: batch["length"]}
    places = {0: torch.export.Dim("places", max=model.settings.max_length)}
    try:
        with quiet():
            program = torch.onnx.export(
                traced, (given, visible, torch.zeros_like(given), torch.arange(length - 2)), dynamo=True,
                input_names=INPUTS, output_names=OUTPUTS[: outputs_of(model)], opset_version=OPSET,
                dynamic_shapes=(by_row, by_row, by_row, places), verbose=False,
            )  # fmt: skip
    except Exception as error:
        raise refused(model, name, reason_of(error)) from error
    assert program is not None
    return named(program.model_proto)


def refused(model: Model, name: str, reason: str) -> PlmError:
    return PlmError(
        tr(
            "{folder} has the architecture {type}, which torch cannot export to ONNX: {reason}.",
            folder=name,
            type=type(model.settings).__name__,
            reason=reason,
        )
    )


def outputs_of(model: Model) -> int:
    """How many outputs its graph has."""
    rows = torch.zeros((1, 1), dtype=torch.long)
    side = Side(tokens=rows, visible=torch.ones_like(rows, dtype=torch.bool), segments=rows)
    return 1 if model(Batch(source=side)).pooled is None else 2


@contextmanager
def quiet() -> Iterator[None]:
    """Without the exporter's messages to its own developers."""
    loud = logging.getLogger("torch.onnx"), logging.getLogger("torch.export"), logging.getLogger("onnxscript")
    levels = [logger.level for logger in loud]
    for logger in loud:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loud, levels, strict=True):
            logger.setLevel(level)


def reason_of(error: BaseException) -> str:
    """The first line of the error that caused the others."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


def named(graph: Any) -> Any:
    """The graph without what later changes would make wrong: shapes of inner values, and notes on where each is from.

    `onnxruntime.quantization` fails on the shapes that torch writes.
    """
    del graph.graph.value_info[:]
    for node in graph.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    return graph
