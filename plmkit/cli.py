"""The verbs of `plm`: parse, call, print. What is slow to import is imported by the verb that needs it."""

import errno
import json
import math
import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from plmkit import __version__
from plmkit.errors import PlmError, SettingError, is_out_of_memory
from plmkit.tasks.registry import KINDS
from plmkit.training import usage  # noqa: F401 - the system's counts at the start, which `opened` looks back to

if TYPE_CHECKING:
    from plmkit.config.machine import Settings
    from plmkit.data.reading.columns import Columns
    from plmkit.inference.model import Model
    from plmkit.terminal.screen import Screen


def examples(*commands: str) -> str:
    """The end of a help text, one command on each line."""
    return "\n\n".join(f"{'Or: ' if number else 'Example: '}{command}" for number, command in enumerate(commands))


def recipe_names(typed: str) -> list[str]:
    """For the shell to complete; read, not imported, for torch would take seconds at every Tab."""
    table = (Path(__file__).parent / "catalogue.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "([\w.-]+)": ', table, re.MULTILINE)
    return [name for name in names if name.startswith(typed)]


def task_names(typed: str) -> list[tuple[str, str]]:
    return [(name, kind.summary) for name, kind in KINDS.items() if name.startswith(typed)]


app = typer.Typer(
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Pretrain, fine-tune and compare classic language-model recipes on your own text.",
    epilog="Start with: plm demo\n\n"
    "Look at your text: plm doctor my_texts/\n\n"
    "Train on it: plm pretrain bert-mini my_texts/ --out runs/mine --minutes 10\n\n"
    'Try it: plm fill runs/mine "a [MASK] day"',
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no messages and no progress, only warnings.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting, as in schedule.rate=1e-3; may be repeated. `plm recipes RECIPE` shows them all.",
    ),
]
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of a disk or a device
CORPUS = "Text files (.txt .md .jsonl .csv .tsv .parquet, also .gz and .zst), folders or globs"
TokenizerFile = Annotated[
    Path | None,
    typer.Option(
        help="vocab.txt, tokenizer.json, a folder with either or a name on the Hugging Face hub; without it, one is "
        "learnt from the text."
    ),
]
ModelDir = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A run folder, a Hugging Face folder, or a name on its hub.")
]
Rows = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="TSV, CSV, JSONL, Parquet or text file; or - for lines from stdin; or a text as it stands."
    ),
]
TableOut = Annotated[Path | None, typer.Option(help="Write here (.tsv, .csv, .jsonl or .parquet) instead of stdout.")]
TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="Column with the text; without it, one of a usual name: text, sentence, review, content, 文本, 评论, ...",
    ),
]
FirstColumn = Annotated[
    str | None,
    typer.Option(
        "--text-a",
        metavar="COLUMN",
        help="Of pairs, column with the first text: text_a, sentence1, premise, question, 句子1, ...",
    ),
]
SecondColumn = Annotated[
    str | None,
    typer.Option(
        "--text-b",
        metavar="COLUMN",
        help="Of pairs, column with the second text: text_b, sentence2, hypothesis, 句子2, ...",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="Column with the label: label, sentiment, category, class, target, score, rating, 标签, 类别, ...",
    ),
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The first row of .csv or .tsv is a row like any other; columns are 1, 2, 3."),
]


