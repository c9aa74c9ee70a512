"""The stages of a run: when each ends, its sequence length, and its streams."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from plmkit.errors import SettingError
from plmkit.language import tr

SHORTEST = 5  # tokens of a row: [CLS] a [SEP] b [SEP]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run, with its sequence length and streams."""

    until: float = 1.0  # share of the run at which it ends
    length: int  # tokens per row
    streams: tuple[str, ...] = ()  # names of the active streams; (): all

    def __post_init__(self) -> None:
        if self.length < SHORTEST:
            raise SettingError(
                tr(
                    "stages: rows need at least {shortest} tokens; found {length}.",
                    shortest=SHORTEST,
                    length=self.length,
                )
            )


def check_stages(stages: Sequence[Stage]) -> None:
    """Refuse stages that do not rise to the end of the run."""
    until = [0.0, *(stage.until for stage in stages)]
    if until[-1] != 1.0 or any(after <= before for before, after in pairwise(until)):
        found = [[stage.until, stage.length] for stage in stages]
        raise SettingError(tr("stages must rise to 1.0, as in [[0.9, 128], [1.0, 512]]; found {found}.", found=found))


def stage_at(stages: Sequence[Stage], progress: float) -> int:
    """The index of the stage that is active when this share of the run is done."""
    return next(number for number, stage in enumerate(stages) if progress < stage.until or stage.until == 1.0)
