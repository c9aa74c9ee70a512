"""What is said of ELMo, on toy languages of a few words."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from plmkit.architectures.elmo import Elmo
from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import Vocabulary
from plmkit.layers.scalar_mix import ScalarMix
from plmkit.network import Network
from plmkit.objectives.direction_lm import BackwardLM, ForwardLM
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.tokenizers.counted import sentence_words

STEPS = 30


def trained(network: Network, batch: Batch) -> Network:
    """From weights that are large enough to tell words apart at once, trained on one batch."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        sum(network.train()(batch).weighted.values()).backward()
        optimizer.step()
    return network.eval()


def side_of(rows: Tensor) -> Side:
    return Side(tokens=rows, visible=torch.ones_like(rows, dtype=torch.bool))


def probe(states: Tensor, answers: Tensor) -> Tensor:
    """What a linear function of states, fitted by least squares, answers."""
    inputs = torch.cat([states, torch.ones(len(states), 1)], dim=1).double()
    inputs = inputs + 1e-9 * torch.randn(inputs.shape, generator=torch.Generator().manual_seed(0)).double()
    gram = inputs.t() @ inputs + 1e-6 * torch.eye(inputs.shape[1]).double()
    return inputs @ torch.linalg.solve(gram, inputs.t() @ answers.double())


def share_right(answers: Tensor, truth: Tensor, draws: int = 2000) -> float:
    """The share of right answers, each 1 with the probability that was fitted."""
    drawn = torch.rand(draws, len(answers), generator=torch.Generator().manual_seed(0)) < answers.float().clamp(0, 1)
    return float((drawn == truth.bool()).float().mean())


def test_a_word_that_is_the_exclusive_or_of_its_neighbours_needs_both_sides_at_once():
    """Two directions side by side explain nothing of it; a masked language model that reads both sides explains it."""
    torch.manual_seed(0)
    left, right = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    middle = left ^ right
    names = "a0 a1 b0 b1 x0 x1".split()

    masked = Vocabulary.from_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *names])
    bert = Encoder(layers=2, heads=2, width=32, inner=64, max_length=8, dropout=0.0, attention_dropout=0.0)
    model = bert.build(masked)
    row = torch.stack([torch.full((4,), 2), 5 + left, torch.full((4,), 4), 7 + right, torch.full((4,), 3)], dim=1)
    targets = torch.full_like(row, IGNORE)
    targets[:, 2] = 9 + middle
    batch = Batch(source=side_of(row), targets=targets)
    head = MaskedLM().build(model)
    trained(Network(model, {"masked_lm": head}, {"masked_lm": 1.0}), batch)
    with torch.no_grad():
        both_sides = model(Batch(source=side_of(row))).hidden[:, 2]

    words = sentence_words(["<S>", "</S>", "<UNK>", *names]).vocabulary
    elmo = Elmo(layers=2, width=32, cell=32, filters=((1, 8), (2, 8)), highways=0, dropout=0.0).build(words)
    text = torch.stack([3 + left, 7 + middle, 5 + right], dim=1)
    rows = torch.cat([text, text.flip(1)])
    batch = Batch(source=side_of(rows[:, :2]), targets=rows[:, 1:], reversed=torch.arange(8) >= 4)
    heads = {"forward_lm": ForwardLM(samples=0).build(elmo), "backward_lm": BackwardLM().build(elmo)}
    trained(Network(elmo, heads, {"forward_lm": 0.5, "backward_lm": 0.5}), batch)
    with torch.no_grad():
        hidden = elmo(Batch(source=side_of(text))).hidden
    one_side_each = torch.cat([hidden[:, 0, :16], hidden[:, 2, 16:]], dim=1)  # what predicts the middle, from each side

    explained = {name: 1 - (probe(states, middle) - middle).square().sum() / (middle - 0.5).square().sum()
                 for name, states in (("elmo", one_side_each), ("bert", both_sides))}  # fmt: skip
    assert explained["elmo"] < 0.01  # 50 % is guessing
    assert explained["bert"] > 0.99
    assert share_right(probe(both_sides, middle), middle) >= 0.9
    assert share_right(probe(one_side_each, middle), middle) == pytest.approx(0.5, abs=0.1)


@pytest.fixture(scope="module")
def accuracies() -> dict[str, list[float]]:
    """Of a linear tagger on a frozen ELMo, over three seeds: on a learned mix of layers, and on the last."""
    words = sentence_words(["<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(40))]).vocabulary
    found: dict[str, list[float]] = {"mix": [], "top": []}
    for seed in range(3):
        torch.manual_seed(seed)
        elmo = Elmo(layers=2, width=32, cell=32, filters=((1, 16), (3, 16)), highways=1, dropout=0.0)
        model = elmo.build(words).eval().requires_grad_(False)
        tags = torch.randint(5, (43,))  # a tag per word, as most words have
        text = torch.randint(3, 43, (60, 9))
        layers = model(Batch(source=side_of(text), all_layers=True)).layers
        for name, used in (("mix", layers), ("top", layers[-1:])):
            torch.manual_seed(seed)
            mix, tagger = ScalarMix(len(used), normalise=True), nn.Linear(32, 5)
            optimizer = torch.optim.Adam([*mix.parameters(), *tagger.parameters()], lr=3e-2)
            visible = torch.ones(60, 9, dtype=torch.bool)
            for _ in range(60):
                optimizer.zero_grad()
                logits = tagger(mix(used, visible))
                nn.functional.cross_entropy(logits[:40].flatten(0, 1), tags[text[:40]].flatten()).backward()
                optimizer.step()
            found[name].append(float((logits[40:].argmax(2) == tags[text[40:]]).float().mean()))
    return found


def test_a_learned_mix_of_layers_tags_at_least_as_well_as_the_last_layer(accuracies, record_property):
    for name, values in accuracies.items():
        record_property(name, f"{np.mean(values):.3f} ± {np.std(values):.3f}")  # in the report of the run
    assert all(mixed >= top for mixed, top in zip(accuracies["mix"], accuracies["top"], strict=True))
    assert np.mean(accuracies["mix"]) > np.mean(accuracies["top"]) + 2 * np.std(accuracies["top"])
