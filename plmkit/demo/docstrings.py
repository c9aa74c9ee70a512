"""Text that every reader already has: the documentation inside the Python sources on this machine.

The corpus is the prose of the standard library, torch and numpy: docstrings, the strings that torch and numpy
hand to `add_docstr` and `add_newdoc`, and the language reference that `help()` shows. Sources are parsed, never
imported. Code, tables and headings are left out, since sentences are what a small model can learn from.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import platform
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from plmkit.errors import FolderError, InputError
from plmkit.language import tr
from plmkit.storage.files import cache_folder, put_text
from plmkit.storage.manifest import sha256

FORMAT = 4  # raised whenever the same sources would give another text
PACKAGES = ("torch", "numpy")
SHORTEST = 40  # characters; below, a docstring is a title
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "testing", "idle_test", "__pycache__"}

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Document:
    """One docstring as prose, a paragraph per line, and the module that holds it."""

    module: str
    text: str


def docstring_corpus(cache: Path | None = None, on_progress: Progress | None = None) -> Path:
    """A text file of the documentation on this machine, a blank line between documents; made once."""
    file = cached(cache, ".txt")
    if not is_kept(file):
        write_whole(file, "\n\n".join(document.text for document in installed(cache, on_progress)) + "\n")
    return file


def docstring_task(cache: Path | None = None, seed: int = 0, on_progress: Progress | None = None) -> tuple[Path, Path]:
    """Train and test files of passages and the part of the library that each documents; made once."""
    train, test = (cached(cache, f"-{seed}-{part}.tsv") for part in ROWS_PER_LABEL)
    if not (is_kept(train) and is_kept(test)):
        parts = split(label_passages(installed(cache, on_progress)), seed)
        for file, rows in zip((train, test), parts, strict=True):
            write_whole(file, "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows]))
    return train, test


def installed(cache: Path | None, on_progress: Progress | None) -> list[Document]:
    """The documents of the standard library, torch and numpy, read once and then kept with their modules."""
    file = cached(cache, ".jsonl")
    if not is_kept(file):
        folders = {"": Path(sysconfig.get_path("stdlib"))}
        for package in PACKAGES:
            if (spec := importlib.util.find_spec(package)) and spec.origin:
                folders[package] = Path(spec.origin).parent
        documents = read_folders(folders, on_progress)
        write_whole(file, "".join(json.dumps(vars(document)) + "\n" for document in documents))
    with file.open(encoding="utf-8") as lines:
        return [Document(**json.loads(line)) for line in lines]


def cached(cache: Path | None, ending: str) -> Path:
    """A file in the cache folder, named by everything that decides its content."""
    folder = cache or cache_folder()
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    content = ", ".join([f"format {FORMAT}", f"python {platform.python_version()}", *versions])
    return folder / f"docstrings-{hashlib.sha256(content.encode()).hexdigest()[:12]}{ending}"


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def is_kept(file: Path) -> bool:
    """Whether it is in the cache, unchanged."""
    try:
        return hash_file(file).read_bytes() == hash_line(file).encode()
    except OSError:
        return False


def hash_file(file: Path) -> Path:
    """The file beside it that `sha256sum --check` reads."""
    return file.with_name(f"{file.name}.sha256")


def hash_line(file: Path) -> str:
    return f"{sha256(file)}  {file.name}\n"


def write_whole(file: Path, text: str) -> None:
    try:
        put_text(file, text)
        put_text(hash_file(file), hash_line(file))
    except OSError as error:
        raise FolderError(
            tr(
                "{file} could not be written: {strerror}.\nSet PLM_CACHE to a folder with enough space.",
                file=file,
                strerror=error.strerror,
            )
        ) from error


def read_folders(folders: Mapping[str, Path], on_progress: Progress | None = None) -> list[Document]:
    """The documents of package folders, each text once; a package without name is the standard library."""
    files = [(package, folder, file) for package, folder in folders.items() for file in python_files(folder)]
    documents: dict[str, Document] = {}
    for done, (package, folder, file) in enumerate(files, start=1):
        parts = [package, *file.relative_to(folder).with_suffix("").parts]
        module = ".".join(part for part in parts if part not in ("", "__init__"))
        for docstring in read_docstrings(file):
            text = "\n".join(prose(docstring))
            if len(text) >= SHORTEST:
                documents.setdefault(text, Document(module=module, text=text))
        if on_progress:
            on_progress(done, len(files))
    if not documents:
        looked = ", ".join(str(folder) for folder in folders.values())
        raise InputError(
            tr("No documented Python source was found in {looked}.\nGive a corpus of your own.", looked=looked)
        )
    return list(documents.values())


def python_files(folder: Path) -> list[Path]:
    """The sources under a folder in a fixed order, without tests and other people's packages."""
    files = sorted(folder.rglob("*.py"))
    return [file for file in files if SKIPPED.isdisjoint(file.relative_to(folder).parts[:-1])]


