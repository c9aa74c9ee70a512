"""Word lists that the user brings: dictionaries and lexicons, read with an eye on every line."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plmkit.data.reading.cells import count_of
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import tr
from plmkit.segmentation.characters import LETTER, Trie

LEXICON = "corruption.segmenter.lexicon"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a dictionary."""

    word: str
    frequency: int | None = None  # None: enough to be found
    tag: str | None = None  # part of speech, in jieba's letters


def read_content(path: str, setting: str) -> bytes:
    """The bytes of a file that a setting names."""
    file = Path(path)
    if not file.is_file():
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        kind = tr("a folder, not a file") if file.is_dir() else tr("no file.{hint}", hint=nearest(file.name, beside))
        raise InputError(
            tr(
                "{setting}={path}: there is {kind}\nGive a UTF-8 text file, or leave the setting out.",
                setting=setting,
                path=path,
                kind=kind,
            )
        )
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(tr("{path} cannot be read: {strerror}.", path=path, strerror=error.strerror)) from error


def read_lines(path: str, setting: str) -> list[str]:
    """The lines of a UTF-8 file, without their ends; the first that is not UTF-8 is named."""
    content = read_content(path, setting)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            tr(
                "{path}, line {line}: not valid UTF-8. Convert it with `iconv -f ENCODING -t UTF-8`, ENCODING "
                "being gb18030 for most Chinese files.",
                path=path,
                line=line,
            )
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(tr("{path}, line {line}: a zero byte, so this is not a text file.", path=path, line=line))
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def read_dictionary(path: str, setting: str) -> list[Entry]:
    """`word`, `word frequency`, `word tag` or `word frequency tag` a line, as jieba has it; blank lines are skipped."""
    entries = [
        read_entry(line.split(), tr("{path}, line {number}", path=path, number=number))
        for number, line in enumerate(read_lines(path, setting), start=1)
        if line.strip()
    ]
    if not entries:
        raise InputError(
            tr("{path} holds no words. Put one a line, or leave {setting} out.", path=path, setting=setting)
        )
    return entries


def read_entry(fields: list[str], where: str) -> Entry:
    word, *rest = fields
    frequency = count_of(rest[0]) if rest and rest[0].isascii() else None
    rest = rest if frequency is None else rest[1:]
    tag = rest.pop(0) if rest and rest[0].isascii() and rest[0].isalpha() else None
    if rest or frequency == 0:
        raise InputError(
            tr(
                "{where}: '{fields}' is not a dictionary entry.\n"
                "A line is a word, then its frequency (1 or more) and its tag if you have them: 语言模型 120 n.",
                where=where,
                fields=" ".join(fields)[:60],
            )
        )
    return Entry(word=word, frequency=frequency, tag=tag)


def read_lexicon(path: str, setting: str) -> list[str]:
    """One entity a line; whatever follows a tab is left aside; blank lines are skipped."""
    names = []
    for number, line in enumerate(read_lines(path, setting), start=1):
        name = line.partition("\t")[0].strip()
        if not name and line.strip():
            raise InputError(
                tr("{path}, line {number}: no name before the tab. Put one entity a line.", path=path, number=number)
            )
        if name:
            names.append(name)
    if not names:
        raise InputError(
            tr("{path} holds no names. Put one entity a line, or leave {setting} out.", path=path, setting=setting)
        )
    return list(dict.fromkeys(names))


def check_lexicon(path: str | None, level: str) -> None:
    """A lexicon lists entities: it is of use only where they are looked for."""
    if path and level != "entity":
        raise SettingError(
            tr(
                "{lexicon}={path} lists entities, but corruption.segmenter.level is {level}.\n"
                "Set corruption.segmenter.level=entity, or leave the lexicon out.",
                lexicon=LEXICON,
                path=path,
                level=level,
            )
        )
    if path:
        read_lexicon(path, LEXICON)


class Names:
    """Entities that the user lists, found from left to right, the longest in each place."""

    def __init__(self, path: str | None) -> None:
        self.trie = Trie(read_lexicon(path, LEXICON) if path else [])

    def find(self, codes: np.ndarray, starts: np.ndarray, kinds: np.ndarray) -> Iterator[tuple[int, int]]:
        """Begin and end of each; none begins or ends amid letters."""
        found = self.trie.find(codes)
        amid = np.append((kinds == LETTER) & ~starts, False)
        real = ~amid[found.begins] & ~amid[found.begins + found.lengths]
        longest = dict(zip(found.begins[real].tolist(), found.lengths[real].tolist(), strict=True))
        free = 0
        for begin in sorted(longest):
            if begin >= free:
                free = begin + longest[begin]
                yield begin, free
