"""A request that has been checked: the corpus read, the network built, and both known to fit into memory."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from plmkit.data.graph import Graph
from plmkit.data.randomness import WORD
from plmkit.data.samples import Position
from plmkit.data.vocabulary import unnamed
from plmkit.errors import FolderError, SettingError
from plmkit.fit import kind_of
from plmkit.inference.loading import Parts, start_from
from plmkit.language import comma, several, tr
from plmkit.network import Network
from plmkit.objectives.triples import EntityPrediction, RelationPrediction
from plmkit.preparation.doctor import Diagnosis, diagnose
from plmkit.preparation.prepare import Material, prepare
from plmkit.preparation.triples import reads_triples, without_held_out_text, without_text
from plmkit.recipe import Recipe
from plmkit.terminal.screen import Screen
from plmkit.training.device import DTYPES, computing, keep_dtype, name_of
from plmkit.training.earlier import check_resumable
from plmkit.training.loop import Budget
from plmkit.training.memory import OutOfMemory, check_batch, check_shape, check_step, check_weights
from plmkit.training.request import PretrainRequest, parts_to_start_from, tokenizer_folder, whole_budget
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import PretrainRecord
from plmkit.training.threads import Threads
from plmkit.training.world import World

TRIED = 4  # rows whose memory is measured before training


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request that has been checked: everything that training needs except the network."""

    request: PretrainRequest
    folder: RunFolder
    earlier: PretrainRecord | None  # the run that is continued
    checked: int | None  # step of its checkpoint that is known to be intact
    budget: Budget
    start: Parts | None
    material: Material
    examples: int  # per epoch
    dtype: torch.dtype
    threads: Threads
    world: World
    screen: Screen

    @property
    def record(self) -> PretrainRecord:
        """The content of run.json during the run."""
        # a finished run is continued: its model stays usable until the new one is saved
        kept = self.earlier.checksum if self.earlier and self.folder.has_weights else None
        return replace(
            self.request.record,
            budget=self.budget,
            tokens_key=self.material.key,
            dtype=name_of(self.dtype),
            checksum=kept,
        )


def setup(request: PretrainRequest, earlier: PretrainRecord | None, world: World, screen: Screen) -> Job:
    """Check the request and read the corpus."""
    folder = request.folder
    if earlier is None:
        folder.claim()
    checked = None if earlier is None else check_resumable(folder, earlier)
    start = parts_to_start_from(request, screen.say)
    check_shape(request.settings.recipe, world.device)
    check_initialisation(request.settings.recipe)
    check_teacher(request)
    tokenizer = tokenizer_folder(request, earlier, start)
    material = prepare(request.settings, request.corpora, request.valid, request.seed, screen, tokenizer=tokenizer)
    if earlier and earlier.tokens_key != material.key:
        raise FolderError(
            tr(
                "{out} holds a run on other text: the corpus has changed since it started.\n"
                "Give the same corpus to continue it, or use another --out.",
                out=request.out,
            )
        )
    found = diagnose(material, request.settings.recipe)
    report(found, request.settings.recipe, screen)
    if material.beside is not None and not len(material.beside.held_documents):
        screen.say(without_held_out_text())
    threads = Threads(request.settings.run.threads, screen.say, processes=world.size)
    width = request.settings.recipe.architecture.width
    dtype = keep_dtype(world.device, request.settings.run.dtype, earlier.dtype if earlier else None, screen.say, width)
    screen.say(computing(world.device, dtype, width, world.size))
    budget = whole_budget(request, earlier)
    screen.say(
        tr("Budget: {budget}, the recipe's default (--steps, --minutes or --tokens changes it).", budget=budget)
        if request.by_default
        else tr("Budget: {budget}.", budget=budget)
    )
    return Job(
        request=request, folder=folder, earlier=earlier, checked=checked, budget=budget, start=start,
        material=material, examples=found.examples, dtype=dtype, threads=threads, world=world, screen=screen,
    )  # fmt: skip


def check_initialisation(recipe: Recipe) -> None:
    """Refuse initial weights that the network has no place for, before any text is read."""
    with torch.device("meta"):
        recipe.initialisation.check(recipe.build(unnamed(recipe.vocabulary)))


def check_teacher(request: PretrainRequest) -> None:
    """Refuse objectives that compare with a teacher in a run without one."""
    wanting = [kind_of(own) for own in request.settings.recipe.objectives if own.needs_teacher]
    if wanting and request.guide is None:
        raise SettingError(
            tr("{objective} compares the network with a teacher: use `plm distill`, or drop it.", objective=wanting[0])
        )


def documents_reported(found: Diagnosis) -> str:
    return tr(
        "{documents}, {sentences}, {tokens}; {examples} per epoch; {held_out} ({held_out_tokens}) held out.",
        documents=several(found.documents, "document"),
        sentences=several(found.sentences, "sentence"),
        tokens=several(found.tokens, "token"),
        examples=several(found.examples, "training example"),
        held_out=several(found.held_out, "document"),
        held_out_tokens=several(found.held_out_tokens, "token"),
    )


