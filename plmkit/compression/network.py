"""A compressed folder as a network: the graph in place of the model, and the heads of its tasks."""

from collections.abc import Sequence
from pathlib import Path

from plmkit.architectures.decoder import DecoderSettings
from plmkit.compression.decoder_graph import STEP
from plmkit.compression.folder import GRAPH, Compressed
from plmkit.compression.generating import GraphDecoder, GraphHead
from plmkit.compression.session import GraphModel
from plmkit.network import Network
from plmkit.objectives.causal_lm import CausalLM
from plmkit.tasks.contract import Task


def graph_network(folder: Path, record: Compressed, tasks: Sequence[Task]) -> Network:
    """The weights of the heads are not loaded yet."""
    if (folder / STEP).is_file():
        assert isinstance(record.architecture, DecoderSettings)
        head = GraphHead(folder)
        return Network(GraphDecoder(record.architecture, folder), {CausalLM.name: head}, {CausalLM.name: 1.0})
    heads = {task.name: task.head(record.architecture) for task in tasks}
    return Network(GraphModel(record.architecture, folder / GRAPH), heads, dict.fromkeys(heads, 1.0))
