"""What is asked on the command line: the rows of a file, lines from stdin, or a text as it stands."""

import os
import re
import sys
from pathlib import Path

from plmkit.data.reading.columns import Say, Search
from plmkit.data.reading.files import format_of
from plmkit.data.reading.whole import Table, lines_table
from plmkit.errors import InputError
from plmkit.tasks.columns import open_table

STDIN = "-"
ENDING = re.compile(r"\S+\.[A-Za-z0-9]{1,8}")  # of a name without blanks


def is_file(given: str) -> bool:
    """Whether it names a file, though perhaps one that is not there."""
    if given == STDIN:
        return False
    folder = os.path.dirname(given)
    named = format_of(Path(given))[0] is not None or ENDING.fullmatch(given) is not None
    return named or os.path.exists(given) or (folder != "" and os.path.isdir(folder))


def asked_table(given: str, search: Search, say: Say) -> Table:
    """The rows that are asked about."""
    if is_file(given):
        return open_table(given, search, say)
    if given != STDIN:
        return lines_table(Path("The text"), [given])
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"Line {line} of stdin is not UTF-8 text. Convert it first, as by iconv.") from error
    if not text.strip():
        raise InputError("There is no text on stdin. Give one on each line.")
    return lines_table(Path("stdin"), text.rstrip("\r\n").split("\n"))
