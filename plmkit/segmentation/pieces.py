"""English words from word pieces."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Words from the tokens alone: `##ing` continues one, and a Chinese character is one. Nothing is stored."""

    finds: ClassVar = ("word",)
