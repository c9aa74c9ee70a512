"""A paper as five choices: tokenizer, corruption, architecture, objectives, schedule."""

from dataclasses import dataclass
from typing import Any

from plmkit.choices import (
    ARCHITECTURES,
    ARRANGEMENTS,
    MASKINGS,
    OBJECTIVES,
    OPTIMIZERS,
    TOKENIZERS,
    WEIGHTINGS,
)  # fmt: skip
from plmkit.config.settings import from_json
from plmkit.corruption.contract import Arrangement, Masking, Step
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import RecipeError
from plmkit.network import Network
from plmkit.schedules.schedule import Schedule
from plmkit.schedules.tuning import Tuning
from plmkit.segmentation.choosing import SEGMENTERS

Architecture = Any  # one of ARCHITECTURES
Tokenizer = Any  # one of TOKENIZERS


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One paper, or one size of it."""

    name: str
    paper: str
    summary: str
    notes: str = ""  # where the settings leave the paper, and why
    for_minutes: bool = False  # settings for minutes on a small machine, not the paper's
    vocabulary: int  # tokens in the paper's own vocabulary, for parameter counts
    tokenizer: Tokenizer
    corruption: tuple[Step, ...]  # the first arranges documents into rows, the others mask
    architecture: Architecture
    objectives: tuple[Any, ...]
    schedule: Schedule
    tuning: Tuning = Tuning()  # of a model that is trained by it

    def __post_init__(self) -> None:
        check_fit(self)

    @property
    def arrangement(self) -> Arrangement:
        """The step that makes rows of documents."""
        first = self.corruption[0]
        assert isinstance(first, Arrangement)
        return first

    @property
    def maskings(self) -> tuple[Masking, ...]:
        """The steps that follow it."""
        return tuple(step for step in self.corruption if isinstance(step, Masking))

    def build(self, vocabulary: Vocabulary) -> Network:
        model = self.architecture.build(vocabulary)
        heads = {objective.name: objective.build(model) for objective in self.objectives}
        for head in heads.values():
            if hasattr(head, "meet"):  # it asks another head
                head.meet(heads)
        return Network(model, heads, {objective.name: objective.weight for objective in self.objectives})


def check_fit(recipe: Recipe) -> None:
    """A recipe whose parts do not fit cannot be built."""
    check_corruption(recipe)
    check_objectives(recipe)
    needed, found = recipe.arrangement.segments, recipe.architecture.segment_count
    if found is not None and found < needed:
        raise RecipeError(
            f"{recipe.name}: {kind_of(recipe.corruption[0])} tells {needed} segments apart, "
            f"but architecture.segments is {found}. Set architecture.segments={needed}."
        )
    if recipe.schedule.longest > recipe.architecture.longest:
        raise RecipeError(
            f"{recipe.name}: schedule.lengths asks for rows of {recipe.schedule.longest} tokens, "
            f"but architecture.longest is {recipe.architecture.longest}. Change one of them."
        )
    shares = {kind_of(step): step.reuse for step in recipe.corruption if step.reuse is not None}
    if recipe.architecture.reused_share is not None:
        shares[kind_of(recipe.architecture)] = recipe.architecture.reused_share
    if len(set(shares.values())) > 1:
        told = ", ".join(f"{name} has {share}" for name, share in shares.items())
        raise RecipeError(f"{recipe.name}: the part of a row that is read again must be one: {told}. Set all alike.")
    for step in recipe.corruption:
        stages, lengths = step.stages, len(recipe.schedule.lengths)
        if stages not in (1, lengths):
            raise RecipeError(
                f"{recipe.name}: {type(step).__name__} has {stages} stages, but schedule.lengths has {lengths}.\n"
                "Give as many entries to schedule.lengths, or one stage for the whole run."
            )


def check_corruption(recipe: Recipe) -> None:
    """One arrangement first, then maskings that write what no other step does."""
    names = ", ".join(map(kind_of, recipe.corruption)) or "nothing"
    arrangements = [kind_of(step) for step in recipe.corruption if isinstance(step, Arrangement)]
    if len(arrangements) != 1 or not isinstance(recipe.corruption[0], Arrangement):
        raise RecipeError(
            f"{recipe.name}: corruption begins with one arrangement of documents into rows, and maskings "
            f"follow; found {names}.\nArrangements: {', '.join(kind.__name__ for kind in ARRANGEMENTS)}."
        )
    for number, step in enumerate(recipe.corruption):
        for earlier in recipe.corruption[:number]:
            if both := step.writes & earlier.writes:
                raise RecipeError(
                    f"{recipe.name}: {kind_of(earlier)} and {kind_of(step)} both write {', '.join(sorted(both))}. "
                    "Choose one of them."
                )


def check_objectives(recipe: Recipe) -> None:
    """Each once, and each with what it reads."""
    if not recipe.objectives:
        raise RecipeError(f"{recipe.name}: there is no objective, so nothing to learn. Choose one or more.")
    makers = [*recipe.corruption, recipe.architecture]
    makers += [objective for objective in recipe.objectives if hasattr(objective, "writes")]
    written = frozenset().union(*(maker.writes for maker in makers))
    for number, objective in enumerate(recipe.objectives):
        if objective.name in {earlier.name for earlier in recipe.objectives[:number]}:
            raise RecipeError(f"{recipe.name}: {kind_of(objective)} is there twice. Name each objective once.")
        if missing := objective.reads - written:
            raise RecipeError(
                f"{recipe.name}: {kind_of(objective)} reads {', '.join(sorted(missing))}, "
                f"but none of {', '.join(map(kind_of, makers))} writes it.\n"
                f"Choose a corruption or architecture that does{writers_of(missing)}, or drop the objective."
            )
        if objective.weight < 0:
            raise RecipeError(
                f"{recipe.name}: objectives.{objective.name}.weight is {objective.weight}; it cannot be below 0."
            )
    if not any(objective.weight > 0 for objective in recipe.objectives):
        raise RecipeError(f"{recipe.name}: every objective has the weight 0, so nothing is learnt. Give one a weight.")


def kind_of(choice: Any) -> str:
    return type(choice).__name__


def writers_of(wanted: frozenset[str]) -> str:
    """` (A or B)`, the steps that write something of it."""
    known = [kind.__name__ for kind in (*ARRANGEMENTS, *MASKINGS) if wanted & kind.writes]
    known += ["architecture.pooler=true"] if "pooled" in wanted else []
    return f" ({' or '.join(known)})" if known else ""


def recipe_from_json(data: dict[str, Any]) -> Recipe:
    axes = (*TOKENIZERS, *ARRANGEMENTS, *MASKINGS, *ARCHITECTURES, *OBJECTIVES, *WEIGHTINGS)
    kinds = (*axes, *SEGMENTERS, *OPTIMIZERS, Schedule, Tuning, Recipe)
    return from_json(data, {kind.__name__: kind for kind in kinds})
