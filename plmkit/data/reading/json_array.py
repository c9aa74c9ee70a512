"""A file with one JSON array of records, each with the line at which it begins."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import where
from plmkit.data.reading.files import format_of
from plmkit.data.reading.tables import DEEPEST, is_deeper, numbered_lines
from plmkit.errors import InputError
from plmkit.language import tr

BETWEEN = re.compile(r"[\s,]*")  # two items


def read_records(path: Path) -> Iterator[tuple[int, Any]]:
    """The items of an array, or of JSON lines, each with its first line."""
    text = "\n".join(line for _, line in numbered_lines(str(path), format_of(path)[1]))
    decoder, place, line, counted = json.JSONDecoder(), past(text, 0), 1, 0
    is_array = text.startswith("[", place)
    place = past(text, place + is_array)
    while place < len(text) and not (is_array and text[place] == "]"):
        line, counted = line + text.count("\n", counted, place), place
        try:
            item, end = decoder.raw_decode(text, place)
            if is_deeper(item, DEEPEST):
                raise RecursionError  # what is read must also be written
        except (ValueError, RecursionError) as error:
            lines = line + (text.count("\n", place, error.pos) if isinstance(error, json.JSONDecodeError) else 0)
            reason = error.msg if isinstance(error, json.JSONDecodeError) else tr("too long, or nested too deeply")
            raise InputError(
                tr(
                    "{place}: not JSON ({reason}). Give an array of records, or one record per line.",
                    place=where(path, lines),
                    reason=reason,
                )
            ) from None
        yield line, item
        place = past(text, end)
    if is_array and not text.startswith("]", place):
        raise InputError(
            tr(
                "{place}: the array of records does not end. Copy the file again.",
                place=where(path, text.count("\n") + 1),
            )
        )


def past(text: str, place: int) -> int:
    found = BETWEEN.match(text, place)
    return found.end() if found else place
