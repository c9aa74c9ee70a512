"""A toy language pair, and a tiny Transformer that has learned it."""

import random
from pathlib import Path

import pytest

NOUNS = {"cat": "chat", "dog": "chien", "bird": "oiseau", "king": "roi", "house": "toit"}
ADJECTIVES = {"old": "vieux", "red": "rouge", "small": "petit"}
VERBS = {"sees": "voit", "hears": "entend", "likes": "aime"}
Pair = tuple[str, str]


def translated(name: str | None, rng: random.Random) -> Pair:
    """`the old cat sees a red dog`, and the same with adjectives after nouns; one noun may be a name, which stays."""
    first, second = rng.choices(list(NOUNS), k=2)
    if name:
        first, second = (name, second) if rng.random() < 0.5 else (first, name)
    one, other = rng.choices(list(ADJECTIVES), k=2)
    verb = rng.choice(list(VERBS))
    there = f"le {NOUNS.get(first, first)} {ADJECTIVES[one]} {VERBS[verb]}"
    return (
        f"the {one} {first} {verb} a {other} {second}",
        f"{there} un {NOUNS.get(second, second)} {ADJECTIVES[other]}",
    )


@pytest.fixture(scope="session")
def language() -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Pairs to train on, others, and others with a name that is in no vocabulary."""
    rng = random.Random(0)
    train = [translated(None, rng) for _ in range(300)] + [translated(f"name{n}", rng) for n in range(100)]
    new = [pair for pair in (translated(None, rng) for _ in range(200)) if pair not in train][:50]
    return train, new, [translated(f"zork{n}", rng) for n in range(20)]


def write_pairs(path: Path, pairs: list[Pair], header: str = "en\tfr") -> Path:
    path.write_text("\n".join([header, *map("\t".join, pairs)]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def translating(made: Path, language: tuple[list[Pair], ...]) -> Path:
    """The run folder of a Transformer of one layer, with a vocabulary of words that occur three times."""
    from plmkit.catalogue import find
    from plmkit.config.machine import settle
    from plmkit.terminal.screen import Screen
    from plmkit.training.loop import Budget
    from plmkit.training.pretrain import pretrain
    from plmkit.training.request import PretrainRequest

    pairs = write_pairs(made / "language.tsv", language[0])
    sets = (
        "tokenizer=Words", "tokenizer.min_frequency=3", "architecture.layers=1", "architecture.width=64",
        "architecture.inner=128", "architecture.heads=2", "architecture.dropout=0.0", "architecture.max_length=20",
        "architecture.initialiser=average", "schedule.warmup=0.05", "schedule.batch=16",
        "schedule.learning_rate=5e-3", "stages=[[1.0, 16]]", "run.threads=1",
    )  # fmt: skip
    out, settings = made / "translating", settle(find("transformer-tiny"), sets)
    request = PretrainRequest(settings=settings, corpora=(str(pairs),), out=out, budget=Budget(steps=250))
    pretrain(request, Screen(quiet=True))
    return out
