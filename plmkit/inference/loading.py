"""From a folder to a model: a run folder, or a Hugging Face folder."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import OBJECTIVES
from plmkit.compression.folder import Compressed, heads_in, is_compressed, pooling_in
from plmkit.compression.network import graph_network
from plmkit.config.older_versions import current_weights
from plmkit.data.graph import Graph
from plmkit.data.reading.columns import Say
from plmkit.data.reading.files import COMPRESSED
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import CheckpointError, FolderError, InputError, LoadWarning, SettingError, not_there
from plmkit.inference import arguments
from plmkit.inference.model import Model
from plmkit.interop.allennlp import is_allennlp, read_allennlp
from plmkit.interop.families import ernie
from plmkit.interop.hub import find_model
from plmkit.interop.huggingface import class_in, length_in, our_weights, read_config, unused_head
from plmkit.interop.ngrams import joined
from plmkit.interop.pooling import MEAN, TANH, Dense, Normalize, Pooling, read_pooling
from plmkit.interop.task_heads import TASK_HEADS, head_in
from plmkit.interop.weights import CONFIG, is_huggingface, no_model, read_safetensors
from plmkit.language import sentences, tr
from plmkit.network import Network
from plmkit.schedules.schedule import Tuning
from plmkit.storage.graphs import load_graph
from plmkit.storage.tensors import WEIGHTS
from plmkit.tasks.contract import Task
from plmkit.tasks.long_texts import CUT
from plmkit.tasks.ngrams import load_ngrams
from plmkit.tasks.registry import LABEL, stored_tasks, with_named_head
from plmkit.tasks.split_texts import SplitTask
from plmkit.tokenizers.tokenizer import Tokenizer, load_tokenizer
from plmkit.training.checkpoint import checkpoints, put_weights, read_checkpoint
from plmkit.training.device import choose_device
from plmkit.training.run_folder import RUN_FILE, RunFolder
from plmkit.training.run_record import FinetuneRecord, PretrainRecord, RunRecord, VectorsRecord


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a model folder holds."""

    folder: Path
    architecture: Architecture
    tokenizer: Tokenizer
    weights: dict[str, Tensor]  # under our names
    tuning: Tuning = Tuning()  # how its paper fine-tunes
    tasks: tuple[Task, ...] = ()  # that it was fine-tuned on
    objectives: tuple[Any, ...] = ()  # of its pretraining, if known
    model_type: str | None = None  # of the Hugging Face folder it came from
    step: int | None = None  # of the checkpoint, if the run is not finished
    max_length: int | None = None  # maximum length, if below that of the architecture
    pooling: Pooling = MEAN  # of token vectors into a sentence vector
    compressed: Compressed | None = None  # a graph computes the states, and the weights are those of heads alone
    graph: Graph | None = None  # that it was trained on

    @property
    def vocabulary_size(self) -> int:
        """Rows of the token embedding: at least as many as the tokenizer has tokens."""
        if self.compressed is not None:
            return self.compressed.rows
        if self.architecture.reads_characters:
            return len(self.tokenizer.vocabulary)
        return self.architecture.vocabulary_size(self.weights)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's vocabulary, padded to the rows of the token embedding."""
        return replace(self.tokenizer.vocabulary, padded=self.vocabulary_size)


def load(folder: str | Path, device: str = "auto") -> Model:
    """Load a model to use from Python.

    >>> model = plmkit.load("runs/mine", device="cpu")
    >>> model.embed(["the cat sees a house.", "the dog sees a house."]).shape
    (2, 128)

    Args:
        folder: A run folder, a Hugging Face folder, or a name on its hub.
        device: Where to compute: "auto" for a GPU if there is one, "cpu", or the name of a torch device.

    Returns:
        A `Model`, with `fill`, `embed`, `predict`, `score` and `generate`.
    """
    return model_of(read_parts(folder, graphs=True), device)


