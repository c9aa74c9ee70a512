"""Everything a run needs of its text: tokenizer, tokens on disk, samples, held-out batches."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.config.machine import Settings
from plmkit.corruption.arrange.triples import HEAD, TAIL, names_of_terms
from plmkit.data.batch import Batch
from plmkit.data.caption_corpus import open_captions
from plmkit.data.corpus import Corpus, open_corpora, open_corpus
from plmkit.data.graph import Graph
from plmkit.data.graph_corpus import GraphCorpus
from plmkit.data.mixture_source import FedStream, MixtureSource, seed_of
from plmkit.data.pair_corpus import open_pairs
from plmkit.data.reading.cells import where
from plmkit.data.samples import Samples, split
from plmkit.data.shards import TokenStore, load_store, open_store, store_folder, store_key
from plmkit.demo.docstrings import docstring_corpus
from plmkit.errors import SettingError
from plmkit.fit import kind_of
from plmkit.initialisation.corpus import token_vectors
from plmkit.interop.hub import find_tokenizer
from plmkit.language import comma, tr
from plmkit.preparation.counts import frequencies_of, prepared
from plmkit.preparation.triples import opened_triples, reads_triples
from plmkit.recipe import DataStream, Recipe
from plmkit.segmentation.choosing import ToolSegmenter, segmenter_of
from plmkit.storage.files import cache_folder, new_folder
from plmkit.storage.manifest import is_whole, seal
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import Tokenizer, load_tokenizer
from plmkit.training.device import available_cores
from plmkit.training.memory import check_vocabulary

FORMAT = 1  # of a cached tokenizer: increase when its files or how they are made change
VALID_ROWS = 32
VALID_STREAMS = 4  # few, so that most predicted tokens have a memory
VALID_TOKENS = 20_000  # of held-out text that are scored, at most
VOCABULARY_CHARACTERS = 100_000_000  # sampled evenly from the corpus to train a tokenizer on


@dataclass(frozen=True, kw_only=True)
class Part:
    """Documents of a store to train on, and others that are held out, perhaps of another one."""

    store: TokenStore
    documents: np.ndarray
    held_store: TokenStore
    held_documents: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Material:
    """A corpus, ready to train on."""

    tokenizer: Tokenizer
    main: Part  # what the first stream reads: all of it, unless text stands beside triples
    beside: Part | None = None  # the text beside triples
    streams: Mapping[str, Samples]  # of the recipe's streams, by name
    graph: Graph | None = None  # of triples
    key: str  # of the tokens: changes when the text, the tokenizer or the segmenter does
    notes: tuple[str, ...]
    names: tuple[str, ...]  # of the corpora, in the order of `store.sources`

    @property
    def store(self) -> TokenStore:
        return self.main.store

    @property
    def valid_store(self) -> TokenStore:
        return self.main.held_store

    @property
    def valid_documents(self) -> np.ndarray:
        return self.main.held_documents

    @property
    def samples(self) -> Samples:
        """Of the first stream; all read the same documents, unless text stands beside triples."""
        return next(iter(self.streams.values()))

    def read_by(self, stream: DataStream) -> Part:
        """The documents of a stream."""
        return self.main if self.beside is None or stream.arrangement.triples else self.beside

    def source(self, recipe: Recipe, seed: int) -> MixtureSource:
        """The batches of a run."""
        fed = {
            stream.name: FedStream(
                feed=self.streams[stream.name],
                place=stream.reads_from,
                heads=None if stream.heads is None else frozenset(stream.heads),
                weight=stream.weight,
            )
            for stream in recipe.streams
        }
        return MixtureSource(fed, recipe.stages, seed=seed)

    @cached_property
    def frequencies(self) -> np.ndarray:
        """How often each token of the vocabulary occurs in the training text."""
        counts = frequencies_of(self.store, self.samples.documents, len(self.tokenizer.vocabulary))
        if "end" in self.samples.arrange.needs:  # which the arrangement puts after every document
            counts[self.tokenizer.vocabulary.end] += len(self.samples.documents)
        return counts

    def cooccurrence_embeddings(self, width: int, seed: int) -> np.ndarray:
        """(vocabulary, width) token embeddings from co-occurrence counts of the training text."""
        return token_vectors(self.store, self.samples.documents, len(self.tokenizer.vocabulary), width, seed)

    def entity_names(self) -> tuple[list[list[int]], list[int]]:
        """The tokens of the name of each entity of the graph, and in how many training triples it occurs."""
        assert self.store.triples is not None
        triples = np.asarray(self.store.triples[self.main.documents])
        names, _ = names_of_terms(self.store)
        counts = np.bincount(triples[:, [HEAD, TAIL]].ravel(), minlength=len(names))
        return [self.store.tokens[begin:end].tolist() for begin, end in names.tolist()], counts.tolist()

    def valid_batches(self, recipe: Recipe, seed: int) -> dict[str, list[Batch]]:
        """Held-out batches by stream, always with the same masks at the paper's rate, so that losses are comparable.

        Rows have the length of the stream's first stage to the end of the run: one curve, whatever the stages.
        Streams that differ in training only, such as those of ERNIE's stages, share one set.
        """
        sets: dict[tuple[Any, ...], DataStream] = {}
        for stream in recipe.streams:
            if not len(self.read_by(stream).held_documents):
                continue
            steps = tuple(step.for_validation() for step in stream.steps)
            sets.setdefault((steps, stream.heads, recipe.first_stage(stream).length), stream.with_steps(steps))
        return {stream.name: self.held_out(stream, length, seed) for (_, _, length), stream in sets.items()}

    def held_out(self, stream: DataStream, length: int, seed: int) -> list[Batch]:
        """Batches of held-out rows of a stream."""
        vocabulary = self.tokenizer.vocabulary
        part = self.read_by(stream)
        corruption = prepared(stream.steps, part.store, part.documents, len(vocabulary), seed)
        samples = Samples(part.held_store, part.held_documents, corruption, vocabulary, seed=seed)
        at_once = VALID_STREAMS if samples.continues else VALID_ROWS
        plan, order = samples.plan(0, length, at_once)
        each = length if plan.lengths is None else max(1, plan.tokens() // len(plan))
        rows = min(len(order), max(VALID_ROWS, VALID_TOKENS // each))
        if samples.continues:
            at_once = min(at_once, len(order))
            rows -= rows % at_once  # a memory has a fixed number of streams
        heads = None if stream.heads is None else frozenset(stream.heads)
        starts = range(0, rows, at_once)
        return [replace(samples.batch(0, at, min(at_once, rows - at), length), heads=heads) for at in starts]


def prepare(
    settings: Settings,
    paths: Sequence[str],
    valid: str | None,
    seed: int,
    screen: Screen,
    *,
    tokenizer: Path | None = None,
    without: Collection[Path] = (),
) -> Material:
    """Read the corpora without some of their files, train a tokenizer if none is given, tokenize, hold out text."""
    recipe, machine = settings.recipe, settings.run
    segmenter = segmenter_of(recipe.corruption)
    if segmenter is not None:
        segmenter.check()
    texts: list[str] = []  # beside triples
    reading: dict[str, Any] = {"layout": machine.layout, "column": machine.column, "header": machine.header}
    if recipe.architecture.image_pixels is None and (machine.image_column or machine.image_folder):
        raise SettingError(
            tr("--image and --images are for captions; {recipe} reads text. Leave them out.", recipe=recipe.name)
        )
    if recipe.architecture.image_pixels is not None:
        opened = open_captions(
            paths, recipe.architecture.image_pixels, valid=valid, image_column=machine.image_column,
            images=machine.image_folder, **reading,
        )  # fmt: skip
    elif reads_pairs(recipe):
        opened = open_pairs(paths, valid=valid, **reading)
    elif reads_triples(recipe):
        graphs, texts = opened_triples(paths, machine, valid)
        opened = list(graphs)
    else:
        opened = open_corpora(paths, valid=valid, without=without, **reading)
    corpora = opened[: len(opened) - bool(valid)] or [embedded(screen)]
    beside = open_corpora(texts, **reading) if texts else []
    if machine.weights and len(machine.weights) != len(corpora):
        raise SettingError(
            tr(
                "run.weights has {weights} numbers for {corpora} corpora. Give one per corpus.",
                weights=len(machine.weights),
                corpora=len(corpora),
            )
        )
    held_out = opened[-1:] if valid else []
    notes = tuple(note for corpus in [*corpora, *held_out, *beside] for note in corpus.notes)
    for note in notes:
        screen.say(note)
    arrangements = [stream.arrangement for stream in recipe.streams]
    needed = tuple(dict.fromkeys(role for one in arrangements for role in one.needs))
    ready = (
        load_tokenizer(find_tokenizer(tokenizer), needed)
        if tokenizer
        else trained_tokenizer(recipe, [*corpora, *beside], screen)
    )
    if lacking := ready.vocabulary.lacks(needed):
        raise SettingError(
            tr(
                "{name} needs a tokenizer with the special tokens {needed}; {tokenizer} has no {missing}. Choose "
                "another (--set tokenizer=ByteBPE has all).",
                name=recipe.name,
                needed=comma().join(needed),
                tokenizer=kind_of(recipe.tokenizer),
                missing=comma().join(lacking),
            )
        )
    making = Making(ready, segmenter, settings, seed, screen)
    main = making.triples(corpora, held_out) if reads_triples(recipe) else making.part(corpora, held_out)
    other = making.part(beside, []) if beside else None
    read = {stream.name: main if other is None or stream.arrangement.triples else other for stream in recipe.streams}
    for stream in recipe.streams:
        part = read[stream.name]
        place = first_place((corpora if part is main else beside)[0])
        stream.arrangement.check(part.store, part.documents, place)
    places = list(dict.fromkeys(stream.reads_from for stream in recipe.streams))
    streams = {
        stream.name: Samples(
            part.store, part.documents,
            prepared(stream.steps, part.store, part.documents, len(ready.vocabulary), seed),
            ready.vocabulary, seed=seed_of(seed, places.index(stream.reads_from)),
            weights=machine.weights if part is main else (),
        )
        for stream in recipe.streams for part in [read[stream.name]]
    }  # fmt: skip
    for samples in streams.values():
        samples.check(recipe.max_length)
    return Material(
        tokenizer=ready,
        main=main,
        beside=other,
        streams=streams,
        graph=graph_of(corpora, recipe),
        key=store_key([*corpora, *beside], ready, segmenter),
        notes=notes,
        names=tuple(corpus.name for corpus in corpora),
    )


def graph_of(corpora: Sequence[Corpus], recipe: Recipe) -> Graph | None:
    """The graph of triples, and whether the recipe predicts their heads."""
    found = next((corpus.graph for corpus in corpora if isinstance(corpus, GraphCorpus)), None)
    asks_heads = any(stream.arrangement.asks_heads for stream in recipe.streams)
    return found and replace(found, asks_heads=asks_heads)


@dataclass(frozen=True)
class Making:
    """Corpora as tokens, some of their documents held out."""

    tokenizer: Tokenizer
    segmenter: ToolSegmenter | None
    settings: Settings
    seed: int
    screen: Screen

    def part(self, corpora: Sequence[Corpus], held_out: Sequence[Corpus]) -> Part:
        """With a corpus of held-out text, or with a share of the documents held out."""
        store = self.tokens(corpora)
        if held_out:
            held = self.tokens(held_out)
            every, others = (np.arange(len(one.documents) - 1) for one in (store, held))
            return Part(store=store, documents=every, held_store=held, held_documents=others)
        return self.split(store)

    def triples(self, corpora: Sequence[Corpus], held_out: Sequence[Corpus]) -> Part:
        """The same in one store: a held-out triple is true, and its entities are those of the others."""
        store = self.tokens([*corpora, *held_out])
        if not held_out:
            return self.split(store)
        held = np.asarray(store.sources) == len(corpora)
        return Part(
            store=store, documents=np.flatnonzero(~held), held_store=store, held_documents=np.flatnonzero(held)
        )  # fmt: skip

    def split(self, store: TokenStore) -> Part:
        parts = split(store, seed=self.seed, share=self.settings.run.valid_share)
        return Part(store=store, documents=parts.train, held_store=store, held_documents=parts.valid)

    def tokens(self, corpora: Sequence[Corpus]) -> TokenStore:
        return tokens_of(corpora, self.tokenizer, self.segmenter, self.settings, self.screen)


def reads_pairs(recipe: Recipe) -> bool:
    return any(stream.arrangement.pairs for stream in recipe.streams)


def first_place(corpus: Corpus) -> str:
    """File and line of the first document, as errors show it."""
    document = next(corpus.documents())
    return where(document.source, document.line)


def embedded(screen: Screen) -> Corpus:
    """Text that every machine has: documentation."""
    screen.say(tr("No corpus given: using the documentation of Python, torch and numpy on this machine."))
    found = open_corpus([docstring_corpus(cache_folder())], layout="blank-lines")
    return replace(found, name=tr("documentation on this machine"))


def tokens_of(
    corpora: Sequence[Corpus],
    tokenizer: Tokenizer,
    segmenter: ToolSegmenter | None,
    settings: Settings,
    screen: Screen,
) -> TokenStore:
    processes = settings.run.reader_workers or available_cores()
    folder = store_folder(corpora, tokenizer, cache_folder(), segmenter)
    if is_usable(folder, tr("tokenized text"), screen):
        return load_store(folder)
    doing = (
        tr("reading text")
        if segmenter is None
        else tr("reading text, finding {level} boundaries", level=segmenter.finds[-1])
    )
    with screen.reading(doing, sum(corpus.size for corpus in corpora)) as advance:
        return open_store(
            corpora, tokenizer, cache_folder(), segmenter=segmenter, processes=processes, on_progress=advance
        )


def is_usable(folder: Path, what: str, screen: Screen) -> bool:
    """Is it in the cache, undamaged? Damage is reported."""
    whole = is_whole(folder)
    if folder.exists() and not whole:
        screen.say(tr("! {folder} is damaged: the cached {what} is made again.", folder=folder, what=what))
    return whole


def trained_tokenizer(recipe: Recipe, corpora: Sequence[Corpus], screen: Screen) -> Tokenizer:
    """A tokenizer for this text, from the cache if it was trained on this text with these settings before."""
    parts = [f"tokenizer {FORMAT}", str(recipe.tokenizer), *(corpus.fingerprint() for corpus in corpora)]
    key = hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
    folder = cache_folder() / "tokenizers" / key
    if not is_usable(folder, tr("vocabulary"), screen):
        check_vocabulary(recipe.tokenizer.size)
        total = sum(corpus.size for corpus in corpora)
        with screen.reading(tr("training the tokenizer"), total) as advance:
            made = recipe.tokenizer.train(sample_text(corpora, total, advance))
        with new_folder(folder) as partial:
            made.save(partial)
            seal(partial)
    return load_tokenizer(folder)


def sample_text(corpora: Sequence[Corpus], total: int, advance: Callable[[int], None]) -> Iterator[str]:
    """Every n-th document, such that a large corpus gives about a hundred million characters."""
    every = max(1, total // (2 * VOCABULARY_CHARACTERS))
    for corpus in corpora:
        for number, document in enumerate(corpus.documents(advance)):
            if number % every == 0:
                yield from document.paragraphs
