"""Is a GPT-2 that we train as good as transformers' own? The same shape, rows, order and steps; each its own start.

python -m benchmarks.trained_alike --corpus train.txt --valid valid.txt --steps 1000 --out FOLDER
"""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.shared import say
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.batch import IGNORE, Batch
from plmkit.data.samples import Position
from plmkit.errors import PlmError
from plmkit.preparation.prepare import prepare
from plmkit.recipe import Recipe
from plmkit.storage.files import write_json
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

ALLOWED = 0.02  # of the perplexity


def main() -> None:
    asked = parse()
    settings = settle(find(asked.recipe), asked.set)
    order = PretrainRequest(
        settings=settings, corpora=(asked.corpus,), out=asked.out / "ours", budget=Budget(steps=asked.steps),
        seed=asked.seed, valid=asked.valid,
    )  # fmt: skip
    try:
        ours = pretrain(order, Screen()).result["valid/causal_lm"]
        material = prepare(settings, order.corpora, order.valid, order.seed, Screen())
    except PlmError as error:
        sys.exit(f"trained_alike: {error}")
    theirs = their_loss(settings.recipe, material, asked)
    share = math.exp(ours - theirs) - 1
    measured = {"steps": asked.steps, "ours": math.exp(ours), "theirs": math.exp(theirs), "difference": share}
    write_json(asked.out / "trained_alike.json", measured)
    print(f"held-out perplexity after {asked.steps:,} steps: ours {math.exp(ours):.2f}, theirs {math.exp(theirs):.2f}")
    print(f"ours lies {share:+.2%} from theirs; at most {ALLOWED:.0%} above it: {'yes' if share <= ALLOWED else 'no'}")


def their_loss(recipe: Recipe, material: Any, asked: argparse.Namespace) -> float:
    """transformers' network and torch's AdamW on the very batches that ours read, scored on the same held-out rows."""
    schedule = recipe.schedule
    model = their_model(recipe, len(material.tokenizer.vocabulary), asked.seed)
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() < 2]
    decay = schedule.optimizer.decay
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}],
        lr=schedule.learning_rate,
    )
    source, position = material.source(recipe, asked.seed), Position()
    for step in range(asked.steps):
        batch, position = source.next(position, step=step, progress=step / asked.steps, rows=schedule.batch)
        for group in optimizer.param_groups:
            group["lr"] = schedule.learning_rate * schedule.factor((step + 1) / (asked.steps + 1))
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        optimizer.step()
        optimizer.zero_grad()
        if step % max(1, asked.steps // 10) == 0:
            say(f"theirs: step {step + 1:,}, loss {float(loss):.3f}")
    model.eval()
    total = count = 0.0
    with torch.inference_mode():
        for batch in material.valid_batches(recipe, asked.seed)["text"]:
            scored = int((batch.targets != IGNORE).sum())
            total, count = total + float(loss_of(model, batch)) * scored, count + scored
    return total / count


def their_model(recipe: Recipe, vocabulary: int, seed: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = recipe.architecture
    config = GPT2Config(
        vocab_size=vocabulary, n_embd=shape.width, n_layer=shape.layers, n_head=shape.heads, n_inner=shape.inner,
        n_positions=shape.max_length, resid_pdrop=shape.dropout, embd_pdrop=shape.dropout,
        attn_pdrop=shape.attention_dropout, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(seed)
    return GPT2LMHeadModel(config)


def loss_of(model: Any, batch: Batch) -> torch.Tensor:
    logits = model(input_ids=batch.source.tokens, attention_mask=batch.source.visible.long()).logits
    assert batch.targets is not None
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trained_alike", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True, help="text to train on")
    parser.add_argument("--valid", required=True, help="text to score")
    parser.add_argument("--recipe", default="gpt2-mini", help="a GPT-2 [gpt2-mini]")
    parser.add_argument("--steps", type=int, default=1000, help="of each run [1000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="a setting of both runs, as in schedule.batch=16")
    parser.add_argument("--out", type=Path, required=True, help="folder for our run and the figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
