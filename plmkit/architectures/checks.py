"""Checks of settings that several architectures have."""

from typing import Any

from plmkit.architectures.contract import Architecture
from plmkit.errors import SettingError
from plmkit.initialisation.weights import INITIALISERS
from plmkit.language import comma, tr
from plmkit.layers.transformer import ACTIVATIONS


def check_sizes(settings: Architecture, *names: str) -> None:
    """Refuse numbers below 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise SettingError(
                tr(
                    "architecture.{name} must be at least 1; found {value}.",
                    name=name,
                    value=getattr(settings, name),
                )
            )


def check_heads(width: int, heads: int, even: bool = False) -> None:
    """Refuse a width that is not a multiple of the heads, or an odd one for sinusoidal positions."""
    if even and (width % heads or width % 2):
        raise SettingError(
            tr(
                "architecture.width={width} must be even and a multiple of architecture.heads={heads}.",
                width=width,
                heads=heads,
            )
        )
    if width % heads:
        raise SettingError(
            tr(
                "architecture.width={width} is not a multiple of architecture.heads={heads}. Choose a width that is.",
                width=width,
                heads=heads,
            )
        )


def check_distances(settings: Any) -> None:
    """Refuse negative limits of distances."""
    for name in ("relative_keys", "distance_bias"):
        if getattr(settings, name) < 0:
            raise SettingError(
                tr(
                    "architecture.{name} must be a number of positions, or 0 for none; found {value}.",
                    name=name,
                    value=getattr(settings, name),
                )
            )


def check_initialiser(name: str) -> None:
    if name not in INITIALISERS:
        raise SettingError(
            tr(
                "architecture.initialiser must be {known}; found '{initialiser}'.",
                known=" or ".join(INITIALISERS),
                initialiser=name,
            )
        )


def check_activations(settings: Architecture, *names: str) -> None:
    for name in names:
        if getattr(settings, name) not in ACTIVATIONS:
            known = comma().join(ACTIVATIONS)
            raise SettingError(
                tr(
                    "Unknown architecture.{name} '{value}'; choose from {known}.",
                    name=name,
                    value=getattr(settings, name),
                    known=known,
                )
            )


def check_dropout(settings: Architecture, *names: str) -> None:
    """Refuse values outside 0 to below 1; None means no dropout."""
    for name in names:
        if not 0 <= (getattr(settings, name) or 0.0) < 1:
            raise SettingError(
                tr(
                    "architecture.{name} must be at least 0 and below 1; found {value}.",
                    name=name,
                    value=getattr(settings, name),
                )
            )
