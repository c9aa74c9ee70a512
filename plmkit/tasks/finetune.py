"""From a pretrained model and labelled rows to a fine-tuned run folder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.encoder import EncoderModel
from plmkit.data.batch import Batch
from plmkit.data.randomness import generator
from plmkit.data.samples import Position
from plmkit.errors import FolderError, SettingError
from plmkit.files import write_json
from plmkit.loading import Parts, Task, label_head, read_parts
from plmkit.model import Model, Prediction
from plmkit.network import Network
from plmkit.run import FINETUNE, Machine, claim, read_run, write_run
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule
from plmkit.settings import to_json
from plmkit.tasks.framing import Framed, batch_of, frame_all
from plmkit.tasks.kinds import Kind
from plmkit.tasks.rows import Row, check_classes, check_trainable, classes_of, read_rows
from plmkit.tasks.scores import class_scores, confusion, number_scores, spread
from plmkit.tasks.settings import TaskSettings, rate_for
from plmkit.training.checkpoint import WEIGHTS, checksum, put_weights, weights_of
from plmkit.training.device import choose_device, choose_dtype, set_threads
from plmkit.training.log import Log
from plmkit.training.loop import Budget, Report, train
from plmkit.training.pretrain import interruptible, save_final
from plmkit.training.progress import Screen

ORDER = 5  # the purpose of these random numbers
LENGTH_STEP = 8


@dataclass(frozen=True, kw_only=True)
class Order:
    """What `plm finetune` was asked for."""

    model: Path
    kind: Kind
    train: Path
    dev: Path | None
    test: Path | None
    out: Path
    task: TaskSettings
    machine: Machine
    seed: int = 0
    seeds: int = 1


class LabelledRows:
    """Batches of labelled rows; their order is a pure function of (seed, epoch)."""

    def __init__(self, rows: list[Framed], labels: Tensor, parts: Parts, length: int | None, seed: int) -> None:
        self.rows, self.labels, self.vocabulary = rows, labels, parts.tokenizer.vocabulary
        self.length, self.seed = length, seed

    def next(self, position: Position, rows: int, length: int) -> tuple[Batch, Position]:
        if position.index >= len(self.rows):
            position = Position(epoch=position.epoch + 1)
        order = generator(self.seed, ORDER, position.epoch).permutation(len(self.rows))
        chosen = order[position.index : position.index + rows]
        batch = batch_of([self.rows[number] for number in chosen], self.vocabulary, self.length)
        after = replace(position, index=position.index + len(chosen))
        return replace(batch, labels=self.labels[torch.from_numpy(chosen)]), after


def finetune(order: Order, screen: Screen) -> dict[str, Any]:
    """Train once for each seed, keep the model that was best on dev, and score it."""
    parts = read_parts(order.model)
    train_rows, dev_rows, test_rows = read_files(order)
    classes = () if order.kind.numeric else classes_of(train_rows)
    for rows, path in ((dev_rows, order.dev), (test_rows, order.test)):
        if path and classes:
            check_classes(rows, classes, path)
    device = choose_device(order.machine.device)
    choose_dtype(device, order.machine.dtype)  # refuses what this machine has not
    set_threads(order.machine.threads)
    framed = frame_all([(row.text, row.other) for row in train_rows], parts.tokenizer, parts.encoder.longest)
    task = settle_task(order, classes, framed, parts)
    framed = frame_all([(row.text, row.other) for row in train_rows], parts.tokenizer, task.length)
    tell_cut(framed, task.length, screen)
    ready_folder(order.out)  # everything that can be wrong with the order has been looked at
    about = describe(order, parts, task)
    write_run(order.out, FINETUNE, {**about, "state": "unfinished"})
    parts.tokenizer.save(order.out)
    runs, best = [], None
    for seed in range(order.seed, order.seed + order.seeds):
        outcome = one_seed(order, parts, task, framed, train_rows, dev_rows, test_rows, seed, screen)
        runs.append(outcome.scores)
        if best is None or outcome.choice > best.choice:
            best = outcome
    assert best is not None
    result = {**best.scores, "seeds": runs, "spread": spreads(runs)}
    save_final(order.out, best.weights)
    write_json(order.out / "scores.json", result)
    about |= {"state": "finished", "result": result, "checksum": checksum(order.out / WEIGHTS)}
    write_run(order.out, FINETUNE, about)
    return about


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One seed's best epoch."""

    choice: float  # what epochs and seeds are chosen by
    scores: dict[str, Any]
    weights: dict[str, Tensor]