def read_docstrings(file: Path) -> list[str]:
    """The documentation strings of a file, none if it is not Python of this version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as invalid escapes in the sources that are read
        try:
            return list(docstrings(ast.parse(file.read_bytes())))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return []


def docstrings(node: ast.AST) -> Iterator[str]:
    """The documentation strings at and under a statement, in the order of the source."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if text := ast.get_docstring(node, clean=False):
            yield text
    elif isinstance(node, ast.Expr | ast.Assign) and is_documentation(node):
        yield from literals(node.value)
    for field in ("body", "cases", "handlers", "orelse", "finalbody"):
        for child in getattr(node, field, []):
            yield from docstrings(child)


def is_documentation(node: ast.Expr | ast.Assign) -> bool:
    """Whether a statement hands over documentation: `add_docstr(…)`, `x.__doc__ = …`, `topics = …`."""
    named: list[ast.expr] = list(node.targets) if isinstance(node, ast.Assign) else []
    if isinstance(node.value, ast.Call):
        named.append(node.value.func)
    names = {getattr(name, "attr", getattr(name, "id", "")) for name in named}
    return any(re.search(r"add_(new)?doc|_method_doc$|^__doc__$|^topics$", name) for name in names)


def literals(node: ast.AST) -> list[str]:
    """The literal strings of an expression: `"a" + "b".format(…)` is one, a tuple holds several."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(text for part in parts for text in literals(part))]
        case ast.BinOp(left=left, right=right):
            return ["".join(literals(left) + literals(right))]
        case ast.Call(func=ast.Attribute(attr="format" | "replace" | "strip", value=text)):
            return literals(text)
        case ast.Call(args=args, keywords=keywords):
            return [text for child in [*args, *(word.value for word in keywords)] for text in literals(child)]
        case ast.Tuple(elts=children) | ast.List(elts=children) | ast.Dict(values=children):
            return [text for child in children for text in literals(child)]
    return []


DOCTEST = re.compile(r"^[ \t]*>>>.*(?:\n[ \t]*\S.*)*", re.MULTILINE)
UNDERLINE = re.compile(r"\s*([-=~^*#+_.'\"`])\1{2,}\s*")
REMARK = re.compile(r"\.\. (?:note|warning|tip|important|caution|seealso|deprecated|version\w+|rubric)::")
ITEM = re.compile(
    r"[-*+•] |\(?\d+[.)] |:\w[^:`]*:(?: |$)"  # bullets, numbers, :param size:
    r"|[*\w.]+(?:, [*\w.]+)*(?: ?\([^()]*(?:\([^()]*\)[^()]*)*\))? ?:(?: |$)"  # size (int): and size : int
)
CODE = re.compile(
    r"(?:from \S+ )?import \S+$|from \S+ import |(?:async )?def \w+\(|class \w+.*:$|return \S+$"
    r"|(?:try|else):$|for .* in .*:$|(?:if|elif|while|except) .*:$|with \S+\(.*:$"
    r"|[\w.\[\]'\"]+(?:, [\w.]+)* [-+*/|]?= |[*\w.]+\(.*\)(?: *->.*)?[:;,]?(?: *#.*)?$|[@#$%<>{}|\\]|[])]+[,;:]?$|\S+://\S+$"
    r"|.*\S {3,}\S.* {3,}\S|.*\|.*\|"
)


def prose(docstring: str) -> list[str]:
    """The sentences of a docstring, a paragraph per line, without code, tables, headings and markup."""
    lines = inspect.cleandoc(DOCTEST.sub("", docstring)).splitlines()
    paragraphs: list[str] = []
    above: int | None = None  # the indentation of the line above, if the paragraph may continue
    literal: int | None = None  # text further right than this is a literal block
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        text = REMARK.sub("", line.strip()).strip()
        right = len(line) - len(line.lstrip())
        if literal is not None and (not line.strip() or right > literal):
            above = None
            continue
        literal = right if text.startswith(".. ") or text.endswith("::") else None
        if not text or text.startswith(".. ") or CODE.match(text) or is_heading(text, below):
            above = None
        elif above is not None and right >= above and not ITEM.match(text):
            paragraphs[-1] += " " + text
            above = right
        else:
            paragraphs.append(text)
            above = right
    return [text for paragraph in paragraphs if is_text(text := plain(paragraph))]


def is_heading(text: str, below: str) -> bool:
    return bool(UNDERLINE.fullmatch(text) or UNDERLINE.fullmatch(below))


MARKUP: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r":math:`([^`]*)`", lambda found: re.sub(r"\\(?:text\w*|math\w+|left|right)|[\\{}]", "", found[1])),
    (r"(?::[\w+-]+)*:?`+[~!]?([^`<]+?)(?: <[^`]*>)?`+_*", r"\1"),  # :func:`abs`, ``abs``, `site <address>`_
    (r"(?<!\w)\*{1,2}(\w(?:[^*]*\w)?)\*{1,2}(?!\w)", r"\1"),  # *weak* and **strong**
    (r" ?\[#?\w+\]_", ""),  # footnotes
    (r"^:(?:\w+ )*?(\w+):", r"\1:"),  # :param int size:
    (r"^[-*+•] +", ""),
    (r"::(?= |$)", ":"),
    (r"\s+", " "),
)


def plain(paragraph: str) -> str:
    """A paragraph without reStructuredText markup, on one line, in characters that can be printed."""
    for pattern, plainer in MARKUP:
        paragraph = re.sub(pattern, plainer, paragraph)
    return "".join(filter(str.isprintable, paragraph)).strip()


def is_text(paragraph: str) -> bool:
    """Whether a paragraph is made of words: three or more of them, and mostly letters."""
    letters = sum(map(str.isalpha, paragraph))
    return len(paragraph.split()) >= 3 and letters >= 0.7 * len(paragraph.replace(" ", ""))


LABELS = {
    "neural networks": "torch.nn",
    "distributed training": "torch.distributed",
    "compiler": "torch._inductor torch._dynamo torch.fx torch._functorch",
    "quantization": "torch.ao torch.quantization",
    "tensor operations": "torch._torch_docs torch._tensor_docs torch._tensor torch.functional torch._refs "
    "torch.linalg torch.special torch.fft torch.sparse torch.masked torch.nested torch.signal",
    "array operations": "numpy._core numpy.core numpy.lib numpy.ma numpy.linalg numpy.fft "
    "numpy.polynomial numpy.matrixlib",
    "graphical interfaces": "tkinter idlelib turtle",
    "concurrency": "asyncio threading multiprocessing concurrent queue subprocess sched selectors",
    "network and mail": "email http urllib smtplib imaplib poplib ftplib mailbox ssl socket socketserver "
    "xmlrpc wsgiref ipaddress",
    "files and archives": "os _pyio pathlib posixpath ntpath genericpath glob shutil tempfile fileinput "
    "filecmp mimetypes dbm shelve zipfile tarfile gzip bz2 lzma",
}
ROWS_PER_LABEL = {"train": 20, "test": 100}  # few training rows, which is where pretraining helps
ROWS_PER_MODULE = 40  # so that one author's style does not identify a label
FEWEST_WORDS, MOST_WORDS = 16, 80
WORD = re.compile(r"[A-Za-z]+")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # of an identifier: torch_function, DataParallel


def singular(word: str) -> str:
    return word.lower().removesuffix("s") if len(word) > 3 else word.lower()


NAMES = {singular(part) for modules in [*LABELS.values(), "np tk"] for part in PART.findall(modules)} - {
    "tensor",
    "function",
}  # used all over torch, so they give no label away
Row = tuple[str, str]  # text, label


def label_passages(documents: Iterable[Document]) -> dict[str, dict[str, list[str]]]:
    """The passages of each module of each label; a passage found twice is kept where it was first."""
    owners = {module: label for label, modules in LABELS.items() for module in modules.split()}
    found: dict[str, dict[str, list[str]]] = {label: {} for label in LABELS}
    seen: set[str] = set()
    for document in documents:
        parts = document.module.split(".")
        label = owners.get(parts[0]) or owners.get(".".join(parts[:2]))
        if label is None:
            continue
        text = passage(document.text)
        if text not in seen and len(text.split()) >= FEWEST_WORDS:
            seen.add(text)
            found[label].setdefault(document.module, []).append(text)
    return found


def passage(text: str) -> str:
    """The first whole sentences of a document, as far as they fit in `MOST_WORDS`, without names."""
    words: list[str] = []
    for sentence in re.split(r"(?<=[.!?]) |\n", text):
        more = sentence.split()
        if words and len(words) + len(more) > MOST_WORDS:
            break
        words += more
    shown = without_names(" ".join(words[:MOST_WORDS]))
    return " ".join(shown.replace('"', "'").split())  # readers differ on double quotes in a .tsv


def without_names(text: str) -> str:
    """Text without the labels' module names: cut from longer identifiers, replaced by `it` on their own."""

    def without(found: re.Match[str]) -> str:
        kept = found[0]
        for word in (WORD, PART):
            kept = word.sub(lambda found: "" if is_name(found[0]) else found[0], kept)
        return found[0] if kept == found[0] else re.sub(r"[._]{2,}", ".", kept).strip("._") or "it"

    return re.sub(r"\w+(?:\.\w+)*", without, re.sub(r"\S+://\S+", "", text))


