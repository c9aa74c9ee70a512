"""Initial weights that are counted in the corpus."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.config.settings import to_json
from plmkit.data.vocabulary import unnamed
from plmkit.initialisation.corpus import COUNTED, Initialisation
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.recipe import recipe_from_json

SIZE = 20
BIAS = Initialisation(frequency_bias=True)
EMBEDDINGS = Initialisation(cooccurrence_embeddings=True)


class Counts:
    """Token t occurs t times; only token 7 has neighbours."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    @property
    def frequencies(self) -> np.ndarray:
        self.asked.append("frequencies")
        return np.arange(SIZE)

    def cooccurrence_embeddings(self, width: int) -> np.ndarray:
        self.asked.append(width)
        made = np.zeros((SIZE, width), dtype=np.float32)
        made[7, 1] = 1
        return made


def weights_after(initialisation: Initialisation, recipe: str = "bert-tiny"):
    """The weights of a new network before and after, and what was counted."""
    torch.manual_seed(0)
    network, counts = find(recipe).build(unnamed(SIZE)), Counts()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    initialisation.apply(network, counts)
    changed = {name: weight for name, weight in network.state_dict().items() if not torch.equal(weight, before[name])}
    return before, changed, counts.asked


def test_by_default_nothing_is_counted_and_nothing_changes():
    _, changed, asked = weights_after(Initialisation())
    assert (changed, asked) == ({}, [])


@pytest.mark.parametrize(
    ("recipe", "biases"),
    [
        ("bert-tiny", {"heads.masked_lm.vocabulary.bias"}),
        ("spanbert-mini", {"heads.masked_lm.vocabulary.bias", "heads.span_boundary.vocabulary.bias"}),
        ("electra-tiny", {"model.vocabulary.bias"}),
        ("xlnet-tiny", {"heads.permuted_lm.vocabulary.bias"}),
    ],
)
def test_biases_start_at_the_unigram_distribution(recipe, biases):
    _, changed, _ = weights_after(BIAS, recipe)
    shares = (np.arange(SIZE) + 0.5) / (np.arange(SIZE) + 0.5).sum()
    assert changed.keys() == biases
    for bias in changed.values():
        np.testing.assert_allclose(bias.exp().numpy(), shares, rtol=1e-5)


def test_embeddings_start_from_counts_for_their_width_and_stay_random_for_unseen_tokens():
    before, changed, asked = weights_after(EMBEDDINGS)
    [(name, table)] = changed.items()
    assert name == "model.embed.tokens.weight" and asked == [table.shape[1]]
    assert table[7, 1].item() == pytest.approx(COUNTED)
    assert table[7].count_nonzero() == 1
    others = torch.arange(SIZE) != 7
    assert torch.equal(table[others], before[name][others])


def test_the_vocabulary_is_restricted_only_for_objectives_that_ask_and_only_then_counted():
    recipe = find("bert-base")
    recipe.build(unnamed(SIZE)).restrict_vocabulary(lambda: pytest.fail("nobody asks for it"))
    asking = replace(find("bert-tiny"), objectives=(MaskedLM(corpus_vocabulary=True),)).build(unnamed(SIZE))
    asking.restrict_vocabulary(lambda: np.arange(SIZE))
    assert asking.heads["masked_lm"].vocabulary.occurring.tolist() == list(range(1, SIZE))


@pytest.mark.parametrize("name", ["objectives.near_vectors", "objectives.masked_lm.near_vectors"])
def test_old_names_are_still_set(name):
    recipe = settle(find("bert-tiny"), [f"{name}=false", "objectives.frequency_bias=false"]).recipe
    assert recipe.initialisation == Initialisation()


def test_old_runs_said_it_of_their_objectives():
    data = to_json(find("spanbert-mini"))
    del data["initialisation"]
    data["objectives"] = [
        {"kind": "MaskedLM", "weight": 1.0, "frequency_bias": True, "near_vectors": True},
        {"kind": "SpanBoundary", "weight": 1.0, "frequency_bias": True},
    ]
    assert recipe_from_json(data) == find("spanbert-mini")
    data["objectives"] = [{"kind": "MaskedLM", "weight": 1.0, "frequency_bias": False, "near_vectors": False}]
    old = recipe_from_json(data)
    assert (old.objectives, old.initialisation) == ((MaskedLM(),), Initialisation())
