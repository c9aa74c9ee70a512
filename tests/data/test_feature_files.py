"""Feature files of image regions: every form, and every way in which one can be wrong, with file and line."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from plmkit.data.caption_corpus import open_captions
from plmkit.data.feature_files import FeaturePlace, place_in, read_features, width_in
from plmkit.data.shards import open_store
from plmkit.errors import InputError
from plmkit.storage.files import cache_folder
from plmkit.tokenizers.wordpiece import WordPiece

BOXES = [[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]]
SHARES = [[0.25, 0.75], [1.0, 0.0]]


def features(number: int, regions: int = 2, width: int = 3) -> np.ndarray:
    return np.full((regions, width), number, dtype=np.float32)


def table(folder, count: int = 3, **column):
    rows = [{"image": f"photos/{n}.jpg", "caption": f"a thing {n}", **{k: v.format(n) for k, v in column.items()}}
            for n in range(count)]  # fmt: skip
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def opened(path, source=None, width=3, classes=None):
    return open_captions(
        [str(path)], None, region_width=width, region_classes=classes, features=None if source is None else str(source)
    )


def store_of(path, source=None, **sizes):
    tokenizer = WordPiece(size=60).train(["a thing 0 1 2"] * 9)
    return open_store(opened(path, source, **sizes), tokenizer, cache_folder())


@pytest.fixture
def folder(tmp_path):
    """A file per image, with boxes and classes beside the second and in the third."""
    made = tmp_path / "features"
    made.mkdir()
    for number in range(2):
        np.save(made / f"{number}.npy", features(number))
    np.save(made / "1.boxes.npy", np.array(BOXES, dtype=np.float32))
    save_file({"features": torch.from_numpy(features(2, 1)), "boxes": torch.tensor(BOXES[:1])}, made / "2.safetensors")
    return made


def test_a_file_per_image_is_read_with_its_boxes_which_by_default_are_the_whole_image(folder, tmp_path):
    regions = store_of(table(tmp_path), folder).regions
    assert regions.starts.tolist() == [0, 2, 4, 5]
    assert regions.features.tolist() == [[0] * 3] * 2 + [[1] * 3] * 2 + [[2] * 3]
    assert regions.boxes.tolist() == [[0, 0, 1, 1]] * 2 + BOXES + BOXES[:1]
    assert regions.classes is None


@pytest.mark.parametrize("name", ["photos/{}.jpg/features", "{}.jpg/features", "photos/{}/features", "{}", "{}.jpg"])
def test_one_file_may_have_the_features_of_all_images_by_their_names(name, tmp_path):
    tensors = {name.format(number): torch.from_numpy(features(number)) for number in range(3)}
    if name.endswith("/features"):
        tensors |= {name.format(n).replace("/features", "/boxes"): torch.tensor(BOXES) for n in range(3)}
    save_file(tensors, tmp_path / "all.safetensors")
    regions = store_of(table(tmp_path), tmp_path / "all.safetensors").regions
    assert regions.features[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert regions.boxes[:2].tolist() == (BOXES if name.endswith("/features") else [[0, 0, 1, 1]] * 2)
    assert width_in(tmp_path / "all.safetensors") == 3


def test_a_column_may_name_the_feature_files(folder, tmp_path):
    path = table(tmp_path, count=2, features="features/{}.npy")
    assert store_of(path).regions.features[:, 0].tolist() == [0, 0, 1, 1]


def test_classes_are_read_where_they_are_to_be_predicted(folder, tmp_path):
    for number in range(2):
        np.save(folder / f"{number}.classes.npy", np.array(SHARES, dtype=np.float32))
    path = table(tmp_path, count=2)
    assert store_of(path, folder, classes=2).regions.classes.tolist() == SHARES * 2
    assert store_of(path, folder).regions.classes is None


def test_a_changed_feature_file_makes_another_corpus(folder, tmp_path):
    path = table(tmp_path)
    before = opened(path, folder)[0].fingerprint()
    np.save(folder / "0.npy", features(9))
    after = opened(path, folder)[0].fingerprint()
    np.save(folder / "1.boxes.npy", np.array(BOXES[::-1], dtype=np.float32))
    assert len({before, after, opened(path, folder)[0].fingerprint()}) == 3


def test_a_missing_file_is_named_with_its_row_before_any_is_read(folder, tmp_path):
    (folder / "1.npy").unlink()
    with pytest.raises(
        InputError, match=r"captions\.jsonl, line 2: there is no feature file .*1\.npy; 1 of 3 are missing"
    ):
        opened(table(tmp_path), folder)
    with pytest.raises(InputError, match="in which --features has the features"):
        opened(table(tmp_path), folder / "none")
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(InputError, match=r"a \.safetensors file for all"):
        opened(table(tmp_path), tmp_path / "x.txt")
    with pytest.raises(InputError, match=r"no column features\. .*\n.*--features PATH; or add a column 'features'"):
        opened(table(tmp_path))
    with pytest.raises(InputError, match=r"x\.txt has no features .* Give \.npy, \.safetensors\."):
        read_features(FeaturePlace(file=tmp_path / "x.txt"))


class Pickled:
    """Would run code when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


