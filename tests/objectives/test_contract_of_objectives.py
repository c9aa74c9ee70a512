"""Every objective declares what it reads, and reads what it declares."""

from dataclasses import fields, replace

import pytest
import torch

from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import OBJECTIVES
from plmkit.config.settings import snake
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.vocabulary import unnamed
from plmkit.distillation.teacher import NetworkTeacher
from plmkit.errors import RecipeError
from plmkit.network import Network
from plmkit.objectives.contract import FIELDS, Objective
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import RealDialogue

ALWAYS = {"source", "logits"}  # every batch has the one; two losses share the other, which one made from the states
TAUGHT = {"teacher", "attention"}  # what the network adds for heads that compare it with a teacher


def watched(kind: type, parts: Batch | States, seen: set[str]):
    """The same batch or states, noting the fields that are read."""

    class Watched(kind):
        def __getattribute__(self, name: str):
            if name in FIELDS:
                seen.add(name)
            return super().__getattribute__(name)

    return Watched(**{field.name: getattr(parts, field.name) for field in fields(parts)})


def network_of(kind: type[Objective]) -> Network:
    """The network of a small recipe that has this objective; dialogues are classified as pairs of sentences are."""
    tiny = [find(name) for name in CATALOGUE if name.endswith(("-tiny", "-mini", "-tiny-adversarial"))]
    if kind is RealDialogue:
        model = find("ernie-mini").architecture.build(unnamed(30))
        return Network(model, {kind.name: kind().build(model)}, {kind.name: 1.0})
    if kind.needs_teacher:
        model, teacher = (find("bert-tiny").architecture.build(unnamed(30)) for _ in range(2))
        lm = {MaskedLM.name: MaskedLM()}
        own = {name: one.build(model) for name, one in {**lm, kind.name: kind()}.items()}
        network = Network(model, own, dict.fromkeys(own, 1.0))
        network.teacher = NetworkTeacher(
            Network(teacher, {name: one.build(teacher) for name, one in lm.items()}, {}), False
        )
        return network
    tiny.append(find("kg-stage"))
    tiny.append(replace(find("caption-tiny"), objectives=find("caption-base").objectives))
    return next(recipe for recipe in tiny if kind in map(type, recipe.objectives)).build(unnamed(30))


def batch_of_everything() -> Batch:
    tokens = torch.randint(5, 30, (2, 8), generator=torch.Generator().manual_seed(0))
    targets = torch.full_like(tokens, IGNORE)
    targets[:, 3:5] = 7
    edges = torch.full((2, 8, 2), -1)
    edges[:, 3:5] = torch.tensor([2, 5])
    order = torch.stack([torch.arange(8), torch.arange(8)], dim=-1).expand(2, -1, -1)
    images = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    masks = torch.ones(2, 256, dtype=torch.int8)
    return Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool)), targets=targets, edges=edges,
        images=images, region_masks=masks, other_caption=torch.tensor([0, 1]),
        random_next=torch.tensor([0, 1]), swapped_order=torch.tensor([0, 1]), mixed_dialogue=torch.tensor([0, 1]),
        order=torch.tensor([0, 5]), distance=torch.tensor([2, 1]), discourse=torch.tensor([14, 0]),
        relevance=torch.tensor([1, 2]), capitals=(tokens % 2), elsewhere=(tokens % 3 == 0).long(),
        attention_order=order, reversed=torch.tensor([False, True]), relation=torch.tensor([3, 0]),
        entities=torch.where(targets == IGNORE, IGNORE, 9), corrupted_triple=torch.tensor([0, 1]),
    )  # fmt: skip


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_an_objective_reads_what_it_declares(kind):
    torch.manual_seed(0)
    network, batch = network_of(kind).train(), batch_of_everything()
    by_model: set[str] = set()
    head = network.heads[kind.name]
    if kind.needs_teacher:
        batch = network.taught(batch, [head])
        states, by_model = network.states(batch), {"hidden", "layers"}
    else:
        states = network.model(watched(Batch, batch, by_model))
    read: set[str] = set()
    given = watched(States, states, read), watched(Batch, batch, read)
    assert torch.isfinite(head(*given)) and head.scored(given[1]) > 0
    head.needed(given[1])
    if head.auxiliary:
        head.auxiliary_loss(*given)
    assert read - ALWAYS - (TAUGHT if kind.needs_teacher else set()) <= kind.reads, "declared less than it reads"
    assert kind.reads <= read | by_model, "declared more than anybody reads"


def test_no_two_objectives_share_a_name_and_each_is_named_as_its_class():
    assert [kind.name for kind in OBJECTIVES] == [snake(kind.__name__) for kind in OBJECTIVES]
    assert len({kind.name for kind in OBJECTIVES}) == len(OBJECTIVES)


def test_a_field_that_no_batch_has_cannot_be_declared():
    with pytest.raises(TypeError, match=r"Guess\.reads has \['verdicts'\]"):

        class Guess(Objective):
            reads = frozenset({"hidden", "verdicts"})


def test_a_batch_runs_only_the_heads_it_is_for():
    network, batch = network_of(OBJECTIVES[0]), batch_of_everything()
    assert network(batch).losses.keys() == {"masked_lm", "next_sentence"}
    some = replace(batch, heads=frozenset({"next_sentence"}))
    assert network(some).losses.keys() == network.scored(some).keys() == {"next_sentence"}


def test_an_objective_whose_partner_is_missing_is_refused():
    recipe = find("electra-tiny-adversarial")
    with pytest.raises(RecipeError, match="AdversarialGenerator uses the head of ReplacedToken"):
        replace(recipe, objectives=recipe.objectives[:1])
