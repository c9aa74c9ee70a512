"""Two streams: the order is a mask, positions differ, and generating step by step equals reading at once."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plmkit.architectures.contract import CacheSettings
from plmkit.architectures.two_stream import TwoStream, TwoStreamModel
from plmkit.corruption.mask.permutation import PermutedSpans
from plmkit.data.batch import IGNORE, Batch, Side, as_batch
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary, unnamed
from plmkit.errors import SettingError
from plmkit.objectives.permuted_lm import PermutedLM

VOCABULARY, WIDTH = 23, 16
WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{number}" for number in range(VOCABULARY - 5))))
SMALL = TwoStream(layers=3, heads=2, width=WIDTH, inner=24, max_length=16, memory=6, dropout=0.0, attention_dropout=0.0)


def model_of(settings: TwoStream = SMALL, *, double: bool = True):
    """Weights large enough that everything that is read can be seen."""
    torch.manual_seed(1)
    model = settings.build(unnamed(VOCABULARY)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.double() if double else model


def batch_of(tokens: list[int], order: tuple[int, ...] | None = None, asked: set[int] | None = None, **others) -> Batch:
    """One row; `order` names positions from 1, of which those in `asked`, or all, are predicted."""
    given = torch.tensor([tokens])
    batch = Batch(
        source=Side(tokens=given, visible=torch.ones_like(given, dtype=torch.bool), segments=torch.zeros_like(given))
    )
    if order is None:
        return replace(batch, **others)
    rank = torch.empty(len(tokens), dtype=torch.long)
    rank[torch.tensor(order) - 1] = torch.arange(len(tokens))
    chosen = torch.tensor([place + 1 in (asked or set(order)) for place in range(len(tokens))])
    reading = torch.stack([torch.where(chosen, rank, -1), torch.where(chosen, rank, 0)], dim=-1)
    targets = torch.where(chosen, given, IGNORE)
    return replace(batch, attention_order=reading[None], targets=targets, **others)


def changed(tokens: list[int], position: int) -> list[int]:
    return [token + 1 if place == position - 1 else token for place, token in enumerate(tokens)]


TEXT = [4, 9, 2, 7, 11]


def test_an_answer_depends_on_what_comes_before_it_in_the_order_and_on_nothing_else():
    model, order = model_of(), (3, 2, 5, 1, 4)
    plain = model(batch_of(TEXT, order)).hidden[0]
    for number, position in enumerate(order):
        other = model(batch_of(changed(TEXT, position), order)).hidden[0]
        differs = (plain - other).abs().amax(1) > 1e-8
        assert {place + 1 for place in differs.nonzero().flatten().tolist()} == set(order[number + 1 :])


def test_an_answer_has_no_gradient_from_its_own_token_nor_from_later_ones():
    model, order = model_of(), (3, 2, 5, 1, 4)
    for number, position in enumerate(order):
        vectors = model.embed.tokens.weight.detach()[torch.tensor([TEXT])].requires_grad_()
        given = batch_of(TEXT, order)
        hidden = model.predict(vectors, given, given.targets != IGNORE).hidden[0, position - 1]
        if not number:
            assert not hidden.requires_grad or not torch.autograd.grad(hidden.sum(), vectors)[0].any()
            continue
        (gradient,) = torch.autograd.grad(hidden.sin().sum(), vectors)
        reached = gradient[0].abs().amax(1) > 0
        assert {place + 1 for place in reached.nonzero().flatten().tolist()} == set(order[:number])


def test_the_first_of_an_order_reads_nothing_and_is_a_number_all_the_same():
    hidden = model_of(double=False)(batch_of(TEXT, (3, 2, 5, 1, 4))).hidden
    assert torch.isfinite(hidden).all()


def test_an_answer_knows_its_place_where_a_plain_prefix_does_not():
    """After 2 1 3, the positions 4 and 5 differ; from what the last token made of the prefix they are not."""
    model = model_of()
    head = PermutedLM().build(model).double()
    said, naive = [], []
    for order, place in (((2, 1, 3, 4, 5), 4), ((2, 1, 3, 5, 4), 5)):
        given = batch_of(TEXT, order)
        said.append(head.vocabulary(model(given).hidden[0, place - 1]).softmax(-1))
        content = model(replace(given, targets=None)).hidden[0]  # each position reads itself and those before it
        naive.append(head.vocabulary(content[3 - 1]).softmax(-1))
    assert (said[0] - said[1]).abs().max() > 1e-3
    torch.testing.assert_close(naive[0], naive[1], atol=1e-12, rtol=0)
    other = model(replace(batch_of(TEXT, (2, 3, 1, 4, 5)), targets=None)).hidden[0]  # another prefix tells itself
    assert (head.vocabulary(other[3 - 1]).softmax(-1) - naive[0]).abs().max() > 1e-3


def test_content_reads_its_own_token_and_everything_that_is_visible():
    model = model_of()
    plain = model(batch_of(TEXT)).hidden[0]
    for position in range(1, 6):
        other = model(batch_of(changed(TEXT, position))).hidden[0]
        assert ((plain - other).abs().amax(1) > 1e-8).all()


def test_content_alone_is_a_plain_relative_transformer_and_leaves_the_query_unused():
    """Computed once more with loops: every pair of positions by its content, its distance and its segments."""
    model, width, inside = model_of(), WIDTH, WIDTH // 2
    segments = torch.tensor([[0, 0, 1, 1, 2]])
    hidden = model.embed.tokens.weight[torch.tensor(TEXT)]
    powers = 10_000 ** (-torch.arange(0, width, 2).double() / width)
    for block in model.blocks:
        attention = block.attention
        query, key, value = attention.query_key_value(hidden).chunk(3, dim=-1)
        mixed = torch.zeros_like(hidden)
        for head in range(2):
            part = slice(head * inside, (head + 1) * inside)
            scores = torch.zeros(5, 5, dtype=torch.double)
            for i in range(5):
                for j in range(5):
                    wave = torch.cat([((i - j) * powers).sin(), ((i - j) * powers).cos()])
                    far = attention.distance.weight[part] @ wave
                    same = attention.segments[int(segments[0, i] != segments[0, j]), head]
                    scores[i, j] = (
                        (query[i, part] + attention.content_bias[head]) @ key[j, part]
                        + (query[i, part] + attention.distance_bias[head]) @ far
                        + (query[i, part] + attention.segment_bias[head]) @ same
                    ) / inside**0.5
            mixed[:, part] = scores.softmax(-1) @ value[:, part]
        hidden = block.attention_norm(hidden + attention.output(mixed))
        hidden = block.feed_forward_norm(hidden + block.feed_forward(hidden))
    given = batch_of(TEXT)
    found = model(replace(given, source=replace(given.source, segments=segments))).hidden[0]
    torch.testing.assert_close(found, hidden, atol=1e-6, rtol=1e-6)  # our waves are of single precision
    found.sum().backward()
    assert model.query.grad is None


def test_the_loss_reads_the_query_stream_alone():
    """Of the last block only the queries are computed: its content comes out as it went in."""
    model = model_of()
    head = PermutedLM().build(model)
    given = batch_of(TEXT, (3, 2, 5, 1, 4), asked={1, 4})
    seen = []
    model.blocks[-1].register_forward_hook(lambda module, inputs, output: seen.extend((inputs[0], *output)))
    head.double()(model(given), given).backward()
    assert model.query.grad.abs().max() > 0
    before, content, query = seen
    assert content is before
    assert query.shape == (1, 2, WIDTH)  # only predicted positions have a query


def test_segments_count_only_as_same_or_other():
    model = model_of()
    given = batch_of(TEXT)
    given = replace(given, source=replace(given.source, segments=torch.tensor([[0, 0, 1, 1, 1]])))
    swapped = replace(given, source=replace(given.source, segments=1 - given.source.segments))
    one = replace(given, source=replace(given.source, segments=torch.zeros_like(given.source.segments)))
    torch.testing.assert_close(model(given).hidden, model(swapped).hidden, atol=1e-10, rtol=0)
    assert (model(given).hidden - model(one).hidden).abs().max() > 1e-3


def test_memory_is_read_by_all_and_its_order_counts():
    model = model_of()
    memory = torch.randn(1, 3, 6, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    given = batch_of(TEXT, (3, 2, 5, 1, 4))
    alone, recalled = model(given).hidden, model(replace(given, memory=(memory,))).hidden
    turned = model(replace(given, memory=(memory.flip(2),))).hidden
    assert ((alone - recalled).abs().amax(-1) > 1e-3).all()  # the first of the order too
    assert (recalled - turned).abs().max() > 1e-3


def test_memory_lies_in_the_first_segment():
    model = model_of()
    memory = torch.randn(1, 3, 6, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    first = replace(batch_of(TEXT), memory=(memory,))
    second = replace(first, source=replace(first.source, segments=torch.ones_like(first.source.segments)))
    assert (model(first).hidden - model(second).hidden).abs().max() > 1e-3


def test_a_text_read_from_its_end_with_distances_turned_is_the_text():
    model = model_of()
    backward = torch.tensor([True])
    forward, reverse = model(batch_of(TEXT)).hidden, model(batch_of(TEXT[::-1], reversed=backward)).hidden
    torch.testing.assert_close(reverse.flip(1), forward, atol=1e-6, rtol=1e-6)
    assert (model(batch_of(TEXT[::-1])).hidden.flip(1) - forward).abs().max() > 1e-3


def test_padding_before_a_row_changes_nothing():
    model = model_of()
    given = batch_of([0, 0, 0, *TEXT])
    given = replace(given, source=replace(given.source, visible=torch.tensor([[False] * 3 + [True] * 5])))
    torch.testing.assert_close(model(given).hidden[:, 3:], model(batch_of(TEXT)).hidden, atol=1e-6, rtol=1e-6)


def in_every_order(text: list[int]) -> Batch:
    """Row for row, all orders of a text of three tokens and a [SEP], which is not asked for and reads itself."""
    orders = torch.tensor(list(permutations(range(4))))  # (24, 4): when each position comes
    reading = torch.stack([orders, orders + torch.tensor([0, 0, 0, 1])], dim=-1)
    tokens = torch.tensor([text]).expand(24, -1)
    targets = tokens.masked_fill(torch.tensor([False, False, False, True]), IGNORE)
    rows = Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool), segments=torch.zeros_like(tokens))
    )
    return replace(rows, attention_order=reading, targets=targets)


def sampled_orders(text: list[int], rows: int, epoch: int = 0) -> Batch:
    """As many rows of the same text, all asked for, each in the order that the corruption draws for it."""
    tokens = np.array([text] * rows)
    plain = Rows(tokens=tokens, segments=np.zeros_like(tokens), visible=np.ones_like(tokens, dtype=bool))
    made = PermutedSpans(rate=0.75, reuse=0.0)(plain, WORDS, Draws(3, epoch, np.arange(rows)))
    assert ((made.targets == IGNORE) == (tokens == WORDS.sep)).all()
    return as_batch(made)


def test_one_sampled_order_for_each_row_is_the_mean_over_all_orders():
    """All 4! orders of four positions: each comes as often as the others, and losses come to the exact mean."""
    text = [5, 8, 11, WORDS.sep]
    every, sampled = in_every_order(text), sampled_orders(text, rows=2400)
    model = model_of(replace(SMALL, memory=0))
    head = PermutedLM().build(model).double()
    with torch.no_grad():
        exact = [float(head(model(batch), batch)) for batch in (every.part(row, row + 1) for row in range(24))]
        mean = float(head(model(sampled), sampled))
    assert mean == pytest.approx(sum(exact) / 24, rel=0.02)
    assert exact[0] > 1.1 * mean  # from left to right alone it would be another
    orders = sampled.attention_order[:, :, 0] - 1
    counts = (orders[:, None] == every.attention_order[:, :, 0]).all(-1).sum(0)  # (24,)
    assert int(counts.sum()) == 2400
    assert float(((counts - 100.0) ** 2 / 100).sum()) < 49.7  # chi-square of 23 degrees of freedom: p > 0.001


def test_the_order_of_the_text_is_an_autoregressive_model():
    """The loss is the mean of -log p(token | tokens before it), each computed from the text cut there."""
    model = model_of(replace(SMALL, memory=0))
    head = PermutedLM().build(model).double()
    whole = batch_of(TEXT, (1, 2, 3, 4, 5))
    logs = []
    with torch.no_grad():
        for count in range(1, 6):
            part = batch_of(TEXT[:count], tuple(range(1, count + 1)))
            scores = head.vocabulary(model(part).hidden[0, count - 1])
            logs.append(scores.log_softmax(-1)[TEXT[count - 1]])
        assert float(head(model(whole), whole)) == pytest.approx(-float(sum(logs)) / 5, abs=1e-6)


@pytest.mark.parametrize("steps", [(1, 1, 1, 1, 1), (5,), (2, 3), (3, 1, 1)])
def test_reading_in_steps_gives_what_reading_whole_gives(steps):
    model = model_of(replace(SMALL, memory=0))
    texts = [TEXT, [3, 1, 8, 8, 2]]
    cache = model.begin(CacheSettings(2, 9))
    tokens, found = torch.tensor(texts), []
    for part in tokens.split(steps, dim=1):
        found.append(model.extend(part, cache))
    assert cache.length == 5
    for row, text in enumerate(texts):
        whole = model(batch_of([*text, 0], (1, 2, 3, 4, 5, 6))).hidden[0, 1:]
        torch.testing.assert_close(torch.cat(found, 1)[row], whole, atol=1e-6, rtol=1e-6)


def attend_with_cache(model: TwoStreamModel, tokens: torch.Tensor, steps: list[int]) -> torch.Tensor:
    """The text read into a cache, this many tokens at a time."""
    cache = model.begin(CacheSettings(*tokens.shape))
    return torch.cat([model.extend(part, cache) for part in tokens.split(steps, dim=1)], dim=1)


def one_by_one(model: TwoStreamModel, tokens: torch.Tensor, before: int) -> torch.Tensor:
    """Row by row, each token in a row of its own with a query after it, and a memory of this many earlier steps."""
    alike = replace(model.settings, memory=before, reuse=0.5).build(unnamed(VOCABULARY)).double().eval()
    alike.load_state_dict(model.state_dict())
    rows = []
    for row in tokens.tolist():
        memory, found = None, []
        for token in row:
            states = alike(batch_of([token, 0], (1, 2), asked={2}, memory=memory))
            memory = states.memory if before else None
            found.append(states.hidden[0, 1])
        rows.append(torch.stack(found))
    return torch.stack(rows).detach()


@pytest.mark.parametrize("memory, max_length", [(4, 3), (1, 1), (0, 5), (0, 1)])
@pytest.mark.parametrize("steps", [[1] * 20, [20], [7, 1, 1, 11]])
def test_a_text_longer_than_memory_and_length_is_read_on_with_as_much(memory, max_length, steps):
    """Beyond the bound it is what the network makes of every token alone with its memory."""
    model = model_of(replace(SMALL, memory=memory, max_length=max_length))
    tokens = torch.randint(VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(3))
    expected = one_by_one(model, tokens, memory + max_length - 1)
    torch.testing.assert_close(attend_with_cache(model, tokens, steps), expected, atol=1e-6, rtol=1e-6)


def test_within_memory_and_length_a_text_is_read_as_without_a_bound():
    tokens = torch.randint(VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(3))
    bounded, whole = (model_of(replace(SMALL, memory=9, max_length=max_length)) for max_length in (3, 99))
    for steps in ([1] * 20, [20], [7, 1, 1, 11]):
        found, expected = attend_with_cache(bounded, tokens, steps), attend_with_cache(whole, tokens, steps)
        torch.testing.assert_close(found[:, :12], expected[:, :12], atol=1e-10, rtol=0)
        assert ((found - expected)[:, 12:].abs().amax(-1) > 1e-6).all()


def test_what_is_kept_of_a_long_text_does_not_grow_with_it():
    model = model_of(replace(SMALL, memory=4, max_length=3))
    short, long = model.begin(CacheSettings(1, 100)), model.begin(CacheSettings(1, 10_000))
    assert short.keys.shape == long.keys.shape == (3, 1, 2, WIDTH // 2, 14)
    assert short.values.numel() == long.values.numel() == short.keys.numel()


def test_picked_rows_go_on_from_their_own_text():
    model = model_of()
    cache = model.begin(CacheSettings(2, 9))
    model.extend(torch.tensor([TEXT[:3], [3, 1, 8]]), cache)
    cache.pick(torch.tensor([1, 0, 1]))
    after = model.extend(torch.tensor([[8], [7], [2]]), cache)
    alone = model.begin(CacheSettings(1, 9))
    model.extend(torch.tensor([TEXT[:3]]), alone)
    torch.testing.assert_close(after[1], model.extend(torch.tensor([[7]]), alone)[0], atol=1e-8, rtol=0)
    assert not torch.allclose(after[0], after[2])


def test_heads_for_minutes_initially_attend_to_the_token_before_and_the_one_after():
    settings = replace(SMALL, heads=2, width=128, local_heads=True)
    torch.manual_seed(0)
    model = settings.build(unnamed(VOCABULARY)).eval()
    attention = model.blocks[0].attention
    seen = {}
    plain = attention.mix
    attention.mix = lambda query, by_distance, *rest, **named: (
        seen.update(scores=by_distance) or plain(query, by_distance, *rest, **named)
    )
    model(batch_of([5, 6, 7, 8, 9, 10, 11]))
    shares = F.softmax(seen["scores"], dim=-1)[:, 0, 3]  # (heads, keys) of the fourth token
    assert shares.argmax(-1).tolist() == [2, 4]
    assert (shares.amax(-1) > 0.4).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"heads": 3}, "must be even and a multiple of architecture.heads=3"),
        ({"memory": -1}, "architecture.memory must be at least 0"),
        ({"reuse": 0.0}, "architecture.reuse a share of the row"),
        ({"activation": "swish"}, "Unknown architecture.activation 'swish'"),
        ({"dropout": 1.0}, "architecture.dropout must be at least 0 and below 1"),
        ({"layers": 0}, "architecture.layers must be at least 1; found 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(settings, said):
    with pytest.raises(SettingError, match=said):
        replace(SMALL, **settings)
