"""VisualBERT (Li et al., 2019; uclanlp/visualbert)."""

from dataclasses import replace

from plmkit.architectures.visual_encoder import VisualEncoder
from plmkit.corruption.arrange.image_text import ImageText
from plmkit.corruption.mask.token import TokenMasking
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.image_match import ImageMatch
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.foundations.bert import bert_base, bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import BertAdam
from plmkit.schedules.schedule import Schedule, Stage

FOR_MINUTES = (
    "size", "batch", "learning rate", "optimizer", "dropout", "activation", "length", "masking",
    "captions per row", "image size", "vocabulary", "initial weights",
)  # fmt: skip


def visualbert_base() -> Recipe:
    """VisualBERT: predict masked words from the text and an image, and whether they belong together."""
    return replace(
        bert_base(),
        name="visualbert-base",
        paper="arXiv:1908.03557",
        summary="One BERT over a caption and the regions of an image: masked words, and whether they belong together.",
        notes="The paper starts from BERT (--from). Its regions come from a detector, as feature files (--features).",
        streams=one_stream(ImageText(captions=2), TokenMasking(rate=0.15)),  # 3.3; regions are never masked
        architecture=VisualEncoder(layers=12, heads=12, width=768, inner=3072, features=2048),  # 3.2
        objectives=(MaskedLM(), ImageMatch()),  # 3.3
        stages=(Stage(length=128),),
        schedule=Schedule(  # released code: 10 epochs of COCO
            steps=118_000, batch=48, learning_rate=5e-5, warmup=0.1, clip=1.0, optimizer=BertAdam()
        ),
    )


def visualbert_mini() -> Recipe:
    """A small network that makes regions of images of 96 pixels, with settings for runs of minutes."""
    mini = bert_mini()
    return replace(
        visualbert_base(),
        name="visualbert-mini",
        notes=for_minutes(*FOR_MINUTES),
        for_minutes=True,
        tokenizer=mini.tokenizer,
        streams=one_stream(ImageText(), TokenMasking(rate=0.3)),
        architecture=VisualEncoder(
            layers=4, heads=4, width=256, inner=1024, activation="gelu", dropout=0.0, attention_dropout=0.0,
            initialiser="unit",
            features=256, image_size=96, patch_size=16,
        ),
        objectives=mini.objectives[:1] + visualbert_base().objectives[1:],
        initialisation=Initialisation(frequency_bias=True),
        stages=(Stage(length=64),),
        schedule=Schedule(
            steps=4_000, batch=32, learning_rate=5e-4, warmup=0.1, optimizer=mini.schedule.optimizer
        ),
    )  # fmt: skip


def visualbert_tiny() -> Recipe:
    """A network for small images that takes a minute to train."""
    mini = visualbert_mini()
    return replace(
        mini,
        name="visualbert-tiny",
        architecture=mini.architecture.with_settings(
            layers=2, heads=2, width=128, inner=512, features=128, image_size=64
        ),
        schedule=replace(mini.schedule, steps=1_000, batch=64, learning_rate=1e-3),
    )
