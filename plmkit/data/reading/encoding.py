"""Tell what a file is when it is not UTF-8 text."""

import codecs
import re
from collections.abc import Iterable, Iterator

from plmkit.errors import InputError

SEEN = 1 << 16  # bytes looked at to guess an encoding
GB_WORDS = re.compile(rb"[\xa1-\xfe]{4}")  # two Chinese characters in a row; Latin-1 letters stand alone

STARTS = {  # first bytes of files that are often given by mistake
    b"PK\x03\x04": "a ZIP archive (or a Word, Excel or EPUB file)",
    b"\x89PNG\r\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"%PDF-": "a PDF file",
    b"\x1f\x8b": "a gzip file without the ending .gz",
    b"\x28\xb5\x2f\xfd": "a Zstandard file without the ending .zst",
    b"BZh91AY&SY": "a bzip2 file",
    b"\xfd7zXZ\x00": "an xz file",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!\x1a": "a RAR archive",
    b"PAR1\x15": "a Parquet file without the ending .parquet",
    b"\xd0\xcf\x11\xe0": "an old Office file (.doc, .xls)",
    b"\x7fELF": "a program",
    b"SQLite format 3\x00": "an SQLite database",
}


def check_start(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The same blocks, without a byte order mark; refuses what does not begin like text."""
    for index, block in enumerate(blocks):
        if index:
            yield block
            continue
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{name} is UTF-16. Convert it with `iconv -f utf-16 -t utf-8`.")
        for start, kind in STARTS.items():
            if block.startswith(start):
                raise InputError(f"{name} is {kind}, not text.{_advice(kind)}")
        yield block.removeprefix(codecs.BOM_UTF8)


def _advice(kind: str) -> str:
    return " Rename it." if "without the ending" in kind else " Extract its text first."


def not_utf8(error: UnicodeDecodeError, name: str, number: int) -> InputError:
    """The error for bytes that are not UTF-8; `number` is the line in which the bytes begin."""
    data, at = error.object, error.start
    line = number + data.count(b"\n", 0, at)
    if error.reason == "unexpected end of data":
        return InputError(f"{name}, line {line}: ends inside a character. It was cut short, or is not UTF-8.")
    begin = data.rfind(b"\n", 0, at) + 1
    begin = begin if at - begin < SEEN // 2 else at
    return InputError(f"{name}, line {line}: not valid UTF-8. {_guess(data[begin : begin + SEEN])}")


def _guess(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    broken = text.count("�")
    foreign = sum(not letter.isascii() for letter in text)
    if broken * 10 <= foreign:  # nearly all else is sound UTF-8, which no other encoding is by chance
        return "A few bytes are damaged: `iconv -c -f utf-8 -t utf-8` drops them."
    if GB_WORDS.search(data) and _decodes_as("gb18030", data):
        return "It looks like GB18030: convert it with `iconv -f gb18030 -t utf-8`."
    return "Convert it with `iconv -f ENCODING -t utf-8` (windows-1252 for most Western files)."


def _decodes_as(encoding: str, data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True