@functools.cache
def is_name(word: str) -> bool:
    """Whether a word is a module's name, or has a package's in it as `torchelastic` does."""
    return singular(word) in NAMES or any(package in word.lower() for package in PACKAGES)


def split(found: dict[str, dict[str, list[str]]], seed: int) -> list[list[Row]]:
    """Rows for training and test, in random order; a module is in one of them only."""
    parts: list[list[Row]] = [[] for _ in ROWS_PER_LABEL]
    sizes = list(ROWS_PER_LABEL.values())
    for label, modules in found.items():
        drawn: list[list[tuple[int, str]]] = [[] for _ in sizes]
        for module in sorted(modules, key=lambda name: shuffled(name, seed)):
            fullness = [len(rows) / size for rows, size in zip(drawn, sizes, strict=True)]
            texts = sorted(modules[module], key=lambda text: shuffled(text, seed))
            drawn[fullness.index(min(fullness))] += enumerate(texts[:ROWS_PER_MODULE])
        for part, rows, size in zip(parts, drawn, sizes, strict=True):
            # one passage of each module, then a second of each: many modules rather than many passages of a few
            part += [(text, label) for _, text in sorted(rows, key=lambda row: row[0])[:size]]
    return [sorted(part, key=lambda row: shuffled(row[0], seed)) for part in parts]


def shuffled(text: str, seed: int) -> bytes:
    """A random sorting key that is the same on every machine."""
    return hashlib.sha256(f"{seed} {text}".encode()).digest()
