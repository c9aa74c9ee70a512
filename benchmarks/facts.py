"""What a stage on triples is worth against as many further steps of language modelling: a cloze of facts.

`python -m benchmarks.facts` makes a toy world (people, where each lives, works and was born), pretrains a small BERT on
text that has all the names but none of the facts, and continues it in two ways for the same number of steps and rows:
on sentences that state the facts (`Ada lives in Rome.`), as a language model, and on triples, by kg-stage with a share
of the first text. It prints how often the right name is the first choice in a cloze of a sentence
(`Ada lives in [MASK].`) and in one of a triple, before and after, and what was forgotten of the first text.
"""

import argparse
import random
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import plmkit
from benchmarks.shared import say
from plmkit.inference.model import Model
from plmkit.inference.ranking import evaluate_triples
from plmkit.terminal.screen import Screen

RELATIONS = {"lives in": "cities", "was born in": "cities", "works for": "firms"}
SYLLABLES = "ba be bi bo da de di do ka ke ki ko la le li lo ma me mi mo na ne ni no ra re ri ro sa se si so".split()
SHAPE = {
    "architecture.layers": 2, "architecture.heads": 4, "architecture.width": 64, "architecture.inner": 256,
    "architecture.max_length": 64, "tokenizer.size": 1_500, "stages": "[[1.0, 32]]", "run.threads": 1,
    "sentence_task": "none",
}  # fmt: skip
CONTINUED = {"schedule.batch": 32, "schedule.learning_rate": 3e-3, "run.threads": 1}
ARMS = ("before", "language modelling", "kg-stage")


def made_names(count: int, rng: random.Random) -> list[str]:
    names: set[str] = set()
    while len(names) < count:
        names.add("".join(rng.choices(SYLLABLES, k=3)))
    return sorted(names, key=lambda name: rng.random())


def world(people: int, places: int, seed: int) -> tuple[dict[str, list[str]], list[tuple[str, str, str]]]:
    """Names of people, cities and firms, and a fact of each relation about everyone."""
    rng = random.Random(seed)
    names = made_names(people + 2 * places, rng)
    kinds = {"people": names[:people], "cities": names[people : people + places], "firms": names[people + places :]}
    facts = [
        (person, relation, rng.choice(kinds[kind]))
        for person in kinds["people"]
        for relation, kind in RELATIONS.items()
    ]  # fmt: skip
    return kinds, facts


def plain_text(kinds: dict[str, list[str]], seed: int, documents: int) -> list[str]:
    """Documents with all the names, in which no fact is stated."""
    rng = random.Random(seed)

    def lines() -> Iterator[str]:
        for _ in range(4):
            person, other = rng.sample(kinds["people"], 2)
            city, firm = rng.choice(kinds["cities"]), rng.choice(kinds["firms"])
            yield rng.choice(
                [
                    f"{person} met {other} near the river.", f"{city} is a city with an old bridge.",
                    f"{firm} is a firm that sells bread.", f"{person} and {other} read a book.",
                    f"{person} was born, lives and works.", f"a train leaves {city} for the sea.",
                ]
            )  # fmt: skip

    return ["\n".join(lines()) for _ in range(documents)]


def write(folder: Path, people: int, places: int, seed: int) -> tuple[Path, Path, Path, list[tuple[str, str, str]]]:
    """The first text, that with the facts, and the triples."""
    kinds, facts = world(people, places, seed)
    text = plain_text(kinds, seed, 12 * people)
    plain, stated, triples = folder / "plain.txt", folder / "stated.txt", folder / "triples.tsv"
    plain.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    sentences = [f"{head} {relation} {tail}." for head, relation, tail in facts]
    stated.write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    rows = "".join("\t".join(fact) + "\n" for fact in facts)
    triples.write_text("head\trelation\ttail\n" + rows, encoding="utf-8")
    return plain, stated, triples, facts


def sentence_cloze(model: Model, facts: list[tuple[str, str, str]]) -> float:
    """How often the tail is the first choice of the LM head; it is the right name only if it is one token."""
    filled = model.fill([f"{head} {relation} [MASK]." for head, relation, _ in facts], top=1)
    return sum(blanks[0][0].token == fact[2] for blanks, fact in zip(filled, facts, strict=True)) / len(facts)


def language(model: Model, text: list[str]) -> float:
    """The mean pseudo-log-probability of a token of other text, negated: lower is better."""
    scores = model.score(text)
    total = sum(score.pseudo_log_probability for score in scores)
    return -float(total) / sum(score.tokens for score in scores)


def measured(folder: Path, triples: Path, facts: list[tuple[str, str, str]], other: list[str]) -> dict[str, float]:
    model = plmkit.load(folder, device="cpu")
    ranks = evaluate_triples(model, triples, Screen(quiet=True), by="cloze")["tails"]
    return {
        "sentence cloze": sentence_cloze(model, facts),
        "triple cloze": ranks["hits@1"],
        "triple cloze, MRR": ranks["mrr"],
        "loss of language": language(model, other),
    }


def compare(
    folder: Path, *, first: int, steps: int, people: int, places: int, seed: int
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Each arm's measures, from one first stage."""
    plain, stated, triples, facts = write(folder, people, places, seed)
    kinds, _ = world(people, places, seed)
    other = [line for document in plain_text(kinds, seed + 1, 10) for line in document.splitlines()]
    common: dict[str, Any] = {"seed": seed, "quiet": True}
    plmkit.pretrain("bert-tiny", plain, folder / ARMS[0], steps=first, settings=SHAPE, **common)
    shape = {name: value for name, value in SHAPE.items() if name != "tokenizer.size"}
    plmkit.pretrain(
        "bert-tiny", [stated, plain], folder / ARMS[1], start=folder / ARMS[0], steps=steps,
        settings={**shape, **CONTINUED, "run.weights": "[0.8, 0.2]"}, **common,
    )  # fmt: skip
    plmkit.pretrain(
        "kg-stage", [triples, plain], folder / ARMS[2], start=folder / ARMS[0], steps=steps, settings=CONTINUED,
        **common,
    )  # fmt: skip
    return {arm: measured(folder / arm, triples, facts, other) for arm in ARMS}


def table(runs: list[dict[str, dict[str, float]]]) -> str:
    """The mean of each measure over the seeds, with the standard deviation."""
    measures = list(runs[0][ARMS[0]])
    lines = ["| " + " | ".join(["", *measures]) + " |", "|---" * (1 + len(measures)) + "|"]
    for arm in ARMS:
        cells = []
        for name in measures:
            values = [run[arm][name] for run in runs]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.3f}{spread}")
        lines.append("| " + " | ".join([arm, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.facts", description=__doc__)
    parser.add_argument("--first", type=int, default=400, help="steps of the first stage")
    parser.add_argument("--steps", type=int, default=600, help="steps of each way to continue")
    parser.add_argument("--people", type=int, default=40, help="three facts are about each")
    parser.add_argument("--places", type=int, default=12, help="cities, and as many firms")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    runs = []
    for seed in range(asked.seeds):
        with TemporaryDirectory(prefix="plmkit-facts-") as folder:
            sizes = {"first": asked.first, "steps": asked.steps, "people": asked.people, "places": asked.places}
            runs.append(compare(Path(folder), seed=seed, **sizes))
        say(f"seed {seed}: {runs[-1]}")
    print(table(runs))


if __name__ == "__main__":
    main()
