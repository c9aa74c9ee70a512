"""GPT-1 (Radford et al., 2018; openai/finetune-transformer-lm)."""

from dataclasses import replace

from plmkit.architectures.decoder import PostNormDecoder
from plmkit.architectures.recurrent import Recurrent
from plmkit.corruption.arrange.stream import Stream
from plmkit.objectives.causal_lm import CausalLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.foundations.gpt2 import TUNING, gpt2_mini
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.word_end_bpe import WordEndBPE

STEPS = 3_000_000  # about 100 epochs of BooksCorpus in batches of 64 rows of 512
FOR_MINUTES = for_minutes("size", "batch", "learning rate", "warm-up", "dropout", "length", "vocabulary")


def gpt1() -> Recipe:
    """GPT-1: predict the next token, then fine-tune all weights (Radford et al., 2018)."""
    return Recipe(
        name="gpt1",
        paper="Radford et al., 2018",
        summary="Predict the next token; then fine-tune all weights, with language modelling as an auxiliary task.",
        vocabulary=40_478,
        tokenizer=WordEndBPE(size=40_478),  # 4.1
        streams=one_stream(Stream()),
        architecture=PostNormDecoder(layers=12, heads=12, width=768, inner=3072),  # 4.1
        objectives=(CausalLM(),),  # 3.1
        stages=(Stage(length=512),),
        schedule=Schedule(  # 4.1
            steps=STEPS,
            batch=64,
            learning_rate=2.5e-4,
            warmup=2_000 / STEPS,
            shape="cosine",
            optimizer=AdamW(decay=0.01),
        ),
        tuning=TUNING,
    )


def gpt1_mini() -> Recipe:
    """The network of Radford et al., 2018, at the size of bert-mini, with settings for runs of minutes."""
    return replace(
        gpt1(),
        name="gpt1-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=WordEndBPE(size=8_000),
        architecture=PostNormDecoder(
            layers=4, heads=4, width=256, inner=1024, max_length=256, dropout=0.0, attention_dropout=0.0
        ),
        stages=gpt2_mini().stages,
        schedule=gpt2_mini().schedule,
    )


def gpt1_tiny() -> Recipe:
    mini = gpt1_mini()
    return replace(
        mini, name="gpt1-tiny", architecture=mini.architecture.with_settings(layers=2, heads=2, width=128, inner=512)
    )


def gpt1_lstm() -> Recipe:
    """GPT-1 with an LSTM in place of the Transformer: the paper's baseline (5, table 5)."""
    return replace(
        gpt1(),
        name="gpt1-lstm",
        summary="GPT-1 with an LSTM: predict the next token from a recurrent state.",
        notes=(
            "Of the LSTM, the paper gives one layer of 2,048 units. Input and output embeddings are tied and as wide, "
            "the dropout rate is 0.1, and everything else is GPT-1's."
        ),
        architecture=Recurrent(layers=1, width=2048, dropout=0.1),
    )


def gpt1_lstm_mini() -> Recipe:
    mini = gpt1_mini()
    return replace(
        gpt1_lstm(),
        name="gpt1-lstm-mini",
        notes=FOR_MINUTES,
        for_minutes=True,
        tokenizer=mini.tokenizer,
        architecture=Recurrent(layers=1, width=512, max_length=256, dropout=0.0),
        stages=mini.stages,
        schedule=replace(mini.schedule, learning_rate=2e-3),
    )
