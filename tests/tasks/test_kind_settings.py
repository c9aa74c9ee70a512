"""Settings that a kind of task adds to those that all kinds have."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from plmkit.config.explaining import comments
from plmkit.errors import SettingError
from plmkit.tasks.contract import learned
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.registry import KINDS, Kind
from plmkit.tasks.settings import settle_kind


@dataclass(frozen=True, kw_only=True)
class Sliding(Classify):
    """One text, one class, in windows."""

    kind: ClassVar[str] = "sliding"  # no setting
    hop: int = 8  # tokens between two windows
    threshold: float = learned(0.5)  # chosen on dev

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hop < 1:
            raise SettingError("task.hop must be at least 1.")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(KINDS, "sliding", Kind(f"{__name__}:Sliding", "one text, one class, in windows"))


def test_a_kind_takes_its_own_settings_and_leaves_the_others():
    assert Classify.settings() == ("long", "label_smoothing", "class_weights")
    assert Sliding.settings() == (*Classify.settings(), "hop")
    kind, left = settle_kind(Sliding(), ["task.hop=4", "task.batch=2", "run.threads=1"])
    assert (kind.hop, left) == (4, ["task.batch=2", "run.threads=1"])


def test_what_training_determines_is_no_setting():
    assert settle_kind(Sliding(), ["task.threshold=0.1"]) == (Sliding(), ["task.threshold=0.1"])


def test_the_checks_of_a_kind_run_on_its_settings():
    with pytest.raises(SettingError, match=r"task\.hop must be at least 1"):
        settle_kind(Sliding(), ["task.hop=0"])


def test_a_setting_of_another_kind_is_refused_with_its_name():
    with pytest.raises(
        SettingError, match=r"^task\.hop is a setting of --task sliding, and has no effect on --task classify\."
    ):
        settle_kind(Classify(), ["task.hop=4"])


@pytest.mark.parametrize("name", ["lable_smoothing", "class_weight"])
def test_a_typing_error_in_a_setting_of_the_kind_is_recognised(name):
    meant = {"lable_smoothing": "label_smoothing", "class_weight": "class_weights"}[name]
    with pytest.raises(SettingError, match=rf"^There is no setting 'task\.{name}'\. Did you mean 'task\.{meant}'\?$"):
        settle_kind(Classify(), [f"task.{name}=0.1"])
    assert settle_kind(Classify(), ["task.lr=1", "task.batchs=2"])[1] == ["task.lr=1", "task.batchs=2"]  # not its own


def test_help_explains_settings_and_neither_constants_nor_what_is_learned():
    source = """
class Sliding(Classify):
    kind: ClassVar[str] = "sliding"  # no setting
    hop: int = 8  # tokens between two windows
    threshold: float = learned(0.5)  # chosen on dev
"""
    assert comments(source, "Sliding") == {"hop": "tokens between two windows"}
