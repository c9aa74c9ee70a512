"""The messages of plmkit and their catalogue: `python -m tools.messages` brings plmkit/locale/zh.po up to date.

New messages get an empty translation, those that are gone from the code are dropped, all others stay as they are.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plmkit.language import LOCALE, SYSTEM, counted, read_po

PACKAGE = LOCALE.parent
PROSE = re.compile(r"[A-Za-z]{2,}[,:;]? ([a-z]{2,}|\{\})|(\{\}|\b[Aa]n?) [a-z]{2,}")  # two words, or a word and a value
NO_PROSE = re.compile(  # commands, options and what is hashed
    r"\s*(plm:?|plmkit|tensorboard|python|grep) |--[\w-]+ \{\}(\.\{\}=VALUE|=\{\})?$"
    r"|(store|tokenizer|format|units) \{\}|\{\}: \{\} MB "
)
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: zh\\n"\n'

TRANSLATING = {"tr", "several", "translated", "message"}  # their first string is a key of the catalogue
# where words in a row are no message: programmers read them, or they are data
SILENT_CALLS = {"examples", "re.compile", "_words", "ValueError", "TypeError", "AttributeError", "NotImplementedError"}
SILENT_ARGUMENTS = {
    "notes",
    "summary",
    "paper",
    "deviations",
    "style",
    "loc",
}  # of recipes, translated when shown; of pictures
SILENT_CONSTANTS = {
    "FOR_MINUTES",
    "TINY_FOR_MINUTES",
    "NOTES",
    "SENTENCES",
    "TEXTS",
    "LABELS",
    "NAMES",
    "STOPWORDS",
    "PARTICLES",
}
SILENT_CONSTANTS |= {"HELP", "ERRORS", "SYSTEM"}  # of other programs
SILENT_CONSTANTS |= {"OPENING", "INNER", "FRONTED", "ANSWERING", "NOT_BEFORE", "GIVEAWAYS"}  # connectives
SILENT_NODES = (ast.Assert, ast.Compare)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A string in the code."""

    file: str
    line: int
    text: str


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def keys() -> dict[str, list[str]]:
    """Every key of the catalogue, with the files that it stands in."""
    found: dict[str, list[str]] = {}
    for file, tree in sources():
        for call in calls(tree, TRANSLATING):
            if (key := key_of(call)) is not None:
                found.setdefault(key, []).append(file)
    for file, texts in shown_texts().items():
        for text in texts:
            found.setdefault(text, []).append(file)
    return found


def calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def key_of(call: ast.Call) -> str | None:
    """What the call looks up; None if that is not a literal."""
    assert isinstance(call.func, ast.Name)
    text = call.args[1 if call.func.id == "several" else 0]
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        return None
    return counted(text.value) if call.func.id == "several" else text.value


def shown_texts() -> dict[str, list[str]]:
    """What is shown in the reader's language but is data and not in a call of `tr`, by where it is."""
    from plmkit.cli.show_recipes import texts_of_recipes
    from plmkit.cli.typer_words import ERRORS, HELP
    from plmkit.tasks.registry import KINDS
    from plmkit.terminal.labels import NAMES

    summaries = [kind.summary for kind in KINDS.values()]
    return {
        "recipes": texts_of_recipes(),
        "cli/typer_words.py": [*HELP, *ERRORS],
        "tasks/registry.py": summaries,
        "terminal/labels.py": list(NAMES),
        "language.py": list(SYSTEM),
    }


def bypassing(tree: ast.Module) -> Iterator[ast.expr]:
    """Strings of two words or more that no call translates; the outermost ones, without documentation."""
    yield from _bypassing(tree)


def _bypassing(node: ast.AST) -> Iterator[ast.expr]:
    if is_silent(node):
        return
    if (text := text_of(node)) is not None:
        if PROSE.search(text) and not NO_PROSE.match(text):
            assert isinstance(node, ast.expr)
            yield node
            return
        if isinstance(node, ast.JoinedStr):  # glue may hold sentences
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from _bypassing(part.value)
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TRANSLATING:
        for value in node.keywords:
            yield from _bypassing(value.value)
        return
    for child in ast.iter_child_nodes(node):
        yield from _bypassing(child)


def is_silent(node: ast.AST) -> bool:
    if isinstance(node, SILENT_NODES):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # documentation
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return called in SILENT_CALLS or called.endswith((".split", ".stylize"))
    if isinstance(node, ast.keyword):
        return node.arg in SILENT_ARGUMENTS
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id in SILENT_CONSTANTS for target in node.targets)
    return False


def text_of(node: ast.AST) -> str | None:
    """The words of a literal or of an f-string, whose values become {}."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def untranslated() -> list[Found]:
    """Messages of the package that bypass the catalogue."""
    return [
        Found(file=file, line=node.lineno, text=text_of(node) or "")
        for file, tree in sources()
        for node in bypassing(tree)
    ]


def entry(key: str, files: list[str], translation: str) -> str:
    """One entry of a PO file."""
    where = f"#: {' '.join(sorted(set(files)))}\n"
    if key.startswith("{count:,} "):
        return f"{where}msgid {quoted(key)}\nmsgid_plural {quoted(key + 's')}\nmsgstr[0] {quoted(translation)}\n"
    return f"{where}msgid {quoted(key)}\nmsgstr {quoted(translation)}\n"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def update(path: Path) -> tuple[int, int, int]:
    """Write the catalogue from the code: how many entries it has, how many are empty, how many were dropped."""
    known = {key: text for key, text in read_po(path.read_text(encoding="utf-8")) if key}
    found = keys()
    entries = [entry(key, files, known.get(key, "")) for key, files in found.items()]
    path.write_text("\n".join([HEADER, *entries]), encoding="utf-8")
    return len(found), sum(not known.get(key) for key in found), len(known.keys() - found.keys())


if __name__ == "__main__":
    if unknown := [word for word in sys.argv[1:] if word != "--check"]:
        sys.exit(f"{__doc__}\n--check also lists messages that bypass the catalogue; found {unknown}.")
    total, empty, dropped = update(LOCALE / "zh.po")
    print(f"{total} messages, {empty} without a translation, {dropped} dropped.")
    for each in untranslated() if "--check" in sys.argv else ():
        print(f"{each.file}:{each.line}: not in a call of tr: {each.text!r}")
