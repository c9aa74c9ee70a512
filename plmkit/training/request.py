"""A request for a pretraining run, its budget, and the model that it starts from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from plmkit.architectures.bert_encoder_decoder import BertEncoderDecoder
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.encoder_decoder import EncoderDecoder
from plmkit.catalogue import CATALOGUE, find
from plmkit.config.machine import Settings
from plmkit.config.settings import to_json
from plmkit.data.reading.columns import Say, ignore
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts, read_parts, without_generator
from plmkit.language import tr
from plmkit.network import Network
from plmkit.recipe import Recipe
from plmkit.tokenizers.files import TOKENIZER_FILE
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.training.differences import Difference, differences
from plmkit.training.loop import Budget
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import PretrainRecord

HIGHEST_RATE = 1e-3  # learning rate of a narrow network that a recipe adopts
SHAPE = ("layers", "heads", "width", "inner")  # what an encoder and the decoder that is added to it share


class Guide(Protocol):
    """A teacher and what it does for a run: `plm distill` gives it."""

    @property
    def as_json(self) -> dict[str, Any]:
        """What run.json keeps of it: a run continues with the same one."""

    def initialise(self, network: Network, tokenizer: Tokenizer, say: Say) -> None:
        """Put some of the teacher's weights into a network with initial weights."""

    def attach(self, network: Network, tokenizer: Tokenizer, device: torch.device, say: Say) -> None:
        """Let the heads of the network read what the teacher makes of each batch."""


@dataclass(frozen=True, kw_only=True)
class PretrainRequest:
    """A request for a pretraining run."""

    settings: Settings
    corpora: tuple[str, ...]  # empty: the documentation on this machine
    out: Path
    budget: Budget
    seed: int = 0
    start: Path | None = None  # weights to start from
    tokenizer: Path | None = None
    valid: str | None = None
    extend: bool = False  # continue a finished run
    by_default: bool = False  # the budget is the recipe's
    guide: Guide | None = None  # in distillation

    @property
    def folder(self) -> RunFolder:
        """The run folder as it is now."""
        return RunFolder(self.out)

    @property
    def record(self) -> PretrainRecord:
        """The record of the requested run, before anything is read."""
        return PretrainRecord(
            recipe=self.settings.recipe,
            run=self.settings.run,
            corpora=tuple(map(str, self.corpora)),
            budget=self.budget,
            asked=self.budget,
            seed=self.seed,
            start=str(self.start) if self.start else None,
            tokenizer=str(self.tokenizer) if self.tokenizer else None,
            valid=self.valid,
            teacher=self.guide.as_json if self.guide else None,
        )


def whole_budget(request: PretrainRequest, earlier: PretrainRecord | None) -> Budget:
    """The budget of the whole run; extending a run adds to what is spent."""
    if earlier is None:
        return request.budget
    return extended(request.budget, earlier.result) if earlier.is_finished else earlier.budget


def extended(budget: Budget, spent: dict[str, Any]) -> Budget:
    """The new budget plus what is spent."""
    return Budget(
        steps=None if budget.steps is None else budget.steps + spent["steps"],
        tokens=None if budget.tokens is None else budget.tokens + spent["tokens"],
        seconds=None if budget.seconds is None else budget.seconds + spent["seconds"],
    )


def parts_to_start_from(request: PretrainRequest, say: Say) -> Parts | None:
    """The model given by --from, checked to fit before any text is read."""
    if request.start is None:
        return None
    if request.tokenizer:
        raise SettingError(tr("--from uses the tokenizer of its model. Leave --tokenizer out."))
    parts = read_parts(request.start, say)
    ours = request.settings.recipe.architecture
    if request.settings.recipe.adopts:
        parts = without_generator(parts)
    if ours.takes_encoder(parts.architecture):
        say(
            tr(
                "What reads the text starts from {start}; what reads images is initialised randomly.",
                start=request.start,
            )
            if ours.reads_images
            else tr("The encoder starts from {start}; the decoder is initialised randomly.", start=request.start)
        )
    else:
        check_same_network(parts.architecture, request.settings.recipe, request.start)
    return parts


