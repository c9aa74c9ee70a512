"""The general stage: a student is trained on text that it reads together with its teacher."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from plmkit.catalogue import CATALOGUE, find
from plmkit.data.reading.columns import Say
from plmkit.distillation.alignment import Alignment, align
from plmkit.distillation.initial import POSITIONS, RANDOM, by_text, chosen_layers, from_teacher, initialise
from plmkit.distillation.methods import alone, distilled, find_method, lm_of
from plmkit.distillation.teacher import NetworkTeacher, check_comparable, has_lm_head, shape_of, teacher_network
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts, read_parts, without_generator
from plmkit.interop.families import FAMILIES
from plmkit.language import comma, tr
from plmkit.network import Network
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.distillation_states import Matching
from plmkit.recipe import Recipe
from plmkit.storage.tensors import WEIGHTS, checksum
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import PretrainRecord


@dataclass(frozen=True, kw_only=True)
class Student:
    """What STUDENT names: a recipe, or a folder whose weights it starts from."""

    recipe: Recipe
    start: Path | None = None

    @classmethod
    def named(cls, name: str, say: Say) -> "Student":
        if name in CATALOGUE:
            return cls(recipe=find(name))
        if not Path(name).exists():
            find(name)  # raises, and says which recipe may be meant
        record = RunFolder(Path(name)).record
        if isinstance(record, PretrainRecord):
            return cls(recipe=alone(record.recipe) if has_lm(record.recipe) else record.recipe, start=Path(name))
        parts = read_parts(name, say)
        family = next((one for one in FAMILIES if parts.model_type == one.MODEL_TYPE), None)
        recipe = find(family.RECIPE if family else "bert-base")
        stages = tuple(replace(one, length=min(one.length, parts.architecture.max_length)) for one in recipe.stages)
        own = replace(recipe, name=name, architecture=parts.architecture, stages=stages, objectives=(lm_of(recipe),))
        return cls(recipe=own, start=Path(name))


def has_lm(recipe: Recipe) -> bool:
    try:
        lm_of(recipe)
    except SettingError:
        return False
    return True


@dataclass(frozen=True)
class TeacherGuide:
    """The teacher of a run."""

    parts: Parts
    causal: bool  # the student predicts the next token, not masked ones
    layers: str | tuple[int, ...]  # of --init
    starts: bool  # the student has weights of its own
    masked: bool = False  # tokens of the student's rows are masked
    frozen_positions: bool = False  # position embeddings that come from the teacher are not trained

    @cached_property
    def as_json(self) -> dict[str, Any]:
        files = sorted(self.parts.folder.glob("*.safetensors")) or [self.parts.folder / WEIGHTS]
        layers = self.layers if isinstance(self.layers, str) else comma().join(map(str, self.layers))
        sums = [checksum(file) for file in files if file.is_file()]
        return {"folder": str(self.parts.folder), "checksums": sums, "init": layers}

    def alignment(self, student: Tokenizer) -> Alignment | None:
        """Of a student with another vocabulary; too different ones are refused."""
        architecture = self.parts.architecture
        return align(
            student, self.parts.tokenizer, str(self.parts.folder), causal=architecture.generates == "causal",
            length=architecture.max_length,
        )  # fmt: skip

    def initialise(self, network: Network, tokenizer: Tokenizer, say: Say) -> None:
        if self.layers == RANDOM or self.starts:
            return
        architecture = self.parts.architecture
        student = network.model.settings
        layers = chosen_layers(self.layers, student.layers, architecture.layers)
        theirs = by_text(network.state_dict(), self.parts.weights, self.alignment(tokenizer))
        fits = type(student) is type(architecture) and initialise(network, theirs, layers)
        if fits:
            say(tr("Initialised from layers {layers} of the teacher.", layers=comma().join(map(str, layers))))
        elif isinstance(self.layers, tuple):
            raise SettingError(
                tr("--init: layers of the teacher do not fit into the student's, which have another shape.")
            )
        else:
            say(tr("The student's layers have another shape than the teacher's, so it is initialised randomly."))

    def takes_positions(self, network: Network) -> bool:
        """Whether the student's position embeddings come from the teacher: the same when a run is resumed."""
        student, architecture = network.model.settings, self.parts.architecture
        if self.layers == RANDOM or self.starts or type(student) is not type(architecture):
            return False
        layers = chosen_layers(self.layers, student.layers, architecture.layers)
        return POSITIONS in (from_teacher(network.state_dict(), self.parts.weights, layers) or {})

    def attach(self, network: Network, tokenizer: Tokenizer, device: torch.device, say: Say) -> None:
        if self.frozen_positions and self.takes_positions(network):
            network.get_parameter(POSITIONS).requires_grad_(False)
            say(tr("Position embeddings are the teacher's and are not trained, as in the released code of DistilBERT."))
        alignment = self.alignment(tokenizer)
        if alignment is not None:
            say(
                tr(
                    "The vocabularies differ, and are aligned by text: {share:.0%} of the student's tokens are the "
                    "teacher's too.",
                    share=alignment.share,
                )
            )
        teacher = teacher_network(self.parts, device)
        network.teacher = NetworkTeacher(teacher, self.causal, alignment, masked=self.masked)


def teacher_parts(folder: Path, say: Say) -> Parts:
    return without_generator(read_parts(folder, say))


def prepare_recipe(student: Student, teacher: Parts, method: str) -> Recipe:
    """The student's recipe with the objectives of a method, after checking that the teacher can teach it."""
    find_method(method)
    recipe = student.recipe
    causal = is_causal(recipe)
    if teacher.architecture.reads_images:
        raise SettingError(tr("{teacher} reads images, which a student of text cannot.", teacher=teacher.folder))
    if (teacher.architecture.generates == "causal") != causal:
        raise SettingError(
            tr(
                "{teacher} {theirs}, and {recipe} {ours}: they cannot be compared token by token. Choose a student of "
                "the same kind.",
                teacher=teacher.folder,
                recipe=recipe.name,
                theirs=predicts(not causal),
                ours=predicts(causal),
            )
        )
    made = distilled(recipe, method, shape_of(teacher.architecture))
    if any(isinstance(one, Matching) for one in made.objectives):
        check_comparable(teacher.architecture, teacher.folder, tr("The teacher"))
        check_comparable(recipe.architecture, recipe.name, tr("The student"))
    if any(one.name == "soft_targets" for one in made.objectives) and not has_lm_head(teacher, causal):
        raise SettingError(
            tr(
                "{teacher} has no LM head, whose predictions --method {method} needs. Use --method tinybert or minilm, "
                "or a teacher with its pretraining head.",
                teacher=teacher.folder,
                method=method,
            )
        )
    return made


def check_length(recipe: Recipe, teacher: Parts) -> None:
    """Refuse rows that the teacher cannot read."""
    if recipe.max_length > teacher.architecture.max_length:
        raise SettingError(
            tr(
                "{recipe} is trained on rows of {length} tokens, but the teacher reads at most {maximum}. Set shorter "
                "ones: --set 'stages=[[1.0, {maximum}]]'.",
                recipe=recipe.name,
                length=recipe.max_length,
                maximum=teacher.architecture.max_length,
            )
        )


def predicts(causal: bool) -> str:
    return tr("predicts the next token") if causal else tr("predicts masked tokens from both sides")


def is_causal(recipe: Recipe) -> bool:
    return isinstance(lm_of(recipe), CausalLM)
