"""LSTM language models (Zaremba et al., 2014) with tied embeddings (Press and Wolf, 2017): the baseline."""

from dataclasses import replace

from plmkit.architectures.recurrent import Recurrent
from plmkit.corruption.arrange.stream import ParallelStreams
from plmkit.objectives.causal_lm import CausalLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW, Momentum
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.byte_bpe import StreamByteBPE
from plmkit.tokenizers.counted import Words

NOTES = (
    "Input and output embeddings are tied (Press and Wolf, 2017), and the learning rate follows a cosine; in the paper "
    "they are not tied, and the learning rate is reduced after every epoch from the seventh on."
)

FOR_MINUTES = for_minutes(
    "size", "batch", "learning rate", "warm-up", "optimizer", "clipping", "dropout", "length", "vocabulary"
)


def lstm_medium() -> Recipe:
    """LSTM: predict the next word from the recurrent state (Zaremba et al., 2014)."""
    return Recipe(
        name="lstm-medium",
        paper="arXiv:1409.2329",
        summary="Predict the next token from the recurrent state of a two-layer LSTM.",
        notes=NOTES,
        vocabulary=10_000,
        tokenizer=Words(size=10_000, punctuation=False),  # 4.1: Penn Treebank
        streams=one_stream(ParallelStreams()),
        architecture=Recurrent(layers=2, width=650, dropout=0.5, initial_range=0.05),  # 4.1
        objectives=(CausalLM(),),
        stages=(Stage(length=35),),
        schedule=Schedule(
            steps=51_753,  # 39 epochs of 1327 steps
            batch=20,
            learning_rate=1.0,
            warmup=0.0,
            shape="cosine",
            clip=5.0,
            optimizer=Momentum(momentum=0.0),
        ),
    )


def lstm_large() -> Recipe:
    medium = lstm_medium()
    return replace(
        medium,
        name="lstm-large",
        architecture=Recurrent(layers=2, width=1500, dropout=0.65, initial_range=0.04),  # 4.1
        schedule=replace(medium.schedule, steps=72_985, clip=10.0),  # 55 epochs
    )


def lstm_mini() -> Recipe:
    """Two layers with settings for runs of minutes; works with any tokenizer: words, pieces or characters."""
    return replace(
        lstm_medium(),
        name="lstm-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        vocabulary=8_000,
        tokenizer=StreamByteBPE(size=8_000),
        architecture=Recurrent(layers=2, width=512, max_length=128, dropout=0.0, initial_range=0.05),
        stages=(Stage(length=128),),
        schedule=Schedule(steps=10_000, batch=8, learning_rate=2e-3, warmup=0.05, shape="cosine", optimizer=AdamW()),
    )


def lstm_tiny() -> Recipe:
    mini = lstm_mini()
    return replace(mini, name="lstm-tiny", architecture=mini.architecture.with_settings(width=128))
