"""Nobody asks an object of ours whether it has an attribute: contracts have optional members with their default."""

import ast
from collections.abc import Iterator
from pathlib import Path

import plmkit

ROOT = Path(plmkit.__file__).parent

# what is not ours may be asked; each with the reason
ALLOWED = {
    "cli/app.py: getattr(error, 'ctx')": "errors of typer's, whichever click they come from",
    "cli/app.py: getattr(error, 'option_name')": "the same",
    "cli/app.py: getattr(error, 'param')": "the same",
    "cli/app.py: hasattr(error, 'format_message')": "the same",
    "cli/app.py: hasattr(stream, 'reconfigure')": "stdout may be any object that can be written to",
    "data/reading/tables.py: getattr(error, 'msg')": "of two exceptions of json's, one has it",
    "data/shards.py: getattr(mapped, '_mmap')": "an array of numpy, which is mapped to a file or is not",
    "data/shards.py: hasattr(mmap, 'MADV_DONTNEED')": "not on every system",
    "demo/docstrings.py: getattr(name, 'attr')": "nodes of Python's syntax",
    "demo/docstrings.py: getattr(name, 'id')": "the same",
    "demo/docstrings.py: getattr(node, field)": "the same",
    "inference/given.py: hasattr(column, 'isna')": "a column of pandas or of something like it",
    "inference/given.py: hasattr(values, 'columns')": "whatever a caller gives",
    "inference/given.py: hasattr(values, 'to_dict')": "the same",
    "inference/given.py: hasattr(values, 'tolist')": "the same",
    "interop/reference.py: getattr(config, 'type_vocab_size')": "a configuration of transformers",
    "tokenizers/tokenizer.py: getattr(self._rust.normalizer, 'handle_chinese_chars')": "a part of tokenizers",
    "tokenizers/tokenizer.py: getattr(self._rust.normalizer, 'strip_accents')": "the same",
    "tokenizers/tokenizer.py: getattr(self._rust.pre_tokenizer, 'add_prefix_space')": "the same",
    "training/device.py: hasattr(os, 'sched_getaffinity')": "not on every system",
    "training/watch.py: getattr(signal, 'SIGHUP')": "not on every system",
}


def probes(source: str) -> Iterator[str]:
    """Calls that ask whether an attribute is there, `hasattr(x, name)` and `getattr(x, name, default)`; no default."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            with_default = node.func.id == "getattr" and len(node.args) + len(node.keywords) == 3
            if with_default or node.func.id == "hasattr":
                yield f"{node.func.id}({', '.join(map(ast.unparse, node.args[:2]))})"


def test_probes_are_found():
    source = 'hasattr(a, "b")\ngetattr(a,\n  "b", None)\ngetattr(a, "b")\na.hasattr("b")'
    assert list(probes(source)) == ["hasattr(a, 'b')", "getattr(a, 'b')"]


def test_only_objects_of_other_libraries_are_probed_for_attributes():
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {probe}"
        for path in sorted(ROOT.rglob("*.py"))
        for probe in probes(path.read_text(encoding="utf-8"))
    }
    assert sorted(found - ALLOWED.keys()) == []
    assert sorted(ALLOWED.keys() - found) == []  # an entry that nothing needs any more
