"""VisualBERT: BERT with further tables for image regions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from plmkit.architectures.co_attention import CoAttention
from plmkit.architectures.contract import Architecture
from plmkit.architectures.visual_encoder import VisualEncoder
from plmkit.data.batch import Batch, Regions
from plmkit.interop.families.encoders import (
    BERT_DEFAULTS,
    PARAMETERS,
    check_only,
    encoder_pairs,
    linear,
    read_shape,
    vocabulary_head,
    write_shape,
)
from plmkit.interop.families.family import Family, Pair
from plmkit.language import tr

CHECKED_REGIONS = 3  # random ones, when a folder is compared


class VisualBert(Family):
    """VisualBERT on features of regions (Li et al., 2019)."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "visual_bert", "VisualBERT", "visualbert-base", "visual_bert"
    DECODER = "cls.predictions.decoder.weight"
    HEADS: ClassVar = {
        "masked_lm": vocabulary_head(
            dense="cls.predictions.transform.dense",
            norm="cls.predictions.transform.LayerNorm",
            bias="cls.predictions.bias",
        ),
        "image_match": linear("classify", "cls.seq_relationship"),
    }
    CLASSES: ClassVar = {
        "VisualBertForPreTraining": {"masked_lm": "prediction_logits", "image_match": "seq_relationship_logits"},
        "VisualBertModel": {},
    }
    REFUSALS: ClassVar = {
        VisualEncoder: lambda: tr("its regions are made of pixels; transformers' VisualBERT reads features of regions"),
        CoAttention: lambda: tr("transformers has no ViLBERT"),
    }

    def writes(self, architecture: Architecture) -> bool:
        return (
            isinstance(architecture, VisualEncoder)
            and architecture.region_width is not None
            and architecture.first == 0
            and not architecture.is_narrow
            and not (architecture.relative_keys or architecture.distance_bias)
            and architecture.pooler_activation == "tanh"
        )

    def architecture(self, config: dict[str, Any], where: Path) -> VisualEncoder:
        check_only(config, {"bypass_transformer": False}, where)
        return VisualEncoder(
            **read_shape(config, where, BERT_DEFAULTS), features=config.get("visual_embedding_dim", 512)
        )

    def config(self, architecture: Any) -> dict[str, Any]:
        return {
            **write_shape(architecture),
            "visual_embedding_dim": architecture.features,
            "bypass_transformer": False,
            "special_visual_initialize": True,
        }

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        yield from encoder_pairs(self.PREFIX, architecture.layers, f"{self.PREFIX}.pooler.dense")
        stem = f"{self.PREFIX}.embeddings"
        for kind in PARAMETERS:
            yield f"model.visual.project.{kind}", (f"{stem}.visual_projection.{kind}",)
        yield "model.visual.segments.weight", (f"{stem}.visual_token_type_embeddings.weight",)
        yield "model.visual.positions.weight", (f"{stem}.visual_position_embeddings.weight",)

    def compared_with(self, batch: Batch, architecture: Any) -> Batch:
        """With random regions of an image, of which the last row has one less."""
        rows = len(batch.source.tokens)
        numbers = torch.Generator().manual_seed(rows)
        visible = torch.ones(rows, CHECKED_REGIONS, dtype=torch.bool)
        visible[-1, -1] = False
        features = torch.randn(rows, CHECKED_REGIONS, architecture.features, generator=numbers)
        boxes = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(rows, CHECKED_REGIONS, 4)
        regions = Regions(features=features, visible=visible, boxes=boxes)
        return Batch(source=batch.source, regions=regions)

    def also_given(self, kind: str, batch: Batch) -> dict[str, Tensor]:
        if batch.regions is None:
            return {}
        visible = batch.regions.visible.long()
        return {
            "visual_embeds": batch.regions.features,
            "visual_attention_mask": visible,
            "visual_token_type_ids": torch.ones_like(visible),
        }
