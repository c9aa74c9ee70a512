"""Frozen settings to JSON and back, and `--set a.b=v`."""

import copy
import dataclasses
import json
import math
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from plmkit.config import habits
from plmkit.config.older_versions import current, set_name
from plmkit.errors import SettingError, did_you_mean, nearest, nearest_name
from plmkit.language import comma, tr

LARGEST = 10**18  # every count is below, and fits into 64 bits


def to_json(value: Any) -> Any:
    """Plain data for JSON; a settings object includes its kind."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def from_json(data: Any, kinds: Mapping[str, type], path: str = "") -> Any:
    """The settings object that `to_json` wrote; only the given kinds are built.

    `path` is the name of the settings, as in `--set`, by which names of older versions are recognised.
    """
    if isinstance(data, list):
        return tuple(from_json(item, kinds, path) for item in data)
    if not isinstance(data, dict):
        return data
    kind = kinds.get(str(data.get("kind")))
    if kind is None:
        raise SettingError(
            tr("The settings have the kind '{kind}', which this version does not know.", kind=data.get("kind"))
        )
    stem = f"{path}." if path else ""
    named = {
        current(set_name(stem + key)).rpartition(".")[2]: (key, item) for key, item in data.items() if key != "kind"
    }
    values = {name: from_json(item, kinds, stem + key) for name, (key, item) in named.items()}
    known = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(set(values) - known):
        raise SettingError(
            tr(
                "{kind} has no setting '{unknown}'. Was it written by a newer version?",
                kind=kind.__name__,
                unknown=unknown[0],
            )
        )
    return kind(**values)


def cut(assignment: str) -> tuple[str, str]:
    """`a.b=v` as name and value."""
    name, equals, text = assignment.partition("=")
    if not equals or not name.strip():
        raise SettingError(
            tr(
                "--set takes name=value, as in schedule.learning_rate=1e-3; found '{assignment}'.",
                assignment=assignment,
            )
        )
    return current(name.strip()), text.strip()


def assign(settings: Any, path: list[str], text: str, full: str) -> Any:
    """The settings with one value changed; an unknown name or a value of the wrong type is an error.

    Values are checked together later, by `checked`.
    """
    name, rest = path[0], path[1:]
    if isinstance(settings, tuple):
        return assign_member(settings, path, text, full)
    known = {f.name for f in dataclasses.fields(settings)}
    if name not in known:
        raise SettingError(
            tr("There is no setting '{full}'.{suggest}", full=full, suggest=suggest(settings, full, name))
        )
    old = getattr(settings, name)
    if rest:
        if old is None and (kinds := kinds_of(type(settings), name)):
            stem = full.removesuffix("." + ".".join(rest))
            raise SettingError(
                tr(
                    "'{full}': {name} is none. Choose one first: --set {stem}={kind}.",
                    full=full,
                    name=name,
                    stem=stem,
                    kind=next(iter(kinds)),
                )
            )
        if not is_group(old):
            raise SettingError(
                tr("'{full}': {name} is a value and has no '{rest}'.", full=full, name=name, rest=rest[0])
            )
        return changed(settings, name, assign(old, rest, text, full))
    hint = get_type_hints(type(settings))[name]
    kinds = kinds_of(type(settings), name)
    if text in kinds:  # one choice for another: schedule.optimizer=BertAdam
        return settings if type(old) is kinds[text] else changed(settings, name, kinds[text]())
    if kinds and type(None) in get_args(hint) and text.lower() in ("none", "null"):
        return changed(settings, name, None)
    if kinds and old is None:
        raise SettingError(
            tr(
                "'{full}' takes one of {kinds}, or none; found '{text}'.{hint}",
                full=full,
                kinds=comma().join(kinds),
                text=text,
                hint=nearest(text, kinds),
            )
        )
    if is_group(old):
        raise not_a_value(full, old, kinds)
    return changed(settings, name, parse(text, hint, full))


def as_text(value: Any) -> str:
    """A value as `--set` takes it."""
    return value or "none" if value is None or isinstance(value, str) else json.dumps(value)


def not_a_value(full: str, group: Any, kinds: Iterable[str] = ()) -> SettingError:
    """The error where a value is given to a group of settings."""
    options = comma().join(sorted(names_in(group)))
    others = tr(" Or choose one of {kinds}.", kinds=comma().join(kinds)) if kinds else ""
    return SettingError(
        tr(
            "'{full}' is a group of settings, not a value; it has {options}.{others}",
            full=full,
            options=options,
            others=others,
        )
    )


def changed(settings: Any, name: str, value: Any) -> Any:
    """A copy with one value changed, its checks not run."""
    made = copy.copy(settings)
    object.__setattr__(made, name, value)
    return made


def checked(settings: Any) -> Any:
    """The same settings rebuilt from the inside out, so that all checks run."""
    if isinstance(settings, tuple):
        return tuple(checked(member) for member in settings)
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        return settings
    values = {field.name: checked(getattr(settings, field.name)) for field in dataclasses.fields(settings)}
    return dataclasses.replace(settings, **values)


def kinds_of(kind: type, name: str) -> dict[str, type]:
    """The settings classes that a setting of this class may hold, by name."""
    options = get_args(get_type_hints(kind)[name])
    return {each.__name__: each for each in options if isinstance(each, type) and dataclasses.is_dataclass(each)}


def assign_member(members: tuple, path: list[str], text: str, full: str) -> tuple:
    """In a list of choices, `rate` finds the one that has it; `token_masking.rate` names it."""
    name, rest = path[0], path[1:]
    named = [m for m in members if snake(type(m).__name__) == name]
    if named and rest:
        chosen, inner = named[0], rest
    else:
        having = [m for m in members if name in {f.name for f in dataclasses.fields(m)}]
        if len(having) > 1:
            options = comma().join(full.replace(name, f"{snake(type(m).__name__)}.{name}") for m in having)
            raise SettingError(tr("'{full}' is ambiguous. Choose one of {options}.", full=full, options=options))
        if named:
            raise not_a_value(full, named[0])
        if not having:
            raise SettingError(
                tr("There is no setting '{full}'.{suggest}", full=full, suggest=suggest(members, full, name))
            )
        chosen, inner = having[0], path
    return tuple(assign(m, inner, text, full) if m is chosen else m for m in members)


def is_group(value: Any) -> bool:
    return dataclasses.is_dataclass(value) or (
        isinstance(value, tuple) and bool(value) and all(dataclasses.is_dataclass(item) for item in value)
    )


def names_in(settings: Any) -> set[str]:
    """Of a settings object, a class of them, or a list of choices."""
    if isinstance(settings, tuple):
        return {f.name for member in settings for f in dataclasses.fields(member)}
    return {f.name for f in dataclasses.fields(settings)}


def suggest(settings: Any, full: str, name: str) -> str:
    known = names_in(settings)
    parts = full.split(".")
    stem = "".join(f"{part}." for part in parts[: parts.index(name)])
    kinds = {snake(type(member).__name__) for member in settings} if isinstance(settings, tuple) else set()
    usual = habits.meant(name)
    inner = (
        {} if isinstance(settings, tuple) else {group: own for group, own in vars(settings).items() if is_group(own)}
    )
    homes = (
        [usual] if usual in known else [f"{group}.{usual}" for group, own in inner.items() if usual in names_in(own)]
    )
    if close := next(iter(homes), nearest_name(name, known | kinds)):
        return did_you_mean(stem + close)
    return tr(" Known: {names}.", names=comma().join(stem + option for option in sorted(known)))


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def parse(text: str, hint: Any, name: str) -> Any:
    """The value of the text, in the type of the setting."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if type(None) in options and text.lower() in ("none", "null"):
        return None
    for option in options:
        try:
            value = parse_one(text, option)
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise SettingError(
                tr(
                    "'{name}' takes a whole number below {largest:.0e}; found '{text}'.",
                    name=name,
                    largest=LARGEST,
                    text=text,
                )
            )
        return value
    wanted = tr(" or ").join(describe(option) for option in options)
    raise SettingError(tr("'{name}' takes {wanted}; found '{text}'.", name=name, wanted=wanted, text=text))


