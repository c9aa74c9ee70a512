"""Teaching a generator to fool its discriminator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.layers.vocabulary_head import VocabularyHead


@dataclass(frozen=True, kw_only=True)
class AdversarialGenerator:
    """In place of GeneratorLM: samples that the discriminator misjudges get likelier (Clark et al., 2020, F)."""

    weight: float = 1.0
    name: ClassVar = "adversarial_generator"
    reads: ClassVar = frozenset({"hidden", "guesses", "sampled", "replaced", "targets", "verdicts"})

    def build(self, model: Any) -> "AdversarialGeneratorHead":
        return AdversarialGeneratorHead(model.vocabulary, model.settings.temperature)


class AdversarialGeneratorHead(nn.Module):
    """REINFORCE; a sample's baseline is the mean reward of all the others, where the paper learns one."""

    def __init__(self, vocabulary: VocabularyHead, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self._vocabulary = (vocabulary,)  # in a tuple, so that it stays the network's and is saved once
        self._judge: tuple[Any, ...] = ()

    def meet(self, heads: Mapping[str, nn.Module]) -> None:
        """Take the discriminator's verdicts from the head that learns them."""
        judge: Any = heads["replaced_token"]
        self._judge = (getattr(judge, "inner", judge),)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert states.guesses is not None and states.sampled is not None
        advantage = self.rewards(states, batch.predicted)  # (N,)
        if len(advantage) > 1:
            advantage = (advantage - advantage.mean()) * (len(advantage) / (len(advantage) - 1))
        sampled = self._vocabulary[0].placed(states.sampled)
        surprise = F.cross_entropy(states.guesses / self.temperature, sampled, reduction="none")
        return (advantage * surprise).mean()

    @torch.no_grad()
    def rewards(self, states: States, asked: Tensor) -> Tensor:
        """(N,) the discriminator's loss on each sample."""
        assert states.replaced is not None
        verdicts = self._judge[0].verdicts(states.hidden[asked]).float()
        return F.binary_cross_entropy_with_logits(verdicts, states.replaced[asked].float(), reduction="none")

    def scored(self, batch: Batch) -> int:
        return int(batch.predicted.sum())
