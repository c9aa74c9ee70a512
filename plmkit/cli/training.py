"""Verbs that train: pretrain, finetune, demo."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import TRAIN, app
from plmkit.cli.options import (
    CORPUS,
    Features,
    FirstColumn,
    ImageColumn,
    ImageFolder,
    Json,
    LabelColumn,
    ModelDir,
    NameTables,
    NoHeader,
    OutDir,
    Quiet,
    SecondColumn,
    Seed,
    Sets,
    SourceColumn,
    TargetColumn,
    TextColumn,
    TokenizerFile,
    Weights,
    columns_of,
    examples,
    print_json,
    recipe_names,
    screen,
    weights_of,
)
from plmkit.config.explaining import all_explanations_in, explanations_in
from plmkit.config.verbs import FINETUNING
from plmkit.errors import SettingError
from plmkit.language import comma, tr, translated
from plmkit.tasks.registry import KINDS


def task_names(typed: str) -> list[tuple[str, str]]:
    return [(name, translated(kind.summary)) for name, kind in KINDS.items() if name.startswith(typed)]


def finetuning_settings() -> list[str]:
    """One line per setting, with its explanation."""
    task = explanations_in("plmkit.tasks.settings", "TaskSettings")
    run = explanations_in("plmkit.config.machine", "Machine")
    explained = {f"task.{name}": text for name, text in task.items()}
    shared: dict[tuple[str, str], list[str]] = {}  # the kinds that have a setting, by its name and explanation
    for kind, place in KINDS.items():
        module, _, made = place.place.partition(":")
        for name, text in all_explanations_in(module, made, root="Task").items():
            if text:
                shared.setdefault((name, text), []).append(kind)
    explained |= {f"task.{name} ({comma().join(kinds)})": text for (name, text), kinds in shared.items()}
    explained |= {name: run.get(name.removeprefix("run."), "") for name in FINETUNING}
    return [tr("{name}: {summary}", name=name, summary=translated(text)) for name, text in explained.items()]


@app.command(
    help=tr("Pretrain a recipe on your text. Ctrl-C saves the run, and the same command resumes it."),
    epilog=examples(
        "plm pretrain bert-mini my_texts/ --out runs/mine --minutes 10",
        "plm pretrain gpt2-mini novel.txt --out runs/novel --steps 2000 --set schedule.batch=16",
        "plm pretrain bert-mini more.txt --from runs/mine --out runs/more",
        "plm pretrain transformer-mini pairs.tsv --source en --target de --out runs/en-de",
        "plm pretrain caption-mini captions.jsonl --images photos/ --out runs/captions",
        "plm pretrain visualbert-mini captions.jsonl --images photos/ --out runs/visual",
        "plm pretrain vilbert-mini captions.jsonl --features features/ --out runs/regions",
        "plm pretrain kg-stage triples.tsv my_texts/ --names names.tsv --from runs/mine --out runs/facts",
    ),
    rich_help_panel=TRAIN,
)
def pretrain(
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help=tr("A name listed by `plm recipes`."), autocompletion=recipe_names),
    ],
    out: OutDir,
    corpus: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CORPUS", help=tr("{files}. Default: documentation found on this machine.", files=CORPUS)
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help=tr("Train for this many minutes (or give --steps or --tokens). Default: schedule.steps.")),
    ] = None,
    steps: Annotated[int | None, typer.Option(help=tr("Train for this many steps."))] = None,
    tokens: Annotated[float | None, typer.Option(help=tr("Train on this many tokens, for example 1e8."))] = None,
    start: Annotated[Path | None, typer.Option("--from", help=tr("Initialise from the weights of this MODEL."))] = None,
    tokenizer: TokenizerFile = None,
    valid: Annotated[
        str | None,
        typer.Option(help=tr("File of held-out text. Default: 1% of the corpus, in whole documents.")),
    ] = None,
    weights: Weights = None,
    text: TextColumn = None,
    source: SourceColumn = None,
    target: TargetColumn = None,
    image: ImageColumn = None,
    images: ImageFolder = None,
    features: Features = None,
    names: NameTables = None,
    no_header: NoHeader = False,
    seed: Annotated[int, typer.Option(help=tr("Random seed (data order, masking, initial weights, dropout)."))] = 0,
    extend: Annotated[bool, typer.Option("--extend", help=tr("Continue a finished run for the budget given."))] = False,
    sets: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.api import pretraining
    from plmkit.cli import show
    from plmkit.training.pretrain import pretrain as train
    from plmkit.training.processes import is_first
    from plmkit.vectors.settings import SKIPGRAM

    if recipe == SKIPGRAM:
        ignored = {
            "--minutes": minutes, "--steps": steps, "--tokens": tokens, "--from": start, "--tokenizer": tokenizer,
            "--valid": valid, "--weights": weights, "--source": source, "--target": target, "--extend": extend or None,
        }  # fmt: skip
        word_vectors(tuple(corpus or ()), out, sets or [], (text, not no_header), seed, ignored, as_json, quiet)
        return
    request = pretraining(
        recipe, tuple(corpus or ()), out, steps=steps, minutes=minutes, tokens=tokens, sets=sets or [], start=start,
        tokenizer=tokenizer, valid=valid, weights=weights_of(weights), column=text,
        pair=(source, target),
        images=(image, *(None if path is None else str(path) for path in (images, features))), names=names or (),
        header=not no_header, seed=seed, extend=extend,
    )  # fmt: skip
    record = train(request, screen(quiet))
    if not record.is_finished:
        raise typer.Exit(130)
    if not is_first():  # of several processes, one prints
        return
    if as_json:
        print_json({"out": str(request.out), **record.result})
    else:
        show.pretrained(request.out, record, hints=not quiet)


def word_vectors(
    corpora: tuple[str, ...], out: Path, sets: list[str], reading: tuple[str | None, bool], seed: int,
    ignored: Mapping[str, object], as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Skip-gram, which no recipe describes: a library trains it, for epochs."""
    from plmkit.cli import show_words
    from plmkit.vectors.training import SkipGramRequest, settle_skipgram, train_vectors

    if given := [option for option, value in ignored.items() if value is not None]:
        raise SettingError(
            tr(
                "skipgram takes no {option}: it makes one vector per word, in a number of epochs. Its settings are "
                "such as --set skipgram.epochs=10.",
                option=given[0],
            )
        )
    settings, machine = settle_skipgram(sets, *reading)
    request = SkipGramRequest(corpora=corpora, out=out, settings=settings, machine=machine, seed=seed)
    record = train_vectors(request, screen(quiet))
    if as_json:
        print_json({"out": str(out), **record.result})
    else:
        show_words.word_vectors(out, record, hints=not quiet)


