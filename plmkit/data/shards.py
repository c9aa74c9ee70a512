"""Text to tokens on disk: tokenized once, cached under a hash of all that decides them, memory-mapped."""

import hashlib
import mmap
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.data.corpus import Corpus, Document
from plmkit.data.details import PLACES, Bits, find_capitals, find_connectives, find_repeats
from plmkit.data.feature_files import RegionFeatures, read_features
from plmkit.data.images import load_image
from plmkit.data.reading.cells import where
from plmkit.data.region_store import RegionStore
from plmkit.data.survey import Survey, survey_of
from plmkit.data.text import split_sentences
from plmkit.errors import InputError
from plmkit.language import comma, tr
from plmkit.segmentation.choosing import ToolSegmenter, fingerprint
from plmkit.segmentation.units import Finder, token_units
from plmkit.storage.files import new_folder, read_json, write_json
from plmkit.storage.manifest import is_whole, seal
from plmkit.tokenizers.pieces import groups
from plmkit.tokenizers.tokenizer import Tokenizer

FORMAT = 4  # increase when the files or how they are made change
DETAILS = {"capitals": 1, "repeats": 1, "connectives": 2}  # stored only if needed; increase when one changes
CAPITALS, REPEATS, CONNECTIVES, RELEVANCE = "capitals.bin", "repeats.bin", "connectives.npy", "relevance.npy"
TRIPLES = "triples.npy"
BLOCK_CHARACTERS = 500_000  # or bytes of images, per block of a worker; only a few blocks are in memory at once
USUAL_REGIONS = 36  # of an image, to estimate the bytes of its features
SMALL_BYTES = 4_000_000  # below this, starting workers costs more than they save

NO_TITLE = -1  # the relevance of a sentence that is not a title

OnProgress = Callable[[int], None]  # gets the number of further bytes of the corpus that are done


@dataclass(frozen=True, kw_only=True)
class TokenStore:
    """All tokens as one sequence, and where sentences and documents begin in it."""

    tokens: np.ndarray  # (T,) mapped from disk
    sentences: np.ndarray  # (S + 1,) token where each sentence begins, and the end
    documents: np.ndarray  # (D + 1,) sentence where each document begins, and the end
    sources: np.ndarray  # (D,) which of the corpora each document came from
    survey: Survey
    units: np.ndarray | None = None  # (T,) where words, phrases and entities begin, as bits; mapped from disk
    lines: np.ndarray | None = None  # (S,) True where a sentence begins a line of the file: a turn of a dialogue
    images: np.ndarray | None = None  # (D, 3, size, size) uint8, the image of each document; mapped from disk
    regions: RegionStore | None = None  # features of regions of these images, in place of the images
    capitals: np.ndarray | None = None  # (T / 8,) uint8, a bit per token: has the text a capital letter there?
    repeats: np.ndarray | None = (
        None  # (T, 2) uint16, how far before, and after, its document has the token first, last
    )
    relevance: np.ndarray | None = (
        None  # (S,) int8, how each title met the query before it; NO_TITLE: of other sentences
    )
    connectives: np.ndarray | None = None  # (C, 6) begin and end of two texts, their relation, and what connected them
    triples: np.ndarray | None = None  # (D, 3) the numbers of head, relation and tail of each document

    def uppercase(self, begin: int, end: int) -> np.ndarray:
        """(end - begin,) True where the text has a capital letter."""
        assert self.capitals is not None
        bits = np.unpackbits(self.capitals[begin >> 3 : (end + 7) >> 3])
        return bits[begin & 7 : (begin & 7) + end - begin].astype(bool)

    def recurs(self, begin: int, end: int) -> np.ndarray:
        """(end - begin,) int8, 1 where the document has the same token outside of this stretch, too, else 0.

        -1 everywhere if the document has no other text.
        """
        assert self.repeats is not None
        document = int(np.searchsorted(self.begins, begin, side="right")) - 1
        if begin == self.begins[document] and end == self.begins[document + 1]:
            return np.full(end - begin, -1, dtype=np.int8)
        places = np.arange(end - begin)
        before, after = self.repeats[begin:end].T
        outside: np.ndarray = (before > places) | (after >= len(places) - places)
        return outside.astype(np.int8)

    @cached_property
    def begins(self) -> np.ndarray:
        """(D + 1,) token where each document begins, and the end."""
        return np.asarray(self.sentences[self.documents])

    @cached_property
    def has_queries(self) -> np.ndarray:
        """(D,) True where a document is a query with its titles."""
        if self.relevance is None:
            return np.zeros(len(self.documents) - 1, dtype=bool)
        last = np.asarray(self.documents[1:]) - 1
        found: np.ndarray = np.asarray(self.relevance)[last] != NO_TITLE
        return found

    def stretch(self, document: int) -> tuple[int, int]:
        """Where a document's tokens begin and end."""
        begin, end = self.sentences[self.documents[document : document + 2]].tolist()
        return begin, end

    def document_tokens(self) -> np.ndarray:
        """(D,) number of tokens per document."""
        return np.diff(self.sentences[self.documents])


