"""Filtered ranking of 4,000 test triples over 3,000 entities, heads and tails, beside a minute of CPU time.

The graph is made, and the weights are random: the time depends on neither.
"""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.shared import Line, Options, say
from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.data.graph_corpus import graph_of
from plmkit.data.reading.triples import read_triples
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.inference.model import Model
from plmkit.inference.ranking import evaluate_triples
from plmkit.network import Network
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import bert_tokenizer

TITLE = "Ranking triples, per CPU second: plmkit beside a minute for all"
LIMIT = 60.0  # seconds of CPU time for all test triples
SYLLABLES = "ba de fi go hu ka le mi no pu ra se ti vo zu".split()


def run(options: Options) -> list[Line]:
    sizes = (60, 5, 200, 40) if options.quick else (3_000, 200, 60_000, 4_000)
    entities, _, _, test = sizes
    seconds = [seconds_of(*sizes, options) for _ in range(options.rounds)]
    say(f"ranking: {min(seconds):.1f} to {max(seconds):.1f} s of CPU time for {test:,} triples")
    limit = LIMIT * test / 4_000
    return [
        Line(
            case=f"{test:,} triples over {entities:,} entities, 2 × 128, by the table",
            unit="triples/s",
            ours=[test / one for one in seconds],
            theirs=[test / limit] * len(seconds),
            target=1.0,
        )
    ]


def seconds_of(entities: int, relations: int, known: int, test: int, options: Options) -> float:
    """From the file to all scores, with all threads."""
    rng = np.random.default_rng([options.seed, entities])
    trained, tested = (
        write(options.folder / f"{name}.tsv", count, entities, relations, rng)
        for name, count in (("train", known), ("test", test))
    )
    # every entity occurs, so that each is a candidate
    graph = graph_of([read_triples(trained), read_triples(tested)], {})
    graph = replace(graph, triples=graph.numbered([row.ids for row in read_triples(trained).rows]))
    tokenizer = bert_tokenizer([*SPECIAL_TOKENS, *SYLLABLES, *(f"##{one}" for one in SYLLABLES)], lowercase=True)
    torch.manual_seed(options.seed)
    network, architecture = network_of(len(graph.entities), len(graph.relations), tokenizer.vocabulary)
    model = Model(
        network=network, architecture=architecture, tokenizer=tokenizer, folder=options.folder, graph=graph
    )  # fmt: skip
    started = time.process_time()
    found = evaluate_triples(model, tested, Screen(quiet=True))
    taken = time.process_time() - started
    assert found["triples"] == test and {"tails", "heads", "relations"} <= found.keys()
    return taken


def network_of(entities: int, relations: int, vocabulary: Vocabulary) -> tuple[Network, Encoder]:
    recipe = find("kg-stage")
    architecture = Encoder(layers=2, heads=2, width=128, inner=512, max_length=128)  # bert-tiny
    objectives = tuple(own.for_graph(entities, relations) for own in recipe.objectives)
    return replace(recipe, architecture=architecture, objectives=objectives).build(vocabulary), architecture


def write(path: Path, count: int, entities: int, relations: int, rng: np.random.Generator) -> Path:
    """Triples of entities whose names have one to four words; the first ones name every entity."""
    heads, tails = (rng.integers(entities, size=count) for _ in range(2))
    some = min(count, entities)
    heads[:some] = np.arange(some)
    kinds = rng.integers(relations, size=count)
    rows = (
        f"{name_of(head)}\t{name_of(kind)}\t{name_of(tail)}\n"
        for head, kind, tail in zip(heads.tolist(), kinds.tolist(), tails.tolist(), strict=True)
    )
    path.write_text("head\trelation\ttail\n" + "".join(rows), encoding="utf-8")
    return path


def name_of(number: int) -> str:
    """Different names for different numbers: their digits in base 15, and more words for some."""
    digits = SYLLABLES[number % 15] + SYLLABLES[number // 15 % 15] + SYLLABLES[number // 225 % 15]
    return " ".join([digits, *(SYLLABLES[(number + word) % 15] for word in range(number % 4))])
