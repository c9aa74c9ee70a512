"""Messages in the reader's language: the English text stands in the code and is its key in the catalogue.

PLM_LANG=zh or PLM_LANG=en chooses; otherwise the first of LC_ALL, LC_MESSAGES and LANG that is set does.
`tools/messages.py` keeps `locale/zh.po` in step with the code.
"""

import ast
import os
from functools import cache
from pathlib import Path

LOCALE = Path(__file__).parent / "locale"


def language() -> str:
    """`zh` or `en`, by the environment."""
    variables = ("PLM_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((value for name in variables if (value := os.environ.get(name))), "en")
    return "zh" if chosen.casefold().startswith("zh") else "en"


def tr(template: str, /, **values: object) -> str:
    """The message in the chosen language, its {names} filled in by `str.format`; braces of its own are doubled."""
    return translated(template).format(**values)


def translated(text: str) -> str:
    """The text of the catalogue as it stands there; English where the catalogue has none."""
    return text if language() == "en" else catalogue(language()).get(text) or text


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
