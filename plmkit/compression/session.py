"""A network whose states an ONNX graph computes, by onnxruntime on the CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.architectures.contract import Architecture, Model
from plmkit.compression.onnx_extra import library
from plmkit.data.batch import Batch, States
from plmkit.errors import CheckpointError, PlmError
from plmkit.language import tr


class Session:
    """A graph in a file; it is read when it is first used, and again for another number of threads."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.threads = 0
        self.runtime = library("onnxruntime")

    def run(self, given: dict[str, Any]) -> dict[str, np.ndarray]:
        """The outputs by name, for those of the given arrays that are inputs."""
        opened = self.opened()
        found = opened.run(None, {name: given[name] for name in self.inputs})
        return dict(zip(self.outputs, found, strict=True))

    def opened(self) -> Any:
        if self.threads != torch.get_num_threads():
            options = self.runtime.SessionOptions()
            options.intra_op_num_threads = self.threads = torch.get_num_threads()
            options.log_severity_level = 4  # its warnings are about the graph, which no user can change
            try:
                self.session = self.runtime.InferenceSession(self.file, options, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise CheckpointError(
                    tr(
                        "{file} cannot be read as an ONNX graph: {error}.\nCopy the folder again from its source.",
                        file=self.file,
                        error=str(error).splitlines()[0].rstrip("."),
                    )
                ) from error
            self.inputs = tuple(one.name for one in self.session.get_inputs())
            self.outputs = tuple(one.name for one in self.session.get_outputs())
        return self.session


class GraphModel(Model):
    """The states of a graph for a batch: those of the last layer alone."""

    has_layers = False

    def __init__(self, settings: Architecture, file: Path) -> None:
        super().__init__()
        self.settings, self.session = settings, Session(file)

    def forward(self, batch: Batch) -> States:
        if batch.all_layers:
            raise refuse_layers(self.session.file.parent)
        rows, length = batch.source.tokens.shape
        places = torch.arange(length) if batch.needed is None else places_of(batch.needed)
        found = self.session.run(
            {
                "tokens": batch.source.tokens.numpy(), "visible": batch.source.visible.numpy(),
                "segments": batch.source.segment_ids.numpy(), "places": places.numpy(),
            }
        )  # fmt: skip
        hidden = torch.from_numpy(found["hidden"])
        if hidden.shape[1] < length:
            hidden = hidden.new_zeros(rows, length, hidden.shape[2]).index_copy_(1, places, hidden)
        return States(hidden=hidden, pooled=torch.from_numpy(found["pooled"]) if "pooled" in found else None)

    @property
    def input_embeddings(self) -> tuple[nn.Module, ...]:
        raise refuse_embeddings(self.session.file.parent)


def refuse_layers(folder: Path) -> PlmError:
    return PlmError(tr("{folder} is a compressed model, which gives its last layer only.", folder=folder))


def refuse_embeddings(folder: Path) -> PlmError:
    return PlmError(
        tr(
            "{folder} is a compressed model, whose layers cannot be looked into. Use the model that it was made from.",
            folder=folder,
        )
    )


def places_of(needed: Tensor) -> Tensor:
    """(B, L) True where a state is needed → (N,) the places where any row needs one, and the first."""
    wanted = needed.any(0)
    wanted[0] = True
    return wanted.nonzero().squeeze(1)
