"""`plm evaluate`: which scores a model has, and which options they need."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plmkit.cli.app import ASK, app
from plmkit.cli.options import (
    Features,
    FirstColumn,
    ImageColumn,
    ImageFolder,
    Json,
    LabelColumn,
    ModelDir,
    NameTables,
    NoHeader,
    Quiet,
    SecondColumn,
    SourceColumn,
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

if TYPE_CHECKING:
    from plmkit.data.reading.columns import Columns
    from plmkit.inference.model import Model
    from plmkit.terminal.screen import Screen


@app.command(
    help=tr(
        "Score a model on a file it was not trained on, by the measures of its kind.\n\n"
        "A fine-tuned model on labelled rows: scores with intervals, scores by class, calibration and mistakes, for "
        "each of its tasks that can read them. A causal language model on plain text: perplexity and bits per "
        "character. An encoder–decoder on pairs: BLEU and chrF, or ROUGE for summaries. A captioner on images with "
        "captions: BLEU. A model that reads text with images on the same: recall at 1, 5 and 10. A model of triples "
        "on other triples: filtered ranks."
    ),
    epilog=examples(
        "plm evaluate runs/mine-reviews test.tsv --out report.html",
        "plm evaluate runs/gpt text.txt",
        "plm evaluate runs/en-de test.en+test.de --out test.hyp.txt",
        "plm evaluate runs/visual captions.jsonl --images photos/ --candidates 50",
        "plm evaluate runs/facts test.tsv --known dev.tsv",
        "plm evaluate runs/mine triples.tsv --by cloze --names names.tsv",
    ),
    rich_help_panel=ASK,
)
def evaluate(
    model: ModelDir,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=tr(
                "Labelled rows, plain text for a causal language model, triples for a model that was trained on some, "
                "or pairs for an encoder–decoder: a table, or SOURCES+TARGETS, two text files whose lines belong "
                "together."
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
    features: Features = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=tr(
                "Text and images: find the right one among this many, the others random (default: 100); 0: among all."
            ),
        ),
    ] = None,
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
    by: Annotated[
        str | None,
        typer.Option(
            help=tr(
                "Triples: rank entities by the table of their vectors (table, the default), or by the tokens of their "
                "names (cloze), which any masked language model can."
            )
        ),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help=tr(
                "Triples: more that are true, which no rank counts against; repeatable. Those of the training and of "
                "FILE are known."
            ),
        ),
    ] = None,
    names: NameTables = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=tr(
                "Labelled rows: draw the report as a page (.html), one per task. Pairs: write the translations to "
                "this file (.txt, .tsv, .csv, .jsonl or .parquet)."
            )
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show
    from plmkit.cli.task_reports import task_reports
    from plmkit.inference.evaluation import can_evaluate_text, can_translate

    loaded, columns = opened(model, quiet), columns_of(text, text_a, text_b, label, no_header)
    given = GivenOptions(
        text={"--text": text},
        rows={"--text-a": text_a, "--text-b": text_b, "--label": label, "--task": task},
        plain={"--stride": stride, "--memory": memory, "--clamp": clamp},
        beams={"--beams": beams},
        pairs={
            "--source": source, "--target": target, "--length-penalty": length_penalty, "--metric": metric,
        },
        out={"--out": out},
        captions={"--image": image, "--images": images},
        matching={"--features": features, "--candidates": candidates},
        triples={"--by": by, "--known": known or None, "--names": names or None},
    )  # fmt: skip
    scores: dict[str, Any]
    if not loaded.tasks and (loaded.graph is not None or by is not None or is_asked_of_triples(loaded, file)):
        given.check_for_triples(model)
        from plmkit.cli import show_triples
        from plmkit.inference.ranking import evaluate_triples

        scores = evaluate_triples(
            loaded, file, screen(quiet), by=by, known=known or (), names=names or (), header=not no_header
        )
        if as_json:
            print_json(scores)
        else:
            show_triples.ranks(scores)
        return
    if loaded.architecture.describes_images:
        given.check_for_captioner(model)
        from plmkit.inference.caption_scores import evaluate_captions
        from plmkit.inference.captioning import CAPTION_BEAMS

        scores = evaluate_captions(
            loaded, str(file), CAPTION_BEAMS if beams is None else beams, screen(quiet), column=text,
            header=not no_header, image_column=image, images=None if images is None else str(images),
        )  # fmt: skip
    elif loaded.architecture.reads_images and not loaded.tasks:
        given.check_for_matching(model)
        from plmkit.inference.retrieval import AMONG, evaluate_retrieval

        scores = evaluate_retrieval(
            loaded, str(file), screen(quiet), column=text, header=not no_header, image_column=image,
            images=None if images is None else str(images), features=None if features is None else str(features),
            candidates=AMONG if candidates is None else candidates,
        )  # fmt: skip
    elif can_translate(loaded):
        given.check_for_translator(model)
        from plmkit.generation.options import GenerationOptions
        from plmkit.inference.translating import BEAMS
        from plmkit.inference.translation_scores import evaluate_pairs

        search = GenerationOptions(beams=BEAMS if beams is None else beams, length_penalty=length_penalty)
        scores = evaluate_pairs(
            loaded, str(file), search, screen(quiet), columns=(source, target), header=not no_header, metric=metric,
            out=out,
        )  # fmt: skip
    elif can_evaluate_text(loaded):
        given.check_for_language_model(model)
        scores = text_scores(loaded, file, stride, memory, clamp, columns, screen(quiet))
    else:
        given.check_for_task(model)
        task_reports(loaded, file, columns, task, out, as_json=as_json, reporting=screen(quiet))
        return
    if as_json:
        print_json(scores)
    else:
        show.scores(scores)


def is_asked_of_triples(loaded: "Model", file: Path) -> bool:
    """Whether a masked language model is given a table of triples: it learns which option it needs."""
    from plmkit.data.reading.files import find_files
    from plmkit.data.reading.triples import holds_triples

    tables = [one for one in find_files([file]) if not one.skipped] if file.is_file() else []
    return any(map(holds_triples, tables)) and "masked_lm" in loaded.network.heads


def text_scores(
    loaded: "Model",
    file: Path,
    stride: int | None,
    memory: int | None,
    clamp: int | None,
    columns: "Columns",
    reporting: "Screen",
) -> dict[str, Any]:
    """Scores of plain text, with a warning if models of another tokenizer cannot be compared by them."""
    from plmkit.inference.evaluation import evaluate_text

    scores = vars(
        evaluate_text(loaded, file, stride=stride, memory=memory, clamp=clamp, columns=columns, say=reporting.say)
    )
    if not scores["comparable"]:
        reporting.say(
            tr(
                "! This tokenizer is lossy on this text (case, accents or unknown words).\n"
                "  Compare bits per character or byte only between models with the same tokenizer."
            )
        )
    return scores


Options = Mapping[str, Any]  # by name; None: not given


@dataclass(frozen=True, kw_only=True)
class GivenOptions:
    """The options of `plm evaluate` by what they are for; one that the model would ignore is refused."""

    text: Options
    rows: Options
    plain: Options
    beams: Options
    pairs: Options
    captions: Options
    matching: Options
    triples: Options
    out: Options

    def check_for_triples(self, model: Path) -> None:
        if option := first_given(
            self.text, self.rows, self.plain, self.beams, self.pairs, self.captions, self.out
        ):  # fmt: skip
            raise SettingError(
                tr(
                    "{model} is scored on triples, and {option} would be ignored. Leave it out.",
                    model=model,
                    option=option,
                )
            )

    def check_without_triples(self, model: Path) -> None:
        if option := first_given(self.triples):
            raise SettingError(
                tr(
                    "{option} is for triples, which {model} was not trained on. Leave it out.",
                    option=option,
                    model=model,
                )
            )

    def check_for_captioner(self, model: Path) -> None:
        self.check_without_triples(model)
        if option := first_given(self.rows, self.plain, self.pairs, self.out, self.matching):
            raise SettingError(
                tr(
                    "{model} describes images: it is scored on a table of images and captions, and {option} would be "
                    "ignored. Leave it out.",
                    model=model,
                    option=option,
                )
            )

    def check_for_matching(self, model: Path) -> None:
        self.check_without_triples(model)
        if option := first_given(self.rows, self.plain, self.pairs, self.beams, self.out):
            raise SettingError(
                tr(
                    "{model} reads texts with images: it is scored on a table of images and captions, and {option} "
                    "would be ignored. Leave it out.",
                    model=model,
                    option=option,
                )
            )

    def check_for_translator(self, model: Path) -> None:
        self.check_without_images(model)
        if option := first_given(self.text, self.rows, self.plain):
            raise SettingError(
                tr(
                    "{model} is an encoder–decoder: it is scored on pairs of texts, and {option} would be ignored. "
                    "Leave it out.",
                    model=model,
                    option=option,
                )
            )

    def check_for_language_model(self, model: Path) -> None:
        self.check_single_texts(model)
        if first_given(self.out):
            raise SettingError(
                tr(
                    "--out is for pairs of texts, and for the report of a fine-tuned model; {model} is neither. "
                    "Leave it out; --json gives the scores.",
                    model=model,
                )
            )
        if option := first_given(self.rows):
            raise SettingError(
                tr(
                    "{model} is not fine-tuned: it is scored on plain text, and {option} would be ignored. "
                    "Leave it out, or fine-tune the model first.",
                    model=model,
                    option=option,
                )
            )

    def check_for_task(self, model: Path) -> None:
        self.check_single_texts(model)
        if first_given(self.plain):
            raise SettingError(
                tr(
                    "--stride, --memory and --clamp are for plain text; {model} is not a causal language model.",
                    model=model,
                )
            )

    def check_single_texts(self, model: Path) -> None:
        self.check_without_images(model)
        if option := first_given(self.beams, self.pairs):
            raise SettingError(
                tr("{option} is for pairs of texts; {model} is not an encoder–decoder.", option=option, model=model)
            )

    def check_without_images(self, model: Path) -> None:
        self.check_without_triples(model)
        if option := first_given(self.captions, self.matching):
            raise SettingError(
                tr("{option} is for captions of images; {model} reads text. Leave it out.", option=option, model=model)
            )


def first_given(*groups: Options) -> str | None:
    return next((name for options in groups for name, value in options.items() if value is not None), None)
