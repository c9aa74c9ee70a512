"""The fields of a run.json, read one by one into their types."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from plmkit.architectures.features import FeatureNetwork, Features
from plmkit.choices import ARCHITECTURES, OPTIMIZERS
from plmkit.config.machine import Machine
from plmkit.config.older_versions import upgraded_run
from plmkit.config.settings import from_json
from plmkit.errors import FolderError, RecipeError, SettingError
from plmkit.inference.arguments import kind_of
from plmkit.language import tr
from plmkit.schedules.schedule import Tuning
from plmkit.training.loop import Budget
from plmkit.vectors.settings import SkipGram

Some = TypeVar("Some")


@dataclass(frozen=True)
class Fields:
    """The fields of a run.json; one that is missing or damaged is an error that names it."""

    data: Mapping[str, Any]
    where: Path

    def read(self, name: str, make: Callable[[Any], Some]) -> Some:
        if name not in self.data:
            raise self.damaged(f"'{name}'")
        try:
            return make(self.data[name])
        except (SettingError, RecipeError) as error:  # of another version, perhaps
            raise FolderError(f"{self.where}, {name}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.damaged(f"'{name}': {error}") from error

    def upgraded(self) -> dict[str, Any]:
        """The fields in the current format."""
        try:
            return upgraded_run(self.data)
        except (KeyError, TypeError) as error:
            raise self.damaged(str(error)) from error

    def optional(self, name: str, make: Callable[[Any], Some]) -> Some | None:
        """None if it is missing or null."""
        return None if self.data.get(name) is None else self.read(name, make)

    def damaged(self, error: str) -> FolderError:
        return FolderError(tr("{folder} is damaged ({error}). Copy the folder again.", folder=self.where, error=error))


def is_a(kind: type[Some]) -> Callable[[Any], Some]:
    """The value, which must be of this type."""

    def checked(value: Any) -> Some:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(kind_of(value))
        return value

    return checked


def list_of(kind: type[Some]) -> Callable[[Any], tuple[Some, ...]]:
    return lambda values: tuple(map(is_a(kind), is_a(list)(values)))


def machine_of(data: Any) -> Machine:
    machine: Machine = from_json(is_a(dict)(data), {"Machine": Machine}, "run")
    return machine


def budget_of(data: Any) -> Budget:
    return Budget(**data)


def choice_of(axis: str) -> Callable[[Any], Any]:
    """`architecture`: that of a model; `tuning`: how its paper fine-tunes it."""
    kinds: tuple[type, ...] = (*ARCHITECTURES, FeatureNetwork, Features, *OPTIMIZERS, Tuning)
    by_name = {kind.__name__: kind for kind in kinds}
    return lambda data: from_json(is_a(dict)(data), by_name, axis)


def tasks_of(data: Any) -> tuple[dict[str, Any], ...]:
    if not (tasks := list_of(dict)(data)):
        raise ValueError(kind_of(data))
    return tasks


def skipgram_of(data: Any) -> SkipGram:
    settings: SkipGram = from_json(is_a(dict)(data), {"SkipGram": SkipGram}, "skipgram")
    return settings
