"""A trained network that only answers: what it makes of a batch, without gradient, and no more than is asked for."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.data.batch import Batch, HeadStates, States, TeacherStates
from plmkit.data.reading.columns import Say
from plmkit.data.vocabulary import Vocabulary
from plmkit.distillation.alignment import AlignedRows, Alignment
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts, network_of, whole
from plmkit.language import tr
from plmkit.layers.recording import projecting
from plmkit.network import Network
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.storage.tensors import WEIGHTS
from plmkit.training.checkpoint import put_weights

TEXT = (Encoder, SharedEncoder, Decoder, PostNormDecoder, BandedDecoder)  # whose layers and attention are alike
PLACED = frozenset({"predicted", "all"})  # of LM states


def teacher_network(parts: Parts, device: torch.device) -> Network:
    """The network of a folder for inference alone: no dropout, no gradient."""
    network = network_of(parts)
    put_weights(network, whole(parts.weights, network), parts.folder / WEIGHTS)
    return network.to(device).eval().requires_grad_(False)


def check_comparable(architecture: Architecture, name: object, what: str) -> None:
    """Refuse a network whose layers and attention are not those of a plain encoder or decoder."""
    is_other = isinstance(architecture, Encoder | SharedEncoder) and not architecture.is_berts
    if not isinstance(architecture, TEXT) or is_other:
        raise SettingError(
            tr(
                "{what} {name} is a {architecture}: only encoders such as BERT, RoBERTa and ALBERT, and decoders "
                "such as GPT-2, are compared state by state. Use --method soft, which compares predictions.",
                what=what,
                name=name,
                architecture=type(architecture).__name__,
            )
        )


class NetworkTeacher:
    """What a network makes of the same rows as its student's."""

    def __init__(
        self, network: Network, causal: bool, alignment: Alignment | None = None, *, masked: bool = False
    ) -> None:
        """`alignment`: the student has another vocabulary; `masked`: tokens of its rows are masked."""
        self.network, self.alignment, self.masked = network, alignment, masked
        heads = network.all_heads().values()
        self.output: Any = next((head.output for head in heads if (head.generates if causal else head.fills)), None)

    @cached_property
    def softmax(self) -> dict[str, Any]:
        """The output embedding and its bias, of all tokens or of the common ones."""
        table, bias = self.output.softmax_weights()
        if self.alignment is None:
            return {"table": table, "bias": bias}
        ours, theirs = torch.from_numpy(self.alignment.common).to(table.device).unbind(1)
        return {"table": table[theirs], "bias": None if bias is None else bias[theirs], "common": ours}

    @torch.no_grad()
    def observe(self, batch: Batch, wanted: frozenset[str]) -> TeacherStates:
        """Computes the last layer at the predicted positions only, if nothing else is wanted."""
        rows = None if self.alignment is None else self.alignment.rows(batch, masked=self.masked)
        needed = batch.predicted if wanted == {"predicted"} and rows is None else None
        given = batch if rows is None else rows.batch
        asked = replace(given, memory=None, needed=needed, all_layers="layers" in wanted)  # the memory is the student's
        if "attention" in wanted:
            with projecting() as attention:
                states = self.network.model(asked)
        else:
            states, attention = self.network.model(asked), []
        if rows is not None:
            states, attention = placed(states, rows), [placed_heads(one, rows) for one in attention]
        made = TeacherStates(
            hidden=states.hidden if "hidden" in wanted else None,
            layers=states.layers if "layers" in wanted else None,
            attention=tuple(attention) if "attention" in wanted else None,
            aligned=None if rows is None else rows.aligned,
            comparable=None if rows is None else rows.comparable,
        )
        return self.with_output(made, states.hidden, batch, wanted) if wanted & PLACED else made

    def with_output(
        self, made: TeacherStates, hidden: Tensor, batch: Batch, wanted: frozenset[str]
    ) -> TeacherStates:  # fmt: skip
        places = batch.source.visible if "all" in wanted else batch.predicted
        places = places if made.comparable is None else places & made.comparable
        return replace(made, output=self.output.transformed(hidden[places]), **self.softmax)


def placed(states: States, rows: AlignedRows) -> States:
    """The states of a teacher's rows where the student's tokens are."""
    layers = None if states.layers is None else tuple(at_places(layer, rows.places) for layer in states.layers)
    return replace(states, hidden=at_places(states.hidden, rows.places), layers=layers)


def placed_heads(states: HeadStates, rows: AlignedRows) -> HeadStates:
    def moved(part: Tensor) -> Tensor:
        return part.gather(2, rows.places[:, None, :, None].expand(-1, part.shape[1], -1, part.shape[3]))

    return HeadStates(query=moved(states.query), key=moved(states.key), value=moved(states.value))


def at_places(hidden: Tensor, places: Tensor) -> Tensor:
    """(B, M, width) → (B, L, width)."""
    return hidden.gather(1, places[:, :, None].expand(-1, -1, hidden.shape[2]))


def shape_of(architecture: Architecture) -> dict[str, Any]:
    """The shape of a teacher, as objectives of distillation have it."""
    return {
        "teacher_layers": architecture.layers,
        "teacher_width": architecture.width,
        "teacher_heads": architecture.attention_heads,
    }


def has_lm_head(parts: Parts, causal: bool) -> bool:
    """Whether a folder has an LM head that predicts as the student's does."""
    name = CausalLM.name if causal else MaskedLM.name
    return name in parts.architecture.tied_heads or any(own.startswith(f"heads.{name}.") for own in parts.weights)


def warn_of_size(teacher: Parts, student: Architecture, vocabulary: Vocabulary, say: Say) -> None:
    """A remark on a student that is larger than its teacher."""
    with torch.device("meta"):
        models = teacher.architecture.build(teacher.vocabulary), student.build(vocabulary)
    theirs, ours = (sum(one.numel() for one in model.parameters()) for model in models)
    if ours > theirs:
        say(
            tr(
                "! The student has more parameters than its teacher ({ours:,} and {theirs:,}), so it will be neither "
                "smaller nor faster.",
                ours=ours,
                theirs=theirs,
            )
        )


def size_of(folder: Path) -> int:
    """Bytes of the weights in a folder."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
