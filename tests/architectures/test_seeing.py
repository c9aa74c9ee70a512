"""Text with images: one stream of both, and two that attend to each other (MMD-01, MMD-02)."""

from dataclasses import replace

import pytest
import torch
from test_architecture_contract import LAYERS, TINY, batch_of, model_of

from plmkit.architectures.co_attention import CoAttention, with_area
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.visual_encoder import VisualEncoder
from plmkit.data.batch import Batch, Regions
from plmkit.data.rows import SEEN, ZEROED
from plmkit.errors import SettingError
from plmkit.layers.packing import Packing
from plmkit.layers.recording import recording
from plmkit.layers.regions import grid_boxes

BOTH = ["visual encoder", "co-attention"]
SHAPE = {"layers": 2, "heads": 2, "width": 8, "inner": 16}


def masks(*places: tuple[int, int, int]) -> torch.Tensor:
    made = torch.zeros(2, 256, dtype=torch.int8)
    for row, region, kind in places:
        made[row, region] = kind
    return made


def test_queries_of_one_stream_attend_only_to_keys_and_values_of_the_other():
    """MMD-02: what a co-attention block reads into the text depends on its own text by the query alone.

    With all keys and values of the image equal, attention returns that value whatever the query: the text has no
    influence at all. With different ones it has, by the weights, and the read is a mean of the image's values.
    """
    block = model_of(TINY["co-attention"]).joint[0]
    texts, images = (Packing(torch.ones(1, length, dtype=torch.bool)) for length in (5, 4))
    text, image = torch.randn(5, 8, dtype=torch.double), torch.randn(4, 12, dtype=torch.double)
    for attention, own, packing, other, others in (
        (block.to_image, text, texts, image, images),
        (block.to_text, image, images, text, texts),
    ):
        own = own.requires_grad_()
        same = other[:1].expand_as(other)
        (gradient,) = torch.autograd.grad(attention(own, packing, attention.read(same, others)).square().sum(), own)
        assert gradient.abs().max() < 1e-12
        (gradient,) = torch.autograd.grad(attention(own, packing, attention.read(other, others)).square().sum(), own)
        assert gradient.abs().max() > 1e-6
        # and a state of the own stream never reaches another of it, in either case
        one = attention(own, packing, attention.read(other, others))[0].sum()
        (gradient,) = torch.autograd.grad(one, own)
        assert gradient[0].abs().max() > 1e-9
        assert not gradient[1:].any()


def test_a_co_attention_block_reads_both_streams_as_they_were_before_it():
    block = model_of(TINY["co-attention"]).joint[1]
    texts, images = (Packing(torch.ones(2, length, dtype=torch.bool)) for length in (5, 4))
    text, image = torch.randn(10, 8, dtype=torch.double), torch.randn(8, 12, dtype=torch.double)
    found, seen = block(text, texts, image, images)
    joint, norm = block.to_image, block.text
    query = joint.query(text).view(2, 5, 2, 4).transpose(1, 2)  # by hand: two heads of width 4
    key, value = (part.reshape(2, 4, 2, 4).transpose(1, 2) for part in joint.key_value(image).chunk(2, -1))
    read = (query @ key.mT / 2).softmax(-1) @ value
    hidden = norm.attention_norm(text + joint.output(read.transpose(1, 2).reshape(10, 8)))
    torch.testing.assert_close(found, norm.feed_forward_norm(hidden + norm.feed_forward(hidden)))
    assert seen.shape == image.shape


def test_six_blocks_join_the_regions_layers_0_to_5_with_the_texts_layers_6_to_11():
    base = CoAttention(layers=12, heads=12, width=768, inner=3072)
    assert [(base.before(6, number), base.before(12, number)) for number in range(6)] == [
        (0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11),
    ]  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_the_image_reaches_every_token_and_only_of_its_own_row(name):
    model, batch = model_of(TINY[name]), replace(batch_of(), targets=None)
    changed = batch.images.clone()
    changed[0] = 255 - changed[0]
    one, other = model(batch), model(replace(batch, images=changed))
    moved = (one.hidden - other.hidden).abs().amax(-1)
    assert (moved[0] > 1e-6).all()
    assert not moved[1].any()
    assert (one.pooled[0] - other.pooled[0]).abs().max() > 1e-6


@pytest.mark.parametrize("name", BOTH)
def test_without_an_image_it_reads_the_text_as_the_encoder_that_is_fine_tuned(name):
    model, batch = model_of(TINY[name]), replace(batch_of(), targets=None, images=None)
    tuned = TINY[name].for_task(0.0)
    assert type(tuned) is Encoder
    alone = model_of(tuned)
    kept = {key: weight for key, weight in model.state_dict().items() if TINY[name].is_tuned(f"model.{key}")}
    missing, extra = alone.load_state_dict(kept, strict=False)
    assert not extra
    assert {key.split(".")[0] for key in missing} <= {"pooler"}
    torch.testing.assert_close(model(batch).hidden, alone(batch).hidden)


