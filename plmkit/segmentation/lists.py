"""Word lists of the user: dictionaries and lexicons, with every line checked."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plmkit.data.reading.cells import count_of, where
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import tr
from plmkit.segmentation.characters import LETTER, Trie

LEXICON = "corruption.segmenter.lexicon"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a dictionary."""

    word: str
    frequency: int | None = None  # None: high enough to be found
    tag: str | None = None  # part of speech, in jieba's letters


def read_content(path: str, setting: str) -> bytes:
    """The bytes of a file that a setting names."""
    file = Path(path)
    if not file.is_file():
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        hint = "" if file.is_dir() else nearest(file.name, beside)
        problem = tr("is a folder") if file.is_dir() else tr("does not exist")
        raise InputError(
            tr(
                "{setting}: {path} {problem}.{hint}\nGive a UTF-8 text file, or leave the setting out.",
                setting=setting,
                path=path,
                problem=problem,
                hint=hint,
            )
        )
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(tr("{path} cannot be read: {reason}.", path=path, reason=error.strerror)) from error


def read_lines(path: str, setting: str) -> list[str]:
    """The lines of a UTF-8 file, without their ends; errors name the first that is not UTF-8."""
    content = read_content(path, setting)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            tr(
                "{place}: not valid UTF-8. Convert it with `iconv -f ENCODING -t UTF-8` (gb18030 for most Chinese "
                "files).",
                place=where(path, line),
            )
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(tr("{place}: a NUL byte, so this is not a text file.", place=where(path, line)))
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def read_dictionary(path: str, setting: str) -> list[Entry]:
    """`word`, `word frequency`, `word tag` or `word frequency tag` per line, as in jieba; blank lines are skipped."""
    entries = [
        read_entry(line.split(), where(path, number))
        for number, line in enumerate(read_lines(path, setting), start=1)
        if line.strip()
    ]
    if not entries:
        raise InputError(
            tr("{path} has no words. Write one per line, or leave {setting} out.", path=path, setting=setting)
        )
    return entries


def read_entry(fields: list[str], place: str) -> Entry:
    word, *rest = fields
    frequency = count_of(rest[0]) if rest and rest[0].isascii() else None
    rest = rest if frequency is None else rest[1:]
    tag = rest.pop(0) if rest and rest[0].isascii() and rest[0].isalpha() else None
    if rest or frequency == 0:
        raise InputError(
            tr(
                "{place}: '{line}' is not a dictionary entry.\n"
                "A line is a word, then optionally its frequency (1 or more) and its tag: 语言模型 120 n.",
                place=place,
                line=" ".join(fields)[:60],
            )
        )
    return Entry(word=word, frequency=frequency, tag=tag)


def read_lexicon(path: str, setting: str) -> list[str]:
    """One entity per line; what follows a tab is ignored; blank lines are skipped."""
    names = []
    for number, line in enumerate(read_lines(path, setting), start=1):
        name = line.partition("\t")[0].strip()
        if not name and line.strip():
            raise InputError(
                tr("{place}: no name before the tab. Write one entity per line.", place=where(path, number))
            )
        if name:
            names.append(name)
    if not names:
        raise InputError(
            tr("{path} has no names. Write one entity per line, or leave {setting} out.", path=path, setting=setting)
        )
    return list(dict.fromkeys(names))


def check_lexicon(path: str | None, level: str) -> None:
    """Reject a lexicon, which lists entities, if no entities are looked for."""
    if path and level != "entity":
        raise SettingError(
            tr(
                "{setting}={path} lists entities, but corruption.segmenter.level is {level}.\n"
                "Set corruption.segmenter.level=entity, or leave the lexicon out.",
                setting=LEXICON,
                path=path,
                level=level,
            )
        )
    if path:
        read_lexicon(path, LEXICON)


class Names:
    """Entities that the user lists, found from left to right, the longest match first."""

    def __init__(self, path: str | None) -> None:
        self.trie = Trie(read_lexicon(path, LEXICON) if path else [])

    def find(self, codes: np.ndarray, starts: np.ndarray, kinds: np.ndarray) -> Iterator[tuple[int, int]]:
        """Begin and end of each; none begins or ends inside a run of letters."""
        found = self.trie.find(codes)
        inside = np.append((kinds == LETTER) & ~starts, False)
        real = ~inside[found.begins] & ~inside[found.begins + found.lengths]
        longest = dict(zip(found.begins[real].tolist(), found.lengths[real].tolist(), strict=True))
        free = 0
        for begin in sorted(longest):
            if begin >= free:
                free = begin + longest[begin]
                yield begin, free
