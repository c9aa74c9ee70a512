"""A second stage on the triples of a knowledge graph (yao8839836/kg-bert; Choi et al., 2021)."""

from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.corruption.arrange.triples import CorruptedTriples, EntityCloze, MissingEntity, MissingRelation
from plmkit.corruption.mask.token import TokenMasking
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.triples import EntityPrediction, RelationPrediction, TriplePlausibility
from plmkit.recipe import DataStream, Recipe
from plmkit.recipes.foundations.bert import bert_mini
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage

NOTES = (
    "The network, its tokenizer and its learning rate are those of the model it starts from (--from); without one it "
    "trains a new network of the size of bert-mini. KG-BERT trains one task at a time, without an entity table, a "
    "cloze or text; the sampling weights of the streams are our choice."
)


def kg_stage() -> Recipe:
    """A model that continues on triples: predict entities, relations and what is true, and keep its language."""
    mini = bert_mini()
    return Recipe(
        name="kg-stage",
        paper="arXiv:1909.03193",
        summary="Continue a model on triples: predict the missing entity or relation, and whether a triple is true.",
        notes=NOTES,
        adopts=True,
        vocabulary=mini.vocabulary,
        tokenizer=mini.tokenizer,
        streams=(
            DataStream(name="entities", arrangement=MissingEntity(), heads=("entity",), weight=0.35),
            DataStream(name="cloze", arrangement=EntityCloze(), heads=("masked_lm",), weight=0.15),
            DataStream(name="relations", arrangement=MissingRelation(), heads=("relation",), weight=0.15),
            DataStream(name="plausibility", arrangement=CorruptedTriples(), heads=("plausibility",), weight=0.15),
            DataStream(
                name="text", arrangement=SingleSegment(), maskings=(TokenMasking(rate=0.15),), heads=("masked_lm",),
                weight=0.2,
            ),
        ),
        architecture=mini.architecture,
        objectives=(EntityPrediction(), MaskedLM(), RelationPrediction(), TriplePlausibility()),
        stages=(Stage(length=128),),
        schedule=Schedule(  # KG-BERT: a learning rate of 5e-5 at a width of 768, batches of 32
            steps=5_000, batch=32, learning_rate=4.5e-4, warmup=0.1, shape="linear_to_zero", optimizer=AdamW()
        ),
    )  # fmt: skip
