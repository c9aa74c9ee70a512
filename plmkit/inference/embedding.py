"""Texts → vectors: one per text, by the pooling of the model, or one per token."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch, States
from plmkit.errors import PlmError, SettingError
from plmkit.inference.arguments import text_or_pair
from plmkit.inference.reader import Reader, Text, Unread, check_reads_text
from plmkit.language import comma, tr
from plmkit.tasks.framing import Framed, Texts
from plmkit.tasks.long_texts import windows_of
from plmkit.terminal.screen import Screen

LAYERS = ("last", "mean", "all")


def embed_texts(
    reader: Reader,
    texts: Sequence[Text],
    level: str,
    batch_size: int | None = None,
    screen: Screen | None = None,
    layers: str = "last",
) -> tuple[list[np.ndarray], Unread]:
    """The vector of each text, or the vectors of its tokens."""
    check_layers(reader, level, layers)
    check_reads_text(reader.architecture, reader.folder, tr("embed texts"))
    by_token, max_length = level == "token", reader.max_length
    if not by_token:
        check_pooling(reader)
        max_length = min(max_length, reader.pooling.max_length or max_length)
    pairs = [text_or_pair(text, number) for number, text in enumerate(texts, start=1)]
    prompt = "" if by_token else reader.pooling.prompt
    given = [(prompt + text, other) for text, other in pairs]
    rows, cut = reader.framed(given, max_length)
    owners = list(range(len(rows)))  # the text that each row belongs to
    if reader.pooling.windows and not by_token:
        rows, owners, cut = in_windows(reader, given, rows, max_length)
    vectors: list[np.ndarray] = [np.zeros(0)] * len(rows)
    for numbers in reader.batches(rows, batch_size, screen, tr("embedding")):
        states, batch = reader.states([rows[number] for number in numbers], all_layers=layers != "last")
        states = with_layers(states, layers)
        found = token_vectors(reader, states, batch) if by_token else sentence_vectors(reader, states, batch)
        for number, vector in zip(numbers.tolist(), found, strict=True):
            vectors[number] = vector.cpu().numpy()
    return vectors if len(vectors) == len(texts) else means(vectors, owners, len(texts)), cut


def in_windows(
    reader: Reader, texts: Sequence[Texts], rows: Sequence[Framed], length: int
) -> tuple[list[Framed], list[int], Unread]:
    """The windows of each text that is too long, and the others as they are."""
    found = windows_of([[text] for text, row in zip(texts, rows, strict=True) if row.cut], reader.tokenizer, length)
    made = [[one for (one,) in next(found)] if row.cut else [row] for row in rows]
    owners = [number for number, own in enumerate(made) for _ in own]
    cut = sum(own[0].cut > 0 for own in made)
    return [row for own in made for row in own], owners, Unread(cut=cut, texts=len(texts), length=length)


def means(vectors: Sequence[np.ndarray], owners: Sequence[int], texts: int) -> list[np.ndarray]:
    """The mean of the vectors of each text, of length 1."""
    sums = np.zeros((texts, len(vectors[0])), dtype=np.float32)
    np.add.at(sums, np.array(owners), np.stack(vectors))
    return [*(sums / np.linalg.norm(sums, axis=1, keepdims=True))]


def check_layers(reader: Reader, level: str, layers: str) -> None:
    if layers not in LAYERS or (layers == "all" and level != "token"):
        raise SettingError(
            tr(
                "The choice of layers is last, mean, or, for vectors of tokens, all; found '{layers}'.",
                layers=layers,
            )
        )
    if layers != "last" and "layers" not in reader.architecture.writes:
        raise SettingError(
            tr("{folder} gives its last layer only. Leave the choice of layers out.", folder=reader.folder)
        )


def with_layers(states: States, layers: str) -> States:
    """States whose hidden ones are the mean of all layers, or all of them, (B, L, layers, width)."""
    if layers == "last":
        return states
    assert states.layers is not None
    stacked = torch.stack(states.layers, dim=2)
    return replace(states, hidden=stacked.mean(2) if layers == "mean" else stacked)


def check_pooling(reader: Reader) -> None:
    if reader.pooling.unknown:
        raise PlmError(
            tr(
                "{folder} pools its vectors with {unknown}, which plmkit does not support.\n"
                "Embed with sentence-transformers, or compute token vectors: --level token.",
                folder=reader.folder,
                unknown=comma().join(reader.pooling.unknown),
            )
        )


@torch.inference_mode()
def sentence_vectors(reader: Reader, states: States, batch: Batch) -> Tensor:
    """(B, width): one vector per row."""
    return reader.pooling(states.hidden, batch.source.visible)


def token_vectors(reader: Reader, states: States, batch: Batch) -> list[Tensor]:
    """The token vectors of each row; of an empty row, that of its first special token."""
    framing = [number for part in reader.tokenizer.vocabulary.frame(2) for number in part]
    special = torch.tensor(framing, dtype=torch.long, device=reader.device)
    words = batch.source.visible & ~torch.isin(batch.source.tokens, special)
    return [
        hidden[mine if mine.any() else shown.nonzero()[:1, 0]].float()
        for hidden, mine, shown in zip(states.hidden, words, batch.source.visible, strict=True)
    ]
