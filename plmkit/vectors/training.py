"""`plm pretrain skipgram`: a corpus → one vector per word, by gensim."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plmkit.config.machine import Machine
from plmkit.config.settings import assign, checked, cut
from plmkit.data.corpus import Corpus, open_corpus
from plmkit.demo.docstrings import docstring_corpus
from plmkit.errors import FolderError, InputError, SettingError
from plmkit.language import comma, tr
from plmkit.storage.files import cache_folder
from plmkit.terminal.screen import Screen
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import VectorsRecord
from plmkit.vectors.settings import SkipGram
from plmkit.vectors.word_vectors import WordVectors, words_of, write_run

READ = ("threads", "layout", "column", "header")  # the settings of `run` that matter here
BLOCK = 1000  # paragraphs that are segmented at once


@dataclass(frozen=True, kw_only=True)
class SkipGramRequest:
    """A request for word vectors."""

    corpora: tuple[str, ...]
    out: Path
    settings: SkipGram = SkipGram()
    machine: Machine = Machine()
    seed: int = 0


def settle_skipgram(assignments: Sequence[str], column: str | None, header: bool) -> tuple[SkipGram, Machine]:
    """Apply `--set`: names start with `skipgram` or `run`."""
    settings, machine = SkipGram(), Machine(column=column, header=header)
    for name, text in map(cut, assignments):
        root, *path = name.split(".")
        if root == "skipgram" and path:
            settings = assign(settings, path, text, name)
        elif root == "run" and len(path) == 1 and path[0] in READ:
            machine = assign(machine, path, text, name)
        else:
            raise SettingError(
                tr(
                    "There is no setting '{name}' for skipgram. Its settings start with skipgram, or are {run}: `plm "
                    "recipes skipgram` lists them.",
                    name=name,
                    run=comma().join(f"run.{one}" for one in READ),
                )
            )
    return checked(settings), checked(machine)


def train_vectors(request: SkipGramRequest, screen: Screen) -> VectorsRecord:
    """Train and save; a finished run with the same settings and corpus is returned as it is."""
    run = RunFolder(request.out)
    record = VectorsRecord(
        run=request.machine, seed=request.seed, skipgram=request.settings, corpora=request.corpora,
        lowercase=request.settings.lowercase,
    )  # fmt: skip
    if run.record is None:
        run.claim()
    elif not isinstance(run.record, VectorsRecord) or run.differences(record):
        raise FolderError(tr("--out {out} holds another run. Use another folder.", out=request.out))
    machine = request.machine
    paths = request.corpora or (str(docstring_corpus(cache_folder())),)
    corpus = open_corpus(paths, layout=machine.layout, column=machine.column, header=machine.header)
    if isinstance(run.record, VectorsRecord):
        if run.record.corpus_key not in (None, corpus.fingerprint()):
            raise FolderError(
                tr(
                    "{out} holds vectors of other text: the corpus has changed since they were trained. Give the same "
                    "corpus, or use another --out.",
                    out=request.out,
                )
            )
        screen.say(tr("{out} holds the finished run already.", out=request.out))
        return run.record
    record = replace(record, corpus_key=corpus.fingerprint())
    began = time.perf_counter()
    words, vectors, result = fit(corpus, request, screen)
    result["seconds"] = round(time.perf_counter() - began, 1)
    with run.lock():  # nothing is written before all is there: training takes minutes, and is not resumed
        return write_run(
            run, replace(record, result=result), WordVectors(folder=request.out, words=tuple(words), vectors=vectors)
        )


def fit(corpus: Corpus, request: SkipGramRequest, screen: Screen) -> tuple[list[str], Any, dict[str, Any]]:
    """The words, their vectors, and what was read."""
    settings = request.settings
    with TemporaryDirectory() as folder:
        file, total = Path(folder) / "words.txt", 0
        with open(file, "w", encoding="utf-8") as lines, screen.counting(tr("reading words"), corpus.size) as advance:
            for words in paragraphs(corpus, settings.lowercase, advance):
                total += len(words)
                lines.write(" ".join(words) + "\n")
        if (threads := request.machine.threads or 1) > 1:
            screen.say(tr("With run.threads above 1, vectors differ a little between runs of the same seed."))
        from gensim.models import Word2Vec

        try:
            model = Word2Vec(
                corpus_file=str(file), sg=1, hs=0, vector_size=settings.width, window=settings.window,
                negative=settings.negatives, epochs=settings.epochs, min_count=settings.min_count,
                sample=settings.subsample, alpha=settings.learning_rate, seed=request.seed % 2**32, workers=threads,
            )  # fmt: skip
        except RuntimeError as error:  # gensim's word for an empty vocabulary
            raise InputError(
                tr(
                    "No word of {corpus} occurs {count} times. Use more text, or --set skipgram.min_count=1.",
                    corpus=corpus.name,
                    count=settings.min_count,
                )
            ) from error
    found = list(model.wv.index_to_key)
    return found, model.wv.vectors, {"words": len(found), "width": settings.width, "tokens": total}


def paragraphs(corpus: Corpus, lowercase: bool, advance: Any) -> Iterator[list[str]]:
    """The words of each paragraph."""
    block: list[str] = []
    for document in corpus.documents(advance):
        block += document.paragraphs
        if len(block) >= BLOCK:
            yield from segmented(block, lowercase)
            block = []
    yield from segmented(block, lowercase)


def segmented(block: list[str], lowercase: bool) -> list[list[str]]:
    return words_of([text.lower() for text in block] if lowercase else block)
