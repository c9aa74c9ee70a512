"""A causal Transformer whose steps onnxruntime computes: generates text like the network it was made from."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.architectures.contract import CacheSettings, GeneratingModel, empty_cache
from plmkit.architectures.decoder import DecoderSettings
from plmkit.compression.decoder_graph import LOGITS, STEP
from plmkit.compression.session import Session, refuse_embeddings, refuse_layers
from plmkit.data.batch import Batch, States
from plmkit.layers.cache import KeyValueCache
from plmkit.objectives.causal_lm import CausalHead


class GraphDecoder(GeneratingModel[KeyValueCache]):
    has_layers = False

    def __init__(self, settings: DecoderSettings, folder: Path) -> None:
        super().__init__()
        self.settings, self.session = settings, Session(folder / STEP)
        self.like = torch.zeros(())

    def forward(self, batch: Batch) -> States:
        """Rows are padded on the right, where nothing attends."""
        if batch.all_layers:
            raise refuse_layers(self.session.file.parent)
        tokens, visible = batch.source.tokens, batch.source.visible
        hidden = self.extend(tokens, self.begin(CacheSettings(len(tokens), tokens.shape[1])))
        last = visible.sum(1) - 1
        return States(hidden=hidden, pooled=hidden[torch.arange(len(last)), last])

    def begin(self, given: CacheSettings) -> KeyValueCache:
        return empty_cache(given, self.settings, self.settings.heads, like=self.like)

    def extend(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """(B, n) next tokens → (B, n, width) states.

        onnxruntime reads several tokens after others in a single row only.
        """
        rows, count = tokens.shape
        before = cache.length
        cache.length += count
        if before == 0 or count == 1 or rows == 1:
            return self.read(tokens, cache.both, before)
        parts = [self.read(tokens[row : row + 1], cache.both[:, :, row : row + 1], before) for row in range(rows)]
        return torch.cat(parts)

    def read(self, tokens: Tensor, both: Tensor, before: int) -> Tensor:
        """The states of tokens after `before` others; keys and values are written into the cache."""
        rows, count = tokens.shape
        opened = self.session.opened()
        binding = opened.io_binding()
        given = {
            "tokens": tokens.contiguous().numpy(), "positions": np.arange(before, before + count),
            "last": np.full(rows, before + count - 1, dtype=np.int32),
            "total": np.array(before + count, dtype=np.int32),
        }  # fmt: skip
        for name, array in given.items():
            binding.bind_cpu_input(name, array)
        shape = tuple(both.shape[2:])
        for layer, parts in enumerate(both.unbind()):
            for name, part in zip(("keys", "values"), parts.unbind(), strict=True):
                place = "cpu", 0, np.float32, shape, part.data_ptr()
                binding.bind_input(f"{name}.{layer}", *place)
                binding.bind_output(f"{name}.{layer}.new", *place)
        binding.bind_output("hidden")
        opened.run_with_iobinding(binding)
        hidden: Any = binding.get_outputs()[-1].numpy()
        return torch.from_numpy(hidden)

    @property
    def input_embeddings(self) -> tuple[nn.Module, ...]:
        raise refuse_embeddings(self.session.file.parent)


class GraphLogits(nn.Module):
    """The logits of states."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.session = Session(folder / LOGITS)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) → (..., vocabulary)."""
        rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
        logits = torch.from_numpy(self.session.run({"hidden": rows.numpy()})["logits"])
        return logits.unflatten(0, hidden.shape[:-1])


class GraphHead(CausalHead):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.vocabulary = GraphLogits(folder)
