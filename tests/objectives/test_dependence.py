"""Two hidden words that depend on each other: a masked model mixes them up, an ordered one does not."""

import pytest
import torch

from plmkit.architectures.encoder import Encoder
from plmkit.architectures.two_stream import TwoStream
from plmkit.data.batch import IGNORE, Batch
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.permuted_lm import PermutedLM

MASK, A, CITY = 0, 1, 6  # a place is told by its distances to two words; one would not do
PAIRS = torch.tensor([[2, 3], [4, 5]])  # "new york" and "los angeles", each as often: the words never mix
SHAPE = {"layers": 1, "heads": 2, "width": 16, "inner": 32, "dropout": 0.0, "attention_dropout": 0.0}
STEPS = 400


def rows_of(tokens: torch.Tensor) -> Batch:
    return Batch(tokens=tokens, segments=torch.zeros_like(tokens), visible=torch.ones_like(tokens, dtype=torch.bool))


def text(pairs: torch.Tensor) -> torch.Tensor:
    """`new york a city`, say."""
    return torch.cat([pairs, torch.tensor([[A, CITY]]).expand(len(pairs), -1)], dim=1)


def masked(pairs: torch.Tensor) -> Batch:
    shown = text(torch.full_like(pairs, MASK))
    targets = torch.cat([pairs, torch.full((len(pairs), 2), IGNORE)], dim=1)
    return Batch(**{**vars(rows_of(shown)), "targets": targets})


def ordered(pairs: torch.Tensor, first: torch.Tensor) -> Batch:
    """Both words are asked for; `first` says which comes first in the order."""
    nothing = torch.zeros_like(first)
    rank = torch.stack([first, 1 - first, nothing, nothing], dim=1)
    read = torch.where(torch.tensor([True, True, False, False]), rank, -1)
    reading = torch.stack([read, rank], dim=-1)
    targets = torch.cat([pairs, torch.full((len(pairs), 2), IGNORE)], dim=1)
    return Batch(**{**vars(rows_of(text(pairs))), "targets": targets, "reading": reading})


def learn(model, head, batch: Batch) -> None:
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(STEPS):
        head(model(batch), batch).backward()
        optimizer.step()
        optimizer.zero_grad()


EVERY = PAIRS.repeat(2, 1), torch.tensor([0, 0, 1, 1])  # both pairs in both orders


def test_a_masked_model_gives_half_of_the_mass_to_pairs_that_never_occur():
    torch.manual_seed(0)
    model = Encoder(**SHAPE, pooler=False).build(range(7))
    head = MaskedLM().build(model)
    learn(model, head, masked(EVERY[0]))
    with torch.no_grad():
        shares = head.vocabulary(model(masked(PAIRS[:1])).hidden[0, :2]).softmax(-1)  # (2, vocabulary)
    joint = shares[0][:, None] * shares[1]  # its objective: the hidden words do not know of each other
    right = float(joint[2, 3] + joint[4, 5])
    assert right == pytest.approx(0.5, abs=0.05)
    assert float(joint[2, 5] + joint[4, 3]) == pytest.approx(0.5, abs=0.05)


def test_in_either_order_the_second_word_knows_the_first():
    torch.manual_seed(0)
    model = TwoStream(**SHAPE, memory=0).build(range(7))
    head = PermutedLM().build(model)
    learn(model, head, ordered(*EVERY))
    for first in (0, 1):
        wrong = 0.0
        for word in PAIRS[:, first].tolist():
            pairs = torch.full((1, 2), MASK)
            pairs[0, first] = word
            batch = ordered(pairs, torch.tensor([first]))
            with torch.no_grad():
                shares = head.vocabulary(model(batch).hidden[0, :2]).softmax(-1)
            beginning, second = shares[first], shares[1 - first]
            right = int(PAIRS[PAIRS[:, first] == word][0, 1 - first])
            assert float(beginning[word]) == pytest.approx(0.5, abs=0.05)
            wrong += float(beginning[word] * (1 - second[right]))
        assert wrong < 0.02
