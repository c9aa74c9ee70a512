"""A recipe that trains on triples, fitted to what is given: its graph, and text if there is any."""

from collections.abc import Sequence
from dataclasses import replace

from plmkit.config.machine import Machine, Settings
from plmkit.data.graph_corpus import GraphCorpus, divided, open_triples
from plmkit.language import tr
from plmkit.recipe import DataStream, Recipe
from plmkit.schedules.schedule import Stage


def reads_triples(recipe: Recipe) -> bool:
    return any(stream.arrangement.triples for stream in recipe.streams)


def opened_triples(paths: Sequence[str], machine: Machine, valid: str | None) -> tuple[list[GraphCorpus], list[str]]:
    """The tables of triples, the held-out one last, and the paths of the text beside them."""
    triples, texts = divided(paths)
    corpora = open_triples(
        triples, names=machine.names, valid=valid, layout="auto" if texts else machine.layout, header=machine.header
    )  # fmt: skip
    return corpora, texts


def fitted_to_triples(settings: Settings, paths: Sequence[str], valid: str | None = None) -> Settings:
    """Settings of a recipe that reads triples, with the size of their graph; without text, no stream reads text.

    All of its streams run from the start to the end.
    """
    recipe = settings.recipe
    if not reads_triples(recipe):
        return settings
    corpora, texts = opened_triples(paths, settings.run, valid)
    graph = corpora[0].graph
    streams = recipe.streams if texts else tuple(one for one in recipe.streams if one.arrangement.triples)
    trained = {name for one in streams for name in one.heads or [own.name for own in recipe.objectives]}
    objectives = tuple(
        own.for_graph(len(graph.entities), len(graph.relations)) for own in recipe.objectives if own.name in trained
    )  # fmt: skip
    return replace(
        settings, recipe=replace(recipe, streams=streams, objectives=objectives, stages=shared(recipe, streams))
    )


def shared(recipe: Recipe, streams: Sequence[DataStream]) -> tuple[Stage, ...]:
    """The stages, whose streams have exactly the shares of the steps that their sampling weights give."""
    names, weights = tuple(one.name for one in streams), tuple(one.weight for one in streams)
    return tuple(replace(stage, streams=names, shares=weights) for stage in recipe.stages)


def without_held_out_text() -> str:
    """What to say if there is too little text beside the triples to hold any of it out."""
    return tr("The text beside the triples is too short to hold any of it out: what is forgotten is not measured.")


def without_text(recipe: Recipe) -> str:
    """What to say of a run whose recipe would keep the language of its model, if it had any text."""
    return tr(
        "No text is given beside the triples, so the model's language is neither kept nor measured. Give some: "
        "plm pretrain {recipe} TRIPLES.tsv TEXT.txt ...",
        recipe=recipe.name,
    )
