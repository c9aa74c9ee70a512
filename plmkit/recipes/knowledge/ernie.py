"""ERNIE 1.0 (Sun et al., 2019; PaddlePaddle/ERNIE)."""

from dataclasses import replace

from plmkit.architectures.encoder import Encoder
from plmkit.corruption.arrange.pairs import MixedPairs
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence
from plmkit.recipe import Recipe
from plmkit.recipes.foundations.bert import bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule
from plmkit.schedules.tuning import Tuning
from plmkit.segmentation.chinese import Jieba
from plmkit.tokenizers.wordpiece import WordPiece

PHRASES_AND_ENTITIES = Jieba(level="entity")

FOR_MINUTES = for_minutes(
    "size", "batch", "learning rate", "warm-up", "dropout", "length", "masking", "vocabulary", "starting weights"
)


def ernie() -> Recipe:
    """ERNIE: hide characters, then phrases, then entities, so that what is known of them must be learnt."""
    return Recipe(
        name="ernie-1.0",
        paper="arXiv:1904.09223",
        summary="Name hidden characters, then whole phrases, then whole entities; judge pairs of texts.",
        notes=(
            "The share of each stage is ours: the paper gives none. The released code says 1 where the second text "
            "follows, ours 0 as in BERT, and begins the bias of one norm at 1, ours at 0."
        ),
        vocabulary=18_000,
        tokenizer=WordPiece(size=18_000, lowercase=True),
        corruption=(MixedPairs(short=0.1), UnitMasking(rate=0.15, segmenter=PHRASES_AND_ENTITIES)),  # 3.2
        architecture=Encoder(
            layers=12, heads=12, width=768, inner=3072, longest=513, activation="relu", epsilon=1e-5
        ),  # 3.1
        objectives=(MaskedLM(), NextSentence()),
        schedule=Schedule(  # the released scripts: 8 devices of 8,192 tokens
            steps=1_000_000,
            batch=128,
            lengths=((1 / 3, 512), (2 / 3, 512), (1.0, 512)),
            rate=1e-4,
            warmup=0.005,
            optimizer=AdamW(),
        ),
        tuning=Tuning(rate=5e-5, optimizer=AdamW()),  # the released scripts
    )


def ernie_mini() -> Recipe:
    """With settings for minutes."""
    mini = bert_mini()
    return replace(
        ernie(),
        name="ernie-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=mini.tokenizer,
        corruption=(MixedPairs(short=0.1), UnitMasking(rate=0.4, segmenter=PHRASES_AND_ENTITIES)),
        architecture=replace(mini.architecture, activation="relu", epsilon=1e-5),
        objectives=mini.objectives,
        schedule=replace(mini.schedule, lengths=((1 / 3, 128), (2 / 3, 128), (1.0, 128))),
    )