@dataclass(frozen=True, kw_only=True)
class Portion:
    """A block of documents, tokenized."""

    tokens: np.ndarray
    sentence_lengths: np.ndarray
    lines: np.ndarray  # True where a sentence begins a line
    document_sentences: np.ndarray  # 0 for a document without a single token
    survey: Survey
    units: np.ndarray | None = None
    images: np.ndarray | None = None  # of the documents with tokens
    regions: list[RegionFeatures] | None = None  # of these documents
    relevance: np.ndarray | None = None
    capitals: np.ndarray | None = None  # (T,) bool
    repeats: np.ndarray | None = None
    connectives: np.ndarray | None = None  # counted from the beginning of the portion
    triples: np.ndarray | None = None  # likewise


def open_store(
    corpora: Sequence[Corpus],
    tokenizer: Tokenizer,
    cache: Path,
    *,
    segmenter: ToolSegmenter | None = None,
    details: Collection[str] = (),
    processes: int = 1,
    on_progress: OnProgress | None = None,
) -> TokenStore:
    """The tokens of the corpora, with these details: from the cache if nothing changed, otherwise made now."""
    folder = store_folder(corpora, tokenizer, cache, segmenter, details)
    if not is_whole(folder):
        maker = Maker(
            tokenizer, segmenter, corpora[0].image_size, frozenset(details), corpora[0].region_width,
            corpora[0].region_classes,
        )  # fmt: skip
        build_store(folder, corpora, maker, processes, on_progress or (lambda size: None))
    return load_store(folder)


def store_folder(
    corpora: Sequence[Corpus], tokenizer: Tokenizer, cache: Path, segmenter: ToolSegmenter | None = None,
    details: Collection[str] = (),
) -> Path:  # fmt: skip
    """Where the tokens are, or will be."""
    return cache / "tokens" / store_key(corpora, tokenizer, segmenter, details)


