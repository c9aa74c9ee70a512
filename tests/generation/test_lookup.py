"""What makes greedy text fast leaves it as it is."""

import pytest
import torch
from toy_models import toy

from plmkit.architectures.decoder import Decoder
from plmkit.generation.decoding import PromptLookup
from plmkit.generation.engine import engine_for
from plmkit.generation.language_model import Shortlist
from plmkit.generation.options import GenerationOptions
from plmkit.objectives.causal_lm import CausalLM


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_the_shortlist_names_the_token_that_the_whole_table_names(spread):
    torch.manual_seed(0)
    table = torch.randn(9000, 24) * torch.linspace(0.1, 1 + spread, 9000)[:, None]
    hidden = torch.randn(200, 24)
    banned = torch.tensor([5, 8999])
    scores = hidden @ table.t()
    scores[:, banned] = -torch.inf
    assert torch.equal(Shortlist(table).argmax(hidden, banned), scores.argmax(-1))


def test_tokens_that_are_nearly_as_good_are_distinguished():
    torch.manual_seed(0)
    row = torch.randn(32)
    table = torch.cat([torch.randn(4999, 32) * 0.1, row[None] + 1e-4 * torch.randn(3000, 32)])
    hidden = torch.stack([row, -row, torch.zeros(32)])
    found = Shortlist(table).argmax(hidden[:2], torch.tensor([], dtype=torch.long))
    assert torch.equal(found, (hidden[:2] @ table.t()).argmax(-1))
    assert int(Shortlist(table).argmax(hidden[2:], torch.tensor([0]))) != 0  # all are equal, but one is banned


def test_what_followed_the_same_tokens_before_is_proposed():
    lookup = PromptLookup([1, 2, 3, 4, 5, 9, 2, 3])
    assert lookup.propose(10) == [4, 5]
    lookup.adapt(2, 2)
    assert lookup.propose(10) == [4, 5, 9, 2, 3]
    assert lookup.propose(3) == [4, 5, 9]
    lookup.adapt(5, 4)
    assert lookup.propose(10) == [4, 5]
    lookup.add(7)
    assert lookup.propose(10) == []


def test_text_that_goes_in_a_circle_is_proposed_further_than_it_has_come():
    lookup = PromptLookup([8, 1, 2, 1, 2, 1])
    lookup.adapt(2, 2)
    assert lookup.propose(10) == [2, 1, 2, 1, 2]
    lookup = PromptLookup([8, 3, 3, 3])
    lookup.adapt(2, 2)
    assert lookup.propose(10) == [3, 3, 3, 3, 3]


def decoder_engine(seed: int):
    """A decoder with weights so large that its text varies, and repeats itself in places."""
    tokenizer = toy().tokenizer
    torch.manual_seed(seed)
    model = Decoder(layers=2, heads=2, width=32, inner=64, max_length=300).build(tokenizer.vocabulary).eval()
    for parameter in model.blocks.parameters():
        parameter.data.mul_(6)
    return engine_for(model, CausalLM().build(model).vocabulary, tokenizer, 300, torch.device("cpu"))


@pytest.mark.parametrize("seed", range(4))
def test_drafted_text_is_the_greedy_text_in_fewer_readings(seed, monkeypatch):
    engine, options = decoder_engine(seed), GenerationOptions(tokens=200, temperature=0)
    prompt = "the cat sees a house. the cat sees a house. the cat"
    readings = []
    read = engine.model.extend
    monkeypatch.setattr(engine.model, "extend", lambda tokens, cache: readings.append(tokens) or read(tokens, cache))
    drafted = engine.generate([prompt], options)[0]
    count = len(readings)
    engine.uses_lookup = False
    plain = engine.generate([prompt], options)[0]
    assert drafted == plain
    assert count < len(readings) - count == plain.tokens


def test_a_model_that_cannot_forget_writes_the_same_text():
    engine, options = toy(), GenerationOptions(tokens=40, temperature=0)
    drafted = engine.generate(["the cat the cat the"], options)
    engine.uses_lookup = False
    assert engine.generate(["the cat the cat the"], options) == drafted


def test_a_large_vocabulary_is_searched_by_a_shortlist(monkeypatch):
    monkeypatch.setattr("plmkit.generation.language_model.MIN_VOCABULARY", 100)
    engine, options = decoder_engine(0), GenerationOptions(tokens=60, temperature=0)
    found = engine.generate(["the cat"], options)
    assert engine.model.shortlist is not None
    engine.model.shortlist, engine.uses_lookup = None, False
    monkeypatch.setattr("plmkit.generation.language_model.MIN_VOCABULARY", 10**9)
    assert engine.generate(["the cat"], options) == found
    assert engine.model.shortlist is None
