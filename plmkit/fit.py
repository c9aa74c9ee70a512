"""Which choices fit together: a recipe whose parts do not is refused when it is built."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plmkit.architectures.contract import Architecture
from plmkit.choices import ARRANGEMENTS, LABELLINGS, MASKINGS, OBJECTIVES
from plmkit.corruption.contract import Arrangement, Labelling, Step, StretchArrangement
from plmkit.errors import RecipeError
from plmkit.language import comma, tr
from plmkit.objectives.contract import Objective
from plmkit.schedules.schedule import check_stages

if TYPE_CHECKING:
    from plmkit.recipe import DataStream, Recipe


def check_fit(recipe: "Recipe") -> None:
    """Refuse a recipe whose parts do not fit together."""
    for stream in recipe.streams:
        check_steps(recipe.name, stream.steps)
    check_stages(recipe.stages)
    check_streams(recipe)
    check_architecture(recipe)
    check_objectives(recipe)


def check_steps(name: str, steps: Sequence[Step]) -> None:
    """One arrangement, then maskings; no two steps write the same field."""
    names = comma().join(map(kind_of, steps)) or tr("nothing")
    if [isinstance(step, Arrangement) for step in steps] != [True, *(False for _ in steps[1:])]:
        raise RecipeError(
            tr(
                "{name}: a corruption is one arrangement followed by any number of maskings; found {names}.\n"
                "Arrangements: {arrangements}.",
                name=name,
                names=names,
                arrangements=comma().join(kind.__name__ for kind in ARRANGEMENTS),
            )
        )
    for step in steps:
        if isinstance(step, Labelling) and not isinstance(steps[0], StretchArrangement):
            raise RecipeError(
                tr(
                    "{name}: {step} labels the tokens of rows of texts, which {arrangement} does not make. Drop one "
                    "of them.",
                    name=name,
                    step=kind_of(step),
                    arrangement=kind_of(steps[0]),
                )
            )
    for number, step in enumerate(steps):
        for earlier in steps[:number]:
            if both := step.writes & earlier.writes:
                raise RecipeError(
                    tr(
                        "{name}: {first} and {second} both write {fields}. Choose one of them.",
                        name=name,
                        first=kind_of(earlier),
                        second=kind_of(step),
                        fields=comma().join(sorted(both)),
                    )
                )


def check_streams(recipe: "Recipe") -> None:
    """Each has a unique name, a stage that runs it, and objectives of the recipe."""
    names = [stream.name for stream in recipe.streams]
    known = [objective.name for objective in recipe.objectives]
    if len(set(names)) < len(names) or not names:
        raise RecipeError(
            tr(
                "{name}: streams need unique names; found {names}.",
                name=recipe.name,
                names=comma().join(names) or tr("no stream"),
            )
        )
    if unknown := [name for stage in recipe.stages for name in stage.streams if name not in names]:
        raise RecipeError(
            tr(
                "{name}: a stage uses the stream '{unknown}'; the streams are {names}.",
                name=recipe.name,
                unknown=unknown[0],
                names=comma().join(names),
            )
        )
    run = {stream.name for stage in recipe.stages for stream in recipe.running(stage)}
    if idle := [name for name in names if name not in run]:
        raise RecipeError(
            tr("{name}: no stage uses the stream '{idle}'. Add it to one, or drop it.", name=recipe.name, idle=idle[0])
        )
    for stream in recipe.streams:
        if stream.weight <= 0:
            raise RecipeError(
                tr(
                    "{name}: streams.{stream}.weight must be above 0; found {weight}.",
                    name=recipe.name,
                    stream=stream.name,
                    weight=stream.weight,
                )
            )
        if absent := [head for head in stream.heads or () if head not in known]:
            raise RecipeError(
                tr(
                    "{name}: the stream '{stream}' trains {absent}, which is not an objective; found {known}.",
                    name=recipe.name,
                    stream=stream.name,
                    absent=absent[0],
                    known=comma().join(known),
                )
            )
        count = recipe.architecture.task_count
        if stream.task is not None and not 0 <= stream.task < (count or 0):
            raise RecipeError(
                tr(
                    "{name}: the stream '{stream}' is for task {task}, but {architecture} has {count} task embeddings, "
                    "counted from 0.",
                    name=recipe.name,
                    stream=stream.name,
                    task=stream.task,
                    architecture=kind_of(recipe.architecture),
                    count=count or 0,
                )
            )
        for other in recipe.streams:
            if other.reads_from == stream.reads_from and other.arrangement != stream.arrangement:
                raise RecipeError(
                    tr(
                        "{name}: the streams '{first}' and '{second}' share the place '{place}', but arrange rows "
                        "differently. Give each its own place.",
                        name=recipe.name,
                        first=other.name,
                        second=stream.name,
                        place=stream.reads_from,
                    )
                )
    for stage in recipe.stages:
        running = recipe.running(stage)
        if len(running) > 1 and any(stream.arrangement.continues for stream in running):
            raise RecipeError(
                tr(
                    "{name}: a stream whose rows continue from batch to batch must be alone in its stage; found "
                    "{streams}.",
                    name=recipe.name,
                    streams=comma().join(stream.name for stream in running),
                )
            )


def check_architecture(recipe: "Recipe") -> None:
    """It has enough segments and positions for the rows, and shares `reuse` with the corruption."""
    architecture = recipe.architecture
    widest = max((stream.arrangement for stream in recipe.streams), key=lambda arrangement: arrangement.segments_used)
    found = architecture.segment_count
    if found is not None and found < widest.segments_used:
        raise RecipeError(
            tr(
                "{name}: {arrangement} uses {segments} segments, but architecture.segments is {found}. Set "
                "architecture.segments={segments}.",
                name=recipe.name,
                arrangement=kind_of(widest),
                segments=widest.segments_used,
                found=found,
            )
        )
    for stream in recipe.streams:
        if stream.arrangement.pairs != architecture.translates:
            raise RecipeError(
                tr(
                    "{name}: {arrangement} does not fit {architecture}: an encoder–decoder is trained on pairs of a "
                    "source and a target, any other network on single texts. Change one of them.",
                    name=recipe.name,
                    arrangement=kind_of(stream.arrangement),
                    architecture=kind_of(architecture),
                )
            )
        arrangement = stream.arrangement
        if (arrangement.images, arrangement.describes) != (architecture.reads_images, architecture.describes_images):
            raise RecipeError(
                tr(
                    "{name}: {arrangement} does not fit {architecture}: a captioner is trained on images with "
                    "captions (ImageCaptions), a network that reads text with images on both (ImageText), any other "
                    "network on text. Change one of them.",
                    name=recipe.name,
                    arrangement=kind_of(stream.arrangement),
                    architecture=kind_of(architecture),
                )
            )
    if recipe.max_length > architecture.max_length:
        raise RecipeError(
            tr(
                "{name}: stages use rows of {length} tokens, but architecture.max_length is {max_length}. "
                "Change one of them.",
                name=recipe.name,
                length=recipe.max_length,
                max_length=architecture.max_length,
            )
        )
    shares = {kind_of(step): step.reuse for step in recipe.corruption if step.reuse is not None}
    if architecture.reused_share is not None:
        shares[kind_of(architecture)] = architecture.reused_share
    if len(set(shares.values())) > 1:
        raise RecipeError(
            tr(
                "{name}: `reuse` must be the same everywhere; found {found}.",
                name=recipe.name,
                found=comma().join(f"{name} {share}" for name, share in shares.items()),
            )
        )


def check_objectives(recipe: "Recipe") -> None:
    """Each occurs once, has a valid weight, and finds its inputs in every stream that trains it."""
    if not recipe.objectives:
        raise RecipeError(
            tr("{name} has no objective, so there is nothing to train. Choose one or more.", name=recipe.name)
        )
    for number, objective in enumerate(recipe.objectives):
        if objective.name in {earlier.name for earlier in recipe.objectives[:number]}:
            raise RecipeError(
                tr(
                    "{name}: {objective} occurs twice. List each objective once.",
                    name=recipe.name,
                    objective=kind_of(objective),
                )
            )
        if absent := set(objective.needs_objectives) - {other.name for other in recipe.objectives}:
            needed = comma().join(kind.__name__ for kind in OBJECTIVES if kind.name in absent)
            raise RecipeError(
                tr(
                    "{name}: {objective} uses the head of {needed}, which is not among the objectives. Add it, or "
                    "drop {objective}.",
                    name=recipe.name,
                    objective=kind_of(objective),
                    needed=needed,
                )
            )
        if objective.weight < 0:
            raise RecipeError(
                tr(
                    "{name}: objectives.{objective}.weight must be 0 or more; found {weight}.",
                    name=recipe.name,
                    objective=objective.name,
                    weight=objective.weight,
                )
            )
        serving = [stream for stream in recipe.streams if stream.heads is None or objective.name in stream.heads]
        if not serving:
            raise RecipeError(
                tr(
                    "{name}: no stream trains {objective}. Add it to the heads of one.",
                    name=recipe.name,
                    objective=objective.name,
                )
            )
        for stream in serving:
            check_reads(recipe, objective, stream)
            check_classes(recipe, objective, stream)
    if not any(objective.weight > 0 for objective in recipe.objectives):
        raise RecipeError(
            tr("{name}: every objective has weight 0, so nothing is trained. Raise one of them.", name=recipe.name)
        )


def check_reads(recipe: "Recipe", objective: Objective, stream: "DataStream") -> None:
    """What an objective reads is written by the stream's steps or the architecture."""
    makers = [*stream.steps, recipe.architecture]
    written = recipe.architecture.writes.union(*(step.writes for step in stream.steps))
    if missing := objective.reads - written:
        raise RecipeError(
            tr(
                "{name}: {objective} reads {missing}, but none of {makers} writes it.\n"
                "Choose a corruption or architecture that does{writers}, or drop the objective.",
                name=recipe.name,
                objective=kind_of(objective),
                missing=comma().join(sorted(missing)),
                makers=comma().join(map(kind_of, makers)),
                writers=writers_of(missing, recipe.architecture),
            )
        )


def check_classes(recipe: "Recipe", objective: Objective, stream: "DataStream") -> None:
    """The labels of the rows are those that the head tells apart."""
    for step in stream.steps:
        for field, count in step.classes.items():
            if objective.classes.get(field, count) != count:
                raise RecipeError(
                    tr(
                        "{name}: {step} has {count} classes of `{field}`, but {objective} has {other}. Give both the "
                        "same settings: --set corruption.max_parts=N --set objectives.{key}.max_parts=N.",
                        name=recipe.name,
                        step=kind_of(step),
                        count=count,
                        field=field,
                        objective=kind_of(objective),
                        other=objective.classes[field],
                        key=objective.name,
                    )
                )


def kind_of(choice: Any) -> str:
    return type(choice).__name__


def writers_of(wanted: frozenset[str], architecture: Architecture) -> str:
    """` (A or B)`: the steps, and the setting of the architecture, that write one of these fields."""
    known = [kind.__name__ for kind in (*ARRANGEMENTS, *MASKINGS, *LABELLINGS) if wanted & kind.writes]
    known += ["architecture.pooler=true"] if "pooled" in wanted and architecture.optional_pooler else []
    return f" ({tr(' or ').join(known)})" if known else ""