def store_key(
    corpora: Sequence[Corpus], tokenizer: Tokenizer, segmenter: ToolSegmenter | None = None,
    details: Collection[str] = (),
) -> str:  # fmt: skip
    parts = [f"store {FORMAT}", tokenizer.fingerprint(), *(corpus.fingerprint() for corpus in corpora)]
    parts += [] if segmenter is None else [fingerprint(segmenter)]
    parts += [f"{name} {DETAILS[name]}" for name in sorted(details)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def load_store(folder: Path) -> TokenStore:
    about = read_json(folder / "store.json")
    parts = {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in ("sentences", "documents", "sources", "lines")
    }
    tokens = np.memmap(folder / "tokens.bin", dtype=about["dtype"], mode="r")
    has_units = (folder / "units.bin").is_file()
    units = np.memmap(folder / "units.bin", dtype=np.uint8, mode="r") if has_units else None
    images = None
    if size := about.get("image_size"):
        shape = len(parts["sources"]), 3, size, size
        images = np.memmap(folder / "images.bin", dtype=np.uint8, mode="r", shape=shape)
    regions = None if not about.get("region_width") else load_regions(folder, about)
    details: dict[str, np.ndarray] = {}
    if (folder / CAPITALS).is_file():
        details["capitals"] = np.memmap(folder / CAPITALS, dtype=np.uint8, mode="r")
    if (folder / REPEATS).is_file():
        details["repeats"] = np.memmap(folder / REPEATS, dtype=np.uint16, mode="r").reshape(-1, 2)
    for name, file in (("connectives", CONNECTIVES), ("relevance", RELEVANCE), ("triples", TRIPLES)):
        if (folder / file).is_file():
            details[name] = np.load(folder / file, mmap_mode="r", allow_pickle=False)
    return TokenStore(
        tokens=tokens,
        units=units,
        images=images,
        regions=regions,
        **details,
        survey=Survey.from_json(about["survey"]),
        **parts,
    )


def load_regions(folder: Path, about: dict[str, Any]) -> RegionStore:
    starts = np.load(folder / "regions.npy", mmap_mode="r", allow_pickle=False)
    widths = {"features": about["region_width"], "boxes": 4, "classes": about["region_classes"]}
    parts = {
        name: np.memmap(folder / f"{name}.bin", dtype=np.float32, mode="r", shape=(int(starts[-1]), width))
        for name, width in widths.items()
        if width
    }
    return RegionStore(starts=starts, **parts)


def let_go(mapped: np.ndarray) -> None:
    """Release the memory of a mapped file; pages that are needed again are read again."""
    mapping = getattr(mapped, "_mmap", None)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


class Maker:
    """Tokenizes text, finds its units if there is a segmenter, and reads images of a given size; one per process."""

    def __init__(
        self, tokenizer: Tokenizer, settings: ToolSegmenter | None, image_size: int | None = None,
        details: frozenset[str] = frozenset(), region_width: int | None = None, region_classes: int | None = None,
    ) -> None:  # fmt: skip
        self.tokenizer, self.settings, self.image_size, self.details = tokenizer, settings, image_size, details
        self.region_width, self.region_classes = region_width, region_classes
        self.segmenter: Finder | None = settings.build() if settings else None

    def __reduce__(self) -> tuple[Any, ...]:
        sizes = self.region_width, self.region_classes
        return Maker, (self.tokenizer, self.settings, self.image_size, self.details, *sizes)

    def units(self, sentences: list[str], lengths: np.ndarray) -> np.ndarray | None:
        """(T,) the units of sentences with these numbers of tokens."""
        if self.segmenter is None:
            return None
        parts, done = [np.zeros(0, dtype=np.uint8)], 0
        for group in groups(sentences, BLOCK_CHARACTERS):
            offsets = self.tokenizer.offsets_many(group)
            counts = lengths[done : done + len(group)]
            parts.append(token_units(self.segmenter.spans(group), group, offsets, counts))
            done += len(group)
        return np.concatenate(parts)

    def images(self, documents: Sequence[Document]) -> np.ndarray | None:
        """(D, 3, size, size) the images of documents."""
        if self.image_size is None:
            return None
        made = np.empty((len(documents), 3, self.image_size, self.image_size), dtype=np.uint8)
        for number, document in enumerate(documents):
            assert document.image is not None
            with row_named(document):
                made[number] = load_image(document.image, self.image_size)
        return made

    def regions(self, documents: Sequence[Document]) -> list[RegionFeatures] | None:
        """The regions of each document's image."""
        if self.region_width is None:
            return None
        made = []
        for document in documents:
            assert document.features is not None
            with row_named(document):
                made.append(read_features(document.features, self.region_width, self.region_classes))
        return made


@contextmanager
def row_named(document: Document) -> Iterator[None]:
    """What is wrong with the image of a document is said with its row."""
    try:
        yield
    except InputError as error:
        raise InputError(
            tr(
                "{where}: {problem}\nReplace the file, or remove the row.",
                where=where(document.source, document.line),
                problem=error,
            )
        ) from error


def build_store(folder: Path, corpora: Sequence[Corpus], maker: Maker, processes: int, on_progress: OnProgress) -> None:
    dtype = np.dtype(np.uint16 if len(maker.tokenizer.vocabulary) <= 2**16 else np.uint32)
    sentence_lengths, lines, document_sentences, sources, triples = [], [], [], [], []
    survey = Survey()
    relevance: list[np.ndarray] = []
    connectives, done = [np.zeros((0, 6), dtype=np.int64)], 0
    needs = maker.details.__contains__
    with new_folder(folder) as partial:
        with ExitStack() as files:
            tokens = files.enter_context(open(partial / "tokens.bin", "wb"))
            units = files.enter_context(open(partial / "units.bin", "wb")) if maker.segmenter else None
            images = files.enter_context(open(partial / "images.bin", "wb")) if maker.image_size else None
            regions = RegionWriter(partial, files, maker.region_classes) if maker.region_width else None
            capitals = Bits(files.enter_context(open(partial / CAPITALS, "wb"))) if needs("capitals") else None
            repeats = files.enter_context(open(partial / REPEATS, "wb")) if needs("repeats") else None
            for number, corpus in enumerate(corpora):
                for portion in portions(corpus, maker, processes, on_progress):
                    portion.tokens.astype(dtype).tofile(tokens)
                    if units is not None and portion.units is not None:
                        portion.units.tofile(units)
                    if images is not None and portion.images is not None:
                        portion.images.tofile(images)
                    if regions is not None:
                        regions.write(portion.regions or [])
                    if capitals is not None and portion.capitals is not None:
                        capitals.write(portion.capitals)
                    if repeats is not None and portion.repeats is not None:
                        portion.repeats.tofile(repeats)
                    if portion.connectives is not None:
                        connectives.append(portion.connectives + done * PLACES)
                    done += len(portion.tokens)
                    sentence_lengths.append(portion.sentence_lengths.astype(np.int32))
                    lines.append(portion.lines)
                    sentences = len(portion.sentence_lengths)
                    relevance.append(
                        np.full(sentences, NO_TITLE, dtype=np.int8) if portion.relevance is None else portion.relevance
                    )
                    kept = portion.document_sentences[portion.document_sentences > 0]
                    document_sentences.append(kept.astype(np.int32))
                    sources.append(np.full(len(kept), number, dtype=np.int16))
                    triples += [] if portion.triples is None else [portion.triples]
                    survey = survey + portion.survey
            if capitals is not None:
                capitals.close()
        if not sum(map(len, document_sentences)):
            names = comma().join(str(source.path) for corpus in corpora for source in corpus.sources)
            raise InputError(
                tr("{names} gives no tokens: the tokenizer drops all of its characters. Give other text.", names=names)
            )
        np.save(partial / "sentences.npy", borders(sentence_lengths))
        np.save(partial / "documents.npy", borders(document_sentences))
        np.save(partial / "lines.npy", np.concatenate(lines))
        np.save(partial / "sources.npy", np.concatenate(sources))
        if any((part != NO_TITLE).any() for part in relevance):
            np.save(partial / RELEVANCE, np.concatenate(relevance))
        if needs("connectives"):
            np.save(partial / CONNECTIVES, np.concatenate(connectives))
        if triples:
            np.save(partial / TRIPLES, np.concatenate(triples))
        about: dict[str, Any] = {"dtype": dtype.name, "survey": asdict(survey.closed())}
        if regions is not None:
            np.save(partial / "regions.npy", regions.starts())
            about |= {"region_width": maker.region_width, "region_classes": maker.region_classes}
        write_json(partial / "store.json", about | ({"image_size": maker.image_size} if maker.image_size else {}))
        seal(partial)


class RegionWriter:
    """Appends the regions of images to the files of a store."""

    def __init__(self, folder: Path, files: ExitStack, classes: int | None) -> None:
        names = ("features", "boxes", *(("classes",) if classes else ()))
        self.files: dict[str, Any] = {}
        for name in names:
            self.files[name] = files.enter_context((folder / f"{name}.bin").open("wb"))
        self.counts: list[int] = []

    def write(self, regions: Sequence[RegionFeatures]) -> None:
        for one in regions:
            for name, file in self.files.items():
                getattr(one, name).tofile(file)
            self.counts.append(len(one.features))

    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])


