"""The demo: what pretraining is worth, shown on text that every reader already has."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from plmkit.catalogue import find
from plmkit.config.machine import Machine, settle
from plmkit.demo.docstrings import docstring_task
from plmkit.errors import FolderError
from plmkit.inference.loading import Parts, model_of, network_of, read_parts
from plmkit.inference.model import Model
from plmkit.language import tr
from plmkit.storage.files import cache_folder, write_json
from plmkit.tasks.contract import Row
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.rows import read_rows
from plmkit.tasks.settings import TaskSettings
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import weights_of
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest
from plmkit.training.run_folder import RunFolder
from plmkit.training.watch import METRICS

RECIPE = "bert-tiny"
SETTINGS = ("tokenizer.size=6000", "stages=[[1.0, 64]]")  # to make the most of two minutes
RESULTS = "demo.json"
TOKENS = 1_200_000  # of pretraining, if time allows: about the same model on every machine
TASK = TaskSettings(epochs=16, length=64, pooling="mean", dev_share=0)
SENTENCES = {  # and the word that is masked in each
    "the client sends a request and the [MASK] sends a response.": "server",
    "axis (int, [MASK]): the axis along which to sum.": "optional",
    "a [MASK] of strings.": "list",
    "an int or [MASK] of ints.": "tuple",
    "return true [MASK] the string is a digit.": "if",
}
WORDS = ("maximum", "server", "rows", "month", "left", "encoder")


def demo(out: Path, minutes: float, seed: int, screen: Screen) -> dict[str, Any]:
    """Pretrain, fine-tune with and without it, fill blanks, find neighbours, and list the files."""
    started = time.perf_counter()
    if (out / RESULTS).is_file():
        screen.say(
            tr("{out} holds a finished demo; these are its results. Name another --out to run it again.", out=out)
        )
        return read_results(out / RESULTS)
    if not (out / "pretrained").is_dir():  # otherwise an interrupted demo continues
        RunFolder(out).claim()
    screen.say(
        tr(
            "1. Pretraining {recipe} on the documentation of Python, torch and numpy that is on this machine: "
            "{tokens:,} tokens, at most {minutes:g} minutes.",
            recipe=RECIPE,
            tokens=TOKENS,
            minutes=minutes,
        )
    )
    request = PretrainRequest(
        settings=settle(find(RECIPE), SETTINGS),
        corpora=(),
        out=out / "pretrained",
        budget=Budget(tokens=TOKENS, seconds=60 * minutes),
        seed=seed,
    )
    record = pretrain(request, screen)
    if not record.is_finished:
        raise KeyboardInterrupt
    train, test = docstring_task(cache_folder())
    scores = {}
    for number, (name, scratch) in enumerate((("pretrained", False), ("scratch", True)), start=2):
        kind = tr("the pretrained model") if not scratch else tr("the same network from random weights, for comparison")
        screen.say(tr("{number}. Fine-tuning {kind}.", number=number, kind=kind))
        task = FinetuneRequest(
            model=out / "pretrained", task=Classify(), train=train, dev=None, test=test,
            out=out / f"task-{name}", settings=replace(TASK, scratch=scratch), machine=Machine(), seed=seed,
        )  # fmt: skip
        earlier = RunFolder(task.out).record
        done = earlier if earlier and earlier.is_finished else finetune(task, screen)
        scores[name] = done.result["test"]["accuracy"]
    parts = read_parts(out / "pretrained")
    results = {
        **scores,
        "margin": scores["pretrained"] - scores["scratch"],
        **baselines(read_rows(train, paired=False), read_rows(test, paired=False)),
        "pretraining": {name: record.result[name] for name in ("steps", "tokens", "seconds")},
        "held_out_loss": record.result.get("valid/masked_lm"),
        "losses": losses(out / "pretrained"),
        "blanks": blanks(model_of(parts), untrained(parts, seed)),
        "neighbours": neighbours(parts, WORDS),
        "seconds": round(time.perf_counter() - started, 1),
        "out": str(out),
        "files": {
            "pretrained/": tr("the pretrained model: plm fill, plm embed, plm finetune and plm export take it"),
            "task-pretrained/": tr("the fine-tuned model: plm predict and plm evaluate take it"),
            "task-scratch/": tr("the comparison, from random weights"),
            RESULTS: tr("these results"),
        },
    }
    write_json(out / RESULTS, results)
    return results


def read_results(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FolderError(
            tr("{path} cannot be read: {error}. Remove it, or name another --out.", path=path, error=error)
        ) from error


def baselines(train: Sequence[Row], test: Sequence[Row]) -> dict[str, Any]:
    """Accuracies without a network: the most frequent training label, and a linear model over TF-IDF."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    counts = Counter(row.label for row in train)
    majority = counts.most_common(1)[0][0]
    linear = make_pipeline(TfidfVectorizer(sublinear_tf=True), LinearSVC())
    linear.fit([row.text for row in train], [row.label for row in train])
    return {
        "labels": len(counts),
        "train_rows": len(train),
        "majority": sum(row.label == majority for row in test) / len(test),
        "linear": float(linear.score([row.text for row in test], [row.label for row in test])),
    }


def losses(run: Path) -> list[tuple[int, float]]:
    """Number of tokens and masked-LM loss, as the run logged them."""
    with open(run / METRICS, encoding="utf-8") as lines:
        logged = [json.loads(line) for line in lines]
    return [(line["tokens"], line["train/masked_lm"]) for line in logged if "train/masked_lm" in line]


def untrained(parts: Parts, seed: int) -> Model:
    """The same network with random weights."""
    torch.manual_seed(seed)
    return model_of(replace(parts, weights=weights_of(network_of(parts))))


def blanks(trained: Model, random: Model) -> list[dict[str, Any]]:
    """How both models fill each sentence, and the masked word."""
    return [
        {
            "text": text,
            "word": word,
            "answers": [(c.token, round(c.probability, 4)) for c in trained.fill(text, top=3)[0]],
            "untrained": [(c.token, round(c.probability, 4)) for c in random.fill(text, top=1)[0]],
        }
        for text, word in SENTENCES.items()
    ]


def neighbours(parts: Parts, words: Sequence[str], top: int = 5) -> dict[str, list[str]]:
    """The whole words whose token embeddings have the highest cosine similarity."""
    vocabulary = parts.tokenizer.vocabulary
    whole = [number for number, token in enumerate(vocabulary.tokens) if token.isalpha() and len(token) > 2]
    vectors = functional.normalize(parts.weights[parts.architecture.embedding_name][whole], dim=1)
    places = {vocabulary.tokens[number]: place for place, number in enumerate(whole)}
    found = {}
    for word in words:
        if word in places:
            similarity = vectors @ vectors[places[word]]
            best = similarity.topk(min(top + 1, len(whole))).indices.tolist()
            found[word] = [vocabulary.tokens[whole[place]] for place in best if place != places[word]][:top]
    return found
