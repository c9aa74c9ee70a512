"""Verbs of language models: generate, score, prompt."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import ASK, app
from plmkit.cli.options import (
    Beams,
    FirstColumn,
    Json,
    LabelColumn,
    ModelDir,
    NewTokens,
    NoHeader,
    Quiet,
    Rows,
    SecondColumn,
    TableOut,
    TextColumn,
    columns_of,
    examples,
    opened,
    print_json,
    screen,
)
from plmkit.language import tr


@app.command(
    help=tr("Continue a text with a causal language model (GPT, LSTM, Transformer-XL, XLNet), shown token by token."),
    epilog=examples(
        'plm generate runs/mine "The river" --tokens 60 --n 3',
        'plm generate runs/mine "Who sang? It was" --temperature 0 --stop "."',
        "plm generate runs/mine --file prompts.txt --beams 4 --json",
    ),
    rich_help_panel=ASK,
)
def generate(
    model: ModelDir,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROMPT", help=tr("Text to continue; several prompts run as one batch and print in order.")
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(help=tr("A .txt file with one prompt per line."))] = None,
    tokens: NewTokens = 100,
    temperature: Annotated[
        float | None,
        typer.Option(help=tr("Sampling temperature: 0 is greedy decoding, above 1 is more random (default: 0.8).")),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help=tr("Top-k sampling: keep only this many of the most likely tokens."))
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help=tr(
                "Nucleus sampling: keep the most likely tokens whose probabilities add up to this "
                "(default: 0.95, off if --top-k is given; 1 keeps all)."
            )
        ),
    ] = None,
    beams: Beams = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(help=tr("Length penalty of beam search: 0 favours short outputs, 1 long ones (default: 0.6).")),
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help=tr("Stop before this string; repeatable."))] = None,
    n: Annotated[int, typer.Option("--n", help=tr("Number of texts per prompt."))] = 1,
    seed: Annotated[int | None, typer.Option(help=tr("Random seed of sampling (default: 0)."))] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.generation.options import GenerationOptions
    from plmkit.inference.texts import print_texts, prompts_of

    writing = GenerationOptions(
        tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, beams=beams, length_penalty=length_penalty,
        stop=tuple(stop or ()), n=n, seed=seed,
    )  # fmt: skip
    given = prompts_of(prompts or [], file)
    print_texts(opened(model, quiet), given, writing, screen(quiet), as_json=as_json)


@app.command(
    help=tr("Score texts by log-probability (pseudo-log-likelihood for masked models)."),
    epilog=examples("plm score runs/mine sentences.txt --out scores.tsv"),
    rich_help_panel=ASK,
)
def score(
    model: ModelDir,
    file: Rows,
    out: TableOut = None,
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    no_header: NoHeader = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.inference.texts import score_file

    columns = columns_of(text, text_a, text_b, None, no_header)
    score_file(opened(model, quiet), file, out, screen(quiet), as_json=as_json, columns=columns)


@app.command(
    help=tr("Solve a task with a causal language model by prompting, without training: zero-, one- or few-shot."),
    epilog=examples(
        "plm prompt runs/mine --task reviews.tsv --shots 4 --labels 0=bad,1=good",
        "plm prompt runs/mine --task en_de.tsv --shots 8 --beams 4",
    ),
    rich_help_panel=ASK,
)
def prompt(
    model: ModelDir,
    task: Annotated[
        Path,
        typer.Option(
            help=tr("Rows to answer; their columns determine the kind: text, label; question, choices, label; ...")
        ),
    ],
    shots: Annotated[int, typer.Option(help=tr("Number of demonstrations before each question."))] = 0,
    train: Annotated[
        Path | None,
        typer.Option(help=tr("File to draw demonstrations from. Default: rows of --task, which are then not scored.")),
    ] = None,
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    label: LabelColumn = None,
    no_header: NoHeader = False,
    kind: Annotated[
        str | None, typer.Option(help=tr("classify, pair, choose, answer, complete, translate or summarise."))
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help=tr(
                "How a row is written, with the answer last: '{example}'.", example=r"Review: {text}\nMood: {label}"
            )
        ),
    ] = None,
    labels: Annotated[str | None, typer.Option(help=tr("Words for the labels: 0=bad,1=good."))] = None,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated", help=tr("Divide the probability of an answer by its probability without the question.")
        ),
    ] = False,
    tokens: Annotated[
        int | None,
        typer.Option(
            help=tr(
                "Maximum new tokens per generated answer (default: 50, and only the first line is scored; "
                "100 for a summary, and its first three sentences are)."
            )
        ),
    ] = None,
    beams: Beams = None,
    limit: Annotated[int | None, typer.Option(help=tr("Answer at most this many rows."))] = None,
    seed: Annotated[int, typer.Option(help=tr("Random seed (choice of demonstrations, sampled summaries)."))] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show
    from plmkit.prompting.answering import PromptOptions, ask, report
    from plmkit.prompting.tasks import read_labels, read_tasks

    prompting = PromptOptions(
        shots=shots, template=template and template.replace("\\n", "\n"), calibrated=calibrated, tokens=tokens,
        beams=beams, limit=limit, seed=seed,
    )  # fmt: skip
    columns = columns_of(text, text_a, text_b, label, no_header)
    asked, shown = read_tasks(task, train, kind, read_labels(labels), columns, screen(quiet).say)
    result = report(ask(opened(model, quiet).engine, asked, shown, prompting))
    if result["shots"] < shots:
        screen(quiet).say(
            tr(
                "! Only {fitting} of {shots} demonstrations fit into the model's context.",
                fitting=result["shots"],
                shots=shots,
            )
        )
    if as_json:
        print_json(result)
    else:
        show.answers(result)
