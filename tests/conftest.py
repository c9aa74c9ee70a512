"""What many tests share: a tiny vocabulary, tiny corpora, tiny recipes."""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch.set_num_threads(1)  # two workers share two cores

SUBJECTS = "the cat,the dog,a bird,my friend,the old man,a child,the teacher,the king".split(",")
VERBS = "sees,likes,follows,hears,meets,finds,paints,calls".split(",")
OBJECTS = "a house,the river,a red car,the moon,an apple,the garden,a long road,the sea".split(",")


def sentence(rng: random.Random) -> str:
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}."


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is read from, or left in, the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PLM_CACHE", str(folder))
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A text file of 60 documents of 3 to 8 simple sentences."""
    rng = random.Random(0)
    documents = ["\n".join(sentence(rng) for _ in range(rng.randint(3, 8))) for _ in range(60)]
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path