@app.command(
    help=tr("Fine-tune a model on labelled rows."),
    epilog=examples(
        "plm finetune runs/mine --task classify --train train.tsv --dev dev.tsv --out runs/mine-reviews",
        "plm finetune runs/mine --tasks tasks.toml --out runs/many --alone --seeds 3",
        "plm finetune runs/mine --task classify --train train.tsv --out runs/best --search --minutes 20",
        "plm finetune runs/mine --task pair --train pairs.tsv --out runs/pairs --seeds 3 --set task.learning_rate=1e-4",
    )
    + "\n\n".join(["", tr("Settings of --set:"), *finetuning_settings()]),
    rich_help_panel=TRAIN,
)
def finetune(
    model: ModelDir,
    out: OutDir,
    train: Annotated[
        Path | None,
        typer.Option(
            help=tr(
                "Labelled rows: TSV, CSV, JSONL or Parquet with columns text and label (other names: --text, --label); "
                "for two texts, text_a, text_b and label; for choices, JSONL with context, question, choices and "
                "label; for tags, CoNLL columns, JSONL with tokens and tags, or texts with spans."
            )
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help=tr(
                "{tasks}.",
                tasks=tr("; ").join(
                    tr("{name}: {summary}", name=name, summary=translated(kind.summary)) for name, kind in KINDS.items()
                ),
            ),
            autocompletion=task_names,
        ),
    ] = None,
    tasks: Annotated[
        Path | None,
        typer.Option(
            help=tr(
                "Several tasks to train on together: a TOML file with a table for each, of kind, train, dev and test."
            )
        ),
    ] = None,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone",
            help=tr("With --tasks: train each task alone too, in OUT/alone, and compare its scores and gaps."),
        ),
    ] = False,
    then_each: Annotated[
        bool,
        typer.Option(
            "--then-each",
            help=tr("With --tasks: fine-tune each task once more from the joint result, in OUT/then, and compare."),
        ),
    ] = False,
    dev: Annotated[
        Path | None,
        typer.Option(help=tr("Rows that select the best epoch. Default: a tenth of the training rows, held out.")),
    ] = None,
    test: Annotated[Path | None, typer.Option(help=tr("Rows that are scored once, at the end."))] = None,
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    label: LabelColumn = None,
    no_header: NoHeader = False,
    epochs: Annotated[float | None, typer.Option(help=tr("Number of epochs (default: 3)."))] = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search",
            help=tr(
                "Try learning rates (usual, double, half), epochs (3, 5, 2) and, for long texts, half the length; keep "
                "the best on dev. A setting that is given is not varied."
            ),
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(help=tr("Time for --search; what would take longer is not tried. Default: try everything.")),
    ] = None,
    seed: Annotated[int, typer.Option(help=tr("Random seed (row order, initial head, dropout)."))] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help=tr("Number of seeds to train; reports mean and standard deviation."))
    ] = 1,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help=tr(
                "Change a setting, for example task.learning_rate=1e-4; repeatable. The settings are listed below."
            ),
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show
    from plmkit.compare.task_ways import finetune_and_compare
    from plmkit.tasks.finetune import FinetuneRequest, Searching
    from plmkit.tasks.settings import settle_task
    from plmkit.tasks.task_list import given_tasks

    columns = columns_of(text, text_a, text_b, label, no_header)
    given, left = given_tasks(tasks, task, train, dev, test, columns, sets or [])
    settings, machine = settle_task(left, epochs)
    request = FinetuneRequest.of(
        given, model=model, out=out, settings=settings, machine=machine, seed=seed, seeds=seeds,
        search=Searching.given(search, minutes),
    )  # fmt: skip
    record = finetune_and_compare(request, screen(quiet), alone=alone, then_each=then_each)
    if as_json:
        print_json({"out": str(request.out), **record.result})
    else:
        show.finetuned(request.out, record, hints=not quiet)


@app.command(
    help=tr("Pretrain a small BERT on text found on this machine, fine-tune it, and compare it with baselines."),
    epilog=examples("plm demo --out runs/demo"),
    rich_help_panel=TRAIN,
)
def demo(
    out: OutDir = Path("runs/demo"),
    minutes: Annotated[float, typer.Option(help=tr("Maximum minutes of pretraining."))] = 2.5,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.api import positive
    from plmkit.cli import show
    from plmkit.demo.demo import demo as run

    positive("--minutes", minutes)
    result = run(out, minutes, seed, screen(quiet))
    if as_json:
        print_json(result)
    else:
        show.demo(result)
