"""Which segmenter a recipe uses, and what its boundaries depend on."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from plmkit.config.settings import snake
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.segmentation.bio import Bio
from plmkit.segmentation.chinese import Jieba
from plmkit.segmentation.english import English
from plmkit.segmentation.lists import read_content
from plmkit.segmentation.units import Pieces

SEGMENTERS = (Jieba, English, Bio, Pieces)
AnySegmenter = Jieba | English | Bio | Pieces
ToolSegmenter = Jieba | English | Bio  # those that read the text

FORMAT = 2  # increase when boundaries change


def segmenter_of(corruption: Sequence[Any]) -> ToolSegmenter | None:
    """The segmenter that the steps need; None if the tokens are enough."""
    chosen: dict[Any, str] = {}
    for step in corruption:
        found, level = step.segmenter, step.level
        name = snake(type(step).__name__)
        if level not in (found.finds if found else ("word",)):
            finder = type(found).__name__ if found else tr("the tokenizer")
            raise SettingError(
                tr(
                    "corruption.{name}.level is {level}, but {finder} does not find such units.\n"
                    "Choose one that does: --set corruption.segmenter=Jieba --set "
                    "corruption.segmenter.level={level}.",
                    name=name,
                    level=level,
                    finder=finder,
                )
            )
        if found is not None and found.reads_text:
            chosen[found] = name
    if len(chosen) > 1:
        names = tr(" and ").join(f"corruption.{name}.segmenter" for name in chosen.values())
        raise SettingError(
            tr("{names} differ, but a corpus has one set of boundaries. Make them the same.", names=names)
        )
    return next(iter(chosen), None)


def fingerprint(segmenter: ToolSegmenter) -> str:
    """A hash of the settings, of the content (not the names) of their files, and of the tool's version."""
    values = {field.name: getattr(segmenter, field.name) for field in dataclasses.fields(segmenter)}
    for name in segmenter.files:
        if values[name]:
            content = read_content(values[name], f"corruption.segmenter.{name}")
            values[name] = hashlib.blake2b(content, digest_size=16).hexdigest()
    tool = f"{segmenter.tool} {version_of(segmenter.tool)}" if segmenter.tool else ""
    parts = [f"units {FORMAT}", type(segmenter).__name__, tool, json.dumps(values, sort_keys=True)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def version_of(tool: str) -> str:
    try:
        return version(tool)
    except PackageNotFoundError:
        raise InputError(
            tr(
                "{tool}, which finds the units of this text, is not installed. Install it: pip install {tool}.",
                tool=tool,
            )
        ) from None
