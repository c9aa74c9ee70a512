"""What many tests share: a tiny vocabulary, tiny corpora, tiny recipes."""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from made_shapes import write_shapes
from sentences import VERBS, sentence

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["PLM_LANG"] = "en"  # messages are compared in English, whatever the language of this machine
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the losses of this tree to tests/golden/losses.json")


@pytest.fixture(autouse=True, scope="session")
def in_float32() -> Iterator[None]:
    """Every machine computes in float32, also one whose processor is faster in bfloat16."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plmkit.training.device.bfloat16_gain", lambda *_: 1.0)
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is read from, or left in, the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PLM_CACHE", str(folder))
    monkeypatch.setattr("plmkit.training.device.available_cores", lambda: 1)  # two workers share two cores
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A text file of 60 documents of 3 to 8 simple sentences."""
    rng = random.Random(0)
    documents = ["\n".join(sentence(rng) for _ in range(rng.randint(3, 8))) for _ in range(60)]
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


# What follows is for tests that start from a trained model: made once in each worker, and only read from then on.

TINY = (
    "stages=[[1.0, 32]]", "architecture.max_length=64", "architecture.layers=2", "architecture.heads=2",
    "architecture.width=32", "architecture.inner=64", "tokenizer.size=300", "run.threads=1",
)  # fmt: skip
CHINESE = ("潮水退了，就知道谁没穿裤子。", "我的狗很可爱。", "企鹅不擅长飞行。", "醒醒吧，你没有妹妹。")


@pytest.fixture(scope="session")
def tiny_settings() -> list[str]:
    """Options that make any BERT tiny."""
    return [part for setting in TINY for part in ("--set", setting)]


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def plm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command line in this process: `plm("fill", folder, "a [MASK]")`."""
    from plmkit.cli import main

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["plm", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return Ran(stop.value.code, said.out, said.err)

    return run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of what the session makes once, with a cache of its own."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLM_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="session")
def mixed_corpus(made: Path) -> Path:
    """Sixty documents, English ones and Chinese ones."""
    rng = random.Random(1)
    english = ["\n".join(sentence(rng) for _ in range(rng.randint(3, 8))) for _ in range(50)]
    chinese = ["\n".join(rng.sample(CHINESE, 3)) for _ in range(10)]
    path = made / "mixed.txt"
    path.write_text("\n\n".join(english + chinese) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def pairs(made: Path) -> Path:
    """Four hundred sentences, and as the target of each its words in reverse order."""
    rng = random.Random(2)
    texts = [sentence(rng).rstrip(".") for _ in range(360)] + [rng.choice(CHINESE) for _ in range(40)]
    lines = (f"{text}\t{' '.join(reversed(text.split()))}" for text in texts)
    path = made / "pairs.tsv"
    path.write_text("\n".join(["source\ttarget", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def shapes(made: Path) -> Path:
    """A hundred pictures of coloured shapes, and a table of their captions."""
    return write_shapes(made / "shapes", 100, seed=0)[0]


@pytest.fixture(scope="session")
def pretrained(made: Path, mixed_corpus: Path) -> Path:
    """A run folder of a BERT of 2 layers of width 32 that has seen forty batches."""
    from plmkit.catalogue import find
    from plmkit.config.machine import settle
    from plmkit.terminal.screen import Screen
    from plmkit.training.loop import Budget
    from plmkit.training.pretrain import pretrain
    from plmkit.training.request import PretrainRequest

    settings = settle(find("bert-tiny"), TINY)
    out = made / "pretrained"
    pretrain(
        PretrainRequest(settings=settings, corpora=(str(mixed_corpus),), out=out, budget=Budget(steps=40)), Screen()
    )
    return out


def label_rows(path: Path, rows: int, seed: int) -> Path:
    """Sentences labelled by their verb: `good` if it is one of the first four."""
    rng = random.Random(seed)
    lines = ["text\tlabel"]
    for _ in range(rows):
        text = sentence(rng)
        lines.append(f"{text}\t{'good' if any(verb in text for verb in VERBS[:4]) else 'bad'}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def labelled() -> Callable[[Path, int, int], Path]:
    """Write a file of labelled rows: `labelled(path, rows, seed)`."""
    return label_rows


@pytest.fixture(scope="session")
def rows_file(made: Path) -> Path:
    return label_rows(made / "rows.tsv", 48, seed=3)


@pytest.fixture(scope="session")
def finetuned(made: Path, pretrained: Path, rows_file: Path) -> Path:
    """A run folder of that BERT, fine-tuned to tell good sentences from bad ones."""
    from plmkit.config.machine import Machine
    from plmkit.tasks.finetune import FinetuneRequest, finetune
    from plmkit.tasks.registry import find_kind
    from plmkit.tasks.settings import TaskSettings
    from plmkit.terminal.screen import Screen

    order = FinetuneRequest(
        model=pretrained, task=find_kind("classify")(), train=rows_file, dev=rows_file, test=None,
        out=made / "finetuned", settings=TaskSettings(epochs=2, batch=16, ngrams=False), machine=Machine(threads=1),
    )  # fmt: skip
    finetune(order, Screen())
    return order.out


@pytest.fixture(scope="session")
def hub_folder(made: Path, pretrained: Path) -> Path:
    """A Hugging Face folder that transformers wrote: random weights, and the tokenizer of `pretrained`."""
    from transformers import BertConfig, BertForPreTraining

    from plmkit.tokenizers.tokenizer import load_tokenizer

    folder = made / "hub"
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(load_tokenizer(pretrained).vocabulary) + 3, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=64, max_position_embeddings=48, initializer_range=0.5,
    )  # fmt: skip
    BertForPreTraining(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(pretrained / name, folder / name)
    return folder
