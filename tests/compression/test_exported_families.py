"""Which architectures torch exports, with the same states; the others are refused with a reason."""

import onnxruntime
import pytest
import torch
from untrained import READING, untrained

from plmkit.compression.comparing import TOLERANCE, gaps_of
from plmkit.compression.export import graph_of
from plmkit.compression.folder import GRAPH
from plmkit.compression.session import GraphModel
from plmkit.errors import PlmError
from plmkit.inference.loading import model_of

REFUSED = {
    "elmo-tiny": "by their characters",
    "lstm-tiny": "for one number of rows",
    "transformer-xl-tiny": "depend on the length of each batch",
    "xlnet-tiny": "depends on the numbers of a batch",
}
# the others are of the same architecture as one of these
TRIED = ["albert-tiny", "electra-tiny", "gpt1-tiny", "gpt2-tiny", "gpt3-tiny", "char-transformer-tiny"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused_with_the_reason(name, tmp_path):
    parts = untrained(name, tmp_path)
    with pytest.raises(PlmError, match=REFUSED[name]):
        graph_of(model_of(parts, "cpu").network.model, len(parts.vocabulary), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_a_graph_gives_the_states_of_the_network(name, tmp_path):
    assert name in READING
    parts = untrained(name, tmp_path)
    before, after = model_of(parts, "cpu"), model_of(parts, "cpu")
    graph = graph_of(before.network.model, len(parts.vocabulary), name)
    (tmp_path / GRAPH).write_bytes(graph.SerializeToString())
    after.network.model = GraphModel(parts.architecture, tmp_path / GRAPH)
    assert max(gap.largest for gap in gaps_of(before, after)) < TOLERANCE
    with torch.no_grad():  # the comparison is one: another network differs
        for weight in before.network.parameters():
            weight.add_(0.01)
    assert max(gap.largest for gap in gaps_of(before, after)) > TOLERANCE
    assert onnxruntime.InferenceSession(tmp_path / GRAPH).get_inputs()[0].name == "tokens"
