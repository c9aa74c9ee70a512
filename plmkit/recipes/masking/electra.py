"""ELECTRA (Clark et al., 2020; google-research/electra)."""

from dataclasses import replace

from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.corruption.arrange.packing import ContiguousSegments
from plmkit.corruption.mask.token import ReplacedMasking
from plmkit.initialisation.corpus import Initialisation
from plmkit.objectives.replaced_token import AdversarialGenerator, GeneratorLM, ReplacedToken
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW, BertAdam
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.tokenizers.wordpiece import WordPiece

FOR_MINUTES = for_minutes(
    "size",
    "batch",
    "learning rate",
    "warm-up",
    "optimizer",
    "dropout",
    "length",
    "masking",
    "vocabulary",
    "initial weights",
)


def electra_base() -> Recipe:
    """ELECTRA: a generator replaces tokens, a discriminator detects which (Clark et al., 2020)."""
    return Recipe(
        name="electra-base",
        paper="arXiv:2003.10555",
        summary="Detect, for every token, whether a small generator replaced it.",
        vocabulary=30_522,
        tokenizer=WordPiece(size=30_522, lowercase=True),
        streams=one_stream(ContiguousSegments(), ReplacedMasking(rate=0.15)),  # 2
        architecture=GeneratorDiscriminator(layers=12, heads=12, width=768, inner=3072, generator=1 / 3),  # A
        objectives=(GeneratorLM(), ReplacedToken(weight=50)),  # 2, A
        stages=(Stage(length=512),),
        schedule=Schedule(  # A
            steps=766_000,
            batch=256,
            learning_rate=2e-4,
            warmup=10 / 766,
            shape="linear_product",
            optimizer=BertAdam(),
        ),
        tuning=Tuning(learning_rate=1e-4, shape="linear_product", layer_decay=0.8),  # A, and the released code
    )


def electra_small() -> Recipe:
    base = electra_base()
    return replace(
        base,
        name="electra-small",
        architecture=GeneratorDiscriminator(layers=12, heads=4, width=256, inner=1024, embedding=128, generator=1 / 4),
        stages=(Stage(length=128),),
        schedule=replace(base.schedule, steps=1_000_000, batch=128, learning_rate=5e-4, warmup=10 / 1_000),
    )


def electra_large() -> Recipe:
    base = electra_base()
    return replace(
        base,
        name="electra-large",
        streams=one_stream(ContiguousSegments(), ReplacedMasking(rate=0.25)),
        architecture=GeneratorDiscriminator(layers=24, heads=16, width=1024, inner=4096, generator=1 / 4),
        tuning=replace(base.tuning, layer_decay=0.9),
        schedule=replace(base.schedule, steps=400_000, batch=2048, warmup=10 / 400),
    )


def electra_mini() -> Recipe:
    """The paper's two networks at the size of bert-mini, with settings for runs of minutes."""
    return replace(
        electra_base(),
        name="electra-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=WordPiece(size=8_000),
        streams=one_stream(ContiguousSegments(), ReplacedMasking(rate=0.4)),
        architecture=GeneratorDiscriminator(
            layers=4,
            heads=4,
            width=256,
            inner=1024,
            embedding=128,
            generator=1 / 2,  # a quarter would be a single head, which would attend to one neighbour only
            dropout=0.0,
            attention_dropout=0.0,
            local_heads=True,
        ),
        objectives=(GeneratorLM(corpus_vocabulary=True), ReplacedToken(weight=50)),
        initialisation=Initialisation(frequency_bias=True),
        stages=(Stage(length=128),),
        schedule=Schedule(
            steps=10_000,
            batch=8,
            learning_rate=5e-4,  # at 1e-3 this size learns token frequencies only
            warmup=0.1,
            shape="linear_product",
            optimizer=AdamW(),
        ),
    )


def electra_tiny() -> Recipe:
    mini = electra_mini()
    return replace(
        mini,
        name="electra-tiny",
        schedule=replace(mini.schedule, learning_rate=1e-3),
        architecture=GeneratorDiscriminator(
            layers=2,
            heads=2,
            width=128,
            inner=512,
            embedding=128,
            generator=1 / 2,
            dropout=0.0,
            attention_dropout=0.0,
            local_heads=True,
        ),
    )


def electra_tiny_adversarial() -> Recipe:
    """The generator is trained to fool the discriminator, which the paper found worse."""
    return replace(
        electra_tiny(),
        name="electra-tiny-adversarial",
        notes=f"{FOR_MINUTES} The generator is trained as in its appendix F.",
        for_minutes=True,
        objectives=(AdversarialGenerator(), ReplacedToken(weight=50)),  # F
        initialisation=Initialisation(),
    )


def electra_tiny_weighted() -> Recipe:
    """Both loss weights are trained (Kendall et al., 2018)."""
    return replace(
        electra_tiny(),
        name="electra-tiny-weighted",
        notes=f"{FOR_MINUTES} The learned loss weights are not in the paper.",
        for_minutes=True,
        objectives=(
            GeneratorLM(learned_weight=True, corpus_vocabulary=True),
            ReplacedToken(learned_weight=True, weight=50),
        ),
    )
