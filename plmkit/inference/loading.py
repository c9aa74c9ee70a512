"""From a folder to a model: a run folder, or a Hugging Face folder."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.architectures.electra_parts import discriminator_alone, generator_alone
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import ARCHITECTURES, OBJECTIVES, OPTIMIZERS
from plmkit.config.settings import from_json
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import CheckpointError, FolderError, InputError, SettingError, not_there
from plmkit.inference import arguments
from plmkit.inference.model import Model
from plmkit.interop.families import ernie
from plmkit.interop.hub import find_model
from plmkit.interop.huggingface import class_in, length_in, our_weights, read_config, unused_head
from plmkit.interop.pooling import MEAN, TANH, Dense, Pooling, read_pooling
from plmkit.interop.weights import CONFIG, is_huggingface, no_model, read_safetensors
from plmkit.network import Network
from plmkit.recipe import Architecture, recipe_from_json
from plmkit.schedules.tuning import Tuning
from plmkit.storage.manifest import check
from plmkit.tasks.head import LabelHead
from plmkit.tasks.kinds import KINDS, Kind
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import Tokenizer, load_tokenizer
from plmkit.training.checkpoint import CHECKPOINTS, checksum, load_tensors, newest_whole, put_weights
from plmkit.training.device import choose_device
from plmkit.training.run_folder import FINETUNE, RUN_FILE, WEIGHTS, read_run


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a fine-tuned model answers."""

    kind: Kind
    classes: tuple[str, ...]  # none where the answer is a number
    pooling: str
    length: int  # tokens in a row


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a model folder holds."""

    folder: Path
    architecture: Architecture
    tokenizer: Tokenizer
    weights: dict[str, Tensor]  # under our names
    tuning: Tuning = Tuning()  # how its paper fine-tunes
    task: Task | None = None
    objectives: tuple[Any, ...] = ()  # what it was pretrained by, where that is known
    model_type: str | None = None  # of the Hugging Face folder it came from
    step: int | None = None  # of the checkpoint, where the run is not finished
    longest: int | None = None  # tokens in a row, where that is fewer than the architecture reads
    pooling: Pooling = MEAN  # how its tokens' vectors become a sentence's

    @property
    def vocabulary_size(self) -> int:
        """Rows of the token table; it may have more than the tokenizer has tokens, never fewer."""
        return self.architecture.vocabulary_size(self.weights)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's, with as many rows as the token embedding has."""
        return replace(self.tokenizer.vocabulary, padded=self.vocabulary_size)


def load(folder: str | Path, device: str = "auto") -> Model:
    """Load a model to use from Python.

    Args:
        folder: A run folder, a Hugging Face folder, or a name on its hub.
        device: Where to compute: "auto" for a GPU where there is one, "cpu", or a device as torch names it.

    Returns:
        A `Model`, with `fill`, `embed`, `predict`, `score` and `generate`.
    """
    return model_of(read_parts(folder), device)


def model_of(parts: Parts, device: str = "auto") -> Model:
    if isinstance(parts.architecture, GeneratorDiscriminator):
        model = model_of(without_generator(parts), device)
        model.generator = model_of(replace(parts, **vars(generator_alone(parts.architecture, parts.weights))), device)
        return model
    network = network_of(parts)
    put_weights(network, whole(parts.weights, network), parts.folder / WEIGHTS)
    task = parts.task
    return Model(
        network=network,
        architecture=parts.architecture,
        tokenizer=parts.tokenizer,
        folder=parts.folder,
        kind=task.kind if task else None,
        classes=task.classes if task else (),
        longest=task.length if task else parts.longest,
        pooling=parts.pooling,
        device=choose_device(device),
    )


def without_generator(parts: Parts) -> Parts:
    """What is fine-tuned and gives vectors: of two networks that were trained together, the discriminator."""
    if not isinstance(parts.architecture, GeneratorDiscriminator):
        return parts
    return replace(parts, **vars(discriminator_alone(parts.architecture, parts.weights)))


def read_parts(folder: str | Path) -> Parts:
    folder = find_model(arguments.folder(folder))
    if folder.is_file():
        raise InputError(f"{folder} is a file, but a model is a folder: of a run, or Hugging Face's. It comes first.")
    if not folder.is_dir():
        raise InputError(f"{not_there(folder, 'folder')} {advice(folder)}")
    check(folder, optional=(WEIGHTS,))
    about = read_run(folder)
    if about is not None:
        try:
            parts = from_run(folder, about)
        except (KeyError, TypeError, AttributeError) as error:
            raise FolderError(f"{folder / RUN_FILE} is damaged ({error}). Copy the folder again.") from error
    elif is_huggingface(folder):
        parts = from_hub(folder)
    else:
        raise FolderError(no_model(folder))
    check_whole(parts)
    return parts


