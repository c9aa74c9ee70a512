"""What a masked language model predicts: words for blanks, and each token of a text in turn."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.data.vocabulary import MASK
from plmkit.errors import InputError
from plmkit.inference.reader import Change, Reader, unchanged
from plmkit.language import tr
from plmkit.tasks.framing import Framed

AT_ONCE = 32  # masked copies of a text per batch


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to fill a blank."""

    token: str
    probability: float
    text: str  # the whole text with this blank filled


@dataclass(frozen=True, kw_only=True)
class Score:
    """Pseudo-log-likelihood of a text, each token masked in turn."""

    tokens: int
    pseudo_log_probability: float
    pseudo_perplexity: float


@torch.inference_mode()
def fill_blanks(reader: Reader, text: str, top: int, change: Change = unchanged) -> list[list[Candidate]]:
    """For each blank of a text its candidates, most likely first; `change` may add an image."""
    if reader.generator is not None:
        return fill_blanks(reader.generator, text, top)
    head = reader.head("masked_lm", tr("fill blanks"))
    vocabulary = reader.tokenizer.vocabulary
    row = reader.whole_row(text.replace(MASK, vocabulary.tokens[vocabulary.mask]))
    blanks = np.flatnonzero(row.tokens == vocabulary.mask)
    if not len(blanks):
        raise InputError(tr("The text has no [MASK]. Write one where a word is to be filled in."))
    hidden = states_at_masks(reader, [row], change)[0, torch.from_numpy(blanks)]
    logits = head.vocabulary(hidden)[:, : len(vocabulary)]  # the embedding may be padded
    logits[:, list(vocabulary.special)] = -torch.inf
    probabilities = logits.float().softmax(-1)
    best = probabilities.topk(min(top, len(vocabulary) - len(vocabulary.special)), dim=-1)
    return [
        [
            Candidate(
                token=reader.tokenizer.readable(token), probability=value, text=filled(reader, row.tokens, place, token)
            )
            for value, token in zip(values.tolist(), tokens.tolist(), strict=True)
        ]
        for place, values, tokens in zip(blanks.tolist(), best.values, best.indices, strict=True)
    ]


def filled(reader: Reader, tokens: np.ndarray, place: int, token: int) -> str:
    changed = tokens.copy()
    changed[place] = token
    return reader.tokenizer.decode(changed[1:-1].tolist()).strip()


@torch.inference_mode()
def pseudo_score(reader: Reader, text: str) -> tuple[Score, bool]:
    """Mask and predict each token in turn (Salazar et al., 2020); and whether the text was truncated."""
    if reader.generator is not None:
        return pseudo_score(reader.generator, text)
    head = reader.head("masked_lm", tr("score a text"))
    row = reader.rows([text])[0]
    places = np.arange(1, len(row.tokens) - 1)
    if not len(places):
        raise InputError(tr("The text has no tokens to score."))
    total = 0.0
    for start in range(0, len(places), AT_ONCE):
        some = places[start : start + AT_ONCE]
        tokens = np.tile(row.tokens, (len(some), 1))
        tokens[np.arange(len(some)), some] = reader.tokenizer.vocabulary.mask
        hidden = states_at_masks(reader, [Framed(tokens=line, second=len(line), cut=0) for line in tokens])
        logs = head.vocabulary(hidden[torch.arange(len(some)), torch.from_numpy(some)]).float().log_softmax(-1)
        total += float(logs[torch.arange(len(some)), torch.from_numpy(row.tokens[some])].sum())
    score = Score(
        tokens=len(places),
        pseudo_log_probability=total,
        pseudo_perplexity=float(np.exp(-total / len(places))),
    )
    return score, row.cut > 0


def states_at_masks(reader: Reader, rows: list[Framed], change: Change = unchanged) -> Tensor:
    """(B, L, width) hidden states, computed at masked tokens only."""

    def needed(batch: Batch) -> Tensor:
        return batch.source.tokens == reader.tokenizer.vocabulary.mask

    return reader.states(rows, needed=needed, change=change)[0].hidden
