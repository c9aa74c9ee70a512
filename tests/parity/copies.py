"""Shared by the parity tests: random weights, the same network on our side, a batch, a comparison of gradients."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.interop.naming import all_pairs, from_huggingface, to_huggingface
from plmkit.network import Network
from plmkit.training.checkpoint import put_weights

VOCABULARY, LENGTHS = 61, (16, 11, 5)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def roughen(network: nn.Module, names: tuple[str, ...] = ("bias", "norm"), by: float = 0.2) -> nn.Module:
    """Add noise to parameters with one of `names` in their name: initial biases and norms would not show mistakes."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if any(part in name.lower() for part in names):
                parameter.add_(by * torch.randn_like(parameter))
    return network


def network_of(settings, heads: Mapping[str, nn.Module] | None = None, tasks=()) -> Network:
    """The architecture with the heads of these objectives, each with its own weight."""
    model = settings.build(unnamed(VOCABULARY))
    made = {task.name: task.build(model) for task in tasks} | dict(heads or {})
    return Network(model, made, dict.fromkeys(made, 1.0) | {task.name: task.weight for task in tasks})


def copied(theirs: nn.Module, family, tasks=(), heads: Mapping[str, nn.Module] | None = None, settings=None) -> Network:
    """Our network with the weights of a Hugging Face one."""
    settings = settings or family.architecture(theirs.config.to_dict(), where=None)
    network = network_of(settings, heads, tasks)
    put_weights(network, from_huggingface(theirs.state_dict(), family, settings), source=None)
    return network


def some_batch(*, pad: int = 0, asked_share: float = 0.3) -> Batch:
    """Three rows of 16, 11 and 5 tokens, two segments each, some predicted positions; no token equals padding."""
    torch.manual_seed(4)
    lengths = torch.tensor(LENGTHS)
    places = torch.arange(max(LENGTHS)).expand(len(LENGTHS), -1)
    visible = places < lengths[:, None]
    tokens = torch.randint(pad + 1, VOCABULARY, visible.shape).where(visible, torch.tensor(pad))
    asked = (torch.rand(visible.shape) < asked_share) & visible
    asked[:, 1] = True
    targets = torch.randint(VOCABULARY, visible.shape).where(asked, torch.tensor(IGNORE))
    segments = ((places > lengths[:, None] // 2) & visible).long()
    verdicts = torch.tensor([0, 1, 1])
    return Batch(
        source=Side(tokens=tokens, visible=visible, segments=segments),
        targets=targets,
        random_next=verdicts,
        swapped_order=verdicts,
        labels=verdicts,
    )


def gradients_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: weight.grad for name, weight in network.named_parameters()}


def same_gradients(ours: Network, wanted: Mapping[str, Tensor]) -> None:
    """Every gradient is equal, and none is zero."""
    found = gradients_of(ours)
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], **CLOSE, msg=lambda text, name=name: f"{name}: {text}")
        assert gradient.abs().max() > 1e-4, f"{name}: equal zeros would show nothing"


def left_over(theirs: nn.Module, family, settings, heads: Iterable[str]) -> set[str]:
    """Import, export and import again, which must change no bit; gives the names that are not exported."""
    own = theirs.state_dict()
    first = from_huggingface(own, family, settings)
    exported = to_huggingface(first, family, settings)
    again = from_huggingface(exported, family, settings)
    named = {name for name, _ in all_pairs(family, settings, heads)}
    pooled = getattr(settings, "pooler", True)
    assert first.keys() == again.keys() == {name for name in named if pooled or "pooler" not in name}
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(torch.equal(exported[name], own[name]) for name in exported)
    return own.keys() - exported.keys()


def decodes_by_the_embedding(ours: Network, head: str, width: int = 24) -> None:
    """The head's output embedding is the token embedding itself, which is saved once."""
    table = ours.heads[head].vocabulary._table[0].weight
    assert table.data_ptr() == ours.model.embed.tokens.weight.data_ptr()
    assert sum(weight.shape == (VOCABULARY, width) for weight in ours.parameters()) == 1
