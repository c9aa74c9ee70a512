"""The verb that trains a small model on what a large one predicts."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import TRAIN, app
from plmkit.cli.options import (
    CORPUS,
    FirstColumn,
    Json,
    LabelColumn,
    NoHeader,
    OutDir,
    Quiet,
    SecondColumn,
    Sets,
    TextColumn,
    columns_of,
    examples,
    print_json,
    screen,
)
from plmkit.language import tr


@app.command(
    help=tr("Train a small model, the student, on what a large one, the teacher, predicts."),
    epilog=examples(
        "plm distill runs/large bert-mini my_texts/ --out runs/small --minutes 10",
        "plm distill runs/large bert-tiny my_texts/ --method minilm --out runs/tiny --steps 5000 --alone",
        "plm distill runs/large-reviews bert-mini train.tsv --dev dev.tsv --out runs/small-reviews --alone",
        "plm distill runs/large-reviews runs/small train.tsv --unlabelled more.txt --out runs/small-reviews",
    ),
    rich_help_panel=TRAIN,
)
def distill(
    teacher: Annotated[
        Path,
        typer.Argument(
            metavar="TEACHER",
            help=tr(
                "A run folder, a Hugging Face folder, or a name on its hub. If it is fine-tuned, it teaches its task."
            ),
        ),
    ],
    student: Annotated[
        str,
        typer.Argument(
            metavar="STUDENT",
            help=tr("A name listed by `plm recipes`, or a folder whose weights the student starts from."),
        ),
    ],
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA", help=tr("{files}. For a fine-tuned teacher: a table of labelled rows.", files=CORPUS)
        ),
    ],
    out: OutDir,
    method: Annotated[
        str | None,
        typer.Option(
            help=tr(
                "distilbert: predictions, masked LM and the last hidden states; tinybert: hidden states and attention "
                "of all layers; minilm: relations of the last layer; soft: predictions. Of a task, tinybert and "
                "minilm compare states first and answers after that. Default: distilbert on text, soft for a task."
            )
        ),
    ] = None,
    init: Annotated[
        str,
        typer.Option(
            help=tr(
                "Initial weights of the student: auto (evenly spaced layers of the teacher, if they have its shape), "
                "random, or layers of the teacher, as in 1,3,5."
            )
        ),
    ] = "auto",
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help=tr(
                "The tokenizer of a recipe: a folder or file. Default: the teacher's. If vocabularies differ, their "
                "tokens are aligned by text."
            )
        ),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help=tr("On text: train for this many minutes."))] = None,
    steps: Annotated[
        int | None, typer.Option(help=tr("On text: train for this many steps. Default: schedule.steps."))
    ] = None,
    epochs: Annotated[float | None, typer.Option(help=tr("For a task: number of epochs (default: 3)."))] = None,
    unlabelled: Annotated[
        Path | None, typer.Option(help=tr("For a task: further rows without labels, for which the teacher answers."))
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help=tr("Rows that select the best epoch. Default: a tenth of the training rows, held out.")),
    ] = None,
    test: Annotated[Path | None, typer.Option(help=tr("Rows that are scored once, at the end."))] = None,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone", help=tr("Train the same student without its teacher too, in OUT/alone, and compare them.")
        ),
    ] = False,
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    label: LabelColumn = None,
    no_header: NoHeader = False,
    seed: Annotated[int, typer.Option(help=tr("Random seed (data order, masking, initial weights, dropout)."))] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help=tr("Number of seeds to train; reports mean and standard deviation."))
    ] = 1,
    sets: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.api import Distilling, distillation
    from plmkit.cli import show_distilled

    given = Distilling(
        teacher=teacher, student=student, data=tuple(data), out=out, method=method, steps=steps, minutes=minutes,
        epochs=epochs, sets=tuple(sets or ()), init=init, tokenizer=tokenizer,
        unlabelled=unlabelled, dev=dev, test=test,
        columns=columns_of(text, text_a, text_b, label, no_header), seed=seed, seeds=seeds, alone=alone,
    )  # fmt: skip
    found = distillation(given, screen(quiet))
    if not found.record.is_finished or not found.compared:
        raise typer.Exit(130)
    if as_json:
        print_json({"out": str(out), **found.record.result, "compared": list(found.compared)})
    else:
        show_distilled.distilled(found.compared, out, found.record, hints=not quiet)
