"""Text to tokens on disk: read once, kept under a hash of everything that made them, mapped into memory."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from plmkit.data.corpus import Corpus, Document
from plmkit.data.sentences import split_sentences
from plmkit.data.survey import Survey, survey_of
from plmkit.errors import InputError
from plmkit.files import new_folder, write_json
from plmkit.tokenizers.tokenizer import Tokenizer

FORMAT = 2  # count up when the files or the way they are made change
BLOCK_CHARACTERS = 500_000  # one worker's portion; a few of them are all that is in memory
SMALL_BYTES = 4_000_000  # below this, starting workers costs more than they save

OnProgress = Callable[[int], None]  # hears how many more bytes of the corpus are done


@dataclass(frozen=True, kw_only=True)
class TokenStore:
    """All tokens in one row, and where sentences and documents begin in it."""

    tokens: np.ndarray  # (T,) mapped from disk
    sentences: np.ndarray  # (S + 1,) token where each sentence begins, and the end
    documents: np.ndarray  # (D + 1,) sentence where each document begins, and the end
    sources: np.ndarray  # (D,) which of the corpora each document came from
    survey: Survey
    lines: np.ndarray | None = None  # (S,) True where a sentence begins a line of the file: a turn of a dialogue

    def stretch(self, document: int) -> tuple[int, int]:
        """Where a document's tokens begin and end."""
        begin, end = self.sentences[self.documents[document : document + 2]].tolist()
        return begin, end

    def document_tokens(self) -> np.ndarray:
        """(D,) how many tokens each document has."""
        return np.diff(self.sentences[self.documents])


@dataclass(frozen=True, kw_only=True)
class Portion:
    """What a worker makes of a block of documents."""

    tokens: np.ndarray
    sentence_lengths: np.ndarray
    lines: np.ndarray  # True where a sentence begins a line
    document_sentences: np.ndarray  # 0 for a document without a single token
    survey: Survey


def open_store(
    corpora: Sequence[Corpus],
    tokenizer: Tokenizer,
    cache: Path,
    *,
    processes: int = 1,
    on_progress: OnProgress | None = None,
) -> TokenStore:
    """The tokens of the corpora, from the cache where nothing changed, otherwise made now."""
    folder = store_folder(corpora, tokenizer, cache)
    if not (folder / "store.json").is_file():
        build_store(folder, corpora, tokenizer, processes, on_progress or (lambda size: None))
    return load_store(folder)


def store_folder(corpora: Sequence[Corpus], tokenizer: Tokenizer, cache: Path) -> Path:
    """Where the tokens are, or will be."""
    return cache / "tokens" / store_key(corpora, tokenizer)


def store_key(corpora: Sequence[Corpus], tokenizer: Tokenizer) -> str:
    parts = [f"store {FORMAT}", tokenizer.fingerprint(), *(corpus.fingerprint() for corpus in corpora)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def load_store(folder: Path) -> TokenStore:
    about = json.loads((folder / "store.json").read_text(encoding="utf-8"))
    parts = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in ("sentences", "documents", "sources", "lines")
    }
    tokens = np.memmap(folder / "tokens.bin", dtype=about["dtype"], mode="r")
    return TokenStore(tokens=tokens, survey=Survey.from_json(about["survey"]), **parts)


def build_store(
    folder: Path, corpora: Sequence[Corpus], tokenizer: Tokenizer, processes: int, on_progress: OnProgress
) -> None:
    dtype = np.dtype(np.uint16 if len(tokenizer.vocabulary) <= 2**16 else np.uint32)
    sentence_lengths, lines, document_sentences, sources = [], [], [], []
    survey = Survey()
    with new_folder(folder) as partial:
        with open(partial / "tokens.bin", "wb") as file:
            for number, corpus in enumerate(corpora):
                for portion in portions(corpus, tokenizer, processes, on_progress):
                    portion.tokens.astype(dtype).tofile(file)
                    sentence_lengths.append(portion.sentence_lengths.astype(np.int32))
                    lines.append(portion.lines)
                    kept = portion.document_sentences[portion.document_sentences > 0]
                    document_sentences.append(kept.astype(np.int32))
                    sources.append(np.full(len(kept), number, dtype=np.int16))
                    survey = survey + portion.survey
        if not sum(map(len, document_sentences)):
            names = ", ".join(str(source.path) for corpus in corpora for source in corpus.sources)
            raise InputError(f"No token is left of {names}: it holds no letters, signs or characters to learn from.")
        np.save(partial / "sentences.npy", borders(sentence_lengths))
        np.save(partial / "documents.npy", borders(document_sentences))
        np.save(partial / "lines.npy", np.concatenate(lines))
        np.save(partial / "sources.npy", np.concatenate(sources))
        write_json(partial / "store.json", {"dtype": dtype.name, "survey": asdict(survey.closed())})


def borders(lengths: list[np.ndarray]) -> np.ndarray:
    """Lengths to begins, with the end as the last."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(lengths), dtype=np.int64)])


def portions(corpus: Corpus, tokenizer: Tokenizer, processes: int, on_progress: OnProgress) -> Iterator[Portion]:
    """Blocks of the corpus as tokens, in order; never more than two blocks a worker are under way."""
    if processes <= 1 or corpus.size < SMALL_BYTES:
        for block in blocks(corpus, on_progress):
            yield tokenize(block, tokenizer)
        return
    waiting: deque[Future[Portion]] = deque()
    # spawned, not forked: a fork in a program with threads may never wake up
    with ProcessPoolExecutor(processes, get_context("spawn"), set_up_worker, (tokenizer,)) as pool:
        for block in blocks(corpus, on_progress):
            waiting.append(pool.submit(tokenize_in_worker, block))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def blocks(corpus: Corpus, on_progress: OnProgress) -> Iterator[list[Document]]:
    block: list[Document] = []
    size = 0
    for document in corpus.documents(on_progress):
        block.append(document)
        size += sum(map(len, document.paragraphs))
        if size >= BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


worker_tokenizer: Tokenizer | None = None  # each worker process has its own


def set_up_worker(tokenizer: Tokenizer) -> None:
    global worker_tokenizer
    worker_tokenizer = tokenizer


def tokenize_in_worker(block: list[Document]) -> Portion:
    assert worker_tokenizer is not None
    return tokenize(block, worker_tokenizer)


def tokenize(block: list[Document], tokenizer: Tokenizer) -> Portion:
    """Sentences of the block to tokens; empty sentences are dropped."""
    sentences: list[str] = []
    ends, line_ends = [0], [0]
    for document in block:
        for paragraph in document.paragraphs:
            is_first = len(sentences) == ends[-1]
            sentences.extend(tokenizer.going_on(split_sentences(paragraph), first=is_first))
            line_ends.append(len(sentences))
        ends.append(len(sentences))
    tokens, lengths = tokenizer.encode_many(sentences)
    line = np.repeat(np.arange(len(line_ends) - 1), np.diff(line_ends))[lengths > 0]  # of each sentence that is kept
    filled = np.concatenate([[0], np.cumsum(lengths > 0)])
    return Portion(
        tokens=tokens,
        sentence_lengths=lengths[lengths > 0],
        lines=np.diff(line, prepend=-1) > 0,
        document_sentences=np.diff(filled[ends]),
        survey=survey_of(block, tokens, int((lengths > 0).sum()), tokenizer.vocabulary.unknown),
    )
