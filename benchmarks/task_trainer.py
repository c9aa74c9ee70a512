"""The fine-tunings of task_table with transformers' Trainer: the same rows, batches, learning rate and epochs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.loops import sampling
from plmkit.data.reading.columns import Search
from plmkit.tasks.contract import Row
from plmkit.tasks.registry import find_kind
from plmkit.tasks.rows import read_labelled

THEIRS = ("classify", "pair", "nli", "regress", "tag")  # kinds that the library's examples have a script for
Rows = Sequence[Row]


def train_theirs(kind: str, model: Path, files: dict[str, Path], ours: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Scores of every seed, as `plm finetune --json` gives them."""
    task = find_kind(kind)()
    rows = {part: read_labelled(path, task, Search(), lambda text: None).rows for part, path in files.items()}
    task = task.learn(rows["train"], files["train"])
    runs = [one_seed(task, model, rows, ours["task"], ours["tasks"][0]["length"], seed) for seed in range(seeds)]
    return {"seeds": runs}


def one_seed(task: Any, model: Path, rows: dict[str, Rows], settings: dict[str, Any], length: int, seed: int) -> Any:
    """The epoch that is best on dev, scored on test."""
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(seed)
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tags = task.kind == "tag"
    outputs = max(1, len(task.classes))
    cls = AutoModelForTokenClassification if tags else AutoModelForSequenceClassification
    network = cls.from_pretrained(model, num_labels=outputs)
    encode = encoder_of(task, tokenizer, length)
    parts = {name: [encode(row) for row in some] for name, some in rows.items()}
    steps = settings["epochs"] * -(-len(parts["train"]) // settings["batch"])
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, seed=seed, num_train_epochs=settings["epochs"], learning_rate=settings["learning_rate"],
            per_device_train_batch_size=settings["batch"], per_device_eval_batch_size=64,
            warmup_steps=round(settings["warmup"] * steps), weight_decay=settings["decay"],
            max_grad_norm=settings["clip"] or 0.0, lr_scheduler_type="linear", **sampling(True),
            eval_strategy="epoch", save_strategy="epoch",
            save_total_limit=1, load_best_model_at_end=True, metric_for_best_model=task.measure, greater_is_better=True,
            report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        trainer = Trainer(
            model=network, args=arguments, train_dataset=parts["train"], eval_dataset=parts["dev"],
            data_collator=DataCollatorForTokenClassification(tokenizer) if tags else DataCollatorWithPadding(tokenizer),
            compute_metrics=metrics_of(task, rows["dev"]),
        )  # fmt: skip
        trainer.train()
        trainer.compute_metrics = metrics_of(task, rows["test"])
        found = trainer.evaluate(parts["test"])
    return {"test": {name.removeprefix("eval_"): value for name, value in found.items()}}


def encoder_of(task: Any, tokenizer: Any, length: int) -> Callable[[Row], dict[str, Any]]:
    """A row as the library's examples encode it; of a word, the first piece has the tag."""
    numbers = {name: number for number, name in enumerate(task.classes)}

    def tagged(row: Any) -> dict[str, Any]:
        words, tags = row.words, row.label
        made = dict(tokenizer(words, is_split_into_words=True, truncation=True, max_length=length))
        places, last = [], None
        for word in tokenizer(words, is_split_into_words=True, truncation=True, max_length=length).word_ids():
            places.append(-100 if word is None or word == last else numbers[tags[word]])
            last = word
        return {**made, "labels": places}

    def whole(row: Row) -> dict[str, Any]:
        texts = (row.text,) if row.other is None else (row.text, row.other)
        label = numbers[str(row.label)] if numbers else float(row.label)
        return {**tokenizer(*texts, truncation=True, max_length=length), "labels": label}

    return tagged if task.kind == "tag" else whole


def metrics_of(task: Any, rows: Rows) -> Callable[[Any], dict[str, float]]:
    """The scores of the same libraries as ours."""

    def of_tags(found: Any) -> dict[str, float]:
        from seqeval.metrics import f1_score

        best = np.argmax(found.predictions, -1)
        gold, predicted = [], []
        for labels, answers in zip(found.label_ids, best, strict=True):
            kept = labels != -100
            gold.append([task.classes[number] for number in labels[kept]])
            predicted.append([task.classes[number] for number in answers[kept]])
        pairs = [(a, b) for one, other in zip(gold, predicted, strict=True) for a, b in zip(one, other, strict=True)]
        return {"f1": float(f1_score(gold, predicted)), "accuracy": sum(a == b for a, b in pairs) / len(pairs)}

    def of_rows(found: Any) -> dict[str, float]:
        from scipy import stats

        if not task.classes:
            return {"pearson": float(stats.pearsonr(found.predictions[:, 0], found.label_ids).statistic)}
        return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}

    return of_tags if task.kind == "tag" else of_rows