def check_whole(parts: Parts) -> None:
    """Refuse a model without a token table, or with a tokenizer that knows more tokens."""
    if not parts.vocabulary_size:
        raise CheckpointError(
            f"{parts.folder / WEIGHTS} is not a whole model: '{parts.architecture.embedding_name}' is missing."
        )
    if len(parts.tokenizer.vocabulary) > parts.vocabulary_size:
        raise CheckpointError(
            f"{parts.folder}: the tokenizer has {len(parts.tokenizer.vocabulary):,} tokens, "
            f"but the model knows {parts.vocabulary_size:,}. The files do not belong together."
        )


def advice(folder: Path) -> str:
    """What to give instead of a folder that is not there."""
    if str(folder) in CATALOGUE:
        return f"It is a recipe's name: `plm pretrain {folder} --out DIR` makes a model by it in DIR."
    return "Give a run folder, a Hugging Face folder or a name on its hub, such as google-bert/bert-base-chinese."


def from_run(folder: Path, about: dict[str, Any]) -> Parts:
    finished = about["state"] == "finished" or "checksum" in about  # there is one in a run that is being extended
    step, weights = (None, finished_weights(folder, about)) if finished else newest_weights(folder)
    tokenizer, weights = load_tokenizer(folder), plain_heads(weights)
    if about["kind"] != FINETUNE:
        recipe = recipe_from_json(about["recipe"])
        return Parts(
            folder=folder, architecture=recipe.architecture, tokenizer=tokenizer, weights=weights, step=step,
            tuning=recipe.tuning,
            objectives=tuple(getattr(own, "objective", own) for own in recipe.objectives),  # as `plain_heads`
            pooling=own_pooling(recipe.architecture, weights),
        )  # fmt: skip
    task = Task(
        kind=KINDS[about["task_kind"]],
        classes=tuple(about["classes"]),
        pooling=about["task"]["pooling"],
        length=about["length"],
    )
    kinds = {kind.__name__: kind for kind in (*ARCHITECTURES, *OPTIMIZERS, Tuning)}
    return Parts(
        folder=folder, architecture=from_json(about["architecture"], kinds), tokenizer=tokenizer, weights=weights,
        tuning=from_json(about.get("tuning"), kinds) or Tuning(), task=task,
    )  # fmt: skip


def own_pooling(architecture: Architecture, weights: dict[str, Tensor]) -> Pooling:
    """How a model of ours makes a sentence's vector: ERNIE by its pooler (PaddlePaddle/ERNIE), others by the mean."""
    if not ernie.writes(architecture) or not architecture.pooler:
        return MEAN
    weight, bias = weights["model.pooler.weight"], weights["model.pooler.bias"]
    return Pooling(modes=("cls",), steps=(Dense(weight=weight, bias=bias, activation=TANH),))


def finished_weights(folder: Path, about: dict[str, Any]) -> dict[str, Tensor]:
    if not (folder / WEIGHTS).is_file():
        raise FolderError(
            f"The run in {folder} is finished, but its weights ({WEIGHTS}) are missing.\n"
            "Copy them from where they came, or run its command again: it makes them again."
        )
    if about["checksum"] != checksum(folder / WEIGHTS):
        raise CheckpointError(
            f"{folder / WEIGHTS} is damaged: its checksum is not the one in run.json.\n"
            "Copy the folder again from where it came, or train the model again."
        )
    return load_tensors(folder / WEIGHTS)


def newest_weights(folder: Path) -> tuple[int, dict[str, Tensor]]:
    """Of a run that was stopped or is still under way: its newest checkpoint, and the step that it was made at."""
    say = Screen().say
    if (content := newest_whole(folder / CHECKPOINTS, say)) is None:
        raise FolderError(
            f"The run in {folder} is not finished, and has no checkpoint that could be used instead.\n"
            "Give its command again to go on with it."
        )
    state, weights, _ = content
    say(f"{folder} is not finished: its checkpoint at step {state.step:,} is used.")
    return state.step, weights


