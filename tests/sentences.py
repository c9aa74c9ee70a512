"""Simple sentences, drawn at random."""

import random

SUBJECTS = ["the cat", "the dog", "a bird", "my friend", "the old man", "a child", "the teacher", "the king"]
VERBS = ["sees", "likes", "follows", "hears", "meets", "finds", "paints", "calls"]
OBJECTS = ["a house", "the river", "a red car", "the moon", "an apple", "the garden", "a long road", "the sea"]


def sentence(rng: random.Random) -> str:
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}."
