"""Attention heads, and units of feed-forward sublayers, left out by their importance (Michel et al., 2019)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.architectures.encoder import Encoder, EncoderModel
from plmkit.errors import PlmError
from plmkit.inference.loading import Parts
from plmkit.inference.model import Model
from plmkit.language import tr
from plmkit.tasks.batches import batch_of_examples, next_tokens
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.framing import by_length
from plmkit.tasks.heads import TaskHead

ROWS = 1024  # by which heads are judged; more change the order little
BATCH = 16


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Of each layer, the importance of its heads and of its feed-forward units."""

    heads: list[np.ndarray]  # (heads,) each
    units: list[np.ndarray]  # (inner,) each


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The heads and units of each layer that stay, in their order."""

    heads: list[np.ndarray]
    units: list[np.ndarray]


def check_prunable(parts: Parts) -> None:
    if not isinstance(parts.architecture, Encoder) or not parts.tasks:
        raise PlmError(
            tr(
                "{folder} cannot be pruned: that takes a fine-tuned encoder of BERT's kind, by whose rows heads are "
                "judged.",
                folder=parts.folder,
            )
        )
    if not parts.architecture.is_berts and not parts.architecture.is_pruned:
        raise PlmError(tr("{folder} has attention by distances, which plm does not prune.", folder=parts.folder))


def importance_of(model: Model, rows: dict[str, list[Row]]) -> Importance:
    """The mean over rows of |activation × gradient of the loss|, of each layer divided by its norm (4.1)."""
    network = cast(EncoderModel, model.network.model)
    heads = [np.zeros(cast(Any, block).attention.heads) for block in network.blocks]
    units = [np.zeros(cast(Any, block).feed_forward.contract.in_features) for block in network.blocks]
    for name, own in rows.items():
        task = model.tasks[name]
        some = [own[place] for place in np.linspace(0, len(own) - 1, min(ROWS, len(own))).astype(int)]
        for loss, inputs, row_of in passes(model, task, task.frame(some, model.tokenizer, task.length)):
            for layer, (products, gradient) in enumerate(zip(inputs, torch.autograd.grad(loss, inputs), strict=True)):
                by_row = summed_by_row(products * gradient, row_of)
                found = heads if layer < len(heads) else units
                place = layer % len(heads)
                by_row = by_row.unflatten(1, (len(found[place]), -1)).sum(2)
                found[place] += by_row.abs().sum(0).numpy() / len(own)
    return Importance(heads=[normed(one) for one in heads], units=[normed(one) for one in units])


def normed(importance: np.ndarray) -> np.ndarray:
    return importance / max(1e-12, float(np.linalg.norm(importance)))


def summed_by_row(products: Tensor, row_of: Tensor) -> Tensor:
    """(T, ...) of packed tokens → (B, ...)."""
    made = products.new_zeros(int(row_of.max()) + 1, *products.shape[1:])
    return made.index_add_(0, row_of, products.detach())


def passes(model: Model, task: Task, examples: Sequence[Example]) -> Iterator[tuple[Tensor, list[Tensor], Tensor]]:
    """Of each batch the loss, the inputs of the output layers of all sublayers, and the row of each of its tokens.

    The inputs are those of attention, layer by layer, then those of feed-forward.
    """
    network, head = model.network, cast(TaskHead, model.network.heads[task.name])
    blocks: list[Any] = list(cast(EncoderModel, network.model).blocks)
    layers = [block.attention.output for block in blocks] + [block.feed_forward.contract for block in blocks]
    ready = task.for_epoch(examples, 0, 0)
    for numbers in by_length(ready, BATCH):
        chosen = [ready[number] for number in numbers]
        batch = batch_of_examples(chosen, model.tokenizer.vocabulary, task.fixed_length)
        labels = task.labels(chosen, model.tokenizer.vocabulary, batch.source.tokens.shape[1])
        batch = replace(batch, labels=labels, targets=next_tokens(batch))
        with torch.enable_grad(), inputs_of(layers) as kept:
            loss = head(network.model(batch), batch)
            yield loss, [kept[layer] for layer in layers], batch.source.visible.nonzero()[:, 0]


@contextmanager
def inputs_of(layers: Sequence[nn.Module]) -> Iterator[dict[nn.Module, Tensor]]:
    """Inside, what each layer was last given."""
    kept: dict[nn.Module, Tensor] = {}

    def keep(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        kept[layer] = given[0]

    hooks = [layer.register_forward_pre_hook(keep) for layer in layers]
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


def kept_of(importance: Importance, heads: float, units: float) -> Kept:
    """What stays without the least important share of all heads, and of all units; one of each layer at least."""
    return Kept(heads=best_of(importance.heads, heads), units=best_of(importance.units, units))


def best_of(importance: Sequence[np.ndarray], share: float) -> list[np.ndarray]:
    """The places that stay in each layer, of all layers together without the least important share."""
    flat = np.concatenate(importance)
    layer_of = np.repeat(np.arange(len(importance)), [len(one) for one in importance])
    best = {layer: int(one.argmax()) for layer, one in enumerate(importance)}
    starts = np.cumsum([0, *(len(one) for one in importance)])
    protected = {int(starts[layer]) + place for layer, place in best.items()}
    order = [place for place in np.argsort(flat, kind="stable") if int(place) not in protected]
    gone = set(map(int, order[: round(share * len(flat))]))
    return [
        np.array([place - starts[layer] for place in np.flatnonzero(layer_of == layer) if int(place) not in gone])
        for layer in range(len(importance))
    ]


def pruned(parts: Parts, kept: Kept) -> Parts:
    """The same model with what is kept."""
    architecture = cast(Encoder, parts.architecture)
    inside = architecture.width // architecture.heads
    weights = dict(parts.weights)
    for layer, (heads, units) in enumerate(zip(kept.heads, kept.units, strict=True)):
        stem = f"model.blocks.{layer}"
        own = torch.from_numpy((heads[:, None] * inside + np.arange(inside)).ravel())
        count = weights[f"{stem}.attention.output.weight"].shape[1]
        three = torch.cat([own + part * count for part in range(3)])
        for name, places, dim in (
            ("attention.query_key_value.weight", three, 0), ("attention.query_key_value.bias", three, 0),
            ("attention.output.weight", own, 1), ("feed_forward.expand.weight", torch.from_numpy(units), 0),
            ("feed_forward.expand.bias", torch.from_numpy(units), 0),
            ("feed_forward.contract.weight", torch.from_numpy(units), 1),
        ):  # fmt: skip
            weights[f"{stem}.{name}"] = weights[f"{stem}.{name}"].index_select(dim, places).contiguous()
    changed = replace(
        architecture, kept_heads=tuple(map(len, kept.heads)),
        kept_inner=tuple(map(len, kept.units)) if any(len(one) < architecture.inner for one in kept.units) else None,
    )  # fmt: skip
    return replace(parts, architecture=changed, weights=weights)
