"""GPT-3 (Brown et al., 2020)."""

from dataclasses import replace

from plmkit.architectures.decoder import BandedDecoder
from plmkit.corruption.arrange.stream import Stream
from plmkit.objectives.causal_lm import CausalLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.foundations.gpt2 import TUNING, gpt2_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.byte_bpe import StreamByteBPE

TOKENS = 300e9  # of training, for every size
LENGTH = 2048
NOTES = (
    "The width of the bands was never published; here it is 256 of 2048. The batch has its final size from the first "
    "step on, while the paper increases it over the first tokens."
)
FOR_MINUTES = for_minutes(
    "size", "batch", "learning rate", "warm-up", "schedule", "optimizer", "dropout", "length", "bands", "vocabulary"
)


def gpt3_125m() -> Recipe:
    """GPT-3: GPT-2 with every second layer locally banded, used with prompts only (Brown et al., 2020)."""
    return Recipe(
        name="gpt3-125m",
        paper="arXiv:2005.14165",
        summary="Predict the next token; alternating dense and banded layers, used with prompts.",
        notes=NOTES,
        vocabulary=50_257,
        tokenizer=StreamByteBPE(size=50_257),
        streams=one_stream(Stream()),
        architecture=BandedDecoder(layers=12, heads=12, width=768, inner=3072),  # 2.1, table 2.1
        objectives=(CausalLM(),),
        stages=(Stage(length=LENGTH),),
        schedule=spending(batch=256, learning_rate=6e-4),
        tuning=TUNING,  # GPT-1's: this model was used with prompts only
    )


def spending(batch: int, learning_rate: float) -> Schedule:
    """All tokens in batches of this number of rows (table 2.1, B)."""
    return Schedule(
        steps=round(TOKENS / (batch * LENGTH)),
        batch=batch,
        learning_rate=learning_rate,
        warmup=375e6 / TOKENS,
        shape="cosine_to_tenth",
        optimizer=AdamW(beta2=0.95, epsilon=1e-8, decay=0.1),
    )


def sized(name: str, layers: int, heads: int, width: int, batch: int, learning_rate: float) -> Recipe:
    return replace(
        gpt3_125m(),
        name=name,
        architecture=BandedDecoder(layers=layers, heads=heads, width=width, inner=4 * width),
        schedule=spending(batch, learning_rate),
    )


def gpt3_350m() -> Recipe:
    return sized("gpt3-350m", layers=24, heads=16, width=1024, batch=256, learning_rate=3e-4)


def gpt3_760m() -> Recipe:
    return sized("gpt3-760m", layers=24, heads=16, width=1536, batch=256, learning_rate=2.5e-4)


def gpt3_1_3b() -> Recipe:
    """The paper's table has 24 heads of 128, which do not add up to 2048; 16 heads do."""
    return sized("gpt3-1.3b", layers=24, heads=16, width=2048, batch=512, learning_rate=2e-4)


def gpt3_2_7b() -> Recipe:
    return sized("gpt3-2.7b", layers=32, heads=32, width=2560, batch=512, learning_rate=1.6e-4)


def gpt3_6_7b() -> Recipe:
    return sized("gpt3-6.7b", layers=32, heads=32, width=4096, batch=1024, learning_rate=1.2e-4)


def gpt3_13b() -> Recipe:
    """The paper's table has a width of 5140, which is not a multiple of 40 heads; 5120 is."""
    return sized("gpt3-13b", layers=40, heads=40, width=5120, batch=1024, learning_rate=1e-4)


def gpt3_175b() -> Recipe:
    return sized("gpt3-175b", layers=96, heads=96, width=12_288, batch=1600, learning_rate=0.6e-4)


def gpt3_mini() -> Recipe:
    """The layers of Brown et al., 2020, at the size of bert-mini, with settings for runs of minutes."""
    return replace(
        gpt3_125m(),
        name="gpt3-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=StreamByteBPE(size=8_000),
        architecture=BandedDecoder(
            layers=4, heads=4, width=256, inner=1024, max_length=256, band=32, dropout=0.0, attention_dropout=0.0
        ),
        stages=gpt2_mini().stages,
        schedule=gpt2_mini().schedule,
    )


def gpt3_tiny() -> Recipe:
    mini = gpt3_mini()
    return replace(
        mini, name="gpt3-tiny", architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512)
    )
