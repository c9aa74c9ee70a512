"""Ten steps of every family and of every way to fine-tune, compared with the numbers that losses.json has.

A change that is not meant to change training must keep them. One that is meant to records them again with

    python -m pytest tests/golden --record

(`-k NAME` for some of them), and its commit says in a sentence why they moved.

On one machine the numbers repeat exactly. Between instruction sets (AVX-512, AVX2, SSE 4.2) they were seen to differ by
1e-5 at most, so that 1e-4 holds elsewhere and changed arithmetic does not pass. Vectors counted from the corpus are
less certain: their decomposition turns the last bits into 4e-4, so that one run alone begins from them.
"""

import json
from pathlib import Path

import pytest
from made_shapes import write_shapes
from made_text import write_corpus, write_pairs
from recorded import compare, record, recorded, series_of

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.machine import Machine, settle
from plmkit.schedules.optimizers import Adadelta, Momentum
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.registry import find_kind
from plmkit.tasks.settings import TaskSettings
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

STEPS = 10
MACHINE = {"threads": 1, "device": "cpu", "dtype": "float32", "log_steps": 1}
SHRUNK = {
    "layers": 2, "heads": 2, "width": 32, "inner": 64, "embedding": 16, "max_length": 64, "memory": 24, "band": 8,
}  # fmt: skip
TOLERANCE, COUNTED_TOLERANCE = 1e-4, 2e-3
COUNTED = "bert-from-counts"
AS_THEY_ARE = (  # a family's smallest recipe, without dropout, and one of its paper, with dropout and its optimizer
    "bert-tiny", "bert-base", "bert-wwm-mini", "bert-wwm-chinese", "distilbert-mini",
    "roberta-tiny", "roberta-base", "spanbert-mini",
    "spanbert-base", "ernie-mini", "ernie-1.0", "ernie2-tiny", "ernie2-base", "albert-tiny", "albert-base",
    "electra-tiny", "electra-tiny-adversarial", "electra-tiny-weighted", "electra-small", "gpt1-tiny", "gpt1",
    "gpt2-tiny", "gpt2-small", "gpt3-tiny", "gpt3-125m", "char-transformer-tiny", "char-transformer-12l",
    "transformer-xl-tiny", "transformer-xl-enwik8", "lstm-tiny", "lstm-medium", "xlnet-tiny", "xlnet-base",
    "transformer-tiny", "transformer-base", "elmo-tiny", "rnn-tiny", "sutskever", "rnn-attention-tiny",
    "bahdanau", "luong-feeding",
)  # fmt: skip
DIALOGUES = (
    "corruption=[DialogueAndText, UnitMasking]",
    "corruption.dialogues=[2]",
    "objectives=[MaskedLM, RealDialogue]",
)
SMALL_IMAGES = ("architecture.cell=48", "architecture.features=16", "architecture.image_size=32")
SMALL_REGIONS = ("architecture.features=16", "architecture.image_size=32", "architecture.patch_size=8")
SMALL_STREAMS = ("architecture.visual_width=32", "architecture.visual_inner=32", "architecture.joint_width=32")
PRETRAINED: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (name, ()) for name in AS_THEY_ARE},
    COUNTED: ("bert-tiny", ("initialisation.cooccurrence_embeddings=true",)),
    "bert-some-rows-at-once": ("bert-base", ("run.micro_batch=3",)),
    "elmo-original": ("elmo-original", ("architecture.cell=48", "architecture.filters=[[1, 8], [3, 16]]")),
    "caption-tiny": ("caption-tiny", SMALL_IMAGES),
    "caption-base": ("caption-base", SMALL_IMAGES),
    "visualbert-tiny": ("visualbert-tiny", SMALL_REGIONS),
    "vilbert-tiny": ("vilbert-tiny", (*SMALL_REGIONS, *SMALL_STREAMS)),
    "ernie-dialogues": ("ernie-1.0", DIALOGUES),
    "transformer-xl-wt103": ("transformer-xl-wt103", ("architecture.cutoffs=[10, 20, 40]",)),
    "transformer-xl-wt103-large": ("transformer-xl-wt103-large", ("architecture.cutoffs=[10, 20]",)),
}
FINETUNED = [
    *((model, kind) for model in ("bert-base", "gpt1") for kind in ("classify", "paraphrase", "similarity", "choose")),
    ("roberta-base", "classify"),
    ("xlnet-base", "classify"),
    ("albert-base", "nli"),
    ("electra-small", "regress"),
    ("lstm-medium", "pair"),
    ("elmo-tiny", "classify"),
]


