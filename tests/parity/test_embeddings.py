"""Our input embeddings equal Hugging Face's to the last bit: they are summed in the same order."""

import pytest
import torch
import transformers
from copies import VOCABULARY, roughen, some_batch
from torch import Tensor

from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.interop.families import albert, bert, electra, ernie, gpt2, openai_gpt, roberta
from plmkit.interop.naming import from_huggingface

PAD = 1
ENCODERS = {
    "Bert": (bert, {}),
    "Roberta": (roberta, {"type_vocab_size": 1, "max_position_embeddings": 22}),
    "Ernie": (ernie, {"hidden_act": "relu"}),
    "Electra": (electra, {"embedding_size": 16}),
    "Albert": (albert, {"embedding_size": 12, "hidden_act": "gelu_new"}),
}
WRITERS = {"GPT2": gpt2, "OpenAIGPT": openai_gpt}


def theirs_of(name: str, **settings):
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **settings)
    return roughen(getattr(transformers, f"{name}Model")(config).eval(), names=("",), by=0.3)


def read_by_ours(theirs, family, given: Batch) -> Tensor:
    """(T, width): the input of our first block, with the embeddings of theirs."""
    settings = family.architecture(theirs.config.to_dict(), where=None)
    model = settings.build(unnamed(VOCABULARY)).eval()
    named = {f"{theirs.base_model_prefix}.{name}": weight for name, weight in theirs.state_dict().items()}
    weights = from_huggingface(named, family, settings)
    inside = "model.embed."
    model.embed.load_state_dict({name.removeprefix(inside): w for name, w in weights.items() if inside in name})
    made = []
    model.embed.register_forward_hook(lambda part, read, vectors: made.append(vectors))
    model(given)
    return made[0]


def given_as(name: str) -> Batch:
    """RoBERTa's positions depend on the padding id, and it has one segment."""
    drawn = some_batch(pad=PAD)
    segments = torch.zeros_like(drawn.source.segments) if name == "Roberta" else drawn.source.segments
    return Batch(source=Side(tokens=drawn.source.tokens, visible=drawn.source.visible, segments=segments))


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_the_input_of_an_encoder_is_the_same(name):
    family, settings = ENCODERS[name]
    shape = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 40}
    theirs = theirs_of(name, **{"max_position_embeddings": 20, "pad_token_id": PAD, **shape, **settings})
    given = given_as(name)
    wanted = theirs.embeddings(input_ids=given.source.tokens, token_type_ids=given.source.segments)[
        given.source.visible
    ]
    assert wanted.std() > 0.3
    assert torch.equal(read_by_ours(theirs, family, given), wanted)


@pytest.mark.parametrize("name", WRITERS)
@torch.no_grad()
def test_the_input_of_a_decoder_is_the_same(name):
    theirs = theirs_of(name, n_positions=20, n_embd=24, n_layer=1, n_head=4)
    given = given_as(name)
    wanted = theirs(input_ids=given.source.tokens, output_hidden_states=True).hidden_states[0][given.source.visible]
    assert torch.equal(read_by_ours(theirs, WRITERS[name], given), wanted)
