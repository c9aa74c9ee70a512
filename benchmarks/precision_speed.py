"""Pretraining in bfloat16 against float32: our loop on both sides."""

from dataclasses import replace

from benchmarks.loops import column
from benchmarks.pretraining_speed import cases, make_ours
from benchmarks.shared import Line, Options, say, sides, take_turns

TITLE = "Pretraining, tokens per second: bfloat16 against float32"
TARGET = 1.6  # on a processor with instructions for bfloat16; on others float32 is faster


def run(options: Options) -> list[Line]:
    name, case = next(iter(cases(options).items()))
    say(f"precision: {name}")
    half, full = replace(case, dtype="bfloat16"), replace(case, dtype="float32")
    with sides((make_ours, half), (make_ours, full)) as (ours, theirs):
        a, b = (column(told, "tokens_per_second") for told in take_turns(ours, theirs, options.rounds))
    return [Line(case=name, unit="tokens/s", ours=a, theirs=b, target=TARGET)]
