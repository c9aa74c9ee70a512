"""Two masked words that depend on each other: a masked model mixes them up, an ordered one does not.

And a word that tells them from the right: a left-to-right model misses it, the others do not.
"""

import pytest
import torch

from plmkit.architectures.decoder import Decoder
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.two_stream import TwoStream
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.permuted_lm import PermutedLM

MASK, A, CITY = 0, 1, 6  # a position is determined by its distances to two words; one would not do
PAIRS = torch.tensor([[2, 3], [4, 5]])  # "new york" and "los angeles", each as often: the words never mix
CUES = torch.tensor([[7], [8]])  # "east" and "west", say: each follows its own pair
SHAPE = {"layers": 1, "heads": 2, "width": 16, "inner": 32, "dropout": 0.0, "attention_dropout": 0.0}
STEPS = 120


def rows_of(tokens: torch.Tensor) -> Batch:
    return Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool), segments=torch.zeros_like(tokens))
    )


def text(pairs: torch.Tensor, cues: torch.Tensor | None = None) -> torch.Tensor:
    """`new york a city`, say, or `new york a east`."""
    cues = torch.tensor([[CITY]]).expand(len(pairs), -1) if cues is None else cues
    return torch.cat([pairs, torch.full((len(pairs), 1), A), cues], dim=1)


def left_to_right(pairs: torch.Tensor, cues: torch.Tensor | None = None) -> Batch:
    """`a new york a city`, where each position predicts the next token."""
    tokens = torch.cat([torch.full((len(pairs), 1), A), text(pairs, cues)], dim=1)
    return Batch(**{**vars(rows_of(tokens[:, :-1])), "targets": tokens[:, 1:]})


def masked(pairs: torch.Tensor, cues: torch.Tensor | None = None) -> Batch:
    shown = text(torch.full_like(pairs, MASK), cues)
    targets = torch.cat([pairs, torch.full((len(pairs), 2), IGNORE)], dim=1)
    return Batch(**{**vars(rows_of(shown)), "targets": targets})


def ordered(pairs: torch.Tensor, first: torch.Tensor, cues: torch.Tensor | None = None) -> Batch:
    """Both words are predicted; `first` says which comes first in the order."""
    nothing = torch.zeros_like(first)
    rank = torch.stack([first, 1 - first, nothing, nothing], dim=1)
    read = torch.where(torch.tensor([True, True, False, False]), rank, -1)
    reading = torch.stack([read, rank], dim=-1)
    targets = torch.cat([pairs, torch.full((len(pairs), 2), IGNORE)], dim=1)
    return Batch(**{**vars(rows_of(text(pairs, cues))), "targets": targets, "attention_order": reading})


def learn(model, head, batch: Batch) -> None:
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(STEPS):
        head(model(batch), batch).backward()
        optimizer.step()
        optimizer.zero_grad()


EVERY = PAIRS.repeat(2, 1), torch.tensor([0, 0, 1, 1])  # both pairs in both orders


def test_a_masked_model_gives_half_of_the_mass_to_pairs_that_never_occur():
    torch.manual_seed(0)
    model = Encoder(**SHAPE, pooler=False).build(unnamed(9))
    head = MaskedLM().build(model)
    learn(model, head, masked(EVERY[0]))
    with torch.no_grad():
        shares = head.vocabulary(model(masked(PAIRS[:1])).hidden[0, :2]).softmax(-1)  # (2, vocabulary)
    joint = shares[0][:, None] * shares[1]  # its objective: the masked words do not know of each other
    right = float(joint[2, 3] + joint[4, 5])
    assert right == pytest.approx(0.5, abs=0.05)
    assert float(joint[2, 5] + joint[4, 3]) == pytest.approx(0.5, abs=0.05)


def test_in_either_order_the_second_word_knows_the_first():
    torch.manual_seed(0)
    model = TwoStream(**SHAPE, memory=0).build(unnamed(9))
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


def test_a_left_to_right_model_tells_the_second_word_from_the_first():
    torch.manual_seed(0)
    model = Decoder(**SHAPE).build(unnamed(9))
    head = CausalLM().build(model)
    learn(model, head, left_to_right(PAIRS))
    wrong = 0.0
    for first, second in PAIRS.tolist():
        with torch.no_grad():
            shares = head.vocabulary(model(left_to_right(torch.tensor([[first, MASK]]))).hidden[0]).softmax(-1)
        assert float(shares[0, first]) == pytest.approx(0.5, abs=0.05)
        wrong += float(shares[0, first] * (1 - shares[1, second]))
    assert wrong < 0.02


def test_what_stands_on_the_right_is_no_help_to_a_left_to_right_model():
    torch.manual_seed(0)
    model = Decoder(**SHAPE).build(unnamed(9))
    head = CausalLM().build(model)
    learn(model, head, left_to_right(PAIRS, CUES))
    for pair, cue in zip(PAIRS, CUES, strict=True):
        with torch.no_grad():
            shares = head.vocabulary(model(left_to_right(pair[None], cue[None])).hidden[0, 0]).softmax(-1)
        assert shares[PAIRS[:, 0]].tolist() == pytest.approx([0.5, 0.5], abs=0.05)


def test_a_masked_model_reads_it_on_the_right_but_reads_masks_that_no_other_text_has():
    torch.manual_seed(0)
    model = Encoder(**SHAPE, pooler=False).build(unnamed(9))
    head = MaskedLM().build(model)
    learn(model, head, masked(PAIRS, CUES))
    batch = masked(PAIRS, CUES)
    with torch.no_grad():
        shares = head.vocabulary(model(batch).hidden[:, :2]).softmax(-1)
    assert (shares.gather(-1, PAIRS[:, :, None]) > 0.95).all()
    assert (batch.source.tokens[:, :2] == MASK).all()
    assert not (left_to_right(PAIRS, CUES).source.tokens == MASK).any()
    assert not (ordered(PAIRS, torch.tensor([0, 1]), CUES).source.tokens == MASK).any()


def test_in_either_order_what_stands_on_the_right_is_read():
    torch.manual_seed(0)
    model = TwoStream(**SHAPE, memory=0).build(unnamed(9))
    head = PermutedLM().build(model)
    pairs, first, cues = *EVERY, CUES.repeat(2, 1)
    learn(model, head, ordered(pairs, first, cues))
    with torch.no_grad():
        shares = head.vocabulary(model(ordered(pairs, first, cues)).hidden[:, :2]).softmax(-1)
    assert (shares.gather(-1, pairs[:, :, None]) > 0.95).all()  # of the first in the order, too
