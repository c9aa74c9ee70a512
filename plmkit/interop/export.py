"""Write a model for other tools, and check that they compute the same."""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.elmo import Elmo
from plmkit.errors import CheckpointError, PlmError, SettingError, nearest
from plmkit.inference.loading import Parts, model_of, read_parts
from plmkit.inference.model import Model
from plmkit.interop.allennlp import read_allennlp, write_allennlp
from plmkit.interop.families.family import Family, Net
from plmkit.interop.huggingface import check_new, write_huggingface
from plmkit.interop.naming import family_of, heads_of, left_out
from plmkit.interop.ngrams import FILES, apart
from plmkit.interop.reference import hub_network, hub_tokens, transformers_installed
from plmkit.interop.task_heads import TASK_HEADS, head_for
from plmkit.language import comma, tr
from plmkit.storage.files import held, new_folder, reported_os_errors, unfinished
from plmkit.storage.manifest import seal
from plmkit.tasks.contract import Task
from plmkit.tasks.framing import by_length
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.registry import with_named_head
from plmkit.terminal.screen import Screen
from plmkit.vectors.word_vectors import TEXT_FILE, is_static, load_vectors, write_text

FORMATS = ("huggingface", "allennlp", "word2vec")
TOLERANCE = 1e-4
WIDE = 16  # positions, at least: a head that searches for answers needs some
TEXTS = (  # short and long, of several scripts, with capitals, accents, symbols and stray spaces
    "The cat sat on the mat.",
    "今天天气很好，我们去公园散步。",
    "BERT was released in 2018 by Google!",
    "  Ça coûte 3,50 €…\tÜber-größe; naïve “quotes”, e-mail@example.com & 50% off  ",
    "日本語とカタカナ、한국어, русский текст, हिन्दी, ไทย, עברית, 😀👍🏽",
    "x",
    "!",
    "supercalifragilisticexpialidocious" * 8,
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "
    * 60,
)


def export(model: Path, folder: Path, format: str, screen: Screen) -> dict[str, Any]:
    """Write the folder; if transformers is installed, open it with that and compare all logits."""
    if format not in FORMATS:
        raise SettingError(
            tr(
                "There is no export format '{format}'.{hint} Formats: {formats}.",
                format=format,
                hint=nearest(format, FORMATS),
                formats=comma().join(FORMATS),
            )
        )
    if is_static(model) or format == "word2vec":
        return export_vectors(model, folder, format, screen)
    parts = read_parts(model, screen.say)
    if format == "allennlp":
        return export_elmo(parts, folder, screen)
    if isinstance(parts.architecture, Elmo):
        raise PlmError(
            tr(
                "transformers has no ELMo, so {model} cannot be exported in its format.\n"
                "Write the files that AllenNLP reads: --format allennlp.",
                model=model,
            )
        )
    tasks, weights, ngrams = apart(*in_weights(parts.tasks, parts.weights))
    family = family_of(parts.architecture, parts.model_type)
    task, parts = exported_task(replace(parts, tasks=tasks, weights=weights), family)
    nets = family.networks(parts.architecture, parts.weights, parts.tokenizer.vocabulary)
    for net in nets:
        for head in sorted(heads_of(left_out(net.weights, family))):
            screen.say(
                tr(
                    "! A Hugging Face {title} has no head for {head}; this head is left out.",
                    title=family.TITLE,
                    head=head,
                )
            )
    if parts.pooling.unknown:
        screen.say(
            tr(
                "! In sentence-transformers, the embeddings of {model} use {unknown}, which is not supported: the new "
                "folder has no sentence-transformers settings.",
                model=model,
                unknown=comma().join(parts.pooling.unknown),
            )
        )
    with kept_if_sound(folder) as draft:
        write_huggingface(
            draft, parts.weights, parts.architecture, parts.tokenizer,
            vocabulary_size=parts.vocabulary_size, model_type=parts.model_type,
            settings=TASK_HEADS[task.name].config(task) if task else None,
            max_length=parts.max_length, pooling=parts.pooling,
        )  # fmt: skip
        with held(draft):
            difference = compared(parts, nets, draft, folder) if transformers_installed() else None
        if ngrams:
            ngrams.save(draft)
            screen.say(
                tr(
                    "! Other libraries load the network alone. Its n-grams are in {files}, which plm reads when it "
                    "opens the folder.",
                    files=tr(" and ").join(FILES),
                )
            )
        for net in nets:
            seal(draft / net.place)
    report: dict[str, Any] = {"folder": str(folder), "format": format, "checked": difference is not None}
    if difference is None:
        screen.say(
            tr("Written to {folder}. transformers is not installed, so the logits were not compared.", folder=folder)
        )
        return report
    screen.say(
        tr(
            "Written to {folder}; transformers gives the same logits (largest difference {difference:.1e}).",
            folder=folder,
            difference=difference,
        )
    )
    return {**report, "largest_difference": difference}


