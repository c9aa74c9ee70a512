"""Hugging Face's Marian with the shape of one of our Transformers: with the same weights, or trained on its batches."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.architectures.encoder_decoder import EncoderDecoder
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.samples import Position
from plmkit.data.vocabulary import Vocabulary
from plmkit.recipe import Recipe

MORE_TOKENS = 50  # than a source has, at most, as ours


class Marian:
    """A MarianMTModel for one of our vocabularies; padding has a row of its own, whose embedding is never trained."""

    def __init__(self, shape: EncoderDecoder, vocabulary: Vocabulary, *, dropout: float = 0.0) -> None:
        from transformers import MarianConfig, MarianMTModel

        self.shape, self.vocabulary, self.pad = shape, vocabulary, vocabulary.rows
        sizes = {
            f"{stack}_{name}": value
            for stack in ("encoder", "decoder")
            for name, value in (("layers", shape.layers), ("attention_heads", shape.heads), ("ffn_dim", shape.inner))
        }
        config = MarianConfig(
            vocab_size=vocabulary.rows + 1, d_model=shape.width, max_position_embeddings=shape.max_length,
            activation_function=shape.activation, dropout=dropout, attention_dropout=shape.attention_dropout,
            scale_embedding=True, pad_token_id=self.pad, decoder_start_token_id=vocabulary.start,
            eos_token_id=vocabulary.end, bos_token_id=None, forced_eos_token_id=None, **sizes,
        )  # fmt: skip
        self.network: Any = MarianMTModel(config)

    def copy(self, model: Any) -> "Marian":
        """Take the weights of ours, its sinusoids and its epsilon; biases that ours does not have are zeros."""
        named = marian_weights(model.state_dict(), self.shape.layers, self.pad)
        own = self.network.state_dict()
        assert named.keys() <= own.keys()
        extra = {name: torch.zeros_like(part) for name, part in own.items() if name.endswith("bias")}
        self.network.load_state_dict({**own, **extra, **named})
        self.network.tie_weights()
        with torch.no_grad():
            for stack in (self.network.model.encoder, self.network.model.decoder):
                stack.embed_positions.weight.copy_(model.embed.waves)
        for module in self.network.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = self.shape.epsilon
        return self

    def tokens(self, side: Side) -> dict[str, Tensor]:
        return {"input_ids": side.tokens.masked_fill(~side.visible, self.pad), "attention_mask": side.visible.long()}

    def logits(self, batch: Batch) -> Tensor:
        """(B, L, vocabulary) of our tokens."""
        assert batch.target is not None
        read = batch.target.tokens.masked_fill(~batch.target.visible, self.pad)
        return self.network(**self.tokens(batch.source), decoder_input_ids=read, use_cache=False).logits

    def generate(self, side: Side, **asked: Any) -> list[list[int]]:
        """The best translation of each source."""
        limit = min(side.tokens.shape[1] - 1 + MORE_TOKENS, self.shape.max_length - 1)
        made = self.network.generate(**self.tokens(side), max_new_tokens=limit, do_sample=False, **asked)
        return [self.cut(row[1:]) for row in made.tolist()]

    def cut(self, row: list[int]) -> list[int]:
        """The tokens before the end."""
        return row[: min(row.index(token) if token in row else len(row) for token in (self.vocabulary.end, self.pad))]


def marian_weights(own: dict[str, Any], layers: int, pad: int) -> dict[str, Any]:
    """Our weights under Marian's names."""
    table = own["embed.tokens.weight"]
    table = torch.cat([table, table.new_zeros(pad + 1 - len(table), table.shape[1])])
    names = ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
    found = {f"model.{name}.weight": table for name in names} | {"lm_head.weight": table}
    # padding is never generated
    found["final_logits_bias"] = torch.zeros(1, pad + 1).index_fill_(1, torch.tensor([pad]), -torch.inf)
    for stack, blocks in (("encoder", "blocks"), ("decoder", "decoder")):
        for layer in range(layers):
            here, there = f"{blocks}.{layer}.", f"model.{stack}.layers.{layer}."
            found |= {f"{there}{name}": part for name, part in layer_weights(own, here, stack == "decoder")}
    return found


