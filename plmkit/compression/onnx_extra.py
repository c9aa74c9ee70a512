"""The libraries of the optional extra `plmkit[onnx]`, imported where they are used."""

from importlib import import_module
from typing import Any

from plmkit.errors import PlmError
from plmkit.language import tr


def library(name: str) -> Any:
    """onnxruntime, onnx or onnxscript; a missing one is an error that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise PlmError(
            tr(
                "{name} is not installed, and a compressed model needs it. Install it: pip install 'plmkit[onnx]'",
                name=name,
            )
        ) from error
