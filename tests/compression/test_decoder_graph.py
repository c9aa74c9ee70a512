"""The graphs of a causal Transformer give the network's states and logits, with a cache and without."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.compression.decoder_graph import LOGITS, STEP, WEIGHTS, write_decoder
from plmkit.compression.generating import GraphDecoder, GraphLogits
from plmkit.data.batch import Batch, Side

SIZES = {"layers": 3, "heads": 2, "width": 32, "inner": 64, "max_length": 64}
KINDS = [Decoder(**SIZES), BandedDecoder(**SIZES, band=4), PostNormDecoder(**SIZES, activation="gelu")]
VOCABULARY = 100


@pytest.fixture(params=KINDS, ids=lambda settings: type(settings).__name__)
def network(request):
    torch.manual_seed(0)
    model = request.param.build(SimpleNamespace(rows=VOCABULARY)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)  # biases too, and nothing left at 1
    return model


def graphs(model, folder, bits):
    write_decoder(folder, model, bits=bits)
    return GraphDecoder(model.settings, folder), GraphLogits(folder)


@torch.inference_mode()
@pytest.mark.parametrize(("bits", "most"), [(32, 1e-5), (8, 0.3)])
def test_states_and_logits_of_padded_rows(network, tmp_path, bits, most):
    graph, logits = graphs(network, tmp_path, bits)
    tokens, visible = torch.randint(VOCABULARY, (3, 20)), torch.ones(3, 20, dtype=torch.bool)
    visible[1, 11:] = False
    batch = Batch(source=Side(tokens=tokens, visible=visible))
    theirs, ours = network(batch), graph(batch)
    assert (theirs.hidden - ours.hidden)[visible].abs().max() < most
    assert (theirs.pooled - ours.pooled).abs().max() < most
    expected = theirs.hidden @ network.embed.tokens.weight.T
    found = logits(ours.hidden)
    assert found.shape == expected.shape and (expected - found)[visible].abs().max() < 8 * most


@torch.inference_mode()
def test_steps_with_a_cache_whose_rows_are_picked_and_cut(network, tmp_path):
    graph, _ = graphs(network, tmp_path, 32)
    caches = [model.begin(CacheSettings(2, 30)) for model in (network, graph)]

    def extended(rows, count):
        tokens = torch.randint(VOCABULARY, (rows, count))
        return [model.extend(tokens, cache) for model, cache in zip((network, graph), caches, strict=True)]

    for count in (5, 1, 3, 1):  # several rows at once after others take another way
        torch.testing.assert_close(*extended(2, count), atol=1e-5, rtol=0)
    for cache in caches:
        cache.pick(torch.tensor([1, 1, 0]))
        cache.cut(7)
    torch.testing.assert_close(*extended(3, 1), atol=1e-5, rtol=0)
    torch.testing.assert_close(*extended(3, 2), atol=1e-5, rtol=0)


def test_weights_are_in_one_file_and_the_embedding_is_in_it_once(network, tmp_path):
    write_decoder(tmp_path, network, bits=8)
    whole = sum(weight.numel() for weight in network.parameters())
    assert {path.name for path in tmp_path.iterdir()} == {STEP, LOGITS, WEIGHTS}
    size = sum(path.stat().st_size for path in tmp_path.iterdir() if path.name == WEIGHTS)
    assert size < 1.5 * whole + 3 * 4096 * network.settings.layers  # a byte per weight; some have four


def test_continuing_a_text_does_not_depend_on_the_other_rows(network, tmp_path):
    graph, _ = graphs(network, tmp_path, 8)
    tokens = torch.randint(VOCABULARY, (4, 9))
    with torch.inference_mode():
        together = graph.extend(tokens, graph.begin(CacheSettings(4, 9)))
        alone = torch.cat([graph.extend(row[None], graph.begin(CacheSettings(1, 9))) for row in tokens])
    np.testing.assert_allclose(together.numpy(), alone.numpy(), atol=1e-5)
