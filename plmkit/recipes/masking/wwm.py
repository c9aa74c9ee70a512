"""Whole-word masking (google-research/bert, 2019; Cui et al., 2019)."""

from dataclasses import replace

from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.mask.word import WordMasking
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.foundations.bert import bert_base, bert_base_chinese, bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import Lamb
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.segmentation.chinese import Jieba

CHINESE_WORDS = Jieba()

FOR_MINUTES = for_minutes(
    "size",
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


def bert_wwm_base() -> Recipe:
    """BERT with whole-word masking: a word cannot be guessed from its own pieces."""
    return replace(
        bert_base(),
        name="bert-wwm-base",
        paper="arXiv:1906.08101",
        summary="BERT with whole-word masking: all pieces of a word are masked together.",
        streams=one_stream(SentencePairs(short=0.1), WordMasking(rate=0.15, max_masked=80, static_masks=10)),  # 2.2
    )


def bert_wwm_chinese() -> Recipe:
    return replace(
        bert_base_chinese(),
        name="bert-wwm-chinese",
        paper="arXiv:1906.08101",
        summary="Chinese BERT with whole-word masking: all characters of a word are masked together.",
        notes="The paper starts from BERT's Chinese weights (--from), uses LTP's words, and ends with batches of 384.",
        streams=one_stream(
            SentencePairs(short=0.1),
            WordMasking(rate=0.15, max_masked=80, static_masks=10, segmenter=CHINESE_WORDS),  # 2.2
        ),
        stages=(Stage(until=0.5, length=128), Stage(length=512)),
        schedule=Schedule(  # 3.1: 100k steps of 128 tokens, then 100k of 512
            steps=200_000,
            batch=2560,
            learning_rate=1e-4,
            warmup=0.1,
            optimizer=Lamb(),
        ),
    )


def bert_wwm_mini() -> Recipe:
    """English and Chinese words, with settings for runs of minutes."""
    return replace(
        bert_mini(),
        name="bert-wwm-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        paper="arXiv:1906.08101",
        summary="BERT with whole-word masking: all pieces or characters of a word are masked together.",
        streams=one_stream(SentencePairs(short=0.1), WordMasking(rate=0.4, segmenter=CHINESE_WORDS)),
    )
