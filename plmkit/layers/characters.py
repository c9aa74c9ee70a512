"""Words from their characters: convolutions, highway layers, and a projection."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from plmkit.data.spelling import CHARACTER_IDS, NO_CHARACTER
from plmkit.layers.transformer import ACTIVATIONS

CARRY = -2.0  # initial bias of the gates: at first, highway layers mostly pass on their input


class CharacterEncoder(nn.Module):
    """Character ids → word vectors that depend on nothing but the spelling (Peters et al., 2018; allenai/bilm-tf)."""

    def __init__(
        self, width: int, *, characters: int, filters: Sequence[tuple[int, int]], highways: int, activation: str
    ) -> None:
        super().__init__()
        total = sum(count for _, count in filters)
        self.characters = nn.Embedding(CHARACTER_IDS, characters)
        self.sizes = [size for size, _ in filters]
        self.filters = nn.ModuleList(nn.Conv1d(characters, count, size) for size, count in filters)
        self.activation = ACTIVATIONS[activation]
        self.highways = nn.ModuleList(Highway(total) for _ in range(highways))
        self.project = nn.Linear(total, width)
        nn.init.uniform_(self.characters.weight, -1.0, 1.0)
        for convolve in self.filters:
            self.initialise(cast(nn.Conv1d, convolve), activation)
        nn.init.normal_(self.project.weight, std=total**-0.5)
        nn.init.zeros_(self.project.bias)

    @staticmethod
    def initialise(convolve: nn.Conv1d, activation: str) -> None:
        nn.init.zeros_(cast(Tensor, convolve.bias))
        if activation == "relu":
            nn.init.uniform_(convolve.weight, -0.05, 0.05)
        else:
            nn.init.normal_(convolve.weight, std=convolve.weight[0].numel() ** -0.5)

    def forward(self, characters: Tensor) -> Tensor:
        """(N, WORD_LENGTH) → (N, width)."""
        # windows of padding are all alike, so one of them per filter gives the same maximum as all
        longest = int((characters != NO_CHARACTER).sum(1).max())
        embedded = self.characters(characters[:, : longest + max(self.sizes)].long()).transpose(1, 2)
        # the maximum is taken before the activation, as in the released code; with ReLU the order does not matter
        hidden = torch.cat([self.activation(convolve(embedded).amax(2)) for convolve in self.filters], dim=1)
        for highway in self.highways:
            hidden = highway(hidden)
        return self.project(hidden)


class Highway(nn.Module):
    """A gate per number between a ReLU layer and the input itself (Srivastava et al., 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates = nn.Linear(width, 2 * width)  # the new values, then how much of them enters
        nn.init.normal_(self.gates.weight, std=width**-0.5)
        nn.init.zeros_(self.gates.bias)
        with torch.no_grad():
            self.gates.bias[width:] = CARRY

    def forward(self, hidden: Tensor) -> Tensor:
        made, share = self.gates(hidden).chunk(2, dim=-1)
        return torch.lerp(hidden, made.relu(), share.sigmoid())
