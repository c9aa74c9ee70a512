"""Detect what a file is if it is not UTF-8 text."""

import codecs
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from plmkit.errors import InputError
from plmkit.language import comma, tr

MOST_RUNS = 3  # runs of lines that are listed per encoding, if there are several
GB_WORDS = re.compile(rb"[\xa1-\xfe]{4}")  # two Chinese characters in a row; Latin-1 letters stand alone
UTF_8, GB18030, OTHER = "utf-8", "gb18030", "ENCODING"  # as iconv names them

WITHOUT_ENDING = {  # first bytes of files that we read only by their ending
    b"\x1f\x8b": ".gz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PAR1\x15": ".parquet",
}
STARTS: dict[bytes, Callable[[], str]] = {  # first bytes of files that are often given by mistake
    b"PK\x03\x04": lambda: tr("a ZIP archive (or a Word, Excel or EPUB file)"),
    b"\x89PNG\r\n": lambda: tr("a PNG image"),
    b"\xff\xd8\xff": lambda: tr("a JPEG image"),
    b"GIF87a": lambda: tr("a GIF image"),
    b"GIF89a": lambda: tr("a GIF image"),
    b"%PDF-": lambda: tr("a PDF file"),
    b"BZh91AY&SY": lambda: tr("a bzip2 file"),
    b"\xfd7zXZ\x00": lambda: tr("an xz file"),
    b"7z\xbc\xaf\x27\x1c": lambda: tr("a 7-Zip archive"),
    b"Rar!\x1a": lambda: tr("a RAR archive"),
    b"\xd0\xcf\x11\xe0": lambda: tr("an old Office file (.doc, .xls)"),
    b"\x7fELF": lambda: tr("a program"),
    b"SQLite format 3\x00": lambda: tr("an SQLite database"),
}


def check_start(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The same blocks, without a byte order mark; rejects a file that does not begin like text."""
    for index, block in enumerate(blocks):
        if index:
            yield block
            continue
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(
                tr(
                    "{name} is UTF-16. Convert it with `iconv -f utf-16 -t utf-8 {file} > NEW`.",
                    name=name,
                    file=shlex.quote(name),
                )
            )
        for start, kind in STARTS.items():
            if block.startswith(start):
                raise InputError(tr("{name} is {kind}, not text. Extract its text first.", name=name, kind=kind()))
        for start, ending in WITHOUT_ENDING.items():
            if block.startswith(start):
                raise InputError(
                    tr("{name} is a {ending} file without the ending {ending}. Rename it.", name=name, ending=ending)
                )
        yield block.removeprefix(codecs.BOM_UTF8)


def not_utf8(error: UnicodeDecodeError, name: str, number: int, *, foreign: bool) -> InputError:
    """The error for bytes that are not UTF-8; `number` is the line in which the bytes begin.

    `foreign`: the text before them has letters beyond ASCII, in valid UTF-8.
    """
    data, at = error.object, error.start
    line = number + data.count(b"\n", 0, at)
    if error.reason == "unexpected end of data":
        return InputError(
            tr("{name}, line {line}: ends inside a character. It is incomplete, or not UTF-8.", name=name, line=line)
        )
    kinds = {place: kind for place, part in enumerate(data.split(b"\n"), number) if (kind := _kind(part))}
    before = {1: UTF_8, max(1, number - 1): UTF_8} if foreign else {}
    return InputError(
        tr("{name}, line {line}: not valid UTF-8. {advice}", name=name, line=line, advice=_advice(before | kinds, name))
    )


def _kind(line: bytes) -> str:
    """The encoding that a line seems to have; empty if all of it is ASCII, which fits any."""
    if line.isascii():
        return ""
    text = line.decode("utf-8", "replace")
    broken, foreign = text.count("\ufffd"), sum(not letter.isascii() for letter in text)
    if broken * 2 < foreign:  # the rest is valid UTF-8, which no other encoding is by chance
        return UTF_8
    return GB18030 if GB_WORDS.search(line) and _decodes_as("gb18030", line) else OTHER


def _advice(kinds: dict[int, str], name: str) -> str:
    """What to do about lines of these encodings."""
    runs: dict[str, list[tuple[int, int]]] = {}
    for kind, lines in groupby(kinds, key=kinds.__getitem__):
        first, *others = lines
        runs.setdefault(kind, []).append((first, others[-1] if others else first))
    if len(runs) == 1:
        return _convert(next(iter(runs)), shlex.quote(name))
    parts = comma().join(_part(kind, found) for kind, found in runs.items())
    strange = next(kind for kind in runs if kind != UTF_8)
    first, last = runs[strange][0]
    return tr(
        "It mixes encodings: {parts}.\n"
        "Convert each part separately, as with `sed -n {first},{last}p {name} | iconv -f {encoding} -t utf-8`, "
        "and join them again.",
        parts=parts,
        first=first,
        last=last,
        name=name,
        encoding=strange,
    )


def _convert(kind: str, file: str) -> str:
    """What to do about a file in which all lines with letters beyond ASCII are of one encoding."""
    if kind == UTF_8:
        return tr("A few bytes are damaged: `iconv -c -f utf-8 -t utf-8 {file} > NEW` drops them.", file=file)
    if kind == GB18030:
        return tr("It looks like GB18030: convert it with `iconv -f gb18030 -t utf-8 {file} > NEW`.", file=file)
    return tr(
        "Convert it with `iconv -f ENCODING -t utf-8 {file} > NEW` (windows-1252 for most Western files).", file=file
    )


def _part(kind: str, runs: list[tuple[int, int]]) -> str:
    """`lines 1–3 in UTF-8`."""
    lines = _lines(runs)
    if kind == UTF_8:
        return tr("{lines} in UTF-8", lines=lines)
    return tr("{lines} probably in GB18030", lines=lines) if kind == GB18030 else tr("{lines} in another", lines=lines)


def _lines(runs: list[tuple[int, int]]) -> str:
    """`lines 1–3, 7 and 2 more`."""
    shown = [f"{first:,}–{last:,}" if last > first else f"{first:,}" for first, last in runs]
    if len(shown) > MOST_RUNS:
        shown = [*shown[:MOST_RUNS], tr("{count:,} more", count=len(shown) - MOST_RUNS)]
    numbers = tr(" and ").join(filter(None, [comma().join(shown[:-1]), shown[-1]]))
    several = len(shown) > 1 or "–" in numbers
    return tr("lines {numbers}", numbers=numbers) if several else tr("line {numbers}", numbers=numbers)


def _decodes_as(encoding: str, data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True
