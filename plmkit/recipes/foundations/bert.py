"""BERT (Devlin et al., 2018; google-research/bert)."""

from dataclasses import replace

from plmkit.architectures.encoder import Encoder
from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.mask.token import TokenMasking
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW, BertAdam
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.wordpiece import WordPiece

FOR_MINUTES = for_minutes(
    "batch",
    "learning rate",
    "warm-up",
    "optimizer",
    "dropout",
    "activation",
    "length",
    "masking",
    "vocabulary",
    "initial weights",
)


def bert_base() -> Recipe:
    """BERT: predict masked tokens and whether one text follows another (Devlin et al., 2018)."""
    return Recipe(
        name="bert-base",
        paper="arXiv:1810.04805",
        summary="Predict masked tokens from both sides, and whether the second text follows the first.",
        vocabulary=30_522,
        tokenizer=WordPiece(size=30_522, lowercase=True),
        streams=one_stream(
            SentencePairs(short=0.1), TokenMasking(rate=0.15, max_masked=80, static_masks=10)
        ),  # A.1, A.2
        architecture=Encoder(layers=12, heads=12, width=768, inner=3072),  # 3
        objectives=(MaskedLM(), NextSentence()),  # 3.1
        stages=(Stage(until=0.9, length=128), Stage(length=512)),
        schedule=Schedule(  # A.2
            steps=1_000_000,
            batch=256,
            learning_rate=1e-4,
            warmup=0.01,
            optimizer=BertAdam(),
        ),
    )


def bert_large() -> Recipe:
    return replace(
        bert_base(),
        name="bert-large",
        architecture=Encoder(layers=24, heads=16, width=1024, inner=4096),  # 3
    )


def bert_base_cased() -> Recipe:
    return replace(
        bert_base(), name="bert-base-cased", vocabulary=28_996, tokenizer=WordPiece(size=28_996, lowercase=False)
    )


def bert_large_cased() -> Recipe:
    return replace(
        bert_large(), name="bert-large-cased", vocabulary=28_996, tokenizer=WordPiece(size=28_996, lowercase=False)
    )


def bert_base_chinese() -> Recipe:
    return replace(bert_base(), name="bert-base-chinese", vocabulary=21_128, tokenizer=WordPiece(size=21_128))


def bert_medium() -> Recipe:
    """Turc et al., 2019: the same training, smaller networks."""
    return replace(
        bert_base(),
        name="bert-medium",
        paper="arXiv:1908.08962",
        architecture=Encoder(layers=8, heads=8, width=512, inner=2048),
    )


def bert_small() -> Recipe:
    return replace(bert_medium(), name="bert-small", architecture=Encoder(layers=4, heads=8, width=512, inner=2048))


def bert_mini() -> Recipe:
    """The network of Turc et al., 2019, with settings for runs of minutes."""
    return replace(
        bert_medium(),
        name="bert-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=WordPiece(size=8_000),
        streams=one_stream(SentencePairs(short=0.1), TokenMasking(rate=0.4)),
        architecture=Encoder(
            layers=4,
            heads=4,
            width=256,
            inner=1024,
            activation="gelu",  # five times faster than the other form on a CPU
            dropout=0.0,
            attention_dropout=0.0,
            local_heads=True,
        ),
        objectives=(MaskedLM(corpus_vocabulary=True), NextSentence()),
        initialisation=Initialisation(frequency_bias=True, cooccurrence_embeddings=True),
        stages=(Stage(length=128),),
        schedule=Schedule(steps=10_000, batch=8, learning_rate=1e-3, warmup=0.1, optimizer=AdamW()),
    )


def bert_tiny() -> Recipe:
    return replace(
        bert_mini(),
        name="bert-tiny",
        architecture=bert_mini().architecture.with_settings(layers=2, heads=2, width=128, inner=512),
    )
