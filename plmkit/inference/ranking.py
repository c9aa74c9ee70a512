"""How high a model ranks what is missing of triples: filtered mean reciprocal rank and hits, all entities at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plmkit.corruption.arrange.triples import HEAD, RELATION, TAIL, corrupted, first_alike
from plmkit.data.graph import Graph
from plmkit.data.graph_corpus import graph_of, names_in
from plmkit.data.randomness import generator
from plmkit.data.reading.cells import where
from plmkit.data.reading.triples import TripleTable, read_triples
from plmkit.errors import InputError, PlmError, SettingError
from plmkit.inference.reader import Reader
from plmkit.inference.triple_rows import TripleReader, names_of
from plmkit.language import tr
from plmkit.terminal.screen import Screen

WAYS = ("table", "cloze")
HITS = (1, 3, 10)
CORRUPTED = 31  # the purpose of these random numbers
SIDES = {"tails": TAIL, "heads": HEAD}
ANSWERED = 64  # queries whose scores for all candidates are in memory at once, at least

Scored = Iterator[tuple[np.ndarray, Tensor]]  # numbers of queries, and (queries, candidates) scores
Advance = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """(N,) the rank of each true answer: among all candidates, and among those that are not true themselves."""

    raw: np.ndarray
    filtered: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence["Ranks"]) -> "Ranks":
        return cls(
            raw=np.concatenate([part.raw for part in parts]), filtered=np.concatenate([part.filtered for part in parts])
        )

    def scores(self) -> dict[str, float]:
        return {
            "mrr": mean_reciprocal_rank(self.filtered),
            "mean_rank": float(self.filtered.mean()),
            **{f"hits@{most}": float((self.filtered <= most).mean()) for most in HITS},
            "raw_mrr": mean_reciprocal_rank(self.raw),
            "raw_mean_rank": float(self.raw.mean()),
        }


def mean_reciprocal_rank(ranks: np.ndarray) -> float:
    """The mean of one over each rank."""
    return float((1.0 / np.asarray(ranks, dtype=np.float64)).mean())


def ranks_of(scores: Tensor, answers: Tensor, known: Sequence[np.ndarray]) -> Ranks:
    """The rank of the answer of each row, counting equal scores by half; `known` has the true answers of each row."""
    own = scores.gather(1, answers[:, None])
    above, equal = (scores > own).sum(1), (scores == own).sum(1) - 1
    rows = torch.from_numpy(np.repeat(np.arange(len(known)), [len(some) for some in known])).to(scores.device)
    others = torch.from_numpy(np.concatenate([np.zeros(0, dtype=np.int64), *known])).to(scores.device)
    apart = others != answers[rows]
    rows, others = rows[apart], others[apart]
    true, its = scores[rows, others], own[rows, 0]
    true_above, true_equal = (
        torch.zeros_like(above).index_add_(0, rows, found.to(above.dtype)) for found in (true > its, true == its)
    )
    raw = 1 + above + equal / 2
    return Ranks(raw=raw.double().cpu().numpy(), filtered=(raw - true_above - true_equal / 2).double().cpu().numpy())


def evaluate_triples(
    model: Reader, file: Path, screen: Screen, *, by: str | None = None, known: Sequence[str] = (),
    names: Sequence[str] = (), header: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Rank the missing parts of the triples of a file."""
    by = by or "table"
    if by not in WAYS:
        raise SettingError(tr("--by takes {ways}; found '{by}'.", ways=tr(" or ").join(WAYS), by=by))
    graph, triples, found = read_for(model, file, screen, by=by, known=known, names=names, header=header)
    ranker = Ranker(model, graph)
    found["reading"] = (
        tr("the vector of each entity in the table") if by == "table" else tr("the tokens of each name, by cloze")
    )
    sides = {side: place for side, place in SIDES.items() if graph.asks_heads or place == TAIL}
    with screen.counting(tr("ranking"), len(sides) * len(triples), unit=tr("queries")) as advance:
        parts = {side: ranker.ranks(triples, place, by, advance) for side, place in sides.items()}
    found |= {side: ranks.scores() for side, ranks in parts.items()}
    if len(parts) > 1:
        found["both"] = Ranks.joined(list(parts.values())).scores()
    if "relation_prediction" in model.network.heads:
        relations = ranker.relation_ranks(triples)
        found["relations"] = relations.scores()
        found["relation_accuracy"] = float((relations.raw == 1).mean())
    if "triple_plausibility" in model.network.heads:
        found["plausibility_accuracy"] = ranker.plausibility_accuracy(triples)
    return found


