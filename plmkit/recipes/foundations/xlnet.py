"""XLNet (Yang et al., 2019; zihangdai/xlnet)."""

from dataclasses import replace

from plmkit.architectures.two_stream import TwoStream
from plmkit.corruption.arrange.reuse import ReusedText
from plmkit.corruption.mask.permutation import PermutedSpans
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.permuted_lm import PermutedLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW, BertAdam
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.tokenizers.unigram import ClosingUnigram

FOR_MINUTES = for_minutes(
    "size",
    "batch",
    "learning rate",
    "warm-up",
    "optimizer",
    "dropout",
    "length",
    "memory",
    "share of predicted tokens",
    "vocabulary",
    "initial weights",
)


def xlnet_large() -> Recipe:
    """XLNet: predict tokens in a random order, each from those before it in that order (Yang et al., 2019)."""
    return Recipe(
        name="xlnet-large",
        paper="arXiv:1906.08237",
        summary="Predict tokens in a random order, with recurrent memory of earlier text.",
        vocabulary=32_000,
        tokenizer=ClosingUnigram(size=32_000),
        streams=one_stream(ReusedText(), PermutedSpans()),  # 2.5, 3.1, A.4
        architecture=TwoStream(layers=24, heads=16, width=1024, inner=4096),  # 3.1, A.4
        objectives=(PermutedLM(),),  # 2.2
        stages=(Stage(length=512),),
        schedule=Schedule(  # A.4
            steps=500_000,
            batch=8192,
            learning_rate=4e-4,
            warmup=0.08,
            shape="linear_after_warmup",
            optimizer=BertAdam(),
        ),
        tuning=Tuning(learning_rate=2e-5, shape="linear_after_warmup"),  # A.5
    )


def xlnet_base() -> Recipe:
    return replace(
        xlnet_large(),
        name="xlnet-base",
        notes="The paper gives no schedule for this size; it is that of xlnet-large.",
        architecture=TwoStream(layers=12, heads=12, width=768, inner=3072),
    )


def xlnet_mini() -> Recipe:
    """At the size of bert-mini, with settings for runs of minutes."""
    return replace(
        xlnet_large(),
        name="xlnet-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=ClosingUnigram(size=8_000),
        streams=one_stream(ReusedText(), PermutedSpans(rate=0.3)),
        architecture=TwoStream(
            layers=4, heads=4, width=256, inner=1024, memory=96, dropout=0.0, attention_dropout=0.0, local_heads=True
        ),
        objectives=(PermutedLM(corpus_vocabulary=True),),
        initialisation=Initialisation(frequency_bias=True),
        stages=(Stage(length=128),),
        schedule=Schedule(
            steps=10_000, batch=8, learning_rate=1e-3, warmup=0.1, shape="linear_after_warmup",
            optimizer=AdamW(),
        ),
    )  # fmt: skip


def xlnet_tiny() -> Recipe:
    mini = xlnet_mini()
    return replace(
        mini, name="xlnet-tiny", architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512)
    )
