"""The fine-tunings of task_table with transformers' Trainer: the same rows, batches, learning rate and epochs.

Each kind is trained as the library's example script of it trains (run_glue, run_ner, run_qa, run_swag), from the same
folder, and its predictions are scored by our own scorer of the kind. Rows of mixed length are grouped, which
the scripts leave to the user. `slots` and `rank` have no example script, and so no column of theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.loops import sampling
from benchmarks.task_encoding import ENCODERS, Encoded
from plmkit.data.reading.columns import Search
from plmkit.tasks.contract import Row
from plmkit.tasks.registry import find_kind
from plmkit.tasks.rows import read_labelled

CLASSES = {  # by kind: those of the library's example scripts
    "classify": "AutoModelForSequenceClassification",
    "pair": "AutoModelForSequenceClassification",
    "nli": "AutoModelForSequenceClassification",
    "regress": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "qa": "AutoModelForQuestionAnswering",
    "choose": "AutoModelForMultipleChoice",
}
THEIRS = tuple(CLASSES)
DROPOUT = {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "classifier_dropout_prob"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What every seed is trained on, and how."""

    task: Any
    model: Path
    rows: dict[str, list[Row]]
    settings: dict[str, Any]  # of our run
    length: int


def read_parts(kind: str, files: dict[str, Path]) -> tuple[Any, dict[str, list[Row]]]:
    """The task as its training rows determine it, and all rows."""
    task: Any = find_kind(kind)()
    rows = {part: read_labelled(path, task, Search(), lambda text: None).rows for part, path in files.items()}
    return task.learn(rows["train"], files["train"]), rows


def train_theirs(kind: str, model: Path, files: dict[str, Path], ours: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Scores of every seed, as `plm finetune --json` gives them."""
    task, rows = read_parts(kind, files)
    case = Case(task=task, model=model, rows=rows, settings=ours["task"], length=ours["tasks"][0]["length"])
    return {"seeds": [one_seed(case, seed) for seed in range(seeds)]}


def one_seed(case: Case, seed: int) -> dict[str, Any]:
    """The epoch that is best on dev, scored on test."""
    import torch
    import transformers
    from torch.utils.data import SequentialSampler
    from transformers import AutoTokenizer, Trainer, TrainingArguments, set_seed

    class RowsInOrder(Trainer):
        """A Trainer that groups rows by length predicts them in another order, too."""

        def _get_eval_sampler(self, eval_dataset: Any) -> Any:
            return SequentialSampler(eval_dataset)

    set_seed(seed)
    torch.set_num_threads(1)
    task, settings = case.task, case.settings
    tokenizer = AutoTokenizer.from_pretrained(case.model)
    encode = ENCODERS.get(task.kind, ENCODERS["classify"])
    parts = {name: encode(task, rows, tokenizer, case.length) for name, rows in case.rows.items()}
    outputs = {} if task.kind in ("qa", "choose") else {"num_labels": max(1, len(task.classes))}
    # since version 5 the library computes in the type of the stored weights
    config = transformers.AutoConfig.from_pretrained(case.model, **outputs)
    for name in DROPOUT & vars(config).keys():
        setattr(config, name, settings["dropout"])
    cls = getattr(transformers, CLASSES[task.kind])
    network = cls.from_pretrained(case.model, config=config, dtype=torch.float32)
    steps = settings["epochs"] * -(-len(parts["train"].inputs) // settings["batch"])
    optimizer = settings["optimizer"]
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, seed=seed, num_train_epochs=settings["epochs"], learning_rate=settings["learning_rate"],
            per_device_train_batch_size=settings["batch"], per_device_eval_batch_size=64,
            warmup_steps=round(settings["warmup"] * steps), weight_decay=settings["decay"],
            adam_beta1=optimizer["beta1"], adam_beta2=optimizer["beta2"], adam_epsilon=optimizer["epsilon"],
            max_grad_norm=settings["clip"] or 0.0, lr_scheduler_type="linear", **sampling(task.kind != "choose"),
            eval_strategy="epoch", save_strategy="epoch", label_names=parts["dev"].labels,
            save_total_limit=1, load_best_model_at_end=True, metric_for_best_model=task.measure, greater_is_better=True,
            report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        trainer = RowsInOrder(
            model=network, args=arguments, train_dataset=parts["train"].inputs, eval_dataset=parts["dev"].inputs,
            data_collator=collator_of(task.kind, tokenizer), compute_metrics=scores_of(task, parts["dev"]),
            compute_loss_func=choice_loss if task.kind == "choose" else None,
        )  # fmt: skip
        trainer.train()
        trainer.compute_metrics = scores_of(task, parts["test"])
        found = trainer.evaluate(parts["test"].inputs)
    return {"seed": seed, "test": {name.removeprefix("eval_"): value for name, value in found.items()}}


def collator_of(kind: str, tokenizer: Any) -> Callable[[list[dict[str, Any]]], Any]:
    """Rows padded to the longest of the batch."""
    from transformers import DataCollatorForMultipleChoice, DataCollatorForTokenClassification, DataCollatorWithPadding

    if kind == "choose":
        collate = DataCollatorForMultipleChoice(tokenizer)
        return lambda rows: collate([dict(row) for row in rows])  # it takes the labels out of the rows that it gets
    return DataCollatorForTokenClassification(tokenizer) if kind == "tag" else DataCollatorWithPadding(tokenizer)


def choice_loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    """Cross-entropy over the choices that a row has; run_swag knows rows of four only."""
    from torch.nn.functional import cross_entropy

    missing = labels < 0
    return cross_entropy(outputs.logits.masked_fill(missing, -1e4), labels.argmax(-1))


def scores_of(task: Any, part: Encoded) -> Callable[[Any], dict[str, float]]:
    """The scores of our own scorer for the Trainer's predictions."""

    def scores(found: Any) -> dict[str, float]:
        own = task.score(part.decide(found.predictions), part.rows)
        return {name: float(value) for name, value in own.items() if isinstance(value, float | np.floating)}

    return scores
