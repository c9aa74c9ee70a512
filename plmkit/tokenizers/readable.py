"""Tokens back to readable text."""

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import AddedToken

from plmkit.data.text import WIDE
from plmkit.data.vocabulary import CONTINUATION, META_SPACE, WORD_END

# Chinese and Japanese write no spaces: ideographs, kana, and the wide punctuation between them.
IS_WIDE = re.compile(f"[{WIDE}]")
CLOSING = frozenset(".,!?;:%)]}")
OPENING = frozenset("([{")
CONTRACTION = re.compile(r"(?<=\w) ' (?=(?:s|t|m|d|re|ve|ll)\b)", re.IGNORECASE)
HYPHEN = re.compile(r"(?<=\w) - (?=\w)")


def join(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
    """Join `##` pieces and ideographs, and attach punctuation to its word."""
    text, last = "", ""
    for token in tokens:
        if token.startswith(CONTINUATION) and token != CONTINUATION and last:
            text += token.removeprefix(CONTINUATION)
        else:
            text += token if touches(last, token) else f" {token}"
        last = token
    return HYPHEN.sub("-", CONTRACTION.sub("'", text))


def settled_words(tokens: Sequence[str]) -> int:
    """The number of leading tokens that `join` renders the same whatever follows.

    The last word may still grow. It decides how a - or ' before it is joined, and so does the word before it, which an
    ideograph may touch.
    """
    count = len(tokens)
    while count > 1 and tokens[count - 1].startswith(CONTINUATION):
        count -= 1
    count = max(0, count - 1)
    if count and tokens[count - 1] in ("'", "-"):
        return count - 1
    return count - 2 if count > 1 and tokens[count - 2] == "'" else count


def touches(left: str, right: str) -> bool:
    """Whether there is no space between these two."""
    if not left or left in OPENING or right in CLOSING:
        return True
    return bool(IS_WIDE.match(left[-1]) or IS_WIDE.match(right[0]))


def byte_characters() -> dict[str, int]:
    """GPT-2's map: 188 printable bytes map to themselves, the others to 256, 257, … in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_OF = byte_characters()


def join_bytes(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
    """Decode the bytes; added tokens are kept as they are, with the space that some absorb before them."""
    text, pending = "", bytearray()
    for token in tokens:
        if token in added:
            text += pending.decode("utf-8", "replace")
            pending.clear()
            text += f" {token}" if added[token].lstrip and text and not text[-1].isspace() else token
        else:
            pending += bytes(BYTE_OF[character] for character in token)
    return text + pending.decode("utf-8", "replace")


def join_characters(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
    """Join characters; special tokens are kept as they are."""
    return "".join(tokens)


def settled_bytes(tokens: Sequence[str]) -> int:
    """The number of leading tokens that end with a whole character; a Chinese one may take three tokens."""
    return next((count for count in range(len(tokens), 0, -1) if is_whole(tokens[max(0, count - 4) : count])), 0)


def is_whole(tokens: Sequence[str]) -> bool:
    """Whether the bytes of these tokens end with a whole character."""
    tail = "".join(tokens)[-4:]  # no character has more bytes
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(BYTE_OF.get(character, 0) for character in tail))
    return not decoder.getstate()[0]


def join_marked(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
    """Join pieces that carry their space as a mark; special tokens are set apart."""
    text = ""
    for token in tokens:
        is_special = token in added and added[token].special
        text += f" {token}" if is_special else token.replace(META_SPACE, " ")
    return re.sub(" +", " ", text).strip()


def join_word_ends(tokens: Iterable[str], added: Mapping[str, AddedToken]) -> str:
    """Join pieces up to the end of each word, and attach punctuation to its word."""
    text = join([word for word, _ in ended_words(tokens)], added)
    return re.sub(" ?\n ?", "\n", text)


def ended_words(tokens: Iterable[str]) -> list[tuple[str, int]]:
    """Words, and the number of tokens up to the end of each; a special token is a word, the last may be incomplete."""
    words, word, count = [], "", 0
    for count, token in enumerate(tokens, start=1):
        if token.startswith("<") and token.endswith(">") and not token.endswith(WORD_END):
            words += [(word, count - 1), (token, count)] if word else [(token, count)]
            word = ""
        elif token.endswith(WORD_END):
            words.append((word + token.removesuffix(WORD_END), count))
            word = ""
        else:
            word += token
    return [*words, (word, count)] if word else words


def settled_word_ends(tokens: Sequence[str]) -> int:
    """The number of leading tokens that `join_word_ends` renders the same whatever follows."""
    words = ended_words(tokens)
    count = settled_words([word for word, _ in words])
    return words[count - 1][1] if count else 0
