"""Image files become arrays of one size, by a rule that a reader can check."""

import warnings

import numpy as np
import pytest
from PIL import Image

from plmkit.data.images import load_image
from plmkit.errors import InputError

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def columns(*colours, each: int = 4, height: int = 4) -> Image.Image:
    """Vertical stripes."""
    stripes = [np.full((height, each, 3), colour, dtype=np.uint8) for colour in colours]
    return Image.fromarray(np.concatenate(stripes, axis=1))


def test_the_middle_of_the_longer_side_is_kept(tmp_path):
    columns(RED, GREEN, BLUE).save(tmp_path / "a.png")
    found = load_image(tmp_path / "a.png", 4)
    assert (found.dtype, found.shape) == (np.uint8, (3, 4, 4))
    assert (found == np.array(GREEN)[:, None, None]).all()


@pytest.mark.parametrize("name", ["grey.png", "grey.tif", "grey.pgm"])
@pytest.mark.parametrize(("value", "seen"), [(0, 0), (257 * 100, 100), (65535, 255)])
def test_sixteen_bits_are_scaled_to_eight(tmp_path, name, value, seen):
    Image.fromarray(np.full((4, 4), value, dtype=np.uint16)).save(tmp_path / name)
    assert (load_image(tmp_path / name, 4) == seen).all()


def test_the_shorter_side_is_resized(tmp_path):
    columns(BLUE, each=8, height=20).save(tmp_path / "a.png")
    assert (load_image(tmp_path / "a.png", 2) == np.array(BLUE)[:, None, None]).all()


def test_what_is_transparent_is_white_and_grey_has_three_colours(tmp_path):
    Image.new("RGBA", (4, 4), (10, 20, 30, 0)).save(tmp_path / "clear.png")
    Image.new("L", (4, 4), 7).save(tmp_path / "grey.png")
    assert (load_image(tmp_path / "clear.png", 4) == 255).all()
    assert (load_image(tmp_path / "grey.png", 4) == 7).all()


def test_inks_and_palettes_have_their_colours(tmp_path):
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(tmp_path / "inks.jpg", quality=100)
    assert np.abs(load_image(tmp_path / "inks.jpg", 4)[:, 0, 0].astype(int) - RED).max() <= 2
    palette = columns(RED, BLUE, each=2).convert("P", palette=Image.Palette.ADAPTIVE)
    palette.save(tmp_path / "all.gif")
    assert load_image(tmp_path / "all.gif", 4)[:, 0, [0, 3]].T.tolist() == [list(RED), list(BLUE)]
    palette.save(tmp_path / "clear.png", transparency=palette.getpixel((0, 0)))
    assert load_image(tmp_path / "clear.png", 4)[:, 0, [0, 3]].T.tolist() == [[255] * 3, list(BLUE)]


def test_a_photo_that_lies_on_its_side_stands_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter: the left column of the file is the top row
    columns(RED, RED, GREEN, GREEN, each=2, height=8).save(tmp_path / "a.png", exif=exif)
    found = load_image(tmp_path / "a.png", 8)
    assert found[:, 0, 4].tolist() == list(RED) and found[:, -1, 4].tolist() == list(GREEN)


def test_damaged_camera_data_and_large_images_are_no_reason_for_a_warning(tmp_path, monkeypatch):
    exif = b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x09\x00\x0f\x01\x02\x00\xff\xff\x00\x00"
    columns(RED, RED, each=8, height=16).save(tmp_path / "a.jpg", exif=exif, quality=100)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_image(tmp_path / "a.jpg", 4).shape == (3, 4, 4)


def test_whatever_a_decoder_raises_is_said_with_the_name_of_the_file(tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("Conversion from YUV failed")

    monkeypatch.setattr(Image, "open", broken)
    with pytest.raises(InputError, match=r"a\.avif cannot be read as an image: Conversion from YUV failed\."):
        load_image(tmp_path / "a.avif", 4)


def test_the_orientation_of_a_camera_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    columns(RED, BLUE, each=2).save(tmp_path / "a.png", exif=exif)
    assert load_image(tmp_path / "a.png", 4)[:, 0, 0].tolist() == list(BLUE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"There is no image .*a\.png\."),
        (b"no image", r"a\.png is not an image that can be read"),
        ("half", r"a\.png cannot be read as an image: "),
    ],
)
def test_a_file_that_is_no_image_is_refused_with_its_name(tmp_path, content, said):
    path = tmp_path / "a.png"
    if content == "half":
        columns(RED, GREEN, each=50, height=50).save(path)
        content = path.read_bytes()[:60]
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        load_image(path, 4)


def test_a_folder_is_no_image(tmp_path):
    with pytest.raises(InputError, match="cannot be read as an image"):
        load_image(tmp_path, 4)