def report(found: Diagnosis, recipe: Recipe, screen: Screen) -> None:
    """What `plm doctor` reports, in short."""
    if reads_triples(recipe):
        screen.say(
            tr(
                "Triples: {triples:,} to train on, {held_out:,} held out.",
                triples=found.documents - found.held_out,
                held_out=found.held_out,
            )
        )
        if recipe.adopts and all(stream.arrangement.triples for stream in recipe.streams):
            screen.say(without_text(recipe))
    elif recipe.architecture.translates:
        screen.say(
            tr(
                "Pairs: {pairs:,} to train on, {held_out:,} held out; {tokens:,} tokens.",
                pairs=found.examples,
                held_out=found.held_out,
                tokens=found.tokens,
            )
        )
    else:
        screen.say(documents_reported(found))
    if found.mixture:
        shares = comma().join(f"{name} {share:.1%}" for name, share in found.mixture.items())
        screen.say(tr("Share of each corpus in the tokens of every epoch: {shares}.", shares=shares))
    for warning in found.warnings:
        screen.say(f"! {warning}")


def agreed_dtype(job: Job) -> torch.dtype:
    """The type that the first process chose: each measures for itself which is faster."""
    dtypes = list(DTYPES.values())
    return dtypes[int(job.world.agreed(dtypes.index(job.dtype)))]


def build(job: Job) -> Network:
    """The network on its device, if it fits into memory."""
    check_weights(job.request.settings.recipe, len(job.material.tokenizer.vocabulary), job.world.device)
    network = initial_network(job.request, job.material, job.start, job.screen).to(job.world.device)
    if job.request.guide:
        job.request.guide.attach(network, job.material.tokenizer, job.world.device, job.screen.say)
    check_fits(job, network)
    return network


def initial_network(request: PretrainRequest, material: Material, start: Parts | None, screen: Screen) -> Network:
    torch.manual_seed(request.seed & WORD)
    start = start and of_graph(start, material.graph)
    # of a model to start from, the embeddings may have more rows than there are tokens
    network = request.settings.recipe.build(start.vocabulary if start else material.tokenizer.vocabulary)
    if start:
        # counts initialise heads that `start` lacks; its embeddings and its whole vocabulary are kept
        initialisation = replace(request.settings.recipe.initialisation, cooccurrence_embeddings=False)
        initialisation.apply(network, Counting(material=material, seed=request.seed, screen=screen))
        fresh = start_from(network, start)
        if named := begin_from_names(network, material, fresh):
            screen.say(tr("The vectors of entities start from the tokens of their names."))
        if fresh := [name for name in fresh if name not in named]:
            screen.say(
                tr(
                    "{start} has no weights for {fresh}; initialised randomly.",
                    start=request.start,
                    fresh=comma().join(fresh),
                )
            )
    else:
        begin_from_names(network, material, list(network.heads))
        network.restrict_vocabulary(lambda: material.frequencies)
    return network


def of_graph(start: Parts, graph: Graph | None) -> Parts:
    """The model to start from, without what it knows of the entities and relations of another graph."""
    if graph is None or graph.same_terms(start.graph):
        return start
    own = tuple(f"heads.{kind.name}." for kind in (EntityPrediction, RelationPrediction))
    return replace(start, weights={name: one for name, one in start.weights.items() if not name.startswith(own)})


def begin_from_names(network: Network, material: Material, fresh: Sequence[str]) -> list[str]:
    """Initialise heads that predict entities, if they are new, from the names of these; returns their names."""
    heads = {name: head for name, head in network.all_heads().items() if name in fresh and head.predicts_entities}
    if heads:
        names, frequencies = material.entity_names()
        for head in heads.values():
            head.begin_from_names(names, frequencies)
    return list(heads)


@dataclass(frozen=True, kw_only=True)
class Counting:
    """The corpus statistics that initialise weights; reports what takes time."""

    material: Material
    seed: int
    screen: Screen

    @property
    def frequencies(self) -> np.ndarray:
        return self.material.frequencies

    def cooccurrence_embeddings(self, width: int) -> np.ndarray:
        started = time.perf_counter()
        self.screen.say(tr("Counting co-occurrences to initialise the token embeddings."))
        try:
            made = self.material.cooccurrence_embeddings(width, self.seed)
        except MemoryError as error:
            raise OutOfMemory(
                tr(
                    "Out of memory while counting co-occurrences of tokens.\n"
                    "Turn it off (--set initialisation.cooccurrence_embeddings=false), or use a smaller vocabulary."
                )
            ) from error
        known = int(made.any(1).sum())
        self.screen.say(
            tr(
                "Counted in {seconds:.1f} s: {known:,} of {total:,} tokens have neighbours.",
                seconds=time.perf_counter() - started,
                known=known,
                total=len(made),
            )
        )
        return made


def check_fits(job: Job, network: Network) -> None:
    """Check that a batch and a step fit into memory, before anything is written."""
    recipe, machine = job.request.settings.recipe, job.request.settings.run
    rows, length = min(recipe.schedule.batch, job.examples), recipe.stages[0].length
    check_batch(rows, recipe.max_length, settings_to_lower())
    source = job.material.source(recipe, 0)
    sample = source.next(Position(), step=0, progress=0.0, rows=recipe.schedule.batch)[0].part(0, TRIED)
    own = -(-rows // job.world.size)
    at_once = min(own, machine.micro_batch or own)
    check_step(network, sample, at_once, job.world.device, settings_to_lower(), longer=recipe.max_length / length)


def settings_to_lower() -> str:
    """The settings that make a step smaller."""
    return tr("schedule.batch, the lengths of stages or architecture.layers")
