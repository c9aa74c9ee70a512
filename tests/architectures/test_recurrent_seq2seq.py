"""Recurrent encoder–decoders: torch's cells with copied weights, what depends on what, and what they learn."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.recurrent_seq2seq import (
    BahdanauSeq2Seq,
    InputFeedingSeq2Seq,
    LuongSeq2Seq,
    RecurrentEncoder,
    RecurrentSeq2Seq,
)
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.layers.recording import recording
from plmkit.network import Network
from plmkit.objectives.translation_lm import TranslationLM

TOKENS, LAYERS, WIDTH = 11, 2, 6
SHAPE = {"layers": LAYERS, "width": WIDTH, "dropout": 0.0, "initial_range": 0.7}
WIRINGS = {
    "without attention": RecurrentSeq2Seq(**SHAPE),
    "luong": LuongSeq2Seq(**SHAPE, cell_type="gru"),
    "luong in one direction": LuongSeq2Seq(**SHAPE, bidirectional=False, score="dot"),
    "input feeding": InputFeedingSeq2Seq(**SHAPE, embedding=4, score="concat"),
    "bahdanau": BahdanauSeq2Seq(**SHAPE, cell_type="gru"),
    "bahdanau with lstm": BahdanauSeq2Seq(**SHAPE, embedding=4),
}
ATTENDING = [name for name in WIRINGS if name != "without attention"]


def model_of(settings: RecurrentSeq2Seq):
    torch.manual_seed(0)
    return settings.build(unnamed(TOKENS)).double().eval()


def side_of(lengths: tuple[int, ...], seed: int = 0) -> Side:
    tokens = torch.randint(1, TOKENS, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    visible = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Side(tokens=tokens.where(visible, torch.tensor(0)), visible=visible)


def batch_of(sources: tuple[int, ...] = (5, 3), targets: tuple[int, ...] = (4, 4)) -> Batch:
    return Batch(source=side_of(sources), target=side_of(targets, seed=1))


def torch_cells(cell_type: str) -> tuple[type[nn.Module], type[nn.Module]]:
    return (nn.LSTM, nn.LSTMCell) if cell_type == "lstm" else (nn.GRU, nn.GRUCell)


def reference(model, batch: Batch) -> tuple[Tensor, list[nn.Module]]:
    """The same for one row after the other, with torch's layers and cells: (B, L, width) and modules with gradients."""
    settings, (layer_kind, cell_kind) = model.settings, torch_cells(model.settings.cell_type)
    directions = 2 if settings.bidirectional else 1
    encoder = layer_kind(
        settings.embedding_width, WIDTH // directions, LAYERS, batch_first=True, bidirectional=directions == 2
    ).double()
    cells = [cell_kind(part.input_size, part.hidden_size).double() for part in model.decoder]
    with torch.no_grad():
        for number, layer in enumerate(model.encoder):
            for name, weight in layer.named_parameters():
                encoder.get_parameter(name.replace("_l0", f"_l{number}")).copy_(weight)
        for cell, layer in zip(cells, model.decoder, strict=True):
            for name, weight in layer.named_parameters():
                cell.get_parameter(name.removesuffix("_l0")).copy_(weight)
    rows = []
    for source, visible, target in zip(batch.source.tokens, batch.source.visible, batch.target.tokens, strict=True):
        states, last = encoder(model.embed.tokens(source[visible])[None])
        parts = last if isinstance(last, tuple) else (last,)
        joined = [
            [part[n * directions : (n + 1) * directions].flatten()[None] for part in parts] for n in range(LAYERS)
        ]
        rows.append(decoded(model, cells, states[0], joined, model.embed.tokens(target)))
    return torch.stack(rows), [encoder, *cells]


