"""Attention of a decoder to its source: by hand, by loops, and at its limits."""

import math
import time

import pytest
import torch
import torch.nn.functional as F

from plmkit.errors import SettingError
from plmkit.layers.attention_scores import (
    SCORES,
    Concat,
    Cosine,
    Dot,
    General,
    Scaled,
    attend,
    concat_contexts,
    masked_softmax,
    mean_of,
)

QUERIES, KEYS = torch.tensor([[[1.0, 2.0], [0.0, -1.0]]]), torch.tensor([[[3.0, 1.0], [-1.0, 0.5]]])


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def score_of(name: str, width: int = 4) -> torch.nn.Module:
    torch.manual_seed(0)
    return SCORES[name](width, width).double()


def test_dot_is_the_product_of_state_and_key():
    torch.testing.assert_close(Dot(2, 2)(QUERIES, KEYS), torch.tensor([[[5.0, 0.0], [-1.0, -0.5]]]))


def test_general_is_the_product_with_a_matrix_between_which_may_be_the_identity():
    score = General(2, 2)
    with torch.no_grad():
        score.key.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, 3.0]]))
        # W key: (3 + 2, 3) and (-1 + 1, 1.5)
        torch.testing.assert_close(score(QUERIES, KEYS), torch.tensor([[[11.0, 3.0], [-3.0, -1.5]]]))
        score.key.weight.copy_(torch.eye(2))
        torch.testing.assert_close(score(QUERIES, KEYS), Dot(2, 2)(QUERIES, KEYS))


def test_concat_is_the_tanh_of_one_product_with_both_joined():
    score = Concat(2, 2)
    with torch.no_grad():
        score.query.weight.copy_(torch.eye(2))
        score.key.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        score.sum.weight.copy_(torch.tensor([[1.0, -2.0]]))
        by_hand = math.tanh(1 + 1) - 2 * math.tanh(2 + 3)  # the first query and key
        assert score(QUERIES, KEYS)[0, 0, 0].item() == pytest.approx(by_hand, abs=1e-6)
        joined = torch.cat([score.query.weight, score.key.weight], 1)
        for i, query in enumerate(QUERIES[0]):
            for j, key in enumerate(KEYS[0]):
                expected = score.sum.weight[0] @ (joined @ torch.cat([query, key])).tanh()
                torch.testing.assert_close(score(QUERIES, KEYS)[0, i, j], expected)


def test_scaled_is_dot_over_the_root_of_the_width():
    query, key = made(2, 3, 16), made(2, 5, 16, seed=1)
    scaled, dot = Scaled(16, 16)(query, key), Dot(16, 16)(query, key)
    torch.testing.assert_close(dot, scaled * 4)
    context, _ = attend(query, key, key, Scaled(16, 16))
    torch.testing.assert_close(context, F.scaled_dot_product_attention(query, key, key))


def test_cosine_does_not_change_with_the_length_of_query_or_key():
    query, key = made(2, 3, 8), made(2, 5, 8, seed=1)
    found = Cosine(8, 8)(query, key)
    torch.testing.assert_close(found, F.cosine_similarity(query[:, :, None], key[:, None], dim=-1))
    torch.testing.assert_close(Cosine(8, 8)(7 * query, key / 3), found)
    assert not torch.allclose(Scaled(8, 8)(7 * query, key / 3), Scaled(8, 8)(query, key))


@pytest.mark.parametrize("name", ["dot", "scaled", "cosine"])
def test_products_need_equal_widths(name):
    with pytest.raises(SettingError, match=f"'{name}' multiplies states of equal width, .* have 4 and the encoder's 6"):
        SCORES[name](4, 6)
    assert SCORES["general"](4, 6)(torch.ones(1, 2, 4), torch.ones(1, 3, 6)).shape == (1, 2, 3)