def settings_of(name: str) -> list[str]:
    """The recipe of that case as it is, but small: rows of 24 and 32 tokens, two layers of width 32."""
    recipe = find(PRETRAINED[name][0])
    stages = [[stage.until, 32 if stage.length == recipe.max_length else 24] for stage in recipe.stages]
    given = {f"architecture.{key}": value for key, value in SHRUNK.items() if getattr(recipe.architecture, key, None)}
    given |= {"tokenizer.size": 300, "schedule.batch": 8, "stages": json.dumps(stages)}
    if not isinstance(recipe.schedule.optimizer, Momentum | Adadelta):
        given["schedule.learning_rate"] = 3e-3  # ten steps at the paper's rate would change next to nothing
    if recipe.initialisation.cooccurrence_embeddings:
        given["initialisation.cooccurrence_embeddings"] = "false"
    given |= {f"run.{key}": value for key, value in MACHINE.items()} | {"run.valid_share": 0.05}
    return [*(f"{key}={value}" for key, value in given.items()), *PRETRAINED[name][1]]


@pytest.fixture(scope="session")
def corpora(made: Path) -> tuple[Path, Path]:
    """Two files: documents, and others that are read as dialogues where a case has them."""
    return write_corpus(made / "golden.txt", 90, seed=0), write_corpus(made / "dialogues.txt", 40, seed=1)


@pytest.fixture(scope="session")
def run_of(made: Path, corpora: tuple[Path, Path]):
    """The run folder of a case, made once."""

    def folder(name: str) -> Path:
        out = made / "golden" / name
        if not out.exists():
            settings = settle(find(PRETRAINED[name][0]), settings_of(name))
            texts = corpora if "dialogues" in name else corpora[:1]
            if settings.recipe.architecture.translates:
                texts = (write_pairs(made / "pairs.tsv", 200, seed=2),)
            if settings.recipe.architecture.reads_images:
                texts = (made / "golden_shapes" / "captions.jsonl",)
                if not texts[0].exists():
                    write_shapes(texts[0].parent, 60, seed=3)
            files = tuple(map(str, texts))
            pretrain(PretrainRequest(settings=settings, corpora=files, out=out, budget=Budget(steps=STEPS)), Screen())
        return out

    return folder


def task_rows(path: Path, kind: str) -> Path:
    """Forty rows of a kind of task: ten steps of four."""
    rows = []
    for number in range(4 * STEPS):
        text, other = f"the {'cat' if number % 3 else 'dog'} sees it.", f"a bird likes the sea {number % 4}."
        single, numeric = kind in ("classify", "regress"), kind in ("similarity", "regress")
        row = {"text": text} if single else {"text_a": text, "text_b": other}
        row["label"] = number % 5 / 2 if numeric else ("good", "bad", "bad")[number % 3]
        if kind == "choose":
            row = {
                "context": text,
                "question": "who sees it?",
                "choices": ["cat", "a dog", "bird"],
                "label": number % 2,
            }
        rows.append(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def check(name: str, folder: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--record", default=False):
        record(name, series_of(folder))
    else:
        compare(name, series_of(folder), COUNTED_TOLERANCE if name == COUNTED else TOLERANCE)


@pytest.mark.parametrize("name", PRETRAINED)
def test_pretraining_has_the_losses_recorded(name, run_of, request):
    check(name, run_of(name), request)


@pytest.mark.parametrize(("model", "kind"), FINETUNED)
def test_fine_tuning_has_the_losses_recorded(model, kind, run_of, tmp_path, request):
    order = FinetuneRequest(
        model=run_of(model), task=find_kind(kind)(), train=task_rows(tmp_path / "rows.jsonl", kind), dev=None,
        test=None, out=tmp_path / "task", machine=Machine(**MACHINE),
        settings=TaskSettings(
            epochs=1, batch=4, learning_rate=3e-3, dropout=0.1, optimizer=find(model).tuning.optimizer
        ),
    )  # fmt: skip
    finetune(order, Screen())
    check(f"{model} {kind}", order.out, request)


def test_every_family_is_recorded_and_nothing_else():
    families = {CATALOGUE[recipe]().paper for recipe, _ in PRETRAINED.values()}
    assert families >= {make().paper for name, make in CATALOGUE.items() if name.endswith(("-tiny", "-mini"))}
    assert set(recorded()) == {*PRETRAINED, *(f"{model} {kind}" for model, kind in FINETUNED)}
