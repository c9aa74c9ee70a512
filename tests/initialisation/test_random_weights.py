"""Initial weights by the size of matrices."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from plmkit.architectures.encoder_decoder import EncoderDecoder
from plmkit.architectures.encoder_decoder import EncoderDecoderModel as Model
from plmkit.data.vocabulary import Vocabulary


def spread(weight: torch.Tensor) -> float:
    return float(weight.detach().double().std())


def built(**settings: Any) -> Model:
    torch.manual_seed(0)
    vocabulary = Vocabulary(tokens=tuple(f"w{number}" for number in range(600)), special=frozenset())
    return EncoderDecoder(layers=1, heads=4, width=256, inner=1024, max_length=8, **settings).build(vocabulary)


def test_the_transformer_starts_with_the_average_scaling_of_tensor2tensor():
    model = built()
    block, decoder = model.blocks[0], model.decoder[0]
    square, wide = math.sqrt(2 / (256 + 256)), math.sqrt(2 / (256 + 1024))
    expected = {
        block.attention.query_key_value: square,  # three matrices of 256 × 256, not one of 256 × 768
        decoder.cross_attention.key_value: square,
        decoder.cross_attention.output: square,
        block.feed_forward.expand: wide,
        block.feed_forward.contract: wide,
    }
    for linear, deviation in expected.items():
        assert spread(linear.weight) == pytest.approx(deviation, rel=0.02)
        assert float(linear.weight.detach().abs().max()) <= math.sqrt(3) * deviation + 1e-6  # uniform
    assert spread(model.embed.tokens.weight) == pytest.approx(256**-0.5, rel=0.02)


def test_initialiser_normal_gives_every_matrix_one_deviation():
    model = built(initialiser="normal")
    weights = [part.weight for part in model.modules() if isinstance(part, nn.Linear | nn.Embedding)]
    assert len(weights) == 12  # an embedding, 4 of the encoder, 7 of the decoder
    assert all(spread(weight) == pytest.approx(0.02, rel=0.02) for weight in weights)
