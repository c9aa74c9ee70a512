"""How two runs differ, as data; messages are made of it last."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from plmkit.config.older_versions import set_name
from plmkit.data.reading.cells import listed
from plmkit.language import comma, tr


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A setting that differs between two runs; as text, `schedule.learning_rate was 0.001, is 0.0005`."""

    path: str  # in their JSON
    old: Any
    new: Any

    @property
    def name(self) -> str:
        """Its name in `--set`."""
        return set_name(self.path)

    @property
    def values(self) -> tuple[Any, Any]:
        """Both values as messages show them."""
        return shown(self.old), shown(self.new)

    def __str__(self) -> str:
        old, new = self.values
        return tr("{name} was {old}, is {new}", name=self.name, old=old, new=new)


class ChangedFile(Difference):
    """A file of the same name with other contents; its checksums are for programs, not for messages."""

    def __str__(self) -> str:
        return tr("{path} has changed since", path=self.path)


def shown(value: Any) -> Any:
    """Lists of choices by their names, of names the first ones: all classes of a large set are no message."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return f"[{comma().join(map(in_short, value))}]"
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return f"[{listed(value)}]"
    return "none" if value is None else value


def in_short(choice: Mapping[str, Any]) -> str:
    """A stream, an objective or a stage."""
    if "until" in choice:
        return f"[{choice['until']:.3g}, {choice['length']}]"
    return str(choice.get("name") or choice.get("kind") or dict(choice))


def differences(old: Any, new: Any, path: str = "") -> list[Difference]:
    """Where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = [
            differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
            for key in dict.fromkeys((*old, *new))
        ]
        return list(chain.from_iterable(found))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [one for a, b in zip(old, new, strict=True) for one in differences(a, b, path)]
    return [] if old == new else [Difference(path=path, old=old, new=new)]


def picked(data: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: data[name] for name in names}


def plain_paths(value: Any) -> Any:
    """Normalised paths: ./a.txt is a.txt."""
    if isinstance(value, dict):
        return {name: plain_paths(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain_paths(item) for item in value]
    return os.path.normpath(value) if isinstance(value, str) else value
