"""The Transformer (Vaswani et al., 2017; tensor2tensor)."""

from dataclasses import replace

from plmkit.architectures.encoder_decoder import EncoderDecoder
from plmkit.corruption.arrange.source_target import SourceTarget
from plmkit.objectives.translation_lm import TranslationLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.byte_bpe import ByteBPE

NOTES = (
    "The paper's batches hold about 25,000 source and 25,000 target tokens; ours have a fixed number of pairs of like "
    "length, about as many tokens. Average the last checkpoints with run.average=5 (base) or 20 (big)."
)
FOR_MINUTES = for_minutes(
    "size", "initial weights", "batch", "learning rate", "warm-up", "schedule", "clipping", "optimizer", "length",
    "vocabulary",
)  # fmt: skip


def transformer_base() -> Recipe:
    """Transformer: translate with attention alone (Vaswani et al., 2017)."""
    return Recipe(
        name="transformer-base",
        paper="arXiv:1706.03762",
        summary="Translate: predict the next token of the target, attending to an encoded source.",
        notes=NOTES,
        vocabulary=37_000,
        tokenizer=ByteBPE(size=37_000),  # 5.1
        streams=one_stream(SourceTarget()),
        architecture=EncoderDecoder(layers=6, heads=8, width=512, inner=2048),  # 3, table 3
        objectives=(TranslationLM(smoothing=0.1),),  # 5.4
        stages=(Stage(length=256),),
        schedule=Schedule(  # 5.2, 5.3
            steps=100_000,
            batch=900,
            learning_rate=(512 * 4000) ** -0.5,
            warmup=4000 / 100_001,
            shape="inverse_sqrt",
            clip=0.0,
            optimizer=AdamW(beta2=0.98, epsilon=1e-9, decay=0.0),
        ),
    )


def transformer_big() -> Recipe:
    base = transformer_base()
    return replace(
        base,
        name="transformer-big",
        architecture=EncoderDecoder(layers=6, heads=16, width=1024, inner=4096, dropout=0.3),  # table 3
        schedule=replace(base.schedule, steps=300_000, learning_rate=(1024 * 4000) ** -0.5, warmup=4000 / 300_001),
    )


def transformer_mini() -> Recipe:
    """The network of Vaswani et al., 2017, as wide as bert-mini, with settings for runs of minutes.

    Two layers, small initial weights and a long warm-up were best: benchmarks/README.md has the figures.
    """
    return replace(
        transformer_base(),
        name="transformer-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        vocabulary=4_000,
        tokenizer=ByteBPE(size=4_000),
        architecture=EncoderDecoder(layers=2, heads=4, width=256, inner=1024, initialiser="normal"),
        stages=(Stage(length=128),),
        schedule=Schedule(
            steps=10_000,
            batch=32,
            learning_rate=1e-3,
            warmup=0.15,
            shape="linear_to_zero",
            optimizer=AdamW(beta2=0.98, epsilon=1e-9, decay=0.01),
        ),
    )


def transformer_tiny() -> Recipe:
    mini = transformer_mini()
    return replace(
        mini,
        name="transformer-tiny",
        architecture=mini.architecture.with_settings(heads=2, width=128, inner=512),
    )
