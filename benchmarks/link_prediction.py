"""What ranks of `plm evaluate` on triples are worth: the same ranks of two methods that read no text.

`python -m benchmarks.link_prediction train.tsv dev.tsv test.tsv` ranks the heads and tails of the last table, filtered
by all tables, by how often an entity is there with the relation in the first one, and by ComplEx (Trouillon et al.,
2016) with the full softmax, the N3 penalty and inverse relations of Lacroix et al. (2018), trained on the first one.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.shared import say
from plmkit.corruption.arrange.triples import HEAD, RELATION, TAIL
from plmkit.data.graph import Graph
from plmkit.data.graph_corpus import graph_of
from plmkit.data.reading.triples import read_triples
from plmkit.inference.ranking import HITS, Ranks, answers_of, ranks_of, without

AT_ONCE = 500  # queries that are ranked together
Score = Callable[[Tensor, Tensor, int], Tensor]  # of (B,) entities, (B,) relations, a side → (B, entities)


def ranked(graph: Graph, test: np.ndarray, score: Score) -> dict[str, dict[str, float]]:
    """Filtered ranks of tails, heads and both."""
    found = {}
    for side, other in ((TAIL, HEAD), (HEAD, TAIL)):
        parts = []
        for start in range(0, len(test), AT_ONCE):
            some = test[start : start + AT_ONCE]
            rows = torch.from_numpy(some)
            known = answers_of(graph.triples, without(some, side), side)
            parts.append(ranks_of(score(rows[:, other], rows[:, RELATION], side), rows[:, side], known))
        found[side] = Ranks.joined(parts)
    both = Ranks.joined(list(found.values()))
    return {name: ranks.scores() for name, ranks in (("tails", found[TAIL]), ("heads", found[HEAD]), ("both", both))}


def by_frequency(graph: Graph, train: np.ndarray) -> Score:
    counts = torch.zeros(3, len(graph.relations), len(graph.entities))
    for side in (HEAD, TAIL):
        np.add.at(counts[side].numpy(), (train[:, RELATION], train[:, side]), 1)
    return lambda entities, relations, side: counts[side][relations]


class ComplEx(torch.nn.Module):
    """Complex vectors, the real halves first; a relation and its inverse, which predicts heads, have one each."""

    def __init__(self, entities: int, relations: int, rank: int) -> None:
        super().__init__()
        self.relations = relations
        self.entity, self.relation = (torch.nn.Embedding(size, 2 * rank) for size in (entities, 2 * relations))
        for table in (self.entity, self.relation):
            torch.nn.init.normal_(table.weight, std=1e-3)

    def parts(self, entities: Tensor, relations: Tensor, side: int) -> tuple[Tensor, Tensor]:
        return self.entity(entities), self.relation(relations + (self.relations if side == HEAD else 0))

    def forward(self, entities: Tensor, relations: Tensor, side: int) -> Tensor:
        (real, imaginary), (re, im) = (part.chunk(2, dim=1) for part in self.parts(entities, relations, side))
        product = torch.cat([real * re - imaginary * im, real * im + imaginary * re], dim=1)
        return product @ self.entity.weight.T

    def penalty(self, *vectors: Tensor) -> Tensor:
        """The mean of the cubes of the moduli."""
        moduli = [torch.stack(one.chunk(2, dim=1)).square().sum(0).clamp_min(1e-12).sqrt() for one in vectors]
        return torch.stack([(one**3).sum() for one in moduli]).sum() / len(vectors[0])


def trained(graph: Graph, train: np.ndarray, *, rank: int, epochs: int, penalty: float, batch: int) -> ComplEx:
    torch.manual_seed(0)
    model = ComplEx(len(graph.entities), len(graph.relations), rank)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    rows = torch.from_numpy(train)
    for epoch in range(1, epochs + 1):
        total, started = 0.0, time.perf_counter()
        for some in torch.randperm(len(rows)).split(batch):
            for side, other in ((TAIL, HEAD), (HEAD, TAIL)):
                asked, relations, answers = rows[some, other], rows[some, RELATION], rows[some, side]
                loss = F.cross_entropy(model(asked, relations, side), answers)
                vectors = (*model.parts(asked, relations, side), model.entity(answers))
                optimizer.zero_grad()
                (loss + penalty * model.penalty(*vectors)).backward()
                optimizer.step()
                total += loss.item() * len(some) / (2 * len(rows))
        say(f"epoch {epoch}: loss {total:.3f}, {time.perf_counter() - started:.0f} s")
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.link_prediction", description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path, help="triples to train on, others that are true, and the test")
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--penalty", type=float, default=0.05)
    asked = parser.parse_args()
    tables = [read_triples(path) for path in asked.tables]
    graph = graph_of(tables, {})
    train, *_, test = (graph.numbered([row.ids for row in table.rows]) for table in tables)
    methods: dict[str, Score] = {"frequency": by_frequency(graph, train)}
    if asked.epochs:
        settings = {"rank": asked.rank, "epochs": asked.epochs, "batch": asked.batch}
        methods["ComplEx"] = trained(graph, train, penalty=asked.penalty, **settings)
    print("| method | to predict | MRR |", " | ".join(f"Hits@{most}" for most in HITS), "| mean rank |")
    print("|---|---|---|" + "---|" * len(HITS) + "---|")
    with torch.inference_mode():
        for name, score in methods.items():
            for part, found in ranked(graph, test, score).items():
                hits = " | ".join(f"{found[f'hits@{most}']:.1%}" for most in HITS)
                print(f"| {name} | {part} | {found['mrr']:.4f} | {hits} | {found['mean_rank']:.1f} |")


if __name__ == "__main__":
    main()
