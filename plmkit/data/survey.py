"""Statistics of a corpus, which the workers count while they tokenize."""

import hashlib
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from plmkit.data.reading.cells import stored_place
from plmkit.data.reading.source import Document
from plmkit.data.text import is_html, is_markdown
from plmkit.errors import printable

LONG_LINE = 10_000  # characters; a line this long is rarely one paragraph
REPLACED = "\ufffd"
SAMPLE = 20_000  # characters of a block whose scripts are counted, spread evenly over it


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Two surveys add up to the survey of both."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    characters: int = 0
    unknown: int = 0  # tokens
    lines: int = 0  # with text
    replaced: int = 0  # U+FFFD characters: text that was decoded wrongly before it came here
    replaced_at: str = ""  # file and line of the first
    html_lines: int = 0
    html_at: str = ""  # the first
    markdown_lines: int = 0
    markdown_at: str = ""  # the first
    long_lines: int = 0
    longest_line: int = 0
    longest_line_at: str = ""
    scripts: tuple[int, int, int] = (0, 0, 0)  # characters of a sample: Chinese, Latin, other letters
    duplicates: int = 0  # documents that are equal to an earlier one
    hashes: tuple[np.ndarray, ...] = ()  # one per document, until closed

    def __add__(self, other: "Survey") -> "Survey":
        longer = max(self, other, key=lambda survey: survey.longest_line)
        return Survey(
            documents=self.documents + other.documents,
            sentences=self.sentences + other.sentences,
            tokens=self.tokens + other.tokens,
            characters=self.characters + other.characters,
            unknown=self.unknown + other.unknown,
            lines=self.lines + other.lines,
            replaced=self.replaced + other.replaced,
            replaced_at=self.replaced_at or other.replaced_at,
            html_lines=self.html_lines + other.html_lines,
            html_at=self.html_at or other.html_at,
            markdown_lines=self.markdown_lines + other.markdown_lines,
            markdown_at=self.markdown_at or other.markdown_at,
            long_lines=self.long_lines + other.long_lines,
            longest_line=longer.longest_line,
            longest_line_at=longer.longest_line_at,
            scripts=add(self.scripts, other.scripts),
            hashes=(*self.hashes, *other.hashes),
        )

    def closed(self) -> "Survey":
        """Count the duplicates and drop the hashes."""
        hashes = np.concatenate(self.hashes) if self.hashes else np.zeros(0, dtype=np.uint64)
        return replace(self, duplicates=len(hashes) - len(np.unique(hashes)), hashes=())

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Survey":
        return cls(**{**data, "scripts": tuple(data["scripts"]), "hashes": ()})

    def languages(self) -> dict[str, float]:
        """Share of each script among the letters of the sample."""
        total = sum(self.scripts) or 1
        return dict(zip(("Chinese", "Latin", "other"), (count / total for count in self.scripts), strict=True))


def add(first: tuple[int, int, int], second: tuple[int, int, int]) -> tuple[int, int, int]:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def survey_of(block: list[Document], tokens: np.ndarray, sentences: int, unknown: int) -> Survey:
    """The counts of one block of documents."""
    lines = [line for document in block for line in document.paragraphs]
    lengths = np.array([len(line) for line in lines])
    replaced, html, markdown = (
        np.flatnonzero([holds(line) for line in lines]) for holds in (is_replaced, is_html, is_markdown)
    )
    texts = ["\n".join(document.paragraphs) for document in block]
    whole = [f"{document.image or ''}{text}" for document, text in zip(block, texts, strict=True)]
    digests = b"".join(hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest() for text in whole)
    return Survey(
        documents=len(block),
        sentences=sentences,
        tokens=len(tokens),
        characters=sum(map(len, texts)),
        unknown=int((tokens == unknown).sum()),
        lines=len(lines),
        replaced=sum(lines[number].count(REPLACED) for number in replaced),
        replaced_at=place_of(block, replaced),
        html_lines=len(html),
        html_at=place_of(block, html),
        markdown_lines=len(markdown),
        markdown_at=place_of(block, markdown),
        long_lines=int((lengths > LONG_LINE).sum()),
        longest_line=int(lengths.max()),
        longest_line_at=place_of(block, np.array([lengths.argmax()])),
        scripts=count_scripts(sampled("".join(texts))),
        hashes=(np.frombuffer(digests, dtype=np.uint64),),
    )


def sampled(text: str) -> str:
    """Every n-th character: one block may hold documents in several scripts."""
    return text[:: max(1, len(text) // SAMPLE)]


def is_replaced(line: str) -> bool:
    return REPLACED in line


def place_of(block: list[Document], numbers: np.ndarray) -> str:
    """File and line of the first of these lines of the block, in English, as it is stored; empty if there are none."""
    for number in numbers[:1]:
        places = ((document.source, line) for document in block for line in document.lines)
        source, line = next(islice(places, int(number), None))
        return stored_place(printable(source), line)
    return ""


def count_scripts(text: str) -> tuple[int, int, int]:
    """Chinese, Latin and other letters."""
    points = np.frombuffer(text.encode("utf-32-le", errors="replace"), dtype=np.uint32)
    chinese = ((points >= 0x3400) & (points <= 0x9FFF)) | ((points >= 0x20000) & (points <= 0x2FA1F))
    latin = ((points | 0x20) >= 0x61) & ((points | 0x20) <= 0x7A) & (points < 0x80)
    latin |= (points >= 0xC0) & (points <= 0x24F)
    other = (points > 0x24F) & ~chinese & ~((points >= 0x2000) & (points <= 0x303F)) & ~(points >= 0xFE00)
    return int(chinese.sum()), int(latin.sum()), int(other.sum())
