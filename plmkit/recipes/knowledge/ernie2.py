"""ERNIE 2.0 (Sun et al., 2020), whose pretraining code was never published: written from the paper."""

from dataclasses import replace

from plmkit.architectures.task_encoder import TaskEncoder
from plmkit.corruption.arrange.discourse import DiscoursePairs
from plmkit.corruption.arrange.distance import DistancePairs
from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.corruption.arrange.reorder import ReorderedSentences
from plmkit.corruption.arrange.titles import QueryTitles
from plmkit.corruption.contract import Arrangement, Masking
from plmkit.corruption.mask.labelling import Capitals, TokenDocument
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.text_classes import DiscourseRelation, SearchRelevance, SentenceDistance, SentenceReordering
from plmkit.objectives.token_classes import CapitalPrediction, TokenDocumentRelation
from plmkit.recipe import DataStream, Recipe
from plmkit.recipes.foundations.bert import bert_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Tuning
from plmkit.schedules.task_stages import continual
from plmkit.segmentation.english import English
from plmkit.tokenizers.wordpiece import WordPiece

TASKS = ("knowledge", "capitals", "document", "order", "distance", "discourse", "relevance")  # 4.2, as they are added
NOTES = (
    "Steps, dropout, shares of the units and the number of parts of a paragraph are our choices. Stage k trains tasks "
    "1 to k. Of n tasks, each trains 1 / (n + 1) of its steps in every stage after its first and the rest in its "
    "first: our rule, which gives the paper's table for four tasks."
)

FOR_MINUTES = for_minutes(
    "size", "batch", "learning rate", "warm-up", "schedule", "optimizer", "dropout", "length", "masking", "vocabulary",
    "initial weights", "token–document labels",
)  # fmt: skip


def task(number: int, head: str, arrangement: Arrangement, *maskings: Masking) -> DataStream:
    """The stream of one task: rows of its own, one loss, and a task embedding."""
    return DataStream(name=TASKS[number], arrangement=arrangement, maskings=maskings, heads=(head,), task=number)


def seven_tasks(rate: float, document: TokenDocument) -> tuple[DataStream, ...]:
    knowledge = UnitMasking(
        rate=rate, levels=("word", "phrase", "entity"), shares=(1 / 3, 1 / 3, 1 / 3), segmenter=English(level="entity")
    )
    return (
        task(0, "masked_lm", SingleSegment(), knowledge),  # 4.2.1
        task(1, "capital_prediction", SingleSegment(), Capitals()),
        task(2, "token_document_relation", SingleSegment(), document),
        task(3, "sentence_reordering", ReorderedSentences()),  # 4.2.2
        task(4, "sentence_distance", DistancePairs()),
        task(5, "discourse_relation", DiscoursePairs()),  # 4.2.3
        task(6, "search_relevance", QueryTitles()),
    )


def ernie2_base() -> Recipe:
    """ERNIE 2: seven pretraining tasks, one added after another, all trained on to the end."""
    return Recipe(
        name="ernie2-base",
        paper="arXiv:1907.12412",
        summary="Seven tasks on words, structure and meaning, added one after another; all are trained to the end.",
        notes=NOTES,
        vocabulary=30_522,
        tokenizer=WordPiece(size=30_522, lowercase=True),
        streams=seven_tasks(0.15, TokenDocument()),
        architecture=TaskEncoder(
            layers=12, heads=12, width=768, inner=3072, segments=4, activation="gelu", epsilon=1e-5
        ),
        objectives=(
            MaskedLM(),
            CapitalPrediction(),
            TokenDocumentRelation(),
            SentenceReordering(),
            SentenceDistance(),
            DiscourseRelation(),
            SearchRelevance(),
        ),
        stages=continual(TASKS, 512),  # 3.2.2
        schedule=Schedule(  # 4.3; batches of 393,216 tokens
            steps=350_000,
            batch=768,
            learning_rate=5e-5,
            warmup=4_000 / 350_000,
            shape="inverse_sqrt",
            optimizer=AdamW(beta2=0.98),
        ),
        tuning=Tuning(learning_rate=5e-5, optimizer=AdamW()),
    )


def ernie2_large() -> Recipe:
    base = ernie2_base()
    return replace(
        base,
        name="ernie2-large",
        architecture=base.architecture.with_settings(layers=24, heads=16, width=1024, inner=4096),
    )


def ernie2_mini() -> Recipe:
    """With settings for runs of minutes."""
    mini = bert_mini()
    return replace(
        ernie2_base(),
        name="ernie2-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=mini.tokenizer,
        streams=seven_tasks(0.4, TokenDocument(frequent=0.01)),
        architecture=TaskEncoder(
            layers=4,
            heads=4,
            width=256,
            inner=1024,
            segments=4,
            activation="gelu",
            epsilon=1e-5,
            dropout=0.0,
            attention_dropout=0.0,
            local_heads=True,
        ),
        objectives=(MaskedLM(corpus_vocabulary=True), *ernie2_base().objectives[1:]),
        initialisation=mini.initialisation,
        stages=continual(TASKS, 128),
        schedule=mini.schedule,
    )


def ernie2_tiny() -> Recipe:
    mini = ernie2_mini()
    return replace(
        mini, name="ernie2-tiny", architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512)
    )
