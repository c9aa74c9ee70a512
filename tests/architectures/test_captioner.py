"""The captioner is the network of its paper, written here once more by its formulas."""

from itertools import pairwise

import pytest
import torch

from plmkit.architectures.captioner import Captioner
from plmkit.architectures.contract import CacheSettings
from plmkit.catalogue import find
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import SettingError
from plmkit.layers.recording import recording

WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{number}" for number in range(15))))
SHAPE = {"layers": 1, "width": 8, "cell": 12, "features": 16, "image_size": 16, "convolutions": 2}


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = Captioner(**SHAPE).build(WORDS).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def batch_of(rows: int = 2, length: int = 5) -> Batch:
    torch.manual_seed(1)
    tokens = torch.randint(5, 20, (rows, length))
    images = torch.randint(0, 256, (rows, 3, 16, 16), dtype=torch.uint8)
    return Batch(source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool)), images=images)


def reference(model, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Xu et al., 2015: states and weights, with loops over rows, steps and regions."""
    weights_of = dict(model.named_parameters())
    cell, attention = model.cells[0], model.attention
    states, shares = [], []
    for tokens, regions in zip(batch.source.tokens, model.regions(batch.images), strict=True):
        begin = torch.tanh(model.start(regions.mean(0)))
        hidden, memory = begin[:12], begin[12:]
        row, row_shares = [], []
        for token in tokens:
            scores = []
            for region in regions:  # e_ti = U tanh(W_a a_i + W_h h + b)
                inner = attention.query(hidden) + weights_of["attention.key.weight"] @ region
                scores.append((weights_of["attention.sum.weight"] @ inner.tanh()).squeeze())
            share = torch.stack(scores).softmax(0)
            context = attention.gate(hidden).sigmoid() * sum(
                a * region for a, region in zip(share, regions, strict=True)
            )
            word = model.embed.tokens.weight[token]
            gates = cell.weight_ih @ torch.cat([word, context]) + cell.bias_ih + cell.weight_hh @ hidden + cell.bias_hh
            enter, forget, new, leave = gates.chunk(4)
            memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * memory.tanh()
            row.append(torch.tanh(word + model.from_cell(hidden) + weights_of["from_context.weight"] @ context))
            row_shares.append(share)
        states.append(torch.stack(row))
        shares.append(torch.stack(row_shares))
    return torch.stack(states), torch.stack(shares)


def test_states_weights_and_gradients_are_those_of_the_papers_formulas(model):
    batch = batch_of()
    expected, shares = reference(model, batch)
    expected.square().sum().backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    with recording() as kept:
        found = model(batch).hidden
    found.square().sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(kept[0].weights[:, 0], shares.detach())
    assert (len(kept), kept[0].kind) == (1, "cross")
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[name], msg=lambda text, name=name: f"{name}: {text}")


def test_the_weights_of_the_regions_add_up_to_one_and_asking_for_them_changes_nothing(model):
    batch = batch_of()
    with recording() as kept:
        found = model(batch).hidden
    assert kept[0].weights.shape == (2, 1, 5, 16)
    torch.testing.assert_close(kept[0].weights.sum(-1), torch.ones(2, 1, 5, dtype=torch.float64))
    assert torch.equal(found, model(batch).hidden)


def test_a_state_depends_on_its_own_image_and_on_earlier_words_only(model):
    batch = batch_of()
    batch.source.tokens[0, 3] = 7
    before = model(batch).hidden
    batch.source.tokens[0, 3] = 8
    after = model(batch).hidden
    assert torch.equal(before[0, :3], after[0, :3]) and not torch.allclose(before[0, 3:], after[0, 3:])
    batch.images[0] = 255 - batch.images[0]
    other = model(batch).hidden
    assert not torch.allclose(other[0], after[0])
    torch.testing.assert_close(other[1], after[1])


def test_a_caption_read_in_steps_has_the_states_of_one_read_at_once_and_rows_can_be_picked(model):
    batch = batch_of()
    whole = model(batch).hidden
    cache = model.begin(CacheSettings(2, 5, images=batch.images))
    first = model.extend(batch.source.tokens[:, :2], cache)
    cache.pick(torch.tensor([1, 1, 0]))
    rest = model.extend(batch.source.tokens[[1, 1, 0]][:, 2:], cache)
    torch.testing.assert_close(first, whole[:, :2])
    torch.testing.assert_close(rest, whole[[1, 1, 0]][:, 2:])
    assert cache.length == 5


@pytest.mark.parametrize("name", ["caption-tiny", "caption-mini", "caption-base"])
def test_parameters_follow_the_closed_form(name):
    shape, vocabulary = find(name).architecture, 100
    width, cell, features = shape.width, shape.cell, shape.features
    channels = {3: [3, 32, 64, 64], 4: [3, 32, 64, 128, features]}[shape.convolutions]
    encoder = sum(9 * before * after + 3 * after for before, after in pairwise(channels))
    encoder += shape.grid**2 * features + (features + 1) * features + 2 * features
    decoder = vocabulary * width + (features + 1) * 2 * cell + 4 * cell * (width + features + cell + 2)
    decoder += (cell + 1) * features + features**2 + features + cell + 1  # scores and gate
    decoder += (cell + 1) * width + features * width
    words = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{number}" for number in range(95))))
    assert sum(weight.numel() for weight in shape.build(words).parameters()) == encoder + decoder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_size": 18}, r"image_size=18 cannot be halved 2 times .* Choose a multiple of 8\."),
        ({"image_size": 4}, "cannot be halved"),
        ({"features": 12}, r"architecture\.features must be a multiple of 8; found 12"),
        ({"cell": 0}, r"architecture\.cell must be at least 1"),
        ({"dropout": 1.0}, r"architecture\.dropout must be at least 0 and below 1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(changes, said):
    with pytest.raises(SettingError, match=said):
        Captioner(**{**SHAPE, **changes})