WRONG = {
    "width": (lambda path: np.save(path, features(0, width=4)), "has the shape 2 × 4; expected regions × 3"),
    "flat": (lambda path: np.save(path, np.zeros(3)), "has the shape 3; expected"),
    "words": (lambda path: np.save(path, np.array([["a", "b", "c"]])), "values of the type <U1, not numbers"),
    "bits": (lambda path: np.save(path, features(0) > 0), "values of the type bool, not numbers"),
    "large": (lambda path: np.save(path, features(1).astype(np.float64) * 1e300), "not finite"),
    "many": (lambda path: np.save(path, features(0, regions=300)), "300 regions; an image has 1 to 256"),
    "none": (lambda path: np.save(path, features(0, regions=0)), "0 regions; an image has 1 to 256"),
    "nan": (lambda path: np.save(path, features(np.nan)), "not finite"),
    "broken": (lambda path: path.write_bytes(b"\x93NUMPY broken"), "cannot be read as an array"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read as an array"),
    "pickled": (lambda path: np.save(path, np.array([Pickled()], dtype=object)), "cannot be read as an array"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_wrong_is_named_with_its_row_and_nothing_is_left_of_it(name, folder, tmp_path):
    make, says = WRONG[name]
    (folder / "1.boxes.npy").unlink()
    make(folder / "1.npy")
    with pytest.raises(InputError, match=says) as refused:
        store_of(table(tmp_path), folder)
    assert str(refused.value).startswith(f"{tmp_path / 'captions.jsonl'}, line 2: {folder / '1.npy'}")
    assert str(refused.value).endswith("Replace the file, or remove the row.")
    assert not any((cache_folder() / "tokens").glob("*/features.bin"))


@pytest.mark.parametrize(
    ("part", "values", "says"),
    [
        ("boxes", [[0, 0, 100, 100], [0, 0, 1, 1]], "from 0 to 1; found 0 to 100"),
        ("boxes", [[0, 0, 1, 1], [0.5, 0, 0.2, 1]], "in that of region 2 the right is left of the left"),
        ("boxes", [[0, 0, 1, 1]], "expected regions × 4 for 2 regions"),
        ("classes", [[0.5, 0.6], [1, 0]], "add up to 1"),
        ("classes", [[1.0, 0.0, 0.0]] * 2, "expected regions × 2"),
    ],
)
def test_boxes_and_classes_are_checked(part, values, says, tmp_path):
    np.save(tmp_path / "a.npy", features(0))
    np.save(tmp_path / f"a.{part}.npy", np.array(values, dtype=np.float32))
    with pytest.raises(InputError, match=says):
        read_features(FeaturePlace(file=tmp_path / "a.npy"), 3, 2 if part == "classes" else None)


def test_classes_that_are_missing_are_asked_for(tmp_path):
    np.save(tmp_path / "a.npy", features(0))
    with pytest.raises(InputError, match=r"no class distributions .*masked_regions\.detector_classes=none"):
        read_features(FeaturePlace(file=tmp_path / "a.npy"), 3, 2)


def test_an_image_without_features_in_the_file_for_all_is_named(tmp_path):
    save_file({"0": torch.zeros(2, 3), "1": torch.zeros(2, 3)}, tmp_path / "all.safetensors")
    with pytest.raises(
        InputError, match=r"jsonl, line 3: .*all\.safetensors \(photos/2\.jpg\) has no features of regions"
    ):
        store_of(table(tmp_path), tmp_path / "all.safetensors")
    (tmp_path / "all.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"cannot be read as a \.safetensors file"):
        store_of(table(tmp_path), tmp_path / "all.safetensors")


def test_one_file_is_not_taken_for_two_images(folder, tmp_path):
    path = table(tmp_path, count=2)
    path.write_text(path.read_text().replace("photos/1.jpg", "drawings/0.png"))
    with pytest.raises(InputError, match=r"line 2: .*drawings/0\.png and .*photos/0\.jpg would both have .*0\.npy"):
        opened(path, folder)
    (folder / "drawings").mkdir()
    np.save(folder / "drawings" / "0.npy", features(7))
    assert store_of(path, folder).regions.features[:, 0].tolist() == [0, 0, 7, 7]


def test_the_name_of_an_image_may_have_a_dot_and_no_ending(tmp_path):
    np.save(tmp_path / "scene.7.npy", features(0))
    assert place_in(tmp_path, "scene.7").file == place_in(tmp_path, "scene.7.jpg").file == tmp_path / "scene.7.npy"


def test_a_file_for_all_images_that_changes_is_read_again(tmp_path):
    place = FeaturePlace(file=tmp_path / "all.safetensors", key="a.jpg")
    for value in (1, 2):
        save_file({"a": torch.from_numpy(features(value, regions=value))}, place.file)
        assert read_features(place).features.tolist() == [[value] * 3] * value


def test_a_place_is_looked_for_in_the_folder_of_the_image_and_beside(tmp_path):
    (tmp_path / "photos").mkdir()
    np.save(tmp_path / "photos" / "1.npy", features(0))
    assert place_in(tmp_path, "photos/1.jpg").file == tmp_path / "photos" / "1.npy"
    assert width_in(tmp_path) == 3
