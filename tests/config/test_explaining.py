"""Every setting is explained by the comment beside its field, in English and in Chinese."""

from dataclasses import dataclass, fields
from types import SimpleNamespace

import pytest

from plmkit.choices import CHOICES
from plmkit.cli.show_recipes import settings_kinds
from plmkit.config.explaining import comments, explanation, explanations_in
from plmkit.language import catalogue
from plmkit.tasks.settings import TaskSettings

SOURCE = '''
class Other:
    width: int  # of another class


@dataclass
class Choice(Other):
    """One choice."""  # not a setting

    # nor this
    layers: int
    heads: int = 2  # attention heads
    label: str = "#1"
    range: tuple[int, ...] = (
        1,  # from the first
        2,  # to the second
    )

    def method(self) -> None:
        inner: int = 3  # local
'''


@dataclass(frozen=True)
class Base:
    layers: int = 1  # number of layers
    width: int = 2  # of the base


@dataclass(frozen=True)
class Narrow(Base):
    layers: int = 3
    width: int = 1  # of this class


def test_the_comments_of_the_fields_of_one_class_are_read():
    assert comments(SOURCE, "Choice") == {
        "layers": "",
        "heads": "attention heads",
        "label": "",
        "range": "from the first to the second",
    }


def test_a_field_without_a_comment_has_that_of_its_base_class():
    assert explanation(Narrow, "layers") == "number of layers"
    assert explanation(Narrow, "width") == "of this class"
    assert explanation(Narrow, "depth") == ""


def test_a_class_without_source_has_no_explanations():
    made = dataclass(type("Made", (), {"__annotations__": {"size": int}}))
    assert explanation(made, "size") == ""
    assert explanation(SimpleNamespace, "size") == ""
    assert explanations_in("plmkit.no_such_module", "Machine") == {}


def test_a_module_that_is_not_imported_has_the_same_explanations():
    found = explanations_in("plmkit.tasks.settings", "TaskSettings")
    assert found == {field.name: explanation(TaskSettings, field.name) for field in fields(TaskSettings)}


@pytest.mark.parametrize("kind", settings_kinds(), ids=lambda kind: kind.__name__)
def test_every_setting_is_explained_in_both_languages(kind):
    for field in fields(kind):
        text = explanation(kind, field.name)
        assert text, f"{kind.__name__}.{field.name} needs a comment that explains it"
        assert "None" not in text, f"{kind.__name__}.{field.name}: --set takes none"
        assert catalogue("zh").get(text), f"{kind.__name__}.{field.name}: '{text}' has no translation"


def test_every_choice_of_every_axis_is_among_them():
    assert {kind for kinds in CHOICES.values() for kind in kinds} <= set(settings_kinds())


def test_a_recipe_shows_the_explanation_next_to_each_setting(plm, monkeypatch):
    shown = plm("recipes", "bert-mini").out.splitlines()
    assert "  architecture.heads=4                   attention heads per layer" in shown
    assert "  schedule.optimizer.decay=0.01       weight decay" in shown
    assert all("    " in line.strip() for line in shown if line.startswith("  ") and "stages=" not in line)
    monkeypatch.setenv("PLM_LANG", "zh")
    assert "  architecture.heads=4                   每层的注意力头数" in plm("recipes", "bert-mini").out.splitlines()
