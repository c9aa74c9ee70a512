import errno
import os
from collections import Counter
from pathlib import Path

import pytest

from plmkit.demo import docstrings
from plmkit.demo.docstrings import (
    LABELS,
    Document,
    docstring_corpus,
    docstring_task,
    label_passages,
    passage,
    prose,
    read_folders,
    split,
    without_names,
)
from plmkit.errors import FolderError, InputError

SHAPES = '''
"""Tools that measure the shapes of a drawing.

They all work in millimetres.
"""
raise RuntimeError("this module was imported")


class Circle:
    """A round shape that knows its radius and its centre."""

    async def area(self):
        """Return the area of the circle, in square millimetres."""

    def short(self):
        """Too short."""


if True:
    def same():
        """A round shape that knows its radius and its centre."""
'''
CALLS = r'''
add_docstr(shapes.turn, r"""
turn(shape, angle) -> Shape

Turn a shape around its centre by an :attr:`angle` in degrees.

Args:
    {shape}
    angle (float): how far, counted against the clock
""".format(**common))
fold = _add_docstr(shapes.fold, "Fold a shape along its longest side, " + "then press it flat.")
add_newdoc("shapes", "Shape", ("edges", f"The edges of a shape, in the order {drawn} of the drawing."))
Shape.__doc__ = "Anything that can be drawn on paper with one line."
other("This string is handed to a function that documents nothing.")
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package folder with two good files, and four that must be skipped."""
    folder = tmp_path / "shapes"
    for name in ("tests", "deep/site-packages"):
        (folder / name).mkdir(parents=True)
    (folder / "__init__.py").write_text(SHAPES)
    (folder / "deep" / "_calls.py").write_text(CALLS)
    (folder / "broken.py").write_text('"""This docstring is in a file that does not parse."""\ndef (')
    (folder / "binary.py").write_bytes(b"\x00\xff\xfe")
    for hidden in ("tests/test_it.py", "deep/site-packages/other.py"):
        (folder / hidden).write_text('"""This docstring is in a file that is not to be read."""')
    return folder


@pytest.fixture
def only_shapes(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing but the small package is installed."""
    monkeypatch.setattr(docstrings.sysconfig, "get_path", lambda name: str(package))
    monkeypatch.setattr(docstrings, "PACKAGES", ())
    return package


def test_documents_are_read_from_docstrings_and_documenting_calls_without_importing(package: Path) -> None:
    assert read_folders({"shapes": package}) == [
        Document(
            module="shapes",
            text="Tools that measure the shapes of a drawing.\nThey all work in millimetres.",
        ),
        Document(module="shapes", text="A round shape that knows its radius and its centre."),
        Document(module="shapes", text="Return the area of the circle, in square millimetres."),
        Document(
            module="shapes.deep._calls",
            text="Turn a shape around its centre by an angle in degrees.\n"
            "angle (float): how far, counted against the clock",
        ),
        Document(
            module="shapes.deep._calls",
            text="Fold a shape along its longest side, then press it flat.",
        ),
        Document(module="shapes.deep._calls", text="The edges of a shape, in the order of the drawing."),
        Document(module="shapes.deep._calls", text="Anything that can be drawn on paper with one line."),
    ]


def test_old_escapes_in_a_source_raise_no_warning(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text('"""A path such as C:\\data, written before raw strings were."""')
    assert [document.module for document in read_folders({"": tmp_path})] == ["old"]


def test_the_language_reference_of_pydoc_is_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "topics.py").write_text("topics = {'pass': 'The pass statement is a null operation, no more.'}")
    assert [document.text for document in read_folders({"": tmp_path})] == [
        "The pass statement is a null operation, no more."
    ]


def test_progress_counts_the_files(package: Path) -> None:
    seen: list[tuple[int, int]] = []
    read_folders({"shapes": package}, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_folder_without_documentation_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No documented Python source was found in .*\nGive a corpus"):
        read_folders({"": tmp_path})


@pytest.mark.parametrize(
    ("docstring", "paragraphs"),
    [
        (
            "Wrapped lines are\n    one paragraph.\n\n    This is another.",
            "Wrapped lines are one paragraph.|This is another.",
        ),
        ("Title of it all\n===============\n\nThe text goes on.", "The text goes on."),
        (
            "Parameters\n----------\nsize : int\n    How large it is.\nrate : float\n    How fast.",
            "size : int How large it is.|rate : float How fast.",
        ),
        (
            "Args:\n    size (int, optional): how large\n        it is\n    rate: how fast it goes",
            "size (int, optional): how large it is|rate: how fast it goes",
        ),
        ("Returns:\n    The size of the whole.", "Returns: The size of the whole."),
        (
            ":param int size: how large it is\n:return: the whole of it",
            "size: how large it is|return: the whole of it",
        ),
        ("- one thing to do\n- another thing\n  to do", "one thing to do|another thing to do"),
        (
            "Before the example.\n\n>>> add(1, 2)\n3\n\nAfter the example.",
            "Before the example.|After the example.",
        ),
        (
            "Look at this example::\n\n    some words of code\n\n    and more of it\n\nBack to text now.",
            "Look at this example:|Back to text now.",
        ),
        (
            ".. math::\n    formula\n\n.. note:: Words of a note.\n\n.. warning::\n    Words that warn.",
            "Words of a note.|Words that warn.",
        ),
        ("add(one, two) -> int\n\nAdd two numbers up.", "Add two numbers up."),
        (
            "Use it so:\n\n    import shapes\n    one = Circle(2)\n    for line in one:\n\nThen draw a line.",
            "Use it so:|Then draw a line.",
        ),
        ("| a | table |\n+---+-------+\nname   size   colour\n\nNo table at all.", "No table at all."),
        (
            "See :func:`~torch.abs`, ``code``, *weak*, **strong** and `a site <address>`_ [1]_.",
            "See torch.abs, code, weak, strong and a site.",
        ),
        ("It takes *args and **kwargs of any kind.", "It takes *args and **kwargs of any kind."),
        (r"A line of :math:`\text{length}_{in}` points.", "A line of length_in points."),
        ("Two\x00 words\ud800 and\x1b more.", "Two words and more."),
        ("1 + 2 = 3 * 4 / 5", ""),
    ],
)
def test_only_the_prose_of_a_docstring_is_kept(docstring: str, paragraphs: str) -> None:
    assert "|".join(prose(docstring)) == paragraphs


def test_the_corpus_is_a_text_file_with_a_blank_line_between_documents(only_shapes: Path, tmp_path: Path) -> None:
    text = docstring_corpus(tmp_path / "cache").read_text()
    assert text.startswith(
        "Tools that measure the shapes of a drawing.\nThey all work in millimetres.\n\nA round shape"
    )
    assert text.count("\n\n") == 6 and text.endswith("with one line.\n")


def test_the_second_call_reads_and_writes_nothing(
    only_shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = docstring_corpus(tmp_path / "cache"), *docstring_task(tmp_path / "cache")
    written = [file.stat().st_mtime_ns for file in first]
    monkeypatch.setattr(docstrings, "read_folders", None)
    monkeypatch.setattr(docstrings, "write_whole", None)
    second = docstring_corpus(tmp_path / "cache"), *docstring_task(tmp_path / "cache")
    assert second == first
    assert [file.stat().st_mtime_ns for file in second] == written


@pytest.mark.parametrize("content", [b"", b"other text\n", b"\xff{", None])
def test_a_damaged_file_of_the_cache_is_written_again(only_shapes: Path, tmp_path: Path, content: bytes | None) -> None:
    cache = tmp_path / "cache"
    docstring_corpus(cache), docstring_task(cache)
    whole = {file: file.read_bytes() for file in cache.iterdir()}
    assert len(whole) == 8  # two of the corpus, two of the task, and the hash of each
    for file in whole:
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        docstrings.installed(cache, None), docstring_corpus(cache), docstring_task(cache)
        assert {file: file.read_bytes() for file in cache.iterdir()} == whole


def test_the_task_uses_what_the_corpus_has_read(
    only_shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docstring_corpus(tmp_path)
    monkeypatch.setattr(docstrings, "read_folders", None)
    assert docstring_task(tmp_path)[0].read_text() == "text\tlabel\n"


def test_another_version_or_format_is_another_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = {docstrings.cached(tmp_path, ".txt")}
    monkeypatch.setattr(docstrings, "FORMAT", docstrings.FORMAT + 1)
    names.add(docstrings.cached(tmp_path, ".txt"))
    monkeypatch.setattr(docstrings.platform, "python_version", lambda: "9.9.9")
    names.add(docstrings.cached(tmp_path, ".txt"))
    monkeypatch.setattr(docstrings.importlib.metadata, "version", lambda package: "9.9.9")
    names.add(docstrings.cached(tmp_path, ".txt"))
    assert len(names) == 4


def test_the_cache_is_where_plm_cache_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLM_CACHE", str(tmp_path / "mine"))
    assert docstrings.cached(None, ".txt").parent == tmp_path / "mine"
    monkeypatch.delenv("PLM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "all"))
    assert docstrings.cached(None, ".txt").parent == tmp_path / "all" / "plmkit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert docstrings.cached(None, ".txt").parent == Path.home() / ".cache" / "plmkit"


def test_a_full_disk_leaves_no_partial_file(only_shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FolderError, match=r"could not be written: No space left on device\.\nSet PLM_CACHE"):
        docstring_corpus(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_is_not_a_folder_is_an_error(only_shapes: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="could not be written"):
        docstring_corpus(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Call torch.nn.Conv2d from PyTorch.", "Call Conv2d from it."),
        ("NumPy arrays and numpy.linalg.norm", "it arrays and norm"),
        ("AsyncIO, asyncio.sleep and HTTPServer", "it, sleep and Server"),
        ("Sockets, TorchInductor and torchelastic", "it, it and it"),
        ("torch_function of a Tensor", "function of a Tensor"),
        ("see https://numpy.org/doc for more", "see  for more"),
        ("A natural mean of e.g. this.", "A natural mean of e.g. this."),
    ],
)
def test_names_of_modules_are_removed(text: str, shown: str) -> None:
    assert without_names(text) == shown


def test_a_passage_ends_with_a_sentence_and_is_one_line() -> None:
    sentence = " ".join(["word"] * 29) + ' "end".'
    assert passage(f"{sentence} {sentence}\n{sentence}") == f"{sentence} {sentence}".replace('"', "'")
    assert len(passage(" ".join(["word"] * 200)).split()) == 80


def test_labels_come_from_module_paths_and_passages_are_kept_once() -> None:
    long = "This passage has the sixteen words that a passage of the task must have at the"
    documents = [
        Document(module="torch.nn.modules.conv", text=f"{long} end."),
        Document(module="torch.nn.modules.pool", text=f"{long} end."),
        Document(module="email", text=f"{long} start."),
        Document(module="emails", text=f"{long} middle."),
        Document(module="email.header", text="Too short a passage."),
    ]
    found = {label: modules for label, modules in label_passages(documents).items() if modules}
    assert found == {
        "neural networks": {"torch.nn.modules.conv": [f"{long} end."]},
        "network and mail": {"email": [f"{long} start."]},
    }


def test_a_module_is_in_one_part_only_and_the_seed_decides_which() -> None:
    found = {"compiler": {f"m{module}": [f"m{module} {row}" for row in range(9)] for module in range(60)}}
    parts = split(found, seed=0)
    assert [len(part) for part in parts] == [20, 100]
    train, test = ({text.split()[0] for text, _ in part} for part in parts)
    assert not train & test
    assert split(found, seed=0) == parts
    assert split(found, seed=1) != parts


def test_rows_are_drawn_from_many_modules() -> None:
    found = {"compiler": {f"m{module}": [f"m{module} {row}" for row in range(9)] for module in range(250)}}
    for part in split(found, seed=0):
        assert max(Counter(text.split()[0] for text, _ in part).values()) <= 2


@pytest.mark.slow
def test_this_machine_has_enough_text_for_a_corpus_and_a_task(tmp_path: Path) -> None:
    text = docstring_corpus(tmp_path).read_text()
    assert len(text) > 4_000_000
    assert len(set(text.split("\n\n"))) == text.count("\n\n") + 1 > 8_000
    parts = []
    for file, fewest in zip(docstring_task(tmp_path), (200, 800), strict=True):
        header, *rows = (line.split("\t") for line in file.read_text().splitlines())
        assert header == ["text", "label"]
        assert len(rows) >= fewest and {label for _, label in rows} <= set(LABELS)
        assert all(16 <= len(passage.split()) <= 80 and "torch" not in passage.lower() for passage, _ in rows)
        parts.append({passage for passage, _ in rows})
    train, test = parts
    assert not train & test
