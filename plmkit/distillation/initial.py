"""Initial weights of a student: those of chosen layers of its teacher."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from plmkit.data.vocabulary import MISSING
from plmkit.distillation.alignment import Alignment
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.network import Network

AUTO, RANDOM = "auto", "random"
OF_TOKENS = ("model.embed.tokens.weight", "vocabulary.bias")  # weights with a row for each token
POSITIONS = "model.embed.positions.weight"
CUT = (*OF_TOKENS, POSITIONS)  # of which a part may do


def initial_layers(text: str) -> str | tuple[int, ...]:
    """`auto`, `random`, or the layers of the teacher, as in `1,3,5`."""
    if text in (AUTO, RANDOM):
        return text
    try:
        return tuple(int(part) for part in text.strip("[]()").split(","))
    except ValueError:
        raise SettingError(
            tr("--init takes auto, random, or layers of the teacher as in 1,3,5; found '{text}'.", text=text)
        ) from None


def every_nth(student: int, teacher: int) -> tuple[int, ...]:
    """Of 12 layers for a student of 6: 1, 3, 5, 7, 9, 11 (Sanh et al., 2019, 3)."""
    return tuple(number * teacher // student + 1 for number in range(student))


def chosen_layers(wanted: str | tuple[int, ...], student: int, teacher: int) -> tuple[int, ...]:
    if isinstance(wanted, str):
        return every_nth(student, teacher)
    if len(wanted) != student or any(not 1 <= layer <= teacher for layer in wanted):
        raise SettingError(
            tr(
                "--init names layers of the teacher, from 1 to {teacher}, one for each of the student's {student}; "
                "found {found}.",
                teacher=teacher,
                student=student,
                found=comma().join(map(str, wanted)),
            )
        )
    return wanted


def by_text(
    own: Mapping[str, Tensor], theirs: Mapping[str, Tensor], alignment: Alignment | None
) -> Mapping[str, Tensor]:
    """The teacher's weights with rows for the student's tokens; a token that the teacher lacks keeps its own row."""
    if alignment is None:
        return theirs
    ours, places = torch.from_numpy(np.stack([np.arange(len(alignment.counterpart)), alignment.counterpart]))
    ours, places = ours[places != MISSING], places[places != MISSING]
    made = {name: weight for name, weight in theirs.items() if not name.endswith(OF_TOKENS)}
    for name, weight in own.items():
        if name.endswith(OF_TOKENS) and name in theirs and theirs[name].shape[1:] == weight.shape[1:]:
            made[name] = weight.clone()
            made[name][ours] = theirs[name][places].to(weight)
    return made


def from_teacher(
    own: Mapping[str, Tensor], theirs: Mapping[str, Tensor], layers: Sequence[int]
) -> dict[str, Tensor] | None:
    """The student's weights taken from these layers of the teacher; None if the layers have other shapes."""
    made: dict[str, Tensor] = {}
    for name, weight in own.items():
        source = theirs.get(named_in_teacher(name, layers))
        if source is not None and name.endswith(CUT) and len(source) > len(weight):
            source = source[: len(weight)]
        if source is not None and source.shape == weight.shape:
            made[name] = source.to(weight)
        elif name.startswith("model.blocks."):
            return None
    return made


def named_in_teacher(name: str, layers: Sequence[int]) -> str:
    if not name.startswith("model.blocks."):
        return name
    _, _, number, rest = name.split(".", 3)
    return f"model.blocks.{layers[int(number)] - 1}.{rest}"


def initialise(network: Network, theirs: Mapping[str, Tensor], layers: Sequence[int]) -> bool:
    """Whether the teacher's weights fit, and were taken."""
    own = network.state_dict()
    made = from_teacher(own, theirs, layers)
    if made is None:
        return False
    network.load_state_dict(own | made)
    return True
