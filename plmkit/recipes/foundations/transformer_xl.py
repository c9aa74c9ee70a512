"""Transformer-XL (Dai et al., 2019; kimiyoung/transformer-xl)."""

from dataclasses import replace

from plmkit.architectures.segment_recurrence import SegmentRecurrence
from plmkit.corruption.arrange.stream import ParallelStreams
from plmkit.objectives.causal_lm import AdaptiveLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.byte_bpe import StreamByteBPE
from plmkit.tokenizers.counted import Characters, Words

NOTES = "Tokens are all 256 bytes and an end-of-text token; the paper uses the 204 bytes that occur in enwik8."
FOR_MINUTES = for_minutes(
    "size",
    "batch",
    "learning rate",
    "warm-up",
    "optimizer",
    "clipping",
    "dropout",
    "length",
    "memory",
    "vocabulary",
    "initial weights",
)
ADAM = AdamW(decay=0.0)


def transformer_xl_enwik8() -> Recipe:
    """Transformer-XL: a decoder with recurrent memory of earlier segments (Dai et al., 2019)."""
    return Recipe(
        name="transformer-xl-enwik8",
        paper="arXiv:1901.02860",
        summary="Predict the next token, attending to a recurrent memory of earlier segments.",
        notes=NOTES,
        vocabulary=204,
        tokenizer=StreamByteBPE(size=257),
        streams=one_stream(ParallelStreams()),  # 3.2
        architecture=SegmentRecurrence(layers=12, heads=8, width=512, inner=2048, memory=512),  # the released scripts
        objectives=(AdaptiveLM(),),
        stages=(Stage(length=512),),
        schedule=Schedule(
            steps=400_000,
            batch=22,
            learning_rate=2.5e-4,
            warmup=0.0,
            shape="cosine",
            clip=0.25,
            optimizer=ADAM,
        ),
    )


def transformer_xl_enwik8_large() -> Recipe:
    base = transformer_xl_enwik8()
    return replace(
        base,
        name="transformer-xl-enwik8-large",
        architecture=SegmentRecurrence(
            layers=24, heads=8, width=1024, inner=3072, memory=768, max_length=768, dropout=0.15, attention_dropout=0.15
        ),
        stages=(Stage(length=768),),
        schedule=replace(base.schedule, batch=64, warmup=0.01),
    )


def transformer_xl_text8() -> Recipe:
    """The letters a to z and the space."""
    return replace(
        transformer_xl_enwik8(), name="transformer-xl-text8", notes="", vocabulary=27, tokenizer=Characters(size=29)
    )


def transformer_xl_text8_large() -> Recipe:
    return replace(
        transformer_xl_enwik8_large(),
        name="transformer-xl-text8-large",
        notes="",
        vocabulary=27,
        tokenizer=Characters(size=29),
    )


def transformer_xl_wt103() -> Recipe:
    """WikiText-103: whole words, with an adaptive softmax."""
    base = transformer_xl_enwik8()
    return replace(
        base,
        name="transformer-xl-wt103",
        notes="",
        vocabulary=267_735,
        tokenizer=Words(size=267_735, punctuation=False),
        architecture=SegmentRecurrence(
            layers=16, heads=10, width=410, inner=2100, memory=150, max_length=150, cutoffs=(20_000, 40_000, 200_000)
        ),
        stages=(Stage(length=150),),
        schedule=replace(base.schedule, steps=200_000, batch=60),
    )


def transformer_xl_wt103_large() -> Recipe:
    base = transformer_xl_wt103()
    return replace(
        base,
        name="transformer-xl-wt103-large",
        architecture=SegmentRecurrence(
            layers=18,
            heads=16,
            width=1024,
            inner=4096,
            memory=384,
            max_length=384,
            cutoffs=(20_000, 40_000, 200_000),
            shrink=4,
            dropout=0.2,
            attention_dropout=0.2,
        ),
        stages=(Stage(length=384),),
        schedule=replace(base.schedule, steps=4_000_000, batch=128, warmup=0.004),
    )


def transformer_xl_lm1b() -> Recipe:
    """The One Billion Word benchmark: shuffled sentences, and clusters with their own projections."""
    base = transformer_xl_wt103()
    return replace(
        base,
        name="transformer-xl-lm1b",
        notes="Sentences have an end token only; the released code adds one at the beginning too.",
        vocabulary=793_471,
        tokenizer=Words(size=793_471, punctuation=False),
        architecture=SegmentRecurrence(
            layers=18,
            heads=8,
            width=1024,
            inner=4096,
            memory=32,
            max_length=32,
            cutoffs=(60_000, 100_000, 640_000),
            shrink=4,
            dropout=0.0,
        ),
        objectives=(AdaptiveLM(shared_projections=False),),
        stages=(Stage(length=32),),
        schedule=replace(base.schedule, steps=500_000, batch=224, warmup=0.04),
    )


def transformer_xl_mini() -> Recipe:
    """The network of Dai et al., 2019, at the size of bert-mini, with settings for runs of minutes."""
    return replace(
        transformer_xl_enwik8(),
        name="transformer-xl-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        vocabulary=8_000,
        tokenizer=StreamByteBPE(size=8_000),
        architecture=SegmentRecurrence(
            layers=4,
            heads=4,
            width=256,
            inner=1024,
            memory=128,
            max_length=128,
            local_heads=True,
            dropout=0.0,
            attention_dropout=0.0,
        ),
        stages=(Stage(length=128),),
        schedule=Schedule(steps=10_000, batch=8, learning_rate=1e-3, warmup=0.05, shape="cosine", optimizer=AdamW()),
    )


def transformer_xl_tiny() -> Recipe:
    mini = transformer_xl_mini()
    return replace(
        mini,
        name="transformer-xl-tiny",
        architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512),
    )
