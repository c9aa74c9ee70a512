"""Names that settings had in older versions: `--set` and the settings of old runs may still use them."""

import re

RENAMED = {  # old → new
    "schedule.lengths": "stages",
}


def set_name(path: str) -> str:
    """The name by which `--set` reaches the setting at a path of a recipe's JSON: steps are those of a corruption."""
    return re.sub(r"\bstreams\.(arrangement|maskings)\b", "corruption", path)


def current(name: str) -> str:
    """The name that a setting has now."""
    return RENAMED.get(name, name)
