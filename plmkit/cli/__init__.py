"""The verbs of `plm`: parse, call, print. What is slow to import is imported by the verb that needs it."""

# in the order in which --help lists them
from plmkit.cli import looking, training, distilling, evaluating, using, searching, generating  # noqa: F401, I001
from plmkit.cli import translating, captioning, completing, seeing, words, converting, compressing  # noqa: F401
from plmkit.cli.app import app, main

__all__ = ["app", "main"]