def read_files(order: Order) -> tuple[list[Row], list[Row], list[Row]]:
    kind = order.kind
    rows = [
        read_rows(path, paired=kind.paired, numeric=kind.numeric) if path else []
        for path in (order.train, order.dev, order.test)
    ]
    check_trainable(rows[0], order.train)
    return rows[0], rows[1], rows[2]


def ready_folder(out: Path) -> None:
    """A fine-tuning that was stopped is begun again; anything else in the folder is left alone."""
    about = read_run(out)
    if about is None:
        claim(out)
    elif about["kind"] != FINETUNE or about["state"] == "finished":
        raise FolderError(f"--out {out} holds a finished {about['kind']} run. Name another folder.")


def settle_task(order: Order, classes: tuple[str, ...], framed: list[Framed], parts: Parts) -> Task:
    """Rows as long as the training rows need, unless a length is set."""
    longest = parts.encoder.longest
    if order.task.length and order.task.length > longest:
        raise SettingError(f"task.length={order.task.length}, but {order.model} reads {longest} tokens at most.")
    needed = -(-max(len(row.tokens) for row in framed) // LENGTH_STEP) * LENGTH_STEP
    length = order.task.length or min(needed, longest)
    return Task(kind=order.kind, classes=classes, pooling=order.task.pooling, length=length)


def tell_cut(framed: Sequence[Framed], length: int, screen: Screen) -> None:
    if cut := sum(row.cut > 0 for row in framed):
        screen.say(
            f"{cut:,} of {len(framed):,} texts are longer than {length} tokens and lose their tail "
            "(of a pair, the longer text loses first)."
        )


def describe(order: Order, parts: Parts, task: Task) -> dict[str, Any]:
    encoder = replace(parts.encoder, dropout=order.task.dropout, attention_dropout=order.task.dropout)
    return {
        "model": str(order.model),
        "task_kind": order.kind.name,
        "task": to_json(order.task),
        "run": to_json(order.machine),
        "architecture": to_json(encoder),
        "classes": list(task.classes),
        "length": task.length,
        "files": {name: str(path) if (path := getattr(order, name)) else None for name in ("train", "dev", "test")},
        "seed": order.seed,
    }


def build(order: Order, parts: Parts, task: Task, seed: int) -> Network:
    """The pretrained encoder, bit for bit, under a new head; or all of it random."""
    torch.manual_seed(seed)
    settings = replace(parts.encoder, dropout=order.task.dropout, attention_dropout=order.task.dropout)
    model = EncoderModel(settings, parts.vocabulary_size)
    network = Network(model, {"label": label_head(settings, task, order.task.dropout)}, {"label": 1.0})
    if not order.task.scratch:
        own = network.state_dict()
        mine = {name: tensor for name, tensor in parts.weights.items() if name.startswith("model.")}
        put_weights(network, own | mine, parts.folder / WEIGHTS)
    return network


def one_seed(
    order: Order, parts: Parts, task: Task, framed: list[Framed], train_rows: list[Row],
    dev_rows: list[Row], test_rows: list[Row], seed: int, screen: Screen,
) -> Outcome:  # fmt: skip
    device = choose_device(order.machine.device)
    network = build(order, parts, task, seed).to(device)
    steps_per_epoch = -(-len(framed) // order.task.batch)
    steps = max(1, round(order.task.epochs * steps_per_epoch))
    schedule = Schedule(
        steps=steps,
        batch=order.task.batch,
        lengths=((1.0, task.length),),
        rate=order.task.rate or rate_for(parts.encoder.width),
        warmup=order.task.warmup,
        shape="linear_after_warmup",
        clip=order.task.clip,
    )
    optimizer = optimizer_of(network, order.task, schedule.rate, parts.encoder.layers)
    labels = labels_of(train_rows, task)
    fixed = task.length if task.pooling == "concat" else None
    source = LabelledRows(framed, labels, parts, fixed, seed)
    model = Model(
        network=network, encoder=parts.encoder, tokenizer=parts.tokenizer, folder=order.out,
        kind=task.kind, classes=task.classes, longest=task.length, device=device,
    )  # fmt: skip
    best: list[Outcome] = []
    name = f"seed {seed}" if order.seeds > 1 else "fine-tuning"
    budget = Budget(steps=steps)
    with Log(order.out, 0 if seed == order.seed else 10**9) as log, interruptible() as interrupted:
        with screen.training(name) as bar:
            losses: list[float] = []

            def watch(report: Report) -> bool:
                losses.append(report.losses["label"])
                step = report.state.step
                if step % order.machine.log_steps == 0 or step == steps:
                    recent = sum(losses) / len(losses)
                    log.write(step, {f"train/{seed}/loss": round(recent, 5), "rate": report.rate})
                    bar(report, {"loss": recent}, report.state.tokens / report.state.seconds, {})
                    losses.clear()
                if step % steps_per_epoch == 0 or step == steps:
                    keep_best(best, model, dev_rows, order, task, log, seed, step)
                    network.train()
                return not interrupted()

            train(
                network, source, optimizer, schedule, budget, watch,
                seed=seed, device=device, dtype=choose_dtype(device, order.machine.dtype),
                rows_at_once=order.machine.rows_at_once,
            )  # fmt: skip
        if interrupted():
            raise KeyboardInterrupt
    outcome = best[0]
    network.load_state_dict(outcome.weights)
    network.eval()
    scores = {"seed": seed, **outcome.scores}
    if test_rows:
        scores["test"] = evaluate_rows(model, test_rows, task)
    return replace(outcome, scores=scores)


def keep_best(
    best: list[Outcome],
    model: Model,
    dev_rows: list[Row],
    order: Order,
    task: Task,
    log: Log,
    seed: int,
    step: int,
) -> None:
    """After an epoch: score on dev, and remember the weights if they are the best so far (the last, without dev)."""
    scores: dict[str, Any] = {}
    choice = float(step)
    if dev_rows:
        scores["dev"] = evaluate_rows(model, dev_rows, task)
        choice = scores["dev"][order.kind.score]
        numbers = {name: value for name, value in scores["dev"].items() if isinstance(value, float)}
        log.write(step, {f"dev/{seed}/{name}": value for name, value in numbers.items()})
    if not best or choice > best[0].choice:
        weights = {name: tensor.cpu().clone() for name, tensor in weights_of(model.network).items()}
        best[:] = [Outcome(choice=choice, scores={**scores, "step": step}, weights=weights)]


def labels_of(rows: Sequence[Row], task: Task) -> Tensor:
    if task.kind.numeric:
        return torch.tensor([row.label for row in rows], dtype=torch.float32)
    numbers = {name: number for number, name in enumerate(task.classes)}
    return torch.tensor([numbers[str(row.label)] for row in rows])


def evaluate_rows(model: Model, rows: Sequence[Row], task: Task) -> dict[str, Any]:
    model.network.eval()
    return scores_of(model.predict([pair_of(row) for row in rows]), rows, task.kind, task.classes)


def pair_of(row: Row) -> str | tuple[str, str]:
    return row.text if row.other is None else (row.text, row.other)


def scores_of(
    predictions: Sequence[Prediction], rows: Sequence[Row], kind: Kind, classes: tuple[str, ...]
) -> dict[str, Any]:
    """The scores of the task's kind; for classes, who was taken for whom as well."""
    if kind.numeric:
        return number_scores([float(p.label) for p in predictions], [float(row.label or 0) for row in rows])
    numbers = {name: number for number, name in enumerate(classes)}
    predicted = [numbers[str(p.label)] for p in predictions]
    gold = [numbers[str(row.label)] for row in rows]
    scores: dict[str, Any] = class_scores(predicted, gold, classes)
    return {**scores, "rows": len(rows), "confusion": confusion(predicted, gold, classes)}


def spreads(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and deviation of each score over the seeds."""
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


def optimizer_of(network: Network, task: TaskSettings, rate: float, layers: int) -> torch.optim.Optimizer:
    """AdamW over what may learn, lower layers slower where asked (Clark et al., 2020, for the factors)."""
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if task.frozen and not name.startswith("heads."):
            parameter.requires_grad_(False)
            continue
        key = task.layer_decay ** depth_below(name, layers), parameter.dim() > 1
        groups.setdefault(key, []).append(parameter)
    described = [
        {"params": members, "weight_decay": task.decay if decays else 0.0, "peak": rate * factor}
        for (factor, decays), members in groups.items()
    ]
    return AdamW().build_groups(described, rate)


def depth_below(name: str, layers: int) -> int:
    """0 for the head, 2 for the last block, layers + 2 for the embeddings: a depth of 1 is unused, as released."""
    if name.startswith(("heads.", "model.pooler")):
        return 0
    if name.startswith("model.embed"):
        return layers + 2
    return layers + 1 - int(name.split(".")[2])
