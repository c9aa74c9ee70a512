"""VisualBERT and ViLBERT from the command line and from Python: train, find, fill, look, evaluate, refuse."""

import json
import random
from itertools import product

import numpy as np
import pytest
from made_shapes import COLOURS, PLACES, SHAPES, Shape, draw
from PIL import Image

import plmkit
from plmkit.errors import InputError, PlmError, RecipeError
from plmkit.inference.retrieval import candidate_pairs, recalls
from plmkit.insight.looking_at import look_at_image

TINY = {
    "architecture.image_size": 32, "architecture.patch_size": 8, "architecture.width": 64, "architecture.inner": 128,
    "architecture.features": 64, "run.threads": 1,
}  # fmt: skip
SETS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(scope="session", params=["visualbert-tiny", "vilbert-tiny"])
def seeing(request, made, shapes):
    """A model of text and images that has seen two batches."""
    small = {**TINY, "schedule.batch": 16}
    if request.param == "vilbert-tiny":
        small |= {"architecture.visual_width": 32, "architecture.visual_inner": 32, "architecture.joint_width": 32}
    out = made / f"seeing-{request.param}"
    plmkit.pretrain(request.param, shapes, out, steps=2, settings=small, quiet=True)
    return out


@pytest.fixture(scope="session")
def pictures(shapes):
    return shapes.parent / "pictures"


def test_images_are_found_for_a_text_and_captions_for_an_image(seeing, shapes, pictures, plm, tmp_path):
    ran = plm("search", seeing, pictures, "a red square above a blue circle", "--top", 3, "--json")
    assert ran.code == 0, ran.err
    (found,) = ran.json["queries"]
    scores = [hit["score"] for hit in found["hits"]]
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3]
    assert scores == sorted(scores, reverse=True)
    assert {hit["image"] for hit in found["hits"]} <= {str(path) for path in pictures.iterdir()}
    model = plmkit.load(seeing, device="cpu")
    assert model.match(found["query"], found["hits"][0]["image"]) == pytest.approx(scores[0], abs=1e-5)
    ran = plm("search", seeing, shapes, pictures / "0.png", "--top", 2)
    captions = {json.loads(line)["caption"] for line in shapes.read_text().splitlines()}
    lines = [line.split("  ", 1) for line in ran.out.splitlines()]
    assert len(lines) == 2 and {text for _, text in lines} <= captions
    plm("search", seeing, shapes, "a red square", pictures / "1.png", "--top", 1, "--out", tmp_path / "found.tsv")
    rows = (tmp_path / "found.tsv").read_text().splitlines()
    assert [row.split("\t")[0] for row in rows] == ["query", "a red square", str(pictures / "1.png")]


def test_python_finds_the_same(seeing, pictures):
    model = plmkit.load(seeing, device="cpu")
    files = [pictures / f"{number}.png" for number in range(4)]
    best, *_ = model.find_images("a red square", files, top=2)
    assert best.score == pytest.approx(max(model.match(["a red square"] * 4, files)), abs=1e-5)
    (first, second) = model.find_captions(files[:2], ["a red square", "a blue circle"], top=1)
    assert {first[0].text, second[0].text} <= {"a red square", "a blue circle"}
    with pytest.raises(InputError, match=r"with one image: give one of each, .* found 2 texts and 1 image"):
        model.match(["a", "b"], files[:1])
    assert model.find_images(["a", "b"], []) == [[], []]
    assert model.find_captions(files[0], []) == model.match([], []) == []
    assert [hit.text for hit in model.find_captions(files[0], "a red square")] == ["a red square"]
    with pytest.raises(PlmError, match="is no captioner, so it cannot describe images"):
        model.caption(files[0])


def test_a_blank_is_filled_with_an_image_and_without(seeing, pictures, plm):
    text = "a [MASK] square above a red circle"
    filled = [plm("fill", seeing, text, *options, "--json").json for options in ([], ["--image", pictures / "0.png"])]
    one, other = (blank["blanks"][0][0]["probability"] for blank in filled)
    assert one != other
    answers = plmkit.load(seeing, device="cpu").fill(text, image=pictures / "0.png")
    assert answers[0][0].probability == pytest.approx(other, abs=1e-6)


