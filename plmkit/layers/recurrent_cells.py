"""Layers of LSTM and GRU cells: torch's own, for all steps at once, and the same step by step."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, cast

import torch.nn.functional as F
from torch import Tensor, nn

State = tuple[Tensor, ...]  # (B, width) each: the outputs; in an LSTM also the cells


class CellLayer(nn.RNNBase, ABC):
    """One layer of recurrent cells whose input, step by step, may depend on the step before."""

    state_parts: ClassVar[int]  # tensors of a state
    weight_ih_l0: Tensor  # (gates, inputs)
    weight_hh_l0: Tensor  # (gates, width)
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def run(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """(B, L, inputs) → (B, L, width) outputs, and the state after the last step."""
        outputs, after = self(inputs, self.joined(tuple(part[None] for part in state)))
        return outputs, tuple(part[0] for part in self.split(after))

    @abstractmethod
    def step(self, products: Tensor, state: State) -> State:
        """The next state, given (B, gates) products of the input with its weights."""

    def products(self, inputs: Tensor) -> Tensor:
        """(..., n) → (..., gates) products with the weights of the first n inputs, and the bias."""
        return F.linear(inputs, self.weight_ih_l0[:, : inputs.shape[-1]], self.bias_ih_l0)

    def more(self, inputs: Tensor) -> Tensor:
        """(..., n) → (..., gates) products with the weights of the last n inputs, without the bias."""
        return F.linear(inputs, self.weight_ih_l0[:, -inputs.shape[-1] :])

    def joined(self, state: State) -> Any:
        """A state in the form of torch's layer."""
        return state

    def split(self, state: Any) -> State:
        return cast(State, state)


class LSTMLayer(nn.LSTM, CellLayer):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000)."""

    state_parts = 2

    def step(self, products: Tensor, state: State) -> State:
        hidden, cell = state
        gates = products + F.linear(hidden, self.weight_hh_l0, self.bias_hh_l0)
        enter, forget, new, leave = gates.chunk(4, -1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        return leave.sigmoid() * cell.tanh(), cell


class GRULayer(nn.GRU, CellLayer):
    """Gated recurrent units (Cho et al., 2014), in torch's form: the reset gate is applied after the product."""

    state_parts = 1

    def step(self, products: Tensor, state: State) -> State:
        (hidden,) = state
        reset, update, new = products.chunk(3, -1)
        own_reset, own_update, own_new = F.linear(hidden, self.weight_hh_l0, self.bias_hh_l0).chunk(3, -1)
        new = (new + (reset + own_reset).sigmoid() * own_new).tanh()
        return (new + (update + own_update).sigmoid() * (hidden - new),)

    def joined(self, state: State) -> Any:
        return state[0]

    def split(self, state: Any) -> State:
        return (state,)


CELLS: dict[str, type[LSTMLayer] | type[GRULayer]] = {"lstm": LSTMLayer, "gru": GRULayer}
