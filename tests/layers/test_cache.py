"""A decoder that reads in steps says what it says when it reads all at once."""

import pytest
import torch

from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.layers.cache import KeyValueCache

SIZE = {"layers": 3, "heads": 2, "width": 16, "inner": 32, "max_length": 24}
SETTINGS = [
    Decoder(**SIZE), PostNormDecoder(**SIZE), BandedDecoder(**SIZE, band=5), BandedDecoder(**SIZE, band=1),
    BandedDecoder(**SIZE, band=99),
]  # fmt: skip


@pytest.fixture(params=SETTINGS, ids=lambda settings: f"{type(settings).__name__}")
def model(request):
    torch.manual_seed(0)
    made = request.param.build(unnamed(50)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(50, (3, 20), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def whole(model, tokens) -> torch.Tensor:
    return model(
        Batch(source=Side(tokens=tokens, visible=torch.ones_like(tokens).bool(), segments=torch.zeros_like(tokens)))
    ).hidden


@pytest.mark.parametrize("steps", [[20], [1] * 20, [7, 1, 1, 6, 5], [1, 19], [19, 1]])
@torch.inference_mode()
def test_any_steps_give_what_one_pass_gives(model, tokens, steps):
    cache = model.begin(CacheSettings(3, 20))
    found = torch.cat([model.extend(part, cache) for part in tokens.split(steps, dim=1)], dim=1)
    assert cache.length == 20
    torch.testing.assert_close(found, whole(model, tokens), rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_one_row_token_by_token_gives_what_one_pass_gives(model, tokens):
    cache = model.begin(CacheSettings(1, 20))
    found = torch.cat([model.extend(part, cache) for part in tokens[:1].split(1, dim=1)], dim=1)
    torch.testing.assert_close(found, whole(model, tokens[:1]), rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_picked_rows_go_on_as_those_they_came_from(model, tokens):
    cache = model.begin(CacheSettings(3, 20))
    model.extend(tokens[:, :9], cache)
    rows = torch.tensor([2, 0, 2, 2])
    cache.pick(rows)
    torch.testing.assert_close(
        model.extend(tokens[rows, 9:], cache), whole(model, tokens)[rows, 9:], rtol=1e-5, atol=1e-5
    )


@torch.inference_mode()
def test_what_is_cut_off_is_forgotten(model, tokens):
    cache = model.begin(CacheSettings(3, 20))
    model.extend(tokens[:, :9], cache)
    model.extend(tokens[:, :5], cache)
    cache.cut(9)
    torch.testing.assert_close(model.extend(tokens[:, 9:], cache), whole(model, tokens)[:, 9:], rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_reading_on_takes_no_new_room(model, tokens):
    cache = model.begin(CacheSettings(3, 20))
    places = cache.keys.data_ptr(), cache.values.data_ptr()
    for part in tokens.split(1, dim=1):
        model.extend(part, cache)
    assert (cache.keys.data_ptr(), cache.values.data_ptr()) == places


def test_rows_picked_again_and_again_are_those_of_plain_indexing():
    torch.manual_seed(0)
    cache = KeyValueCache(layers=2, rows=3, heads=2, max_length=9, inside=4, like=torch.zeros(1))
    expected = torch.zeros(2, 2, 3, 2, 0, 4)  # layers, keys and values, rows, heads, length, inside
    for rows in (
        [0, 1, 2],
        [2, 0, 0, 1, 1, 2],
        [5, 4, 3, 2, 1, 0],
        [1, 0],
        [1, 1, 0, 0, 1, 1, 0],
        [6, 2, 0],
        [0, 2, 1],
    ):
        new = torch.randn(2, 2, expected.shape[2], 2, 1, 4)
        for number, (keys, values) in enumerate(new):
            cache.layer(number, 1).add(keys, values)
        cache.length += 1
        expected = torch.cat([expected, new], dim=4)
        cache.pick(torch.tensor(rows))
        expected = expected[:, :, rows]
        assert torch.equal(torch.stack([cache.keys, cache.values], dim=1)[..., : cache.length, :], expected)