@pytest.mark.parametrize("name", BOTH)
def test_regions_given_as_features_are_those_that_it_makes_of_pixels(name):
    model, batch = model_of(TINY[name]), replace(batch_of(), targets=None)
    features = model.eye(batch.images)
    regions = Regions(
        features=features, visible=torch.ones(features.shape[:2], dtype=torch.bool),
        boxes=grid_boxes(4).double().expand(2, -1, -1),
    )  # fmt: skip
    given = replace(batch, images=None, regions=regions)
    torch.testing.assert_close(model(given).pooled, model(batch).pooled)


def test_a_zeroed_region_is_not_seen_and_a_masked_one_that_stays_is():
    model, batch = model_of(TINY["co-attention"]), replace(batch_of(), targets=None)
    changed = batch.images.clone()
    changed[0, :, :2, :2] = 255 - changed[0, :, :2, :2]  # inside the first region; its neighbours see the edge alone

    def moved(kind: int) -> float:
        given = replace(batch, region_masks=masks((0, 0, kind)))
        features = model.eye(changed)
        inputs = model.eye(batch.images).detach()
        inputs[0, 0] = features[0, 0]
        visible, boxes = torch.ones(2, 16, dtype=torch.bool), grid_boxes(4).double().expand(2, -1, -1)
        one, other = (
            model(replace(given, images=None, regions=Regions(features=values, visible=visible, boxes=boxes)))
            for values in (model.eye(batch.images), inputs)
        )
        return float((one.pooled - other.pooled).detach().abs().max())

    assert moved(ZEROED) == 0.0  # nor by the mean over the image
    assert moved(SEEN) > 1e-8


def test_states_of_regions_are_those_of_regions_without_the_image_as_a_whole():
    states = model_of(TINY["co-attention"])(replace(batch_of(), region_masks=masks((1, 3, ZEROED))))
    assert states.region_hidden.shape == (2, 16, 12)
    assert states.region_inputs.shape == (2, 16, 8)
    assert states.region_inputs[1, 3].any()  # the target, which the network does not see
    assert states.region_visible.all()


def test_boxes_have_their_share_of_the_image_and_places_of_a_grid_are_in_rows():
    assert with_area(torch.tensor([0.0, 0.25, 0.5, 0.75])).tolist() == [0.0, 0.25, 0.5, 0.75, 0.25]
    assert grid_boxes(2).tolist() == [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]]


@pytest.mark.parametrize("name", BOTH)
def test_padded_regions_change_nothing(name):
    model = model_of(replace(TINY[name], image_size=None))
    features = torch.randn(2, 5, model.settings.features, dtype=torch.double)
    boxes = torch.rand(2, 5, 4, dtype=torch.double)
    visible = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    text = replace(batch_of(), targets=None, images=None)
    whole = model(replace(text, regions=Regions(features=features, visible=visible, boxes=boxes)))
    few = Regions(features=features[1:, :3], visible=visible[1:, :3], boxes=boxes[1:, :3])
    alone = model(replace(text.part(1, 2), regions=few))
    torch.testing.assert_close(whole.pooled[1:], alone.pooled)
    torch.testing.assert_close(whole.hidden[1, :6], alone.hidden[0, :6])


@pytest.mark.parametrize("name", BOTH)
def test_attention_to_regions_is_recorded(name):
    with recording() as kept, torch.no_grad():
        model_of(TINY[name])(replace(batch_of((9, 9)), targets=None))
    if name == "visual encoder":
        assert [tuple(layer.weights.shape[-2:]) for layer in kept] == [(25, 25)] * LAYERS
    else:
        crossed = [tuple(layer.weights.shape[-2:]) for layer in kept if layer.kind == "cross"]
        assert crossed == [(9, 17), (17, 9)] * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"image_size": 30}, "cannot be cut into regions of 16 × 16"),
        ({"image_size": 16}, "an image has 4 to 256 regions"),
        ({"image_size": 96, "patch_size": 12}, "a power of two"),
        ({"image_size": 96, "features": 10}, "a multiple of 8"),
        ({"region_encoder": "eyes"}, "takes convolutions, patches"),
        ({"segments": 1}, "at least 2"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, says):
    with pytest.raises(SettingError, match=says):
        VisualEncoder(**SHAPE, **changes)


def test_a_batch_is_split_and_moved_with_its_regions():
    regions = Regions(
        features=torch.zeros(3, 2, 4), visible=torch.ones(3, 2, dtype=torch.bool), boxes=torch.zeros(3, 2, 4)
    )
    batch = Batch(source=batch_of((9, 6, 3)).source, regions=regions)
    assert batch.part(1, 3).regions.features.shape == (2, 2, 4)
