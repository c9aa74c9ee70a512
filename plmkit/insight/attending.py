"""One text through a model, with its attention weights recorded and one output attributed to its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch, Side, States
from plmkit.data.vocabulary import MASK, MISSING
from plmkit.errors import InputError, PlmError, SettingError
from plmkit.insight.attention import Attended, AttentionPart, Attribution
from plmkit.insight.attribution import Output, explained_task, named_output, watched_embeddings
from plmkit.insight.token_labels import labels_of
from plmkit.language import comma, tr
from plmkit.layers.recording import AttentionWeights, Kind, recording
from plmkit.layers.scalar_mix import ScalarMix
from plmkit.tasks.framing import batch_of, frame
from plmkit.tasks.ngrams import padded

if TYPE_CHECKING:
    from plmkit.inference.model import Model

# recipes with attention
TRANSLATE, READ = ("rnn-attention-mini", "transformer-mini"), ("bert-mini", "gpt2-mini", "transformer-xl-mini")
Tokens = tuple[str, ...]  # for display


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A text as the model reads it."""

    batch: Batch
    tokens: Sequence[int]
    before: Sequence[int] = ()  # the tokens in recurrent memory
    inputs: Sequence[int] = ()  # of an encoder–decoder, the tokens that its decoder reads
    outputs: Sequence[int] = ()  # and those that it predicts, one at each of them
    output: str = ""  # and their text


def attend(model: Model, text: str, second: str | None = None, target: str | None = None) -> Attended:
    """Run the model once; a model without attention is refused."""
    if model.architecture.describes_images:
        raise PlmError(
            tr(
                "{folder} attends to regions of an image.\n"
                "Show them: plm caption {folder} photo.jpg --attention out.png",
                folder=model.folder,
            )
        )
    if not encode(model, text) or (second is not None and not encode(model, second)):
        raise InputError(tr("The text is empty. Give a text to look at."))
    reading = read(model, text, second, target)
    if (task := explained_task(model)) is not None and task.ngrams:  # its head adds what they say
        ngrams = padded([task.ngrams.vector((text, second))])
        reading = replace(reading, batch=replace(reading.batch, ngrams=ngrams).to(model.device))
    before, labels = split_at(
        len(reading.before),
        labels_of(
            model.tokenizer,
            [*reading.before, *reading.tokens],
            [with_mask(model, part) for part in (text, second) if part],
            spelled=model.architecture.reads_characters,
        ),
    )
    inputs, outputs = (
        labels_of(model.tokenizer, tokens, [with_mask(model, reading.output)])
        for tokens in (reading.inputs, reading.outputs)
    )
    with torch.enable_grad(), watched_embeddings(model.network.model) as watched, recording() as kept:
        states = model.network.model(reading.batch)
        shown = list(kept)
        if reads_both_streams(model):
            watched.clear()
            states = model.network.model(left_to_right(reading.batch))
            shown += [layer for layer in kept[len(shown) :] if layer.kind == "query"]
        mix = mixes_of(model)
        if not shown and not mix:
            raise PlmError(
                tr(
                    "{folder} has no attention to look at: {type} reads a text without it.\n",
                    folder=model.folder,
                    type=type(model.architecture).__name__,
                )
                + (
                    tr(
                        "A task on its features learns how to mix its layers, and that can be shown: plm finetune "
                        "{folder} --task classify --train FILE --out DIR, then plm attend DIR.",
                        folder=model.folder,
                    )
                    if model.architecture.reads_characters
                    else tr(
                        "Use a model with attention, such as one of {recipes}.",
                        recipes=comma().join(TRANSLATE if model.architecture.translates else READ),
                    )
                )
            )
        output = named_output(model, states, reading.batch, target)
        scores = attributed(output, list(watched.values()))
    return Attended(
        model=str(model.folder),
        tokens=labels,
        parts=parts_of(shown, labels, before, inputs, outputs),
        attribution=Attribution(output=output.name, tokens=labels, scores=scores),
        replaced=replaced_scores(model, states, reading.batch),
        mix=mix,
    )


