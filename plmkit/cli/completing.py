"""The verb that completes triples: complete."""

from typing import Annotated

import typer

from plmkit.cli.app import ASK, app
from plmkit.cli.options import Json, ModelDir, Quiet, examples, opened, print_json, screen
from plmkit.language import tr


@app.command(
    help=tr("Complete a triple of a knowledge graph: the missing head, relation or tail, or whether it is true."),
    epilog=examples(
        'plm complete runs/facts --head "Paris" --relation "capital of"',
        'plm complete runs/facts --relation "capital of" --tail "France" --top 3',
        'plm complete runs/facts --head "Paris" --tail "France"',
        'plm complete runs/facts --head "Paris" --relation "capital of" --tail "Peru" --json',
    ),
    rich_help_panel=ASK,
)
def complete(
    model: ModelDir,
    head: Annotated[str | None, typer.Option(help=tr("The head: an id, a name, or any text."))] = None,
    relation: Annotated[str | None, typer.Option(help=tr("The relation: an id, a name, or any text."))] = None,
    tail: Annotated[str | None, typer.Option(help=tr("The tail: an id, a name, or any text."))] = None,
    top: Annotated[int, typer.Option(min=1, help=tr("Number of answers."))] = 10,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    from plmkit.cli import show_triples
    from plmkit.inference.completing import Plausibility, as_rows, complete_triple, graph_of, unknown_parts

    loaded = opened(model, quiet)
    for remark in unknown_parts(graph_of(loaded), head, relation, tail):
        screen(quiet).say(remark)
    found = complete_triple(loaded, head, relation, tail, top)
    given = {"head": head, "relation": relation, "tail": tail}
    if as_json:
        print_json({**given, **(vars(found) if isinstance(found, Plausibility) else {"answers": as_rows(found)})})
    elif isinstance(found, Plausibility):
        show_triples.plausibility(found)
    else:
        show_triples.completions(found)
