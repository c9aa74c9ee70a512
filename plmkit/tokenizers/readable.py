"""Tokens back to text that a person can read."""

import re
from collections.abc import Iterable, Mapping

from tokenizers import AddedToken

from plmkit.data.vocabulary import CONTINUATION, META_SPACE

# Chinese and Japanese write no spaces: ideographs, kana, and the wide punctuation between them.
WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0002fa1f“”‘’…—]")
CLOSING = frozenset(".,!?;:%)]}")
OPENING = frozenset("([{")
CONTRACTION = re.compile(r"(?<=\w) ' (?=(?:s|t|m|d|re|ve|ll)\b)", re.IGNORECASE)
HYPHEN = re.compile(r"(?<=\w) - (?=\w)")


def join(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
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


def byte_characters() -> dict[str, int]:
    """GPT-2's map: 188 printable bytes are their own character, the others 256, 257, … in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_OF = byte_characters()


def join_bytes(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
    """The text whose bytes these are; added tokens stand for themselves, with the space that some take before them."""
    text, waiting = "", bytearray()
    for token in tokens:
        if token in added:
            text += waiting.decode("utf-8", "replace")
            waiting.clear()
            text += f" {token}" if added[token].lstrip and text and not text[-1].isspace() else token
        else:
            waiting += bytes(BYTE_OF[character] for character in token)
    return text + waiting.decode("utf-8", "replace")


def join_marked(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
    """Join pieces that bear the mark of their space; special tokens stand apart."""
    text = ""
    for token in tokens:
        is_special = token in added and added[token].special
        text += f" {token}" if is_special else token.replace(META_SPACE, " ")
    return re.sub(" +", " ", text).strip()
