"""RoBERTa (Liu et al., 2019; facebookresearch/fairseq)."""

from dataclasses import replace

from plmkit.architectures.encoder import Encoder
from plmkit.corruption.arrange.packing import FullSentences
from plmkit.corruption.mask.token import DynamicMasking
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.tokenizers.byte_bpe import ByteBPE

FOR_MINUTES = for_minutes(
    "size",
    "batch",
    "learning rate",
    "warm-up",
    "schedule",
    "optimizer",
    "clipping",
    "dropout",
    "length",
    "masking",
    "vocabulary",
    "initial weights",
)


def roberta_base() -> Recipe:
    """RoBERTa: BERT without next-sentence prediction, on full rows, with dynamic masking (Liu et al., 2019)."""
    return Recipe(
        name="roberta-base",
        paper="arXiv:1907.11692",
        summary="Predict masked tokens from both sides, in full rows with dynamic masking; no sentence task.",
        vocabulary=50_265,
        tokenizer=ByteBPE(size=50_265),  # 4.4
        streams=one_stream(FullSentences(), DynamicMasking(rate=0.15)),  # 4.1, 4.2
        architecture=Encoder(
            layers=12, heads=12, width=768, inner=3072,
            first=2, segments=1, activation="gelu", epsilon=1e-5, pooler=False, pooler_dropout=0.1,
            initialiser="normal",
        ),  # A, and the released models
        objectives=(MaskedLM(),),  # 4.2
        stages=(Stage(length=512),),
        schedule=Schedule(  # A, table 9
            steps=500_000,
            batch=8192,
            learning_rate=6e-4,
            warmup=24_000 / 500_000,
            shape="linear_to_zero",
            clip=0.0,
            optimizer=AdamW(beta2=0.98, epsilon=1e-6, decay=0.01),
        ),
        tuning=Tuning(  # table 10, and the released code
            warmup=0.06, shape="linear_to_zero", optimizer=AdamW(beta2=0.98, epsilon=1e-6, decay=0.1), clip=0.0
        ),
    )  # fmt: skip


def roberta_large() -> Recipe:
    base = roberta_base()
    return replace(
        base,
        name="roberta-large",
        architecture=base.architecture.with_settings(layers=24, heads=16, width=1024, inner=4096),
        schedule=replace(base.schedule, learning_rate=4e-4, warmup=30_000 / 500_000),
    )


def roberta_mini() -> Recipe:
    """The rows and the masking of Liu et al., 2019, at the size of bert-mini, with settings for runs of minutes."""
    base = roberta_base()
    return replace(
        base,
        name="roberta-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=ByteBPE(size=8_000),
        streams=one_stream(FullSentences(), DynamicMasking(rate=0.4)),
        architecture=base.architecture.with_settings(
            layers=4, heads=4, width=256, inner=1024,
            dropout=0.0, attention_dropout=0.0, local_heads=True,
        ),
        objectives=(MaskedLM(corpus_vocabulary=True),),
        initialisation=Initialisation(frequency_bias=True, cooccurrence_embeddings=True),
        stages=(Stage(length=128),),
        schedule=Schedule(steps=10_000, batch=8, learning_rate=1e-3, warmup=0.1, optimizer=AdamW()),
    )  # fmt: skip


def roberta_tiny() -> Recipe:
    mini = roberta_mini()
    return replace(
        mini, name="roberta-tiny", architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512)
    )
