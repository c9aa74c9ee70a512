"""Files of every kind become documents, or an error that says what to do."""

import csv
import errno
import gzip
import json
import os
import random
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from plmkit.data.corpus import Corpus, Document, open_corpus
from plmkit.data.reading import blocks, formats
from plmkit.errors import InputError, SettingError

Write = Callable[[str, str | bytes], Path]
TWO = [("First line.", "Second line."), ("Another document.",)]
TWO_TEXT = "First line.\nSecond line.\n\nAnother document.\n"
SENTENCE = "This line is long enough to be a paragraph of its own, with sixty characters."


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def texts(corpus: Corpus) -> list[tuple[str, ...]]:
    return [document.paragraphs for document in corpus.documents()]


def refused(*paths: str | Path, **settings: str) -> str:
    """The message of the error that opening and reading raises."""
    with pytest.raises((InputError, SettingError)) as caught:
        texts(open_corpus(paths, **settings))
    message = str(caught.value)
    assert len(message.split("\n")) <= 3
    return message


# Plain text


def test_blank_lines_divide_documents_and_lines_are_paragraphs(write: Write) -> None:
    path = write("a.txt", "\n  First line. \nSecond line.\n\n \t\nAnother document.")
    corpus = open_corpus([path])
    assert list(corpus.documents()) == [
        Document(paragraphs=("First line.", "Second line."), source=str(path), lines=(2, 3)),
        Document(paragraphs=("Another document.",), source=str(path), lines=(6,)),
    ]
    assert corpus.sources[0].layout == "blank-lines"
    assert corpus.notes == ()


def test_documents_can_be_read_again(write: Write) -> None:
    corpus = open_corpus([write("a.txt", TWO_TEXT)])
    assert texts(corpus) == texts(corpus) == TWO


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_byte_order_marks_and_windows_line_ends_are_no_text(write: Write, ending: str, mark: bytes) -> None:
    path = write("a.txt", mark + TWO_TEXT.replace("\n", ending).encode())
    assert texts(open_corpus([path])) == TWO


def test_long_lines_without_blank_ones_are_documents_and_this_is_said(write: Write) -> None:
    corpus = open_corpus([write("reviews.txt", f"{SENTENCE}\n" * 3 + "\n\n")])
    assert texts(corpus) == [(SENTENCE,)] * 3
    assert corpus.notes == ("reviews.txt has no blank lines: each line is read as one document.",)


def test_short_lines_without_blank_ones_are_one_document_and_this_is_said(write: Write) -> None:
    corpus = open_corpus([write("poem.txt", "\n\nRoses are red,\nviolets are blue.\n")])
    assert texts(corpus) == [("Roses are red,", "violets are blue.")]
    assert corpus.notes == (
        "poem.txt has no blank lines, and its lines are short: the whole file is read as one document.",
    )


def test_thirty_chinese_characters_make_a_paragraph(write: Write) -> None:
    assert open_corpus([write("a.txt", ("中" * 30 + "\n") * 3)]).sources[0].layout == "document-per-line"
    assert open_corpus([write("b.txt", ("中" * 29 + "\n") * 3)]).sources[0].layout == "document-per-file"


def test_a_blank_line_late_in_a_file_counts(write: Write) -> None:
    corpus = open_corpus([write("a.txt", f"{SENTENCE}\n" * 30_000 + "\n" + SENTENCE)])
    assert corpus.sources[0].layout == "blank-lines"
    assert [len(text) for text in texts(corpus)][-1] == 1


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("blank-lines", TWO),
        ("document-per-line", [("First line.",), ("Second line.",), ("Another document.",)]),
        ("document-per-file", [("First line.", "Second line.", "Another document.")]),
    ],
)
def test_the_layout_can_be_set_and_then_needs_no_note(
    write: Write, layout: str, expected: list[tuple[str, ...]]
) -> None:
    corpus = open_corpus([write("a.txt", TWO_TEXT)], layout=layout)
    assert texts(corpus) == expected
    assert corpus.notes == ()


def test_an_unknown_layout_is_refused_with_the_nearest(write: Write) -> None:
    message = refused(write("a.txt", "x"), layout="blank-line")
    assert message == (
        "There is no layout 'blank-line'. Did you mean 'blank-lines'? "
        "Layouts: auto, blank-lines, document-per-line, document-per-file."
    )
    assert "There is no layout 'document-per-row'" in refused(write("a.txt", "x"), layout="document-per-row")


def test_settings_that_would_be_ignored_are_refused(write: Write) -> None:
    plain, table = write("a.txt", "x"), write("a.csv", "text\nhello\n")
    assert refused(table, layout="document-per-line").startswith("layout=document-per-line is for plain text")
    assert refused(plain, column="body").startswith("--text body names a table column")


