"""Verbs that exchange models with other tools: export, import."""

from pathlib import Path
from typing import Annotated

import typer

from plmkit.cli.app import EXCHANGE, app
from plmkit.cli.options import Json, ModelDir, OutDir, Quiet, examples, print_json, screen
from plmkit.language import tr


@app.command(
    help=tr("Write a model as a folder that other tools open, and check that they compute the same."),
    epilog=examples("plm export runs/mine exported/ --format huggingface"),
    rich_help_panel=EXCHANGE,
)
def export(
    model: ModelDir,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=tr("A new folder."))],
    format: Annotated[
        str, typer.Option(help=tr("Format to write: huggingface, allennlp for ELMo, or word2vec for word vectors."))
    ] = "huggingface",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.interop.export import export as write

    result = write(model, folder, format, screen(quiet))
    if as_json:
        print_json(result)


@app.command(
    "import",
    help=tr("Convert a model published in an older format; every command takes the new folder."),
    epilog=examples(
        "plm import old-bert/ --out bert", "plm import finetune-transformer-lm/model --format openai-gpt --out gpt1"
    ),
    rich_help_panel=EXCHANGE,
)
def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help=tr("The folder as it was published, or a text file of word vectors."))
    ],
    out: OutDir,
    format: Annotated[
        str | None,
        typer.Option(
            help=tr(
                "huggingface: config.json and pytorch_model.bin. openai-gpt: params_*.npy, their shapes, encoder and "
                "merges. tensorflow: BERT's variables under TensorFlow's names in a .safetensors or .npz file, "
                "bert_config.json and vocab.txt. word2vec: a text file of word vectors, GloVe's too. Default: "
                "determined by the files in the folder."
            )
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.interop.importing import import_model

    result = import_model(folder, format, out, screen(quiet))
    if as_json:
        print_json(result)
