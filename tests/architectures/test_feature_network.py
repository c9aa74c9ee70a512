"""A recurrent network over the features of another: what it reads, where, and what is trained."""

from dataclasses import replace

import pytest
import torch

from plmkit.architectures.elmo import Elmo
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.features import FeatureNetwork, Features
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError

BASE = Elmo(layers=2, width=8, cell=6, filters=((1, 3), (2, 4)), characters=3, highways=1, dropout=0.3)
ENCODER = Encoder(layers=2, heads=2, width=8, inner=16, max_length=16)


def model_of(place: str = "both", base=BASE, **settings):
    torch.manual_seed(0)
    architecture = FeatureNetwork.over(base, Features(place=place, cell=3, words=5, **settings))
    return architecture.build(replace(unnamed(20), unknown=2)).eval()


def batch_of(*lengths: int, first: bool = False) -> Batch:
    torch.manual_seed(1)
    visible = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    visible = visible.flip(1) if first else visible
    tokens = torch.randint(3, 20, visible.shape)
    characters = torch.randint(0, 260, (*visible.shape, 50))
    return Batch(source=Side(tokens=tokens, visible=visible, characters=characters))


@pytest.mark.parametrize(
    ("place", "inputs", "width", "mixes"),
    [("input", 5 + 8, 6, ["input"]), ("output", 5, 6 + 8, ["output"]), ("both", 5 + 8, 6 + 8, ["input", "output"])],
)
def test_features_are_concatenated_to_the_words_or_the_output_or_both(place, inputs, width, mixes):
    model, batch = model_of(place), batch_of(4, 2)
    assert (model.cells.input_size, model.settings.width, list(model.mixes)) == (inputs, width, mixes)
    read = []
    model.cells.register_forward_pre_hook(lambda _, given: read.append(given[0].data))
    states = model(batch)
    assert states.hidden.shape == (2, 4, width)
    layers = model.base(replace(batch, all_layers=True)).layers
    mean = torch.stack(layers).mean(0)  # an untrained mix
    longest_first = batch.source.visible
    if "input" in mixes:
        torch.testing.assert_close(read[0][0], torch.cat([model.words(batch.source.tokens)[0, 0], mean[0, 0]]))
    if "output" in mixes:
        torch.testing.assert_close(states.hidden[..., 6:][longest_first], mean[longest_first])


def test_both_mixes_are_trained_each_for_its_place():
    model = model_of("both", dropout=0.0).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch_of(4, 2)).hidden.square().sum().backward()
        assert all(mix.weights.grad.abs().sum() > 0 and mix.scale.grad.abs() > 0 for mix in model.mixes.values())
        optimizer.step()
    first, second = (mix.weights.detach() for mix in model.mixes.values())
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("first", [False, True], ids=["padding last", "padding first"])
def test_padding_changes_nothing_wherever_it_stands(first):
    model, batch = model_of(), batch_of(5, 2, first=first)
    batch = replace(batch, source=replace(batch.source, features=torch.randn(2, 5, 3, 8)))
    text = slice(-2, None) if first else slice(2)
    found, wanted = model(batch), model(batch.each(lambda tensor: tensor[1:, text]))
    torch.testing.assert_close(found.hidden[1, text], wanted.hidden[0])
    torch.testing.assert_close(found.pooled[1], wanted.pooled[0])


def test_features_that_were_computed_before_give_the_same_states():
    model, batch = model_of(), batch_of(5, 2)
    kept = torch.stack(model.base(replace(batch, all_layers=True)).layers, dim=2)
    ready = replace(batch, source=replace(batch.source, features=kept, characters=None))
    model.base = None  # it is not needed
    found = model(ready)
    torch.testing.assert_close(found.hidden, model_of()(batch).hidden)


def test_the_base_is_what_a_frozen_network_keeps():
    architecture = model_of().settings
    assert architecture.base.dropout == 0.0
    assert architecture.is_pretrained("model.base.embed.project.weight")
    assert not architecture.is_pretrained("model.cells.weight_ih_l0") and not architecture.is_pretrained("heads.x")
    assert architecture.layer_of("model.base.directions.1.layers.1.bias") == 2
    assert architecture.layer_of("model.words.weight") == 3
    assert architecture.reads_characters
    assert FeatureNetwork.over(ENCODER, Features()).vocabulary_size(
        {"model.base.embed.tokens.weight": torch.zeros(7, 8)}
    ) == 7  # fmt: skip


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"place": "middle"}, "takes none, input, output, both; found 'middle'"),
        ({"cell": 0}, "a cell of at least 1"),
        ({"dropout": 1.0}, "below 1; found 128, 50 and 1"),
        ({"place": "output", "words": 0}, "task.features.words must be above 0"),
    ],
)
def test_settings_that_make_no_network_are_refused(change, found):
    with pytest.raises(SettingError, match=found):
        Features(**change)
