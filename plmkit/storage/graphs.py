"""The knowledge graph of a run, in its folder."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from plmkit.data.graph import Graph, Terms
from plmkit.errors import CheckpointError
from plmkit.language import tr
from plmkit.storage.files import new_file, read_json, write_json
from plmkit.storage.tensors import load_tensors, save_tensors

GRAPH, TRIPLES = GRAPH_FILES = ("graph.json", "triples.safetensors")


def save_graph(graph: Graph, folder: Path) -> None:
    terms = {"entities": graph.entities, "relations": graph.relations}
    pairs = {kind: list(map(list, zip(own.ids, own.names, strict=True))) for kind, own in terms.items()}
    write_json(folder / GRAPH, {**pairs, "asks_heads": graph.asks_heads, "in_one_segment": graph.in_one_segment})
    with new_file(folder / TRIPLES) as partial:
        save_tensors(partial, {"triples": torch.from_numpy(graph.triples.astype(np.int32))})


def load_graph(folder: Path) -> Graph | None:
    """The graph that a run was trained on; None if it was trained on none."""
    if not (folder / GRAPH).is_file():
        return None
    data, tensors = read_json(folder / GRAPH), load_tensors(folder / TRIPLES)
    try:
        return Graph(
            entities=terms_of(data["entities"]),
            relations=terms_of(data["relations"]),
            triples=tensors["triples"].numpy().astype(np.int64).reshape(-1, 3),
            asks_heads=bool(data["asks_heads"]),
            in_one_segment=tuple(map(str, data.get("in_one_segment", ()))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            tr("{folder} is damaged ({error}). Copy the folder again.", folder=folder / GRAPH, error=error)
        ) from error


def terms_of(pairs: Any) -> Terms:
    return Terms(ids=tuple(str(own) for own, _ in pairs), names=tuple(str(name) for _, name in pairs))
