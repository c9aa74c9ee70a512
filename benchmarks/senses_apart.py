"""Does a word have another vector in another sense? Pairs of sentences with one word, in the same sense or not.

`python -m benchmarks.senses_apart pairs.jsonl runs/skipgram runs/mine`: the share of (same sense, other sense) pairs of
pairs in which the cosine of the first is higher, by layer. Without any knowledge of senses it is 50%.
Rows have word, sentence1, start1, end1, sentence2, start2, end2 and label (1: the same sense), as in MCL-WiC.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from plmkit.inference.loading import load
from plmkit.insight.word_states import Sentence, word_states
from plmkit.vectors.word_vectors import is_static, load_vectors, unit


def sentences_of(rows: Sequence[dict]) -> list[Sentence]:
    """The first sentence of every row, then the second of every row, with one word each."""
    return [
        Sentence(text=row[f"sentence{n}"], spans=np.array([[row[f"start{n}"], row[f"end{n}"]]]))
        for n in (1, 2)
        for row in rows
    ]


def ranked(cosines: np.ndarray, same: np.ndarray) -> float:
    """The area under the ROC curve, in which ties count a half."""
    higher = np.sign(cosines[same][:, None] - cosines[~same][None])
    return float((higher + 1).mean() / 2)


def contextual(folder: Path, rows: Sequence[dict]) -> tuple[list[float], int]:
    """The area of each layer, and the number of pairs whose two words were read."""
    model = load(folder)
    states = word_states(model, sentences_of(rows))
    read = np.full(2 * len(rows), -1)
    read[states.sentences] = np.arange(len(states.sentences))
    first, second = read[: len(rows)], read[len(rows) :]
    both = (first >= 0) & (second >= 0)
    same = np.array([row["label"] == 1 for row in rows])[both]
    found = []
    for layer in states.layers:
        vectors = unit(layer)
        found.append(ranked((vectors[first[both]] * vectors[second[both]]).sum(1), same))
    return found, int(both.sum())


def static(folder: Path, rows: Sequence[dict]) -> tuple[list[float], int]:
    """One vector per written form: the cosine is below 1 only where the forms differ."""
    vectors = load_vectors(folder)
    pairs = [[row[f"sentence{n}"][row[f"start{n}"] : row[f"end{n}"]] for n in (1, 2)] for row in rows]
    known = [all(vectors.written(word) in vectors.numbers for word in pair) for pair in pairs]
    cosines = [
        float(unit(vectors.vector(one)) @ unit(vectors.vector(two)))
        for (one, two), both in zip(pairs, known, strict=True)
        if both
    ]
    same = np.array([row["label"] == 1 for row in rows])[known]
    return [ranked(np.array(cosines).round(6), same)], len(cosines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.pairs.read_text(encoding="utf-8").splitlines()]
    for folder in given.models:
        found, pairs = (static if is_static(folder) else contextual)(folder, rows)
        print(
            f"| {folder.name} | {pairs:,} | " + " | ".join(f"{100 * share:.1f}" for share in found) + " |", flush=True
        )


if __name__ == "__main__":
    main()
