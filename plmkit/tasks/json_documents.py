"""One JSON document with many questions: reading it, and the lines that its questions are on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plmkit.data.reading.blocks import read_blocks, read_lines
from plmkit.data.reading.cells import where
from plmkit.data.reading.files import format_of
from plmkit.data.reading.whole import read_table
from plmkit.errors import InputError
from plmkit.language import tr

DEEPEST = 50  # levels of JSON
LONGEST = 1 << 30  # characters of a line: SQuAD's training set is one line of 30 million


def is_json(path: Path) -> bool:
    """Whether it is one JSON document."""
    format, compression = format_of(path)
    return format == "jsonl" and path.name.lower().removesuffix(f".{compression}").endswith(".json")


def read_document(path: Path) -> tuple[Any, str]:
    """What a JSON document holds, and its text."""
    if not path.is_file() or not path.stat().st_size:
        read_table(path)  # says what is wrong
    blocks = read_blocks(str(path), format_of(path)[1])
    text = "\n".join(line for _, lines in read_lines(blocks, str(path), longest=LONGEST, cut=False) for line in lines)
    try:
        found = json.loads(text)
        if is_deep(found):
            raise RecursionError
    except json.JSONDecodeError as error:
        raise InputError(
            tr(
                "{place}: not JSON ({reason}). Is the file complete? For an object per line, name it .jsonl.",
                place=where(path, error.lineno),
                reason=error.msg,
            )
        ) from None
    except RecursionError:
        raise InputError(tr("{path}: the JSON is nested too deeply to hold questions.", path=path)) from None
    return found, text


def is_deep(value: Any, levels: int = DEEPEST) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels <= 1 or is_deep(part, levels - 1) for part in parts if isinstance(part, dict | list))


class Lines:
    """Finds the lines of questions that are given in their order in the text."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.number = text, 0, 1

    def of(self, question: Mapping[str, Any]) -> int:
        for name in ("id", "question"):
            value = question.get(name)
            for written in (json.dumps(value, ensure_ascii=False), json.dumps(value)) if isinstance(value, str) else ():
                found = self.text.find(written, self.place)
                if found >= 0:
                    self.number += self.text.count("\n", self.place, found)
                    self.place = found
                    return self.number
        return self.number
