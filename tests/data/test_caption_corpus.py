"""Tables of images and captions: which columns are read, what is missing, and what a cache is kept under."""

import json

import numpy as np
import pytest
from PIL import Image

from plmkit.data import shards
from plmkit.data.caption_corpus import open_captions
from plmkit.data.shards import open_store
from plmkit.errors import InputError, SettingError
from plmkit.tokenizers.counted import Words


@pytest.fixture
def folder(tmp_path):
    """Three images, of 1, 2 and 3 in all colours."""
    for number in (1, 2, 3):
        Image.new("RGB", (4, 4), (number,) * 3).save(tmp_path / f"{number}.png")
    return tmp_path


def written(folder, name, *lines):
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return str(path)


def read(path, **given):
    (corpus,) = open_captions([path], 4, **given)
    return [(document.image.name, document.paragraphs) for document in corpus.documents()]


def test_captions_of_an_image_are_together_whether_in_a_list_or_in_several_rows(folder):
    listed = written(folder, "a.jsonl", {"image": "1.png", "captions": ["a cat", " a  pet "]},
                     {"image": "2.png", "captions": ["a dog"]})  # fmt: skip
    rows = written(folder, "b.tsv", "file\tcaption", "1.png\ta cat", "2.png\ta dog", "1.png\ta pet")
    found = [("1.png", ("a cat", "a pet")), ("2.png", ("a dog",))]
    assert read(listed) == read(rows) == found


def test_blocks_are_bounded_by_the_bytes_of_their_images(folder, monkeypatch):
    """An image of 4 × 4 pixels in three colours has 48 bytes, and each of these captions one character."""
    table = written(folder, "a.tsv", "image\ttext", "1.png\ta", "2.png\tb", "3.png\tc")
    (corpus,) = open_captions([table], 4)
    for limit, sizes in ((49, [1, 1, 1]), (50, [2, 1]), (98, [2, 1]), (99, [3])):
        monkeypatch.setattr(shards, "BLOCK_CHARACTERS", limit)
        assert [len(block) for block in shards.blocks(corpus, lambda _: None)] == sizes


def test_columns_can_be_named_and_files_can_be_in_another_folder(folder):
    (folder / "tables").mkdir()
    table = written(folder / "tables", "a.csv", "photo,words", "1.png,a cat")
    given = {"image_column": "photo", "column": "words", "images": str(folder)}
    assert read(table, **given) == [("1.png", ("a cat",))]
    with pytest.raises(
        InputError, match=r"a\.csv has no column image\. Columns found: photo, words.*\n.*--image COLUMN"
    ):
        read(table)
    with pytest.raises(InputError, match=r"has no column 'phto'\. Did you mean 'photo'"):
        read(table, **{**given, "image_column": "phto"})


def test_a_missing_image_is_reported_with_its_line_and_what_to_do(folder):
    table = written(folder, "a.tsv", "image\ttext", "1.png\ta cat", "9.png\ta dog", "8.png\ta cow")
    with pytest.raises(
        InputError, match=r"a\.tsv, line 3: there is no image .*9\.png; missing images: 2 of 3\.\n.*--images FOLDER"
    ):
        read(table)
    with pytest.raises(InputError, match=r"\nCorrect --images"):
        read(table, images=str(folder))


def test_rows_without_an_image_or_a_caption_are_skipped_and_counted(folder):
    table = written(folder, "a.jsonl", {"image": "1.png", "text": "a cat"}, {"image": "2.png", "text": " "},
                    {"image": None, "text": "a dog"})  # fmt: skip
    (corpus,) = open_captions([table], 4)
    assert [document.paragraphs for document in corpus.documents()] == [("a cat",)]
    assert corpus.notes[0] == (
        f"{table}: 2 of 3 rows lack an image or a caption and are skipped; the first is {table}, line 2."
    )
    with pytest.raises(InputError, match="There is no image with a caption"):
        read(written(folder, "b.tsv", "image\ttext", "1.png\t"))


def test_what_is_no_table_of_captions_is_refused(folder):
    with pytest.raises(InputError, match="This recipe trains on images with captions"):
        open_captions([], 4)
    with pytest.raises(InputError, match="is plain text"):
        read(written(folder, "a.txt", "a cat"))
    with pytest.raises(InputError, match=r"line 1: column 'text' contains int, not text"):
        read(written(folder, "a.jsonl", {"image": "1.png", "text": 3}))
    table = written(folder, "b.tsv", "image\ttext", "1.png\ta cat")
    with pytest.raises(InputError, match="There is no folder"):
        read(table, images=str(folder / "none"))
    with pytest.raises(SettingError, match=r"run\.layout=blank-lines has no effect on captions"):
        read(table, layout="blank-lines")


def test_the_fingerprint_follows_images_captions_and_size_but_not_names(folder):
    def fingerprint(*lines, size=4):
        return open_captions([written(folder, "a.tsv", "image\ttext", *lines)], size)[0].fingerprint()

    same = fingerprint("1.png\ta cat")
    Image.new("RGB", (4, 4), (1, 1, 1)).save(folder / "renamed.png")
    assert fingerprint("renamed.png\ta cat") == same
    others = {fingerprint("2.png\ta cat"), fingerprint("1.png\ta dog"), fingerprint("1.png\ta cat", size=8)}
    assert len({same, *others}) == 4


def test_the_store_has_the_image_of_every_document_with_tokens(folder):
    table = written(folder, "a.tsv", "image\ttext", "1.png\ta cat. It sits.", "2.png\t\ufffd", "3.png\ta dog")
    corpora = open_captions([table], 2)
    store = open_store(corpora, Words(size=20).train(["a cat. It sits. a dog"]), folder / "cache")
    assert store.images.shape == (2, 3, 2, 2)
    assert store.images[:, 0, 0, 0].tolist() == [1, 3]
    assert len(store.sentences) == 3  # a caption of two sentences is one text
    again = open_store(corpora, Words(size=20).train(["a cat. It sits. a dog"]), folder / "cache")
    assert np.array_equal(again.images, store.images)


def test_images_with_the_same_caption_are_no_duplicates(folder):
    rows = ["image\ttext", "1.png\ta dog", "2.png\ta dog"]
    tables = [written(folder, name, *rows) for name in ("a.tsv", "b.tsv")]
    for paths, duplicates in ((tables[:1], 0), (tables, 2)):
        store = open_store(open_captions(paths, 2), Words(size=20).train(["a dog"]), folder / "cache")
        assert store.survey.duplicates == duplicates


def test_a_broken_image_is_reported_with_its_line(folder):
    (folder / "2.png").write_bytes(b"broken")
    table = written(folder, "a.tsv", "image\ttext", "1.png\ta cat", "2.png\ta dog")
    with pytest.raises(InputError, match=r"a\.tsv, line 3: .*2\.png is not an image.*\nReplace the file, or remove"):
        open_store(open_captions([table], 2), Words(size=20).train(["a cat dog"]), folder / "cache")
