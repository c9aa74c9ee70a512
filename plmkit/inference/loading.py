"""From a folder to a model: a run folder, or a Hugging Face folder."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.architectures.electra_parts import discriminator_alone, generator_alone
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import OBJECTIVES
from plmkit.config.renamed import current_weights
from plmkit.data.reading.columns import Say
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import CheckpointError, FolderError, InputError, LoadWarning, SettingError, not_there
from plmkit.inference import arguments
from plmkit.inference.model import Model
from plmkit.interop.families import ernie
from plmkit.interop.hub import find_model
from plmkit.interop.huggingface import class_in, length_in, our_weights, read_config, unused_head
from plmkit.interop.pooling import MEAN, TANH, Dense, Pooling, read_pooling
from plmkit.interop.weights import CONFIG, is_huggingface, no_model, read_safetensors
from plmkit.language import tr
from plmkit.network import Network
from plmkit.schedules.tuning import Tuning
from plmkit.storage.tensors import WEIGHTS
from plmkit.tasks.contract import Task
from plmkit.tasks.kinds.classify import ClassifyAny
from plmkit.tasks.kinds.regress import Regress
from plmkit.tasks.registry import LABEL, stored_tasks, with_named_head
from plmkit.tokenizers.tokenizer import Tokenizer, load_tokenizer
from plmkit.training.checkpoint import put_weights
from plmkit.training.device import choose_device
from plmkit.training.run_folder import RUN_FILE, RunFolder
from plmkit.training.run_record import FinetuneRecord, PretrainRecord, RunRecord


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a model folder holds."""

    folder: Path
    architecture: Architecture
    tokenizer: Tokenizer
    weights: dict[str, Tensor]  # under our names
    tuning: Tuning = Tuning()  # how its paper fine-tunes
    tasks: tuple[Task, ...] = ()  # that it was fine-tuned on
    objectives: tuple[Any, ...] = ()  # what it was pretrained by, where that is known
    model_type: str | None = None  # of the Hugging Face folder it came from
    step: int | None = None  # of the checkpoint, where the run is not finished
    longest: int | None = None  # tokens per row, where that is fewer than the architecture reads
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
    return Model(
        network=network,
        architecture=parts.architecture,
        tokenizer=parts.tokenizer,
        folder=parts.folder,
        tasks=parts.tasks,
        longest=parts.longest,
        pooling=parts.pooling,
        device=choose_device(device),
    )


def without_generator(parts: Parts) -> Parts:
    """What is fine-tuned and gives vectors: of two networks that were trained together, the discriminator."""
    if not isinstance(parts.architecture, GeneratorDiscriminator):
        return parts
    return replace(parts, **vars(discriminator_alone(parts.architecture, parts.weights)))


def warned(text: str) -> None:
    """What a caller from Python hears about a folder."""
    warnings.warn(text.removeprefix("! "), LoadWarning, stacklevel=2)


def read_parts(folder: str | Path, say: Say = warned) -> Parts:
    """What a folder holds; what is unusual about it is said."""
    folder = find_model(arguments.folder(folder))
    if folder.is_file():
        raise InputError(
            tr(
                "{folder} is a file, but a model is a folder: of a run, or Hugging Face's. It comes first.",
                folder=folder,
            )
        )
    if not folder.is_dir():
        raise InputError(f"{not_there(folder, 'folder')} {advice(folder)}")
    run = RunFolder(folder)
    run.check()
    if run.record is not None:
        parts = from_run(run, run.record, say)
    elif is_huggingface(folder):
        parts = foreign_parts(folder, read_safetensors(folder), say)
    else:
        raise FolderError(no_model(folder))
    check_whole(parts)
    return parts


def check_whole(parts: Parts) -> None:
    """Refuse a model without a token table, or with a tokenizer that knows more tokens."""
    if not parts.vocabulary_size:
        raise CheckpointError(
            tr(
                "{folder} is not a whole model: '{embedding_name}' is missing.",
                folder=parts.folder / WEIGHTS,
                embedding_name=parts.architecture.embedding_name,
            )
        )
    if len(parts.tokenizer.vocabulary) > parts.vocabulary_size:
        raise CheckpointError(
            tr(
                "{folder}: the tokenizer has {vocabulary_count:,} tokens, but the model knows "
                "{vocabulary_size:,}. The files do not belong together.",
                folder=parts.folder,
                vocabulary_count=len(parts.tokenizer.vocabulary),
                vocabulary_size=parts.vocabulary_size,
            )
        )


def advice(folder: Path) -> str:
    """What to give instead of a folder that is not there."""
    if str(folder) in CATALOGUE:
        return tr("It is a recipe's name: `plm pretrain {folder} --out DIR` makes a model by it in DIR.", folder=folder)
    return tr("Give a run folder, a Hugging Face folder or a name on its hub, such as google-bert/bert-base-chinese.")


def from_run(run: RunFolder, record: RunRecord, say: Say) -> Parts:
    step, weights = (None, run.weights()) if record.has_model else newest_weights(run, say)
    tokenizer = load_tokenizer(run.path)
    if isinstance(record, FinetuneRecord):
        return finetuned_parts(run.path, record, tokenizer, weights)
    assert isinstance(record, PretrainRecord)
    return pretrained_parts(run.path, record, tokenizer, weights, step)


