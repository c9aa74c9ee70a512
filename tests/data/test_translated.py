"""What is decided about a file is the same in every language: no code reads the words of a message."""

import gzip
from pathlib import Path

import pytest

from plmkit import language
from plmkit.data.corpus import open_corpus
from plmkit.data.reading.cells import shown_place, stored_place
from plmkit.errors import InputError


class Marked(dict[str, str]):
    """A catalogue that has every message, with a mark before it."""

    def get(self, key: str, default: object = None) -> str:  # type: ignore[override]
        return f"译{key}"


@pytest.fixture(autouse=True)
def translated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLM_LANG", "zh")
    monkeypatch.setattr(language, "catalogue", lambda name: Marked())


def test_the_remark_on_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,comment\na fine film,yes\n", encoding="utf-8")
    (note,) = open_corpus([tmp_path / "a.csv"]).notes
    assert note == "译The text of a.csv is read from column review.译 To read another: --text comment."


def test_the_remark_on_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short\nlines\n", encoding="utf-8")
    (note,) = open_corpus([tmp_path / "a.txt"]).notes
    assert note.startswith("译a.txt has no blank lines, and its lines are short")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gzip.compress(b"x", mtime=0), "Rename it."),
        (b"%PDF-1.7\n", "is 译a PDF file, not text. Extract its text first."),
        ("好的文本。\n".encode() + "企鹅不擅长飞行。\n".encode("gb18030"), "译译line 2 probably in GB18030"),
        ("企鹅不擅长飞行。\n".encode("gb18030"), "译It looks like GB18030"),
    ],
)
def test_the_kind_of_a_file(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError) as refusal:
        list(open_corpus([tmp_path / "a.txt"]).documents())
    assert says in str(refusal.value)


@pytest.mark.parametrize(("name", "unit"), [("a, b.txt", "line"), ("a.parquet", "row")])
def test_a_place_is_stored_in_english_and_shown_translated(name: str, unit: str) -> None:
    stored = stored_place(name, 12)
    assert stored == f"{name}, {unit} 12"
    assert shown_place(stored) == f"译{name}, {unit} 12"
