"""A generator that fills masked tokens and a discriminator that detects replaced ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.layers.transformer import ACTIVATIONS
from plmkit.layers.vocabulary_head import VocabularyHead
from plmkit.objectives.contract import BuiltModel, Head, Objective


@dataclass(frozen=True, kw_only=True)
class GeneratorLM(Objective):
    """The generator predicts the masked tokens (Clark et al., 2020, 2)."""

    corpus_vocabulary: bool = False  # in training, score only tokens that occur in the corpus: faster
    name: ClassVar = "generator_lm"
    label: ClassVar = "generator"
    reads: ClassVar = frozenset({"guesses", "targets"})

    def build(self, model: BuiltModel) -> "GeneratorLMHead":
        assert model.generator_head is not None  # what writes `guesses` has one
        return GeneratorLMHead(model.generator_head, self.corpus_vocabulary)


class GeneratorLMHead(Head):
    """Without weights of its own: the network computes the logits, since it samples from them."""

    def __init__(self, vocabulary: VocabularyHead, corpus_vocabulary: bool) -> None:
        super().__init__()
        self.corpus_vocabulary = corpus_vocabulary
        self._vocabulary = (vocabulary,)  # in a tuple, so that torch does not register it here and it is saved once

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert states.guesses is not None and batch.targets is not None
        return F.cross_entropy(states.guesses, self._vocabulary[0].softmax_index(batch.targets[batch.predicted]))

    @property
    def output(self) -> VocabularyHead:
        return self._vocabulary[0]

    def scored(self, batch: Batch) -> int:
        return int(batch.predicted.sum())


@dataclass(frozen=True, kw_only=True)
class ReplacedToken(Objective):
    """Was each token replaced? 0: original, 1: replaced (Clark et al., 2020, 2)."""

    weight: float = 50.0
    name: ClassVar = "replaced_token"
    label: ClassVar = "replaced"
    reads: ClassVar = frozenset({"hidden", "replaced"})

    def build(self, model: BuiltModel) -> "ReplacedTokenHead":
        return ReplacedTokenHead(model.settings.width, model.settings.activation)


class ReplacedTokenHead(Head):
    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.verdict = nn.Linear(width, 1)
        init_truncated_normal(self)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) → (...) logits; above 0 means replaced."""
        return self.verdict(self.activation(self.transform(hidden))).squeeze(-1)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert states.replaced is not None
        real = batch.source.visible  # all tokens count, masked or not, [CLS] and [SEP] included
        return F.binary_cross_entropy_with_logits(
            self.logits(states.hidden[real]).float(), states.replaced[real].float()
        )

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L)."""
        return self.logits(states.hidden)

    def scored(self, batch: Batch) -> int:
        return int(batch.source.visible.sum())


@dataclass(frozen=True, kw_only=True)
class AdversarialGenerator(Objective):
    """Replaces GeneratorLM: reward samples that mislead the discriminator (Clark et al., 2020, F)."""

    name: ClassVar = "adversarial_generator"
    label: ClassVar = "reward"
    reads: ClassVar = frozenset({"hidden", "guesses", "sampled", "replaced", "targets"})
    needs_objectives: ClassVar = (ReplacedToken.name,)

    def build(self, model: BuiltModel) -> "AdversarialGeneratorHead":
        assert model.generator_head is not None
        return AdversarialGeneratorHead(model.generator_head, model.settings.temperature)


class AdversarialGeneratorHead(Head):
    """REINFORCE; a sample's baseline is the mean reward of the others, while the paper trains one."""

    def __init__(self, vocabulary: VocabularyHead, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self._vocabulary = (vocabulary,)  # in a tuple, so that torch does not register it here and it is saved once
        self._discriminator: tuple[ReplacedTokenHead, ...] = ()

    def connect(self, heads: Mapping[str, Head]) -> None:
        self._discriminator = (cast(ReplacedTokenHead, heads[ReplacedToken.name]),)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert states.guesses is not None and states.sampled is not None
        advantage = self.rewards(states, batch.predicted)  # (N,)
        if len(advantage) > 1:
            advantage = (advantage - advantage.mean()) * (len(advantage) / (len(advantage) - 1))
        sampled = self._vocabulary[0].softmax_index(states.sampled)
        surprise = F.cross_entropy(states.guesses / self.temperature, sampled, reduction="none")
        return (advantage * surprise).mean()

    @torch.no_grad()
    def rewards(self, states: States, predicted: Tensor) -> Tensor:
        """(N,) the discriminator's loss on each sample."""
        assert states.replaced is not None
        logits = self._discriminator[0].logits(states.hidden[predicted]).float()
        return F.binary_cross_entropy_with_logits(logits, states.replaced[predicted].float(), reduction="none")

    def scored(self, batch: Batch) -> int:
        return int(batch.predicted.sum())