def pretrained_parts(
    folder: Path, record: PretrainRecord, tokenizer: Tokenizer, weights: dict[str, Tensor], step: int | None
) -> Parts:
    recipe = record.recipe
    weights = current_weights(weights, [objective.name for objective in recipe.objectives])
    weights = {name: tensor for name, tensor in weights.items() if not name.startswith("log_variances.")}
    return Parts(
        folder=folder, architecture=recipe.architecture, tokenizer=tokenizer, weights=weights, step=step,
        tuning=recipe.tuning, objectives=recipe.objectives, pooling=own_pooling(recipe.architecture, weights),
    )  # fmt: skip


def finetuned_parts(folder: Path, record: FinetuneRecord, tokenizer: Tokenizer, weights: dict[str, Tensor]) -> Parts:
    try:
        tasks = stored_tasks(record.tasks)
    except (KeyError, TypeError, AttributeError) as error:
        raise FolderError(
            tr("{folder} is damaged ({error}). Copy the folder again.", folder=folder / RUN_FILE, error=error)
        ) from error
    return Parts(
        folder=folder, architecture=record.architecture, tokenizer=tokenizer, tasks=tasks,
        tuning=record.tuning or Tuning(), longest=min(task.length for task in tasks),
        weights=with_named_head(weights, LABEL, tasks[0].name),
    )  # fmt: skip


def own_pooling(architecture: Architecture, weights: dict[str, Tensor]) -> Pooling:
    """How a model of ours makes a sentence's vector: ERNIE by its pooler (PaddlePaddle/ERNIE), others by the mean."""
    if not ernie.writes(architecture) or "model.pooler.weight" not in weights:
        return MEAN
    weight, bias = weights["model.pooler.weight"], weights["model.pooler.bias"]
    return Pooling(modes=("cls",), steps=(Dense(weight=weight, bias=bias, activation=TANH),))


def newest_weights(run: RunFolder, say: Say) -> tuple[int, dict[str, Tensor]]:
    """Of a run that was stopped or is still under way: its newest checkpoint, and the step that it was made at."""
    folder = run.path
    if (content := run.newest_checkpoint(say)) is None:
        raise FolderError(
            tr(
                "The run in {folder} is not finished, and has no checkpoint that could be used instead.\n"
                "Run its command again to continue it.",
                folder=folder,
            )
        )
    state, weights, _ = content
    say(tr("{folder} is not finished: its checkpoint at step {step:,} is used.", folder=folder, step=state.step))
    return state.step, weights


def foreign_parts(folder: Path, theirs: dict[str, Tensor], say: Say) -> Parts:
    """A Hugging Face folder whose weights have been read; a head that nothing here uses is named and left out."""
    config, family = read_config(folder, theirs)
    try:
        architecture = family.architecture(config, folder)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, SettingError) as error:
        raise InputError(
            tr("{folder} does not describe a network: {error}", folder=folder / CONFIG, error=error)
        ) from error
    weights = our_weights(theirs, folder, family, architecture)
    if head := unused_head(theirs, config, family, architecture):
        say(tr("! {folder}: its head ({head}) is not used here, only the network below it.", folder=folder, head=head))
    if head or "label" not in family.CLASSES.get(class_in(config), {"label"}):
        weights = {name: weight for name, weight in weights.items() if not name.startswith("heads.label.")}
    task = foreign_task(folder, config, weights, architecture)
    return Parts(
        folder=folder, architecture=architecture, model_type=family.MODEL_TYPE,
        weights=with_named_head(weights, LABEL, task.name) if task else weights,
        tokenizer=load_tokenizer(folder, architecture.needs),
        tasks=(task,) if task else (), tuning=find(family.RECIPE).tuning,
        longest=length_in(folder, architecture.longest), pooling=read_pooling(folder, architecture.width) or MEAN,
    )  # fmt: skip


def foreign_task(
    folder: Path, config: dict[str, Any], weights: dict[str, Tensor], architecture: Architecture
) -> Task | None:
    """What a classifier or a regressor of texts answers."""
    if "heads.label.classify.weight" not in weights:
        return None
    if architecture.optional_pooler and not any(name.startswith("model.pooler") for name in weights):
        raise CheckpointError(
            tr("{folder} has a classifier but not the pooler that it reads. Save it whole.", folder=folder / WEIGHTS)
        )
    outputs = len(weights["heads.label.classify.weight"])
    labels = config.get("id2label") or {}
    numeric = outputs == 1 or config.get("problem_type") == "regression"
    length = length_in(folder, architecture.longest) or architecture.longest
    if numeric:
        return Regress(length=length)
    return ClassifyAny(classes=tuple(str(labels.get(str(i), f"LABEL_{i}")) for i in range(outputs)), length=length)


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
    heads |= {task.name: task.head(parts.architecture) for task in parts.tasks}
    return Network(model, heads, dict.fromkeys(heads, 1.0))


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
