"""What each setting means: the comment beside its field in the code is the text that users read."""

import ast
import inspect
import tokenize
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path


def explanation(kind: type, name: str) -> str:
    """Of a setting of this class: its own comment, or that of the nearest base class; "" without either."""
    return next((found for base in kind.__mro__ if (found := explanations(base).get(name))), "")


@cache
def explanations(kind: type) -> dict[str, str]:
    """Of the settings that the class itself declares, by name."""
    try:
        return comments(inspect.getsource(kind), kind.__name__)
    except (OSError, TypeError):  # built in, or installed without its source
        return {}


def explanations_in(module: str, name: str) -> dict[str, str]:
    """The same of a class in a module that is read and not imported: help texts cannot wait for torch."""
    source = source_of(module)
    return comments(source, name) if source else {}


def all_explanations_in(module: str, name: str, root: str) -> dict[str, str]:
    """The same with those of its base classes, up to the one called `root`."""
    source = source_of(module)
    if name == root or not source:
        return {}
    body = ast.parse(source).body
    places = {
        alias.name: node.module
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    bases = next(node.bases for node in body if isinstance(node, ast.ClassDef) and node.name == name)
    found: dict[str, str] = {}
    for base in bases:
        if isinstance(base, ast.Name):
            found |= all_explanations_in(places.get(base.id, module), base.id, root)
    return found | comments(source, name)


@cache
def source_of(module: str) -> str:
    """The text of a module; "" if it is built in, or installed without its source."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return Path(spec.origin).read_text(encoding="utf-8")


def comments(source: str, name: str) -> dict[str, str]:
    """The comments on the lines of each setting in the body of this class: not of constants, nor of what is learned."""
    line: Callable[[], str] = StringIO(source).readline
    found = {token.start[0]: token.string for token in tokenize.generate_tokens(line) if token.type == tokenize.COMMENT}
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name).body
    return {
        node.target.id: " ".join(found[line].lstrip("# ") for line in lines if line in found)
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_setting(node)
        if (lines := range(node.lineno, (node.end_lineno or node.lineno) + 1))
    }


def is_setting(field: ast.AnnAssign) -> bool:
    """Whether --set may change it: it is neither a ClassVar nor `learned(...)`."""
    constant = ast.unparse(field.annotation).startswith("ClassVar")
    learned = isinstance(field.value, ast.Call) and ast.unparse(field.value.func) == "learned"
    return not constant and not learned
