"""Transformer-XL: what it computes, what it remembers, and what it cannot see."""

import math
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from plmkit.architectures.absolute_recurrence import AbsoluteRecurrence
from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.segment_recurrence import SegmentRecurrence, SegmentRecurrenceModel
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.objectives.causal_lm import AdaptiveLM

TINY = SegmentRecurrence(layers=3, heads=2, width=8, inner=12, memory=64, dropout=0.0)
SHARED = {field.name: getattr(TINY, field.name) for field in fields(AbsoluteRecurrence)}
ABSOLUTE = AbsoluteRecurrence(**SHARED)
LARGE = 0.4  # deviation of weights in tests: those of a fresh network hardly tell positions apart


def model_of(settings: SegmentRecurrence = TINY, vocabulary: int = 11, seed: int = 0) -> SegmentRecurrenceModel:
    torch.manual_seed(seed)
    model = settings.build(unnamed(vocabulary)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=LARGE)
    return model


def batch_of(tokens: Tensor, memory: tuple[Tensor, ...] | None = None) -> Batch:
    return Batch(source=Side(tokens=tokens, visible=tokens >= 0, segments=0 * tokens), memory=memory)


def random_tokens(rows: int, length: int, seed: int = 1, vocabulary: int = 11) -> Tensor:
    return torch.randint(vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))


def by_segments(model: SegmentRecurrenceModel, tokens: Tensor, length: int) -> Tensor:
    """(B, L, width) the text read a segment at a time, each with the memory of those before."""
    memory, parts = None, []
    for segment in tokens.split(length, dim=1):
        states = model(batch_of(segment, memory))
        memory = states.memory
        parts.append(states.hidden)
    return torch.cat(parts, dim=1)


def naive(model: SegmentRecurrenceModel, tokens: Tensor, memory: Tensor | None) -> Tensor:
    """One row by loops over queries, keys and heads, each score the paper's sum of four terms (3.3)."""
    settings, width = model.settings, model.settings.width
    inside = width // settings.heads
    hidden = [model.embed.tokens.weight[token] * math.sqrt(width) for token in tokens.tolist()]
    for number, block in enumerate(model.blocks):
        attention = block.attention
        weight_q, weight_k, weight_v = attention.query_key_value.weight.split(width)
        before = [] if memory is None else list(memory[number])
        context = before + hidden
        made = []
        for i, state in enumerate(hidden):
            place, mixed = len(before) + i, []
            for head in range(settings.heads):
                mine = slice(head * inside, (head + 1) * inside)
                query = (weight_q @ state)[mine]
                scores, values = [], []
                for j in range(place + 1):
                    distance = place - j
                    if settings.same_length and distance >= settings.memory:
                        continue
                    if settings.clamp is not None:
                        distance = min(distance, settings.clamp)
                    angles = [distance / 10_000 ** (2 * k / width) for k in range(width // 2)]
                    wave = torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)
                    key, position = (weight_k @ context[j])[mine], (attention.distance.weight @ wave)[mine]
                    u, v = model.content_bias[head], model.position_bias[head]
                    scores.append((query @ key + query @ position + u @ key + v @ position) / math.sqrt(inside))
                    values.append((weight_v @ context[j])[mine])
                mixed.append(torch.stack(scores).softmax(0) @ torch.stack(values))
            state = block.attention_norm(state + attention.output.weight @ torch.cat(mixed))
            inner = (block.feed_forward.expand.weight @ state + block.feed_forward.expand.bias).relu()
            made.append(
                block.feed_forward_norm(
                    state + block.feed_forward.contract.weight @ inner + block.feed_forward.contract.bias
                )
            )
        hidden = made
    return torch.stack(hidden)


@pytest.mark.parametrize(
    "changes", [{}, {"same_length": True, "memory": 4}, {"clamp": 3}, {"heads": 1}, {"heads": 4, "memory": 2}]
)
def test_it_computes_what_a_loop_over_queries_and_keys_computes(changes):
    model = model_of(replace(TINY, **changes))
    tokens = random_tokens(2, 9)
    first, second = tokens[:, :5], tokens[:, 5:]
    states = model(batch_of(first))
    again = model(batch_of(second, states.memory))
    for row in range(2):
        torch.testing.assert_close(states.hidden[row], naive(model, first[row], None), atol=1e-8, rtol=0)
        loops = naive(model, second[row], states.memory[0][row])
        torch.testing.assert_close(again.hidden[row], loops, atol=1e-8, rtol=0)


def test_its_gradients_are_those_of_the_loop():
    ours, theirs = model_of(replace(TINY, layers=2)), model_of(replace(TINY, layers=2))
    tokens, memory = random_tokens(1, 4), torch.randn(1, 2, 3, 8, dtype=torch.float64)
    ours(batch_of(tokens, (memory,))).hidden.pow(3).sum().backward()
    naive(theirs, tokens[0], memory[0]).pow(3).sum().backward()
    compared = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, compared[name].grad, atol=1e-8, rtol=1e-8, msg=name)