def decoded(model, cells: list[nn.Module], keys: Tensor, states: list[list[Tensor]], embedded: Tensor) -> Tensor:
    settings, found = model.settings, []
    feeds, looks_back = isinstance(settings, InputFeedingSeq2Seq), isinstance(settings, BahdanauSeq2Seq)
    if looks_back:
        starts = [
            start(state[0][:, -settings.direction_width :]).tanh()
            for start, state in zip(model.start, states, strict=True)
        ]
        states = [[start, torch.zeros_like(start)][: len(state)] for start, state in zip(starts, states, strict=True)]
    fed = torch.zeros(1, settings.embedding_width, dtype=torch.float64)

    def context(state: Tensor) -> Tensor:
        scores = torch.stack([model.score(state[None], key[None, None])[0, 0, 0] for key in keys])
        return (scores.softmax(0)[:, None] * keys).sum(0)[None]

    for token in embedded:
        given = token[None]
        if looks_back:
            seen = context(states[-1][0])
            given = torch.cat([given, seen], -1)
        elif feeds:
            given = torch.cat([given, fed], -1)
        for number, cell in enumerate(cells):
            after = cell(given, states[number][0] if isinstance(cell, nn.GRUCell) else tuple(states[number]))
            states[number] = [after] if isinstance(cell, nn.GRUCell) else list(after)
            given = states[number][0]
        if looks_back:
            first, second = model.output(torch.cat([given, token[None], seen], -1)).unflatten(-1, (-1, 2)).unbind(-1)
            given = torch.maximum(first, second)
        elif hasattr(model, "combine"):
            given = fed = (torch.cat([context(given), given], -1) @ model.combine.weight.T).tanh()
        found.append(given[0])
    return torch.stack(found)


@pytest.mark.parametrize("name", WIRINGS)
def test_it_is_torchs_cells_with_copied_weights_forward_and_backward(name):
    model, batch = model_of(WIRINGS[name]), batch_of()
    found = model(batch).hidden
    found.square().sum().backward()
    own = {weight: parameter.grad.clone() for weight, parameter in model.named_parameters()}
    model.zero_grad()
    expected, (encoder, *cells) = reference(model, batch)
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected)
    for number in range(LAYERS):
        for weight in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            theirs = encoder.get_parameter(weight.replace("_l0", f"_l{number}")).grad
            torch.testing.assert_close(own[f"encoder.{number}.{weight}"], theirs)
            theirs = cells[number].get_parameter(weight.removesuffix("_l0")).grad
            torch.testing.assert_close(own[f"decoder.{number}.{weight}"], theirs)
    for weight, parameter in model.named_parameters():
        if not weight.startswith(("encoder", "decoder")):  # used by both
            torch.testing.assert_close(own[weight], parameter.grad)


@pytest.mark.parametrize("name", WIRINGS)
def test_padding_changes_nothing_and_a_source_of_padding_alone_is_finite(name):
    model, batch = model_of(WIRINGS[name]), batch_of((5, 3), (4, 4))
    alone = Batch(source=batch.source.each(lambda part: part[1:, :3]), target=batch.target.each(lambda part: part[1:]))
    torch.testing.assert_close(model(alone).hidden, model(batch).hidden[1:])
    encoded = replace(batch, target=None, all_layers=True)
    for layer, single in zip(
        model(encoded).layers, model(replace(alone, target=None, all_layers=True)).layers, strict=True
    ):
        torch.testing.assert_close(single, layer[1:, :3])
    empty = replace(batch, source=replace(batch.source, visible=torch.zeros_like(batch.source.visible)))
    hidden = model(empty).hidden
    hidden.square().sum().backward()
    assert hidden.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("name", WIRINGS)
def test_a_target_read_in_steps_by_several_rows_of_a_source_is_the_target_read_at_once(name):
    model, batch = model_of(WIRINGS[name]), batch_of((5, 3), (7, 7))
    with torch.no_grad():
        whole = model(batch).hidden
        cache = model.begin(CacheSettings(4, 7, source=batch.source))  # two rows of each source
        both = batch.target.tokens.repeat_interleave(2, 0)
        model.extend(both[:, :2], cache)
        shared = cache.source
        cache.pick(torch.tensor([1, 1, 3, 2]))  # within their source, as in beam search
        assert all(one is other for one, other in zip(cache.source, shared, strict=True))
        torch.testing.assert_close(model.extend(both[:, 2:3], cache), whole[[0, 0, 1, 1], 2:3])
        cache.pick(torch.tensor([2, 0]))
        found = model.extend(batch.target.tokens[[1, 0], 3:], cache)
    assert cache.length == 7
    torch.testing.assert_close(found, whole[[1, 0], 3:])