def test_attention_to_regions_is_drawn_on_the_image(seeing, pictures, plm, tmp_path):
    out = tmp_path / "regions.png"
    ran = plm("attend", seeing, "a red square", "--image", pictures / "0.png", "--out", out, "--json")
    assert ran.code == 0, ran.err
    weights = np.array(ran.json["attention"])
    assert weights.shape == (len(ran.json["tokens"]), 4, 4)
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-5)
    with Image.open(out) as drawn:
        assert drawn.width > drawn.height
    assert "red: row" in plm("attend", seeing, "a red square", "--image", pictures / "0.png", "--layer", 1).out
    ran = plm("attend", seeing, "a red square", "--image", pictures / "0.png", "--out", pictures / "0.png")
    assert (ran.code, f"--out {pictures / '0.png'} is the input file" in ran.err) == (2, True)
    ran = plm("attend", seeing, "a red square", "--image", pictures / "0.png", "--layer", 9)
    assert (ran.code, "in layers 1 to 2" in ran.err) == (2, True)
    ran = plm("attend", seeing, "a red square", "--image", pictures / "0.png", "--head", 1)
    assert (ran.code, "--head has no effect with --image" in ran.err) == (2, True)


@pytest.mark.parametrize("words", [6, 14])
def test_the_texts_attention_is_shown_though_the_image_has_as_many_places(seeing, pictures, words):
    """Of 16 tokens and 16 regions; a ViLBERT has one more place, the image as a whole, for 17 tokens."""
    model = plmkit.load(seeing, device="cpu")
    for count in (words, words + 1):
        found = look_at_image(model, " ".join(["red"] * count), pictures / "0.png", layer=2)
        assert found.attention.shape == (count + 2, 4, 4)
        np.testing.assert_allclose(found.attention.sum((1, 2)), 1, rtol=1e-5)
        with pytest.raises(PlmError, match="in layers 1 to 2"):
            look_at_image(model, " ".join(["red"] * count), pictures / "0.png", layer=3)


def test_retrieval_is_evaluated_both_ways(seeing, shapes, plm, tmp_path):
    few = tmp_path / "few.jsonl"
    few.write_text("".join(line + "\n" for line in shapes.read_text().splitlines()[:12]))
    ran = plm("evaluate", seeing, few, "--images", shapes.parent, "--candidates", 5, "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["images"], ran.json["captions"]) == (12, 12)
    for way in ("text_to_image", "image_to_text"):
        found = ran.json[way]
        assert 0 <= found["recall_at_1"] <= found["recall_at_5"] == 1.0
        assert (found["candidates"], found["right"]) == (5, 1)
    shown = plm("evaluate", seeing, few, "--images", shapes.parent, "--candidates", 5).out
    assert all(word in shown for word in ("match_accuracy", "image to text", "recall at", "median", "candidates"))
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    assert [line.split()[-2:] for line in shown.splitlines() if "text to image" in line] == [["5", "1"]]
    ran = plm("evaluate", seeing, few, "--images", shapes.parent, "--features", tmp_path)
    assert (ran.code, "the model reads the pixels of images" in ran.err) == (2, True)
    ran = plm("evaluate", seeing, few, "--images", shapes.parent, "--beams", 2)
    assert (ran.code, "--beams would be ignored" in ran.err) == (2, True)


def test_recall_by_hand():
    """Three queries with three candidates each: rank 1, rank 3, and a tie with one other."""
    queries = np.repeat([4, 5, 6], 3)
    scores = np.array([3.0, 1.0, 2.0, 1.0, 2.0, 3.0, 1.0, 1.0, 0.0])
    right = np.array([True, False, False] * 3)
    found = recalls(queries, scores, right)
    assert found == {
        "recall_at_1": 1 / 3, "recall_at_5": 1.0, "recall_at_10": 1.0, "median_rank": 1.5, "candidates": 3.0,
        "right": 1.0,
    }  # fmt: skip


def test_candidates_hold_all_right_ones_and_random_others_once():
    owners = np.repeat(np.arange(10), 3)
    wordings = np.arange(30)
    by_text, by_image = candidate_pairs(owners, wordings, 5, np.random.default_rng(0))
    for pairs, key, count in ((by_text, 0, 30), (by_image, 1, 10)):
        assert len(np.unique(pairs, axis=0)) == len(pairs) == 5 * count
        right = owners[pairs[:, 0]] == pairs[:, 1]
        assert np.bincount(pairs[right][:, key]).tolist() == [1 if key == 0 else 3] * count
    every, _ = candidate_pairs(owners, wordings, 30, np.random.default_rng(0))
    assert len(every) == 300


def test_an_equal_caption_and_an_image_that_has_it_are_no_wrong_answers():
    """Texts 0 of image 0 and 3 of image 1 are the same."""
    owners, wordings = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 0, 3])
    by_text, by_image = candidate_pairs(owners, wordings, 9, np.random.default_rng(0))
    assert sorted(map(tuple, by_text.tolist())) == [
        (0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2),
    ]  # fmt: skip
    assert sorted(map(tuple, by_image.tolist())) == [
        (0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2),
    ]  # fmt: skip