def read_for(
    model: Reader, file: Path, screen: Screen, *, by: str, known: Sequence[str], names: Sequence[str], header: bool
) -> tuple[Graph, np.ndarray, dict[str, Any]]:
    """The graph with all that is known to be true, the triples of a file whose entities it has, and their counts."""
    if model.graph is None:
        if by == "table":
            raise PlmError(
                tr(
                    "{folder} was not trained on triples, so it has no table of entities. To fill in names by its LM "
                    "head: --by cloze. To train it: plm pretrain kg-stage TRIPLES.tsv --from {folder} --out DIR",
                    folder=model.folder,
                )
            )
        tables = [read_triples(path, header=header) for path in (file, *map(Path, known))]
        graph = graph_of(tables, names_in(names))
        for note in filter(None, (table.note for table in tables)):
            screen.say(note)
        own = graph.numbered([row.ids for row in tables[0].rows])
        return graph, own, {"triples": len(own), "known": len(graph.triples)}
    if names:
        raise SettingError(
            tr("--names has no effect: {folder} keeps the names it was trained on.", folder=model.folder)
        )
    graph, table = model.graph, read_triples(file, header=header)
    if table.note:
        screen.say(table.note)
    triples, unknown = known_to(graph, table, screen)
    more = [known_to(graph, read_triples(Path(other), header=header), None)[0] for other in known]
    every = np.unique(np.concatenate([graph.triples, triples, *more]), axis=0)
    return replace(graph, triples=every), triples, {"triples": len(triples), "left_out": unknown, "known": len(every)}


def known_to(graph: Graph, table: TripleTable, screen: Screen | None) -> tuple[np.ndarray, int]:
    """The triples of a table by number, without those of which the graph lacks a part; and the number of these."""
    numbers = graph.numbered([row.ids for row in table.rows])
    whole = (numbers >= 0).all(axis=1)
    lacking = int((~whole).sum())
    if screen is not None and lacking:
        at = int(np.flatnonzero(~whole)[0])
        first, row = table.rows[at], numbers[at]
        terms = [own for own, number in zip(first.ids, row.tolist(), strict=True) if number < 0]
        lost = {own for some, row in zip(table.rows, numbers.tolist(), strict=True) for own, number in
                zip(some.ids, row, strict=True) if number < 0}  # fmt: skip
        screen.say(
            tr(
                "! {file}: {count:,} of {total:,} triples have an entity or a relation that the model was not trained "
                "on ({lost:,} different ones), and are left out; the first is '{first}', {place}.",
                file=table.path,
                count=lacking,
                total=len(table.rows),
                lost=len(lost),
                first=terms[0],
                place=where(table.path, first.line),
            )
        )
        if not whole.any():
            raise InputError(tr("{file} has no triple of the graph that the model was trained on.", file=table.path))
    return numbers[whole], lacking


