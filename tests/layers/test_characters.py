"""Word vectors from characters, compared with explicit loops."""

import pytest
import torch

from plmkit.data.spelling import spell
from plmkit.layers.characters import CharacterEncoder

WORDS = ["the", "thy", "supercalifragilistic", "a", "狗"]


def encoder(**settings) -> CharacterEncoder:
    torch.manual_seed(0)
    made = CharacterEncoder(
        6, **{"characters": 4, "filters": ((1, 3), (3, 5)), "highways": 2, "activation": "relu"} | settings
    )
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return made.double()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_each_filter_keeps_its_largest_match_and_highways_mix_it_with_what_they_make(activation):
    made = encoder(activation=activation)
    rows = torch.from_numpy(spell(WORDS)).long()
    function = {"relu": torch.relu, "tanh": torch.tanh}[activation]
    for row, found in zip(rows, made(rows), strict=True):
        numbers = made.characters.weight[row]  # (50, 4)
        matches = []
        for convolve in made.filters:
            size = convolve.kernel_size[0]
            windows = torch.stack([numbers[at : at + size].t() for at in range(50 - size + 1)])  # (places, 4, size)
            scores = torch.einsum("pcs,fcs->pf", windows, convolve.weight) + convolve.bias
            matches.append(function(scores).amax(0))
        hidden = torch.cat(matches)
        for highway in made.highways:
            new, gate = highway.gates.weight @ hidden + highway.gates.bias, None
            new, gate = new[:8].relu(), new[8:].sigmoid()
            hidden = gate * new + (1 - gate) * hidden
        torch.testing.assert_close(found, made.project.weight @ hidden + made.project.bias)


def test_one_filter_of_two_characters_is_a_maximum_over_pairs():
    made = encoder(filters=((2, 7),), highways=0)
    row = torch.from_numpy(spell(["hello"])).long()
    table, filters = made.characters.weight, made.filters[0]
    pairs = [(table[a], table[b]) for a, b in zip(row[0, :-1], row[0, 1:], strict=True)]
    scores = torch.stack([filters.weight[:, :, 0] @ a + filters.weight[:, :, 1] @ b for a, b in pairs]) + filters.bias
    torch.testing.assert_close(made(row)[0], made.project(scores.amax(0).relu()))


def test_a_spelling_has_one_vector_whatever_else_is_computed():
    made = encoder()
    alone, beside = (made(torch.from_numpy(spell(words))) for words in (["the"], ["the", "the", "x" * 60, "the"]))
    torch.testing.assert_close(beside[[0, 1, 3]], alone.expand(3, -1))
    assert not torch.allclose(beside[2], alone[0])


def test_highways_start_by_copying_their_input():
    torch.manual_seed(0)
    made = CharacterEncoder(6, characters=4, filters=((2, 8),), highways=1, activation="relu")
    assert made.highways[0].gates.bias.tolist() == [0.0] * 8 + [-2.0] * 8
    assert made.characters.weight.abs().max() <= 1
    assert made.filters[0].weight.abs().max() <= 0.05
