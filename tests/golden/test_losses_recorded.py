"""Losses of a tiny run, written down: a change that is not meant to change training must keep them."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.data.samples import Samples
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.schedules.optimizers import AdamW, BertAdam, Lamb
from plmkit.schedules.schedule import Schedule
from plmkit.training.loop import Budget, train

WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{number}" for number in range(45))))
RECORDED = {  # by optimizer and dropout: without it, whatever draws the masks
    (AdamW(), 0.0): [4.6202, 4.5309, 4.5488, 4.6578, 4.6082, 4.5830],
    (BertAdam(), 0.0): [4.6202, 4.4900, 4.5742, 4.9116, 4.4535, 4.6537],
    (Lamb(), 0.0): [4.6202, 4.5389, 4.5937, 4.6544, 4.6419, 4.5364],
    (AdamW(), 0.1): [4.6283, 4.5374, 4.5465, 4.6587, 4.6199, 4.5608],
}


def store() -> TokenStore:
    rng = random.Random(3)
    lengths = [[rng.randint(3, 9) for _ in range(rng.randint(2, 6))] for _ in range(30)]
    flat = [length for document in lengths for length in document]
    sentences = np.concatenate([[0], np.cumsum(flat)])
    return TokenStore(
        tokens=np.array([rng.randint(5, 49) for _ in range(sentences[-1])]),
        sentences=sentences,
        documents=np.concatenate([[0], np.cumsum([len(document) for document in lengths])]),
        sources=np.zeros(30, dtype=np.int16),
        survey=Survey(),
    )


@pytest.mark.parametrize(
    ("optimizer", "dropout"), RECORDED, ids=[f"{type(choice).__name__}-{dropout}" for choice, dropout in RECORDED]
)
def test_the_losses_of_a_tiny_run_are_those_recorded(optimizer, dropout):
    shape = Encoder(
        layers=2, heads=2, width=16, inner=32, longest=32, dropout=dropout, attention_dropout=dropout
    )  # fmt: skip
    recipe = replace(
        find("bert-base"),
        architecture=shape,
        schedule=Schedule(steps=6, batch=4, lengths=((1.0, 32),), rate=1e-2, warmup=0.1, optimizer=optimizer),
    )
    torch.manual_seed(0)
    network = recipe.build(WORDS)
    samples = Samples(store(), np.arange(30), recipe.corruption, WORDS, seed=0)
    losses = []
    made = optimizer.build(network.named_parameters(), recipe.schedule.rate)

    def watch(report):
        losses.append(round(report.loss, 4))
        return True

    train(
        network, samples, made, recipe.schedule, Budget(steps=6), watch, seed=0, device=torch.device("cpu")
    )  # fmt: skip
    assert losses == pytest.approx(RECORDED[optimizer, dropout], abs=2e-3)