def test_zero_width_and_control_characters_stay(write: Write) -> None:
    assert texts(open_corpus([write("a.txt", "a\u200bb\x07c\u2028d\x0be")])) == [("a\u200bb\x07c\u2028d\x0be",)]


# Bounded memory


def test_any_block_size_gives_the_same_documents(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    text = "".join(rng.choices("ab中é😀\r\n\n ", k=3000))
    path = write("a.txt", text)
    expected = list(open_corpus([path], layout="blank-lines").documents())
    assert [part for document in expected for part in document.paragraphs] == [
        part.strip() for part in text.split("\n") if part.strip()
    ]
    for size in (3, 7, 64, 1000):
        monkeypatch.setattr(blocks, "BLOCK", size)
        assert list(open_corpus([path], layout="blank-lines").documents()) == expected


def test_the_layout_is_the_same_for_any_block_size(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    divided = write("a.txt", "one\r\n \r\n\r\ntwo\n")
    whole = write("b.txt", "\n \none\n\n\n  \n")
    for size in range(3, 20):
        monkeypatch.setattr(blocks, "BLOCK", size)
        assert open_corpus([divided]).sources[0].layout == "blank-lines"
        assert open_corpus([whole]).sources[0].layout == "document-per-file"


def test_a_long_document_is_cut_between_paragraphs(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "LONGEST_DOCUMENT", 10)
    corpus = open_corpus([write("a.txt", "12345\n67890\nabc\ndef\n")], layout="document-per-file")
    assert [(document.line, document.paragraphs) for document in corpus.documents()] == [
        (1, ("12345", "67890")),
        (3, ("abc", "def")),
    ]


@pytest.mark.parametrize("layout", ["blank-lines", "document-per-line", "document-per-file"])
@pytest.mark.parametrize("block", [4, 1000])
def test_a_long_line_is_cut_at_a_space_or_hard(
    write: Write, monkeypatch: pytest.MonkeyPatch, layout: str, block: int
) -> None:
    monkeypatch.setattr(formats, "LONGEST_DOCUMENT", 10)
    monkeypatch.setattr(blocks, "BLOCK", block)
    corpus = open_corpus([write("a.txt", "x\n\n1234567 9012345 7890abcdefghijklmn\n\ny\n")], layout=layout)
    found = [(document.line, document.paragraphs) for document in corpus.documents()]
    pieces = [(3, ("1234567",)), (3, ("9012345",)), (3, ("7890abcdef",)), (3, ("ghijklmn",))]
    if layout == "document-per-file":
        assert [part for _, parts in found for part in parts] == ["x", *(part[0] for _, part in pieces), "y"]
    else:
        assert found == [(1, ("x",)), *pieces, (5, ("y",))]


def test_the_end_of_a_cut_line_is_no_blank_line(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "LONGEST_DOCUMENT", 10)
    monkeypatch.setattr(blocks, "BLOCK", 11)
    corpus = open_corpus([write("a.txt", "1234567890 \nab\n")], layout="blank-lines")
    assert [(document.line, document.paragraphs) for document in corpus.documents()] == [
        (1, ("1234567890",)),
        (2, ("ab",)),
    ]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_one_endless_line_is_read_in_bounded_memory(write: Write, name: str) -> None:
    content = b"word " * 8_000_000  # 40 MB, which any packed file may give
    compress = {".gz": lambda data: gzip.compress(data, 1, mtime=0), ".zst": zstandard.compress}
    corpus = open_corpus([write(name, compress.get(Path(name).suffix, bytes)(content))])
    tracemalloc.start()
    sizes = [len(document.paragraphs[0]) for document in corpus.documents()]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(sizes) <= 1_000_000
    assert sum(sizes) + len(sizes) == len(content)  # one space is lost at the end of each piece
    assert peak < 20_000_000


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.jsonl.zst"])
def test_a_packed_file_that_swells_without_end_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A million words in a few kilobytes; a bomb gives a terabyte."""
    monkeypatch.setattr(blocks, "SMALL", 1 << 21)
    content = (b'{"text": "word"}\n' if "jsonl" in name else b"word ") * 1_000_000
    compress = gzip.compress if name.endswith("gz") else zstandard.compress
    path = write(name, compress(content))
    size = path.stat().st_size
    assert 250 * size < len(content)
    assert re.fullmatch(
        rf"{re.escape(str(path))} expands to more than \d+ MB from 0\.\d MB, over 250 times its size\.\n"
        r"If this is intended, decompress it and give the text file\.",
        refused(path),
    )


def test_bytes_on_disk_are_reported_as_they_are_read(write: Write) -> None:
    table = pyarrow.table({"text": ["hello"] * 1000})
    parquet = write("c.parquet", b"")
    pyarrow.parquet.write_table(table, parquet)
    paths = [
        write("a.txt", f"{TWO_TEXT}\n" * 50_000),
        write("b.txt.gz", gzip.compress(f"{TWO_TEXT}\n".encode() * 1000, mtime=0)),
        parquet,
        write("d.jsonl.zst", zstandard.compress(b'{"text": "hello"}\n' * 1000)),
    ]
    corpus = open_corpus(paths)
    reported: list[int] = []
    assert sum(1 for _ in corpus.documents(reported.append)) == 50_000 * 2 + 2000 + 1000 + 1000
    assert sum(reported) == corpus.size == sum(path.stat().st_size for path in paths)
    assert max(reported) <= 1 << 20


# Compression


def test_compressed_files_are_read_like_plain_ones(write: Write) -> None:
    data = TWO_TEXT.encode()
    paths = [write("a.txt.gz", gzip.compress(data, mtime=0)), write("b.text.zst", zstandard.compress(data))]
    corpus = open_corpus(paths)
    assert texts(corpus) == TWO * 2
    assert [source.compression for source in corpus.sources] == ["gz", "zst"]


def test_files_of_several_compressed_parts_are_read_whole(write: Write) -> None:
    first, second = TWO_TEXT[:20].encode(), TWO_TEXT[20:].encode()
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    paths = [
        write("a.txt.gz", gzip.compress(first, mtime=0) + gzip.compress(second, mtime=0)),
        write("b.txt.zst", zstandard.compress(first) + skippable + zstandard.compress(second)),
    ]
    assert texts(open_corpus(paths)) == TWO * 2


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_compressed_files_that_were_cut_short_are_refused(write: Write, ending: str) -> None:
    noise = random.Random(0).randbytes(1_000_000).hex().encode()
    data = gzip.compress(noise, mtime=0) if ending == "gz" else zstandard.compress(noise)
    path = write(f"a.txt.{ending}", data[:-100])
    assert refused(path) == f"{path} is incomplete: it ends too early. Download or copy it again."


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_compressed_files_that_are_something_else_are_refused(write: Write, ending: str) -> None:
    path = write(f"a.txt.{ending}", "plain text, not compressed\n")
    assert refused(path).startswith(f"{path} is not a valid .{ending} file (")


# Tables


def test_json_lines_are_documents_with_their_line_numbers(write: Write) -> None:
    rows = [{"id": 1, "text": "First line.\r\nSecond line.\n\n"}, {"id": 2, "text": "Another document."}]
    path = write("a.jsonl", json.dumps(rows[0]) + "\n\n" + json.dumps(rows[1]) + '\n{"text": null}\n{"text": " "}')
    corpus = open_corpus([path])
    assert texts(corpus) == TWO
    assert [document.line for document in corpus.documents()] == [1, 3]
    assert corpus.sources[0].layout == "document-per-row"
    assert corpus.sources[0].column == "text"


@pytest.mark.parametrize("name", ["a.ndjson", "a.json", "a.jsonl.gz"])
def test_other_endings_of_json_lines_are_known(write: Write, name: str) -> None:
    data = b'{"text": "Hello."}\n'
    assert texts(open_corpus([write(name, gzip.compress(data, mtime=0) if ".gz" in name else data)])) == [("Hello.",)]


def test_half_a_surrogate_pair_becomes_a_character_that_can_be_written(write: Write) -> None:
    path = write("a.jsonl", r'{"text": "a\ud83d b \ud83d\ude00"}')
    assert texts(open_corpus([path])) == [("a\ufffd b 😀",)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            '{"text": "x"',
            "line 2: not JSON (Expecting ',' delimiter). Each line must be one complete object.",
        ),
        ("[" * 100_000, "line 2: not JSON (too long, or nested too deeply)"),
        ("[1]", 'line 2: not a JSON object. Each line must be like {"text": "..."}.'),
        ('{"title": "x"}', "line 2: no column 'text'. Columns found: title."),
        ('{"text": 5}', "line 2: column 'text' contains int, not text."),
    ],
)
def test_broken_json_lines_are_refused_with_their_number(write: Write, line: str, reason: str) -> None:
    path = write("a.jsonl", '{"text": "good"}\n' + line + "\n")
    assert f"{path}, {reason}" in refused(path)


def test_csv_cells_may_hold_commas_quotes_and_newlines(write: Write) -> None:
    content = '\ufefflabel,text\r\n1,"First line.\r\nSecond line."\r\n\r\n0,"He said ""yes"", twice"\r\n'
    corpus = open_corpus([write("a.csv", content)])
    assert [(document.line, document.paragraphs) for document in corpus.documents()] == [
        (2, ("First line.", "Second line.")),
        (5, ('He said "yes", twice',)),
    ]


def test_csv_cells_may_be_long_and_the_usual_limit_comes_back(write: Write) -> None:
    usual = csv.field_size_limit()
    corpus = open_corpus([write("a.csv", "text\n" + "word " * 500_000 + "\n")])
    documents = corpus.documents()
    assert len(next(documents).paragraphs[0]) == 999_999
    assert csv.field_size_limit() == usual
    assert sum(len(document.paragraphs[0]) + 1 for document in documents) == 1_500_000


def test_a_csv_quote_that_never_closes_is_refused_where_its_row_begins(write: Write) -> None:
    path = write("a.csv", 'text\ngood\n"bad\nmore\nand more\n')
    assert refused(path) == (
        f"{path}, line 3: unbalanced quotes in this row (unexpected end of data).\n"
        'Inside quoted text, write "" for each quote.'
    )


def test_tsv_quotes_are_text(write: Write) -> None:
    corpus = open_corpus([write("a.tsv", 'label\ttext\r\n1\t"stray\r\n0\ta "quoted" one\r\n')])
    assert texts(corpus) == [('"stray',), ('a "quoted" one',)]


def test_labelled_pairs_are_documents_of_two_paragraphs_and_this_is_said(write: Write) -> None:
    corpus = open_corpus([write("pairs.tsv", "label\ttext_a\ttext_b\n1\tQuestion?\tAnswer.\n0\tAlone.\t\n")])
    assert texts(corpus) == [("Question?", "Answer."), ("Alone.",)]
    assert corpus.sources[0].column == "text_a+text_b"
    assert corpus.notes == ("The text of pairs.tsv is read from column text_a and text_b.",)


@pytest.mark.parametrize(
    ("header", "column"),
    [("id,Text", "Text"), ("label,text_a", "text_a"), ("id,content", "content"), ("body,text", "text")],
)
def test_the_text_column_is_found_by_its_name(write: Write, header: str, column: str) -> None:
    assert open_corpus([write("a.csv", header + "\nhello,hello\n")]).sources[0].column == column


@pytest.mark.parametrize(
    ("header", "column", "note"),
    [
        ("id,评论", "评论", "The text of a.csv is read from column 评论."),
        ("Review,title", "Review", "The text of a.csv is read from column Review. To read another: --text title."),
        ("body,content", "content", "The text of a.csv is read from column content. To read another: --text body."),
        ("premise,hypothesis", "premise+hypothesis", "The text of a.csv is read from column premise and hypothesis."),
    ],
)
def test_the_usual_names_are_found_and_said(write: Write, header: str, column: str, note: str) -> None:
    corpus = open_corpus([write("a.csv", header + "\nhello,hello\n")])
    assert (corpus.sources[0].column, corpus.notes) == (column, (note,))


def test_semicolons_are_noticed_and_said(write: Write) -> None:
    corpus = open_corpus([write("a.csv", "text;label\nhello, you;1\n"), write("b.csv", "text;id\nbye;2\n")])
    assert texts(corpus) == [("hello, you",), ("bye",)]
    assert corpus.notes == ("a.csv and b.csv are separated by semicolons.",)


def test_a_table_without_a_header_can_be_read(write: Write) -> None:
    path = write("a.tsv", "1\tGood film.\n0\tBad film, and long.\n")
    assert refused(path) == (
        f"{path} has no column text. Columns found: 1, Good film.\n"
        "Its first row looks like data, not like column names. If so, add to your command:\n--no-header --text 2"
    )
    corpus = open_corpus([path], header=False)
    assert [(document.line, document.paragraphs) for document in corpus.documents()] == [
        (1, ("Good film.",)),
        (2, ("Bad film, and long.",)),
    ]
    assert corpus.notes == ("The text of a.tsv is read from column 2.",)
    assert texts(open_corpus([path], column="1", header=False)) == [("1",), ("0",)]
    first = open_corpus([write("b.tsv", "1\t2\na\tb\n")], column="2")
    assert first.fingerprint() != open_corpus([first.sources[0].path], column="2", header=False).fingerprint()
    assert "--no-header is for .csv and .tsv" in refused(write("a.txt", "a"), header=False)


def test_two_columns_of_one_name_are_refused(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    both = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], names=["text", "text"])
    pyarrow.parquet.write_table(both, path)
    assert refused(path) == f"{path} has two columns named 'text'. Rename one."
    table = write("a.csv", "text,text,id\na,b,c\n")
    assert refused(table) == f"{table} has two columns named 'text'. Rename one."
    assert texts(open_corpus([table], column="id")) == [("c",)]


def test_the_column_can_be_set_also_to_several(write: Write) -> None:
    path = write("a.csv", "title,text,a+b\nT,X,sum\n")
    assert texts(open_corpus([path], column="title")) == [("T",)]
    assert texts(open_corpus([path], column="title+text")) == [("T", "X")]
    assert texts(open_corpus([path], column="a+b")) == [("sum",)]


def test_a_missing_column_is_refused_with_the_columns_found(write: Write) -> None:
    path = write("a.csv", "id,titel\nx,hello\n")
    assert refused(path).startswith(
        f"{path} has no column text. Columns found: id, titel.\nChoose the right one: --text COLUMN. Recognised "
    )
    assert refused(path, column="title") == (
        f"{path} has no column 'title'. Did you mean 'titel'? Columns found: id, titel.\n"
        "Choose one of them: --text COLUMN."
    )


def test_a_row_with_too_few_or_too_many_columns_is_refused(write: Write) -> None:
    short = write("a.tsv", "label\ttext\n1\tgood\nbad\n")
    assert refused(short) == (
        f"{short}, line 3: 1 cell, but the first row has 2: label, text.\n"
        "Text in .tsv cannot contain tabs or line breaks; use .csv with quotes, or .jsonl."
    )
    wide = write("b.csv", "label,text\n1,good,,\n1,bad,worse\n")
    assert refused(wide) == (
        f"{wide}, line 3: 3 cells, but the first row has 2: label, text.\n"
        "Put text that contains a comma in double quotes."
    )


def test_a_row_that_never_ends_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plmkit.data.reading.tables.LONGEST_ROW", 100)
    monkeypatch.setattr(blocks, "BLOCK", 50)
    path = write("a.tsv", "text\n" + "x" * 500)
    assert refused(path) == f"{path}, line 2: a row of more than 100 characters."


def test_parquet_rows_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    content = ["First line.\nSecond line.", None, "Another document."]
    for kind in (
        pyarrow.string(),
        pyarrow.large_string(),
        pyarrow.dictionary(pyarrow.int8(), pyarrow.string()),
    ):
        table = pyarrow.table({"id": [1, 2, 3], "text": pyarrow.array(content).cast(kind)})
        pyarrow.parquet.write_table(table, path)
        corpus = open_corpus([path])
        assert texts(corpus) == TWO
        assert [document.line for document in corpus.documents()] == [1, 3]


def test_damaged_and_textless_parquet_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2]}), path)
    assert refused(path) == f"{path}, row 1: column 'text' contains int, not text."
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2]}), path)
    assert "has no column text. Columns found: id." in refused(path)
    path.write_bytes(path.read_bytes()[:-10])
    assert refused(path).startswith(f"{path} is not a valid Parquet file (")


# Encodings and other content


def test_gb18030_is_refused_with_the_line_and_the_way_to_convert(write: Write) -> None:
    path = write("a.txt", b"ascii\n\n" + "中文文本，不是统一码。".encode("gb18030"))
    assert refused(path) == (
        f"{path}, line 3: not valid UTF-8. It looks like GB18030: convert it with "
        f"`iconv -f gb18030 -t utf-8 {path} > NEW`."
    )


@pytest.mark.parametrize("block", [5, 1 << 20])
def test_a_damaged_byte_in_utf8_is_refused_with_its_line(
    write: Write, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    line = "好的文本。" * 10 + "\n"
    path = write("a.txt", line.encode() * 3 + b"ab\xff" + line.encode() * 3)
    assert refused(path).startswith(f"{path}, line 4: not valid UTF-8.")
    if block > 5:
        assert refused(path).endswith(f"damaged: `iconv -c -f utf-8 -t utf-8 {path} > NEW` drops them.")


@pytest.mark.parametrize(("block", "utf_8"), [(117, "1–4"), (1 << 20, "1–3")], ids=["two blocks", "one"])
def test_lines_of_two_encodings_are_distinguished(
    write: Write, monkeypatch: pytest.MonkeyPatch, block: int, utf_8: str
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    utf, gb = "我的狗很可爱，潮水退了。\n".encode(), "企鹅不擅长飞行，醒醒吧。\n".encode("gb18030")
    path = write("a.txt", utf * 3 + b"ascii\n" + gb * 2 + b"\n" + gb + utf + gb)
    assert refused(path) == (
        f"{path}, line 5: not valid UTF-8. It mixes encodings: lines {utf_8} and 9 in UTF-8, lines 5–8 and 10 probably "
        f"in GB18030.\nConvert each part separately, as with `sed -n 5,8p {path} | iconv -f gb18030 -t utf-8`, and "
        "join them again."
    )


def test_many_changes_of_encoding_are_reported_in_short(write: Write) -> None:
    lines = ["我的狗很可爱。\n".encode(), "企鹅不擅长飞行。\n".encode("gb18030"), b"caf\xe9 noir\n"]
    said = refused(write("a.txt", b"".join(lines * 5)))
    assert (
        "line 2: not valid UTF-8. It mixes encodings: lines 1, 4, 7 and 2 more in UTF-8, lines 2, 5, 8 and 2 more "
        "probably in GB18030, lines 3, 6, 9 and 2 more in another.\n" in said
    )


def test_one_damaged_line_of_chinese_utf8_is_not_taken_for_gb18030(write: Write) -> None:
    line = "好的文本。" * 4 + "\n"
    path = write("a.txt", line.encode() * 3 + line.encode()[:7] + line.encode()[8:] + line.encode())
    assert refused(path) == (
        f"{path}, line 4: not valid UTF-8. A few bytes are damaged: "
        f"`iconv -c -f utf-8 -t utf-8 {path} > NEW` drops them."
    )


def test_latin1_is_refused_with_the_way_to_convert(write: Write) -> None:
    path = write("a.txt", "Un café noir\nest prêt.".encode("latin-1"))
    assert refused(path).startswith(f"{path}, line 1: not valid UTF-8. Convert it with `iconv -f ENCODING")


def test_a_file_that_ends_inside_a_character_is_refused(write: Write) -> None:
    path = write("a.txt", "one\ntwo\n中".encode()[:-1])
    assert refused(path) == f"{path}, line 3: ends inside a character. It is incomplete, or not UTF-8."


def test_errors_late_in_a_file_appear_while_it_is_read(write: Write) -> None:
    path = write("a.txt", TWO_TEXT.encode() * 50_000 + b"\xff\n")
    corpus = open_corpus([path])
    with pytest.raises(InputError, match="line 200001: not valid UTF-8"):
        texts(corpus)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_refused_with_the_way_to_convert(write: Write, encoding: str) -> None:
    path = write("a.txt", "\ufeffhello".encode(encoding))
    assert refused(path) == f"{path} is UTF-16. Convert it with `iconv -f utf-16 -t utf-8 {path} > NEW`."


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (
            b"PK\x03\x04rest",
            "a ZIP archive (or a Word, Excel or EPUB file), not text. Extract its text first.",
        ),
        (b"\x89PNG\r\n\x1a\n", "a PNG image, not text."),
        (b"%PDF-1.7\n", "a PDF file, not text. Extract its text first."),
        (gzip.compress(b"x", mtime=0), "a .gz file without the ending .gz. Rename it."),
        (zstandard.compress(b"x"), "a .zst file without the ending .zst. Rename it."),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl", "a.unknown"])
def test_other_kinds_of_file_are_named_and_refused(write: Write, name: str, content: bytes, kind: str) -> None:
    path = write(name, content)
    assert refused(path).startswith(f"{path} is {kind}")


def test_binary_data_is_refused_with_its_line(write: Write) -> None:
    path = write("a.txt", b"one\ntwo\nthr\x00ee\n")
    assert refused(path) == f"{path}, line 3: binary data (a NUL byte), not text. Give plain text files."


# Finding files


def test_a_missing_path_is_refused_with_the_nearest_name(write: Write, tmp_path: Path) -> None:
    write("corpus/reviews.txt", "x")
    missing = tmp_path / "corpus" / "review.txt"
    assert (
        refused(missing)
        == f"There is no file or folder '{missing}'. Did you mean '{missing.with_name('reviews.txt')}'?"
    )
    missing = tmp_path / "corpsu" / "reviews.txt"
    assert (
        refused(missing)
        == f"There is no file or folder '{missing.parent}'. Did you mean '{missing.parent.with_name('corpus')}'?"
    )
    assert refused(tmp_path / "zzz") == f"There is no file or folder '{tmp_path / 'zzz'}'."


def test_a_text_in_place_of_a_path_is_refused() -> None:
    assert refused("x" * 5000).startswith("There is no file or folder 'xxx")


def test_no_path_is_refused() -> None:
    assert refused().startswith("No corpus was given.")


def test_a_folder_is_read_in_order_without_hidden_and_unknown_files(write: Write, tmp_path: Path) -> None:
    for name in ["b.txt", "a/z.txt", "a/b.md", "c.TXT", ".hidden.txt", ".git/x.txt", "image.png", "README"]:
        write(f"corpus/{name}", f"{name}\n\nend")
    corpus = open_corpus([tmp_path / "corpus"])
    read = [str(source.path.relative_to(tmp_path / "corpus")) for source in corpus.sources]
    assert read == ["b.txt", "c.TXT", "a/b.md", "a/z.txt"]
    assert corpus.notes == (".hidden.txt, README and image.png were skipped: hidden, or of an unknown type.",)


def test_many_files_share_one_note(write: Write, tmp_path: Path) -> None:
    for number in range(1200):
        write(f"corpus/{number:04}.txt", SENTENCE)
    assert open_corpus([tmp_path / "corpus"]).notes == (
        "0000.txt, 0001.txt and 1,198 more have no blank lines: each line is read as one document.",
    )


@pytest.mark.parametrize("file", ["run.json", "model.safetensors"])
def test_folders_of_models_below_are_skipped_and_this_is_said(write: Write, tmp_path: Path, file: str) -> None:
    write("corpus/a.txt", "one\n\ntwo\n")
    write(f"corpus/run/{file}", "{}")
    write("corpus/run/vocab.txt", "no text")
    write("corpus/run/checkpoints/step-1/more.txt", "no text")
    for given in (tmp_path / "corpus", tmp_path / "corpus" / "*"):
        corpus = open_corpus([given])
        assert texts(corpus) == [("one",), ("two",)]
        assert corpus.notes == ("run contains a model: skipped.",)


def test_a_folder_that_links_to_itself_is_read_once(write: Write, tmp_path: Path) -> None:
    write("corpus/a.txt", TWO_TEXT)
    os.symlink(tmp_path / "corpus", tmp_path / "corpus" / "again")
    assert texts(open_corpus([tmp_path / "corpus"])) == TWO


def test_a_link_to_itself_is_passed_over_in_a_folder_and_refused_by_name(write: Write, tmp_path: Path) -> None:
    write("a.txt", "one")
    (tmp_path / "self.txt").symlink_to("self.txt")
    assert [source.path.name for source in open_corpus([tmp_path]).sources] == ["a.txt"]
    for named in (tmp_path / "self.txt", tmp_path / "*.txt"):
        with pytest.raises(InputError) as refusal:
            open_corpus([named])
        assert str(refusal.value) == f"{tmp_path / 'self.txt'} is a broken link. Give the file itself."


@pytest.mark.parametrize("pattern", ["**/*.txt", "**/x/*.txt", "**", "x/**/*.txt", "*/**/a.txt"])
def test_a_pattern_over_links_that_lead_back_ends(write: Write, tmp_path: Path, pattern: str) -> None:
    write("x/a.txt", "one")
    write("x/y/b.txt", "two")
    for name in ("back", "again", "y/third"):  # with two loops, there are 2^n ways of n links
        (tmp_path / "x" / name).symlink_to(tmp_path / "x")
    found = [source.path.name for source in open_corpus([tmp_path / pattern]).sources]
    wanted = {"**/x/*.txt": ["a.txt"], "*/**/a.txt": ["a.txt"]}
    assert found == wanted.get(pattern, ["a.txt", "b.txt"])


def test_a_folder_below_that_may_not_be_read_is_refused_and_not_left_out(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.txt", "one")
    write("sub/b.txt", "two")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    for given in (tmp_path, tmp_path / "sub", tmp_path / "**" / "*.txt"):
        with pytest.raises(InputError) as refusal:
            open_corpus([given])
        assert str(refusal.value) == (
            f"{tmp_path / 'sub'} cannot be read: Permission denied.\nFix its permissions, or move it elsewhere."
        )


def test_a_home_that_nobody_has_is_a_missing_path() -> None:
    with pytest.raises(InputError, match=r"There is no file or folder '~nobody-at-all'"):
        open_corpus(["~nobody-at-all/texts"])


def test_a_folder_without_readable_files_is_refused_with_the_endings_read(write: Write, tmp_path: Path) -> None:
    write("corpus/image.png", "x")
    assert refused(tmp_path / "corpus") == (
        f"{tmp_path / 'corpus'} contains no readable file. Readable: "
        ".txt .text .md .jsonl .ndjson .json .csv .tsv .parquet; all but .parquet also as .gz or .zst."
    )


def test_patterns_find_files_also_in_folders_below(write: Write, tmp_path: Path) -> None:
    for name in ["b.txt", "a.txt", "below/deep/c.txt", "d.csv", "e.log"]:
        write(name, "text\n\nmore")
    names = {
        pattern: [source.path.name for source in open_corpus([tmp_path / pattern]).sources]
        for pattern in ["*.txt", "**/*.txt", "**", "[ab].*", "*.log"]
    }
    assert names == {
        "*.txt": ["a.txt", "b.txt"],
        "**/*.txt": ["a.txt", "b.txt", "c.txt"],
        "**": ["a.txt", "b.txt", "c.txt", "d.csv"],
        "[ab].*": ["a.txt", "b.txt"],
        "*.log": ["e.log"],
    }


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "*.txt") == f"No file matches '{tmp_path / '*.txt'}'."


def test_a_file_named_like_a_pattern_is_a_file(write: Write) -> None:
    assert texts(open_corpus([write("a[1].txt", TWO_TEXT)])) == TWO


def test_a_named_file_of_unknown_type_is_read_as_plain_text_and_this_is_said(write: Write) -> None:
    corpus = open_corpus([write("notes.log", TWO_TEXT)])
    assert texts(corpus) == TWO
    assert corpus.notes == ("notes.log has an unknown type: read as plain text.",)


def test_a_file_given_twice_is_read_once_and_this_is_said(write: Write, tmp_path: Path) -> None:
    path = write("a.txt", TWO_TEXT)
    corpus = open_corpus([path, tmp_path])
    assert texts(corpus) == TWO
    assert corpus.notes == ("a.txt was given more than once: read once.",)


def test_a_pipe_is_refused_without_waiting(tmp_path: Path, write: Write) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert "is not a regular file" in refused(tmp_path / "pipe.txt")
    write("a.txt", TWO_TEXT)
    assert texts(open_corpus([tmp_path])) == TWO


# Nothing to read


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b""),
        ("a.txt", b"\xef\xbb\xbf \n\n\t\r\n"),
        ("a.txt", "\u3000\n".encode()),
        ("a.txt.gz", gzip.compress(b"\n", mtime=0)),
        ("a.txt.gz", b""),
        ("a.txt.zst", b""),
        ("a.jsonl", b"\n"),
        ("a.jsonl", b'{"text": ""}\n'),
        ("a.csv", b""),
        ("a.csv", b"text\n"),
        ("a.tsv", b"label\ttext\n1\t \n"),
    ],
)
@pytest.mark.parametrize("layout", ["auto", "document-per-line"])
def test_a_corpus_without_text_is_refused(write: Write, name: str, content: bytes, layout: str) -> None:
    message = refused(write(name, content), layout=layout)
    assert message == f"There is no text in {name}. Give files that contain text."


def test_an_empty_parquet_file_is_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), tmp_path / "a.parquet")
    assert refused(tmp_path / "a.parquet") == "There is no text in a.parquet. Give files that contain text."


def test_an_empty_file_among_others_is_skipped_and_this_is_said(write: Write) -> None:
    corpus = open_corpus([write("empty.txt", ""), write("full.txt", TWO_TEXT)])
    assert texts(corpus) == TWO
    assert corpus.notes == ("empty.txt has no text: skipped.",)
    assert corpus.size == len(TWO_TEXT)


# Fingerprints


def test_the_fingerprint_follows_content_and_reading_but_not_names_or_times(write: Write) -> None:
    first = write("a.txt", TWO_TEXT)
    copy = write("other/name.txt", TWO_TEXT)
    os.utime(copy, (0, 0))
    assert re.fullmatch("[0-9a-f]{32}", open_corpus([first]).fingerprint())
    assert open_corpus([first]).fingerprint() == open_corpus([copy]).fingerprint()
    per_line = open_corpus([first], layout="document-per-line").fingerprint()
    changed = open_corpus([write("b.txt", TWO_TEXT + "!")]).fingerprint()
    assert len({open_corpus([first]).fingerprint(), per_line, changed}) == 3


def test_the_fingerprint_follows_order_columns_and_file_borders(write: Write) -> None:
    one, two, both = (
        write("a.txt", "x\n\ny\n\n"),
        write("b.txt", "z\n\nw"),
        write("c.txt", "x\n\ny\n\nz\n\nw"),
    )
    table = write("d.csv", "text,title\na,b\n")
    found = [
        open_corpus([one, two]).fingerprint(),
        open_corpus([two, one]).fingerprint(),
        open_corpus([both]).fingerprint(),
        open_corpus([table]).fingerprint(),
        open_corpus([table], column="title").fingerprint(),
    ]
    assert len(set(found)) == 5
