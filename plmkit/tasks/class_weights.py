"""Tasks with classes: what each class counts in the loss, and how certain its targets are."""

from dataclasses import dataclass
from typing import Any

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.cells import listed
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.tasks.heads import BALANCED
from plmkit.tasks.long_texts import WindowedTask


@dataclass(frozen=True, kw_only=True)
class SmoothedTask(WindowedTask):
    """A task whose loss is over classes or choices."""

    label_smoothing: float = 0.0  # share of a target that goes to all classes or choices alike

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.label_smoothing < 1:
            raise SettingError(
                tr("task.label_smoothing must be at least 0 and below 1; found {found:g}.", found=self.label_smoothing)
            )


@dataclass(frozen=True, kw_only=True)
class WeighedTask(SmoothedTask):
    """A task whose loss is over classes."""

    class_weights: tuple[float, ...] | str | None = None  # balanced: rare classes count more; or [1.0, 5.0], in order

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.class_weights
        if isinstance(given, str) and given != BALANCED:
            raise SettingError(
                tr("task.class_weights takes balanced, none, or a JSON list of numbers; found '{found}'.", found=given)
            )
        if isinstance(given, tuple) and not all(weight > 0 for weight in given):
            raise SettingError(tr("task.class_weights must be above 0; found {found}.", found=list(given)))

    def check_class_weights(self) -> None:
        """Refuse weights that are not one for each class."""
        if isinstance(self.class_weights, tuple) and len(self.class_weights) != len(self.classes):
            raise SettingError(
                tr(
                    "task.class_weights has {found} numbers, but there are {count} classes. Give one for each, in this "
                    "order: {classes}.",
                    found=len(self.class_weights),
                    count=len(self.classes),
                    classes=listed(self.classes),
                )
            )

    def class_settings(self, architecture: Architecture, dropout: float) -> dict[str, Any]:
        """What every head over classes is built with."""
        own = {"class_weights": self.class_weights, "label_smoothing": self.label_smoothing}
        return self.head_settings(architecture, dropout) | own
