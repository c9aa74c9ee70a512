"""How to choose the strength of the linear model under a classifier, from few rows of dev.

python -m benchmarks.strengths FOLDER... [--rows 3000] [--draws 200]

A folder holds train.tsv, and dev.tsv or test.tsv, with the columns label, text_a and perhaps text_b. The model of each
strength is fitted once. Then rows of dev are drawn from all that are not for training, the strength is chosen on them
by each rule, and its accuracy on the other rows counted.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.shared import say, table
from plmkit.data.reading.columns import Search
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.floor import STRENGTHS, most_likely, with_ngrams
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.kinds.pair import Pair
from plmkit.tasks.ngrams import matrix_of
from plmkit.tasks.rows import read_labelled

SIZES = (50, 100, 300, 800)  # rows of dev


def right_and_likelihood(folder: Path, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(strengths, rows) whether an answer is right, and the log-likelihood of its label."""
    paired = len((folder / "train.tsv").read_text(encoding="utf-8").split("\n", 1)[0].split("\t")) > 2
    kind = Pair() if paired else Classify()
    train, other = [], []
    for part in ("train", "dev", "test"):
        if (path := folder / f"{part}.tsv").is_file():
            (train if part == "train" else other).extend(read_labelled(path, kind, Search(), lambda _: None).rows)
    random.Random(0).shuffle(train)
    task = with_ngrams(kind.learn(train, folder / "train.tsv"), train[:rows])
    of_train, of_other = (matrix(task, some) for some in (train[:rows], other))
    labels = torch.tensor([task.target(row) for row in other])
    right, likelihood = [], []
    for strength in STRENGTHS:
        answers = task.linear_model(of_train, train[:rows], strength).answers(of_other)
        found = answers.double().log_softmax(1)
        right.append((found.argmax(1) == labels).double().numpy())
        likelihood.append(found[torch.arange(len(labels)), labels].numpy())
    return np.array(right), np.array(likelihood)


def matrix(task: Classify, rows: Sequence[Row]) -> object:
    examples = [Example(row=row, inputs=(), label=0, ngrams=task.ngrams.vector((row.text, row.other))) for row in rows]
    return matrix_of([example.ngrams for example in examples], len(task.ngrams))


def chosen(right: np.ndarray, likelihood: np.ndarray, dev: int, draws: int) -> list[float]:
    """Mean accuracy on other rows: chosen by accuracy, as `plm` does, by likelihood, and of the best strength."""
    rng, found = np.random.default_rng(0), np.zeros(4)
    for _ in range(draws):
        order = rng.permutation(right.shape[1])
        own, rest = order[:dev], right[:, order[dev:]].mean(1)
        scores, chances = right[:, own].mean(1), likelihood[:, own].mean(1)
        by_score = max(range(len(scores)), key=lambda number: (scores[number], chances[number]))
        ours = most_likely(scores.tolist(), (-chances).tolist(), dev)
        found += [rest[by_score], rest[ours], rest[chances.argmax()], rest.max()]
    return (100 * found / draws).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strengths", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=3000, help="training rows [3000]")
    parser.add_argument("--draws", type=int, default=200, help="of the rows of dev [200]")
    asked = parser.parse_args()
    lines = []
    for folder in asked.folders:
        say(f"{folder.name}: {len(STRENGTHS)} strengths")
        right, likelihood = right_and_likelihood(folder, asked.rows)
        for dev in SIZES:
            if 2 * dev <= right.shape[1]:
                lines.append(
                    (folder.name, str(dev), *(f"{one:.1f}" for one in chosen(right, likelihood, dev, asked.draws)))
                )
    print(table(("set", "rows of dev", "by score", "by both (as it is)", "by likelihood", "best strength"), lines))


if __name__ == "__main__":
    main()
