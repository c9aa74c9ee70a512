"""Tokens back to text that a person can read."""

import re
from collections.abc import Iterable

from plmkit.data.vocabulary import CONTINUATION

# Chinese and Japanese write no spaces: ideographs, kana, and the wide punctuation between them.
WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0002fa1f“”‘’…—]")
CLOSING = frozenset(".,!?;:%)]}")
OPENING = frozenset("([{")
CONTRACTION = re.compile(r"(?<=\w) ' (?=(?:s|t|m|d|re|ve|ll)\b)", re.IGNORECASE)
HYPHEN = re.compile(r"(?<=\w) - (?=\w)")


def join(tokens: Iterable[str]) -> str:
    """Join `##` pieces to their word, ideographs to each other, and punctuation to what it belongs to."""
    text, last = "", ""
    for token in tokens:
        if token.startswith(CONTINUATION) and token != CONTINUATION and last:
            text += token.removeprefix(CONTINUATION)
        else:
            text += token if touches(last, token) else f" {token}"
        last = token
    return HYPHEN.sub("-", CONTRACTION.sub("'", text))


def touches(left: str, right: str) -> bool:
    """Is there no space between these two?"""
    if not left or left in OPENING or right in CLOSING:
        return True
    return bool(WIDE.match(left[-1]) or WIDE.match(right[0]))
