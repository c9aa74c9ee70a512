"""What is missing of one triple: the best tails, heads or relations, or whether it is true."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from plmkit.corruption.arrange.triples import HEAD, RELATION, TAIL
from plmkit.data.graph import Graph, Terms
from plmkit.data.reading.cells import is_blank
from plmkit.errors import InputError, PlmError
from plmkit.inference.ranking import Ranker, answers_of, without
from plmkit.inference.reader import Reader
from plmkit.language import tr


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One way to complete a triple."""

    id: str
    name: str
    probability: float
    known: bool  # whether the triples of the training, held-out ones included, have it


@dataclass(frozen=True, kw_only=True)
class Plausibility:
    """Whether a triple is true."""

    probability: float
    known: bool  # whether the triples of the training, held-out ones included, have it


@dataclass(frozen=True, kw_only=True)
class Question:
    """A triple by number, a part of it perhaps missing; what the graph does not have is read as text."""

    triple: np.ndarray  # (3,) of which the missing part is 0
    texts: tuple[str, ...]  # of entities beyond those of the graph
    relation: str | None  # beyond those of the graph


def complete_triple(
    reader: Reader, head: str | None, relation: str | None, tail: str | None, top: int
) -> list[Completion] | Plausibility:
    """The best answers for the part that is missing, best first; of a whole triple, whether it is true."""
    graph = graph_of(reader)
    parts = {HEAD: head, RELATION: relation, TAIL: tail}
    missing = [place for place, text in parts.items() if text is None]
    if len(missing) > 1:
        raise InputError(tr("Give two parts of a triple, of head, relation and tail, or all three."))
    if missing == [HEAD] and not graph.asks_heads:
        raise PlmError(
            tr(
                "{folder} was trained to predict tails and relations, but no heads (both=false). Give the head.",
                folder=reader.folder,
            )
        )
    asked = question_of(graph, parts)
    ranker = Ranker(reader, graph, asked.texts, asked.relation)
    known = known_among(graph, asked.triple, missing[0] if missing else None)
    triple = asked.triple[None]
    if not missing:
        return Plausibility(probability=float(ranker.plausibility(triple)[0]), known=bool(len(known)))
    scored = ranker.relation_scores(triple) if missing == [RELATION] else ranker.table_scores(triple, missing[0])
    _, scores = next(scored)
    terms = graph.relations if missing == [RELATION] else graph.entities
    return best_of(scores[0], terms, set(known.tolist()), top)


def graph_of(reader: Reader) -> Graph:
    if reader.graph is None or "entity_prediction" not in reader.network.heads:
        raise PlmError(
            tr(
                "{folder} was not trained on triples, so it cannot complete any. To train it: plm pretrain kg-stage "
                "TRIPLES.tsv --from {folder} --out DIR",
                folder=reader.folder,
            )
        )
    return reader.graph


def question_of(graph: Graph, parts: dict[int, str | None]) -> Question:
    """The numbers of the parts that are given; a name that the graph does not have gets a number after all others."""
    triple, texts = np.zeros(3, dtype=np.int64), list[str]()
    for place, text in parts.items():
        if text is None:
            continue
        if is_blank(text):
            raise InputError(tr("A part of the triple is empty. Leave out what is to be found."))
        terms = graph.relations if place == RELATION else graph.entities
        number = terms.find(text)
        if number is None:
            number = len(terms) + (0 if place == RELATION else len(texts))
            texts += [] if place == RELATION else [text]
        triple[place] = number
    relation = parts[RELATION]
    beyond = relation if relation is not None and triple[RELATION] == len(graph.relations) else None
    return Question(triple=triple, texts=tuple(texts), relation=beyond)


def unknown_parts(graph: Graph, head: str | None, relation: str | None, tail: str | None) -> list[str]:
    """What to say of parts that the graph does not have."""
    entities, relations = graph.entities, graph.relations
    return [
        tr("'{text}' is not in the graph, and is read as text.{hint}", text=text, hint=terms.suggestion(text))
        for text, terms in ((head, entities), (relation, relations), (tail, entities))
        if text is not None and terms.find(text) is None
    ]


def known_among(graph: Graph, triple: np.ndarray, missing: int | None) -> np.ndarray:
    """The answers that the graph has; of a whole triple, itself if the graph has it."""
    if missing is None:
        return graph.triples[(graph.triples == triple).all(axis=1)][:1, HEAD]
    return answers_of(graph.triples, without(triple[None], missing), missing)[0]


def best_of(scores: Tensor, terms: Terms, known: set[int], top: int) -> list[Completion]:
    probabilities = scores.softmax(-1)
    best = torch.topk(probabilities, min(top, len(terms)))
    return [
        Completion(id=terms.ids[number], name=terms.names[number], probability=value, known=number in known)
        for value, number in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def as_rows(found: Sequence[Completion]) -> list[dict[str, object]]:
    return [vars(one) for one in found]
