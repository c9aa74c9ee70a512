"""Image match and masked regions: their losses by hand, what they count, and what they cannot see."""

from dataclasses import replace

import pytest
import torch

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.batch import IGNORE, Batch, Regions, Side
from plmkit.data.rows import SEEN, ZEROED
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.network import Network
from plmkit.objectives.masked_regions import TEMPERATURE, MaskedRegions

SMALL = [
    "architecture.width=16", "architecture.inner=32", "architecture.features=8", "architecture.visual_width=16",
    "architecture.visual_inner=16", "architecture.joint_width=16",
]  # fmt: skip


def network(classes: int | None = None, files: bool = True) -> Network:
    torch.manual_seed(0)
    given = [
        *SMALL,
        f"architecture.image_size={'none' if files else 32}",
        f"architecture.patch_size={16 if files else 8}",
    ]
    recipe = settle(find("vilbert-tiny"), given).recipe
    objectives = tuple(
        replace(own, detector_classes=classes) if isinstance(own, MaskedRegions) else replace(own)
        for own in recipe.objectives
    )
    return replace(recipe, objectives=objectives).build(unnamed(30)).eval()


def batch_of(classes: int | None = None) -> Batch:
    """Two texts with images of 4 and 3 regions; of the first two regions are masked, of the second one."""
    torch.manual_seed(1)
    tokens = torch.randint(5, 30, (2, 6))
    visible = torch.tensor([[True] * 4, [True] * 3 + [False]])
    regions = Regions(
        features=torch.randn(2, 4, 8) * visible[..., None], visible=visible, boxes=torch.rand(2, 4, 4),
        classes=None if classes is None else torch.rand(2, 4, classes).softmax(-1),
    )  # fmt: skip
    masks = torch.zeros(2, 256, dtype=torch.int8)
    masks[0, 0], masks[0, 2], masks[1, 1], masks[1, 3] = ZEROED, SEEN, ZEROED, ZEROED  # the last one is padding
    targets = torch.full((2, 6), IGNORE)
    targets[:, 2] = tokens[:, 2]
    return Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool)), targets=targets,
        regions=regions, region_masks=masks, other_caption=torch.tensor([0, 1]),
    )  # fmt: skip


def test_classes_of_masked_regions_are_compared_by_the_divergence_from_the_detectors():
    made, batch = network(classes=5), batch_of(classes=5)
    head, states = made.heads["masked_regions"], made.model(batch)
    assert head.scored(batch) == 3
    logits = head.answers(states, batch)
    assert logits.shape == (3, 5)
    wanted = torch.stack([batch.regions.classes[0, 0], batch.regions.classes[0, 2], batch.regions.classes[1, 1]])
    by_hand = (wanted * (wanted.log() - logits.log_softmax(-1))).sum(-1).mean()
    torch.testing.assert_close(head(states, batch), by_hand)


def test_without_classes_a_region_is_found_among_all_of_the_batch():
    made, batch = network(), batch_of()
    head, states = made.heads["masked_regions"], made.model(batch)
    made_of = head.answers(states, batch)
    candidates = torch.cat([batch.regions.features[0], batch.regions.features[1, :3]])
    cosines = torch.nn.functional.cosine_similarity(made_of[:, None], candidates[None], dim=-1)
    by_hand = -(cosines / TEMPERATURE).log_softmax(-1)[torch.arange(3), torch.tensor([0, 2, 5])].mean()
    torch.testing.assert_close(head(states, batch), by_hand)


def test_the_features_that_are_to_be_found_get_no_gradient_as_targets():
    made, batch = network(), batch_of()
    features = batch.regions.features.clone().requires_grad_()
    given = replace(batch, regions=replace(batch.regions, features=features))
    made.heads["masked_regions"](made.model(given), given).backward()
    assert not features.grad[0, 0].any()  # zeroed: as input it is not seen, as target it has no gradient
    assert features.grad[0, 1].any()


def test_no_loss_depends_on_a_zeroed_region_but_by_its_target():
    made, batch = network(classes=5), batch_of(classes=5)

    def losses(region: int) -> dict[str, float]:
        changed = batch.regions.features.clone()
        changed[0, region] += 3
        given = replace(batch, regions=replace(batch.regions, features=changed))
        return {name: loss.item() for name, loss in made(given).losses.items()}

    plain = {name: loss.item() for name, loss in made(batch).losses.items()}
    assert losses(0) == plain  # zeroed
    assert all(value != plain[name] for name, value in losses(1).items())


def test_regions_of_pixels_are_counted_by_the_grid():
    made, batch = network(files=False), batch_of()
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    given = replace(batch, regions=None, images=images)
    assert made.heads["masked_regions"].scored(given) == 4  # of 16 places in either image
    assert made(given).losses.keys() == {"masked_lm", "masked_regions", "image_match"}
    none = replace(given, region_masks=torch.zeros_like(given.region_masks))
    assert "masked_regions" not in made(none).losses


def test_the_match_is_the_product_of_the_two_pooled_vectors():
    made, batch = network(), batch_of()
    states = made.model(batch)
    model, kept = made.model, []
    for pooler in (model.text_pooler, model.visual_pooler):
        pooler.register_forward_hook(lambda _, given, out: kept.append(out.relu()))
    model(batch)
    torch.testing.assert_close(states.pooled, kept[0] * kept[1])
    head = made.heads["image_match"]
    loss = torch.nn.functional.cross_entropy(head.classify(states.pooled), batch.other_caption)
    torch.testing.assert_close(head(states, batch), loss)


def test_one_class_is_refused():
    with pytest.raises(SettingError, match="at least 2, or none; found 1"):
        MaskedRegions(detector_classes=1)