def split_at(count: int, labels: Tokens) -> tuple[Tokens, Tokens]:
    return labels[:count], labels[count:]


def read(model: Model, text: str, second: str | None, target: str | None) -> Reading:
    """As the kind of model reads texts."""
    if model.architecture.translates and not model.tasks:
        return read_pair(model, text, second, target)
    return read_segments(model, text, second) if has_memory(model) else read_row(model, text, second)


def has_memory(model: Model) -> bool:
    """Whether it reads a text segment by segment, as Transformer-XL does when it was not fine-tuned."""
    return bool(model.architecture.generates == "causal" and model.architecture.memory_length and not model.tasks)


def read_row(model: Model, text: str, second: str | None) -> Reading:
    """One text or two with their special tokens; a causal language model reads them as it reads a prompt."""
    vocabulary = model.tokenizer.vocabulary
    if model.architecture.reads_characters:
        ((row,), _) = model.framed([(text, second)], model.max_length)
        check_length(model, len(row.tokens) + row.cut, model.max_length)
        return Reading(batch=batch_of([row], vocabulary).to(model.device), tokens=row.tokens.tolist())
    encoded = [np.array(encode(model, part), dtype=np.int64) for part in (text, second) if part is not None]
    if model.architecture.generates == "causal" and not model.tasks:
        tokens = np.concatenate(encoded).tolist()
        check_length(model, len(tokens), model.max_length)
        return Reading(batch=plain_batch(model, tokens), tokens=tokens)
    check_length(model, sum(map(len, encoded)) + vocabulary.specials(len(encoded)), model.max_length)
    row = frame(encoded[0], encoded[1] if second is not None else None, vocabulary, model.max_length)
    return Reading(batch=batch_of([row], vocabulary).to(model.device), tokens=row.tokens.tolist())


def read_segments(model: Model, text: str, second: str | None) -> Reading:
    """The last segment, with the segments before it in recurrent memory; of two texts, the first is in memory."""
    first, last = encode(model, text), encode(model, second) if second is not None else None
    max_length, memory_length = model.max_length, model.architecture.memory_length
    check_length(model, len(first) + len(last or ()), max_length + memory_length)
    if last is None:
        begin = max(0, len(first) - max_length)
        first, last = first[:begin], first[begin:]
    check_length(model, len(last), max_length)
    memory = None
    with torch.no_grad():
        for begin in range(0, len(first), max_length):
            batch = replace(plain_batch(model, first[begin : begin + max_length]), memory=memory)
            memory = model.network.model(batch).memory
    kept = 0 if memory is None else memory[0].shape[2]
    return Reading(
        batch=replace(plain_batch(model, last), memory=memory),
        tokens=last,
        before=first[len(first) - kept :],
    )


def read_pair(model: Model, text: str, second: str | None, target: str | None) -> Reading:
    """A source, and its target or the model's own translation, as in training."""
    if second is not None:
        raise SettingError(
            tr("{folder} is an encoder–decoder and reads one text; give its output with --target.", folder=model.folder)
        )
    vocabulary = model.tokenizer.vocabulary
    source = vocabulary.source_row(encode(model, text))
    written = model.translate(text).text if target is None else target
    output = encode(model, written)
    if target is None and len(output) >= model.max_length:
        output, written = output[: model.max_length - 1], ""
    inputs, outputs = [vocabulary.start, *output], [*output, vocabulary.end]
    for tokens in (source, inputs):
        check_length(model, len(tokens), model.max_length)
    batch = plain_batch(model, source)
    decoded = replace(
        batch, target=plain_batch(model, inputs).source, targets=plain_batch(model, outputs).source.tokens
    )
    return Reading(batch=decoded, tokens=source, inputs=inputs, outputs=outputs, output=written)


