"""Captions from the command line and from Python, and the region of each word."""

import json

import numpy as np
import pytest
import torch
from made_shapes import COLOURS, SHAPES, SIDE, write_shapes
from PIL import Image

import plmkit
from plmkit.corruption.arrange.captions import ImageCaptions
from plmkit.data.caption_corpus import open_captions
from plmkit.data.samples import Samples
from plmkit.data.shards import open_store
from plmkit.errors import InputError, PlmError
from plmkit.inference import captioning
from plmkit.storage.files import cache_folder

TINY = [
    part
    for setting in (
        "architecture.width=16", "architecture.cell=16", "architecture.features=8", "architecture.image_size=16",
        "run.threads=1",
    )
    for part in ("--set", setting)
]  # fmt: skip


@pytest.fixture(scope="module")
def captioner(made, shapes):
    """A captioner that has seen 150 batches."""
    settings = dict(setting.split("=") for setting in TINY[1::2])
    plmkit.pretrain("caption-tiny", shapes, made / "captioner", steps=150, settings=settings, quiet=True)
    return made / "captioner"


@pytest.fixture
def picture(shapes):
    return shapes.parent / "pictures" / "0.png"


def test_plm_caption_prints_a_caption_and_draws_the_region_of_each_word(captioner, picture, plm, tmp_path):
    ran = plm("caption", captioner, picture, "--attention", tmp_path / "regions.png")
    assert ran.code == 0, ran.err
    (found,) = plm("caption", captioner, picture, "--json").json["captions"]
    assert ran.out == found["caption"] + "\n"
    assert (found["image"], found["score"] < 0) == (str(picture), True)
    with Image.open(tmp_path / "regions.png") as drawn:
        assert drawn.width > drawn.height
        assert len(np.unique(np.asarray(drawn))) > 100
    assert plm("caption", captioner, picture, "--attention", tmp_path / "regions.svg").code == 0
    assert "</svg>" in (tmp_path / "regions.svg").read_text()


def test_captions_of_several_images_are_named_by_their_files(captioner, picture, plm):
    other = picture.with_name("1.png")
    lines = plm("caption", captioner, picture, other, "--beams", 1).out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [str(picture), str(other)]


def test_model_caption_gives_one_answer_for_one_image_and_weights_that_add_up_to_one(captioner, picture):
    model = plmkit.load(captioner, device="cpu")
    alone, (first, second) = model.caption(picture), model.caption([picture, str(picture.with_name("1.png"))])
    assert (alone.text, alone.image) == (first.text, str(picture))
    assert second.image.endswith("1.png")
    assert alone.attention.shape == (len(alone.tokens), 2, 2)
    np.testing.assert_allclose(alone.attention.sum((1, 2)), 1, rtol=1e-5)
    assert model.caption([]) == []
    with pytest.raises(InputError, match="Give an image file or a list of image files; found an int"):
        model.caption(3)


def test_what_is_no_image_or_no_captioner_or_no_picture_is_refused(
    captioner, pretrained, picture, shapes, plm, tmp_path
):
    ran = plm("caption", captioner, shapes)
    assert (ran.code, "captions.jsonl is not an image that can be read" in ran.err) == (2, True)
    ran = plm("caption", captioner, tmp_path / "none.jpg")
    assert (ran.code, ran.err.splitlines()[-1]) == (2, f"plm: There is no image {tmp_path / 'none.jpg'}.")
    ran = plm("caption", captioner, picture, "--attention", tmp_path / "a.gif")
    assert (ran.code, "a.gif: pictures are written as .png, .svg, .pdf" in ran.err) == (2, True)
    before = picture.read_bytes()
    ran = plm("caption", captioner, picture.with_name("1.png"), picture, "--attention", picture)
    assert (ran.code, f"--attention {picture} is the input file" in ran.err) == (2, True)
    assert picture.read_bytes() == before
    ran = plm("caption", pretrained, picture)
    assert (ran.code, "is no captioner, so it cannot describe images" in ran.err) == (2, True)
    with pytest.raises(PlmError, match="describes images, so it cannot embed texts"):
        plmkit.load(captioner, device="cpu").embed(["a"])


def test_a_file_that_is_no_image_is_refused_before_any_image_is_read(captioner, picture, shapes, monkeypatch):
    monkeypatch.setattr(captioning, "load_image", lambda *_: pytest.fail("an image was read"))
    with pytest.raises(InputError, match=r"captions\.jsonl is not an image that can be read"):
        plmkit.load(captioner, device="cpu").caption([picture, shapes])


