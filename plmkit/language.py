"""Messages in the reader's language: the English text stands in the code and is its key in the catalogue.

PLM_LANG=zh or PLM_LANG=en chooses (or another of NAMES); otherwise the first of LC_ALL, LC_MESSAGES and LANG that is
set does.
`tools/messages.py` keeps `locale/zh.po` in step with the code.
"""

import ast
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

LOCALE = Path(__file__).parent / "locale"


NAMES = {"zh": "zh", "cn": "zh", "chinese": "zh", "中文": "zh", "en": "en", "english": "en", "c": "en", "posix": "en"}

SYSTEM = (  # reasons that the operating system and Python's own readers give, as the values {reason} and {error}
    "Permission denied",
    "Operation not permitted",
    "No such file or directory",
    "Is a directory",
    "Not a directory",
    "Read-only file system",
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "File name too long",
    "Input/output error",
    "Too many open files",
    "unexpected end of data",  # csv: a quote that is not closed
    "',' expected after '\"'",
    "';' expected after '\"'",
    "'\t' expected after '\"'",
)


def language() -> str:
    """`zh` or `en`, by the environment."""
    variables = ("PLM_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((value for name in variables if (value := os.environ.get(name))), "en")
    return named(chosen) or "en"


def unknown_language() -> str | None:
    """What PLM_LANG asks for, if there are no messages in that language."""
    chosen = os.environ.get("PLM_LANG")
    return chosen if chosen and named(chosen) is None else None


def named(name: str) -> str | None:
    """The language of `zh_CN.UTF-8`, `zh-Hans` or `Chinese`; None if there are no messages in it."""
    return NAMES.get(re.split(r"[_.@-]", name.strip().casefold())[0])


def tr(template: str, /, **values: object) -> str:
    """The message in the chosen language, its {names} filled in by `str.format`; braces of its own are doubled."""
    foreign = {name: translated(str(values[name])) for name in ("reason", "strerror", "error") if name in values}
    return translated(template).format(**values | foreign)


def translated(text: str) -> str:
    """The text of the catalogue as it stands there; English where the catalogue has none."""
    return text if language() == "en" else catalogue(language()).get(text) or text


def message(text: str) -> str:
    """Marks a text that data keeps in English; `translated` shows it in the reader's language."""
    return text


def comma() -> str:
    """Between the items of a list: `, ` or 、."""
    return ", " if language() == "en" else "、"


def sentences(texts: Iterable[str]) -> str:
    """One after the other; Chinese has no blank between them."""
    return (" " if language() == "en" else "").join(texts)


def several(count: int, noun: str) -> str:
    """`1 document`, `2,000 documents`; in Chinese, with its measure word."""
    one = counted(noun)
    found = translated(one)
    return (f"{one}s" if found == one and count != 1 else found).format(count=count)


def counted(noun: str) -> str:
    """The key of a counted noun in the catalogue."""
    return "{count:,} " + noun


@cache
def catalogue(name: str) -> dict[str, str]:
    """The texts of locale/NAME.po by their English; read once, and only in that language."""
    return {text: found for text, found in read_po((LOCALE / f"{name}.po").read_text(encoding="utf-8")) if text}


def read_po(content: str) -> list[tuple[str, str]]:
    """The (msgid, msgstr) pairs of a PO file; of plural forms, the first, as Chinese has one only."""
    pairs: list[dict[str, str]] = []
    field = ""
    for line in content.splitlines():
        keyword, _, rest = line.partition(" ")
        if line.startswith('"'):
            rest = line
        elif keyword in ("msgid", "msgid_plural", "msgstr", "msgstr[0]"):
            field = keyword.removesuffix("[0]")
            if field == "msgid":
                pairs.append({})
        else:
            continue  # a comment or an empty line
        pairs[-1][field] = pairs[-1].get(field, "") + ast.literal_eval(rest)
    return [(pair["msgid"], pair.get("msgstr", "")) for pair in pairs]
