"""What architectures that read text with an image share: their settings, and how they see the image."""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_sizes
from plmkit.architectures.contract import Architecture
from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import Batch
from plmkit.data.region_store import MOST_REGIONS
from plmkit.data.rows import ZEROED
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.layers.regions import GROUPS, Patches, Regions, grid_boxes

CONVOLUTIONS, PATCHES = "convolutions", "patches"


@dataclass(frozen=True, kw_only=True)
class SeeingEncoder(Encoder):
    """An encoder of text that also reads image regions; without an image it is the encoder alone."""

    features: int = 2048  # width of the vector of a region, in feature files or made of pixels
    image_size: int | None = None  # pixels along each side of an image; none: regions come from feature files
    patch_size: int = 16  # pixels along each side of a region
    region_encoder: str = CONVOLUTIONS  # of pixels: convolutions, or patches (one linear layer over each)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "features", "patch_size")
        if self.region_encoder not in (CONVOLUTIONS, PATCHES):
            raise SettingError(
                tr(
                    "architecture.region_encoder takes {kinds}; found '{found}'.",
                    kinds=comma().join((CONVOLUTIONS, PATCHES)),
                    found=self.region_encoder,
                )
            )
        if self.image_size is None:
            return
        check_sizes(self, "image_size")
        if self.region_encoder == CONVOLUTIONS and (self.features % GROUPS or self.patch_size.bit_count() > 1):
            raise SettingError(
                tr(
                    "Convolutions need architecture.features to be a multiple of {groups} and architecture.patch_size "
                    "a power of two; found {features} and {patch}.",
                    groups=GROUPS,
                    features=self.features,
                    patch=self.patch_size,
                )
            )
        if self.patch_size < 2 or self.image_size % self.patch_size or not 4 <= self.grid**2 <= MOST_REGIONS:
            raise SettingError(
                tr(
                    "architecture.image_size={size} cannot be cut into regions of {patch} × {patch} pixels "
                    "(architecture.patch_size): it must be a multiple, and an image has 4 to {most} regions.",
                    size=self.image_size,
                    patch=self.patch_size,
                    most=MOST_REGIONS,
                )
            )

    @property
    def grid(self) -> int:
        """Regions along each side."""
        assert self.image_size is not None
        return self.image_size // self.patch_size

    @property
    def image_pixels(self) -> int | None:
        return self.image_size

    @property
    def region_width(self) -> int | None:
        return self.features if self.image_size is None else None

    @property
    def is_berts(self) -> bool:
        return False

    def text_encoder(self) -> Encoder:
        """What reads the text, alone."""
        return Encoder(**{field.name: getattr(self, field.name) for field in fields(Encoder)})

    def for_task(self, dropout: float) -> Encoder:  # type: ignore[override]
        return self.text_encoder().for_task(dropout)

    def takes_encoder(self, other: Architecture) -> bool:
        """Whether a BERT of the same shape initialises what reads the text."""
        if type(other) is not Encoder:
            return False
        free = self.may_change | self.initial
        names = [field.name for field in fields(Encoder) if field.name not in free]
        return all(getattr(other, name) == getattr(self, name) for name in names)

    def is_tuned(self, name: str) -> bool:
        return not name.removeprefix("model.").startswith(("eye.", "visual"))

    def layer_of(self, name: str) -> int | None:
        part = name.removeprefix("model.").split(".")[0]
        return 0 if part in ("eye", "visual") else super().layer_of(name)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The regions of the images of a batch."""

    features: Tensor  # (B, R, features) with zeros where a region is masked
    inputs: Tensor  # (B, R, features) the same without
    visible: Tensor  # (B, R)
    boxes: Tensor  # (B, R, 4)
    shown: Tensor  # (B, R) False on padding, and where a region is masked


def eye_of(settings: SeeingEncoder) -> nn.Module | None:
    """What makes regions of pixels; None: they come from files."""
    if settings.image_size is None:
        return None
    if settings.region_encoder == PATCHES:
        return Patches(grid=settings.grid, patch_size=settings.patch_size, features=settings.features)
    halvings = settings.patch_size.bit_length() - 1
    return Regions(grid=settings.grid, convolutions=halvings, features=settings.features)


def look_at(batch: Batch, eye: nn.Module | None, settings: Any) -> Seen | None:
    """The regions of a batch; None: it has text alone."""
    if batch.regions is not None:  # read from files, or made of pixels before
        inputs, visible, boxes = batch.regions.features, batch.regions.visible, batch.regions.boxes
    elif eye is None or batch.images is None:
        return None
    else:
        inputs = eye(batch.images)
        visible = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        boxes = grid_boxes(settings.grid).to(inputs).expand(len(inputs), -1, -1)
    shown = visible
    if batch.region_masks is not None:
        shown = visible & (batch.region_masks[:, : inputs.shape[1]] != ZEROED)
    return Seen(
        features=inputs.masked_fill(~shown[..., None], 0), inputs=inputs, visible=visible, boxes=boxes, shown=shown
    )


def joined_with(batch: Batch, seen: Seen) -> Batch:
    """The batch with its regions as further positions, at which nothing is needed."""
    if batch.needed is None:
        return batch
    return replace(batch, needed=torch.cat([batch.needed, torch.zeros_like(seen.visible)], 1))
