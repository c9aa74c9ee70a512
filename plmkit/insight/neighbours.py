"""The nearest words of a word: by its one vector, or by its vector in a sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from plmkit.data.corpus import Corpus, open_corpus
from plmkit.data.reading.words import Sentence
from plmkit.data.text import split_sentences
from plmkit.demo.docstrings import docstring_corpus
from plmkit.errors import InputError, nearest
from plmkit.insight.word_states import word_states
from plmkit.language import tr
from plmkit.segmentation.characters import LETTER, codes_of, kinds_of
from plmkit.storage.files import cache_folder
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import PretrainRecord, RunRecord, VectorsRecord
from plmkit.vectors.word_vectors import WordVectors, spans_of, unit

if TYPE_CHECKING:
    from plmkit.inference.reader import Reader
    from plmkit.terminal.screen import Screen

SENTENCES = 2_000  # of a corpus that are compared, at most
READ = 50_000  # sentences that they are sampled from
AROUND = 16  # characters shown on each side of a word


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A near word."""

    word: str
    cosine: float
    text: str | None = None  # where it occurs; None: its vector is that of all its occurrences


def static_neighbours(vectors: WordVectors, word: str, top: int) -> list[Neighbour]:
    return [Neighbour(word=other, cosine=cosine) for other, cosine in vectors.neighbours(word, top)]


def contextual_neighbours(
    model: Reader, word: str, context: str | None, sample: Sequence[Sentence], top: int, layer: int | None = None,
    screen: Screen | None = None,
) -> list[Neighbour]:  # fmt: skip
    """The occurrences in a sample that are nearest to the word in its sentence; of each word the nearest one."""
    here = sentence_with(word, context)
    layers = [model.architecture.layers if layer is None else layer]
    own = word_states(model, [here], layers=layers)
    if not len(own.words):
        raise InputError(
            tr("'{word}' lies beyond the {length} tokens that {folder} reads. Shorten the sentence.", word=word,
               length=model.max_length, folder=model.folder)
        )  # fmt: skip
    others = word_states(model, sample, layers=layers, screen=screen)
    if not len(others.words):
        raise InputError(tr("The corpus has no words to compare with. Give another: --corpus FILE"))
    cosines = unit(others.layers[0]) @ unit(own.layers[0][0])
    found: dict[str, Neighbour] = {}
    for place in np.argsort(-cosines, kind="stable").tolist():
        sentence, number = sample[others.sentences[place]], int(others.words[place])
        other = sentence.words[number]
        if other.lower() not in found and sentence.text != here.text and is_word(other):
            text = around(sentence, number)
            found[other.lower()] = Neighbour(word=other, cosine=float(cosines[place]), text=text)
        if len(found) == top:
            break
    return list(found.values())


def is_word(word: str) -> bool:
    """Whether it has a letter: punctuation marks are no neighbours."""
    return any(letter.isalnum() for letter in word)


def around(sentence: Sentence, number: int) -> str:
    """The word with a few characters before and after it."""
    begin, end = sentence.spans[number].tolist()
    first, last = max(0, begin - AROUND), min(len(sentence.text), end + AROUND)
    return ("…" if first else "") + sentence.text[first:last] + ("…" if last < len(sentence.text) else "")


def sentence_with(word: str, context: str | None) -> Sentence:
    """The sentence, of which only the first occurrence of the word counts; without one, the word alone."""
    if not word.strip():
        raise InputError(tr("The word is empty. Give a word."))
    text = word if context is None else context
    place = place_of(word, text)
    if place is None:
        words = [text[begin:end] for begin, end in spans_of([text])[0].tolist()]
        raise InputError(
            tr(
                "'{word}' is not in the sentence '{context}'.{hint}",
                word=word,
                context=text,
                hint=nearest(word, words),
            )
        )
    return Sentence(text=text, spans=np.array([[place, place + len(word)]]))


def place_of(word: str, text: str) -> int | None:
    """Where a word begins in a text: as it is written, or in other case; never inside a longer run of letters."""
    letters = kinds_of(codes_of(text)) == LETTER
    for flags in (re.NOFLAG, re.IGNORECASE):
        pattern = re.compile(re.escape(word), flags)
        found = pattern.search(text)
        while found:
            begin, end = found.span()
            inside = (begin and letters[begin - 1] and letters[begin]) or (
                end < len(text) and letters[end] and letters[end - 1]
            )
            if not inside:
                return begin
            found = pattern.search(text, begin + 1)
    return None


def sample_of(corpus: Corpus, count: int = SENTENCES) -> list[Sentence]:
    """Sentences of a corpus, always the same ones."""
    found: list[str] = []
    for document in corpus.documents():
        found += [sentence for paragraph in document.paragraphs for sentence in split_sentences(paragraph)]
        if len(found) >= READ:
            break
    found = list(dict.fromkeys(found))
    chosen = random.Random(0).sample(found, count) if len(found) > count else found
    return [Sentence(text=text, spans=spans) for text, spans in zip(chosen, spans_of(chosen), strict=True)]


def own_corpus(folders: Sequence[Path]) -> Corpus:
    """The text that one of the models was trained on, if it is still there; or the documentation on this machine."""
    for folder in folders:
        record = RunFolder(folder).record if folder.is_dir() else None
        if has_text(record) and (paths := [path for path in record.corpora if Path(path).exists()]):
            run = record.run
            return open_corpus(paths, layout=run.layout, column=run.column, header=run.header)
    return open_corpus([docstring_corpus(cache_folder())])


def has_text(record: RunRecord | None) -> TypeGuard[PretrainRecord | VectorsRecord]:
    """Whether it names a corpus of texts: not pairs, captions, or a file of vectors."""
    if isinstance(record, PretrainRecord):
        return not record.recipe.architecture.translates and not record.recipe.architecture.describes_images
    return isinstance(record, VectorsRecord) and record.skipgram is not None