def test_options_of_images_are_refused_with_text_and_needed_where_files_are_elsewhere(
    shapes, mixed_corpus, plm, tmp_path
):
    ran = plm("pretrain", "bert-tiny", mixed_corpus, "--image", "image", "--out", tmp_path / "a")
    assert (ran.code, "--image and --images are for captions; bert-tiny reads text" in ran.err) == (2, True)
    table = tmp_path / "moved.jsonl"
    table.write_text(shapes.read_text().replace('"image"', '"photo"').replace("pictures/", ""))
    command = ["pretrain", "caption-tiny", table, "--out", tmp_path / "b", "--steps", 1, *TINY]
    assert "has no column image" in plm(*command).err
    assert "--images FOLDER" in plm(*command, "--image", "photo").err
    ran = plm(*command, "--image", "photo", "--images", shapes.parent / "pictures")
    assert ran.code == 0, ran.err
    assert f"plm caption {tmp_path / 'b'} photo.jpg" in ran.out
    ran = plm("doctor", shapes, "--recipe", "caption-tiny", "--json")
    assert (ran.code, ran.json["documents"]) == (0, 100)


def test_captions_are_scored_against_all_references_of_their_image(captioner, shapes, plm, tmp_path):
    (picture,) = plm("caption", captioner, shapes.parent / "pictures" / "0.png", "--beams", 1, "--json").json[
        "captions"
    ]
    references = ["nothing of the kind", picture["caption"].upper()]
    rows = [{"image": "0.png", "captions": references[number:]} for number in (0, 1)]
    found = []
    for number, row in enumerate(rows):
        table = tmp_path / f"{number}.jsonl"
        table.write_text(json.dumps(row) + "\n")
        ran = plm("evaluate", captioner, table, "--images", shapes.parent / "pictures", "--beams", 1, "--json")
        assert ran.code == 0, ran.err
        found.append(ran.json)
    assert [(one["images"], one["captions"], round(one["bleu"]["score"])) for one in found] == [
        (1, 2, 100),
        (1, 1, 100),
    ]
    assert "nrefs:2|" in found[0]["bleu"]["signature"] and "case:lc" in found[0]["bleu"]["signature"]
    ran = plm("evaluate", captioner, shapes, "--label", "caption")
    assert (ran.code, "--label would be ignored" in ran.err) == (2, True)


def test_a_broken_image_is_named_with_its_row_in_an_evaluation(captioner, picture, plm, tmp_path):
    (tmp_path / "half.png").write_bytes(picture.read_bytes()[:80])
    table = tmp_path / "t.tsv"
    table.write_text(f"image\tcaption\n{picture}\ta\nhalf.png\tb\n")
    ran = plm("evaluate", captioner, table)
    assert (ran.code, "t.tsv, line 3: " in ran.err, "half.png cannot be read" in ran.err) == (2, True, True)


def test_the_loss_of_an_evaluation_is_that_of_the_training_rows(captioner, shapes, plm):
    """All captions in one batch, against batches of the training's own arrangement."""
    found = plm("evaluate", captioner, shapes, "--json").json
    model = plmkit.load(captioner, device="cpu")
    store = open_store(open_captions([str(shapes)], 16), model.tokenizer, cache_folder())
    vocabulary = model.tokenizer.vocabulary
    batch = Samples(store, np.arange(100), (ImageCaptions(),), vocabulary, seed=0).batch(0, 0, 100, 64)
    with torch.no_grad():
        expected = model.network(batch).losses["causal_lm"].item()
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["tokens"] == int(batch.predicted.sum())


def test_a_network_without_images_does_not_fit_captions(shapes, plm, tmp_path):
    ran = plm("pretrain", "caption-tiny", shapes, "--set", "architecture=Recurrent", "--out", tmp_path / "a")
    assert (ran.code, "a captioner is trained on images with captions" in ran.err) == (2, True)


@pytest.mark.slow
def test_the_region_that_a_word_attends_to_most_is_that_of_the_object_it_names(tmp_path):
    table, _ = write_shapes(tmp_path / "train", 2000, seed=0)
    model = plmkit.pretrain(
        "caption-tiny", table, tmp_path / "run", steps=500, settings={"run.threads": 1}, quiet=True
    )  # fmt: skip
    _, scenes = write_shapes(tmp_path / "test", 100, seed=1)
    captions = model.caption([tmp_path / "test" / "pictures" / f"{number}.png" for number in range(100)])
    hits, named = 0, 0
    for (one, other, _), caption in zip(scenes, captions, strict=True):
        words = [token for token in caption.tokens if token in COLOURS or token in SHAPES]
        named += words == [one.colour, one.shape, other.colour, other.shape]
        for token, weights in zip(caption.tokens, caption.attention, strict=True):
            owners = [shape for shape in (one, other) if token in (shape.colour, shape.shape)]
            if token in COLOURS or token in SHAPES:
                row, column = np.unravel_index(weights.argmax(), weights.shape)
                pixel = (np.array([column, row]) + 0.5) * SIDE / len(weights)
                hits += any(
                    left <= pixel[0] <= right + 1 and top <= pixel[1] <= bottom + 1
                    for left, top, right, bottom in (shape.box for shape in owners)
                )
    assert named >= 90  # of the captions name both objects
    assert hits >= 0.8 * 4 * len(captions), hits
