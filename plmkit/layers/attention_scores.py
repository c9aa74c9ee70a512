"""Attention as recurrent encoder–decoders have it: queries are compared with keys, and weigh values by the result."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from plmkit.errors import SettingError
from plmkit.language import tr


class Score(nn.Module, ABC):
    """How well a query fits a key; queries are states of a decoder, keys those of an encoder.

    Keys are projected once, and then compared with every query.
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.check(query_width, key_width)

    @classmethod
    def check(cls, query_width: int, key_width: int) -> None:
        """Refuse widths that it cannot compare."""

    def project(self, key: Tensor) -> Tensor:
        """(B, m, key width) → (B, m, ...) what queries are compared with."""
        return key

    @abstractmethod
    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        """(B, n, query width) → (B, n, m) scores."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.compare(query, self.project(key))


class Dot(Score):
    """The dot product of query and key, which is not scaled (Luong et al., 2015, 3.1)."""

    @classmethod
    def check(cls, query_width: int, key_width: int) -> None:
        if query_width != key_width:
            raise SettingError(
                tr(
                    "The score '{name}' multiplies states of equal width, but the decoder's have {query} and the "
                    "encoder's {key}. Choose architecture.score=general or concat.",
                    name=next(name for name, kind in SCORES.items() if kind is cls),
                    query=query_width,
                    key=key_width,
                )
            )

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        return query @ projected.mT


class Scaled(Dot):
    """The dot product divided by the root of the width (Vaswani et al., 2017, 3.2.1)."""

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        return super().compare(query / math.sqrt(query.shape[-1]), projected)


class Cosine(Dot):
    """The cosine of the angle between query and key; not the formula of the Transformer, and never above 1."""

    def project(self, key: Tensor) -> Tensor:
        return nn.functional.normalize(key, dim=-1)

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        return super().compare(nn.functional.normalize(query, dim=-1), projected)


class General(Score):
    """query · W key (Luong et al., 2015, 3.1)."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__(query_width, key_width)
        self.key = nn.Linear(key_width, query_width, bias=False)

    def project(self, key: Tensor) -> Tensor:
        return self.key(key)

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        return query @ projected.mT


class Concat(Score):
    """v · tanh(W [query; key]), as a sum of two products (Bahdanau et al., 2015, A.1.2; Luong et al., 2015, 3.1)."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__(query_width, key_width)
        self.query = nn.Linear(query_width, query_width, bias=False)
        self.key = nn.Linear(key_width, query_width, bias=False)
        self.sum = nn.Linear(query_width, 1, bias=False)

    def project(self, key: Tensor) -> Tensor:
        return self.key(key)

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        both = self.query(query)[..., :, None, :] + projected[..., None, :, :]  # (B, n, m, query width)
        return self.sum(both.tanh()).squeeze(-1)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "general": General,
    "concat": Concat,
    "scaled": Scaled,
    "cosine": Cosine,
}


def attend(
    query: Tensor, key: Tensor, value: Tensor, score: Score, visible: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(B, n, value width) the mean of the values as each query weighs their keys, and (B, n, m) the weights.

    `visible`, broadcastable to (B, n, m), is False on padding, which gets no weight.
    """
    return mean_of(value, score(query, key), visible)


def mean_of(value: Tensor, scores: Tensor, visible: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The same from (B, n, m) scores."""
    weights = masked_softmax(scores, visible)
    return weights @ value, weights


def masked_softmax(scores: Tensor, visible: Tensor | None = None) -> Tensor:
    """(B, n, m) weights that add up to 1, and are 0 where not visible: all of them if nothing is.

    A product of scores with zeros and ones is not a mask: a score of 0 still gets the weight of exp(0).
    """
    if visible is None:
        return scores.softmax(-1)
    lowest = torch.finfo(scores.dtype).min  # not -inf, whose softmax over a row of padding is not a number
    return scores.masked_fill(~visible, lowest).softmax(-1).masked_fill(~visible, 0.0)


def concat_contexts(contexts: Tensor) -> Tensor:
    """(B, n, width) contexts of n queries → (B, n * width), one after the other.

    This is not multi-head attention, which projects queries, keys and values for each head and joins, for every query,
    what the heads found.
    """
    return contexts.flatten(-2)