@pytest.mark.parametrize("name", SCORES)
def test_every_score_gives_a_weight_to_each_of_m_keys_for_each_of_n_queries(name):
    query, key, value = made(2, 3, 4), made(2, 5, 4, seed=1), made(2, 5, 7, seed=2)
    context, weights = attend(query, key, value, score_of(name))
    assert weights.shape == (2, 3, 5) and context.shape == (2, 3, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("name", SCORES)
def test_many_queries_at_once_are_each_query_alone_in_their_order(name):
    query, key, value, score = made(2, 3, 4), made(2, 5, 4, seed=1), made(2, 5, 7, seed=2), score_of(name)
    context, _ = attend(query, key, value, score)
    for number in range(3):
        for row in range(2):
            weights = torch.stack([score(query[row, number][None, None], key[row, j][None, None])[0, 0, 0]
                                   for j in range(5)]).softmax(0)  # fmt: skip
            alone = sum(weight * one for weight, one in zip(weights, value[row], strict=True))
            torch.testing.assert_close(context[row, number], alone)


@pytest.mark.parametrize("name", SCORES)
def test_padding_has_no_weight_and_a_row_of_padding_alone_has_zeros_and_finite_gradients(name):
    query, key, score = made(3, 2, 4), made(3, 5, 4, seed=1).requires_grad_(), score_of(name)
    visible = torch.arange(5) < torch.tensor([5, 3, 0])[:, None]
    context, weights = attend(query, key, key, score, visible[:, None])
    assert (weights[~visible[:, None].expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights.sum(-1)[:2], torch.ones(2, 2, dtype=torch.float64))
    torch.testing.assert_close(context[1:2], attend(query[1:2], key[1:2, :3], key[1:2, :3], score)[0])
    assert (context[2] == 0).all()
    context.square().sum().backward()
    assert key.grad.isfinite().all() and (key.grad[~visible] == 0).all()


def test_a_weight_of_one_returns_its_value():
    value = made(1, 3, 4)
    scores = torch.tensor([[[0.0, 1e4, 0.0]]], dtype=torch.float64)
    context, weights = mean_of(value, scores)
    assert weights.tolist() == [[[0, 1, 0]]]
    assert torch.equal(context[0, 0], value[0, 1])


def test_weights_depend_on_keys_alone_and_values_are_what_is_averaged():
    query, key, value, score = made(1, 2, 4), made(1, 5, 4, seed=1), made(1, 5, 4, seed=2), score_of("general")
    plain, weights = attend(query, key, key, score)
    torch.testing.assert_close(plain, score(query, key).softmax(-1) @ key)  # keys that are the values: plain attention
    context, same = attend(query, key, value, score)
    assert torch.equal(weights, same)
    assert not torch.allclose(context, plain)
    torch.testing.assert_close(context, weights @ value)
    assert not torch.allclose(attend(query, value, value, score)[1], weights)


def test_contexts_of_several_queries_are_joined_in_their_order():
    contexts = torch.arange(12.0).view(1, 3, 4)
    assert concat_contexts(contexts).tolist() == [list(range(12))]


def test_a_product_with_zeros_is_no_mask():
    """Queries that may see the first key only give the others a weight if their scores become 0 instead of lowest."""
    scores, visible = torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[True, False, False]]])
    leaking = (scores * visible).softmax(-1)
    torch.testing.assert_close(leaking, torch.tensor([[[0.576117, 0.211942, 0.211942]]]), atol=1e-6, rtol=0)
    assert masked_softmax(scores, visible).tolist() == [[[1, 0, 0]]]


def test_the_softmax_of_unscaled_products_narrows_with_the_width_and_that_of_scaled_ones_does_not():
    entropies: dict[str, list[float]] = {"dot": [], "scaled": []}
    for width in (4, 16, 64, 256):
        query, key = made(200, 20, width), made(200, 20, width, seed=1)
        assert Dot(width, width)(query, key).var().item() == pytest.approx(width, rel=0.05)
        for name, found in entropies.items():
            _, weights = attend(query, key, key, SCORES[name](width, width))
            found.append(torch.special.entr(weights).sum(-1).mean().item())
    assert all(wide < 0.75 * narrow for narrow, wide in zip(entropies["dot"], entropies["dot"][1:], strict=False))
    assert max(entropies["scaled"]) - min(entropies["scaled"]) < 0.1


def test_a_dot_product_is_cheaper_than_an_additive_score_of_equal_width():
    query, key = torch.randn(16, 20, 128), torch.randn(16, 20, 128)
    seconds = {}
    for name in ("dot", "concat"):
        score = SCORES[name](128, 128)
        with torch.no_grad():
            times = []
            for _ in range(6):
                start = time.perf_counter()
                score(query, key)
                times.append(time.perf_counter() - start)
        seconds[name] = min(times)
    print(f"dot {seconds['dot'] * 1e6:,.0f} µs, concat {seconds['concat'] * 1e6:,.0f} µs")
    assert seconds["dot"] < seconds["concat"]
