"""Word vectors in memory, in a run folder and in text files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from plmkit.config.machine import Machine
from plmkit.errors import CheckpointError, InputError, nearest
from plmkit.language import tr
from plmkit.segmentation.chinese import Jieba
from plmkit.storage.files import new_file, reported_os_errors
from plmkit.storage.manifest import seal
from plmkit.storage.tensors import WEIGHTS
from plmkit.training.run_folder import RUN_FILE, RunFolder
from plmkit.training.run_record import FINISHED, VectorsRecord

WORDS = "words.txt"  # one per line, in the order of the vectors
VECTORS = "vectors"  # their name in the file of weights
TEXT_FILE = "vectors.txt"  # of an exported folder
TEXT_FILES = (".txt", ".vec")


@dataclass(frozen=True, kw_only=True)
class WordVectors:
    """One vector per word."""

    folder: Path
    words: tuple[str, ...]  # most frequent first
    vectors: np.ndarray  # (words, width) float32
    lowercase: bool = False  # words of a text are lower-cased before they are looked up

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    def written(self, word: str) -> str:
        return word.lower() if self.lowercase else word

    def vector(self, word: str) -> np.ndarray:
        """(width,) of a word, which must be known."""
        if (number := self.numbers.get(self.written(word))) is None:
            raise InputError(
                tr(
                    "{folder} has no vector for '{word}'.{hint} It has {words:,} words.",
                    folder=self.folder,
                    word=word,
                    hint=nearest(word, self.words),
                    words=len(self.words),
                )
            )
        return self.vectors[number]

    def neighbours(self, word: str, top: int) -> list[tuple[str, float]]:
        """The words with the highest cosine, and the cosine."""
        cosines = unit(self.vectors) @ unit(self.vector(word))
        cosines[self.numbers[self.written(word)]] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(top, len(self.words) - 1)]
        return [(self.words[number], float(cosines[number])) for number in best]

    def known(self, text: str) -> list[tuple[str, list[int]]]:
        """The words of a text that have a vector, and where they begin and end."""
        found = ((self.written(text[begin:end]), [begin, end]) for begin, end in spans_of([text])[0].tolist())
        return [(word, span) for word, span in found if word in self.numbers]

    def embed(self, text: str, level: str = "sentence") -> np.ndarray:
        """(width,) the mean over the known words of a text, 0 if it has none; or (words, width) of each."""
        found = self.vectors[[self.numbers[word] for word, _ in self.known(text)]]
        return found if level == "token" else found.mean(0) if len(found) else np.zeros(self.width, dtype=np.float32)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1; zeros stay zeros."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def words_of(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text, Chinese ones by jieba."""
    return [
        [text[begin:end] for begin, end in spans.tolist()] for text, spans in zip(texts, spans_of(texts), strict=True)
    ]


def spans_of(texts: Sequence[str]) -> list[np.ndarray]:
    """(W, 2) of each text: where its words begin and end."""
    if not texts:
        return []
    plain = [text.replace("\n", " ") for text in texts]
    spans = Jieba().build().spans(plain).words
    begins = np.cumsum([0, *(len(text) + 1 for text in plain)])
    cuts = np.searchsorted(spans[:, 0], begins[1:-1])
    return [part - begin for part, begin in zip(np.split(spans, cuts), begins[:-1], strict=True)]


def read_run(run: RunFolder) -> WordVectors:
    """The vectors that `plm pretrain skipgram` or `plm import` wrote."""
    record = run.record
    assert isinstance(record, VectorsRecord)
    run.check()
    vectors = run.weights()[VECTORS].numpy()
    words = tuple((run.path / WORDS).read_text(encoding="utf-8").split("\n")[:-1])
    if len(words) != len(vectors):
        raise CheckpointError(
            tr(
                "{folder} has {words:,} words, but {vectors:,} vectors. Copy the folder again.",
                folder=run.path,
                words=len(words),
                vectors=len(vectors),
            )
        )
    return WordVectors(folder=run.path, words=words, vectors=vectors, lowercase=record.lowercase)


def is_static(path: Path) -> bool:
    """Whether it is a run folder of word vectors, or a text file of them."""
    if path.is_file():
        return path.suffix in TEXT_FILES
    return isinstance(RunFolder(path).record, VectorsRecord)


def load_vectors(path: Path) -> WordVectors:
    return read_text(path) if path.is_file() else read_run(RunFolder(path))


def read_text(path: Path) -> WordVectors:
    """word2vec's text format, whose first line has the numbers of words and dimensions, or GloVe's, which has none."""
    words: list[str] = []
    rows: list[np.ndarray] = []
    width = 0
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            parts = line.rstrip().split(" ")
            if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                width = int(parts[1])
                continue
            width = width or len(parts) - 1
            word = " ".join(parts[: len(parts) - width])  # some words of GloVe contain a space
            try:
                row = np.array(parts[len(parts) - width :], dtype=np.float32)
            except ValueError:
                row = np.zeros(0, dtype=np.float32)
            if not word or not width or len(row) != width:
                raise InputError(
                    tr(
                        "{path}, line {line}: expected a word and its numbers, as many as in the other lines (the "
                        "text formats of word2vec and GloVe).",
                        path=path,
                        line=number,
                    )
                )
            words.append(word)
            rows.append(row)
    if not rows:
        raise InputError(tr("{path} has no word vectors.", path=path))
    return WordVectors(folder=path, words=tuple(words), vectors=np.stack(rows))


def write_text(vectors: WordVectors, path: Path) -> None:
    """word2vec's text format, which gensim and others open."""
    with reported_os_errors(path.parent), new_file(path) as partial, open(partial, "w", encoding="utf-8") as file:
        file.write(f"{len(vectors.words)} {vectors.width}\n")
        for word, row in zip(vectors.words, vectors.vectors, strict=True):
            file.write(f"{word} {' '.join(f'{value:.9g}' for value in row.tolist())}\n")


def import_vectors(path: Path, out: Path) -> WordVectors:
    """A run folder with the vectors of a text file."""
    run, found = RunFolder(out), read_text(path)
    run.claim()
    with run.lock():
        result = {"words": len(found.words), "width": found.width}
        write_run(run, VectorsRecord(run=Machine(), seed=0, corpora=(str(path),), result=result), found)
    return found


def write_run(run: RunFolder, record: VectorsRecord, vectors: WordVectors) -> VectorsRecord:
    """Write the vectors and the record of the finished run, while the folder is locked."""
    finished = replace(record, state=FINISHED, checksum=save(run, vectors.words, vectors.vectors))
    run.write(finished)
    seal(run.path, [RUN_FILE, WEIGHTS, WORDS])
    return finished


def save(run: RunFolder, words: Sequence[str], vectors: np.ndarray) -> str:
    """Write both files; returns the checksum of the vectors."""
    with reported_os_errors(run.path), new_file(run.path / WORDS) as partial:
        partial.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return run.save_weights({VECTORS: torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))})
