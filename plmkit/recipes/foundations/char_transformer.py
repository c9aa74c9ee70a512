"""The character Transformer (Al-Rfou et al., 2018)."""

from dataclasses import replace

from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.corruption.arrange.stream import Stream
from plmkit.objectives.causal_lm import AuxiliaryLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW, Momentum
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.byte_bpe import StreamByteBPE

NOTES = (
    "The code was never released: layers, widths, losses and their schedule are the paper's; the number of heads, the "
    "optimizer and dropout could not be verified. Tokens are the 256 bytes and an end-of-text token."
)

FOR_MINUTES = for_minutes(
    "size", "batch", "learning rate", "warm-up", "schedule", "optimizer", "clipping", "dropout", "length"
)


def char_transformer_64l() -> Recipe:
    """Character Transformer: position embeddings and losses at every layer (Al-Rfou et al., 2018)."""
    return Recipe(
        name="char-transformer-64l",
        paper="arXiv:1808.04444",
        summary="Predict the next byte, early in training from every layer, without context across rows.",
        notes=NOTES,
        vocabulary=256,
        tokenizer=StreamByteBPE(size=257),
        streams=one_stream(Stream()),
        architecture=CharacterDecoder(layers=64, heads=2, width=512, inner=2048),
        objectives=(AuxiliaryLM(),),
        stages=(Stage(length=512),),
        schedule=Schedule(
            steps=4_000_000,
            batch=16,
            learning_rate=0.003,
            warmup=0.0,
            shape="constant",
            clip=0.0,
            optimizer=Momentum(momentum=0.99),
        ),
    )


def char_transformer_12l() -> Recipe:
    return replace(
        char_transformer_64l(),
        name="char-transformer-12l",
        architecture=CharacterDecoder(layers=12, heads=2, width=512, inner=2048, dropout=0.2, attention_dropout=0.2),
    )


def char_transformer_mini() -> Recipe:
    """The network of Al-Rfou et al., 2018, at the size of bert-mini, with settings for runs of minutes."""
    return replace(
        char_transformer_64l(),
        name="char-transformer-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        architecture=CharacterDecoder(
            layers=4, heads=4, width=256, inner=1024, max_length=128, dropout=0.0, attention_dropout=0.0
        ),
        stages=(Stage(length=128),),
        schedule=Schedule(steps=10_000, batch=8, learning_rate=1e-3, warmup=0.05, shape="cosine", optimizer=AdamW()),
    )


def char_transformer_tiny() -> Recipe:
    mini = char_transformer_mini()
    return replace(
        mini,
        name="char-transformer-tiny",
        architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512),
    )
