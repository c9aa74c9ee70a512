"""GPT-2 (Radford et al., 2019; openai/gpt-2)."""

from dataclasses import replace

from plmkit.architectures.decoder import Decoder
from plmkit.corruption.arrange.stream import Stream
from plmkit.objectives.causal_lm import CausalLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage, Tuning
from plmkit.tokenizers.byte_bpe import StreamByteBPE

NOTES = (
    "Batch, sequence length, network and vocabulary are the paper's. Learning rate, warm-up, decay and steps were "
    "never published; these are those of the GPT-3 model of the same size (Brown et al., 2020, B)."
)
FOR_MINUTES = for_minutes("size", "batch", "learning rate", "warm-up", "optimizer", "dropout", "length", "vocabulary")
TUNING = Tuning(
    learning_rate=6.25e-5, warmup=0.002, shape="linear_product", optimizer=AdamW()
)  # Radford et al., 2018, 4.1


def gpt2_small() -> Recipe:
    """GPT-2: predict the next token with a pre-norm decoder (Radford et al., 2019)."""
    return Recipe(
        name="gpt2-small",
        paper="Radford et al., 2019",
        summary="Predict the next token; byte-level BPE, pre-norm blocks.",
        notes=NOTES,
        vocabulary=50_257,
        tokenizer=StreamByteBPE(size=50_257),  # 2.2
        streams=one_stream(Stream()),
        architecture=Decoder(layers=12, heads=12, width=768, inner=3072),  # 2.3, table 2
        objectives=(CausalLM(),),  # 2
        stages=(Stage(length=1024),),  # 2.3
        schedule=Schedule(
            steps=600_000,
            batch=512,  # 2.3
            learning_rate=6e-4,
            warmup=0.002,
            shape="cosine",
            optimizer=AdamW(beta2=0.95, epsilon=1e-8, decay=0.1),
        ),
        tuning=TUNING,  # GPT-1's: this model was used with prompts only
    )


def gpt2_medium() -> Recipe:
    return sized("gpt2-medium", Decoder(layers=24, heads=16, width=1024, inner=4096), learning_rate=3e-4)


def gpt2_large() -> Recipe:
    return sized("gpt2-large", Decoder(layers=36, heads=20, width=1280, inner=5120), learning_rate=2.5e-4)


def gpt2_xl() -> Recipe:
    return sized("gpt2-xl", Decoder(layers=48, heads=25, width=1600, inner=6400), learning_rate=2e-4)


def sized(name: str, architecture: Decoder, learning_rate: float) -> Recipe:
    small = gpt2_small()
    return replace(
        small, name=name, architecture=architecture, schedule=replace(small.schedule, learning_rate=learning_rate)
    )


def gpt2_mini() -> Recipe:
    """The network of Radford et al., 2019, at the size of bert-mini, with settings for runs of minutes."""
    return replace(
        gpt2_small(),
        name="gpt2-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=StreamByteBPE(size=8_000),
        architecture=Decoder(
            layers=4, heads=4, width=256, inner=1024, max_length=256, dropout=0.0, attention_dropout=0.0
        ),
        stages=(Stage(until=0.9, length=128), Stage(length=256)),  # the last stage trains the later positions
        schedule=Schedule(
            steps=10_000,
            batch=8,
            learning_rate=1e-3,
            warmup=0.05,
            shape="cosine",
            optimizer=AdamW(),
        ),
    )


def gpt2_tiny() -> Recipe:
    mini = gpt2_mini()
    return replace(
        mini, name="gpt2-tiny", architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512)
    )
