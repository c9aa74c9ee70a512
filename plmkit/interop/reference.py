"""What transformers computes for a folder, to compare with what we compute."""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.interop.families.family import Outputs
from plmkit.interop.huggingface import read_config
from plmkit.interop.task_heads import TASK_HEADS

VERY_LONG = 1 << 30  # transformers' value for a tokenizer without a maximum length is larger


def transformers_installed() -> bool:
    return importlib.util.find_spec("transformers") is not None


@contextmanager
def in_silence() -> Iterator[None]:
    """Without the progress bar and the report on unused weights that transformers shows while it loads."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def hub_tokens(folder: Path, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """The tokens of texts by transformers, truncated at the folder's maximum length, or else at `max_length`."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    limit = None if tokenizer.model_max_length < VERY_LONG else max_length
    return tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"]


def hub_network(folder: Path) -> Callable[[Batch], dict[str, Tensor]]:
    """The folder opened by transformers: a batch → its outputs by the names of our heads, or the hidden states."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    _, family = read_config(folder)
    name = config.architectures[0]
    with in_silence():
        model = getattr(transformers, name).from_pretrained(folder).eval()
    known = getattr(config, "type_vocab_size", None)  # XLNet has no limit; this is an object of transformers
    outputs = family.CLASSES[name] or {"hidden": "last_hidden_state"}
    chooses = any(TASK_HEADS[head].choices for head in outputs.keys() & TASK_HEADS.keys())  # each row is a choice

    @torch.no_grad()
    def compute(batch: Batch) -> dict[str, Tensor]:
        source = batch.source
        segments = source.segment_ids if known is None else source.segment_ids.clamp(max=known - 1)
        also = {"token_type_ids": segments} if family.SEGMENTS else {}
        tokens = source.tokens
        if config.pad_token_id is not None:  # some find the end of a row by padding
            tokens = tokens.where(source.visible, config.pad_token_id)
        given = {"input_ids": tokens, "attention_mask": source.visible.long(), **also}
        given |= family.also_given(name, batch)
        out = model(**({key: value[:, None] for key, value in given.items()} if chooses else given))
        found = {head: joined([getattr(out, one) for one in names_of(output)]) for head, output in outputs.items()}
        width = tokens.shape[1]
        return {head: part[:, :width] if part.dim() == 3 else part for head, part in found.items()}  # regions come last

    return compute


def names_of(outputs: Outputs) -> tuple[str, ...]:
    return (outputs,) if isinstance(outputs, str) else outputs


def joined(outputs: Sequence[Tensor]) -> Tensor:
    """Several outputs for one head: numbers of the same positions side by side, others one after the other."""
    if len(outputs) == 1:
        return outputs[0]
    if len({output.shape for output in outputs}) == 1:
        return torch.stack(list(outputs), -1)
    return torch.cat([output.flatten(1) if output.dim() > 1 else output[:, None] for output in outputs], -1)