def plain_heads(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Heads as they are without a learnt weight around them."""
    kept = {name: tensor for name, tensor in weights.items() if not name.endswith(".log_variance")}
    return {re.sub(r"^heads\.(\w+)\.inner\.", r"heads.\1.", name): tensor for name, tensor in kept.items()}


def from_hub(folder: Path) -> Parts:
    return foreign_parts(folder, read_safetensors(folder))


def foreign_parts(folder: Path, theirs: dict[str, Tensor]) -> Parts:
    """A Hugging Face folder whose weights have been read; a head that nothing here uses is named and left out."""
    config, family = read_config(folder, theirs)
    try:
        architecture = family.architecture(config, folder)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, SettingError) as error:
        raise InputError(f"{folder / CONFIG} does not describe a network: {error}") from error
    weights = our_weights(theirs, folder, family, architecture)
    if head := unused_head(theirs, config, family, architecture):
        Screen().say(f"! {folder}: its head ({head}) is not used here, only the network below it.")
    if head or "label" not in family.CLASSES.get(class_in(config), {"label"}):
        weights = {name: weight for name, weight in weights.items() if not name.startswith("heads.label.")}
    return Parts(
        folder=folder, architecture=architecture, weights=weights, model_type=family.MODEL_TYPE,
        tokenizer=load_tokenizer(folder, architecture.needs),
        task=foreign_task(folder, config, weights, architecture), tuning=find(family.RECIPE).tuning,
        longest=length_in(folder, architecture.longest), pooling=read_pooling(folder, architecture.width) or MEAN,
    )  # fmt: skip


def foreign_task(
    folder: Path, config: dict[str, Any], weights: dict[str, Tensor], architecture: Architecture
) -> Task | None:
    """What a classifier or a regressor of texts answers."""
    if "heads.label.classify.weight" not in weights:
        return None
    if architecture.optional_pooler and not any(name.startswith("model.pooler") for name in weights):
        raise CheckpointError(f"{folder / WEIGHTS} has a classifier but not the pooler that it reads. Save it whole.")
    outputs = len(weights["heads.label.classify.weight"])
    labels = config.get("id2label") or {}
    numeric = outputs == 1 or config.get("problem_type") == "regression"
    kind = replace(KINDS["regress" if numeric else "classify"], paired=None)
    classes = () if numeric else tuple(str(labels.get(str(i), f"LABEL_{i}")) for i in range(outputs))
    length = length_in(folder, architecture.longest) or architecture.longest
    return Task(kind=kind, classes=classes, pooling="first", length=length)


def network_of(parts: Parts) -> Network:
    """The encoder with the heads that the weights have, not yet filled."""
    model = parts.architecture.build(parts.vocabulary)
    known = {kind.name: kind() for kind in OBJECTIVES} | {own.name: own for own in parts.objectives}
    heads: dict[str, Any] = {
        objective.name: objective.build(model)
        for objective in known.values()
        if any(name.startswith(f"heads.{objective.name}.") for name in parts.weights)
        or objective.name in parts.architecture.tied_heads
    }
    if parts.task:
        heads["label"] = label_head(parts.architecture, parts.task)
    return Network(model, heads, dict.fromkeys(heads, 1.0))


def label_head(architecture: Architecture, task: Task, dropout: float = 0.1) -> LabelHead:
    return LabelHead(
        width=architecture.width,
        bias=architecture.head_bias,
        outputs=1 if task.kind.numeric or task.kind.readings == "each" else len(task.classes),
        readings=task.kind.readings,
        numeric=task.kind.numeric,
        pooling=task.pooling,
        dropout=dropout,
        length=task.length,
        start=architecture.initial_weights,
    )


def whole(weights: dict[str, Tensor], network: Network) -> dict[str, Tensor]:
    """A model that was saved without its pooler gets a fresh one; only fine-tuning reads it."""
    own = network.state_dict()
    return weights | {name: own[name] for name in own if name.startswith("model.pooler") and name not in weights}


def start_from(network: Network, parts: Parts) -> list[str]:
    """Fill a network with the weights of another model; names the heads that stay fresh."""
    own = network.state_dict()
    shared = {name: tensor for name, tensor in parts.weights.items() if name in own}
    put_weights(network, own | shared, parts.folder / WEIGHTS)
    return sorted({name.split(".")[1] for name in own if name.startswith("heads.") and name not in shared})
