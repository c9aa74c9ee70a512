"""A tiny GPT-2 trained by us and one trained with transformers and plain torch: same rows, same steps, same losses."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from plmkit.architectures.decoder import Decoder
from plmkit.catalogue import find
from plmkit.data.mixture_source import MixtureSource
from plmkit.data.samples import Place, Samples
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.data.vocabulary import Vocabulary
from plmkit.interop.families import gpt2
from plmkit.interop.naming import from_huggingface
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.training.checkpoint import put_weights
from plmkit.training.loop import Budget, train
from plmkit.training.step import Step

SIZE, LENGTH, ROWS, STEPS, RATE = 41, 16, 8, 60, 1e-2


def text() -> TokenStore:
    """Documents in which each token mostly follows from the one before."""
    rng = np.random.default_rng(0)
    documents = []
    for _ in range(40):
        tokens = [int(rng.integers(SIZE - 1))]
        for _ in range(int(rng.integers(10, 40))):
            tokens.append((tokens[-1] * 7 + int(rng.integers(3))) % (SIZE - 1))
        documents.append(tokens)
    return TokenStore(
        tokens=np.concatenate(documents).astype(np.uint16),
        sentences=np.cumsum([0, *map(len, documents)]),
        documents=np.arange(len(documents) + 1),
        sources=np.zeros(len(documents), dtype=np.int16),
        survey=Survey(),
    )


def test_training_gives_the_losses_and_the_perplexity_of_transformers():
    words = Vocabulary.from_tokens([*(f"w{number}" for number in range(SIZE - 1)), "<|endoftext|>"], needed=("end",))
    schedule = Schedule(steps=STEPS, batch=ROWS, learning_rate=RATE, warmup=0.1, shape="cosine", optimizer=AdamW())
    settings = Decoder(layers=2, heads=2, width=24, inner=96, max_length=LENGTH, dropout=0.0, attention_dropout=0.0)
    recipe = replace(find("gpt2-tiny"), architecture=settings, stages=(Stage(length=LENGTH),), schedule=schedule)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=SIZE, n_embd=24, n_layer=2, n_head=2, n_positions=LENGTH, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    theirs = GPT2LMHeadModel(config)
    ours = recipe.build(words)
    put_weights(ours, from_huggingface(theirs.state_dict(), gpt2, settings), source=None)
    store = text()
    samples = Samples(store, np.arange(36), recipe.corruption, words, seed=0)

    found: list[float] = []
    step = Step(ours, schedule.optimizer.build(ours.named_parameters(), RATE), clip=schedule.clip)
    train(
        step, MixtureSource.of_one(samples, LENGTH), schedule, Budget(steps=STEPS),
        lambda report: found.append(report.losses["causal_lm"]) or True, seed=0,
    )  # fmt: skip

    # theirs: the same rows in the same order, the same learning rate schedule, weight decay on matrices only
    plain = [weight for weight in theirs.parameters() if weight.dim() < 2]
    matrices = [weight for weight in theirs.parameters() if weight.dim() > 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    wanted, position = [], Place()
    for step in range(STEPS):
        batch, position = samples.next(position, ROWS, LENGTH)
        progress = (step + 1) / (STEPS + 1)
        factor = progress / 0.1 if progress < 0.1 else 0.5 * (1 + math.cos(math.pi * (progress - 0.1) / 0.9))
        for group in optimizer.param_groups:
            group["lr"] = RATE * factor
        logits = theirs(input_ids=batch.source.tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimizer.step()
        wanted.append(loss.item())
    assert found == pytest.approx(wanted, rel=1e-4)
    assert found[-1] < 0.8 * found[0]

    held = Samples(store, np.arange(36, 40), recipe.corruption, words, seed=0)
    batch = held.batch(0, 0, 64, LENGTH)
    asked = batch.targets >= 0
    with torch.no_grad():
        mine = float(ours(batch).losses["causal_lm"])
        logits = theirs(input_ids=batch.source.tokens, attention_mask=batch.source.visible.long()).logits
        its = float(torch.nn.functional.cross_entropy(logits[asked], batch.targets[asked]))
    assert math.exp(mine) == pytest.approx(math.exp(its), rel=1e-3)  # well within the 2% allowed