def parse_one(text: str, hint: Any) -> Any:
    if hint is bool:
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
    if hint is int:
        number = float(text.replace("_", ""))
        if number != int(number):
            raise ValueError(text)
        return int(number)
    if hint is float:
        return finite(float(text))
    if hint is str:
        return text
    if get_origin(hint) is tuple:
        return as_tuple(json.loads(text), hint)
    raise TypeError(hint)


def as_tuple(data: Any, hint: Any) -> Any:
    if get_origin(hint) is not tuple:
        if isinstance(data, bool) or not isinstance(data, int | float if hint is float else hint):
            raise ValueError(data)
        return finite(float(data)) if hint is float else hint(data)
    if not isinstance(data, list):
        raise ValueError(data)
    inner = get_args(hint)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(as_tuple(item, inner[0]) for item in data)
    if len(data) != len(inner):
        raise ValueError(data)
    return tuple(as_tuple(item, part) for item, part in zip(data, inner, strict=True))


def finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(number)
    return number


def describe(hint: Any) -> str:
    plain = {
        int: tr("a whole number"),
        float: tr("a number"),
        bool: tr("true or false"),
        str: tr("text"),
        type(None): "none",
    }
    nested = get_origin((*get_args(hint), None)[0]) is tuple
    return plain.get(
        hint, tr("a JSON list such as {example}", example="[[0.9, 128], [1.0, 512]]" if nested else "[0.7, 0.3]")
    )
