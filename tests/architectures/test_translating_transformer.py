"""The Transformer encoder–decoder: its sublayers, its caches, what each side may attend to, and a toy translation."""

import random
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.encoder_decoder import (
    EncoderDecoder,
    EncoderDecoderModel,
    TransformerEncoder,
    decoder_block,
    encoder_block,
)
from plmkit.catalogue import find
from plmkit.config.counting import parameters
from plmkit.data.batch import Batch, Side
from plmkit.data.mixture_source import MixtureSource
from plmkit.data.samples import Place
from plmkit.data.vocabulary import unnamed
from plmkit.errors import RecipeError, SettingError
from plmkit.layers.attention import CrossAttention
from plmkit.layers.packing import Packing
from plmkit.layers.recording import recording
from plmkit.network import Network
from plmkit.objectives.translation_lm import TranslationLM
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule
from plmkit.training.loop import Budget, train
from plmkit.training.step import Step

WIDTH, TOKENS = 8, 20
TINY = EncoderDecoder(layers=2, heads=2, width=WIDTH, inner=16, max_length=16, dropout=0.0)


def model_of(settings: TransformerEncoder = TINY) -> EncoderDecoderModel:
    """In float64, and with weights so large that places matter."""
    torch.manual_seed(0)
    model = settings.build(unnamed(TOKENS)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def side(*lengths: int, seed: int = 1) -> Side:
    torch.manual_seed(seed)
    visible = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Side(tokens=torch.randint(1, TOKENS, visible.shape).where(visible, torch.tensor(0)), visible=visible)


def all_visible(rows: int, length: int) -> Packing:
    return Packing(torch.ones(rows, length, dtype=torch.bool))


@pytest.mark.parametrize(("name", "count"), [("transformer-base", 63_045_632), ("transformer-big", 214_171_648)])
def test_the_papers_sizes_have_its_parameters_with_37_000_shared_tokens(name, count):
    recipe = find(name)
    assert (recipe.architecture.layers, recipe.vocabulary, parameters(recipe)) == (6, 37_000, count)


def test_source_target_and_output_have_the_same_embedding():
    model = model_of()
    head = TranslationLM().build(model)
    assert head.vocabulary.table.data_ptr() == model.embed.tokens.weight.data_ptr()
    assert [name for name, weight in model.named_parameters() if len(weight) == TOKENS] == ["embed.tokens.weight"]


def test_an_embedding_is_scaled_by_the_root_of_its_width_before_positions_are_added():
    model = model_of()
    found = model.embed(torch.tensor([3, 3]), torch.tensor([0, 1]))
    scaled = 8**0.5 * model.embed.tokens.weight[3]
    assert torch.allclose(found[0] - scaled, torch.tensor([0.0, 1, 0, 1, 0, 1, 0, 1], dtype=torch.float64))
    assert (found[1] - scaled)[0].item() == pytest.approx(0.841471, abs=1e-6)


@pytest.mark.parametrize("make", [encoder_block, partial(decoder_block, bias=False)], ids=["encoder", "decoder"])
def test_a_sublayer_without_output_returns_the_norm_of_its_input(make):
    """The residual connection: norm(x + 0)."""
    block = make(TINY).double()
    packing, hidden = all_visible(1, 5), torch.randn(5, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        for name, weight in block.named_parameters():
            if ".output." in name or ".contract." in name:
                weight.zero_()
        keys = [block.cross_attention.read(hidden, packing)] if make is not encoder_block else []
        found = block(hidden, packing, *keys)
    sublayers = 3 if make is not encoder_block else 2
    assert len([name for name, _ in block.named_children() if name.endswith("norm")]) == sublayers
    expected = hidden
    for _ in range(sublayers):
        expected = torch.layer_norm(expected, (WIDTH,), eps=1e-6)
    torch.testing.assert_close(found, expected)
    changed = hidden.clone()
    changed[1:] += 1 + torch.randn(4, WIDTH)
    assert torch.equal(block.attention_norm(changed)[0], block.attention_norm(hidden)[0])  # of each token by itself
    torch.testing.assert_close(found.mean(-1), torch.zeros(5, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(found.var(-1, correction=0), torch.ones(5, dtype=torch.float64), atol=1e-5, rtol=0)


def test_the_feed_forward_sublayer_is_computed_position_by_position():
    block, hidden = encoder_block(TINY), torch.randn(5, WIDTH)
    turned = torch.randperm(5)
    torch.testing.assert_close(block.feed_forward(hidden[turned]), block.feed_forward(hidden)[turned])
    alone = torch.cat([block.feed_forward(hidden[place : place + 1]) for place in range(5)])
    torch.testing.assert_close(block.feed_forward(hidden), alone)


def test_without_positions_self_attention_permutes_with_its_input_and_with_them_it_does_not():
    model, turned = model_of(), torch.tensor([2, 0, 3, 1])
    packing, tokens = all_visible(1, 4), torch.tensor([4, 7, 9, 12])

    def encoded(order: Tensor) -> Tensor:
        return model.encode(Side(tokens=tokens[order][None], visible=packing.shown), packing)[-1]

    with torch.no_grad():
        straight = torch.arange(4)
        assert not torch.allclose(encoded(turned), encoded(straight)[turned], atol=0.1)
        model.embed.waves.zero_()
        torch.testing.assert_close(encoded(turned), encoded(straight)[turned], atol=1e-8, rtol=0)


def test_padding_on_either_side_changes_nothing():
    model = model_of()
    source, target = side(6, 3), side(5, 2, seed=2)
    with torch.no_grad():
        both = model(Batch(source=source, target=target)).hidden
        alone = Batch(
            source=source.each(lambda part: part[1:, :3]), target=target.each(lambda part: part[1:, :2])
        )  # fmt: skip
        torch.testing.assert_close(both[1:, :2], model(alone).hidden, atol=1e-8, rtol=0)


def test_a_target_token_changes_no_state_before_it_and_a_source_token_changes_all():
    model = model_of()
    source, target = side(6), side(5, seed=2)
    torch.manual_seed(3)

    def states(source: Side, target: Side) -> Tensor:
        with torch.no_grad():
            return model(Batch(source=source, target=target)).hidden[0]

    plain = states(source, target)
    for place in range(5):
        tokens = target.tokens.clone()
        tokens[0, place] = (tokens[0, place] + 5) % TOKENS
        moved = (states(source, replace(target, tokens=tokens)) - plain).abs().amax(-1) > 1e-7
        assert moved.tolist() == [False] * place + [True] * (5 - place)
    tokens = source.tokens.clone()
    tokens[0, 4] = (tokens[0, 4] + 5) % TOKENS
    assert ((states(replace(source, tokens=tokens), target) - plain).abs().amax(-1) > 1e-7).all()


def test_cross_attention_does_not_depend_on_the_order_of_its_source():
    torch.manual_seed(0)
    attention = CrossAttention(WIDTH, 2, 0.0).double()
    visible = torch.tensor([[True, True, False, True, True]])
    source, query = torch.randn(1, 5, WIDTH, dtype=torch.float64), torch.randn(3, WIDTH, dtype=torch.float64)

    def read(order: Tensor, states: Tensor = source) -> Tensor:
        packing = Packing(visible[:, order])
        with torch.no_grad():
            keys = attention.read(packing.pack(states[:, order]), packing)
            return attention(query, all_visible(1, 3), keys)

    straight = read(torch.arange(5))
    torch.testing.assert_close(read(torch.tensor([3, 1, 0, 4, 2])), straight, atol=1e-8, rtol=0)
    changed = source.clone()
    changed[0, 3] += 1
    assert not torch.allclose(read(torch.arange(5), changed), straight, atol=1e-3)
    changed = source.clone()
    changed[0, 2] += 1  # padding
    torch.testing.assert_close(read(torch.arange(5), changed), straight)


@pytest.mark.parametrize("steps", [[5], [1] * 5, [2, 1, 2]])
def test_a_target_read_in_steps_has_the_states_of_a_target_read_at_once(steps):
    model, source, target = model_of(), side(6, 3), side(5, 5, seed=2)
    with torch.no_grad():
        whole = model(Batch(source=source, target=target)).hidden
        cache = model.begin(CacheSettings(2, 5, source=source))
        parts = [model.extend(part, cache) for part in target.tokens.split(steps, dim=1)]
    assert cache.length == 5
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-8, rtol=0)


@pytest.mark.parametrize(
    ("picks", "shared"),
    [
        ([0, 1, 2, 3], 2),
        ([1, 1, 3, 2], 2),  # beams of the same sentences change places
        ([2, 3], 1),  # the first sentence is finished
        ([2, 3, 0, 0], 2),
        ([0, 2, 3], 3),  # unevenly many
        ([0, 2, 1, 3], 4),  # no longer side by side
    ],
)
def test_beams_share_what_was_computed_of_their_source_and_any_rows_can_be_picked(picks, shared):
    model, source = model_of(), side(6, 3)
    prefix, following = side(4, 4, 4, 4, seed=2).tokens, side(*[3] * len(picks), seed=3).tokens
    owners = torch.tensor([0, 0, 1, 1])[picks]
    with torch.no_grad():
        cache = model.begin(CacheSettings(4, 8, source=source))
        assert len(cache.sources[0].keys) == 2
        model.extend(prefix, cache)
        cache.pick(torch.tensor(picks))
        assert len(cache.sources[0].keys) == shared
        found = model.extend(following, cache)
        whole = torch.cat([prefix[picks], following], dim=1)
        target = Side(tokens=whole, visible=torch.ones_like(whole, dtype=torch.bool))
        expected = model(Batch(source=source.each(lambda part: part[owners]), target=target)).hidden[:, 4:]
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
        cache.cut(4)
        torch.testing.assert_close(model.extend(following, cache), expected, atol=1e-8, rtol=0)


def test_weights_of_cross_attention_are_recorded_by_row_and_change_nothing():
    model, source, target = model_of(), side(6, 3), side(4, 2, seed=2)
    with torch.no_grad():
        plain = model(Batch(source=source, target=target)).hidden
        with recording() as records:
            assert torch.equal(model(Batch(source=source, target=target)).hidden, plain)
        cross = [record.weights for record in records if record.kind == "cross"]
        assert [weights.shape for weights in cross] == [(2, 2, 4, 6)] * 2
        assert all((weights[1, :, :, 3:] == 0).all() for weights in cross)
        torch.testing.assert_close(cross[1].sum(-1), torch.ones(2, 2, 4, dtype=torch.float64))
        with recording() as records:
            model.extend(target.tokens.repeat_interleave(2, 0), model.begin(CacheSettings(4, 4, source=source)))
        again = [record.weights for record in records if record.kind == "cross"]
    torch.testing.assert_close(again[1][::2, :, :2].double(), cross[1][:, :, :2], atol=1e-6, rtol=0)


def test_settings_that_make_no_network_are_refused():
    with pytest.raises(SettingError, match=r"Unknown architecture\.positions 'learned'"):
        replace(TINY, positions="learned")
    with pytest.raises(SettingError, match="must be even and a multiple"):
        replace(TINY, width=9, heads=3)
    bert, pairs = find("bert-tiny"), find("transformer-tiny")
    with pytest.raises(RecipeError, match="SourceTarget does not fit Encoder: an encoder–decoder is trained on pairs"):
        replace(bert, streams=pairs.streams, objectives=pairs.objectives)


def test_an_encoder_alone_has_the_states_of_the_encoder():
    model, alone = model_of(), TINY.for_task(0.0)
    encoder = alone.build(unnamed(TOKENS)).double().eval()
    encoder.load_state_dict(
        {name: weight for name, weight in model.state_dict().items() if TINY.is_tuned(f"model.{name}")}
    )
    source = side(6, 3)
    with torch.no_grad():
        torch.testing.assert_close(encoder(Batch(source=source)).hidden, model(Batch(source=source)).hidden)
    assert type(alone) is TransformerEncoder


START, END = 1, 2


class Toy:
    """Sentences `ADJECTIVES NOUN VERB ADJECTIVES NOUN`, of eight words each; in the target the adjectives come after
    their noun, in reverse order, and the verb at the end: the network must learn both the words and the order.
    """

    def pair(self, rng: random.Random) -> tuple[list[int], list[int]]:
        phrases = [(rng.randrange(8), rng.sample(range(8), rng.randrange(3))) for _ in range(2)]
        verb = rng.randrange(8)
        source = [[*(11 + word for word in adjectives), 3 + noun] for noun, adjectives in phrases]
        target = [[27 + noun, *(35 + word for word in reversed(adjectives))] for noun, adjectives in phrases]
        return [*source[0], 19 + verb, *source[1]], [*target[0], *target[1], 43 + verb]

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        rng = random.Random(place.index)
        return batch_of([self.pair(rng) for _ in range(rows)]), replace(place, index=place.index + rows)


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    source = padded([[*one, END] for one, _ in pairs], 0)
    read, predicted = padded([[START, *two] for _, two in pairs], 0), padded([[*two, END] for _, two in pairs], -100)
    shown = predicted != -100
    return Batch(
        source=Side(tokens=source, visible=source > 0), target=Side(tokens=read, visible=shown), targets=predicted
    )


def padded(rows: list[list[int]], filler: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler)


def greedy(model: EncoderDecoderModel, source: Side, longest: int) -> list[list[int]]:
    """Greedy decoding: the most probable token at every step, up to the end token."""
    rows = len(source.tokens)
    token, found = torch.full((rows, 1), START), []
    with torch.no_grad():
        cache = model.begin(CacheSettings(rows, longest, source=source))
        for _ in range(longest):
            token = (model.extend(token, cache) @ model.token_embedding.weight.T).argmax(-1)
            found.append(token)
    texts = torch.cat(found, dim=1).tolist()
    return [text[: text.index(END)] if END in text else text for text in texts]


@pytest.mark.slow
def test_it_learns_to_translate_a_toy_language_exactly():
    torch.manual_seed(0)
    model = replace(TINY, width=48, inner=96, heads=4).build(unnamed(51))
    network = Network(model, {"translation_lm": TranslationLM().build(model)}, {"translation_lm": 1.0})
    schedule = Schedule(steps=300, batch=32, learning_rate=5e-3, warmup=0.1, shape="linear_to_zero")
    optimizer = AdamW(beta2=0.98).build(network.named_parameters(), schedule.learning_rate)
    train(
        Step(network, optimizer, clip=1.0), MixtureSource.of_one(Toy(), 16), schedule, Budget(steps=300),
        lambda report: True, seed=0,
    )  # fmt: skip
    rng = random.Random("held out")
    pairs = [Toy().pair(rng) for _ in range(200)]
    found = greedy(model.eval(), batch_of(pairs).source, 12)
    exact = sum(text == target for text, (_, target) in zip(found, pairs, strict=True)) / len(pairs)
    assert exact >= 0.9, exact
