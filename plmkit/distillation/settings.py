"""How a fine-tuned teacher teaches: `--set distill.NAME=...`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plmkit.config.settings import assign, checked, cut
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.objectives.distillation import check_temperature


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """The task stage (Jiao et al., 2020, 3.2, and Hinton et al., 2015)."""

    temperature: float = 1.0  # T, by which the teacher's and the student's answers are divided
    soft_weight: float = 1.0  # loss weight of the teacher's answers
    label_weight: float = 0.0  # loss weight of the labels of the rows
    matching_weight: float = 1.0  # loss weight of each comparison of states, with --method distilbert, tinybert, minilm
    matching_share: float = 0.5  # share of the run that compares states only, before answers; for distilbert always

    def __post_init__(self) -> None:
        check_temperature(self.temperature, "distill.temperature")
        for name in ("soft_weight", "label_weight", "matching_weight"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise SettingError(
                    tr(
                        "{name} must be a finite number, 0 or more; found {value:g}.",
                        name=f"distill.{name}",
                        value=value,
                    )
                )
        if not 0 < self.matching_share < 1:
            raise SettingError(
                tr(
                    "{name} must be above 0 and below 1; found {value:g}.",
                    name="distill.matching_share",
                    value=self.matching_share,
                )
            )


def settle_distillation(assignments: Sequence[str]) -> tuple[Distillation, list[str]]:
    """The settings of distillation, and the assignments that are left."""
    made, left = Distillation(), []
    for assignment in assignments:
        name, text = cut(assignment)
        root, *path = name.split(".")
        if root == "distill" and path:
            made = assign(made, path, text, name)
        else:
            left.append(assignment)
    return checked(made), left
