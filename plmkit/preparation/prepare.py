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
from plmkit.data.batch import Batch
from plmkit.data.caption_corpus import open_captions
from plmkit.data.corpus import Corpus, open_corpora, open_corpus
from plmkit.data.mixture_source import FedStream, MixtureSource, seed_of
from plmkit.data.pair_corpus import open_pairs
from plmkit.data.reading.cells import where
from plmkit.data.samples import Samples, split
from plmkit.data.shards import TokenStore, load_store, open_store, store_folder, store_key
from plmkit.demo.docstrings import docstring_corpus
from plmkit.errors import SettingError, printable
from plmkit.fit import kind_of
from plmkit.initialisation.corpus import token_vectors
from plmkit.interop.hub import find_tokenizer
from plmkit.language import comma, tr
from plmkit.preparation.counts import frequencies_of, prepared
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
class Material:
    """A corpus, ready to train on."""

    tokenizer: Tokenizer
    store: TokenStore
    valid_store: TokenStore
    streams: Mapping[str, Samples]  # of the recipe's streams, by name
    valid_documents: np.ndarray
    key: str  # of the tokens: changes when the text, the tokenizer or the segmenter does
    notes: tuple[str, ...]
    corpora: tuple[Corpus, ...]  # in the order of `store.sources`

    @property
    def samples(self) -> Samples:
        """Of the first stream; all read the same documents."""
        return next(iter(self.streams.values()))

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

    def valid_batches(self, recipe: Recipe, seed: int) -> dict[str, list[Batch]]:
        """Held-out batches by stream, always with the same masks at the paper's rate, so that losses are comparable.

        Rows have the length of the stream's first stage to the end of the run: one curve, whatever the stages.
        Streams that differ in training only, such as those of ERNIE's stages, share one set.
        """
        return self.batches_of(self.valid_documents, recipe, seed)

    def corpus_batches(self, recipe: Recipe, seed: int) -> dict[str, dict[str, list[Batch]]]:
        """The same of each corpus on its own, by its name; none with one corpus, or with text held out by --valid."""
        if len(self.names) < 2 or self.valid_store is not self.store:
            return {}
        sources = self.store.sources[self.valid_documents]
        found = {
            name: self.batches_of(self.valid_documents[sources == source], recipe, seed, len(self.names))
            for source, name in enumerate(self.short_names)
        }
        return {name: batches for name, batches in found.items() if batches}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the corpora."""
        return tuple(corpus.name for corpus in self.corpora)

    @property
    def short_names(self) -> tuple[str, ...]:
        """The names of the corpora without their folders, unless they would be the same."""
        short = tuple(Path(name).name for name in self.names)
        return tuple(map(printable, short if len(set(short)) == len(short) else self.names))

    def batches_of(self, documents: np.ndarray, recipe: Recipe, seed: int, parts: int = 1) -> dict[str, list[Batch]]:
        if not len(documents):
            return {}
        sets: dict[tuple[Any, ...], DataStream] = {}
        for stream in recipe.streams:
            steps = tuple(step.for_validation() for step in stream.steps)
            sets.setdefault((steps, stream.heads, recipe.first_stage(stream).length), stream.with_steps(steps))
        return {
            stream.name: self.held_out(documents, stream, length, seed, parts)
            for (_, _, length), stream in sets.items()
        }

    def held_out(self, documents: np.ndarray, stream: DataStream, length: int, seed: int, parts: int) -> list[Batch]:
        """Batches of held-out rows of a stream."""
        vocabulary = self.tokenizer.vocabulary
        corruption = prepared(stream.steps, self.store, self.samples.documents, len(vocabulary), seed)
        samples = Samples(self.valid_store, documents, corruption, vocabulary, seed=seed)
        at_once = VALID_STREAMS if samples.continues else VALID_ROWS
        plan, order = samples.plan(0, length, at_once)
        each = length if plan.lengths is None else max(1, plan.tokens() // len(plan))
        rows = min(len(order), max(VALID_ROWS // parts, VALID_STREAMS, VALID_TOKENS // parts // each))
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
    else:
        opened = open_corpora(paths, valid=valid, without=without, **reading)
    corpora = opened[: len(opened) - bool(valid)] or [embedded(screen)]
    if machine.weights and len(machine.weights) != len(corpora):
        raise SettingError(
            tr(
                "There are {weights} sampling weights (--weights, run.weights) for {corpora} corpora: {names}.\n"
                "Give one per corpus, in their order.",
                weights=len(machine.weights),
                corpora=len(corpora),
                names=comma().join(corpus.name for corpus in corpora),
            )
        )
    held_out = opened[-1:] if valid else []
    notes = tuple(note for corpus in [*corpora, *held_out] for note in corpus.notes)
    for note in notes:
        screen.say(note)
    arrangements = [stream.arrangement for stream in recipe.streams]
    needed = tuple(dict.fromkeys(role for one in arrangements for role in one.needs))
    ready = (
        load_tokenizer(find_tokenizer(tokenizer), needed) if tokenizer else trained_tokenizer(recipe, corpora, screen)
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
    store = tokens_of(corpora, ready, segmenter, settings, screen)
    if valid:
        held = tokens_of(held_out, ready, segmenter, settings, screen)
        train_documents, valid_documents = (
            np.arange(len(store.documents) - 1),
            np.arange(len(held.documents) - 1),
        )
    else:
        held, parts = store, split(store, seed=seed, share=machine.valid_share)
        train_documents, valid_documents = parts.train, parts.valid
    for arrangement in arrangements:
        arrangement.check(store, train_documents, first_place(corpora[0]))
    places = list(dict.fromkeys(stream.reads_from for stream in recipe.streams))
    streams = {
        stream.name: Samples(
            store, train_documents, prepared(stream.steps, store, train_documents, len(ready.vocabulary), seed),
            ready.vocabulary, seed=seed_of(seed, places.index(stream.reads_from)), weights=machine.weights,
        )
        for stream in recipe.streams
    }  # fmt: skip
    for samples in streams.values():
        samples.check(recipe.max_length)
    return Material(
        tokenizer=ready,
        store=store,
        valid_store=held,
        streams=streams,
        valid_documents=valid_documents,
        key=store_key(corpora, ready, segmenter),
        notes=notes,
        corpora=tuple(corpora),
    )


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