def main() -> None:
    """Run `plm`; a mistake of the user's is told in a few lines, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="plm", standalone_mode=False)
        sys.stdout.flush()
    except PlmError as error:
        fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        forget_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in FULL:
            raise
        forget_output()
        what = error.filename or "What is printed"
        fail(f"{what} cannot be written: {error.strerror}. Free some space, or write elsewhere.")
    except Exception as error:
        if is_out_of_memory(error):
            fail("The memory of this machine is used up. Give less at once, or take a smaller model.")
        if not hasattr(error, "format_message"):  # typer's own errors have it, whichever click they come from
            raise
        context = getattr(error, "ctx", None)
        said = said_otherwise(error) or error.format_message()
        fail(f"{said}\n`{context.command_path if context else 'plm'} --help` shows what it takes.")
    if code == 130:
        print("plm: stopped.", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def forget_output() -> None:
    """What is still to be printed has nowhere to go, and Python would try once more at its end."""
    with suppress(OSError, ValueError):  # a stdout that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> NoReturn:
    print(f"plm: {message}", file=sys.stderr)
    sys.exit(2)


def said_otherwise(error: Any) -> str | None:
    """What an option of other tools is called here; None where nobody knows it, or it was another error."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if option is None or context is None or context.info_name not in ("pretrain", "finetune"):
        return None
    from plmkit.config.habits import option_meant
    from plmkit.config.machine import Machine
    from plmkit.config.settings import names_in
    from plmkit.schedules.schedule import Schedule
    from plmkit.tasks.settings import READ, TaskSettings

    tuning = {"task": names_in(TaskSettings), "run": READ}
    training = {"schedule": names_in(Schedule), "run": names_in(Machine)}
    options = {option for parameter in context.command.params for option in parameter.opts}
    here = option_meant(option, options, tuning if context.info_name == "finetune" else training)
    return f"No such option: {option}. Here that is {here}." if here else None


def version(wanted: bool) -> None:
    if wanted:
        print(f"plmkit {__version__}")
        raise typer.Exit


@app.callback()
def common(
    show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog=examples("plm recipes", "plm recipes bert-mini"))
def recipes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show this one with all its settings.", autocompletion=recipe_names),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List all recipes, or show one: its five choices, paper, sizes and exact parameter count."""
    from plmkit.terminal import show

    if name is None:
        show.all_recipes(as_json)
    else:
        show.one_recipe(name, as_json)