def test_an_evaluation_without_a_wrong_candidate_is_refused(seeing, shapes, plm, tmp_path):
    rows = [{"image": f"{number}.png", "captions": [f"a {colour} square", f"a {colour} circle"]}
            for number, colour in enumerate(("red", "green", "blue"))]  # fmt: skip
    table = tmp_path / "t.jsonl"

    def refused(*options) -> str:
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ran = plm("evaluate", seeing, table, "--images", shapes.parent / "pictures", *options)
        assert ran.code == 2
        return ran.err

    assert "has 2 captions. Give at least 3, or 0 for all" in refused("--candidates", 2)
    assert "--known" in refused("--known", shapes)
    rows[1]["image"] = str(tmp_path / "half.png")
    (tmp_path / "half.png").write_bytes((shapes.parent / "pictures" / "1.png").read_bytes()[:80])
    assert "t.jsonl, line 2: " in refused() and "half.png cannot be read as an image" in refused()
    for row in rows:
        row["captions"] = ["a"]
    assert "have the same captions, so there is nothing to choose from" in refused()


def test_training_on_feature_files_searches_and_fills_with_them(shapes, plm, tmp_path):
    folder = tmp_path / "features"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(100):
        np.save(folder / f"{number}.npy", rng.normal(size=(1 + number % 4, 6)).astype(np.float32))
    before = plm("doctor", shapes, "--recipe", "visualbert-tiny", "--features", folder)
    assert (before.code, "documents" in before.out) == (0, True), before.err
    small = ["--set", "architecture.width=32", "--set", "architecture.inner=32", "--set", "run.threads=1"]
    command = ["pretrain", "visualbert-tiny", shapes, "--steps", 2, *small, "--out", tmp_path / "run"]
    ran = plm(*command, "--features", folder)
    assert ran.code == 0, ran.err
    assert f'plm search {tmp_path / "run"} {shapes} "a text" --features {folder}\n' in ran.out
    model = plmkit.load(tmp_path / "run", device="cpu")
    assert (model.architecture.features, model.architecture.image_size) == (6, None)
    ran = plm("search", tmp_path / "run", folder, "a red square", "--top", 2, "--json")
    assert all(hit["image"].endswith(".npy") for hit in ran.json["queries"][0]["hits"])
    assert plm("fill", tmp_path / "run", "a [MASK] square", "--image", folder / "0.npy").code == 0
    ran = plm("evaluate", tmp_path / "run", shapes, "--features", folder, "--candidates", 3, "--json")
    assert ran.json["text_to_image"]["recall_at_5"] == 1.0
    ran = plm("attend", tmp_path / "run", "a red square", "--image", folder / "0.npy")
    assert (ran.code, "no grid to draw" in ran.err) == (2, True)
    np.save(folder / "7.npy", np.zeros((2, 5), dtype=np.float32))
    ran = plm(*command[:-1], tmp_path / "wrong", "--features", folder)
    assert (ran.code, "captions.jsonl, line 8" in ran.err, "expected regions × 6" in ran.err) == (2, True, True)
    assert not (tmp_path / "wrong" / "model.safetensors").exists()
    ran = plm("export", tmp_path / "run", tmp_path / "hub", "--json")  # transformers computes the same, regions too
    assert (ran.code, ran.json["checked"]) == (0, True)
    again = plmkit.load(tmp_path / "hub", device="cpu")
    texts, files = ["a red square", "a blue circle"], [folder / "0.npy", folder / "1.npy"]
    np.testing.assert_allclose(again.match(texts, files), model.match(texts, files), atol=1e-5)