@pytest.mark.parametrize("name", WIRINGS)
def test_a_token_changes_no_state_before_it_and_the_source_changes_all(name):
    model, batch = model_of(WIRINGS[name]), batch_of()
    before = model(batch).hidden
    tokens = batch.target.tokens.clone()
    tokens[:, 2] = tokens[:, 2] % (TOKENS - 1) + 1
    after = model(replace(batch, target=replace(batch.target, tokens=tokens))).hidden
    assert torch.equal(after[:, :2], before[:, :2]) and not torch.isclose(after[:, 2:], before[:, 2:]).all(-1).any()
    other = model(replace(batch, source=side_of((5, 3), seed=5))).hidden
    assert not torch.isclose(other, before).all(-1).any()


@pytest.mark.parametrize("name", ATTENDING)
@pytest.mark.parametrize("sizes", [(4,), (1, 3)])
def test_its_weights_are_recorded_as_one_row_per_target_token_and_change_nothing(name, sizes):
    model, batch = model_of(WIRINGS[name]), batch_of()
    plain = model(batch).hidden
    with recording() as kept, torch.no_grad():
        assert torch.equal(model(batch).hidden, plain)
    (layer,) = kept
    assert (layer.kind, layer.weights.shape) == ("cross", (2, 1, 4, 5))
    torch.testing.assert_close(layer.weights.sum(-1), torch.ones(2, 1, 4, dtype=torch.float64))
    assert not layer.weights[1, 0, :, 3:].any() and layer.weights[0].all()
    cache = model.begin(CacheSettings(2, 4, source=batch.source))
    with recording() as steps:
        for part in batch.target.tokens.split(sizes, 1):
            model.extend(part, cache)
    torch.testing.assert_close(torch.cat([step.weights for step in steps], 2), layer.weights)


def test_without_attention_nothing_is_recorded():
    with recording() as kept:
        model_of(WIRINGS["without attention"])(batch_of())
    assert not kept


def first_weights(model, batch: Batch) -> Tensor:
    """(L,) weights of the first step, with gradients."""
    cache = model.begin(CacheSettings(1, 1, source=batch.source))
    seen = []
    attend = model.attend
    model.attend = lambda query, kept: seen.append(attend(query, kept)) or seen[-1]
    model.extend(batch.target.tokens[:, :1], cache)
    return seen[0][1][0, 0]


@pytest.mark.parametrize(("name", "reads"), [("luong", True), ("input feeding", True), ("bahdanau", False)])
def test_bahdanaus_weights_come_from_the_state_before_the_token_and_luongs_from_the_state_after_it(name, reads):
    settings = WIRINGS[name].with_settings(layers=1)
    model, batch = model_of(settings), batch_of((5,), (4,))
    source = batch.source.tokens[0]
    batch.target.tokens[0, 0] = token = next(token for token in range(1, TOKENS) if token not in source)
    first_weights(model, batch)[0].backward()
    assert bool(model.embed.tokens.weight.grad[token].any()) == reads
    assert model.embed.tokens.weight.grad[source].any(-1).all()


