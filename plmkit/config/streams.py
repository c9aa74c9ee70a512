"""`--set` on streams and stages: `corruption.rate=0.3` in every stream, `streams.NAME.rate=0.3` in one of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from plmkit.config.older_versions import ONLY, stage_names
from plmkit.config.settings import assign, changed, parse
from plmkit.errors import SettingError, nearest
from plmkit.language import comma, several, tr
from plmkit.recipe import DataStream
from plmkit.schedules.schedule import Stage

Streams = tuple[DataStream, ...]
Stages = tuple[Stage, ...]
STAGES = tuple[tuple[float, int], ...]  # as a value
OWN = tuple(field.name for field in fields(DataStream) if field.name not in ("name", "arrangement", "maskings"))


def assign_corruption(streams: Streams, path: list[str], text: str, full: str) -> Streams:
    """Change a setting of a step in every stream that has it."""
    if path[-1] == "shares" and (shares := shares_by_stream(text)):
        return assign_shares(streams, path, shares, full)
    return in_every(streams, lambda stream: with_setting(stream, path, text, full))


def in_every(streams: Streams, change: Callable[[DataStream], DataStream]) -> Streams:
    """Apply a change to every stream that accepts it; an error if none does."""
    made, refused = [], []
    for stream in streams:
        try:
            made.append(change(stream))
        except SettingError as error:
            made.append(stream)
            refused.append(error)
    if len(refused) == len(streams):
        raise refused[0]
    return tuple(made)


def with_setting(stream: DataStream, path: list[str], text: str, full: str) -> DataStream:
    return unchecked(stream, assign(stream.steps, path, text, full))


def unchecked(stream: DataStream, steps: Sequence[Any]) -> DataStream:
    """The stream with other steps; values are checked together later."""
    return changed(changed(stream, "arrangement", steps[0]), "maskings", tuple(steps[1:]))


def shares_by_stream(text: str) -> list[list[float]] | None:
    """`[[1,0],[0,1]]`: a list of shares per stream; None if it is one list for all."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, list) and value and all(isinstance(one, list) for one in value) else None


def assign_shares(streams: Streams, path: list[str], shares: list[list[float]], full: str) -> Streams:
    """One list of shares per stream, or one for all; a single stream becomes one stream per list."""
    if len(streams) == 1:
        streams = tuple(replace(streams[0], name=name, place=ONLY) for name in stage_names(len(shares)))
    if len(shares) not in (1, len(streams)):
        raise SettingError(
            tr(
                "'{full}' has {lists} lists of shares, but the recipe has {streams} streams: {names}.\n"
                "Give one list per stream, or one for all.",
                full=full,
                lists=len(shares),
                streams=len(streams),
                names=comma().join(stream.name for stream in streams),
            )
        )
    texts = [json.dumps(one) for one in shares] * (len(streams) // len(shares))
    return tuple(with_setting(stream, path, text, full) for stream, text in zip(streams, texts, strict=True))


def joined(streams: Streams, stages: Stages) -> tuple[Streams, Stages]:
    """Streams that settings made equal, and that share a place, become one stream for all stages."""
    one = replace(streams[0], name=streams[0].reads_from, place=None)
    if len(streams) == 1 or any(replace(stream, name=stream.reads_from, place=None) != one for stream in streams):
        return streams, stages
    return (one,), tuple(replace(stage, streams=(), shares=()) for stage in stages)


def one_per_stage(streams: Streams, stages: Stages) -> Stages:
    """The stages of a recipe whose single stream became one stream per stage."""
    if len(streams) != len(stages):
        raise SettingError(
            tr(
                "corruption.shares has {lists} lists, one per stage, but the number of stages is {stages}.\n"
                "Give the same number of stages (--set stages='[[0.5, 128], [1.0, 128]]'), or one list of shares.",
                lists=len(streams),
                stages=len(stages),
            )
        )
    return tuple(replace(stage, streams=(stream.name,)) for stream, stage in zip(streams, stages, strict=True))


def assign_stream(streams: Streams, path: list[str], text: str, full: str) -> Streams:
    """A setting of one stream, or of one of its steps."""
    names = [stream.name for stream in streams]
    if len(path) < 2 or path[0] not in names:
        found = path[0] if path else ""
        raise SettingError(
            tr(
                "There is no setting '{full}'.{hint} Settings of a stream are called streams.NAME.SETTING; the "
                "streams are {names}.",
                full=full,
                hint=nearest(found, names),
                names=comma().join(names),
            )
        )
    name, *rest = path
    return tuple(
        (assign(stream, rest, text, full) if rest[0] in OWN else with_setting(stream, rest, text, full))
        if stream.name == name
        else stream
        for stream in streams
    )


def assign_stages(stages: Stages, text: str, full: str) -> Stages:
    """`[[0.9, 128], [1.0, 512]]`: end and sequence length of each stage; the streams of the stages do not change."""
    given = parse(text, STAGES, full)
    named = any(stage.streams for stage in stages)
    if named and len(given) != len(stages):
        streams = comma().join(tr(" and ").join(stage.streams) or tr("all streams") for stage in stages)
        raise SettingError(
            tr(
                "'{full}' has {stages}, but the recipe has {expected}, with the streams {streams}.\n"
                "Give {expected} stages.",
                full=full,
                stages=several(len(given), "stage"),
                expected=len(stages),
                streams=streams,
            )
        )
    if not named:
        return tuple(unchecked_stage(Stage(length=512), until, length) for until, length in given)
    return tuple(unchecked_stage(stage, *one) for stage, one in zip(stages, given, strict=True))


def unchecked_stage(stage: Stage, until: float, length: int) -> Stage:
    return changed(changed(stage, "until", until), "length", length)
