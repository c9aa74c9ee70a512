"""Spans of characters as annotation tools export them (doccano, Label Studio, spaCy, CLUENER), and tags of words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from plmkit.data.reading.cells import short
from plmkit.data.reading.words import Span, every_mark
from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.tasks.tagging.schemes import Marked, tags_of

BEGINS = ("start", "start_offset", "begin")
ENDS = ("end", "end_offset", "stop")
LABELS = ("label", "labels", "entity", "type", "entity_group", "tag")


@dataclass(frozen=True, kw_only=True, order=True)
class Annotation:
    """A span of characters and its label."""

    start: int
    end: int
    label: str


def annotations_in(cell: Any, text: str, place: str) -> list[Annotation]:
    """The spans of a text in order; refuses those outside it, and those that overlap."""
    found = sorted({checked(*one, text, place) for one in items_in(cell, place)})
    for first, second in pairwise(found):
        if second.start < first.end:
            raise InputError(
                tr(
                    "{place}: the spans {first} and {second} overlap. A word has one tag: keep one of them.",
                    place=place,
                    first=shown(first, text),
                    second=shown(second, text),
                )
            )
    return found


def shown(one: Annotation, text: str) -> str:
    return f"'{short(text[one.start : one.end])}' ({one.start}–{one.end}, {one.label})"


def items_in(cell: Any, place: str) -> Iterator[tuple[Any, Any, Any, str | None]]:
    """Start, end, label and, where it is given, text of each annotation."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except ValueError:
            raise unreadable(cell, place) from None
    if isinstance(cell, Mapping):  # CLUENER: {label: {text: [[first, last], ...]}}
        yield from nested(cell, place)
        return
    for item in cell if isinstance(cell, list | tuple) else [cell]:
        if isinstance(item, list | tuple) and len(item) == 3:
            yield item[0], item[1], item[2], None
        elif isinstance(item, Mapping):
            value = item["value"] if isinstance(item.get("value"), Mapping) else item
            if (
                isinstance(item.get("type"), str)
                and item["type"] not in ("labels", "hypertextlabels")
                and "value" in item
            ):
                continue  # of Label Studio: a choice, a relation
            label = first_of(value, LABELS)
            for one in label if isinstance(label, list | tuple) else [label]:
                yield first_of(value, BEGINS), first_of(value, ENDS), one, value.get("text")
        else:
            raise unreadable(item, place)


def nested(cell: Mapping[str, Any], place: str) -> Iterator[tuple[Any, Any, Any, str | None]]:
    for label, texts in cell.items():
        if not isinstance(texts, Mapping):
            raise unreadable(cell, place)
        for text, pairs in texts.items():
            for pair in pairs:
                if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[1], int):
                    raise unreadable(pair, place)
                yield pair[0], pair[1] + 1, label, text


def first_of(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def unreadable(item: Any, place: str) -> InputError:
    return InputError(
        tr(
            '{place}: a span has start, end and label, as in [0, 5, "LOC"]; found {found}.',
            place=place,
            found=short(str(item)),
        )
    )


def checked(start: Any, end: Any, label: Any, written: str | None, text: str, place: str) -> Annotation:
    """A span of the text without spaces at its ends; its numbers may count UTF-16, as JavaScript does."""
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label.strip():
        raise unreadable((start, end, label), place)
    if written is not None and text[start:end] != written:
        wide = text.encode("utf-16-le")
        if wide[2 * start : 2 * end] == written.encode("utf-16-le"):
            start, end = (len(wide[: 2 * number].decode("utf-16-le", "ignore")) for number in (start, end))
    if not 0 <= start < end <= len(text):
        raise InputError(
            tr(
                "{place}: the span {start}–{end} ({label}) lies outside the text, which has {length} characters.",
                place=place,
                start=start,
                end=end,
                label=label,
                length=len(text),
            )
        )
    inside = text[start:end]
    if written is not None and inside.strip() != written.strip():
        raise InputError(
            tr(
                "{place}: the span {start}–{end} ({label}) is '{inside}', but its text is given as '{written}'.",
                place=place,
                start=start,
                end=end,
                label=label,
                inside=short(inside),
                written=short(written),
            )
        )
    if not inside.strip():
        raise InputError(
            tr("{place}: the span {start}–{end} ({label}) is blank.", place=place, start=start, end=end, label=label)
        )
    return Annotation(
        start=start + len(inside) - len(inside.lstrip()),
        end=end - len(inside) + len(inside.rstrip()),
        label=label.strip(),
    )


def tagged_words(text: str, annotations: Sequence[Annotation]) -> tuple[list[Span], tuple[str, ...]]:
    """The words of a text, cut where a span begins or ends too, and their tags."""
    edges = sorted({edge for one in annotations for edge in (one.start, one.end)})
    words: list[Span] = []
    for begin, end in every_mark(text):
        for edge in [edge for edge in edges if begin < edge < end]:
            words.append((begin, edge))
            begin = edge
        words.append((begin, end))
    starts = {begin: number for number, (begin, _) in enumerate(words)}
    marked = []
    for one in annotations:
        inside = [starts[begin] for begin, end in words if one.start <= begin and end <= one.end]
        if inside:
            marked.append(Marked(begin=inside[0], end=inside[-1] + 1, label=one.label))
    return words, tags_of(marked, len(words))