def model_of(parts: Parts, device: str = "auto") -> Model:
    if parts.compressed is not None:
        device = "cpu"  # where onnxruntime computes
    elif (generator := parts.architecture.generator_alone(parts.weights)) is not None:
        model = model_of(without_generator(parts), device)
        model.generator = model_of(replace(parts, **vars(generator)), device)
        return model
    network = network_of(parts)
    put_weights(network, whole(parts.weights, network), parts.folder / WEIGHTS)
    return Model(
        network=network,
        architecture=parts.architecture,
        tokenizer=parts.tokenizer,
        folder=parts.folder,
        tasks=parts.tasks,
        max_length=parts.max_length,
        pooling=parts.pooling,
        graph=parts.graph,
        device=choose_device(device),
    )


def without_generator(parts: Parts) -> Parts:
    """The network that is fine-tuned and embeds: of ELECTRA, the discriminator."""
    return replace(parts, **vars(parts.architecture.without_generator(parts.weights)))


def warned(text: str) -> None:
    """Report something about a folder to a caller from Python."""
    warnings.warn(text.removeprefix("! "), LoadWarning, stacklevel=2)


def read_parts(folder: str | Path, say: Say = warned, *, graphs: bool = False) -> Parts:
    """What a folder holds; anything unusual about it is reported. A compressed model is refused without `graphs`."""
    folder = find_model(arguments.folder(folder))
    if folder.is_file():
        raise InputError(
            tr(
                "{folder} is a file. The first argument is a model: a run folder or a Hugging Face folder.",
                folder=folder,
            )
        )
    if not folder.is_dir():
        raise InputError(sentences([not_there(folder, "folder"), advice(folder)]))
    run = RunFolder(folder)
    run.check()
    if is_compressed(folder):
        parts = compressed_parts(folder, graphs)
    elif run.record is not None:
        parts = from_run(run, run.record, say)
    elif is_huggingface(folder):
        parts = foreign_parts(folder, read_safetensors(folder), say)
    elif is_allennlp(folder):
        architecture, tokenizer, weights = read_allennlp(folder)
        tuning = find("elmo-original").tuning
        parts = Parts(folder=folder, architecture=architecture, tokenizer=tokenizer, weights=weights, tuning=tuning)
    else:
        raise FolderError(no_model(folder))
    check_whole(parts)
    return parts


def compressed_parts(folder: Path, graphs: bool) -> Parts:
    """A compressed model, which has no weights that could be trained or converted."""
    record = Compressed.read(folder)
    if not graphs:
        raise FolderError(
            tr(
                "{folder} holds a compressed model ({to}), without the weights that this needs. Use the model that it "
                "was made from: {model}.",
                folder=folder,
                to=record.to,
                model=record.model,
            )
        )
    return Parts(
        folder=folder, architecture=record.architecture, tokenizer=load_tokenizer(folder, record.architecture.needs),
        weights=heads_in(folder), tasks=tasks_in(folder, folder / COMPRESSED, record.tasks),
        max_length=record.max_length, pooling=pooling_in(folder, record), compressed=record,
    )  # fmt: skip


def check_whole(parts: Parts) -> None:
    """Refuse a model without token embeddings, or with fewer of them than the tokenizer has tokens."""
    if not parts.vocabulary_size:
        raise CheckpointError(
            tr(
                "{file} is incomplete: '{weight}' is missing.",
                file=parts.folder / WEIGHTS,
                weight=parts.architecture.embedding_name,
            )
        )
    if len(parts.tokenizer.vocabulary) > parts.vocabulary_size:
        raise CheckpointError(
            tr(
                "{folder}: the tokenizer has {tokens:,} tokens, but the model has embeddings for {embeddings:,}. "
                "The files do not belong together.",
                folder=parts.folder,
                tokens=len(parts.tokenizer.vocabulary),
                embeddings=parts.vocabulary_size,
            )
        )


def advice(folder: Path) -> str:
    """What to give instead of a missing folder."""
    if str(folder) in CATALOGUE:
        return tr("It is the name of a recipe: train a model with `plm pretrain {folder} --out DIR`.", folder=folder)
    return tr("Give a run folder, a Hugging Face folder or a name on its hub, such as google-bert/bert-base-chinese.")


