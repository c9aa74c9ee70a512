"""Pairs of a source and a target: which columns are read, and what is said of the files."""

import pytest

from plmkit.data.pair_corpus import open_pairs
from plmkit.errors import InputError, SettingError


def written(folder, name, *lines):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def read(corpus):
    return [document.paragraphs for document in corpus.documents()]


@pytest.mark.parametrize(
    ("header", "source", "target"),
    [
        ("source\ttarget", 0, 1),
        ("target\tsource", 1, 0),
        ("Tgt\tSRC", 1, 0),
        ("id\ten\tde\tfr", 1, 2),
        ("zh-CN\ten_US", 0, 1),
        ("原文\t译文", 0, 1),
        ("summary\tarticle", 1, 0),
        ("title\tcontent", 1, 0),
        ("摘要\t正文", 1, 0),
        ("text\tsummary\tlabel", 0, 1),
        ("left\tright", 0, 1),
        ("is_test\tid\ten\tde", 2, 3),
        ("tr_id\tit_x\tis_duplicate\tzh_Hans_CN\thi_IN", 3, 4),
        ("is_ok\tis_IS\tit-IT", 1, 2),
    ],
)
def test_the_two_columns_are_found_by_their_usual_names(tmp_path, header, source, target):
    cells = [f"cell {number}" for number in range(header.count("\t") + 1)]
    (corpus,) = open_pairs([written(tmp_path, "pairs.tsv", header, "\t".join(cells))])
    assert read(corpus) == [(cells[source], cells[target])]


def test_columns_can_be_named_one_or_both(tmp_path):
    file = written(tmp_path, "pairs.tsv", "en\tde\tfr", "one\teins\tun")
    for column, expected in {"fr+en": ("un", "one"), "+fr": ("one", "un"), "DE+": ("eins", "one")}.items():
        (corpus,) = open_pairs([file], column=column)
        assert read(corpus) == [expected]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("en+xx", "has no column 'xx'"),
        ("en", "'en' does not name two columns"),
        ("en+en", "column 'en' cannot be both the source and the target"),
    ],
)
def test_columns_that_do_not_exist_or_are_one_are_refused(tmp_path, column, message):
    with pytest.raises(InputError, match=message):
        open_pairs([written(tmp_path, "pairs.tsv", "en\tde", "one\teins")], column=column)


@pytest.mark.parametrize(
    ("header", "name"), [("en+us\tfr", "en[+]us"), ("en\ta+b", "a[+]b"), ("en\tde\ten+de", "en[+]de")]
)
def test_a_column_with_a_plus_in_its_name_is_refused(tmp_path, header, name):
    file = written(tmp_path, "pairs.tsv", header, "\t".join("x" * (header.count("\t") + 1)))
    with pytest.raises(InputError, match=f"column '{name}' has a [+] in its name"):
        open_pairs([file])


def test_one_file_for_both_sides_is_refused(tmp_path):
    file = written(tmp_path, "a.en", "one")
    with pytest.raises(InputError, match=r"a\.en cannot be both the source and the target"):
        open_pairs([file, str(tmp_path / "." / "a.en")])


def test_no_header_is_refused_where_it_has_no_effect(tmp_path):
    plain = [written(tmp_path, "a.en", "one"), written(tmp_path, "a.de", "eins")]
    for files in (plain, [written(tmp_path, "a.jsonl", '{"en": "one", "de": "eins"}')]):
        with pytest.raises(SettingError, match=r"--no-header is for \.csv and \.tsv"):
            open_pairs(files, header=False)
    (corpus,) = open_pairs([written(tmp_path, "a.tsv", "one\teins")], header=False)
    assert read(corpus) == [("one", "eins")]


def test_columns_without_usual_names_are_refused_with_those_found(tmp_path):
    file = written(tmp_path, "pairs.tsv", "a\tb\tc", "1\t2\t3")
    with pytest.raises(InputError, match=r"Columns found: a, b, c\.\nChoose two: --source COLUMN --target COLUMN\."):
        open_pairs([file])