class Ranker:
    """Scores all entities, or all relations, for what is missing of triples."""

    def __init__(self, model: Reader, graph: Graph, texts: Sequence[str] = (), relation: str | None = None) -> None:
        self.model, self.graph = model, graph
        names = names_of(model, graph, texts, [] if relation is None else [relation])
        self.reader, self.names = TripleReader(model, names), names

    def ranks(self, triples: np.ndarray, side: int, by: str, advance: Advance | None = None) -> Ranks:
        """Of the entity at a side of each triple."""
        asked, place = np.unique(without(triples, side), axis=0, return_inverse=True)
        known = answers_of(self.graph.triples, asked, side)
        score = self.table_scores if by == "table" else self.cloze_scores
        return self.placed(score(asked, side), place.ravel(), triples[:, side], known, advance)

    def relation_ranks(self, triples: np.ndarray) -> Ranks:
        asked, place = np.unique(without(triples, RELATION), axis=0, return_inverse=True)
        known = answers_of(self.graph.triples, asked, RELATION)
        return self.placed(self.relation_scores(asked), place.ravel(), triples[:, RELATION], known, None)

    def placed(
        self, scored: Scored, place: np.ndarray, answers: np.ndarray, known: Sequence[np.ndarray],
        advance: Advance | None,
    ) -> Ranks:  # fmt: skip
        """The ranks of all answers, where each query is scored once for all triples that ask it."""
        order = np.argsort(place, kind="stable")
        begins = np.searchsorted(place[order], np.arange(len(known) + 1))
        raw, filtered = np.zeros(len(place)), np.zeros(len(place))
        for queries, scores in scored:
            parts = [order[begins[query] : begins[query + 1]] for query in queries.tolist()]
            own = np.concatenate(parts)
            rows = torch.from_numpy(np.repeat(np.arange(len(queries)), [len(part) for part in parts]))
            targets = torch.from_numpy(answers[own]).to(scores.device)
            found = ranks_of(scores[rows.to(scores.device)], targets, [known[query] for query in place[own].tolist()])
            raw[own], filtered[own] = found.raw, found.filtered
            if advance:
                advance(len(own))
        return Ranks(raw=raw, filtered=filtered)

    @torch.inference_mode()
    def table_scores(self, queries: np.ndarray, side: int) -> Scored:
        """The logit of every entity of the table."""
        head = self.model.head("entity_prediction", tr("rank entities"))
        for chosen, states, batch in self.reader.states(
            *self.reader.missing_entity(queries, side), "entity_prediction"
        ):
            yield chosen, head.answers(states, batch).float()

    @torch.inference_mode()
    def cloze_scores(self, queries: np.ndarray, side: int) -> Scored:
        """The mean log-probability of the tokens of every entity's name, each length with its number of [MASK]."""
        entities = len(self.graph.entities)
        lengths = self.names.lengths[:entities]
        lm = self.model.head("masked_lm", tr("fill in names"))
        groups = [(length, np.flatnonzero(lengths == length)) for length in np.unique(lengths).tolist()]
        tokens = [np.stack([self.names.tokens_of(entity) for entity in some.tolist()]) for _, some in groups]
        for start in range(0, len(queries), ANSWERED):
            some = queries[start : start + ANSWERED]
            made = torch.zeros(len(some), entities, device=self.model.device)
            for (length, its), names in zip(groups, tokens, strict=True):
                columns, name = torch.from_numpy(its), torch.from_numpy(names)  # (E,), (E, length)
                for chosen, states, batch in self.reader.states(*self.reader.cloze(some, side, length), "masked_lm"):
                    sizes = batch.predicted.sum(1)  # below `length` where long names are cut
                    for size in sizes.unique().tolist():
                        mine = sizes == size
                        hidden = states.hidden[batch.predicted & mine[:, None]].unflatten(0, (-1, size))
                        logs = lm.vocabulary(hidden).float().log_softmax(-1)  # (rows, size, vocabulary)
                        scores = sum(logs[:, at, name[:, at]] for at in range(size)) / size
                        made[torch.from_numpy(chosen[mine.cpu().numpy()])[:, None], columns] = scores
            yield np.arange(start, start + len(some)), made

    @torch.inference_mode()
    def relation_scores(self, queries: np.ndarray) -> Scored:
        """The logit of every relation."""
        head = self.model.head("relation_prediction", tr("rank relations"))
        for chosen, states, batch in self.reader.states(*self.reader.missing_relation(queries), "relation_prediction"):
            yield chosen, head.answers(states, batch).float()

    @torch.inference_mode()
    def plausibility(self, triples: np.ndarray) -> np.ndarray:
        """(N,) the probability that each triple is true."""
        head, made = self.model.head("triple_plausibility", tr("tell true triples")), np.zeros(len(triples))
        for chosen, states, batch in self.reader.states(*self.reader.whole(triples), "triple_plausibility"):
            made[chosen] = head.answers(states, batch).float().softmax(-1)[:, 0].cpu().numpy()
        return made

    def plausibility_accuracy(self, triples: np.ndarray) -> float:
        """Of the triples, and of as many with another head or tail, none of which reads as one that is known."""
        names = self.names
        alike = first_alike(names.store, names.entities), first_alike(names.store, names.relations)
        false = corrupted(triples, self.graph.triples, generator(0, CORRUPTED), alike)
        right = [*(self.plausibility(triples) > 0.5), *(self.plausibility(false) <= 0.5)]
        return float(np.mean(right))


def without(triples: np.ndarray, side: int) -> np.ndarray:
    """The triples with 0 at a side, so that those that ask the same are equal."""
    made = triples.copy()
    made[:, side] = 0
    return made


def answers_of(triples: np.ndarray, asked: np.ndarray, side: int) -> list[np.ndarray]:
    """For each query, all entities that are known to answer it."""
    both = np.concatenate([asked, without(triples, side)])
    _, numbers = np.unique(both, axis=0, return_inverse=True)
    numbers = numbers.ravel()
    mine, theirs = numbers[: len(asked)], numbers[len(asked) :]
    order = np.argsort(theirs, kind="stable")
    begins = np.searchsorted(theirs[order], [mine, mine + 1])
    answers = triples[order, side]
    return [answers[begin:end] for begin, end in begins.T.tolist()]
