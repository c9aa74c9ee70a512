"""The processes that torchrun has started, by its environment variables; without torch, so that any command can ask."""

import os

from plmkit.errors import SettingError
from plmkit.language import tr


def processes() -> int:
    """The number of processes that torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The number of this process, from 0 on."""
    return int(os.environ.get("RANK", "0")) if processes() > 1 else 0


def local_rank() -> int:
    """The number of this process among those of this machine."""
    return int(os.environ.get("LOCAL_RANK", rank()))


def is_first() -> bool:
    """Whether this process writes the folder, the log and the screen."""
    return rank() == 0


def check_alone(verb: str) -> None:
    """Refuse to run a command in several processes that would each do all of its work."""
    if processes() > 1:
        raise SettingError(
            tr(
                "{verb} runs in one process; found {count}. Start it without torchrun.",
                verb=verb,
                count=processes(),
            )
        )
