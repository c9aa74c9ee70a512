"""Verbs that look: recipes, and a corpus or a folder before it is used."""

from typing import Annotated

import typer

from plmkit.cli.app import TRAIN, app
from plmkit.cli.options import (
    CORPUS,
    Features,
    ImageColumn,
    ImageFolder,
    Json,
    NameTables,
    NoHeader,
    Quiet,
    Sets,
    SourceColumn,
    TargetColumn,
    TextColumn,
    TokenizerFile,
    Weights,
    examples,
    print_json,
    recipe_names,
    screen,
    weights_of,
)
from plmkit.errors import SettingError
from plmkit.language import comma, tr


@app.command(
    help=tr("List all recipes, or show one: its five choices, paper, settings and exact parameter count."),
    epilog=examples("plm recipes", "plm recipes bert-mini"),
    rich_help_panel=TRAIN,
)
def recipes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help=tr("Show this recipe with all its settings."), autocompletion=recipe_names),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli.show_recipes import all_recipes, one_recipe

    if name is None:
        all_recipes(as_json)
    else:
        one_recipe(name, as_json)


@app.command(
    help=tr("Check a corpus before training: its contents, its problems, and examples of the model's input."),
    epilog=examples(
        "plm doctor my_texts/ more.jsonl.gz", "plm doctor novel.txt --recipe gpt2-mini", "plm doctor --verify runs/mine"
    ),
    rich_help_panel=TRAIN,
)
def doctor(
    corpus: Annotated[list[str], typer.Argument(metavar="CORPUS", help=tr("{files}.", files=CORPUS))],
    recipe: Annotated[
        str | None,
        typer.Option(
            help=tr("Recipe whose training examples are counted and shown (default: bert-mini)."),
            autocompletion=recipe_names,
        ),
    ] = None,
    tokenizer: TokenizerFile = None,
    weights: Weights = None,
    text: TextColumn = None,
    source: SourceColumn = None,
    target: TargetColumn = None,
    image: ImageColumn = None,
    images: ImageFolder = None,
    features: Features = None,
    names: NameTables = None,
    no_header: NoHeader = False,
    seed: Annotated[int | None, typer.Option(help=tr("Random seed (default: 0)."))] = None,
    sets: Sets = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help=tr(
                "Check instead that every file in these run folders, exported folders or caches is as plmkit wrote it."
            ),
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    if verify:
        options = {
            "--recipe": recipe, "--tokenizer": tokenizer, "--text": text, "--source": source,
            "--target": target, "--image": image, "--images": images, "--features": features,
            "--weights": weights, "--names": names or None,
            "--no-header": no_header or None, "--seed": seed,
            "--set": sets or None,
        }  # fmt: skip
        if given := [name for name, value in options.items() if value is not None]:
            raise SettingError(tr("--verify reads no text: leave out {given}.", given=comma().join(given)))
        verify_folders(corpus, as_json)
        return
    from plmkit.api import with_column, with_features, with_images, with_names, with_weights
    from plmkit.catalogue import find
    from plmkit.cli import show_doctor
    from plmkit.config.machine import check_examined, check_read, refuse_ignored, settle
    from plmkit.config.settings import cut
    from plmkit.config.verbs import EXAMINED, PREPARING
    from plmkit.preparation.doctor import examine
    from plmkit.preparation.triples import fitted_to_triples

    settings = with_column(settle(find(recipe or "bert-mini"), sets or []), text, not no_header, (source, target))
    settings = with_images(settings, (image, *(None if path is None else str(path) for path in (images, features))))
    settings = with_weights(settings, weights_of(weights))
    settings = with_features(settings, sets or [])
    settings = fitted_to_triples(with_names(settings, names or ()), corpus)
    for name, _ in map(cut, sets or []):
        check_read(name, (*EXAMINED, *PREPARING), "plm doctor")
        check_examined(name, settings.recipe)
    instead = {"tokenizer": "--tokenizer"} if tokenizer else {}
    refuse_ignored(sets or [], instead | ({"run.weights": "--weights"} if weights is not None else {}))
    diagnosis = examine(settings, corpus, seed or 0, screen(quiet), tokenizer=tokenizer)
    if as_json:
        print_json(diagnosis.as_json())
    else:
        show_doctor.diagnosis(diagnosis, settings.recipe)
    if diagnosis.bad_files:
        raise typer.Exit(2)


def verify_folders(folders: list[str], as_json: bool) -> None:
    from plmkit.storage.verifying import verify

    verdicts = verify(folders)
    if as_json:
        print_json({"folders": [vars(verdict) for verdict in verdicts]})
    else:
        print("\n".join(verdict.report for verdict in verdicts))
    if any(verdict.damage for verdict in verdicts):
        raise typer.Exit(2)
