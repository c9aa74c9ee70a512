"""Files as blocks of bytes and as numbered lines of text, read once from start to end in bounded memory."""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

import zstandard

from plmkit.data.reading.encoding import check_start, not_utf8
from plmkit.data.reading.source import Compression, OnBytes
from plmkit.errors import InputError
from plmkit.language import tr

BLOCK = 1 << 20  # bytes
LEAST_FEED, MOST_FEED = (
    1 << 6,
    1 << 11,
)  # bytes given to zstd at once, few because they can expand 32,000-fold
SMALL = 1 << 26  # bytes that a compressed file may expand to, however small it is
MOST_RATIO = 250  # beyond that, the highest ratio allowed; text has 3 to 10, repetitive logs 100
LONGEST_ROW = 1 << 25  # characters in one line of a table


def read_blocks(name: str, compression: Compression | None, on_bytes: OnBytes | None = None) -> Iterator[bytes]:
    """The content in blocks of about 1 MB, decompressed; `on_bytes` gets the number of bytes read from disk."""
    try:
        with open(name, "rb", buffering=0) as file:
            counted = CountedFile(file, on_bytes or (lambda size: None))
            packed = cast(BinaryIO, counted)
            if compression == "zst":
                yield from _bounded(_join(_unzstd(packed)), counted, name)
            elif compression == "gz":
                with gzip.GzipFile(fileobj=packed, mode="rb") as unpacked:
                    yield from _bounded(iter(lambda: unpacked.read(BLOCK), b""), counted, name)
            else:
                yield from iter(lambda: packed.read(BLOCK), b"")
    except EOFError:
        raise InputError(tr("{name} is incomplete: it ends too early. Download or copy it again.", name=name)) from None
    except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise InputError(
            tr(
                "{name} is not a valid .{compression} file ({error}). Download or copy it again.",
                name=name,
                compression=compression,
                error=error,
            )
        ) from None
    except OSError as error:
        raise InputError(tr("{path} cannot be read: {reason}.", path=name, reason=error.strerror or error)) from None


class CountedFile:
    """A file that reports how much of it has been read."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes) -> None:
        self.file = file
        self.on_bytes = on_bytes
        self.total = 0

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.total += len(data)
        self.on_bytes(len(data))
        return data


def _bounded(blocks: Iterable[bytes], packed: CountedFile, name: str) -> Iterator[bytes]:
    """The same blocks, unless they expand far beyond what compressed text does."""
    total = 0
    for block in blocks:
        total += len(block)
        if total > max(SMALL, MOST_RATIO * packed.total):
            raise InputError(
                tr(
                    "{name} expands to more than {unpacked:,.0f} MB from {packed:,.1f} MB, over {ratio} times its "
                    "size.\nIf this is intended, decompress it and give the text file.",
                    name=name,
                    unpacked=total / 1e6,
                    packed=packed.total / 1e6,
                    ratio=MOST_RATIO,
                )
            )
        yield block


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    # zstandard's own stream reader ends without an error if a file is truncated
    frame, feed = None, LEAST_FEED
    while block := file.read(BLOCK):
        position = 0
        while position < len(block):
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            fed = block[position : position + feed]
            piece = frame.decompress(fed)
            yield piece
            position += len(fed) - len(frame.unused_data)
            frame = None if frame.eof else frame
            feed = min(2 * feed, MOST_FEED) if len(piece) < BLOCK else LEAST_FEED
    if frame:
        raise EOFError


def _join(pieces: Iterable[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)


def read_lines(blocks: Iterable[bytes], name: str, *, longest: int, cut: bool) -> Iterator[tuple[int, list[str]]]:
    """Runs of whole lines, each run with the number of its first; an endless line is cut, or refused."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    number, tail = 1, ""  # `tail` is the unfinished line, `number` its number
    inside = False  # whether the beginning of that line was already given out
    foreign = False  # whether any letter so far was beyond ASCII
    for block in check_start(blocks, name):
        text = tail + _decode(decoder, block, name, number, foreign)
        foreign = foreign or not text.isascii()
        lines = text.split("\n")
        tail = lines.pop()
        if inside and lines:
            inside = False
            if not lines[0].strip():  # the rest of a cut line must not look like a blank line
                del lines[0]
                number += 1
        if lines:
            yield number, lines
            number += len(lines)
        while len(tail) > longest:
            if not cut:
                raise InputError(
                    tr(
                        "{name}, line {number}: a row of more than {longest:,} characters.",
                        name=name,
                        number=number,
                        longest=longest,
                    )
                )
            at = cutting_point(tail, longest)
            yield number, [tail[:at]]
            tail, inside = tail[at:], True
    tail += _decode(decoder, b"", name, number, foreign, final=True)
    if tail.strip():
        yield number, [tail]


def cutting_point(text: str, longest: int) -> int:
    """Where to cut a text that is too long: after a space or full stop in its later half, or hard."""
    return max(text.rfind(mark, longest // 2, longest) for mark in " \t。！？") + 1 or longest


def _decode(
    decoder: codecs.IncrementalDecoder, block: bytes, name: str, number: int, foreign: bool, final: bool = False
) -> str:
    if 0 in block:
        at = number + block.count(b"\n", 0, block.index(0))
        raise InputError(
            tr("{name}, line {at}: binary data (a NUL byte), not text. Give plain text files.", name=name, at=at)
        )
    try:
        return decoder.decode(block, final)
    except UnicodeDecodeError as error:
        raise not_utf8(error, name, number, foreign=foreign) from None