def adopted(recipe: Recipe, start: Path | None) -> Recipe:
    """The recipe with the network of the model to start from, if it adopts one: its rows then fit that network."""
    if start is None or not recipe.adopts:
        return recipe
    theirs = without_generator(read_parts(start, ignore)).architecture
    if theirs.optional_pooler:
        theirs = theirs.with_settings(pooler=True)
    if theirs.generates != "no" or theirs.translates or not {"hidden", "pooled"} <= theirs.writes:
        raise SettingError(
            tr(
                "{recipe} continues encoders such as BERT, RoBERTa, ALBERT, ERNIE or ELECTRA; --from {start} is a "
                "{type}. Give another model.",
                recipe=recipe.name,
                start=start,
                type=type(theirs).__name__,
            )
        )
    streams = recipe.streams
    if (theirs.segment_count or 1) < 2:
        streams = tuple(replace(one, arrangement=one.arrangement.in_one_segment()) for one in streams)
    rate = recipe.schedule.learning_rate * (recipe.architecture.width / theirs.width) ** 2
    return replace(
        recipe,
        architecture=theirs,
        streams=streams,
        stages=tuple(replace(stage, length=min(stage.length, theirs.max_length)) for stage in recipe.stages),
        schedule=replace(recipe.schedule, learning_rate=float(f"{min(HIGHEST_RATE, rate):.2g}")),
    )


def with_pretrained_encoder(settings: Settings, start: Path | None) -> Settings:
    """The settings of a run whose encoder is initialised by a BERT of the same shape, if --from names one."""
    recipe = settings.recipe
    if start is None or not isinstance(recipe.architecture, EncoderDecoder):
        return settings
    theirs = read_parts(start, ignore).architecture
    if type(theirs) not in (Encoder, BertEncoderDecoder):
        return settings
    ours, given = ({name: to_json(one)[name] for name in SHAPE} for one in (recipe.architecture, theirs))
    if changed := differences(ours, given, "architecture"):
        raise SettingError(
            tr(
                "The encoder of --from {where} has another shape than {recipe}: {found}.\n"
                "Give the decoder the same: {settings}.",
                where=start,
                recipe=recipe.name,
                found=in_words(changed),
                settings=as_settings(changed),
            )
        )
    made = BertEncoderDecoder.on(cast(Encoder, theirs), like=recipe.architecture)
    return replace(settings, recipe=replace(recipe, architecture=made))


def tokenizer_folder(request: PretrainRequest, earlier: PretrainRecord | None, start: Parts | None) -> Path | None:
    """The folder whose tokenizer the run must use, if any."""
    if earlier is not None and (request.out / TOKENIZER_FILE).is_file():
        return request.out
    return start.folder if start else request.tokenizer


def check_same_network(theirs: Any, recipe: Recipe, where: Path) -> None:
    """Refuse weights of a network that differs from the recipe's."""
    changed = unlike(theirs, recipe.architecture)
    if not changed:
        return
    if type(theirs) is type(recipe.architecture):
        raise SettingError(
            tr(
                "The network of --from {where} differs from the recipe's: {found}.\n"
                "Use the recipe that it was trained with, or add {settings}.",
                where=where,
                found=in_words(changed[:4]),
                settings=as_settings(changed),
            )
        )
    alike = [find(name) for name in CATALOGUE if type(find(name).architecture) is type(theirs)]
    if not alike:  # a part of a network, as fine-tuning keeps it, or one that began from another
        raise SettingError(
            tr(
                "--from {where} has the architecture {theirs}, which {recipe} cannot start from. Leave --from out.",
                where=where,
                theirs=type(theirs).__name__,
                recipe=recipe.name,
            )
        )
    other = min(alike, key=lambda one: len(unlike(theirs, one.architecture)))
    settings = as_settings(unlike(theirs, other.architecture))
    if other.max_length > theirs.max_length:
        settings += f" --set 'stages=[[1.0, {theirs.max_length}]]'"
    raise SettingError(
        tr(
            "--from {where} has the architecture {theirs}, but {recipe} trains {ours}.\n"
            "To continue from it, use the recipe {other}{settings}.",
            where=where,
            theirs=type(theirs).__name__,
            recipe=recipe.name,
            ours=type(recipe.architecture).__name__,
            other=other.name,
            settings=tr(" with {settings}", settings=settings) if settings else "",
        )
    )


def unlike(theirs: Any, ours: Any) -> list[Difference]:
    free = ours.may_change | ours.initial
    old, new = ({name: value for name, value in to_json(one).items() if name not in free} for one in (theirs, ours))
    return differences(new, old, "architecture")


def in_words(changed: list[Difference]) -> str:
    return tr("; ").join(
        tr("{name} is {theirs}, not {ours}", name=one.name, ours=one.values[0], theirs=one.values[1]) for one in changed
    )


def as_settings(changed: list[Difference]) -> str:
    return " ".join(f"--set {one.name}={one.values[1]}" for one in changed)
