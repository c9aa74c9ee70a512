"""A compressed folder as a network: the graph in place of the model, and the heads of its tasks."""

from collections.abc import Sequence
from pathlib import Path

from plmkit.compression.folder import GRAPH, Compressed
from plmkit.compression.session import GraphModel
from plmkit.network import Network
from plmkit.tasks.contract import Task


def graph_network(folder: Path, record: Compressed, tasks: Sequence[Task]) -> Network:
    """The weights of the heads are not loaded yet."""
    heads = {task.name: task.head(record.architecture) for task in tasks}
    return Network(GraphModel(record.architecture, folder / GRAPH), heads, dict.fromkeys(heads, 1.0))
