"""Verbs that use a model: evaluate, predict, fill, generate, score, prompt, embed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from plmkit.cli.app import app
from plmkit.cli.options import (
    Beams,
    FirstColumn,
    ImageColumn,
    ImageFolder,
    Json,
    LabelColumn,
    ModelDir,
    NewTokens,
    NoHeader,
    Quiet,
    Rows,
    SecondColumn,
    SourceColumn,
    TableOut,
    TargetColumn,
    TaskName,
    TextColumn,
    columns_of,
    examples,
    opened,
    print_json,
    screen,
)
from plmkit.errors import SettingError
from plmkit.language import tr


@app.command(
    help=tr(
        "Score a fine-tuned model on labelled rows, a causal language model on plain text, or an encoder–decoder on "
        "pairs: BLEU and chrF, or ROUGE for summaries; a captioner on images with captions: BLEU."
    ),
    epilog=examples(
        "plm evaluate runs/mine-reviews test.tsv --json",
        "plm evaluate runs/gpt text.txt",
        "plm evaluate runs/en-de test.en+test.de --out test.hyp.txt",
    ),
)
def evaluate(
    model: ModelDir,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=tr(
                "Labelled rows, plain text for a causal language model, or pairs for an encoder–decoder: a table, or "
                "SOURCES+TARGETS, two text files whose lines belong together."
            ),
        ),
    ],
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    label: LabelColumn = None,
    source: SourceColumn = None,
    target: TargetColumn = None,
    image: ImageColumn = None,
    images: ImageFolder = None,
    no_header: NoHeader = False,
    task: TaskName = None,
    stride: Annotated[
        int | None,
        typer.Option(help=tr("Plain text: tokens by which the window advances (default: half a window).")),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(help=tr("Plain text: recurrent memory length in tokens (Transformer-XL and XLNet).")),
    ] = None,
    clamp: Annotated[
        int | None,
        typer.Option(help=tr("Plain text: maximum relative distance (Transformer-XL; default: the model's own).")),
    ] = None,
    beams: Annotated[
        int | None, typer.Option(help=tr("Pairs: number of beams (default: 4); captions: 3 by default."))
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help=tr("Pairs: length penalty of beam search (default: 0.6)."))
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help=tr("Pairs: bleu (with chrF) or rouge. Default: rouge for a column of summaries or titles, else bleu.")
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=tr("Pairs: write the translations to this file (.txt, .tsv, .csv, .jsonl or .parquet).")),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show
    from plmkit.inference.evaluation import can_evaluate_text, can_translate, evaluate_text
    from plmkit.tasks.use import evaluate_file

    loaded, columns = opened(model, quiet), columns_of(text, text_a, text_b, label, no_header)
    say = screen(quiet).say
    scores: dict[str, Any]
    for_rows = {"--text-a": text_a, "--text-b": text_b, "--label": label, "--task": task}
    for_text = {"--stride": stride, "--memory": memory, "--clamp": clamp}
    for_pairs = {
        "--source": source, "--target": target, "--beams": beams, "--length-penalty": length_penalty,
        "--metric": metric, "--out": out,
    }  # fmt: skip
    for_captions = {"--image": image, "--images": images}
    if loaded.architecture.image_pixels is not None:
        from plmkit.inference.caption_scores import evaluate_captions
        from plmkit.inference.captioning import CAPTION_BEAMS

        others = {**for_rows, **for_text, **for_pairs}
        del others["--beams"]
        if option := first_given(others):
            raise SettingError(
                tr(
                    "{model} describes images: it is scored on a table of images and captions, and {option} would be "
                    "ignored. Leave it out.",
                    model=model,
                    option=option,
                )
            )
        scores = evaluate_captions(
            loaded, str(file), CAPTION_BEAMS if beams is None else beams, screen(quiet), column=text,
            header=not no_header, image_column=image, images=None if images is None else str(images),
        )  # fmt: skip
    elif option := first_given(for_captions):
        raise SettingError(
            tr("{option} is for captions of images; {model} reads text. Leave it out.", option=option, model=model)
        )
    elif can_translate(loaded):
        from plmkit.generation.options import GenerationOptions
        from plmkit.inference.translating import BEAMS
        from plmkit.inference.translation_scores import evaluate_pairs

        if option := first_given({"--text": text, **for_rows, **for_text}):
            raise SettingError(
                tr(
                    "{model} is an encoder–decoder: it is scored on pairs of texts, and {option} would be ignored. "
                    "Leave it out.",
                    model=model,
                    option=option,
                )
            )
        search = GenerationOptions(beams=BEAMS if beams is None else beams, length_penalty=length_penalty)
        scores = evaluate_pairs(
            loaded, str(file), search, screen(quiet), columns=(source, target), header=not no_header, metric=metric,
            out=out,
        )  # fmt: skip
    elif option := first_given(for_pairs):
        raise SettingError(
            tr("{option} is for pairs of texts; {model} is not an encoder–decoder.", option=option, model=model)
        )
    elif can_evaluate_text(loaded):
        if option := first_given(for_rows):
            raise SettingError(
                tr(
                    "{model} is not fine-tuned: it is scored on plain text, and {option} would be ignored. "
                    "Leave it out, or fine-tune the model first.",
                    model=model,
                    option=option,
                )
            )
        scores = vars(evaluate_text(loaded, file, stride=stride, memory=memory, clamp=clamp, columns=columns, say=say))
        if not scores["comparable"]:
            say(
                tr(
                    "! This tokenizer is lossy on this text (case, accents or unknown words).\n"
                    "  Compare bits per character or byte only between models with the same tokenizer."
                )
            )
    elif first_given(for_text):
        raise SettingError(
            tr(
                "--stride, --memory and --clamp are for plain text; {model} is not a causal language model.",
                model=model,
            )
        )
    else:
        scores = evaluate_file(loaded, file, screen(quiet), columns, task)
    if as_json:
        print_json(scores)
    else:
        show.scores(scores)


def first_given(options: dict[str, Any]) -> str | None:
    return next((name for name, value in options.items() if value is not None), None)


@app.command(
    help=tr("Predict classes with probabilities, or numbers, for the rows of a file."),
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
    task: TaskName = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.tasks.use import predict_file

    columns = columns_of(text, text_a, text_b, None, no_header)
    predict_file(opened(model, quiet), file, out, screen(quiet), as_json=as_json, columns=columns, task=task)


@app.command(
    help=tr("Fill the blanks in a text with a masked language model."),
    epilog=examples('plm fill runs/mine "the capital of France is [MASK]." --top 3'),
)
def fill(
    model: ModelDir,
    text: Annotated[str, typer.Argument(metavar="TEXT", help=tr("A text with one or more [MASK]."))],
    top: Annotated[int, typer.Option(min=1, help=tr("Number of candidates per blank."))] = 5,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show

    blanks = opened(model, quiet).fill(text, top=top)
    if as_json:
        print_json({"text": text, "blanks": [[vars(candidate) for candidate in blank] for blank in blanks]})
    else:
        show.blanks(blanks)


@app.command(
    help=tr("Continue a text with a causal language model (GPT, LSTM, Transformer-XL, XLNet), shown token by token."),
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


@app.command(
    help=tr("Embed texts as vectors, as sentence-transformers does."),
    epilog=examples(
        "plm embed runs/mine texts.txt --out vectors.npy",
        "plm embed runs/mine reviews.csv --out vectors.parquet",
        "plm embed runs/elmo texts.txt --level token --layers mean --out words.safetensors",
        'plm embed runs/mine "a text"',
    ),
)
def embed(
    model: ModelDir,
    file: Rows,
    out: Annotated[
        Path | None,
        typer.Option(
            help=tr(
                "Output file: .npy or .safetensors for the vectors alone, .parquet or .jsonl for rows and vectors. "
                "Default for a text or stdin: print JSON."
            )
        ),
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            help=tr(
                "sentence: one vector per row, by the pooling of a sentence-transformers folder, otherwise the mean "
                "over all tokens, special tokens included. token: one vector per token, with an index in a .jsonl "
                "file next to --out: the tokens of each row, and where they begin and end in its text."
            )
        ),
    ] = "sentence",
    layers: Annotated[
        str,
        typer.Option(
            help=tr(
                "last: the last layer. mean: the mean of all layers and the word vectors below them, as ELMo's vectors "
                "are often used. all: each of them, with --level token."
            )
        ),
    ] = "last",
    text: TextColumn = None,
    text_a: FirstColumn = None,
    text_b: SecondColumn = None,
    no_header: NoHeader = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.tasks.tables import is_file
    from plmkit.tasks.use import embed_file
    from plmkit.vectors.word_vectors import is_static, load_vectors

    if out is None and not as_json and is_file(file):
        raise SettingError(tr("--out is missing: name a file for the vectors, as in --out vectors.npy, or add --json."))
    columns = columns_of(text, text_a, text_b, None, no_header)
    loaded = load_vectors(model) if is_static(model) else opened(model, quiet)
    result = embed_file(loaded, file, out, level, screen(quiet), columns, layers)
    if as_json or out is None:
        print_json(result)