def test_a_cell_of_bahdanaus_decoder_reads_the_token_and_the_context():
    settings = replace(WIRINGS["bahdanau"], embedding=4)
    model, batch = model_of(settings), batch_of((5,), (1,))
    assert [layer.input_size for layer in model.decoder] == [4 + WIDTH, WIDTH // 2]

    def state(tokens: Tensor, shift: float) -> Tensor:
        cache = model.begin(CacheSettings(1, 1, source=batch.source))
        keys, values, visible = cache.source
        cache.source = keys, values + shift, visible  # the weights stay as they are, and the context moves
        model.extend(tokens, cache)
        return cache.states[0][0]

    tokens = batch.target.tokens
    plain = state(tokens, 0.0)
    assert not torch.isclose(state(tokens % (TOKENS - 1) + 1, 0.0), plain).any()
    assert not torch.isclose(state(tokens, 1.0), plain).any()


def test_the_attentional_state_is_the_tanh_of_context_and_state_joined_and_its_softmax_predicts():
    settings = LuongSeq2Seq(layers=1, width=2, bidirectional=False, score="dot", dropout=0.0)
    model = model_of(settings)
    with torch.no_grad():
        model.combine.weight.copy_(torch.tensor([[1.0, 0.0, 0.5, 0.0], [0.0, -1.0, 0.0, 2.0]]))
    cache = model.begin(CacheSettings(1, 1, source=side_of((2,))))
    values = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    cache.source = values, values, torch.ones(1, 1, 2, dtype=torch.bool)
    query = torch.tensor([[[0.0, 1.0]]], dtype=torch.float64)
    found, _ = model.attentional(query, cache)
    near = torch.tensor(1.0).exp() / (1 + torch.tensor(1.0).exp())  # softmax of scores 0 and 1
    expected = torch.tensor([1 - near, -near + 2.0], dtype=torch.float64).tanh()
    torch.testing.assert_close(found[0, 0], expected, atol=1e-6, rtol=0)
    head = TranslationLM(smoothing=0.0).build(model)
    logits = torch.stack([row @ expected for row in model.embed.tokens.weight])
    torch.testing.assert_close(head.output(found)[0, 0].softmax(-1), logits.softmax(-1), atol=1e-6, rtol=0)


def test_a_recurrent_state_depends_on_earlier_tokens_only_and_both_directions_on_all():
    one, two = (RecurrentEncoder(**SHAPE, bidirectional=way) for way in (False, True))
    for settings, causal in ((one, True), (two, False)):
        model, batch = model_of(settings), Batch(source=side_of((5,)))
        plain, changed = model(batch).hidden, batch.source.tokens.clone()
        changed[0, 2] = changed[0, 2] % (TOKENS - 1) + 1
        moved = ~torch.isclose(model(Batch(source=replace(batch.source, tokens=changed))).hidden, plain).all(-1)[0]
        assert moved.tolist() == ([False, False, True, True, True] if causal else [True] * 5)


def test_its_parameters_are_those_of_its_cells_embedding_and_attention():
    def count(settings: RecurrentSeq2Seq) -> int:
        return sum(parameter.numel() for parameter in settings.build(unnamed(50)).parameters())

    def cells(gates: int, inputs: int, width: int) -> int:
        return gates * width * (inputs + width + 2)

    plain = 50 * 10 + 2 * 2 * cells(4, 10, 5) + 2 * cells(4, 10, 10)
    shape = {"layers": 2, "width": 10}
    assert count(RecurrentSeq2Seq(**shape)) == plain
    assert count(LuongSeq2Seq(**shape, score="dot")) == plain + 20 * 10
    assert count(LuongSeq2Seq(**shape)) == plain + 20 * 10 + 10 * 10
    fed = cells(4, 20, 10) - cells(4, 10, 10)
    assert count(InputFeedingSeq2Seq(**shape, score="concat")) == plain + 20 * 10 + 2 * 10 * 10 + 10 + fed
    encoder, decoder = 2 * (cells(3, 4, 5) + cells(3, 10, 5)), cells(3, 4 + 10, 5) + cells(3, 5, 5)
    score, start, output = 5 * 5 + 10 * 5 + 5, 2 * (5 * 5 + 5), (5 + 4 + 10 + 1) * 8
    wired = BahdanauSeq2Seq(**shape, embedding=4, cell_type="gru")
    assert count(wired) == 50 * 4 + encoder + decoder + score + start + output


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": 0}, "architecture.layers must be at least 1"),
        ({"width": 7}, "architecture.width=7 must be even"),
        ({"embedding": 8}, "architecture.embedding=8 must be at most architecture.width=6"),
        ({"cell_type": "rnn"}, "Unknown architecture.cell_type 'rnn'; choose from lstm, gru"),
        (
            {"score": "product"},
            "Unknown architecture.score 'product'; choose from dot, general, concat, scaled, cosine",
        ),
        ({"score": "dot"}, "the decoder's have 3 and the encoder's 6"),
        ({"dropout": 1.0}, "architecture.dropout"),
        ({"initial_range": 0.0}, "architecture.initial_range must be above 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, said):
    with pytest.raises(SettingError, match=said):
        replace(WIRINGS["bahdanau"], **changes)


def task(rows: int, lengths: range, backward: bool, seed: int, tokens: int = 12) -> Batch:
    """Sources of random tokens with an end, 1, and as target the same tokens, or those in reverse order."""
    rng = torch.Generator().manual_seed(seed)
    many = torch.randint(lengths.start, lengths.stop, (rows,), generator=rng)
    length = int(many.max())
    drawn = torch.randint(2, tokens, (rows, length), generator=rng)
    places = torch.arange(length + 1)
    visible = places <= many[:, None]
    drawn = torch.cat([drawn, torch.zeros(rows, 1, dtype=torch.long)], 1).where(visible, torch.tensor(0))
    source = drawn.where(places != many[:, None], torch.tensor(1))
    order = (many[:, None] - 1 - places).clamp(min=0) if backward else places.expand_as(source)
    targets = (
        source.gather(1, order).where(places < many[:, None], torch.tensor(1)).where(visible, torch.tensor(IGNORE))
    )
    read = torch.cat([torch.ones(rows, 1, dtype=torch.long), targets[:, :-1]], 1).where(visible, torch.tensor(0))
    return Batch(
        source=Side(tokens=source, visible=visible), target=Side(tokens=read, visible=visible), targets=targets
    )


def trained(settings: RecurrentSeq2Seq, steps: int, lengths: range, backward: bool) -> Network:
    torch.manual_seed(0)
    model = settings.build(unnamed(12))
    network = Network(model, {"translation_lm": TranslationLM(smoothing=0.0).build(model)}, {"translation_lm": 1.0})
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, steps)
    for step in range(steps):
        network(task(64, lengths, backward, seed=step)).weighted["translation_lm"].backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rates.step()
    return network.eval()


def accuracy(network: Network, batch: Batch) -> float:
    with torch.no_grad():
        found = network.heads["translation_lm"].output(network.model(batch).hidden).argmax(-1)
    return (found == batch.targets)[batch.predicted].float().mean().item()


def test_a_state_of_fixed_size_learns_to_copy_eight_tokens():
    settings = RecurrentSeq2Seq(layers=1, width=96, dropout=0.0)
    network = trained(settings, 300, range(1, 9), backward=False)
    assert accuracy(network, task(200, range(1, 9), False, seed=10**6)) >= 0.95


@pytest.mark.parametrize(("kind", "steps"), [(LuongSeq2Seq, 200), (InputFeedingSeq2Seq, 200), (BahdanauSeq2Seq, 300)])
def test_attention_that_learned_to_reverse_looks_at_the_token_to_write(kind, steps):
    settings = kind(layers=1, width=64, embedding=32, cell_type="gru", dropout=0.0, initial_range=0.2)
    network = trained(settings, steps, range(4, 9), backward=True)
    batch = task(100, range(4, 9), True, seed=10**6)
    with recording() as kept:
        assert accuracy(network, batch) >= 0.95
    many = batch.source.visible.sum(1, keepdim=True) - 1
    places = torch.arange(batch.target.tokens.shape[1])
    looked = kept[0].weights[:, 0].argmax(-1)
    assert (looked == many - 1 - places)[places < many].float().mean() >= 0.9  # without the end