def borders(lengths: list[np.ndarray]) -> np.ndarray:
    """The start of each from their lengths, and the end."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(lengths), dtype=np.int64)])


def portions(corpus: Corpus, maker: Maker, processes: int, on_progress: OnProgress) -> Iterator[Portion]:
    """Blocks of the corpus as tokens, in order; at most two blocks per worker are in flight."""
    if processes <= 1 or corpus.size < SMALL_BYTES:
        for block in blocks(corpus, on_progress):
            yield tokenize(block, maker)
        return
    waiting: deque[Future[Portion]] = deque()
    # spawned, not forked: a fork in a program with threads may never wake up
    with ProcessPoolExecutor(processes, get_context("spawn"), set_up_worker, (maker,)) as pool:
        for block in blocks(corpus, on_progress):
            waiting.append(pool.submit(tokenize_in_worker, block))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def blocks(corpus: Corpus, on_progress: OnProgress) -> Iterator[list[Document]]:
    block: list[Document] = []
    size, pixels = 0, 3 * (corpus.image_size or 0) ** 2 + USUAL_REGIONS * 4 * (corpus.region_width or 0)  # bytes of one
    for document in corpus.documents(on_progress):
        block.append(document)
        size += pixels + sum(map(len, document.paragraphs))
        if size >= BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    if block:
        yield block


worker_maker: Maker | None = None  # each worker process has its own


def set_up_worker(maker: Maker) -> None:
    global worker_maker
    worker_maker = maker


def tokenize_in_worker(block: list[Document]) -> Portion:
    assert worker_maker is not None
    return tokenize(block, worker_maker)


def tokenize(block: list[Document], maker: Maker) -> Portion:
    """Sentences of the block to tokens; empty sentences are dropped."""
    sentences: list[str] = []
    ends, line_ends = [0], [0]
    for document in block:
        for paragraph in document.paragraphs:
            is_first = len(sentences) == ends[-1]
            if not document.is_split:  # each paragraph is a text of its own, and stays whole
                sentences.append(paragraph)
            else:
                sentences.extend(maker.tokenizer.with_spaces(split_sentences(paragraph), first=is_first))
            line_ends.append(len(sentences))
        ends.append(len(sentences))
    tokens, lengths = maker.tokenizer.encode_many(sentences)
    line = np.repeat(np.arange(len(line_ends) - 1), np.diff(line_ends))[lengths > 0]  # of each sentence that is kept
    filled = np.concatenate([[0], np.cumsum(lengths > 0)])
    document_sentences = np.diff(filled[ends])
    needs = maker.details.__contains__
    searched = [bounds for document, bounds in zip(block, pairwise(ends), strict=True) if document.is_split]
    kept = [document for document, count in zip(block, document_sentences, strict=True) if count]
    triples = [document.triple for document in kept if document.triple]
    return Portion(
        tokens=tokens,
        sentence_lengths=lengths[lengths > 0],
        lines=np.diff(line, prepend=-1) > 0,
        document_sentences=document_sentences,
        survey=survey_of(block, tokens, int((lengths > 0).sum()), maker.tokenizer.vocabulary.unknown),
        units=maker.units(sentences, lengths),
        relevance=relevance_of(block, ends)[lengths > 0] if any(document.relevance for document in block) else None,
        capitals=find_capitals(maker.tokenizer, sentences, lengths) if needs("capitals") else None,
        repeats=find_repeats(tokens, sizes_of(lengths, ends)) if needs("repeats") else None,
        connectives=find_connectives(maker.tokenizer, sentences, lengths, searched) if needs("connectives") else None,
        images=maker.images(kept),
        regions=maker.regions(kept),
        triples=np.array(triples, dtype=np.int64) if triples else None,
    )


def relevance_of(block: list[Document], ends: list[int]) -> np.ndarray:
    """(S,) how each title met its query; NO_TITLE for other sentences."""
    found = np.full(ends[-1], NO_TITLE, dtype=np.int8)
    for document, end in zip(block, ends[1:], strict=True):
        found[end - len(document.relevance) : end] = document.relevance
    return found


def sizes_of(lengths: np.ndarray, ends: list[int]) -> np.ndarray:
    """(D,) the tokens of the documents that end with these sentences."""
    return np.diff(np.append(0, np.cumsum(lengths))[ends])
