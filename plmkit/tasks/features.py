"""Fine-tuning on features: the pretrained network below a small one, and its layers computed once for all epochs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from plmkit.architectures.features import BASE, FeatureModel, FeatureNetwork, Features
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts
from plmkit.language import tr
from plmkit.tasks.contract import Example
from plmkit.tasks.framing import Framed, batch_of, by_length, place_in

FILE = "features.bin"


def with_features(parts: Parts, features: Features | None) -> Parts:
    """The pretrained network as the base of one that reads its layers, where the settings ask for it."""
    architecture = parts.architecture
    if features is None or features.place == "none" or isinstance(architecture, FeatureNetwork):
        return parts
    if "layers" not in architecture.writes:
        raise SettingError(
            tr(
                "task.features reads the layers of the network, and {architecture} gives none. Leave it out.",
                architecture=type(architecture).__name__,
            )
        )
    weights = {
        name.replace("model.", BASE, 1): weight
        for name, weight in parts.weights.items()
        if name.startswith("model.") and architecture.is_tuned(name)
    }
    return replace(parts, architecture=FeatureNetwork.over(architecture, features), weights=weights)


def precompute(
    model: FeatureModel, vocabulary: Vocabulary, parts: Sequence[Sequence[Example]], path: Path, device: torch.device
) -> list[list[Example]]:
    """The same examples with the layers of every input, which are kept in one file."""
    model = model.to(device).eval()
    rows = [framed for examples in parts for example in examples for framed in example.inputs]
    sizes = np.array([len(row.tokens) for row in rows])
    ends, base = np.cumsum(sizes), model.settings.base
    shape = int(sizes.sum()), base.layers + 1, base.width
    kept = np.memmap(path, dtype=np.float32, mode="w+", shape=shape)
    for numbers in by_length(rows):
        batch = batch_of([rows[number] for number in numbers], vocabulary).to(device)
        with torch.inference_mode():
            layers = torch.stack(model.layers(batch), dim=2).float().cpu().numpy()
        for number, found in zip(numbers.tolist(), layers, strict=True):
            place = place_in(len(found), int(sizes[number]), vocabulary)
            kept[ends[number] - sizes[number] : ends[number]] = found[place]
    filled = iter(
        replace(row, features=kept[end - size : end]) for row, end, size in zip(rows, ends, sizes, strict=True)
    )
    return [[with_inputs(example, [next(filled) for _ in example.inputs]) for example in some] for some in parts]


def with_inputs(example: Example, inputs: list[Framed]) -> Example:
    return replace(example, inputs=tuple(inputs))
