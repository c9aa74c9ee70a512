"""GPT-1 as OpenAI published it: arrays of parameters, an encoder and its merges (openai/finetune-transformer-lm)."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from plmkit.architectures.decoder import PostNormDecoder
from plmkit.data.vocabulary import unnamed
from plmkit.errors import InputError
from plmkit.interop.huggingface import report_written, write_huggingface
from plmkit.interop.weights import OPENAI_SHAPES as SHAPES
from plmkit.language import comma, tr
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.files import GPT1_ENCODER, GPT1_MERGES, read_merges, read_numbers
from plmkit.tokenizers.rules import word_end_rules
from plmkit.tokenizers.tokenizer import Tokenizer

HEAD_WIDTH = 64  # of the released network; its files do not state it
BLOCK = (  # in the order of the released code; matrices as (1, input, output)
    "attention.query_key_value.weight",
    "attention.query_key_value.bias",
    "attention.output.weight",
    "attention.output.bias",
    "attention_norm.weight",
    "attention_norm.bias",
    "feed_forward.expand.weight",
    "feed_forward.expand.bias",
    "feed_forward.contract.weight",
    "feed_forward.contract.bias",
    "feed_forward_norm.weight",
    "feed_forward_norm.bias",
)

Shapes = list[tuple[int, ...]]


def import_gpt1(source: Path, out: Path, screen: Screen) -> int:
    """Write the published network as a Hugging Face folder; returns its number of parameters."""
    tokenizer = read_tokenizer(source)
    shapes = read_shapes(source / SHAPES)
    architecture, weights = named(source, shapes, read_parameters(source, shapes))
    known, needed = architecture.vocabulary_size(weights), len(tokenizer.vocabulary)
    if known < needed:
        raise InputError(
            tr(
                "{source}: {gpt1_encoder} has {needed:,} tokens, but the parameters are for {known:,}.",
                source=source,
                gpt1_encoder=GPT1_ENCODER,
                needed=needed,
                known=known,
            )
        )
    write_huggingface(out, weights, architecture, tokenizer, vocabulary_size=known)
    return report_written(weights, architecture, out, screen)


def read_tokenizer(source: Path) -> Tokenizer:
    for name in (SHAPES, GPT1_ENCODER, GPT1_MERGES):
        if not (source / name).is_file():
            raise InputError(
                tr(
                    "{source} has no {name}. The published folder has it next to params_0.npy.",
                    source=source,
                    name=name,
                )
            )
    numbers, merges = read_numbers(source / GPT1_ENCODER), read_merges(source / GPT1_MERGES)
    try:
        return Tokenizer(word_end_rules(numbers, merges, unknown="<unk>"))
    except InputError:
        raise
    except Exception as error:  # the Rust library raises nothing narrower
        raise InputError(
            tr(
                "{source}: {gpt1_merges} does not fit {gpt1_encoder}: {error}.",
                source=source,
                gpt1_merges=GPT1_MERGES,
                gpt1_encoder=GPT1_ENCODER,
                error=error,
            )
        ) from error


def read_shapes(path: Path) -> Shapes:
    try:
        shapes = [tuple(int(side) for side in shape) for shape in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(tr("{path} is not a list of shapes: {error}.", path=path, error=error)) from error
    fits = len(shapes) > 2 and (len(shapes) - 2) % len(BLOCK) == 0 and len(shapes[0]) == len(shapes[1]) == 2
    if not fits:
        raise InputError(
            tr(
                "{path} has {shapes_count} shapes; GPT-1 has 2 for embeddings and {block_count} per layer. Copy it "
                "again.",
                path=path,
                shapes_count=len(shapes),
                block_count=len(BLOCK),
            )
        )
    return shapes


def read_parameters(source: Path, shapes: Shapes) -> Iterator[np.ndarray]:
    """All parameters are one array, split into files at arbitrary places: params_0.npy, params_1.npy, ..."""
    parts: list[np.ndarray] = []
    for path in parameter_files(source):
        try:
            part = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(
                tr("{path} is not an array of numbers: {error}. Copy it again.", path=path, error=error)
            ) from error
        if part.dtype.kind != "f" or not np.isfinite(part).all():
            raise InputError(tr("{path} holds values other than finite numbers. Copy it again.", path=path))
        parts.append(part.ravel().astype(np.float32, copy=False))
    found, expected = sum(map(len, parts)), sum(map(math.prod, shapes))
    if found != expected:
        raise InputError(
            tr(
                "{source}: params_*.npy hold {found:,} numbers in {parts_count} files; {shapes} needs {expected:,}.\n",
                source=source,
                found=found,
                parts_count=len(parts),
                shapes=SHAPES,
                expected=expected,
            )
            + (
                tr("Is params_{parts_count}.npy missing? ", parts_count=len(parts))
                if found < expected
                else tr("Does a file belong to another model? ")
            )
            + tr("The published model has params_0.npy to params_9.npy.")
        )
    row, at = np.concatenate(parts), 0
    for shape in shapes:
        yield row[at : at + math.prod(shape)].reshape(shape)
        at += math.prod(shape)


def parameter_files(source: Path) -> list[Path]:
    """From params_0.npy to the last, none missing."""
    ends = [path.stem.removeprefix("params_") for path in source.glob("params_*.npy")]
    numbers = [int(end) for end in ends if end.isdecimal() and end == str(int(end))]
    files = [source / f"params_{number}.npy" for number in range(max(numbers, default=0) + 1)]
    if missing := [file.name for file in files if not file.is_file()]:
        raise InputError(
            tr(
                "{source} has no {missing}. The published model has params_0.npy to params_9.npy.",
                source=source,
                missing=comma().join(missing),
            )
        )
    return files


def named(source: Path, shapes: Shapes, parameters: Iterator[np.ndarray]) -> tuple[PostNormDecoder, dict[str, Tensor]]:
    """The network that has these shapes, and its weights under our names: positions first, then tokens, then layers."""
    (max_length, width), _ = shapes[:2]
    inner = shapes[2 + BLOCK.index("feed_forward.expand.bias")][-1]
    layers = (len(shapes) - 2) // len(BLOCK)
    architecture = PostNormDecoder(
        layers=layers, heads=max(1, width // HEAD_WIDTH), width=width, inner=inner, max_length=max_length
    )
    names = ["model.embed.positions.weight", "model.embed.tokens.weight"]
    names += [f"model.blocks.{layer}.{name}" for layer in range(layers) for name in BLOCK]
    weights = {}
    for name, parameter in zip(names, parameters, strict=True):
        transposed = parameter[0].T if parameter.ndim == 3 else parameter
        weights[name] = torch.from_numpy(np.ascontiguousarray(transposed))
    with torch.device("meta"):
        own = architecture.build(unnamed(architecture.vocabulary_size(weights))).state_dict()
    for name, weight in own.items():
        if weights[f"model.{name}"].shape != weight.shape:
            raise InputError(
                tr(
                    "{source}: '{name}' has the shape {shape}, but a GPT-1 of width {width} has {expected} there. "
                    "Copy it again.",
                    source=source / SHAPES,
                    name=name,
                    shape=list(weights[f"model.{name}"].shape),
                    width=width,
                    expected=list(weight.shape),
                )
            )
    return architecture, weights