@pytest.mark.parametrize("length", [1, 3, 4, 7, 12])
def test_segment_by_segment_with_enough_memory_is_one_full_pass(length):
    model, tokens = model_of(), random_tokens(3, 24)
    whole = model(batch_of(tokens)).hidden
    torch.testing.assert_close(by_segments(model, tokens, length), whole, atol=1e-8, rtol=0)
    single = model.float()
    whole = single(batch_of(tokens)).hidden
    torch.testing.assert_close(by_segments(single, tokens, length), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("same_length", [False, True])
def test_memory_is_the_last_steps_of_what_each_layer_read(same_length):
    model = model_of(replace(TINY, memory=5, same_length=same_length))
    tokens = random_tokens(2, 12)
    (first,) = model(batch_of(tokens[:, :3])).memory
    assert first.shape == (2, 3, 3, 8)
    (second,) = model(batch_of(tokens[:, 3:6], (first,))).memory
    assert second.shape == (2, 3, 5, 8)
    assert torch.equal(second[:, :, :2], first[:, :, 1:])
    torch.testing.assert_close(second[:, 0, 2:], model.embed(tokens[:, 3:6]))
    assert model(batch_of(tokens[:, :9])).memory[0].shape == (2, 3, 5, 8)
    assert model_of(replace(TINY, memory=0))(batch_of(tokens)).memory is None


def test_a_segment_gives_as_many_states_as_it_has_tokens_and_reads_memory_and_itself():
    model, tokens = model_of(), random_tokens(2, 10)
    seen, attention = [], model.blocks[0].attention
    keys_values = attention.keys_values
    attention.keys_values = lambda context: (seen.append(context.shape[1]), keys_values(context))[1]
    memory = model(batch_of(tokens[:, :6])).memory
    assert model(batch_of(tokens[:, 6:], memory)).hidden.shape == (2, 4, 8)
    assert seen == [6, 10]


def test_no_gradient_flows_into_the_segment_before():
    model, tokens = model_of(), random_tokens(1, 8)
    first = model(batch_of(tokens[:, :4]))
    assert not first.memory[0].requires_grad
    table = model.embed.tokens
    second = model(batch_of(tokens[:, 4:], first.memory))
    (grown,) = torch.autograd.grad(second.hidden.pow(3).sum(), table.weight)
    only_before = sorted({*tokens[0, :4].tolist()} - {*tokens[0, 4:].tolist()})
    assert only_before
    assert not grown[only_before].any()
    assert grown[tokens[0, 4:]].abs().sum() > 0


def test_a_token_changes_no_state_before_it():
    model, tokens = model_of(), random_tokens(2, 10)
    memory = (torch.randn(2, 3, 5, 8, dtype=torch.float64),)
    before = model(batch_of(tokens, memory)).hidden
    for place in range(10):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 11
        after = model(batch_of(changed, memory)).hidden
        assert torch.equal(after[:, :place], before[:, :place])
        assert not torch.allclose(after[:, place], before[:, place])


@pytest.mark.parametrize("segments", [1, 2, 4])
def test_context_grows_with_memory_and_ends_where_it_must(segments):
    """With one layer a query reads `memory` steps back; each layer adds as many (the paper's O(layers · length))."""
    length, layers = 3, 2
    model = model_of(replace(TINY, layers=layers, memory=segments * length, same_length=True))
    tokens = random_tokens(1, 12 * length)
    last = by_segments(model, tokens, length)[0, -1]
    reach = layers * (segments * length - 1)  # steps back: in each layer a token reads `memory` steps with itself
    for back in (reach, reach + 1):
        changed = tokens.clone()
        changed[0, -1 - back] = (changed[0, -1 - back] + 1) % 11
        moved = by_segments(model, changed, length)[0, -1]
        assert torch.equal(moved, last) == (back > reach)


def swapped(memory: Tensor) -> Tensor:
    """Two segments of memory, the later one first."""
    first, second = memory.chunk(2, dim=2)
    return torch.cat([second, first], dim=2)


@pytest.mark.parametrize("kind", [SegmentRecurrence, AbsoluteRecurrence])
def test_only_with_relative_positions_is_memory_read_in_its_order(kind):
    """What the paper argues against (3.3): all segments number their positions from 0, so their order is lost."""
    model, tokens = model_of(kind(**SHARED)), random_tokens(1, 12)
    memory = None
    for segment in tokens[:, :8].split(4, dim=1):
        (memory,) = model(batch_of(segment, None if memory is None else (memory,))).memory
    found, turned = (model(batch_of(tokens[:, 8:], given)).hidden for given in ((memory,), (swapped(memory),)))
    inside = memory[:, :, [1, 0, 2, 3, 4, 5, 6, 7]]  # two steps of one segment: the same, since values say the place
    assert torch.allclose(found, turned, atol=1e-10) == (kind is AbsoluteRecurrence)
    if kind is AbsoluteRecurrence:
        torch.testing.assert_close(model(batch_of(tokens[:, 8:], (inside,))).hidden, found, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", [SegmentRecurrence, AbsoluteRecurrence])
def test_only_with_relative_positions_does_a_text_tell_the_order_of_the_segments_before(kind):
    """One layer remembers the tokens with their places and nothing else."""
    model, tokens = model_of(kind(**{**SHARED, "layers": 1})), random_tokens(1, 12)
    turned = torch.cat([tokens[:, 4:8], tokens[:, :4], tokens[:, 8:]], dim=1)
    mixed = torch.cat([tokens[:, [1, 0, 2, 3]], tokens[:, 4:]], dim=1)  # inside a segment positions differ
    found, other, inside = (by_segments(model, text, 4)[:, 8:] for text in (tokens, turned, mixed))
    assert torch.allclose(found, other, atol=1e-10) == (kind is AbsoluteRecurrence)
    assert not torch.allclose(found, inside, atol=1e-3)


def test_the_place_of_a_text_changes_nothing():
    """Only distances count: the same text after a memory that is too far away gives the same states."""
    model = model_of(replace(TINY, layers=1, memory=3, same_length=True))
    tokens = random_tokens(1, 12)
    own, alone = by_segments(model, tokens, 4)[0, -1], model(batch_of(tokens[:, -3:])).hidden[0, -1]
    torch.testing.assert_close(own, alone, atol=1e-8, rtol=0)


def test_clusters_of_rare_tokens_give_probabilities_that_sum_to_one():
    for shrink in (1, 2):
        model = model_of(replace(TINY, cutoffs=(4, 7), shrink=shrink))
        head = AdaptiveLM().build(model).vocabulary.double()
        for parameter in head.parameters():
            torch.nn.init.normal_(parameter, std=LARGE)
        hidden = torch.randn(5, 8, dtype=torch.float64)
        logs = head(hidden)
        assert logs.shape == (5, 11)
        torch.testing.assert_close(logs.exp().sum(-1), torch.ones(5, dtype=torch.float64))
        targets = torch.tensor([0, 3, 4, 8, 10])
        torch.testing.assert_close(head.loss(hidden, targets), -logs[torch.arange(5), targets].mean())


def by_hand(head, model: SegmentRecurrenceModel, state: Tensor, token: int) -> Tensor:
    """The log-probability of a token of three clusters from 0, 4 and 7 on, each half as wide as the one before."""
    tables, clusters = [table.weight for table in model.embed.tables], head.clusters
    first = [tables[0][n] @ (head.projection.T @ state) + head.bias[n] for n in range(4)]
    first += [clusters[n] @ (head.projection.T @ state) + head.cluster_bias[n] for n in range(2)]
    first = torch.stack(first).log_softmax(0)
    if token < 4:
        return first[token]
    number = 1 if token < 7 else 2
    begin, end = (4, 7) if number == 1 else (7, 11)
    projection = head.projections[number - 1] if len(head.projections) else model.embed.projections[number]
    inside = [tables[number][n - begin] @ (projection.T @ state) + head.bias[n] for n in range(begin, end)]
    return first[3 + number] + torch.stack(inside).log_softmax(0)[token - begin]


@pytest.mark.parametrize("shared", [True, False])
def test_where_the_width_shrinks_the_head_is_projected_by_its_own_matrix_and_the_clusters_by_the_inputs_or_theirs(
    shared,
):
    model = model_of(replace(TINY, cutoffs=(4, 7), shrink=2))
    head = AdaptiveLM(shared_projections=shared).build(model).vocabulary.double()
    assert [tuple(part.shape) for part in head.projections] == ([] if shared else [(8, 4), (8, 2)])
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=LARGE)
    hidden = torch.randn(3, 8, dtype=torch.float64)
    expected = torch.stack([torch.stack([by_hand(head, model, state, n) for n in range(11)]) for state in hidden])
    torch.testing.assert_close(head(hidden), expected)
    torch.testing.assert_close(head.loss(hidden, torch.tensor([1, 5, 9])), -expected[[0, 1, 2], [1, 5, 9]].mean())


def test_without_clusters_the_output_is_a_softmax_by_the_input_table():
    model = model_of()
    head = AdaptiveLM().build(model).vocabulary.double()
    hidden = torch.randn(5, 8, dtype=torch.float64)
    torch.nn.init.normal_(head.bias)
    expected = (hidden @ model.embed.tokens.weight.T + head.bias).log_softmax(-1)
    torch.testing.assert_close(head(hidden), expected)


def test_narrow_tables_are_projected_to_the_width_and_all_are_scaled():
    model = model_of(replace(TINY, cutoffs=(4, 7), shrink=2))
    assert [tuple(table.weight.shape) for table in model.embed.tables] == [(4, 8), (3, 4), (4, 2)]
    found = model.embed(torch.tensor([5]))
    expected = model.embed.projections[1] @ model.embed.tables[1].weight[1] * math.sqrt(8)
    torch.testing.assert_close(found[0], expected)
    gone = model_of(replace(TINY, cutoffs=(4, 70), shrink=2))  # a small vocabulary has fewer clusters
    assert gone.embed.borders == [0, 4, 11]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 9}, "architecture.width=9 must be even and a multiple of architecture.heads=2"),
        ({"memory": -1}, "architecture.memory must be at least 0; found -1"),
        ({"clamp": 0}, "architecture.clamp must be a distance of at least 1, or none; found 0"),
        ({"cutoffs": (5, 3)}, r"architecture.cutoffs must be positive and increasing; found \[5, 3\]"),
        ({"cutoffs": (2, 4), "shrink": 4}, "leaves the last of 3 clusters without width"),
        ({"memory": 0, "same_length": True}, "architecture.memory is 0"),
        ({"dropout": 1.0}, "architecture.dropout must be at least 0 and below 1; found 1.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, said):
    with pytest.raises(SettingError, match=said):
        replace(TINY, **changes)


def attend_with_cache(
    model: SegmentRecurrenceModel, tokens: Tensor, steps: list[int], max_length: int | None = None
) -> Tensor:
    """The text read into a cache, this many tokens at a time."""
    cache = model.begin(CacheSettings(len(tokens), max_length or tokens.shape[1]))
    with torch.inference_mode():
        parts = [model.extend(part, cache) for part in tokens.split(steps, dim=1)]
    assert cache.length == tokens.shape[1]
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("steps", [[1] * 20, [20], [7, 1, 1, 11], [3, 17]])
def test_reading_on_with_a_cache_is_one_full_pass(steps):
    model, tokens = model_of(), random_tokens(2, 20)
    torch.testing.assert_close(
        attend_with_cache(model, tokens, steps), model(batch_of(tokens)).hidden, atol=1e-8, rtol=0
    )


@pytest.mark.parametrize(
    "changes", [{"memory": 4}, {"memory": 1}, {"memory": 0, "max_length": 5}, {"clamp": 2, "memory": 6}]
)
@pytest.mark.parametrize("steps", [[1] * 20, [20], [7, 1, 1, 11]])
def test_beyond_its_reach_it_reads_as_with_memory_of_the_same_length(changes, steps):
    """Whatever is read at once: every token sees as many steps as `same_length` lets it see, token after token."""
    settings = replace(TINY, **changes)
    model, tokens = model_of(settings), random_tokens(2, 20)
    alike = replace(settings, memory=settings.context_length, same_length=True).build(unnamed(11)).double().eval()
    alike.load_state_dict(model.state_dict())
    torch.testing.assert_close(
        attend_with_cache(model, tokens, steps), by_segments(alike, tokens, 1), atol=1e-8, rtol=0
    )


def test_rows_of_a_cache_are_picked_and_repeated():
    model, tokens = model_of(), random_tokens(3, 8)
    cache = model.begin(CacheSettings(1, 8))
    with torch.inference_mode():
        model.extend(tokens[:1, :4], cache)
        cache.pick(torch.tensor([0, 0, 0]))
        mixed = torch.cat([tokens[:1, :4].expand(3, 4), tokens[:, 4:]], dim=1)
        found = model.extend(mixed[:, 4:6], cache)
        torch.testing.assert_close(found, model(batch_of(mixed[:, :6])).hidden[:, 4:], atol=1e-8, rtol=0)
        cache.pick(torch.tensor([2, 0]))
        found = model.extend(mixed[[2, 0], 6:], cache)
    torch.testing.assert_close(found, model(batch_of(mixed[[2, 0]])).hidden[:, 6:], atol=1e-8, rtol=0)


def test_with_a_cache_every_token_goes_through_the_layers_once():
    model, tokens = model_of(replace(TINY, memory=4)), random_tokens(1, 20)
    seen = []
    for block in model.blocks:
        block.feed_forward.register_forward_hook(lambda module, given, made: seen.append(made.shape[1]))
        keys_values = block.attention.keys_values
        block.attention.keys_values = lambda context, of=keys_values: (seen.append(context.shape[1]), of(context))[1]
    attend_with_cache(model, tokens, [5, 5, 5, 5])
    assert sum(seen) == 2 * len(model.blocks) * 20


def test_for_runs_of_minutes_head_h_starts_by_reading_h_steps_back():
    settings = SegmentRecurrence(layers=2, heads=4, width=64, inner=64, memory=32, local_heads=True, dropout=0.0)
    torch.manual_seed(0)
    model = settings.build(unnamed(11)).eval()
    for block in model.blocks:
        scores = model.position_bias[:, None] @ block.attention.distances(model.waves(33))  # (heads, 1, 34)
        by_distance = scores[:, 0, :-1].flip(1)  # from 0 up
        assert by_distance.argmax(1).tolist() == [0, 1, 2, 3]
    plain = replace(settings, local_heads=False).build(unnamed(11))
    assert {name: p.shape for name, p in plain.named_parameters()} == {n: p.shape for n, p in model.named_parameters()}


def test_with_absolute_positions_it_is_plain_attention_over_memory_and_segment():
    model, tokens = model_of(replace(ABSOLUTE, layers=1, heads=1)), random_tokens(1, 7)
    before, own = tokens[0, :4], tokens[0, 4:]
    waves = torch.tensor(
        [[f(place / 10_000 ** (2 * k / 8)) for f in (math.sin, math.cos) for k in range(4)] for place in range(4)],
        dtype=torch.float64,
    )
    table = model.embed.tokens.weight * math.sqrt(8)
    context, segment = torch.cat([table[before] + waves, table[own] + waves[:3]]), table[own] + waves[:3]
    block, attention = model.blocks[0], model.blocks[0].attention
    query, key, value = attention.query_key_value.weight.split(8)
    scores = (segment @ query.T) @ (context @ key.T).T / math.sqrt(8)
    scores = scores.masked_fill(torch.ones(3, 7).triu(5).bool(), -torch.inf)
    state = block.attention_norm(segment + scores.softmax(-1) @ (context @ value.T) @ attention.output.weight.T)
    expected = block.feed_forward_norm(state + block.feed_forward(state))
    memory = model(batch_of(tokens[:, :4])).memory
    torch.testing.assert_close(model(batch_of(tokens[:, 4:], memory)).hidden[0], expected, atol=1e-6, rtol=0)
    assert not {"content_bias", "position_bias"} & model.state_dict().keys()
    assert not any("distance" in name for name in model.state_dict())


@pytest.mark.parametrize("steps", [[1] * 20, [20], [7, 1, 1, 11]])
def test_absolute_positions_start_over_with_every_segment_of_a_text(steps):
    settings = replace(ABSOLUTE, memory=6, max_length=5)
    model, tokens = model_of(settings), random_tokens(2, 20)
    alike = replace(settings, same_length=True).build(unnamed(11)).double().eval()
    alike.load_state_dict(model.state_dict())
    torch.testing.assert_close(
        attend_with_cache(model, tokens, steps), by_segments(alike, tokens, 5), atol=1e-6, rtol=0
    )
