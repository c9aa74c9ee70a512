"""What a corpus is like: counts that the workers take while they tokenize, added up."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plmkit.data.reading.source import Document

LONG_LINE = 10_000  # characters; a line this long is rarely one paragraph
SAMPLE = 20_000  # characters of a block whose scripts are counted


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Two surveys add up to the survey of both."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    characters: int = 0
    unknown: int = 0  # tokens
    replaced: int = 0  # U+FFFD characters: text that was decoded wrongly before it came here
    long_lines: int = 0
    longest_line: int = 0
    longest_line_at: str = ""  # file and line
    scripts: tuple[int, int, int] = (0, 0, 0)  # characters of a sample: Chinese, Latin, other letters
    duplicates: int = 0  # documents that are equal to an earlier one
    hashes: tuple[np.ndarray, ...] = ()  # one number a document, until closed

    def __add__(self, other: "Survey") -> "Survey":
        longer = max(self, other, key=lambda survey: survey.longest_line)
        return Survey(
            documents=self.documents + other.documents,
            sentences=self.sentences + other.sentences,
            tokens=self.tokens + other.tokens,
            characters=self.characters + other.characters,
            unknown=self.unknown + other.unknown,
            replaced=self.replaced + other.replaced,
            long_lines=self.long_lines + other.long_lines,
            longest_line=longer.longest_line,
            longest_line_at=longer.longest_line_at,
            scripts=add(self.scripts, other.scripts),
            hashes=(*self.hashes, *other.hashes),
        )

    def closed(self) -> "Survey":
        """Duplicates counted, hashes let go."""
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
    lines = [(len(line), document) for document in block for line in document.paragraphs]
    longest, where = max(lines, key=lambda line: line[0], default=(0, None))
    texts = ["\n".join(document.paragraphs) for document in block]
    digests = b"".join(hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest() for text in texts)
    return Survey(
        documents=len(block),
        sentences=sentences,
        tokens=len(tokens),
        characters=sum(map(len, texts)),
        unknown=int((tokens == unknown).sum()),
        replaced=sum(text.count("\ufffd") for text in texts),
        long_lines=sum(length > LONG_LINE for length, _ in lines),
        longest_line=longest,
        longest_line_at=f"{where.source}, line {where.line}" if where else "",
        scripts=count_scripts("".join(texts)[:SAMPLE]),
        hashes=(np.frombuffer(digests, dtype=np.uint64),),
    )


def count_scripts(text: str) -> tuple[int, int, int]:
    """Chinese, Latin and other letters."""
    points = np.frombuffer(text.encode("utf-32-le", errors="replace"), dtype=np.uint32)
    chinese = ((points >= 0x3400) & (points <= 0x9FFF)) | ((points >= 0x20000) & (points <= 0x2FA1F))
    latin = ((points | 0x20) >= 0x61) & ((points | 0x20) <= 0x7A) & (points < 0x80)
    latin |= (points >= 0xC0) & (points <= 0x24F)
    other = (points > 0x24F) & ~chinese & ~((points >= 0x2000) & (points <= 0x303F)) & ~(points >= 0xFE00)
    return int(chinese.sum()), int(latin.sum()), int(other.sum())
