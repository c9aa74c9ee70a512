"""A file of rows as it is: TSV, CSV, JSONL and Parquet, read whole and checked line by line."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import zstandard
from pyarrow import parquet

from plmkit.errors import InputError, nearest

Record = tuple[int, list[str]]  # line, cells


@dataclass(frozen=True, kw_only=True)
class Table:
    """A file as it is: what `predict` writes back beside its predictions."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]  # strings; JSONL and Parquet keep their numbers
    lines: list[int]  # where each row begins in the file, from 1


def read_table(path: str | Path) -> Table:
    """All rows of a file with the columns it names."""
    path = Path(path)
    _check_file(path)
    form, packing = form_of(path)
    if form == ".parquet" and not packing:
        table = _parquet(path)
    elif form in TEXT_FORMS:
        table = TEXT_FORMS[form](path, _text(path, packing))
    else:
        raise InputError(
            f"{path} is not a kind of file that holds rows.\nUse .tsv, .csv, .jsonl (these also as .gz or "
            ".zst) or .parquet; for predictions also .txt, one text per line."
        )
    if twice := [name for name in table.columns if table.columns.count(name) > 1]:
        raise InputError(f"{path} has two columns named '{short(twice[0])}'. Rename one.")
    if not table.rows:
        raise InputError(f"{path} has no rows, only the columns {listed(table.columns)}.")
    return table


def form_of(path: Path) -> tuple[str, str]:
    """What the name says of the content, and of how it is packed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in (".gz", ".zst") else ""
    return (suffixes[-1] if suffixes else ""), packing


def _check_file(path: Path) -> None:
    try:
        if path.is_file():
            if path.stat().st_size == 0:
                raise InputError(f"{path} is empty.")
            return
        if path.exists():
            kind = "a folder" if path.is_dir() else "not an ordinary file"
            raise InputError(f"{path} is {kind}. Give one .tsv, .csv, .jsonl or .parquet file.")
        if not path.parent.is_dir():
            raise InputError(f"There is no file {path}: the folder {path.parent} does not exist.")
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    raise InputError(f"There is no file {path}.{nearest(path.name, names)}")


def _text(path: Path, packing: str) -> str:
    """The content of a text file; line ends are left to the reader of each form."""
    data = _unpacked(path, packing).removeprefix(b"\xef\xbb\xbf")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16. Save it as UTF-8.")
    if (zero := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise InputError(f"{where(path, line)}: a zero byte; this is a binary file, not text.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where(path, line)}: not UTF-8 (byte 0x{data[error.start]:02x}).\n"
            "Save it as UTF-8; for Chinese text from Windows: iconv -f gb18030 -t utf-8."
        ) from error
    if not text.strip():
        raise InputError(f"{path} is empty.")
    return text.rstrip("\r\n")


def _unpacked(path: Path, packing: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        if packing == ".gz":
            return gzip.decompress(data)
        return _frames(data) if packing == ".zst" else data
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{path} is cut short, damaged, or not {packing} at all. Copy it again.") from error


def _frames(data: bytes) -> bytes:
    """Every zstd frame in turn: the stream reader would end a cut file without a word."""
    unpacked = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        unpacked.append(frame.decompress(data))
        if not frame.eof:
            raise EOFError
        data = frame.unused_data
    return b"".join(unpacked)


def _plain(path: Path, text: str) -> Table:
    rows: list[tuple[object, ...]] = [(line.removesuffix("\r"),) for line in text.split("\n")]
    return Table(path=path, columns=("text",), rows=rows, lines=list(range(1, len(rows) + 1)))


def _tsv(path: Path, text: str) -> Table:
    # Quotes are text here: real files, Chinese ones above all, are full of single ones.
    lines = enumerate(text.split("\n"), start=1)
    advice = "A text cannot hold a tab in .tsv; use .csv with quotes, or .jsonl."
    return _with_header(path, ((line, cells.removesuffix("\r").split("\t")) for line, cells in lines), advice)


def _csv(path: Path, text: str) -> Table:
    return _with_header(path, _csv_records(path, text), "Put a text that holds a comma in double quotes.")


def _csv_records(path: Path, text: str) -> Iterator[Record]:
    csv.field_size_limit(2**31 - 1)  # the default refuses documents of 128 kB
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1  # a quoted cell may run over several lines
        try:
            yield line, next(reader) or [""]
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{where(path, line)}: the quotes of this row do not match ({error}).\n"
                'Inside a quoted text write "" for each quote.'
            ) from error


def _with_header(path: Path, records: Iterable[Record], advice: str) -> Table:
    columns: tuple[str, ...] = ()
    rows: list[tuple[object, ...]] = []
    lines: list[int] = []
    for line, cells in records:
        if cells == [""] and len(columns) != 1:  # in a single column, a blank line is an empty text
            continue
        if not columns:
            columns = tuple(name.strip() for name in cells)
            continue
        if len(cells) != len(columns):
            raise InputError(
                f"{where(path, line)}: {len(cells)} cells, but the header names {len(columns)} columns: "
                f"{listed(columns)}.\n{advice}"
            )
        rows.append(tuple(cells))
        lines.append(line)
    return Table(path=path, columns=columns, rows=rows, lines=lines)


def _jsonl(path: Path, text: str) -> Table:
    lines = enumerate(text.split("\n"), start=1)
    records = {line: _record(content, where(path, line)) for line, content in lines if content.strip()}
    columns = tuple(dict.fromkeys(name for record in records.values() for name in record))
    rows = [tuple(record.get(name) for name in columns) for record in records.values()]
    return Table(path=path, columns=columns, rows=rows, lines=list(records))


def _record(content: str, place: str) -> dict[str, object]:
    try:
        record = json.loads(content)
        json.dumps(record, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    except UnicodeEncodeError as error:
        raise InputError(f"{place}: a \\u escape that is half a character. Write the file as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "too large"
        raise InputError(f"{place}: not JSON ({reason}). Each line must be one object.") from error
    if not isinstance(record, dict):
        raise InputError(f'{place}: not a JSON object. Write {{"text": …, "label": …}} on each line.')
    return record


TEXT_FORMS: dict[str, Callable[[Path, str], Table]] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".txt": _plain,
}


def _parquet(path: Path) -> Table:
    try:
        with parquet.ParquetFile(path) as file:
            content = file.read()
        names = tuple(content.column_names)
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged, or not Parquet at all. Write it again.") from error
    columns = [_parquet_cells(content.column(index), path) for index in range(content.num_columns)]
    lines = list(range(1, content.num_rows + 1))
    return Table(path=path, columns=names, rows=list(zip(*columns, strict=True)), lines=lines)


def _parquet_cells(column: pyarrow.ChunkedArray, path: Path) -> list[object]:
    cells: list[object] = []
    for scalar in column:
        try:
            cell = scalar.as_py()
        except UnicodeDecodeError as error:
            raise InputError(f"{where(path, len(cells) + 1)}: not UTF-8. Write the file again.") from error
        # dates and the like become text, so that any output format can hold them
        cells.append(cell if isinstance(cell, str | int | float | list | dict | None) else str(cell))
    return cells


def where(path: str | Path, line: int) -> str:
    """The place of a row, as messages name it."""
    return f"{path}, {'row' if str(path).lower().endswith('.parquet') else 'line'} {line}"


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(short(name) for name in names[:10]) or "none") + more


def short(name: str) -> str:
    """A name on one line; a file without a header shows whole texts as names."""
    line = " ".join(name.split())
    return line if len(line) <= 40 else line[:39] + "…"