def encode(model: Model, text: str) -> list[int]:
    return model.tokenizer.encode(with_mask(model, text))


def with_mask(model: Model, text: str) -> str:
    """A text in which [MASK] may stand for the mask token of any vocabulary."""
    vocabulary = model.tokenizer.vocabulary
    return text if vocabulary.mask == MISSING else text.replace(MASK, vocabulary.tokens[vocabulary.mask])


def check_length(model: Model, tokens: int, max_length: int) -> None:
    if tokens > max_length:
        raise InputError(
            tr(
                "The text has {tokens:,} tokens, special tokens included; {folder} reads at most {max_length:,}.\n"
                "Shorten the text.",
                tokens=tokens,
                folder=model.folder,
                max_length=max_length,
            )
        )


def plain_batch(model: Model, tokens: Sequence[int]) -> Batch:
    """One row without special tokens."""
    row = torch.tensor([list(tokens)], device=model.device)
    return Batch(source=Side(tokens=row, visible=torch.ones_like(row, dtype=torch.bool)))


def reads_both_streams(model: Model) -> bool:
    """Whether it is an XLNet that can predict; fine-tuned, it has the content stream only."""
    return model.architecture.generates == "permuted" and model.network.head_that_generates is not None


def left_to_right(batch: Batch) -> Batch:
    """Each token predicted by the query stream from those before it."""
    tokens = batch.source.tokens
    places = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    return replace(batch, attention_order=torch.stack([places, places], dim=-1), targets=tokens)


def parts_of(
    kept: Sequence[AttentionWeights], source: Tokens, before: Tokens = (), inputs: Tokens = (), outputs: Tokens = ()
) -> tuple[AttentionPart, ...]:
    """The recorded layers by what attends to what; in a decoder, self-attention comes right before cross-attention."""
    groups: dict[tuple[Kind, bool], list[AttentionWeights]] = {}
    for layer, following in zip_longest(kept, kept[1:]):
        decodes = layer.kind == "cross" or (following is not None and following.kind == "cross")
        groups.setdefault((layer.kind, decodes), []).append(layer)
    return tuple(
        AttentionPart(
            kind=kind,
            encodes=bool(inputs) and not decodes,
            queries=source if not decodes else outputs if kind == "cross" else inputs,
            keys=inputs if decodes and kind == "self" else (*before, *source) if layers[0].memory else source,
            memory=layers[0].memory,
            weights=stacked(layers),
        )
        for (kind, decodes), layers in groups.items()
    )


def stacked(layers: Sequence[AttentionWeights]) -> np.ndarray:
    """(layers, heads, queries, keys) of the only row."""
    return torch.stack([layer.weights[0].float() for layer in layers]).cpu().numpy()


def attributed(output: Output, watched: Sequence[Tensor]) -> np.ndarray:
    """(L,) gradient × input, summed over the width of each token's embedding."""
    gradients = torch.autograd.grad(output.value, list(watched))
    pairs = zip(gradients, watched, strict=True)
    products = [(gradient * part).detach().flatten(0, -2).sum(-1).float() for gradient, part in pairs]
    return torch.stack(products).sum(0).cpu().numpy()


def mixes_of(model: Model) -> dict[str, np.ndarray]:
    """(layers,) the weights of the layers wherever they are mixed, as in a task that reads features of ELMo."""
    return {
        name.rpartition(".")[2]: part.weights.detach().softmax(0).cpu().numpy()
        for name, part in model.network.named_modules()
        if isinstance(part, ScalarMix)
    }


def replaced_scores(model: Model, states: States, batch: Batch) -> np.ndarray | None:
    """(L,) of ELECTRA, the probability that each token was replaced."""
    heads: dict[str, Any] = model.network.all_heads()
    if "replaced_token" not in heads:
        return None
    return heads["replaced_token"].answers(states, batch)[0].detach().sigmoid().float().cpu().numpy()
