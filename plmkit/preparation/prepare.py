"""Everything a run needs of its text: tokenizer, tokens on disk, samples, held-out batches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.config.machine import Settings
from plmkit.config.pretraining_tasks import stages_without
from plmkit.corruption.arrange.triples import HEAD, TAIL, names_of_terms
from plmkit.data.batch import Batch
from plmkit.data.corpus import Corpus
from plmkit.data.graph import Graph
from plmkit.data.graph_corpus import GraphCorpus
from plmkit.data.mixture_source import FedStream, MixtureSource, seed_of
from plmkit.data.samples import Samples
from plmkit.data.shards import TokenStore, store_key
from plmkit.errors import InputError, SettingError, printable
from plmkit.fit import kind_of
from plmkit.initialisation.corpus import token_vectors
from plmkit.interop.hub import find_tokenizer
from plmkit.language import comma, tr
from plmkit.preparation.counts import frequencies_of, prepared
from plmkit.preparation.opening import Opened, first_place, opened_for
from plmkit.preparation.tokenizing import Part, Tokenizing, trained_tokenizer
from plmkit.preparation.triples import reads_triples
from plmkit.recipe import DataStream, Recipe
from plmkit.segmentation.choosing import segmenter_of
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import Tokenizer, load_tokenizer

VALID_ROWS = 32
VALID_STREAMS = 4  # few, so that most predicted tokens have a memory
VALID_TOKENS = 20_000  # of held-out text that are scored, at most


@dataclass(frozen=True, kw_only=True)
class Material:
    """A corpus, ready to train on."""

    tokenizer: Tokenizer
    main: Part  # what the first stream reads: all of it, unless text stands beside triples
    beside: Part | None = None  # the text beside triples
    streams: Mapping[str, Samples]  # of the recipe's streams, by name, without those that are left out
    graph: Graph | None = None  # of triples
    key: str  # of the tokens: changes when the text, the tokenizer or the segmenter does
    notes: tuple[str, ...]
    left_out: tuple[str, ...]  # what is not trained on this text, and why
    corpora: tuple[Corpus, ...]  # in the order of `store.sources`

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

    def part_of(self, stream: DataStream) -> Part:
        """The documents of a stream."""
        return self.main if self.beside is None or stream.arrangement.triples else self.beside

    def source(self, recipe: Recipe, seed: int, steps: int | None = None) -> MixtureSource:
        """The batches of a run, whose number of steps may be known."""
        fed = {
            stream.name: FedStream(
                feed=self.streams[stream.name],
                place=stream.reads_from,
                heads=None if stream.heads is None else frozenset(stream.heads),
                weight=stream.weight,
                task=stream.task,
            )
            for stream in recipe.streams
            if stream.name in self.streams
        }
        left_out = [stream.name for stream in recipe.streams if stream.name not in self.streams]
        stages = stages_without(recipe, left_out) if left_out else recipe.stages
        return MixtureSource(fed, stages, seed=seed, steps=steps)

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
        return self.batches_of(recipe, seed)

    def corpus_batches(self, recipe: Recipe, seed: int) -> dict[str, dict[str, list[Batch]]]:
        """The same of each corpus on its own, by its name; none with one corpus, or with text held out by --valid."""
        if len(self.names) < 2 or self.valid_store is not self.store or self.graph is not None:
            return {}
        found = {name: self.batches_of(recipe, seed, number) for number, name in enumerate(self.short_names)}
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

    def held_of(self, stream: DataStream, corpus: int | None) -> np.ndarray:
        """The held-out documents of a stream: all, or those of one corpus."""
        part = self.part_of(stream)
        documents = part.held_for(stream.arrangement)
        return documents if corpus is None else documents[part.held_store.sources[documents] == corpus]

    def batches_of(self, recipe: Recipe, seed: int, corpus: int | None = None) -> dict[str, list[Batch]]:
        sets: dict[tuple[Any, ...], DataStream] = {}
        for stream in recipe.streams:
            if stream.name not in self.streams or not len(self.held_of(stream, corpus)):
                continue
            steps = tuple(step.for_validation() for step in stream.steps)
            key = steps, stream.heads, stream.task, recipe.first_stage(stream).length
            sets.setdefault(key, stream.with_steps(steps))
        return {stream.name: self.held_out(stream, length, seed, corpus) for (*_, length), stream in sets.items()}

    def held_out(self, stream: DataStream, length: int, seed: int, corpus: int | None) -> list[Batch]:
        """Batches of held-out rows of a stream."""
        vocabulary = self.tokenizer.vocabulary
        part = self.part_of(stream)
        corruption = prepared(stream.steps, part.store, part.documents, len(vocabulary), seed)
        samples = Samples(part.held_store, self.held_of(stream, corpus), corruption, vocabulary, seed=seed)
        at_once = VALID_STREAMS if samples.continues else VALID_ROWS
        plan, order = samples.plan(0, length, at_once)
        each = length if plan.lengths is None else max(1, plan.tokens() // len(plan))
        parts = 1 if corpus is None else len(self.corpora)
        rows = min(len(order), max(VALID_ROWS // parts, VALID_STREAMS, VALID_TOKENS // parts // each))
        if samples.continues:
            at_once = min(at_once, len(order))
            rows -= rows % at_once  # a memory has a fixed number of streams
        heads = None if stream.heads is None else frozenset(stream.heads)
        starts = range(0, rows, at_once)
        batches = (samples.batch(0, at, min(at_once, rows - at), length) for at in starts)
        return [batch.of_stream(heads, stream.task) for batch in batches]


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
    details = frozenset().union(*(step.needs_details for step in recipe.corruption))
    opened = opened_for(recipe, machine, paths, valid, without, screen)
    corpora = opened.corpora
    if machine.weights and len(machine.weights) != len(corpora):
        raise wrong_weights(len(machine.weights), opened)
    for note in opened.notes:
        screen.say(note)
    arrangements = [stream.arrangement for stream in recipe.streams]
    needed = tuple(dict.fromkeys(role for one in arrangements for role in one.needs))
    ready = (
        load_tokenizer(find_tokenizer(tokenizer), needed)
        if tokenizer
        else trained_tokenizer(recipe, opened.trained, screen)
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
    making = Tokenizing(
        tokenizer=ready, segmenter=segmenter, details=details, settings=settings, seed=seed, screen=screen
    )
    main = (making.triples if reads_triples(recipe) else making.part)(corpora, opened.held_out)
    beside = making.part(opened.beside, []) if opened.beside else None
    parts = {one.name: main if beside is None or one.arrangement.triples else beside for one in recipe.streams}
    absent, remarks = left_out(recipe, parts)
    remarks += case_is_read(details, ready)
    kept = [stream for stream in recipe.streams if stream.name not in absent]
    for stream in kept or recipe.streams:
        part = parts[stream.name]
        place = first_place((corpora if part is main else opened.beside)[0])
        stream.arrangement.check(part.store, part.read_by(stream.arrangement), place)
    if not kept:
        raise InputError("\n".join([*remarks, tr("{name} has nothing to train. Give other text.", name=recipe.name)]))
    if valid:
        remarks += without_loss(valid, kept, parts)
    places = list(dict.fromkeys(stream.reads_from for stream in recipe.streams))
    streams = {
        stream.name: Samples(
            part.store, part.read_by(stream.arrangement),
            prepared(stream.steps, part.store, part.documents, len(ready.vocabulary), seed),
            ready.vocabulary, seed=seed_of(seed, places.index(stream.reads_from)),
            weights=machine.weights if part is main else (),
        )
        for stream in kept for part in [parts[stream.name]]
    }  # fmt: skip
    for samples in streams.values():
        samples.check(recipe.max_length)
        samples.check_room(min(stage.length for stage in recipe.stages))
    return Material(
        tokenizer=ready,
        main=main,
        beside=beside,
        streams=streams,
        graph=graph_of(corpora, recipe),
        key=store_key(opened.trained, ready, segmenter, details),
        notes=opened.notes,
        left_out=tuple(remarks),
        corpora=tuple(corpora),
    )


def wrong_weights(count: int, opened: Opened) -> SettingError:
    """What to say of another number of sampling weights than there are corpora to weigh."""
    names = comma().join(corpus.name for corpus in opened.corpora)
    if opened.beside:
        return SettingError(
            tr(
                "Sampling weights (--weights, run.weights) are for the tables of triples, of which there are {tables}: "
                "{names}; found {weights}.\n"
                "The share of the text beside them is --set streams.text.weight=...; several texts are mixed as they "
                "are.",
                weights=count,
                tables=len(opened.corpora),
                names=names,
            )
        )
    return SettingError(
        tr(
            "There are {weights} sampling weights (--weights, run.weights) for {corpora} corpora: {names}.\n"
            "Give one per corpus, in their order.",
            weights=count,
            corpora=len(opened.corpora),
            names=names,
        )
    )


def graph_of(corpora: Sequence[Corpus], recipe: Recipe) -> Graph | None:
    """The graph of triples, whether the recipe predicts their heads, and in which segments it reads them."""
    found = next((corpus.graph for corpus in corpora if isinstance(corpus, GraphCorpus)), None)
    rows = [stream.arrangement for stream in recipe.streams if stream.arrangement.triples]
    return found and replace(
        found,
        asks_heads=any(one.asks_heads for one in rows),
        in_one_segment=tuple(kind_of(one) for one in rows if one.segments_used == 1),
    )


def left_out(recipe: Recipe, parts: Mapping[str, Part]) -> tuple[frozenset[str], list[str]]:
    """The streams that find nothing in this text, and remarks on what is left out."""
    absent, remarks = set(), []
    for stream in recipe.streams:
        part = parts[stream.name]
        own = part.read_by(stream.arrangement)
        length = recipe.first_stage(stream).length
        found = {step: step.lacks(part.store, own, length) for step in stream.steps}
        lacking = {step: reason for step, reason in found.items() if reason is not None}
        lost = frozenset().union(*(step.writes for step in lacking))
        heads = [one for one in recipe.objectives if stream.heads is None or one.name in stream.heads]
        idle = [one.name for one in heads if one.reads & lost]
        if stream.arrangement in lacking or len(idle) == len(heads):
            absent.add(stream.name)
            remarks += [
                tr("The stream '{stream}' is left out: {reason}.", stream=stream.name, reason=reason)
                for reason in lacking.values()
            ]
        elif idle:
            remarks += [
                tr("{objective} is left out: {reason}.", objective=comma().join(idle), reason=reason)
                for reason in lacking.values()
            ]
    return frozenset(absent), remarks


def without_loss(valid: str, streams: Sequence[DataStream], parts: Mapping[str, Part]) -> list[str]:
    """A remark if the held-out file has nothing for some of the streams: a table of queries has none for other tasks.

    Text beside triples has held-out documents of its own.
    """
    idle = [one.name for one in streams if not len(parts[one.name].held_for(one.arrangement))]
    if not idle or len(idle) == len(streams) or any(one.arrangement.triples for one in streams):
        return []
    return [
        tr(
            "{valid} has nothing for {streams}, so there is no held-out loss of them. Without --valid, a share of all "
            "text is held out.",
            valid=valid,
            streams=comma().join(idle),
        )
    ]


def case_is_read(details: Collection[str], tokenizer: Tokenizer) -> list[str]:
    """A remark if the tokens show which letters are capital."""
    if "capitals" not in details or tokenizer.lowercase:
        return []
    return [
        tr(
            "The tokenizer keeps capital letters, so that they are read rather than predicted. One that lower-cases: "
            "--set tokenizer.lowercase=true."
        )
    ]