def export_vectors(model: Path, folder: Path, format: str, screen: Screen) -> dict[str, Any]:
    """Word vectors as a text file, which gensim and others open."""
    if not is_static(model):
        raise PlmError(tr("{model} is not a folder of word vectors, which --format word2vec writes.", model=model))
    if format != "word2vec":
        raise PlmError(tr("{model} holds word vectors. Export them with --format word2vec.", model=model))
    check_new(folder)
    vectors = load_vectors(model)
    with new_folder(folder) as draft:
        write_text(vectors, draft / TEXT_FILE)
        seal(draft)
    screen.say(tr("{words:,} word vectors written to {file}.", words=len(vectors.words), file=folder / TEXT_FILE))
    return {"folder": str(folder), "format": format, "words": len(vectors.words), "width": vectors.width}


def export_elmo(parts: Parts, folder: Path, screen: Screen) -> dict[str, Any]:
    """Write options.json and HDF5 weights, and read them again."""
    architecture = parts.architecture
    if not isinstance(architecture, Elmo):
        raise PlmError(
            tr(
                "{folder} has the architecture {type}, but AllenNLP's format is for Elmo. Leave --format out.",
                folder=parts.folder,
                type=type(architecture).__name__,
            )
        )
    check_new(folder)
    with new_folder(folder) as draft:
        write_allennlp(draft, architecture, parts.tokenizer, parts.weights)
        _, _, again = read_allennlp(draft)
        if not all(torch.equal(weight, parts.weights[name]) for name, weight in again.items()):
            raise CheckpointError(tr("{folder} is not written: its weights changed on the way.", folder=folder))
    screen.say(
        tr("Written to {folder}: options.json and weights.hdf5, with the same weights when read again.", folder=folder)
    )
    return {"folder": str(folder), "format": "allennlp", "checked": True}


def without_heads(parts: Parts) -> dict[str, Tensor]:
    """The weights without those of the heads of tasks."""
    heads = tuple(f"heads.{task.name}." for task in parts.tasks)
    return {name: weight for name, weight in parts.weights.items() if not name.startswith(heads)}


def in_weights(tasks: Sequence[Task], weights: dict[str, Tensor]) -> tuple[tuple[Task, ...], dict[str, Tensor]]:
    """The tasks and their weights, with what training determined besides weights in these."""
    made: tuple[Task, ...] = ()
    for task in tasks:
        task, weights = task.in_weights(weights)
        made = (*made, task)
    return made, weights


def exported_task(parts: Parts, family: Family) -> tuple[Task | None, Parts]:
    """The task that a Hugging Face folder can hold, if any, and the parts with the name that its head has there."""
    if not parts.tasks:
        return None, parts
    if len(parts.tasks) > 1:
        raise PlmError(
            tr(
                "{folder} has several tasks, but a Hugging Face folder holds one. Export a model with one task.",
                folder=parts.folder,
            )
        )
    (task,) = parts.tasks
    if task.embeds:  # vectors have no head there
        return None, replace(parts, weights=without_heads(parts), tasks=())
    if task.refusal:
        raise PlmError(tr("{folder} cannot be exported: {why}.", folder=parts.folder, why=task.refusal))
    if task.pooling != "first":
        raise PlmError(
            tr(
                "{folder} pools by '{pooling}', which Hugging Face's classifiers do not support. Fine-tune with "
                "task.pooling=first to export.",
                folder=parts.folder,
                pooling=task.pooling,
            )
        )
    head = head_for(task, parts.weights, family)
    if head is None:
        raise PlmError(
            tr(
                "No Hugging Face {title} computes the same as --task {kind}, so {folder} cannot be exported.\n"
                "Export the pretrained model, or share the run folder: `plmkit.load` and all `plm` commands read it.",
                title=family.TITLE,
                kind=task.kind,
                folder=parts.folder,
            )
        )
    named, weights = replace(task, name=head), with_named_head(parts.weights, task.name, head)
    if not TASK_HEADS[head].pooled:  # their class has no pooler, and ours is not trained
        weights = {name: weight for name, weight in weights.items() if not name.startswith("model.pooler")}
    return named, replace(parts, weights=weights, tasks=(named,))