def test_a_table_of_two_columns_needs_no_header_and_that_is_said(tmp_path):
    file = written(tmp_path, "pairs.tsv", "Go on.\tWeiter so.", "Stop!\tHalt!")
    (corpus,) = open_pairs([file])
    assert read(corpus) == [("Go on.", "Weiter so."), ("Stop!", "Halt!")]
    assert corpus.notes == (f"{file} has no header row: its first column is the source, its second the target.",)


def test_a_pair_without_one_of_its_sides_is_skipped_and_counted_with_its_line(tmp_path):
    file = written(tmp_path, "pairs.tsv", "source\ttarget", "a\tb", "c\t ", "\td", "e\tf")
    (corpus,) = open_pairs([file])
    assert read(corpus) == [("a", "b"), ("e", "f")]
    assert corpus.notes == (f"{file}: 2 of 4 pairs lack a side and are skipped; the first is {file}, line 3.",)
    with pytest.raises(InputError, match="There is no pair with both sides"):
        open_pairs([written(tmp_path, "empty.tsv", "source\ttarget", "a\t", "\tb")])


def test_a_side_is_one_line_whatever_its_cell_holds(tmp_path):
    file = written(tmp_path, "pairs.jsonl", '{"source": "one\\n two", "target": "eins.  Zwei."}')
    (corpus,) = open_pairs([file])
    assert read(corpus) == [("one two", "eins. Zwei.")]


def test_lines_of_two_plain_files_belong_together(tmp_path):
    source, target = (
        written(tmp_path, "train.en", "one", "", "three"),
        written(tmp_path, "train.de", "eins", "zwei", "drei"),
    )
    (corpus,) = open_pairs([source, target])
    assert read(corpus) == [("one", "eins"), ("three", "drei")]
    assert corpus.notes == (f"{source}: 1 of 3 pairs lack a side and are skipped; the first is {source}, line 2.",)
    assert corpus.name == f"{source} + {target}"


def test_files_of_unequal_length_are_refused_with_both_counts(tmp_path):
    files = [written(tmp_path, "train.en", "one", "two", "three"), written(tmp_path, "train.de", "eins", "zwei")]
    with pytest.raises(InputError, match=r"train\.en has 3 lines, but .*train\.de has 2"):
        open_pairs(files)


def test_a_plain_file_alone_is_refused(tmp_path):
    plain = written(tmp_path, "train.en", "one")
    table = written(tmp_path, "pairs.tsv", "source\ttarget", "a\tb")
    for files in ([plain], [plain, table], [table, plain]):
        with pytest.raises(InputError, match=r"train\.en is plain text, one side of the pairs; the other side is miss"):
            open_pairs(files)
    with pytest.raises(InputError, match="This recipe trains on pairs"):
        open_pairs([])


def test_held_out_pairs_are_the_last_corpus(tmp_path):
    train = written(tmp_path, "train.tsv", "source\ttarget", "a\tb")
    table = written(tmp_path, "dev.tsv", "source\ttarget", "c\td")
    en, de = written(tmp_path, "dev.en", "one"), written(tmp_path, "dev.de", "eins")
    assert [read(corpus) for corpus in open_pairs([train], valid=table)] == [[("a", "b")], [("c", "d")]]
    assert [read(corpus) for corpus in open_pairs([train], valid=f"{en}+{de}")] == [[("a", "b")], [("one", "eins")]]
    with pytest.raises(InputError, match="is held out"):
        open_pairs([train], valid=train)


def test_settings_that_pairs_do_not_read_are_refused(tmp_path):
    files = [written(tmp_path, "train.en", "one"), written(tmp_path, "train.de", "eins")]
    with pytest.raises(SettingError, match=r"run\.layout=blank-lines has no effect on pairs"):
        open_pairs(files, layout="blank-lines")
    with pytest.raises(SettingError, match="no file is a table"):
        open_pairs(files, column="en+de")


def test_the_fingerprint_changes_with_either_file(tmp_path):
    en, de = written(tmp_path, "a.en", "one"), written(tmp_path, "a.de", "eins")
    (before,) = open_pairs([en, de])
    before.fingerprint()
    (swapped,) = open_pairs([de, en])
    written(tmp_path, "a.de", "uno")
    (after,) = open_pairs([en, de])
    assert len({before.fingerprint(), swapped.fingerprint(), after.fingerprint()}) == 3
