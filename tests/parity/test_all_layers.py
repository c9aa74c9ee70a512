"""The states of all layers, where they are requested, equal Hugging Face's `output_hidden_states`."""

from dataclasses import replace

import pytest
import torch
from copies import CLOSE, VOCABULARY, copied, roughen, some_batch
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2Model,
    OpenAIGPTConfig,
    OpenAIGPTModel,
    XLNetConfig,
    XLNetModel,
)

from plmkit.interop.families import albert, bert, gpt2, openai_gpt, xlnet

LAYERS = 3
BERT = {
    "hidden_size": 24, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 40,
    "max_position_embeddings": 20,
}  # fmt: skip
GPT = {"n_embd": 24, "n_layer": LAYERS, "n_head": 4, "n_positions": 20}
XLNET = {"d_model": 24, "n_layer": LAYERS, "n_head": 4, "d_inner": 40, "ff_activation": "gelu", "mem_len": 0}
FAMILIES = {
    "bert": (BertModel, BertConfig(vocab_size=VOCABULARY, initializer_range=0.3, **BERT), bert, "bert."),
    "albert": (
        AlbertModel, AlbertConfig(vocab_size=VOCABULARY, initializer_range=0.3, embedding_size=12, **BERT), albert,
        "albert.",
    ),
    "gpt2": (GPT2Model, GPT2Config(vocab_size=VOCABULARY, initializer_range=0.3, **GPT), gpt2, "transformer."),
    "gpt1": (
        OpenAIGPTModel, OpenAIGPTConfig(vocab_size=VOCABULARY, initializer_range=0.3, **GPT), openai_gpt,
        "transformer.",
    ),
    "xlnet": (XLNetModel, XLNetConfig(vocab_size=VOCABULARY, initializer_range=0.3, **XLNET), xlnet, "transformer."),
}  # fmt: skip


class Prefixed(torch.nn.Module):
    """A bare model under the name that it has below a head."""

    def __init__(self, model: torch.nn.Module, prefix: str) -> None:
        super().__init__()
        self.config = model.config
        self.add_module(prefix.removesuffix("."), model)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_states_of_all_layers_are_theirs(name):
    kind, config, family, prefix = FAMILIES[name]
    torch.manual_seed(3)
    theirs = roughen(kind(config).eval(), ("bias", "norm", "ln_"))
    ours = copied(Prefixed(theirs, prefix), family).eval()
    given = replace(some_batch(), targets=None, all_layers=True)
    seen = given.source.visible
    segments = {} if name.startswith("gpt") else {"token_type_ids": given.source.segments}
    with torch.no_grad():
        their = theirs(input_ids=given.source.tokens, attention_mask=seen.long(), output_hidden_states=True, **segments)
        states = ours.model(given)
    assert len(states.layers) == len(their.hidden_states) == LAYERS + 1
    for layer, wanted in zip(states.layers, their.hidden_states, strict=True):
        torch.testing.assert_close(layer[seen], wanted[seen], **CLOSE)
    torch.testing.assert_close(states.layers[-1], states.hidden)
    assert ours.model(replace(given, all_layers=False)).layers is None
