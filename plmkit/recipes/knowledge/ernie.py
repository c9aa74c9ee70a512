"""ERNIE 1.0 (Sun et al., 2019; PaddlePaddle/ERNIE)."""

from dataclasses import replace

from plmkit.architectures.encoder import Encoder
from plmkit.corruption.arrange.pairs import MixedPairs
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence
from plmkit.recipe import DataStream, Recipe
from plmkit.recipes.foundations.bert import bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.segmentation.chinese import Jieba
from plmkit.tokenizers.wordpiece import WordPiece

PHRASES_AND_ENTITIES = Jieba(level="entity")

FOR_MINUTES = for_minutes(
    "size", "batch", "learning rate", "warm-up", "dropout", "length", "masking", "vocabulary", "initial weights"
)


def stream_of(level: str, shares: tuple[float, float, float], rate: float) -> DataStream:
    """Pairs with masked units of one level; each stream continues where the previous stage stopped."""
    masking = UnitMasking(rate=rate, shares=shares, segmenter=PHRASES_AND_ENTITIES)
    return DataStream(name=level, arrangement=MixedPairs(short=0.1), maskings=(masking,), place="text")


def characters(rate: float) -> DataStream:
    return stream_of("character", (1.0, 0.0, 0.0), rate)


def phrases(rate: float) -> DataStream:
    return stream_of("phrase", (0.0, 1.0, 0.0), rate)


def entities(rate: float) -> DataStream:
    return stream_of("entity", (0.0, 0.0, 1.0), rate)


def ernie() -> Recipe:
    """ERNIE: mask characters, then phrases, then entities, to learn knowledge about them."""
    return Recipe(
        name="ernie-1.0",
        paper="arXiv:1904.09223",
        summary="Predict masked characters, then whole phrases, then whole entities; next-sentence prediction.",
        notes=(
            "The share of each stage is our choice: the paper gives none. The released code labels following texts "
            "1, this one 0 as in BERT; it also initialises the bias of one norm at 1, this one at 0."
        ),
        vocabulary=18_000,
        tokenizer=WordPiece(size=18_000, lowercase=True),
        streams=(characters(0.15), phrases(0.15), entities(0.15)),  # 3.2
        architecture=Encoder(
            layers=12, heads=12, width=768, inner=3072, max_length=513, activation="relu", epsilon=1e-5
        ),  # 3.1
        objectives=(MaskedLM(), NextSentence()),
        stages=(
            Stage(until=1 / 3, length=512, streams=("character",)),
            Stage(until=2 / 3, length=512, streams=("phrase",)),
            Stage(length=512, streams=("entity",)),
        ),
        schedule=Schedule(  # the released scripts: 8 devices of 8,192 tokens
            steps=1_000_000,
            batch=128,
            learning_rate=1e-4,
            warmup=0.005,
            optimizer=AdamW(),
        ),
        tuning=Tuning(learning_rate=5e-5, optimizer=AdamW()),  # the released scripts
    )


def ernie_mini() -> Recipe:
    """With settings for runs of minutes."""
    mini = bert_mini()
    return replace(
        ernie(),
        name="ernie-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=mini.tokenizer,
        streams=(characters(0.4), phrases(0.4), entities(0.4)),
        architecture=mini.architecture.with_settings(activation="relu", epsilon=1e-5),
        objectives=mini.objectives,
        initialisation=mini.initialisation,
        stages=(
            Stage(until=1 / 3, length=128, streams=("character",)),
            Stage(until=2 / 3, length=128, streams=("phrase",)),
            Stage(length=128, streams=("entity",)),
        ),
        schedule=mini.schedule,
    )
