"""The demo: what pretraining is worth, shown on text that every reader already has."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from plmkit.catalogue import find
from plmkit.data.docstrings import docstring_task
from plmkit.errors import FolderError
from plmkit.files import cache_folder, write_json
from plmkit.loading import load
from plmkit.run import Machine, claim, read_run, settle
from plmkit.tasks.finetune import Order as TaskOrder
from plmkit.tasks.finetune import finetune
from plmkit.tasks.kinds import find_kind
from plmkit.tasks.rows import read_rows
from plmkit.tasks.settings import TaskSettings
from plmkit.training.loop import Budget
from plmkit.training.pretrain import Order, pretrain
from plmkit.training.progress import Screen

RECIPE = "bert-mini"
RESULTS = "demo.json"
SENTENCES = (
    "return a new [MASK] with the same shape as the input.",
    "raises an [MASK] if the argument is not a number.",
    "if the file does not [MASK], an error is raised.",
    "this function returns [MASK] if the two arrays are equal.",
    "the default [MASK] is none.",
)


def demo(out: Path, minutes: float, seed: int, screen: Screen) -> dict[str, Any]:
    """Pretrain, fine-tune with and without it, fill five blanks, and say where everything is."""
    begun = time.perf_counter()
    if (out / RESULTS).is_file():
        screen.say(f"{out} holds a finished demo; this is what it found. Name another --out to run one again.")
        return read_results(out / RESULTS)
    if not (out / "pretrained").is_dir():  # there is one where an earlier demo was stopped: it goes on
        claim(out)
    screen.say(f"1. Pretraining {RECIPE} for {minutes:g} minutes on the documentation of Python, torch and numpy.")
    order = Order(
        settings=settle(find(RECIPE), []),
        corpora=(),
        out=out / "pretrained",
        budget=Budget(seconds=60 * minutes),
        seed=seed,
    )
    about = pretrain(order, screen)
    if about["state"] != "finished":
        raise KeyboardInterrupt
    train, dev, test = docstring_task(cache_folder())
    scores = {}
    for number, (name, scratch) in enumerate((("pretrained", False), ("scratch", True)), start=2):
        kind = "the pretrained model" if not scratch else "the same network from random weights, as contrast"
        screen.say(f"{number}. Fine-tuning {kind}.")
        task = TaskOrder(
            model=out / "pretrained", kind=find_kind("classify"), train=train, dev=dev, test=test,
            out=out / f"task-{name}", task=TaskSettings(epochs=3, length=64, scratch=scratch),
            machine=Machine(), seed=seed,
        )  # fmt: skip
        earlier = read_run(task.out)
        done = earlier if earlier and earlier["state"] == "finished" else finetune(task, screen)
        scores[name] = done["result"]["test"]["accuracy"]
    model = load(out / "pretrained")
    blanks = [
        {"text": text, "answers": [(c.token, round(c.probability, 4)) for c in model.fill(text, top=4)[0]]}
        for text in SENTENCES
    ]
    told = {
        **scores,
        "margin": scores["pretrained"] - scores["scratch"],
        "commonest": commonest(train, test),
        "minutes": minutes,
        "held_out_loss": about["result"].get("valid/masked_lm"),
        "blanks": blanks,
        "seconds": round(time.perf_counter() - begun, 1),
        "out": str(out),
        "files": {
            "pretrained/": "the pretrained model: plm fill, plm embed, plm finetune and plm export take it",
            "task-pretrained/": "the fine-tuned model: plm predict and plm evaluate take it",
            "task-scratch/": "its contrast, from random weights",
            RESULTS: "these results",
        },
    }
    write_json(out / RESULTS, told)
    return told


def read_results(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FolderError(f"{path} cannot be read: {error}. Remove it, or name another --out.") from error


def commonest(train: Path, test: Path) -> float:
    """Accuracy of always giving the commonest training label."""
    label = Counter(row.label for row in read_rows(train, paired=False)).most_common(1)[0][0]
    rows = read_rows(test, paired=False)
    return sum(row.label == label for row in rows) / len(rows)
