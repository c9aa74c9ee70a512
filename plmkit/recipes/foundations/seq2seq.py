"""Recurrent encoder–decoders, without attention and with it."""

from dataclasses import replace

from plmkit.architectures.recurrent_seq2seq import BahdanauSeq2Seq, InputFeedingSeq2Seq, LuongSeq2Seq, RecurrentSeq2Seq
from plmkit.corruption.arrange.source_target import SourceTarget
from plmkit.objectives.translation_lm import TranslationLM
from plmkit.recipe import Recipe, one_stream
from plmkit.recipes.minutes import for_minutes
from plmkit.schedules.optimizers import Adadelta, AdamW, Momentum
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.counted import Words

FOR_MINUTES = (
    "size", "encoder directions", "batch", "learning rate", "warm-up", "schedule", "clipping", "optimizer", "dropout",
    "length", "vocabulary",
)  # fmt: skip


def sutskever() -> Recipe:
    """A source as one state of fixed size, from which the target is generated (Sutskever et al., 2014)."""
    return Recipe(
        name="sutskever",
        paper="arXiv:1409.3215",
        summary="Translate without attention: the decoder starts at the last state of the encoder.",
        notes="Source, target and output share one vocabulary and one embedding; in the paper each has its own. "
        "Sources are not reversed, and the learning rate is halved from the middle of the run on; the paper reverses "
        "them, and halves it in the last third.",
        vocabulary=80_000,
        tokenizer=Words(size=80_000, punctuation=False),  # 3.1
        streams=one_stream(SourceTarget()),
        architecture=RecurrentSeq2Seq(
            layers=4, width=1000, cell_type="lstm", bidirectional=False, dropout=0.0, initial_range=0.08
        ),  # 3.4
        objectives=(TranslationLM(smoothing=0.0),),
        stages=(Stage(length=100),),
        schedule=Schedule(  # 3.4
            steps=703_000,  # 7.5 epochs of 12 million pairs
            batch=128,
            learning_rate=0.7,
            warmup=0.0,
            shape="halving",
            clip=5.0,
            optimizer=Momentum(momentum=0.0),
        ),
    )


def bahdanau() -> Recipe:
    """RNNsearch: learn to align and to translate (Bahdanau et al., 2015)."""
    return Recipe(
        name="bahdanau",
        paper="arXiv:1409.0473",
        summary="Translate: each step attends to the source from the state before, and reads what it finds.",
        notes="Source, target and output share one vocabulary and one embedding; in the paper each has its own. The "
        "output layer is therefore as wide as an embedding, 620 instead of 500; the reset gate is applied after the "
        "product with the state instead of before, and initial weights are uniform.",
        vocabulary=30_000,
        tokenizer=Words(size=30_000, punctuation=False),  # 4.1
        streams=one_stream(SourceTarget()),
        architecture=BahdanauSeq2Seq(
            layers=1, width=2000, embedding=620, cell_type="gru", score="concat", dropout=0.0, initial_range=0.02
        ),  # 4.2, A.2.3: 1000 per direction
        objectives=(TranslationLM(smoothing=0.0),),
        stages=(Stage(length=50),),
        schedule=Schedule(  # 4.2, B
            steps=288_000,
            batch=80,
            learning_rate=1.0,
            warmup=0.0,
            shape="constant",
            clip=1.0,
            optimizer=Adadelta(rho=0.95, epsilon=1e-6),
        ),
    )


def luong() -> Recipe:
    """Global attention with four layers of LSTMs (Luong et al., 2015)."""
    return Recipe(
        name="luong",
        paper="arXiv:1508.04025",
        summary="Translate: each new state attends to the source, and predicts together with what it finds.",
        notes="Source, target and output share one vocabulary and one embedding; in the paper each has its own. "
        "Sources are not reversed, and there is no local attention.",
        vocabulary=50_000,
        tokenizer=Words(size=50_000, punctuation=False),  # 4.1
        streams=one_stream(SourceTarget()),
        architecture=LuongSeq2Seq(
            layers=4, width=1000, cell_type="lstm", bidirectional=False, score="general", dropout=0.2, initial_range=0.1
        ),  # 4.1
        objectives=(TranslationLM(smoothing=0.0),),
        stages=(Stage(length=50),),
        schedule=Schedule(  # 4.1
            steps=351_000,  # 10 epochs of 4.5 million pairs
            batch=128,
            learning_rate=1.0,
            warmup=0.0,
            shape="halving",
            clip=5.0,
            optimizer=Momentum(momentum=0.0),
        ),
    )


def luong_feeding() -> Recipe:
    """The same with input feeding: a step also reads the attentional state before (Luong et al., 2015, 3.3)."""
    base = luong()
    return replace(
        base,
        name="luong-feeding",
        summary="Translate: as luong, and each step also reads the attentional state of the one before.",
        architecture=InputFeedingSeq2Seq(**vars(base.architecture)),
    )


def rnn_mini() -> Recipe:
    """The network of Sutskever et al., 2014, with settings for runs of minutes: the baseline of rnn-attention-mini."""
    return replace(
        sutskever(),
        name="rnn-mini",
        notes=for_minutes(*FOR_MINUTES, "initial weights"),
        for_minutes=True,
        vocabulary=4_000,
        tokenizer=ByteBPE(size=4_000),
        architecture=RecurrentSeq2Seq(layers=1, width=256, cell_type="lstm", dropout=0.3, initial_range=0.1),
        stages=(Stage(length=128),),
        schedule=Schedule(
            steps=10_000, batch=32, learning_rate=4e-3, warmup=0.05, shape="linear_to_zero", optimizer=AdamW()
        ),
    )


def rnn_attention_mini() -> Recipe:
    """The network of Luong et al., 2015, with settings for runs of minutes."""
    mini, paper = rnn_mini(), luong()
    return replace(
        mini,
        name="rnn-attention-mini",
        notes=for_minutes(*FOR_MINUTES),
        paper=paper.paper,
        summary=paper.summary,
        architecture=LuongSeq2Seq(**vars(mini.architecture)),
    )


def rnn_tiny() -> Recipe:
    """Half as wide, with initial weights twice as large: benchmarks/README.md has the figures."""
    mini = rnn_mini()
    smaller = mini.architecture.with_settings(width=128, initial_range=0.2)
    return replace(mini, name="rnn-tiny", architecture=smaller)


def rnn_attention_tiny() -> Recipe:
    tiny = rnn_tiny()
    return replace(
        rnn_attention_mini(),
        name="rnn-attention-tiny",
        notes=tiny.notes,
        architecture=LuongSeq2Seq(**vars(tiny.architecture)),
    )