def test_a_missing_or_broken_image_is_named_with_its_row_before_training(shapes, pictures, plm, tmp_path):
    lines = [json.loads(line) for line in shapes.read_text().splitlines()[:6]]
    for line in lines:
        line["image"] = str(pictures.parent / line["image"])
    table = tmp_path / "t.jsonl"

    def run(changed: str):
        rows = [{**line, "image": changed} if number == 3 else line for number, line in enumerate(lines)]
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return plm("pretrain", "visualbert-tiny", table, "--steps", 1, *SETS, "--out", tmp_path / "run")

    ran = run("none.png")
    assert (ran.code, "t.jsonl, line 4: there is no image" in ran.err) == (2, True)
    (tmp_path / "broken.png").write_bytes((pictures / "0.png").read_bytes()[:60])
    ran = run("broken.png")
    assert (ran.code, "t.jsonl, line 4" in ran.err, "broken.png" in ran.err) == (2, True, True)
    assert "Traceback" not in ran.err
    for line, caption in zip(lines, "abcdef", strict=True):
        line["caption"] = caption  # too little text for a vocabulary
    assert "no vocabulary can be built" in run(lines[3]["image"]).err
    ran = run("broken.png")
    assert (ran.code, "t.jsonl, line 4" in ran.err, "vocabulary" in ran.err) == (2, True, False)


def test_the_text_starts_from_a_bert_and_visual_tables_from_those_of_the_text(pretrained, shapes, plm, tmp_path):
    same = ["--set", "architecture.width=32", "--set", "architecture.inner=64", "--set", "architecture.max_length=64"]
    same += ["--set", "stages=[[1.0, 32]]", "--set", "architecture.image_size=32", "--set", "run.threads=1"]
    command = ["pretrain", "visualbert-tiny", shapes, "--from", pretrained, "--steps", 1, "--out", tmp_path / "run"]
    ran = plm(*command, *same, "--set", "schedule.learning_rate=1e-9")
    assert ran.code == 0, ran.err
    assert "what reads images is initialised randomly" in ran.err
    bert, model = (plmkit.load(folder, device="cpu").network.model for folder in (pretrained, tmp_path / "run"))
    for part in ("segments", "positions"):
        text = getattr(bert.embed, part).weight
        np.testing.assert_allclose(getattr(model.visual, part).weight.detach(), text.detach(), atol=1e-6)
    np.testing.assert_allclose(
        model.blocks[1].attention.output.weight.detach(), bert.blocks[1].attention.output.weight.detach(), atol=1e-6
    )
    ran = plm(*command[:-1], tmp_path / "other", *same[2:])  # another width
    assert (ran.code, "architecture.width" in ran.err) == (2, True)


