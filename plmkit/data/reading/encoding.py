"""Tell what a file is when it is not UTF-8 text."""

import codecs
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby

from plmkit.errors import InputError
from plmkit.language import tr

MOST_RUNS = 3  # runs of lines that are named for each of several encodings
GB_WORDS = re.compile(rb"[\xa1-\xfe]{4}")  # two Chinese characters in a row; Latin-1 letters stand alone
UTF_8, GB18030, OTHER = "in UTF-8", tr("in what looks like GB18030"), tr("in another encoding")
ICONV = {GB18030: "gb18030", OTHER: "ENCODING"}
ADVICE = {  # where all lines with letters beyond ASCII are of one encoding
    UTF_8: tr("A few bytes are damaged: `iconv -c -f utf-8 -t utf-8 {{file}} > NEW` drops them."),
    GB18030: tr("It looks like GB18030: convert it with `iconv -f gb18030 -t utf-8 {{file}} > NEW`."),
    OTHER: tr("Convert it with `iconv -f ENCODING -t utf-8 {{file}} > NEW` (windows-1252 for most Western files)."),
}

STARTS = {  # first bytes of files that are often given by mistake
    b"PK\x03\x04": tr("a ZIP archive (or a Word, Excel or EPUB file)"),
    b"\x89PNG\r\n": tr("a PNG image"),
    b"\xff\xd8\xff": tr("a JPEG image"),
    b"GIF87a": tr("a GIF image"),
    b"GIF89a": tr("a GIF image"),
    b"%PDF-": tr("a PDF file"),
    b"\x1f\x8b": tr("a gzip file without the ending .gz"),
    b"\x28\xb5\x2f\xfd": tr("a Zstandard file without the ending .zst"),
    b"BZh91AY&SY": tr("a bzip2 file"),
    b"\xfd7zXZ\x00": tr("an xz file"),
    b"7z\xbc\xaf\x27\x1c": tr("a 7-Zip archive"),
    b"Rar!\x1a": tr("a RAR archive"),
    b"PAR1\x15": tr("a Parquet file without the ending .parquet"),
    b"\xd0\xcf\x11\xe0": tr("an old Office file (.doc, .xls)"),
    b"\x7fELF": tr("a program"),
    b"SQLite format 3\x00": tr("an SQLite database"),
}


def check_start(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The same blocks, without a byte order mark; refuses what does not begin like text."""
    for index, block in enumerate(blocks):
        if index:
            yield block
            continue
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(tr("{name} is UTF-16. Convert it with `iconv -f utf-16 -t utf-8`.", name=name))
        for start, kind in STARTS.items():
            if block.startswith(start):
                raise InputError(tr("{name} is {kind}, not text.{advice}", name=name, kind=kind, advice=_advice(kind)))
        yield block.removeprefix(codecs.BOM_UTF8)


def _advice(kind: str) -> str:
    return tr(" Rename it.") if "without the ending" in kind else tr(" Extract its text first.")


def not_utf8(error: UnicodeDecodeError, name: str, number: int, *, foreign: bool) -> InputError:
    """The error for bytes that are not UTF-8; `number` is the line in which the bytes begin.

    `foreign` tells that the text before them has letters beyond ASCII, which were sound UTF-8.
    """
    data, at = error.object, error.start
    line = number + data.count(b"\n", 0, at)
    if error.reason == "unexpected end of data":
        return InputError(
            tr("{name}, line {line}: ends inside a character. It was cut short, or is not UTF-8.", name=name, line=line)
        )
    kinds = {place: kind for place, part in enumerate(data.split(b"\n"), number) if (kind := _kind(part))}
    begun = {1: UTF_8, max(1, number - 1): UTF_8} if foreign else {}
    return InputError(
        tr("{name}, line {line}: not valid UTF-8. {advise}", name=name, line=line, advise=_advise(begun | kinds, name))
    )


def _kind(line: bytes) -> str:
    """The encoding that a line seems to have; nothing where all of it is ASCII, and any would do."""
    if line.isascii():
        return ""
    text = line.decode("utf-8", "replace")
    broken, foreign = text.count("\ufffd"), sum(not letter.isascii() for letter in text)
    if broken * 2 < foreign:  # the rest is sound UTF-8, which no other encoding is by chance
        return UTF_8
    return GB18030 if GB_WORDS.search(line) and _decodes_as("gb18030", line) else OTHER


def _advise(kinds: dict[int, str], name: str) -> str:
    """What to do about lines of these encodings."""
    runs: dict[str, list[tuple[int, int]]] = {}
    for kind, lines in groupby(kinds, key=kinds.__getitem__):
        first, *others = lines
        runs.setdefault(kind, []).append((first, others[-1] if others else first))
    if len(runs) == 1:
        return ADVICE[next(iter(runs))].format(file=shlex.quote(name))
    told = ", ".join(f"{_lines(found)} {kind}" for kind, found in runs.items())
    strange = next(kind for kind in runs if kind != UTF_8)
    first, last = runs[strange][0]
    return tr(
        "It is mixed: {told}.\n"
        "Convert each part by itself, as with `sed -n {first},{last}p {name} | iconv -f {iconv} -t utf-8`, and "
        "join them again.",
        told=told,
        first=first,
        last=last,
        name=name,
        iconv=ICONV[strange],
    )


def _lines(runs: list[tuple[int, int]]) -> str:
    """`lines 1–3, 7 and 2 more`."""
    told = [f"{first:,}–{last:,}" if last > first else f"{first:,}" for first, last in runs]
    if len(told) > MOST_RUNS:
        told = [*told[:MOST_RUNS], tr("{told_count:,} more", told_count=len(told) - MOST_RUNS)]
    numbers = " and ".join(filter(None, [", ".join(told[:-1]), told[-1]]))
    return f"{'lines' if len(told) > 1 or '–' in numbers else 'line'} {numbers}"


def _decodes_as(encoding: str, data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True
