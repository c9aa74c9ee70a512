"""A paper as five choices: tokenizer, corruption, architecture, objectives, schedule; its streams and stages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from plmkit.architectures.contract import Architecture
from plmkit.choices import ARCHITECTURES, ARRANGEMENTS, LABELLINGS, MASKINGS, OBJECTIVES, OPTIMIZERS, TOKENIZERS
from plmkit.config.older_versions import current_recipe, upgraded_recipe
from plmkit.config.settings import from_json
from plmkit.corruption.contract import Arrangement, Masking, Step
from plmkit.data.mixture_source import ONLY
from plmkit.data.vocabulary import Vocabulary
from plmkit.fit import check_fit
from plmkit.initialisation.corpus import Initialisation
from plmkit.network import Network
from plmkit.objectives.contract import Objective
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.segmentation.choosing import SEGMENTERS
from plmkit.tokenizers.contract import TokenizerSettings


@dataclass(frozen=True, kw_only=True)
class DataStream:
    """One corruption of the corpus, and the objectives that are trained on it."""

    name: str = ONLY
    arrangement: Arrangement[Any]  # documents → rows
    maskings: tuple[Masking, ...] = ()  # in this order
    heads: tuple[str, ...] | None = None  # names of the objectives trained on it; none: all
    weight: float = 1.0  # sampling weight among the streams of a stage
    task: int | None = None  # task embedding of its rows, by its number from 0; none: the architecture's own
    place: str | None = None  # position that it shares with other streams; none: its own

    @property
    def reads_from(self) -> str:
        return self.place or self.name

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its corruption: the arrangement, then the maskings."""
        return (self.arrangement, *self.maskings)

    def with_steps(self, steps: Sequence[Step]) -> Self:
        """The stream with another corruption: an arrangement, then maskings."""
        arrangement, *maskings = steps
        assert isinstance(arrangement, Arrangement)
        return replace(self, arrangement=arrangement, maskings=tuple(m for m in maskings if isinstance(m, Masking)))


def one_stream(arrangement: Arrangement[Any], *maskings: Masking) -> tuple[DataStream, ...]:
    """The streams of a recipe with one corruption for all its objectives."""
    return (DataStream(arrangement=arrangement, maskings=maskings),)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One paper, or one size of it."""

    name: str
    paper: str
    summary: str
    notes: str = ""  # where the settings differ from the paper, and why
    for_minutes: bool = False  # settings for minutes on a small machine, not the paper's
    adopts: bool = False  # network and learning rate are those of the model that it starts from, if any (--from)
    vocabulary: int  # tokens in the paper's own vocabulary, for parameter counts
    tokenizer: TokenizerSettings
    streams: tuple[DataStream, ...]
    architecture: Architecture
    objectives: tuple[Objective, ...]
    initialisation: Initialisation = Initialisation()
    stages: tuple[Stage, ...]  # one after the other
    schedule: Schedule
    tuning: Tuning = Tuning()  # how its models are fine-tuned

    def __post_init__(self) -> None:
        check_fit(self)

    @property
    def corruption(self) -> tuple[Step, ...]:
        """The steps of all streams, each once; with one stream, its arrangement and its maskings."""
        steps: list[Step] = []
        for stream in self.streams:
            steps += [step for step in stream.steps if step not in steps]
        return tuple(steps)

    @property
    def max_length(self) -> int:
        """The longest sequence length of its stages."""
        return max(stage.length for stage in self.stages)

    def running(self, stage: Stage) -> tuple[DataStream, ...]:
        """The streams that run in a stage."""
        return tuple(stream for stream in self.streams if not stage.streams or stream.name in stage.streams)

    def first_stage(self, stream: DataStream) -> Stage:
        """The first stage in which a stream runs."""
        return next(stage for stage in self.stages if stream in self.running(stage))

    def build(self, vocabulary: Vocabulary) -> Network:
        model = self.architecture.build(vocabulary)
        heads = {objective.name: objective.build(model) for objective in self.objectives}
        weights = {objective.name: objective.weight for objective in self.objectives}
        return Network(model, heads, weights, [own.name for own in self.objectives if own.learned_weight])


def recipe_from_json(data: dict[str, Any]) -> Recipe:
    """The recipe that `to_json` wrote, by this version or an older one."""
    axes = (*TOKENIZERS, *ARRANGEMENTS, *MASKINGS, *LABELLINGS, *ARCHITECTURES, *OBJECTIVES)
    kinds: tuple[type, ...] = (
        *axes,
        *SEGMENTERS,
        *OPTIMIZERS,
        DataStream,
        Stage,
        Schedule,
        Tuning,
        Initialisation,
        Recipe,
    )
    recipe: Recipe = from_json(upgraded_recipe(current_recipe(data)), {kind.__name__: kind for kind in kinds})
    return recipe