@app.command(
    epilog=examples(
        "plm doctor my_texts/ more.jsonl.gz", "plm doctor novel.txt --recipe gpt2-mini", "plm doctor --verify runs/mine"
    )
)
def doctor(
    corpus: Annotated[list[str], typer.Argument(metavar="CORPUS...", help=f"{CORPUS}.")],
    recipe: Annotated[
        str,
        typer.Option(help="The recipe whose training examples to count and show.", autocompletion=recipe_names),
    ] = "bert-mini",
    tokenizer: TokenizerFile = None,
    text: TextColumn = None,
    no_header: NoHeader = False,
    seed: Annotated[int, typer.Option(help="The same seed shows the same examples.")] = 0,
    sets: Sets = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Instead, give folders of runs, exports or the cache: is every file in them as plmkit wrote it?",
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a corpus before training: what it holds, what is wrong with it, what the model will see."""
    if verify:
        if sets or tokenizer:
            raise SettingError("--verify reads no text: leave --set and --tokenizer out.")
        verify_folders(corpus, as_json)
        return
    from plmkit.catalogue import find
    from plmkit.config.machine import PREPARING, check_read, settle
    from plmkit.config.settings import cut
    from plmkit.preparation.doctor import examine
    from plmkit.terminal import show

    settings = reading(settle(find(recipe), sets or []), text, no_header)
    for name, _ in map(cut, sets or []):
        if name.startswith("run."):
            check_read(name, PREPARING, "plm doctor")
    diagnosis = examine(settings, corpus, seed, screen(quiet), tokenizer=tokenizer)
    if as_json:
        print_json(diagnosis.as_json())
    else:
        show.diagnosis(diagnosis, settings.recipe)
    if diagnosis.bad_files:
        raise typer.Exit(2)


@app.command(
    epilog=examples(
        "plm pretrain bert-mini my_texts/ --out runs/mine --minutes 10",
        "plm pretrain gpt2-mini novel.txt --out runs/novel --steps 2000 --set schedule.batch=16",
        "plm pretrain bert-mini more.txt --from runs/mine --out runs/more",
    ),
)
def pretrain(
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help="A name that `plm recipes` lists.", autocompletion=recipe_names),
    ],
    corpus: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CORPUS...]", help=f"{CORPUS}; none: documentation on this machine."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run, always needed.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Train this long; or give --steps or --tokens. Without any, the recipe's schedule.steps."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Train this many steps.")] = None,
    tokens: Annotated[float | None, typer.Option(help="Train on this many tokens, as in 1e8.")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="Start from the weights of this MODEL.")] = None,
    tokenizer: TokenizerFile = None,
    valid: Annotated[
        str | None,
        typer.Option(help="A file of held-out text; without it, 1% of the corpus is held out, in whole documents."),
    ] = None,
    text: TextColumn = None,
    no_header: NoHeader = False,
    seed: Annotated[int, typer.Option(help="Order, masks, starting weights and dropout follow from it.")] = 0,
    extend: Annotated[bool, typer.Option("--extend", help="Go on with a finished run, for the budget given.")] = False,
    sets: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pretrain a recipe on your text. Ctrl-C saves the run, and the same command goes on with it."""
    from plmkit.catalogue import find
    from plmkit.config.machine import settle
    from plmkit.terminal import show
    from plmkit.training.pretrain import Order
    from plmkit.training.pretrain import pretrain as train

    settings = reading(settle(find(recipe), sets or []), text, no_header)
    order = Order(
        settings=settings,
        corpora=tuple(corpus or ()),
        out=needed(out),
        budget=budget(minutes, steps, tokens, None if extend else settings.recipe.schedule.steps),
        seed=seed,
        start=start,
        tokenizer=tokenizer,
        valid=valid,
        extend=extend,
    )
    about = train(order, screen(quiet))
    if about["state"] != "finished":
        raise typer.Exit(130)
    if as_json:
        print_json({"out": str(order.out), **about["result"]})
    else:
        show.pretrained(order.out, about, hints=not quiet)


@app.command(
    epilog=examples(
        "plm finetune runs/mine --task classify --train train.tsv --dev dev.tsv --out runs/mine-reviews",
        "plm finetune runs/mine --task pair --train pairs.tsv --out runs/mine-pairs --seeds 3 --set task.rate=1e-4",
    ),
)
def finetune(
    model: ModelDir,
    train: Annotated[
        Path,
        typer.Option(
            help="Labelled rows, TSV, CSV, JSONL or Parquet, with columns text and label (others: --text, --label); of "
            "two texts text_a, text_b and label; to choose, JSONL with context, question, choices and label."
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(
            help="; ".join(f"{name}: {kind.summary}" for name, kind in KINDS.items()) + ". Always needed.",
            autocompletion=task_names,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the new run, always needed.")] = None,
    dev: Annotated[
        Path | None, typer.Option(help="Rows that choose the best epoch; without it, the last is kept.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Rows that are scored once, at the end.")] = None,
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    label: LabelColumn = None,
    no_header: NoHeader = False,
    epochs: Annotated[float | None, typer.Option(help="Times through the training rows; 3 unless told.")] = None,
    seed: Annotated[int, typer.Option(help="Order, head and dropout follow from it.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Train so often, and report mean and spread.")] = 1,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting, as in task.rate=1e-4; may be repeated. There are task.batch, rate, warmup, shape, "
            "optimizer, decay, clip, layer_decay, dropout, pooling, length, frozen, scratch, lm_weight, and "
            "run.threads, device, dtype, rows_at_once, log_steps.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fine-tune a model on labelled rows."""
    from plmkit.tasks.finetune import FinetuneRequest
    from plmkit.tasks.finetune import finetune as train_task
    from plmkit.tasks.registry import find_kind
    from plmkit.tasks.settings import settle_task
    from plmkit.terminal import show

    settings, machine = settle_task(sets or [], epochs)
    if task is None:
        raise SettingError(f"--task is missing: one of {', '.join(KINDS)}. `--task classify` sorts texts into classes.")
    request = FinetuneRequest(
        model=model, task=find_kind(task)(), train=train, dev=dev, test=test, out=needed(out),
        settings=settings, machine=machine, seed=seed, seeds=seeds,
        columns=columns_of(text, text_a, text_b, label, no_header),
    )  # fmt: skip
    about = train_task(request, screen(quiet))
    if as_json:
        print_json({"out": str(request.out), **about["result"]})
    else:
        show.finetuned(request.out, about, hints=not quiet)


@app.command(epilog=examples("plm evaluate runs/mine-reviews test.tsv --json", "plm evaluate runs/gpt text.txt"))
def evaluate(
    model: ModelDir,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labelled rows; plain text for a model that goes on.")],
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    label: LabelColumn = None,
    no_header: NoHeader = False,
    stride: Annotated[
        int | None,
        typer.Option(help="Plain text: how far each window lies behind the last; half a window unless told."),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(help="Plain text: steps that a Transformer-XL keeps, or an XLNet before its own length."),
    ] = None,
    clamp: Annotated[
        int | None,
        typer.Option(help="Plain text: the longest distance that a Transformer-XL tells apart; its own by default."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a fine-tuned model on labelled rows, or a left-to-right model on plain text."""
    from plmkit.inference.evaluation import can_be_read, evaluate_text
    from plmkit.tasks.use import evaluate_file
    from plmkit.terminal import show

    loaded, columns = opened(model, quiet), columns_of(text, text_a, text_b, label, no_header)
    if can_be_read(loaded):
        if given := [name for name in ("text_a", "text_b", "label") if getattr(columns, name) is not None]:
            option = f"--{given[0].replace('_', '-')}"
            raise SettingError(
                f"{model} is not fine-tuned: it is scored on plain text, so {option} would change nothing."
            )
        scores = vars(
            evaluate_text(
                loaded, file, stride=stride, memory=memory, clamp=clamp, columns=columns, say=screen(quiet).say
            )
        )
        if not scores["comparable"]:
            screen(quiet).say(
                "! The tokenizer drops something of this text (case, accents, or words it does not know), which the "
                "model need not say.\n  Compare its bits a character and a byte only with models that drop the same."
            )
    elif any(option is not None for option in (stride, memory, clamp)):
        raise SettingError(
            f"--stride, --memory and --clamp are for plain text; {model} does not say text from left to right."
        )
    else:
        scores = evaluate_file(loaded, file, screen(quiet), columns)
    if as_json:
        print_json(scores)
    else:
        show.scores(scores)


@app.command(
    epilog=examples(
        "plm predict runs/mine-reviews new.txt --out answers.tsv",
        'plm predict runs/mine-reviews "I liked it"',
        "grep soup new.txt | plm predict runs/mine-reviews - --json",
    ),
)
def predict(
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
    """Predict classes with probabilities, or numbers, for the rows of a file."""
    from plmkit.tasks.use import predict_file

    columns = columns_of(text, text_a, text_b, None, no_header)
    predict_file(opened(model, quiet), file, out, screen(quiet), as_json=as_json, columns=columns)


@app.command(epilog=examples('plm fill runs/mine "the capital of France is [MASK]." --top 3'))
def fill(
    model: ModelDir,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text with one or more [MASK].")],
    top: Annotated[int, typer.Option(min=1, help="How many ways to fill each blank.")] = 5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fill the blanks in a text."""
    from plmkit.terminal import show

    blanks = opened(model, quiet).fill(text, top=top)
    if as_json:
        print_json({"text": text, "blanks": [[vars(candidate) for candidate in blank] for blank in blanks]})
    else:
        show.blanks(blanks)


@app.command(
    epilog=examples(
        'plm generate runs/mine "The river" --tokens 60 --n 3',
        'plm generate runs/mine "Who sang? It was" --temperature 0 --stop "."',
        "plm generate runs/mine --file prompts.txt --beams 4 --json",
    ),
)
def generate(
    model: ModelDir,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT...", help="How the text begins; several are written at once, shown in order."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A .txt file with a prompt on each line.")] = None,
    tokens: Annotated[int, typer.Option(help="New tokens at most.")] = 100,
    temperature: Annotated[
        float | None, typer.Option(help="0: the likeliest token every time; above 1: wilder. 0.8 unless told.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from so many of the likeliest tokens.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Draw from the likeliest that have this share together. 0.95 unless told, or top-k is; 1: all."
        ),
    ] = None,
    beams: Annotated[int | None, typer.Option(help="Search for the likeliest text, so many at a time.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Of beams: 0 favours short texts, 1 long ones. 0.6 unless told.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End the text before this; may be repeated.")] = None,
    n: Annotated[int, typer.Option("--n", help="Texts for each prompt.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let a left-to-right model (GPT, LSTM, Transformer-XL, XLNet) go on with a text, shown as it is written."""
    from plmkit.generation.use import prompts_of, write_texts
    from plmkit.generation.writing import Writing

    writing = Writing(
        tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, beams=beams, length_penalty=length_penalty,
        stop=tuple(stop or ()), n=n, seed=seed,
    )  # fmt: skip
    given = prompts_of(prompts or [], file)
    write_texts(opened(model, quiet), given, writing, screen(quiet), as_json=as_json)


@app.command(epilog=examples("plm score runs/mine sentences.txt --out scores.tsv"))
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
    """Tell how likely a model finds each text; of a masked model, by its pseudo-likelihood."""
    from plmkit.generation.use import score_file

    columns = columns_of(text, text_a, text_b, None, no_header)
    score_file(opened(model, quiet), file, out, screen(quiet), as_json=as_json, columns=columns)


@app.command(
    epilog=examples(
        "plm prompt runs/mine --task reviews.tsv --shots 4 --labels 0=bad,1=good",
        "plm prompt runs/mine --task en_de.tsv --shots 8 --beams 4",
    ),
)
def prompt(
    model: ModelDir,
    task: Annotated[
        Path,
        typer.Option(help="Rows to answer; their columns tell the kind: text, label; question, choices, label; ..."),
    ],
    shots: Annotated[int, typer.Option(help="Demonstrations before each question.")] = 0,
    train: Annotated[
        Path | None, typer.Option(help="Rows to take them from; without it, from the task, which then asks the rest.")
    ] = None,
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    label: LabelColumn = None,
    no_header: NoHeader = False,
    kind: Annotated[
        str | None, typer.Option(help="classify, pair, choose, answer, complete, translate or summarise.")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help=r"How a row is shown, its answer last: 'Review: {text}\nMood: {label}'.")
    ] = None,
    labels: Annotated[str | None, typer.Option(help="Words for labels: 0=bad,1=good.")] = None,
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Weigh an answer against how likely it is without a question.")
    ] = False,
    tokens: Annotated[
        int | None,
        typer.Option(
            help="Of a written answer, at most. Default 50, of which the first line counts; of a summary 100, "
            "of which three sentences do."
        ),
    ] = None,
    beams: Annotated[int | None, typer.Option(help="Search for written answers, so many at a time.")] = None,
    limit: Annotated[int | None, typer.Option(help="Ask so many rows at most.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the demonstrations, and summaries.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask a left-to-right model to do a task by example, without training: zero, one or few shots."""
    from plmkit.generation.prompting import Prompting, as_told, ask
    from plmkit.generation.shots import read_labels, read_tasks
    from plmkit.terminal import show

    prompting = Prompting(
        shots=shots, template=template and template.replace("\\n", "\n"), calibrated=calibrated, tokens=tokens,
        beams=beams, limit=limit, seed=seed,
    )  # fmt: skip
    columns = columns_of(text, text_a, text_b, label, no_header)
    asked, shown = read_tasks(task, train, kind, read_labels(labels), columns, screen(quiet).say)
    told = as_told(ask(opened(model, quiet).author, asked, shown, prompting))
    if told["shots"] < shots:
        screen(quiet).say(f"! Only {told['shots']} of {shots} demonstrations fit into the model's context.")
    if as_json:
        print_json(told)
    else:
        show.answers(told)


@app.command(
    epilog=examples(
        "plm embed runs/mine texts.txt --out vectors.npy",
        "plm embed runs/mine reviews.csv --out vectors.parquet",
        'plm embed runs/mine "a text"',
    ),
)
def embed(
    model: ModelDir,
    file: Rows,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write here: .npy for the vectors alone, .parquet for the rows with them. Vectors of a text or of "
            "stdin are otherwise printed as JSON."
        ),
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            help="sentence: one vector per row, by the pooling of a sentence-transformers folder, otherwise the mean "
            "over all tokens, special ones included. token: one per token; a .jsonl file beside .npy says which is "
            "whose."
        ),
    ] = "sentence",
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    no_header: NoHeader = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn texts into vectors, as sentence-transformers does."""
    from plmkit.tasks.asked import is_file
    from plmkit.tasks.use import embed_file

    if out is None and not as_json and is_file(file):
        raise SettingError("--out is missing: name a file for the vectors, as in --out vectors.npy, or add --json.")
    columns = columns_of(text, text_a, text_b, None, no_header)
    told = embed_file(opened(model, quiet), file, out, level, screen(quiet), columns)
    if as_json or out is None:
        print_json(told)


@app.command(epilog=examples("plm export runs/mine exported/ --format huggingface"))
def export(
    model: ModelDir,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    format: Annotated[str, typer.Option(help="huggingface.")] = "huggingface",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model as a folder that other tools open, and check that they compute the same."""
    from plmkit.interop.export import export as write

    told = write(model, folder, format, screen(quiet))
    if as_json:
        print_json(told)


@app.command(
    "import",
    epilog=examples(
        "plm import old-bert/ --out bert", "plm import finetune-transformer-lm/model --format openai-gpt --out gpt1"
    ),
)
def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder as it was published.")],
    out: Annotated[Path | None, typer.Option(help="A new folder, as Hugging Face's are.")] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="huggingface: config.json and pytorch_model.bin. openai-gpt: params_*.npy, their shapes, encoder and "
            "merges. Default: by the files that are there."
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read a model as its authors published it; every command takes the new folder."""
    from plmkit.interop.importing import import_model

    told = import_model(folder, format, needed(out), screen(quiet))
    if as_json:
        print_json(told)


@app.command(epilog=examples("plm demo --out runs/demo"))
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything that the demo writes.")] = Path("runs/demo"),
    minutes: Annotated[float, typer.Option(help="How long to pretrain at most.")] = 2.5,
    seed: Annotated[int, typer.Option(help="Another seed, another draw.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pretrain a small BERT on text that is on this machine, fine-tune it, and see what that was worth."""
    from plmkit.demo.demo import demo as run
    from plmkit.terminal import show

    positive("--minutes", minutes)
    told = run(out, minutes, seed, screen(quiet))
    if as_json:
        print_json(told)
    else:
        show.demo(told)


def opened(model: Path, quiet: bool) -> "Model":
    """The model in the folder, and as many threads to compute with as there are free cores."""
    from plmkit.inference.loading import model_of, read_parts
    from plmkit.training.threads import Threads

    loaded = model_of(read_parts(model, screen(quiet).say))
    Threads(None, screen(quiet).say)
    return loaded


def verify_folders(folders: list[str], as_json: bool) -> None:
    from plmkit.storage.verifying import verify

    verdicts = verify(folders)
    if as_json:
        print_json({"folders": [vars(verdict) for verdict in verdicts]})
    else:
        print("\n".join(verdict.told for verdict in verdicts))
    if any(verdict.damage for verdict in verdicts):
        raise typer.Exit(2)


def screen(quiet: bool) -> "Screen":
    from plmkit.terminal.screen import Screen

    return Screen(quiet=quiet)


def columns_of(
    text: str | None, text_a: str | None, text_b: str | None, label: str | None, no_header: bool
) -> "Columns":
    from plmkit.data.reading.columns import Columns

    return Columns(text=text, text_a=text_a, text_b=text_b, label=label, header=not no_header)


def reading(settings: "Settings", text: str | None, no_header: bool) -> "Settings":
    """The settings with the text column that --text names."""
    machine = settings.run
    if text is not None and machine.column not in (None, text):
        raise SettingError(f"--text {text} and run.column={machine.column} name different columns. Give one of them.")
    machine = replace(machine, column=text or machine.column, header=machine.header and not no_header)
    return replace(settings, run=machine)


def needed(out: Path | None) -> Path:
    if out is None:
        raise SettingError("--out is missing: name what to write, as in --out runs/mine.")
    return out


def budget(minutes: float | None, steps: int | None, tokens: float | None, default: int | None) -> Any:
    """The one that is named, or so many steps; of a run that is extended, nothing says how far but what is named."""
    from plmkit.training.loop import Budget

    given = {"--minutes": minutes, "--steps": steps, "--tokens": tokens}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) > 1:
        raise SettingError(f"A run has one budget; found {' and '.join(named)}. Choose one.")
    if not named and default is None:
        raise SettingError("--extend goes on for a budget of its own: add --minutes, --steps or --tokens.")
    for name, value in named.items():
        positive(name, value)
    return Budget(
        steps=steps if named else default,
        tokens=None if tokens is None else math.ceil(tokens),
        seconds=None if minutes is None else minutes * 60,
    )


def positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise SettingError(f"{name} must be a finite number above 0; found {value:g}.")


def print_json(data: dict[str, Any]) -> None:
    print(json.dumps(data, ensure_ascii=False))


if __name__ == "__main__":
    main()