def from_run(run: RunFolder, record: RunRecord, say: Say) -> Parts:
    if isinstance(record, VectorsRecord):
        raise FolderError(
            tr(
                "{folder} holds static word vectors, without a network. `plm neighbours`, `plm embed` and `plm export` "
                "read them.",
                folder=run.path,
            )
        )
    step, weights = (None, run.weights()) if record.has_model else newest_weights(run, say)
    tokenizer = load_tokenizer(run.path)
    if isinstance(record, FinetuneRecord):
        return finetuned_parts(run.path, record, tokenizer, weights)
    assert isinstance(record, PretrainRecord)
    return pretrained_parts(run.path, record, tokenizer, weights, step)


def checkpoint_models(folder: str | Path, device: str = "auto") -> list[tuple[int, Model]]:
    """The model at every checkpoint that its pretraining run keeps, oldest first, with the step."""
    run = RunFolder(find_model(arguments.folder(folder)))
    kept = checkpoints(run.checkpoints)[::-1] if isinstance(run.record, PretrainRecord) else []
    if not kept:
        raise FolderError(
            tr(
                "{folder} keeps no checkpoints: only the folder of a pretraining run does. Leave out --checkpoints.",
                folder=folder,
            )
        )
    assert isinstance(run.record, PretrainRecord)
    tokenizer = load_tokenizer(run.path)
    every = [(one.step, read_checkpoint(one.folder)[1]) for one in kept]
    parts = [(step, pretrained_parts(run.path, run.record, tokenizer, weights, step)) for step, weights in every]
    return [(step, model_of(one, device)) for step, one in parts]


def pretrained_parts(
    folder: Path, record: PretrainRecord, tokenizer: Tokenizer, weights: dict[str, Tensor], step: int | None
) -> Parts:
    recipe = record.recipe
    weights = current_weights(weights, [objective.name for objective in recipe.objectives])
    weights = {name: tensor for name, tensor in weights.items() if not name.startswith("log_variances.")}
    graph = load_graph(folder)
    return Parts(
        folder=folder, architecture=recipe.architecture, tokenizer=tokenizer, weights=weights, step=step,
        tuning=recipe.tuning, objectives=recipe.objectives, pooling=own_pooling(recipe.architecture, weights),
        graph=graph and replace(graph, row_length=recipe.max_length),
    )  # fmt: skip


def finetuned_parts(folder: Path, record: FinetuneRecord, tokenizer: Tokenizer, weights: dict[str, Tensor]) -> Parts:
    tasks = tasks_in(folder, folder / RUN_FILE, record.trained_tasks)
    return Parts(
        folder=folder, architecture=record.architecture, tokenizer=tokenizer, tasks=tasks,
        tuning=record.tuning or Tuning(), max_length=min(task.length for task in tasks),
        weights=with_named_head(weights, LABEL, tasks[0].name), pooling=pooling_of(tasks, record.architecture),
    )  # fmt: skip


def tasks_in(folder: Path, file: Path, records: Sequence[Mapping[str, Any]]) -> tuple[Task, ...]:
    """The tasks of a folder, from their records in one of its files."""
    try:
        found = load_ngrams(folder)
        return tuple(replace(task, ngrams=found.get(task.name)) for task in stored_tasks(records))
    except (KeyError, TypeError, AttributeError) as error:
        raise FolderError(
            tr("{folder} is damaged ({error}). Copy the folder again.", folder=file, error=error)
        ) from error


def pooling_of(tasks: Sequence[Task], architecture: Architecture) -> Pooling:
    """That of a task that trained vectors, by whose cosine it compares texts; the mean for any other."""
    task = next((task for task in tasks if task.embeds), None)
    if task is None:
        return MEAN
    first = "cls" if architecture.generates == "no" else "lasttoken"
    modes = (first if task.pooling == "first" else task.pooling,)
    return Pooling(modes=modes, steps=(Normalize(),), windows=isinstance(task, SplitTask) and task.long != CUT)


def own_pooling(architecture: Architecture, weights: dict[str, Tensor]) -> Pooling:
    """The sentence vector of our models: ERNIE's is its pooler's (PaddlePaddle/ERNIE), that of others the mean."""
    if not ernie.writes(architecture) or "model.pooler.weight" not in weights:
        return MEAN
    weight, bias = weights["model.pooler.weight"], weights["model.pooler.bias"]
    return Pooling(modes=("cls",), steps=(Dense(weight=weight, bias=bias, activation=TANH),))


