"""Which output of a model is explained, and the embeddings that its gradient is taken of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from plmkit.architectures.contract import Model as Network
from plmkit.data.batch import Batch, States
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import comma, tr
from plmkit.tasks.heads import TaskHead

if TYPE_CHECKING:
    from plmkit.inference.model import Model
    from plmkit.tasks.contract import Task
    from plmkit.tasks.heads import TaskHead


@dataclass(frozen=True, kw_only=True)
class Output:
    """A number that the model computes, with its gradient, and its name."""

    name: str
    value: Tensor  # ()


@contextmanager
def watched_embeddings(network: Network) -> Iterator[dict[nn.Module, Tensor]]:
    """Collects what each module that makes vectors of tokens gives first; gradients begin there."""
    kept: dict[nn.Module, Tensor] = {}

    def watch(module: nn.Module, _: Any, embeddings: Tensor) -> Tensor | None:
        if module in kept:  # the decoder's own input
            return None
        kept[module] = embeddings.detach().requires_grad_()
        return kept[module]

    handles = [part.register_forward_hook(watch) for part in network.input_embeddings]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def named_output(model: Model, states: States, batch: Batch, target: str | None) -> Output:
    """The predicted class, the token at the [MASK], the next token: whatever the model predicts for this text.

    `target` chooses another class or token than the most likely one.
    """
    heads = model.network.all_heads()
    if (task := explained_task(model)) is not None:
        return task_output(model, task, states, batch, target)
    if (head := model.network.head_that_translates) is not None and batch.targets is not None:
        return translation_output(model, head.output, states, batch.targets[0])
    tokens, vocabulary = batch.source.tokens[0], model.tokenizer.vocabulary
    masked = (tokens == vocabulary.mask).nonzero().flatten().tolist()
    fills = next((head for head in heads.values() if head.fills), None)
    if fills is not None and masked:
        return token_output(model, fills.output, states.hidden[0, masked[0]], target, tr("token at the [MASK]"))
    if target is not None and model.network.head_that_generates is None:
        raise InputError(
            tr(
                "--target names what to explain at a [MASK], but the text has none that {folder} could fill.\n"
                "Write [MASK] in the text, or leave out --target.",
                folder=model.folder,
            )
        )
    if (head := model.network.head_that_generates) is not None:
        if model.architecture.generates == "permuted":
            return last_token_output(model, head.output, states, batch, target)
        return token_output(model, head.output, states.hidden[0, -1], target, tr("next token"))
    if "replaced_token" in heads:
        logits = heads["replaced_token"].answers(states, batch)[0]
        place = int(logits.argmax())
        name = tr("replaced or not: {token}", token=model.tokenizer.readable(int(tokens[place])))
        return Output(name=name, value=logits[place])
    if fills is not None:
        logs = fills.output(states.hidden[0]).float().log_softmax(-1)
        own = logs[torch.arange(len(tokens), device=tokens.device), tokens]
        return Output(name=tr("log-probability of the text's own tokens (write a [MASK] to explain one)"),
                      value=own.sum())  # fmt: skip
    return Output(name=tr("length of the sentence vector"), value=states.hidden[0].mean(0).norm())


def explained_task(model: Model) -> Task | None:
    """The task whose prediction is explained: the first that predicts."""
    return next((task for task in model.tasks.values() if not task.embeds), None)


def task_output(model: Model, task: Task, states: States, batch: Batch, target: str | None) -> Output:
    """The log-probability of the predicted class, or of the class `target`; or the predicted number."""
    head = cast(TaskHead, model.network.all_heads()[task.name])
    answers = head.explained(states, batch)[0].float()
    tagged = answers.dim() == 2
    if not tagged and len(answers) != len(task.classes):
        if target is not None:
            raise SettingError(tr("{folder} predicts no classes; leave out --target.", folder=model.folder))
        return Output(
            name=tr("{task}: {value:.3f}", task=task.name, value=float(answers[0].detach())), value=answers[0]
        )
    if target is not None and target not in task.classes:
        raise SettingError(
            tr(
                "{folder} has no class '{target}'.{hint} Choose one of {classes}.",
                folder=model.folder,
                target=target,
                hint=nearest(target, task.classes),
                classes=comma().join(task.classes),
            )
        )
    logs = task.log_probabilities(answers)
    if tagged:
        return tag_output(model, task, logs, batch, target)
    place = int(logs.argmax()) if target is None else task.classes.index(target)
    return Output(name=with_probability(tr("class"), task.classes[place], logs[place]), value=logs[place])


def tag_output(model: Model, task: Task, logs: Tensor, batch: Batch, target: str | None) -> Output:
    """The tag `target`, or the most likely one but O, at the token where it is most likely."""
    tokens = batch.source.tokens[0]
    wanted = [number for number, name in enumerate(task.classes) if name == target or (not target and name != "O")]
    ordinary = torch.from_numpy(model.tokenizer.vocabulary.is_ordinary(tokens.cpu().numpy())).to(logs.device)
    some = logs[:, wanted].masked_fill(~ordinary[:, None], -torch.inf)
    place, number = divmod(int(some.argmax()), len(wanted))
    value = logs[place, wanted[number]]
    name = tr("tag of {token}", token=model.tokenizer.readable(int(tokens[place])))
    return Output(name=with_probability(name, task.classes[wanted[number]], value), value=value)


def translation_output(model: Model, head: nn.Module, states: States, targets: Tensor) -> Output:
    """The log-probability of the output text, its end included."""
    logs = head(states.hidden[0]).float().log_softmax(-1)
    total = logs.gather(1, targets[:, None]).sum()
    text = model.tokenizer.decode(targets[:-1].tolist()).strip()
    name = tr("log-probability of the output “{text}”: {value:.2f}", text=text, value=float(total.detach()))
    return Output(name=name, value=total)


def token_output(model: Model, head: nn.Module, state: Tensor, target: str | None, name: str) -> Output:
    """The log-probability of the most likely token, or of the first token of `target`."""
    logs, token = log_probabilities(model, head, state), first_token(model, target)
    place = int(logs.argmax()) if token is None else token
    return Output(name=with_probability(name, model.tokenizer.readable(place), logs[place]), value=logs[place])


def last_token_output(model: Model, head: nn.Module, states: States, batch: Batch, target: str | None) -> Output:
    """The text's last token, as predicted from those before it; special tokens come after it."""
    special, tokens = model.tokenizer.vocabulary.special, batch.source.tokens[0].tolist()
    place = max(place for place, token in enumerate(tokens) if token not in special or place == 0)
    logs, token = log_probabilities(model, head, states.hidden[0, place]), first_token(model, target)
    token = tokens[place] if token is None else token
    name = tr("last token, given those before it")
    return Output(name=with_probability(name, model.tokenizer.readable(token), logs[token]), value=logs[token])


def log_probabilities(model: Model, head: nn.Module, state: Tensor) -> Tensor:
    """(vocabulary,) without padding and special tokens, except the one that ends a text."""
    vocabulary = model.tokenizer.vocabulary
    logits = head(state[None])[0, : len(vocabulary)].float()
    banned = torch.tensor(sorted(vocabulary.special - {vocabulary.end}), dtype=torch.long, device=logits.device)
    return logits.index_fill(0, banned, -torch.inf).log_softmax(-1)


def first_token(model: Model, target: str | None) -> int | None:
    if target is None:
        return None
    tokens = model.tokenizer.encode(target)
    if not tokens or tokens[0] in model.tokenizer.vocabulary.special:
        raise InputError(tr("--target '{target}' has no token that the model could predict.", target=target))
    return tokens[0]


def with_probability(name: str, answer: str, log: Tensor) -> str:
    return tr("{name}: {answer} ({share:.1%})", name=name, answer=answer.strip() or repr(answer),
              share=float(log.detach().exp()))  # fmt: skip
