"""Predicting masked regions of an image."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.language import tr
from plmkit.layers.transformer import ACTIVATIONS
from plmkit.objectives.contract import BuiltModel, Head, Objective

TEMPERATURE = 0.1  # by which cosines are divided


@dataclass(frozen=True, kw_only=True)
class MaskedRegions(Objective):
    """Predict the class of masked regions as a detector gave it, or which of the batch they were (Lu et al., 2019)."""

    detector_classes: int | None = (
        None  # of the detector's distributions in feature files; none: find the region in the batch
    )
    name: ClassVar = "masked_regions"
    label: ClassVar = "regions"
    reads: ClassVar = frozenset({"region_hidden", "region_inputs", "region_visible", "region_masks"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detector_classes is not None and self.detector_classes < 2:
            raise SettingError(
                tr(
                    "objectives.masked_regions.detector_classes must be at least 2, or none; found {value}.",
                    value=self.detector_classes,
                )
            )

    @property
    def region_classes(self) -> int | None:
        return self.detector_classes

    def build(self, model: BuiltModel) -> "MaskedRegionsHead":
        return MaskedRegionsHead(model.settings, self.detector_classes)


class MaskedRegionsHead(Head):
    def __init__(self, settings: Any, classes: int | None) -> None:
        super().__init__()
        self.detector_classes = classes
        self.regions = (
            None if settings.image_size is None else settings.grid**2
        )  # of each image, where all have as many
        self.transform = nn.Linear(settings.visual_width, settings.visual_width)
        self.activation = ACTIVATIONS[settings.activation]
        self.norm = nn.LayerNorm(settings.visual_width, eps=settings.epsilon)
        self.predict = nn.Linear(settings.visual_width, settings.features if classes is None else classes)
        init_truncated_normal(self)

    def forward(self, states: States, batch: Batch) -> Tensor:
        masked, made = self.masked(batch), self.answers(states, batch)
        if self.detector_classes is not None:
            assert batch.regions is not None and batch.regions.classes is not None
            target = batch.regions.classes[masked].to(made.dtype)
            return F.kl_div(made.log_softmax(-1), target, reduction="batchmean")
        # a contrast: to be found among all regions of the batch by the cosine with its features, without gradient
        assert states.region_inputs is not None and states.region_visible is not None
        candidates = states.region_inputs[states.region_visible].detach()  # (N, features)
        number = states.region_visible.flatten().cumsum(0).unflatten(0, states.region_visible.shape) - 1
        cosines = F.normalize(made, dim=-1) @ F.normalize(candidates.to(made.dtype), dim=-1).T
        return F.cross_entropy(cosines / TEMPERATURE, number[masked])

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(masked regions, classes or features)."""
        assert states.region_hidden is not None
        hidden = states.region_hidden[self.masked(batch)]
        return self.predict(self.norm(self.activation(self.transform(hidden))))

    def masked(self, batch: Batch) -> Tensor:
        """(B, R) True at masked regions."""
        assert batch.region_masks is not None
        if self.regions is not None:
            return batch.region_masks[:, : self.regions] > 0
        assert batch.regions is not None
        visible = batch.regions.visible
        return (batch.region_masks[:, : visible.shape[1]] > 0) & visible

    def needed(self, batch: Batch) -> Tensor:
        return torch.zeros_like(batch.source.visible)

    def scored(self, batch: Batch) -> int:
        return int(self.masked(batch).sum())
