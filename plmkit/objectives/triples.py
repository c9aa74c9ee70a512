"""What is missing of a triple: an entity, by a table of all entities, or the relation; and whether one is true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.errors import SettingError
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.language import tr
from plmkit.layers.vocabulary_head import VocabularyHead
from plmkit.objectives.contract import BuiltModel, Head, Objective
from plmkit.objectives.sentence_pair import SentencePairHead


@dataclass(frozen=True, kw_only=True)
class EntityPrediction(Objective):
    """Predict which of all entities is masked, by one vector per entity (Choi et al., 2021)."""

    entities: int = 1_000  # number of entities; read from the triples
    name: ClassVar = "entity"
    reads: ClassVar = frozenset({"hidden", "entities"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("entity_prediction.entities", self.entities)

    def build(self, model: BuiltModel) -> "EntityHead":
        return EntityHead(model, self.entities)

    def for_graph(self, entities: int, relations: int) -> Self:
        return replace(self, entities=entities)


@dataclass(frozen=True, kw_only=True)
class RelationPrediction(Objective):
    """Predict the relation of two entities (yao8839836/kg-bert)."""

    relations: int = 100  # number of relations; read from the triples
    name: ClassVar = "relation"
    reads: ClassVar = frozenset({"pooled", "relation"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("relation_prediction.relations", self.relations)

    def build(self, model: BuiltModel) -> "RelationHead":
        return RelationHead(model.settings.width, self.relations)

    def for_graph(self, entities: int, relations: int) -> Self:
        return replace(self, relations=relations)


@dataclass(frozen=True, kw_only=True)
class TriplePlausibility(Objective):
    """Is a triple true? 0: yes, 1: one of its entities is a random one (yao8839836/kg-bert)."""

    name: ClassVar = "plausibility"
    label: ClassVar = "plausible"
    reads: ClassVar = frozenset({"pooled", "corrupted_triple"})

    def build(self, model: BuiltModel) -> SentencePairHead:
        return SentencePairHead(model.settings.width, "corrupted_triple")


def check_count(name: str, count: int) -> None:
    if count < 1:
        raise SettingError(tr("objectives.{name} must be at least 1; found {value}.", name=name, value=count))


class EntityHead(Head):
    """As the LM head predicts tokens, with entities in place of tokens.

    It starts from the LM head: what that one makes of a state is then compared with the mean of the token embeddings
    of each name, so that an entity is as likely as its tokens are.
    """

    predicts_entities = True

    def __init__(self, model: BuiltModel, entities: int) -> None:
        super().__init__()
        settings, tokens = model.settings, model.tied_embedding
        self._tokens = (tokens,)  # in a tuple, so that torch does not register it here and it is saved once
        self._lm: tuple[Any, ...] = ()
        self.entities = nn.Embedding(entities, tokens.embedding_dim)
        init_truncated_normal(self)
        self.table = VocabularyHead(
            self.entities, width=settings.width, activation=settings.activation, epsilon=settings.epsilon
        )

    def connect(self, heads: Mapping[str, Head]) -> None:
        outputs = [head.output for name, head in heads.items() if name == "masked_lm"]
        self._lm = tuple(output for output in outputs if isinstance(output, VocabularyHead))

    @torch.no_grad()
    def begin_from_names(self, names: Sequence[Sequence[int]], frequencies: Sequence[int]) -> None:
        tokens = self._tokens[0].weight
        for number, name in enumerate(names):
            self.entities.weight[number] = tokens[torch.as_tensor(np.asarray(name), device=tokens.device)].mean(0)
        for lm in self._lm:
            self.table.transform.load_state_dict(lm.transform.state_dict())
            self.table.norm.load_state_dict(lm.norm.state_dict())
        counts = torch.as_tensor(np.asarray(frequencies), dtype=torch.float32) + 0.5  # no entity is impossible
        self.table.bias.copy_((counts / counts.sum()).log())

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.entities is not None
        asked = batch.entities != IGNORE
        return self.table.loss(states.hidden[asked], batch.entities[asked])

    def needed(self, batch: Batch) -> Tensor:
        assert batch.entities is not None
        return batch.entities != IGNORE

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(N, entities) logits at the N positions where one is asked for."""
        return self.table(states.hidden[self.needed(batch)])

    def scored(self, batch: Batch) -> int:
        return int(self.needed(batch).sum())


class RelationHead(Head):
    def __init__(self, width: int, relations: int) -> None:
        super().__init__()
        self.classify = nn.Linear(width, relations)
        init_truncated_normal(self)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.relation is not None
        return F.cross_entropy(self.answers(states, batch), batch.relation, ignore_index=IGNORE)

    def needed(self, batch: Batch) -> Tensor:
        return torch.zeros_like(batch.source.visible)

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, relations)."""
        assert states.pooled is not None
        return self.classify(states.pooled)

    def scored(self, batch: Batch) -> int:
        assert batch.relation is not None
        return int((batch.relation != IGNORE).sum())
