"""SpanBERT (Joshi et al., 2020; facebookresearch/SpanBERT)."""

from dataclasses import replace

from plmkit.architectures.encoder import Encoder
from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.corruption.mask.span import SpanMasking
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.span_boundary import SpanBoundary
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.foundations.bert import bert_base_cased, bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage, Tuning

FOR_MINUTES = for_minutes(
    "size",
    "batch",
    "learning rate",
    "warm-up",
    "schedule",
    "dropout",
    "length",
    "masking",
    "vocabulary",
    "initial weights",
)


def spanbert_base() -> Recipe:
    """SpanBERT: mask whole spans and predict them from their boundaries too (Joshi et al., 2020)."""
    return replace(
        bert_base_cased(),
        name="spanbert-base",
        paper="arXiv:1907.10529",
        summary="Predict masked spans, also from their boundary states alone; single segments.",
        streams=one_stream(SingleSegment(), SpanMasking(rate=0.15, geometric=0.2, max_length=10)),  # 3.1, 3.3
        architecture=Encoder(layers=12, heads=12, width=768, inner=3072, activation="gelu", pooler=False),
        objectives=(MaskedLM(), SpanBoundary()),  # 3.2
        stages=(Stage(length=512),),
        schedule=Schedule(  # 4.2: 32 devices of 4,096 tokens
            steps=2_400_000,
            batch=256,
            learning_rate=1e-4,
            warmup=10_000 / 2_400_000,
            shape="linear_to_zero",
            optimizer=AdamW(epsilon=1e-8, decay=0.01),
        ),
        tuning=Tuning(learning_rate=2e-5),  # the released scripts
    )


def spanbert_large() -> Recipe:
    return replace(
        spanbert_base(),
        name="spanbert-large",
        architecture=Encoder(layers=24, heads=16, width=1024, inner=4096, activation="gelu", pooler=False),
    )


def spanbert_mini() -> Recipe:
    """With settings for runs of minutes."""
    mini = bert_mini()
    return replace(
        spanbert_base(),
        name="spanbert-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        vocabulary=mini.vocabulary,
        tokenizer=mini.tokenizer,
        streams=one_stream(SingleSegment(), SpanMasking(rate=0.4)),
        architecture=Encoder(
            layers=4, heads=4, width=256, inner=1024, activation="gelu",
            dropout=0.0, attention_dropout=0.0, pooler=False, local_heads=True,
        ),
        objectives=(MaskedLM(corpus_vocabulary=True), SpanBoundary(corpus_vocabulary=True)),
        initialisation=Initialisation(frequency_bias=True, cooccurrence_embeddings=True),
        stages=mini.stages,
        schedule=mini.schedule,
    )  # fmt: skip
