"""A trained network that only answers: what it makes of a batch, without gradient, and no more than is asked for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.data.batch import Batch, TeacherStates
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts, network_of, whole
from plmkit.language import tr
from plmkit.layers.recording import projecting
from plmkit.network import Network
from plmkit.storage.tensors import WEIGHTS
from plmkit.training.checkpoint import put_weights

TEXT = (Encoder, SharedEncoder, Decoder, PostNormDecoder, BandedDecoder)  # whose layers and attention are alike
PLACED = frozenset({"predicted", "all"})  # of LM states


def teacher_network(parts: Parts, device: torch.device) -> Network:
    """The network of a folder for inference alone: no dropout, no gradient."""
    network = network_of(parts)
    put_weights(network, whole(parts.weights, network), parts.folder / WEIGHTS)
    return network.to(device).eval().requires_grad_(False)


def check_comparable(parts: Parts, what: str) -> None:
    """Refuse a network whose layers and attention are not those of a plain encoder or decoder."""
    architecture = parts.architecture
    is_other = isinstance(architecture, Encoder | SharedEncoder) and not architecture.is_berts
    if not isinstance(architecture, TEXT) or is_other:
        raise SettingError(
            tr(
                "{what} {folder} is a {architecture}: only encoders such as BERT, RoBERTa and ALBERT, and decoders "
                "such as GPT-2, are compared state by state. Fine-tune the teacher on a task, and use --method soft.",
                what=what,
                folder=parts.folder,
                architecture=type(architecture).__name__,
            )
        )


class NetworkTeacher:
    """What a network makes of the same rows as its student's."""

    def __init__(self, network: Network, causal: bool) -> None:
        self.network = network
        heads = network.all_heads().values()
        self.output: Any = next((head.output for head in heads if (head.generates if causal else head.fills)), None)

    @torch.no_grad()
    def observe(self, batch: Batch, wanted: frozenset[str]) -> TeacherStates:
        """Computes the last layer at the predicted positions only, if nothing else is wanted."""
        needed = batch.predicted if wanted == {"predicted"} else None
        asked = replace(batch, needed=needed, all_layers="layers" in wanted)
        if "attention" in wanted:
            with projecting() as attention:
                states = self.network.model(asked)
        else:
            states, attention = self.network.model(asked), []
        made = TeacherStates(
            hidden=states.hidden if "hidden" in wanted else None,
            layers=states.layers if "layers" in wanted else None,
            attention=tuple(attention) if "attention" in wanted else None,
        )
        return self.with_output(made, states.hidden, batch, wanted) if wanted & PLACED else made

    def with_output(
        self, made: TeacherStates, hidden: Tensor, batch: Batch, wanted: frozenset[str]
    ) -> TeacherStates:  # fmt: skip
        places = batch.source.visible if "all" in wanted else batch.predicted
        table, bias = self.output.softmax_weights()
        return replace(made, output=self.output.transformed(hidden[places]), table=table, bias=bias)


def shape_of(architecture: Architecture) -> dict[str, Any]:
    """The shape of a teacher, as objectives of distillation have it."""
    return {
        "teacher_layers": architecture.layers,
        "teacher_width": architecture.width,
        "teacher_heads": architecture.attention_heads,
    }


def has_lm_head(parts: Parts, causal: bool) -> bool:
    """Whether a folder has an LM head that predicts as the student's does."""
    name = "causal_lm" if causal else "masked_lm"
    return name in parts.architecture.tied_heads or any(own.startswith(f"heads.{name}.") for own in parts.weights)


def size_of(folder: Path) -> int:
    """Bytes of the weights in a folder."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
