"""Figures of matplotlib as files for a screen and for a paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from plmkit.storage.files import new_file, reported_os_errors


def save_figure(make: Callable[[], Any], stem: Path) -> None:
    """stem.png and stem.svg; the same figure gives the same files."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "plmkit"}):
        figure = make()
        for suffix in ("png", "svg"):
            with reported_os_errors(stem.parent), new_file(stem.with_name(f"{stem.name}.{suffix}")) as partial:
                figure.savefig(partial, format=suffix, dpi=200, bbox_inches="tight")