@contextmanager
def kept_if_sound(folder: Path) -> Iterator[Path]:
    """A draft that becomes the folder if all goes well, and is removed otherwise."""
    check_new(folder)
    draft, made = unfinished(folder), [path for path in folder.parents if not path.exists()]
    try:
        yield draft
        with reported_os_errors(folder.parent):
            if folder.is_dir():
                folder.rmdir()
            draft.replace(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The largest difference between two outputs of a head, and their size."""

    worst: float = 0.0
    size: float = 0.0

    def with_more(self, ours: Tensor, theirs: Tensor) -> "Gap":
        gap = (ours - theirs).abs()
        worst = float(gap.max()) if torch.isfinite(gap).all() else float("inf")
        return Gap(worst=max(self.worst, worst), size=max(self.size, float(ours.abs().max())))

    @property
    def is_rounding(self) -> bool:
        """Relative to the size: the outputs of a barely trained head are small."""
        return self.worst <= max(TOLERANCE * min(self.size, 1.0), TOLERANCE / 10 * self.size)


def compared(parts: Parts, nets: Sequence[Net], draft: Path, folder: Path) -> float:
    """The largest difference of any logit between the model, or its parts, and the folder."""
    own = [replace(parts, architecture=net.architecture, weights=net.weights) if net.place else parts for net in nets]
    worst = 0.0
    for part, net in zip(own, nets, strict=True):
        model, place = model_of(part, device="cpu"), draft / net.place
        check_reading(model, place, folder)
        for gap in gaps_of(model, place, family_of(net.architecture, part.model_type)).values():
            if not gap.is_rounding:
                raise CheckpointError(
                    tr(
                        "{folder} is not written: transformers computes different logits (largest difference "
                        "{worst:.2g}).\n"
                        "Please report this with the model's run.json.",
                        folder=folder,
                        worst=gap.worst,
                    )
                )
            worst = max(worst, gap.worst)
    return worst


def check_reading(model: Model, place: Path, folder: Path) -> None:
    """Check that transformers tokenizes texts the same, special tokens and truncation included."""
    theirs = hub_tokens(place, TEXTS, model.max_length)
    for text, row, tokens in zip(TEXTS, model.rows(TEXTS), theirs, strict=True):
        if row.tokens.tolist() != tokens:
            differs = len(row.tokens) != len(tokens)
            found = (
                tr(
                    "{found} tokens instead of {expected}",
                    found=len(tokens),
                    expected=len(row.tokens),
                )
                if differs
                else tr("different tokens")
            )
            raise CheckpointError(
                tr(
                    "{folder} is not written: transformers tokenizes {text!r} as {found}.\n"
                    "Please report this with the model's tokenizer.",
                    folder=folder,
                    text=text[:40],
                    found=found,
                )
            )


def gaps_of(model: Model, folder: Path, family: Family) -> dict[str, Gap]:
    """For each head, on texts that include padding and a pair."""
    rows = model.rows([*TEXTS, (TEXTS[0], TEXTS[-1])])
    gaps: dict[str, Gap] = defaultdict(Gap)
    compute = hub_network(folder)
    for numbers in by_length(rows, 2):  # the logits of a long row over a large vocabulary take much memory
        some = [rows[number] for number in numbers]
        wide = max(len(row.tokens) for row in some)
        states, batch = model.states(
            some, max(wide, min(WIDE, model.max_length)),
            change=lambda batch: family.compared_with(batch, model.architecture),
        )  # fmt: skip
        for name, theirs in compute(batch).items():
            ours = head_logits(model, name, states, batch)
            if ours.shape[:2] == batch.source.visible.shape:  # outputs at padding are undefined
                ours, theirs = ours[batch.source.visible], theirs[batch.source.visible]
            gaps[name] = gaps[name].with_more(ours, theirs)
    return gaps


@torch.inference_mode()
def head_logits(model: Model, name: str, states: Any, batch: Any) -> Tensor:
    if name == "hidden":
        return states.hidden
    head: Any = model.network.heads[name]
    return head.compared(states, batch) if isinstance(head, TaskHead) else head.answers(states, batch)
