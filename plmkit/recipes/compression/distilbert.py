"""DistilBERT (Sanh et al., 2019; huggingface/transformers): BERT with half of its layers, taught by BERT."""

from dataclasses import replace

from plmkit.architectures.encoder import Encoder
from plmkit.corruption.arrange.packing import FullSentences
from plmkit.corruption.mask.token import DynamicMasking
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.foundations.bert import bert_base, bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage, Tuning

FOR_MINUTES = for_minutes(
    "size",
    "batch",
    "learning rate",
    "warm-up",
    "optimizer",
    "clipping",
    "dropout",
    "length",
    "masking",
    "vocabulary",
    "initial weights",
)


def distilbert_base() -> Recipe:
    """DistilBERT: half of BERT's layers, no segments, no pooler, no sentence task (Sanh et al., 2019, 3)."""
    return replace(
        bert_base(),
        name="distilbert-base",
        paper="arXiv:1910.01108",
        summary="Half of BERT's layers without segments and pooler: a student for `plm distill`; alone, masked LM.",
        streams=one_stream(FullSentences(), DynamicMasking(rate=0.15)),  # 3: dynamic masking, no sentence task
        architecture=Encoder(
            layers=6, heads=12, width=768, inner=3072,
            segments=0, activation="gelu", pooler=False, pooler_activation="relu", initialiser="normal",
        ),  # 3, and the released code
        objectives=(MaskedLM(),),  # plm distill adds the teacher's
        stages=(Stage(length=512),),
        schedule=Schedule(  # released code: 3 epochs of the corpus with batches of 4,000
            steps=100_000, batch=4000, learning_rate=5e-4, warmup=0.05, clip=5.0,
            optimizer=AdamW(epsilon=1e-6, decay=0.0),
        ),
        tuning=Tuning(),
    )  # fmt: skip


def distilbert_mini() -> Recipe:
    """The same at the width of bert-mini, whose layers can initialise it, with settings for runs of minutes."""
    mini = bert_mini()
    return replace(
        distilbert_base(),
        name="distilbert-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=mini.tokenizer,
        streams=one_stream(FullSentences(), DynamicMasking(rate=0.4)),
        architecture=distilbert_base().architecture.with_settings(
            layers=2, heads=4, width=256, inner=1024, dropout=0.0, attention_dropout=0.0, local_heads=True
        ),
        objectives=(MaskedLM(corpus_vocabulary=True),),
        initialisation=mini.initialisation,
        stages=mini.stages,
        schedule=mini.schedule,
    )