def test_what_reads_no_image_is_refused_and_options_that_would_be_ignored_too(
    seeing, pretrained, shapes, pictures, plm, tmp_path
):
    ran = plm("fill", pretrained, "a [MASK]", "--image", pictures / "0.png")
    assert (ran.code, "reads no image together with a text" in ran.err) == (2, True)
    ran = plm("search", pretrained, shapes, "a", "--images", pictures)
    assert (ran.code, "--images is for models that read text with images" in ran.err) == (2, True)
    ran = plm("search", seeing, pictures, "a", "--faiss")
    assert (ran.code, "leave out --index and --faiss" in ran.err) == (2, True)
    ran = plm("search", seeing, pictures, pictures / "0.png")
    assert (ran.code, "the folder has none" in ran.err) == (2, True)
    ran = plm("search", seeing, pictures, "a", "--images", pictures)
    assert (ran.code, "--images is for a table of images and captions" in ran.err) == (2, True)
    ran = plm("search", seeing, shapes, "typo.png")
    assert (ran.code, "There is no image typo.png." in ran.err) == (2, True)
    ran = plm("search", seeing, tmp_path, "a")
    assert (ran.code, "There is no image in" in ran.err) == (2, True)
    ran = plm("evaluate", pretrained, shapes, "--candidates", 3)
    assert (ran.code, "--candidates is for captions of images" in ran.err) == (2, True)
    ran = plm("pretrain", "bert-tiny", shapes, "--features", pictures, "--out", tmp_path / "a")
    assert (ran.code, "--features is for recipes that read regions of images" in ran.err) == (2, True)
    with pytest.raises(PlmError, match="reads no image together"):
        plmkit.load(pretrained, device="cpu").match("a", pictures / "0.png")
    with pytest.raises(PlmError, match="reads no image together"):
        plmkit.load(pretrained, device="cpu").find_images("a", [pictures / "0.png"])
    with pytest.raises(RecipeError, match="ImageText does not fit Encoder"):
        plmkit.pretrain(
            "visualbert-tiny", shapes, tmp_path / "b", steps=1, settings={"architecture": "Encoder"}, quiet=True
        )  # fmt: skip


def single_shapes(folder, count: int, seed: int, *, held_out: bool):
    """Pictures of one shape each, and their captions; a fourth of the 192 that there are is held out."""
    rng = random.Random(seed)
    (folder / "pictures").mkdir(parents=True)
    every = list(product(enumerate(COLOURS), enumerate(SHAPES), range(PLACES), range(PLACES)))
    some = [one for one in every if (one[0][0] + one[1][0] + one[2] + one[3]) % 4 == 3]
    found, lines = [], []
    for number in range(count):
        (_, colour), (_, shape), row, column = rng.choice(
            some if held_out else [one for one in every if one not in some]
        )
        one = Shape(colour=colour, shape=shape, row=row, column=column)
        draw((one,), folder / "pictures" / f"{number}.png")
        found.append(one)
        lines.append(json.dumps({"image": f"pictures/{number}.png", "caption": one.words}) + "\n")
    (folder / "captions.jsonl").write_text("".join(lines))
    return folder / "captions.jsonl", found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("visualbert-tiny", 800), ("vilbert-tiny", 600)])
def test_it_learns_which_caption_describes_a_picture_and_fills_a_colour_from_what_it_sees(name, steps, tmp_path):
    """MMD-01: of pictures it was not trained on 90% of matches are right; a masked colour is that of the picture."""
    table, _ = single_shapes(tmp_path / "train", 1000, seed=0, held_out=False)
    settings = {
        "architecture.image_size": 32, "architecture.patch_size": 8, "schedule.batch": 48, "schedule.warmup": 0.05,
        "run.threads": 1,
    }  # fmt: skip
    model = plmkit.pretrain(name, table, tmp_path / "run", steps=steps, settings=settings, quiet=True)
    _, shown = single_shapes(tmp_path / "test", 60, seed=1, held_out=True)
    files = [tmp_path / "test" / "pictures" / f"{number}.png" for number in range(60)]
    rng = random.Random(2)
    kinds = [f"a {colour} {shape}" for colour in COLOURS for shape in SHAPES]
    wrong = [rng.choice([kind for kind in kinds if kind != one.words]) for one in shown]
    right = np.array(model.match([one.words for one in shown], files)) > 0.5
    refused = np.array(model.match(wrong, files)) < 0.5
    assert (right.mean() + refused.mean()) / 2 >= 0.9
    seen, unseen = 0, 0
    for number, one in enumerate(shown[:30]):
        other = next(place for place, shape in enumerate(shown) if shape.colour != one.colour)
        for image, counts in ((number, True), (other, False)):
            (blank,) = model.fill(f"a [MASK] {one.shape}", top=1, image=files[image])
            seen += counts and blank[0].token == one.colour
            unseen += not counts and blank[0].token == one.colour
    assert seen >= 24  # of 30
    assert unseen <= 6  # with the picture of another colour
