"""Examples to predictions, and predictions to scores."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch

from plmkit.data.vocabulary import Vocabulary
from plmkit.network import Network
from plmkit.tasks.batches import batch_of_examples
from plmkit.tasks.contract import Example, Prediction, Task
from plmkit.tasks.framing import by_length
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.scores import spread


@torch.inference_mode()
def predictions_of(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device,
    groups: Iterable[np.ndarray] | None = None,
) -> list[Prediction]:  # fmt: skip
    """The predictions of a network in evaluation mode, one per example; each of `groups` is one batch."""
    head = cast(TaskHead, network.heads[task.name])
    found: dict[int, Prediction] = {}
    for numbers in by_length(examples) if groups is None else groups:
        some = [examples[number] for number in numbers]
        batch = batch_of_examples(some, vocabulary, task.fixed_length).to(device)
        states = network.model(replace(batch, needed=head.needed(batch)))
        answers = head.answers(states, batch).float().cpu()
        found |= zip(numbers.tolist(), task.decide(answers, some), strict=True)
    return [found[number] for number in range(len(examples))]


def evaluate(
    network: Network, task: Task, examples: Sequence[Example], vocabulary: Vocabulary, device: torch.device
) -> dict[str, Any]:
    """The scores of a network on labelled examples."""
    network.eval()
    predictions = predictions_of(network, task, examples, vocabulary, device)
    return task.score(predictions, [example.row for example in examples])


def spreads(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of each score over the seeds."""
    out = {}
    for part in ("dev", "test"):
        scores = [
            {name: value for name, value in run[part].items() if isinstance(value, float)}
            for run in runs
            if part in run
        ]
        if scores:
            out[part] = spread(scores)
    return out
