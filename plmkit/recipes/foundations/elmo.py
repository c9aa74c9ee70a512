"""ELMo (Peters et al., 2018): contextual word vectors from language models in both directions."""

from dataclasses import replace

from plmkit.architectures.elmo import Elmo
from plmkit.corruption.arrange.both_directions import BothDirections
from plmkit.objectives.direction_lm import BackwardLM, ForwardLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import Adagrad, AdamW
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.tokenizers.counted import SentenceWords

FOR_MINUTES = for_minutes(
    "size", "batch", "learning rate", "warm-up", "schedule", "optimizer", "clipping", "loss weights", "length",
    "vocabulary", "restarted states",
)  # fmt: skip


def elmo_original() -> Recipe:
    """ELMo: predict the next and the previous word from characters, one LSTM per direction (Peters et al., 2018)."""
    return Recipe(
        name="elmo-original",
        paper="arXiv:1802.05365",
        summary="Predict the next and the previous word from the characters of the words before and after it.",
        vocabulary=793_471,
        tokenizer=SentenceWords(),
        streams=one_stream(BothDirections()),
        architecture=Elmo(layers=2, width=1024),  # 3.1, and allenai/bilm-tf for all that follows
        objectives=(ForwardLM(weight=10.0), BackwardLM(weight=10.0)),  # a half, times the length of rows
        stages=(Stage(length=20),),
        schedule=Schedule(
            steps=1_000_845,  # 10 epochs of 768,648,884 words
            batch=768,  # 128 rows per direction on each of 3 processors
            learning_rate=0.2,
            warmup=0.0,
            shape="constant",
            clip=10.0,
            optimizer=Adagrad(accumulator=1.0),
        ),
        tuning=Tuning(frozen=True, features="input", optimizer=AdamW()),  # 3.3
    )


def elmo_mini() -> Recipe:
    """Two layers with settings for runs of minutes; every word of the corpus is read, the frequent ones predicted."""
    original = elmo_original()
    return replace(
        original,
        name="elmo-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        vocabulary=200_000,
        tokenizer=SentenceWords(size=200_000),
        architecture=Elmo(
            layers=2, width=256, cell=512, filters=((1, 16), (2, 32), (3, 64), (4, 128)), highways=1, characters=16,
            restart_share=0.05,  # bilm-tf carries every state over: in runs of minutes no row would begin a text
        ),
        objectives=(ForwardLM(words=20_000, samples=2048), BackwardLM()),
        stages=(Stage(length=32),),
        schedule=Schedule(
            steps=10_000, batch=32, learning_rate=2e-3, warmup=0.05, shape="cosine", optimizer=AdamW()
        ),
    )  # fmt: skip


def elmo_tiny() -> Recipe:
    mini = elmo_mini()
    return replace(
        mini,
        name="elmo-tiny",
        architecture=mini.architecture.with_settings(
            width=128, cell=128, filters=((1, 8), (2, 16), (3, 32), (4, 64)), highways=1
        ),
    )  # fmt: skip
