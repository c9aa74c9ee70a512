"""TinyBERT (Jiao et al., 2020; huawei-noah/Pretrained-Language-Model): BERT's network, small in every way."""

from dataclasses import replace

from plmkit.recipe import Recipe
from plmkit.recipes.foundations.bert import bert_base


def tinybert_4l() -> Recipe:
    """TinyBERT of 4 layers: as many attention heads as BERT-base, whose attention it is taught (Jiao et al., 2020)."""
    base = bert_base()
    return replace(
        base,
        name="tinybert-4l",
        paper="arXiv:1909.10351",
        summary="A small BERT with the attention heads of the large one: for `plm distill --method tinybert`.",
        architecture=base.architecture.with_settings(layers=4, width=312, inner=1200, activation="gelu"),  # 4.1
    )


def tinybert_6l() -> Recipe:
    return replace(
        tinybert_4l(),
        name="tinybert-6l",
        architecture=tinybert_4l().architecture.with_settings(layers=6, width=768, inner=3072),  # 4.1
    )