def newest_weights(run: RunFolder, say: Say) -> tuple[int, dict[str, Tensor]]:
    """The newest checkpoint of an unfinished run, and its step."""
    folder = run.path
    if (content := run.newest_checkpoint(say)) is None:
        raise FolderError(
            tr(
                "The run in {folder} is not finished and has no usable checkpoint.\n"
                "Run the same command to continue it.",
                folder=folder,
            )
        )
    state, weights, _ = content
    say(tr("{folder} is not finished; using its checkpoint at step {step:,}.", folder=folder, step=state.step))
    return state.step, weights


def foreign_parts(folder: Path, theirs: dict[str, Tensor], say: Say) -> Parts:
    """A Hugging Face folder whose weights have been read; a head that is not used here is reported and left out."""
    config, family = read_config(folder, theirs)
    try:
        architecture = family.architecture(config, folder)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, SettingError) as error:
        raise InputError(
            tr("{file} does not describe a network: {error}", file=folder / CONFIG, error=error)
        ) from error
    weights = our_weights(theirs, folder, family, architecture, class_in(config))
    known = architecture.vocabulary_size(weights)
    if config.get("vocab_size", known) != known:
        say(
            tr(
                "! {file}: vocab_size is {stated}, but the weights have embeddings for {known} tokens, which are used.",
                file=folder / CONFIG,
                stated=config["vocab_size"],
                known=known,
            )
        )
    if head := unused_head(theirs, config, family, architecture):
        say(tr("! {folder}: its head ({head}) is not used, only the network below it.", folder=folder, head=head))
    used = () if head else family.CLASSES.get(class_in(config), TASK_HEADS)
    stems = tuple(f"heads.{name}." for name in TASK_HEADS if name not in used)
    weights = {name: weight for name, weight in weights.items() if not name.startswith(stems)}
    task, weights = foreign_task(folder, config, weights, architecture)
    if task:
        task, weights = joined(folder, task, weights)
    return Parts(
        folder=folder, architecture=architecture, model_type=family.MODEL_TYPE, weights=weights,
        tokenizer=load_tokenizer(folder, architecture.needs),
        tasks=(task,) if task else (), tuning=find(family.RECIPE).tuning,
        max_length=length_in(folder, architecture.max_length), pooling=read_pooling(folder, architecture.width) or MEAN,
    )  # fmt: skip


def foreign_task(
    folder: Path, config: dict[str, Any], weights: dict[str, Tensor], architecture: Architecture
) -> tuple[Task | None, dict[str, Tensor]]:
    """The task of a folder with a trained head, and the weights with its name."""
    found = head_in(weights)
    if found is None:
        return None, weights
    name, own = found
    head = TASK_HEADS[name]
    if head.pooled and architecture.optional_pooler and not any(key.startswith("model.pooler") for key in weights):
        raise CheckpointError(
            tr(
                "{file} has a classifier, but the pooler below it is missing. Save the complete model.",
                file=folder / WEIGHTS,
            )
        )
    task = head.task(config, own, length_in(folder, architecture.max_length) or architecture.max_length)
    return task, with_named_head(weights, name, task.name)


def network_of(parts: Parts) -> Network:
    """The network with the heads that occur in the weights, which are not loaded yet."""
    if parts.compressed is not None:
        return graph_network(parts.folder, parts.compressed, parts.tasks)
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
    """The weights with a randomly initialised pooler if they have none; only fine-tuning uses it."""
    own = network.state_dict()
    return weights | {name: own[name] for name in own if name.startswith("model.pooler") and name not in weights}


def start_from(network: Network, parts: Parts) -> list[str]:
    """Copy the weights of another model into a network; returns the heads that stay randomly initialised."""
    own = network.state_dict()
    shared = {name: tensor for name, tensor in parts.weights.items() if name in own}
    for name, source in network.model.settings.copied_weights.items():
        if source in shared:
            shared.setdefault(name, shared[source])
    put_weights(network, own | shared, parts.folder / WEIGHTS)
    return sorted({name.split(".")[1] for name in own if name.startswith("heads.") and name not in shared})
