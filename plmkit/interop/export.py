"""Writing a model for other tools, and seeing that they compute the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from plmkit.errors import CheckpointError, PlmError, SettingError, nearest
from plmkit.interop.huggingface import (
    behind,
    family_of,
    heads_of,
    hub_logits,
    transformers_installed,
    write_huggingface,
)
from plmkit.loading import model_of, read_parts
from plmkit.model import Model, Text
from plmkit.training.progress import Screen

FORMATS = ("huggingface",)
TOLERANCE = 1e-4
SENTENCES = ("The cat sat on the mat.", "今天天气很好，我们去公园散步。", "BERT was released in 2018 by Google.")


def export(model: Path, folder: Path, format: str, screen: Screen) -> dict[str, Any]:
    """Write the folder, then open it with transformers where that is installed and compare every logit."""
    if format not in FORMATS:
        raise SettingError(
            f"There is no export format '{format}'.{nearest(format, FORMATS)} Formats: {', '.join(FORMATS)}."
        )
    parts = read_parts(model)
    if parts.task and parts.task.pooling != "first":
        raise PlmError(
            f"{model} pools by '{parts.task.pooling}', which Hugging Face's classifiers cannot do. "
            "Fine-tune with task.pooling=first to export."
        )
    task, family = parts.task, family_of(parts.architecture, parts.model_type)
    nets = family.networks(parts.architecture, parts.weights, parts.tokenizer.vocabulary)
    for net in nets:
        for head in sorted(heads_of(behind(net.weights, family))):
            screen.say(f"! A Hugging Face {family.TITLE} has no head for {head}; it stays behind.")
    write_huggingface(
        folder, parts.weights, parts.architecture, parts.tokenizer,
        vocabulary_size=parts.vocabulary_size, model_type=parts.model_type,
        classes=task.classes if task else None, numeric=bool(task and task.kind.numeric),
    )  # fmt: skip
    told: dict[str, Any] = {"folder": str(folder), "format": format, "checked": False}
    if not transformers_installed():
        screen.say(f"Written to {folder}. transformers is not installed here, so the logits were not compared.")
        return told
    # what is compared is the model itself, or the part of it that a folder holds
    own = [replace(parts, architecture=net.architecture, weights=net.weights) if net.place else parts for net in nets]
    difference = max(
        largest_difference(model_of(part, device="cpu"), folder / net.place)
        for part, net in zip(own, nets, strict=True)
    )
    if not difference <= TOLERANCE:
        raise CheckpointError(
            f"{folder} was written, but transformers computes other logits with it: they differ by {difference:.2g}.\n"
            "Do not use it; please report this with the model's run.json."
        )
    screen.say(f"Written to {folder}; transformers gives the same logits (largest difference {difference:.1e}).")
    return {**told, "checked": True, "largest_difference": difference}


def largest_difference(model: Model, folder: Path) -> float:
    """Over all heads, on sentences with padding and a pair among them."""
    texts: list[Text] = [*SENTENCES, (SENTENCES[0], SENTENCES[1])]
    rows = model.rows(texts)
    states, batch = model.states(rows)
    worst = 0.0
    for name, logits in hub_logits(folder, batch).items():
        ours = head_logits(model, name, states, batch)
        gap = (ours - logits).abs()
        if gap.shape[:2] == batch.visible.shape:
            gap = gap[batch.visible]  # what is computed at padding means nothing
        worst = max(worst, float(gap.max()) if torch.isfinite(gap).all() else float("inf"))
    return worst


@torch.inference_mode()
def head_logits(model: Model, name: str, states: Any, batch: Any) -> torch.Tensor:
    if name == "hidden":
        return states.hidden
    head: Any = model.network.heads[name]
    return head.answers(states, batch)