def layer_weights(own: dict[str, Any], here: str, crosses: bool) -> Iterator[tuple[str, Any]]:
    """Those of one layer, and the biases that ours has."""
    pairs = {
        "self_attn.out_proj": "attention.output",
        "self_attn_layer_norm": "attention_norm",
        "fc1": "feed_forward.expand",
        "fc2": "feed_forward.contract",
        "final_layer_norm": "feed_forward_norm",
    }
    joint = {"self_attn": ("attention.query_key_value", "qkv")}
    if crosses:
        pairs |= {
            "encoder_attn.q_proj": "cross_attention.query",
            "encoder_attn.out_proj": "cross_attention.output",
            "encoder_attn_layer_norm": "cross_norm",
        }
        joint |= {"encoder_attn": ("cross_attention.key_value", "kv")}
    for kind in ("weight", "bias"):
        yield from (
            (f"{one}.{kind}", own[f"{here}{our}.{kind}"]) for one, our in pairs.items() if f"{here}{our}.{kind}" in own
        )
        for attention, (our, letters) in joint.items():
            if f"{here}{our}.{kind}" in own:
                parts = own[f"{here}{our}.{kind}"].chunk(len(letters))
                yield from ((f"{attention}.{one}_proj.{kind}", part) for one, part in zip(letters, parts, strict=True))


class MarianRun:
    """Marian trained by a plain loop on the batches that a run of ours has, with its optimizer's settings."""

    def __init__(self, recipe: Recipe, material: Any, seed: int, dtype: torch.dtype) -> None:
        torch.manual_seed(seed)
        shape: Any = recipe.architecture
        self.recipe, self.seed, self.dtype = recipe, seed, dtype
        self.marian = Marian(shape, material.tokenizer.vocabulary, dropout=shape.dropout)
        self.source, self.position = material.source(recipe, seed), Position()
        (objective,) = recipe.objectives
        self.smoothing: float = objective.smoothing  # type: ignore[attr-defined]
        self.optimizer = recipe.schedule.optimizer.build(
            self.marian.network.named_parameters(), recipe.schedule.learning_rate
        )
        self.steps = self.tokens = 0
        self.seconds = 0.0  # of this process

    def train(self, steps: int, of: int) -> None:
        """The next steps of a run of a number of steps."""
        schedule, network = self.recipe.schedule, self.marian.network.train()
        for _ in range(steps):
            started = time.process_time()
            progress = self.steps / of
            batch, self.position = self.source.next(
                self.position, step=self.steps, progress=progress, rows=schedule.batch
            )
            assert batch.targets is not None
            with torch.autocast("cpu", self.dtype, enabled=self.dtype is not torch.float32):
                logits = self.marian.logits(batch).float()
                loss = F.cross_entropy(
                    logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE, label_smoothing=self.smoothing
                )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), schedule.clip)
            for group in self.optimizer.param_groups:
                group["lr"] = group["peak"] * schedule.factor((self.steps + 1) / (of + 1))
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.steps, self.tokens = self.steps + 1, self.tokens + batch.token_count
            self.seconds += time.process_time() - started

    @torch.inference_mode()
    def translate(self, rows: Sequence[list[int]], beams: int, at_once: int = 32) -> list[list[int]]:
        """Translations of sources, in batches of like length."""
        self.marian.network.eval()
        found: list[list[int]] = [[]] * len(rows)
        order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
        for start in range(0, len(order), at_once):
            some = order[start : start + at_once]
            lengths = torch.tensor([len(rows[number]) for number in some])
            tokens = torch.zeros(len(some), int(lengths.max()), dtype=torch.long)
            for line, number in zip(tokens, some, strict=True):
                line[: len(rows[number])] = torch.tensor(rows[number])
            side = Side(tokens=tokens, visible=torch.arange(tokens.shape[1]) < lengths[:, None])
            for number, made in zip(some, self.marian.generate(side, num_beams=beams), strict=True):
                found[number] = made
        return found
