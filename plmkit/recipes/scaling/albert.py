"""ALBERT (Lan et al., 2019; google-research/albert)."""

from dataclasses import replace

from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.corruption.arrange.pairs import OrderedPairs
from plmkit.corruption.mask.word import NgramMasking
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import SentenceOrder
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW, Lamb
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.tokenizers.unigram import Unigram
from plmkit.tokenizers.wordpiece import WordPiece

FOR_MINUTES = for_minutes(
    "size",
    "batch",
    "learning rate",
    "warm-up",
    "optimizer",
    "activation",
    "length",
    "masking",
    "vocabulary",
    "initial weights",
)


def albert_base() -> Recipe:
    """ALBERT: BERT with factorised embeddings and shared layers (Lan et al., 2019)."""
    return Recipe(
        name="albert-base",
        paper="arXiv:1909.11942",
        summary="BERT with shared layers; predict masked n-grams and whether two texts were swapped.",
        vocabulary=30_000,
        tokenizer=Unigram(size=30_000),
        streams=one_stream(OrderedPairs(short=0.1), NgramMasking(rate=0.15, max_masked=80, static_masks=40)),  # 4.1
        architecture=SharedEncoder(layers=12, heads=12, width=768, inner=3072),  # table 1
        objectives=(MaskedLM(), SentenceOrder()),  # 3.1
        stages=(Stage(length=512),),
        schedule=Schedule(  # 4.1
            steps=125_000,
            batch=4096,
            learning_rate=0.00176,
            warmup=0.025,
            optimizer=Lamb(),
        ),
        tuning=Tuning(dropout=0.0),  # A.4, table 14: none in the network for most tasks, 0.1 before the head
    )


def albert_large() -> Recipe:
    return replace(
        albert_base(),
        name="albert-large",
        architecture=SharedEncoder(layers=24, heads=16, width=1024, inner=4096),
    )


def albert_xlarge() -> Recipe:
    return replace(
        albert_base(),
        name="albert-xlarge",
        architecture=SharedEncoder(layers=24, heads=16, width=2048, inner=8192),
    )


def albert_xxlarge() -> Recipe:
    return replace(
        albert_base(),
        name="albert-xxlarge",
        architecture=SharedEncoder(layers=12, heads=64, width=4096, inner=16_384),
    )


def albert_mini() -> Recipe:
    """A network of bert-mini's shape, with settings for runs of minutes."""
    return replace(
        albert_base(),
        name="albert-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=WordPiece(size=8_000),
        streams=one_stream(OrderedPairs(short=0.1), NgramMasking(rate=0.4)),
        architecture=SharedEncoder(layers=4, heads=4, width=256, inner=1024, activation="gelu", local_heads=True),
        objectives=(MaskedLM(corpus_vocabulary=True), SentenceOrder()),
        initialisation=Initialisation(frequency_bias=True, cooccurrence_embeddings=True),
        stages=(Stage(length=128),),
        schedule=Schedule(steps=10_000, batch=8, learning_rate=1e-3, warmup=0.1, optimizer=AdamW()),
    )


def albert_tiny() -> Recipe:
    return replace(
        albert_mini(),
        name="albert-tiny",
        architecture=SharedEncoder(
            layers=2, heads=2, width=128, inner=512, embedding=64, activation="gelu", local_heads=True
        ),
    )
