"""ViLBERT (Lu et al., 2019; jiasenlu/vilbert_beta)."""

from dataclasses import replace

from plmkit.architectures.co_attention import CoAttention
from plmkit.corruption.arrange.image_text import ImageText
from plmkit.corruption.mask.regions import RegionMasking
from plmkit.corruption.mask.token import TokenMasking
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.image_match import ImageMatch
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.masked_regions import MaskedRegions
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.foundations.bert import bert_base, bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import BertAdam
from plmkit.schedules.schedule import Schedule, Stage

FOR_MINUTES = (
    "size", "batch", "learning rate", "warm-up", "optimizer", "dropout", "activation", "length", "masking",
    "targets of masked regions", "image size", "vocabulary", "initial weights",
)  # fmt: skip


def vilbert_base() -> Recipe:
    """ViLBERT: masked words, masked regions, and whether a caption and an image belong together (Lu et al., 2019)."""
    return replace(
        bert_base(),
        name="vilbert-base",
        paper="arXiv:1908.02265",
        summary="Two streams that attend to each other: masked words and regions, and whether they belong together.",
        notes="The paper starts from BERT (--from). Its regions and their classes come from a detector, as feature "
        "files (--features).",
        streams=one_stream(ImageText(), TokenMasking(rate=0.15), RegionMasking()),  # 3.2
        architecture=CoAttention(  # 3.1: text 12 × 768, regions 6 × 1024; released code: 6 co-attention blocks
            layers=12, heads=12, width=768, inner=3072, features=2048, visual_layers=6, visual_width=1024,
            visual_heads=8, visual_inner=1024, joint_layers=6, joint_width=1024, joint_heads=8,
        ),
        objectives=(MaskedLM(), MaskedRegions(detector_classes=1601), ImageMatch()),  # 3.2; released code: classes
        stages=(Stage(length=36),),
        schedule=Schedule(  # 3.2: 10 epochs of Conceptual Captions
            steps=60_000, batch=512, learning_rate=1e-4, warmup=0.1, clip=1.0, optimizer=BertAdam()
        ),
    )  # fmt: skip


def vilbert_mini() -> Recipe:
    """A small network that makes regions of images of 96 pixels, with settings for runs of minutes."""
    mini = bert_mini()
    return replace(
        vilbert_base(),
        name="vilbert-mini",
        notes=for_minutes(*FOR_MINUTES),
        for_minutes=True,
        tokenizer=mini.tokenizer,
        streams=one_stream(ImageText(), TokenMasking(rate=0.3), RegionMasking()),
        architecture=CoAttention(
            layers=4, heads=4, width=256, inner=1024, activation="gelu", dropout=0.0, attention_dropout=0.0,
            initialiser="unit",
            features=256, image_size=96, patch_size=16, visual_layers=2, visual_width=256, visual_heads=4,
            visual_inner=512, joint_layers=2, joint_width=256, joint_heads=4,
        ),
        objectives=(*mini.objectives[:1], MaskedRegions(), ImageMatch()),
        initialisation=Initialisation(frequency_bias=True),
        stages=(Stage(length=64),),
        schedule=Schedule(
            steps=4_000, batch=32, learning_rate=5e-4, warmup=0.15, optimizer=mini.schedule.optimizer
        ),
    )  # fmt: skip


def vilbert_tiny() -> Recipe:
    """A network for small images that takes a minute to train."""
    mini = vilbert_mini()
    return replace(
        mini,
        name="vilbert-tiny",
        architecture=mini.architecture.with_settings(
            layers=2, heads=2, width=128, inner=512, features=128, image_size=64, visual_width=128, visual_heads=2,
            visual_inner=256, joint_width=128, joint_heads=2,
        ),
        schedule=replace(mini.schedule, steps=1_000, batch=64, learning_rate=1e-3),
    )  # fmt: skip
