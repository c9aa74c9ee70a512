"""Writing a model for other tools, and seeing that they compute the same."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from plmkit.errors import CheckpointError, PlmError, SettingError, nearest
from plmkit.files import explained, held, unfinished
from plmkit.interop.families.family import Net
from plmkit.interop.huggingface import (
    behind,
    check_new,
    family_of,
    heads_of,
    hub_logits,
    transformers_installed,
    write_huggingface,
)
from plmkit.loading import Parts, model_of, read_parts
from plmkit.manifest import seal
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
    if parts.task and parts.task.kind.readings != "once":
        raise PlmError(
            f"{model} reads each row several times ({parts.task.kind.name}), which Hugging Face's classifiers cannot. "
            "Export the pretrained model, or a classifier."
        )
    task, family = parts.task, family_of(parts.architecture, parts.model_type)
    nets = family.networks(parts.architecture, parts.weights, parts.tokenizer.vocabulary)
    for net in nets:
        for head in sorted(heads_of(behind(net.weights, family))):
            screen.say(f"! A Hugging Face {family.TITLE} has no head for {head}; it stays behind.")
    with kept_if_sound(folder) as draft:
        write_huggingface(
            draft, parts.weights, parts.architecture, parts.tokenizer,
            vocabulary_size=parts.vocabulary_size, model_type=parts.model_type,
            classes=task.classes if task else None, numeric=bool(task and task.kind.numeric),
        )  # fmt: skip
        with held(draft):
            difference = compared(parts, nets, draft) if transformers_installed() else None
        if difference is not None and not difference <= TOLERANCE:
            raise CheckpointError(
                f"{folder} is not written: transformers computes other logits with it: they differ by "
                f"{difference:.2g}.\nPlease report this with the model's run.json."
            )
        for net in nets:
            seal(draft / net.place)
    told: dict[str, Any] = {"folder": str(folder), "format": format, "checked": difference is not None}
    if difference is None:
        screen.say(f"Written to {folder}. transformers is not installed here, so the logits were not compared.")
        return told
    screen.say(f"Written to {folder}; transformers gives the same logits (largest difference {difference:.1e}).")
    return {**told, "largest_difference": difference}


@contextmanager
def kept_if_sound(folder: Path) -> Iterator[Path]:
    """A place to write to, which becomes the folder when all went well, and vanishes otherwise."""
    check_new(folder)
    draft, made = unfinished(folder), [path for path in folder.parents if not path.exists()]
    try:
        yield draft
        with explained(folder.parent):
            if folder.is_dir():
                folder.rmdir()
            draft.replace(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise


def compared(parts: Parts, nets: Sequence[Net], folder: Path) -> float:
    """The largest difference of any logit; what is compared is the model itself, or the part that a folder holds."""
    own = [replace(parts, architecture=net.architecture, weights=net.weights) if net.place else parts for net in nets]
    return max(
        largest_difference(model_of(part, device="cpu"), folder / net.place)
        for part, net in zip(own, nets, strict=True)
    )


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
