"""Verbs that look at words: neighbours, probe."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import LOOK, app
from plmkit.cli.options import Json, ModelDir, Quiet, examples, opened, print_json, screen
from plmkit.errors import SettingError
from plmkit.language import tr


@app.command(
    help=tr("Show the nearest words of a word: by static vectors, or by its vector in a sentence, side by side."),
    epilog=examples(
        "plm neighbours runs/skipgram bank",
        'plm neighbours runs/skipgram runs/elmo runs/mine bank --context "we sat on the bank of the river"',
        "plm neighbours glove.6B.100d.txt bank",
    ),
    rich_help_panel=LOOK,
)
def neighbours(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... WORD",
            help=tr("Run folders, Hugging Face folders or text files of word vectors (word2vec, GloVe); then a word."),
        ),
    ],
    context: Annotated[str | None, typer.Option(help=tr("A sentence with the word. Default: the word alone."))] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help=tr(
                "Text whose words are compared, for contextual models; repeatable. Default: the text that a model was "
                "trained on, or the documentation on this machine."
            ),
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help=tr("Number of neighbours."))] = 10,
    layer: Annotated[
        int | None, typer.Option(min=0, help=tr("Layer of contextual models; 0 is the embeddings (default: the last)."))
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show_words
    from plmkit.data.corpus import open_corpus
    from plmkit.insight.neighbours import (
        Neighbour,
        contextual_neighbours,
        own_corpus,
        sample_of,
        sentence_with,
        static_neighbours,
    )
    from plmkit.insight.word_states import check_layer
    from plmkit.vectors.word_vectors import is_static, load_vectors

    *models, word = arguments
    if not models:
        raise SettingError(tr("Name a model and a word: plm neighbours runs/mine bank"))
    folders = [Path(model) for model in models]
    static = [is_static(folder) for folder in folders]
    if all(static) and (corpus or layer is not None or context is not None):
        raise SettingError(
            tr("--context, --corpus and --layer are for contextual models; static vectors do not need them.")
        )
    sentence_with(word, context)
    sample = [] if all(static) else sample_of(open_corpus(corpus) if corpus else own_corpus(folders))
    found: dict[str, list[Neighbour]] = {}
    for folder, alone in zip(folders, static, strict=True):
        if alone:
            found[str(folder)] = static_neighbours(load_vectors(folder), word, top)
        else:
            model = opened(folder, quiet)
            check_layer(model, layer)
            found[str(folder)] = contextual_neighbours(model, word, context, sample, top, layer, screen(quiet))
    if as_json:
        models_found = [{"model": name, "neighbours": [vars(one) for one in some]} for name, some in found.items()]
        print_json({"word": word, "context": context, "models": models_found})
    else:
        show_words.neighbours(found)


@app.command(
    help=tr("Probe what each layer of a model knows of words: parts of speech, senses, or the tags of a file."),
    epilog=examples(
        "plm probe runs/mine --task pos --train en_ewt-train.conllu --test en_ewt-dev.conllu",
        "plm probe runs/mine --task senses --train semcor.jsonl --test senseval3.jsonl --out probed/",
        "plm probe runs/mine --task tagged.jsonl --layers 0,2,4",
    ),
    rich_help_panel=LOOK,
)
def probe(
    model: ModelDir,
    task: Annotated[
        str,
        typer.Option(
            metavar="pos|senses|FILE",
            help=tr(
                "pos or senses, with the file in --train; or the file itself. Files: .conllu; columns with a word "
                "first and its tag last; JSONL with tokens and tags, or with tokens and senses, a list of objects with "
                "i (the number of the token, from 0), lemma, pos and key."
            ),
        ),
    ],
    train: Annotated[Path | None, typer.Option(help=tr("Words with tags or senses to train on."))] = None,
    test: Annotated[
        Path | None, typer.Option(help=tr("The same to test on. Default: a fifth of the sentences is held out."))
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option(help=tr("Senses: keys, one per line, first senses first, for lemmas that are not in --train.")),
    ] = None,
    layers: Annotated[
        str, typer.Option(help=tr("Layers: all, or numbers such as 0,2,4; 0 is the embeddings."))
    ] = "all",
    words: Annotated[
        int, typer.Option(min=1, help=tr("Use at most about this many words of the training file."))
    ] = 20_000,
    out: Annotated[
        Path | None,
        typer.Option(help=tr("Output folder for probe.json, probe.png and probe.svg. Default: print only.")),
    ] = None,
    seed: Annotated[int, typer.Option(help=tr("Random seed (choice of sentences)."))] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from dataclasses import asdict

    from plmkit.cli import show_words
    from plmkit.insight.probing import limited, split
    from plmkit.insight.probing import probe as measure
    from plmkit.insight.scores_picture import write_scores
    from plmkit.insight.tagged import read_inventory, read_probe_files
    from plmkit.insight.word_states import layers_named

    known, tested = read_probe_files(task, train, test)
    if inventory and not any(one.lemmas for one in known):
        raise SettingError(tr("--inventory is for senses, but the training file has tags. Leave it out."))
    known = limited(known, words, seed)
    if tested is None:
        known, tested = split(known, seed)
    first = read_inventory(inventory) if inventory else None
    loaded = opened(model, quiet)
    found = measure(loaded, known, tested, layers=layers_named(layers, loaded), inventory=first, screen=screen(quiet))
    if out is not None:
        write_scores([found], out)
        screen(quiet).say(tr("Written to {out}.", out=out))
    if as_json:
        print_json(asdict(found))
    else:
        show_words.probed(found)
