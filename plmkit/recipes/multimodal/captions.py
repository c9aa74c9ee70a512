"""Captions of images with attention to their regions (Xu et al., 2015; kelvinxu/arctic-captions)."""

from dataclasses import replace

from plmkit.architectures.captioner import Captioner
from plmkit.corruption.arrange.captions import ImageCaptions
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.doubly_stochastic_attention import DoublyStochasticAttention
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.counted import Words

NOTES = (
    "The paper's regions come from a VGG network trained on ImageNet, which is not trained further; ours come from "
    "convolutions trained with the decoder. Input and output embeddings are tied."
)
FOR_MINUTES = (
    "size", "image size", "batch", "warm-up", "schedule", "optimizer", "clipping", "dropout", "vocabulary",
    "objectives",
)  # fmt: skip


def caption_base() -> Recipe:
    """Show, attend and tell: predict the words of a caption, attending to regions of the image (Xu et al., 2015)."""
    return Recipe(
        name="caption-base",
        paper="arXiv:1502.03044",
        summary="Describe an image: predict the next word of its caption, attending to regions of the image.",
        notes=NOTES,
        vocabulary=10_000,
        tokenizer=Words(size=10_000, lowercase=True),  # 5.2
        streams=one_stream(ImageCaptions()),
        architecture=Captioner(  # 3.1.1: 14 × 14 regions of 512; released code: words 100, LSTM 1000
            layers=1, width=100, cell=1000, features=512, image_size=224, convolutions=4, dropout=0.5
        ),
        objectives=(CausalLM(), DoublyStochasticAttention()),  # 4.2.1, equation 14
        stages=(Stage(length=64),),
        schedule=Schedule(
            steps=50_000,
            batch=64,  # 4.3
            learning_rate=1e-3,
            warmup=0.0,
            shape="constant",
            clip=0.0,
            optimizer=AdamW(decay=0.0),  # 4.3: Adam for MS COCO
        ),
    )  # fmt: skip


def caption_mini() -> Recipe:
    """The network of Xu et al., 2015, on images of 96 pixels, with settings for runs of minutes."""
    return replace(
        caption_base(),
        name="caption-mini",
        notes=for_minutes(*FOR_MINUTES),
        for_minutes=True,
        tokenizer=Words(size=4_000, lowercase=True),
        objectives=(CausalLM(),),  # with even attention, 500 steps of caption-tiny fail at half of the scenes
        architecture=Captioner(
            layers=1, width=256, cell=256, features=256, image_size=96, convolutions=4, dropout=0.3
        ),
        schedule=Schedule(steps=4_000, batch=32, learning_rate=1e-3, warmup=0.05, shape="cosine", optimizer=AdamW()),
    )  # fmt: skip


def caption_tiny() -> Recipe:
    """A network for small images that takes a minute to train."""
    mini = caption_mini()
    return replace(
        mini,
        name="caption-tiny",
        notes=for_minutes(*FOR_MINUTES, "learning rate"),
        architecture=Captioner(layers=1, width=64, cell=128, features=64, image_size=64, convolutions=3),
        schedule=replace(mini.schedule, steps=1_000, learning_rate=3e-3),
    )
