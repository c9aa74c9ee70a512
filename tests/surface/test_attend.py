"""`plm attend` from the command line."""

import pytest


def test_a_page_a_picture_and_numbers(plm, pretrained, tmp_path):
    text = "the cat [MASK] a house."
    ran = plm("attend", pretrained, text, "--out", tmp_path / "page.html")
    assert ran.code == 0, ran.err
    assert (tmp_path / "page.html").stat().st_size > 20_000
    assert "layer" in ran.out and "diagonal" in ran.out  # the mean of each layer, printed
    assert len([line for line in ran.out.splitlines() if line.strip().endswith("%")]) == 2
    assert "Output: token at the [MASK]: " in ran.out and "Written to" in ran.err
    ran = plm("attend", pretrained, text, "--layer", 2, "--head", 1, "--out", tmp_path / "one.svg", "--json")
    assert ran.code == 0, ran.err
    (model,) = ran.json["models"]
    (part,) = model["attention"]
    assert (len(part["diagonal"]), len(part["diagonal"][0]), part["kind"]) == (2, 2, "self")
    assert (tmp_path / "one.svg").is_file()


def test_two_models_and_checkpoints_on_one_page(plm, pretrained, hub_folder, tmp_path):
    ran = plm("attend", pretrained, "a text", "--compare", hub_folder, "--out", tmp_path / "both.html")
    assert (ran.code, (tmp_path / "both.html").read_text(encoding="utf-8").count('"frames"')) == (0, 2), ran.err
    assert [str(folder) in ran.out.replace("\n", "") for folder in (pretrained, hub_folder)] == [True, True]
    ran = plm("attend", pretrained, "a text", "--checkpoints", "--out", tmp_path / "steps.html")
    assert (ran.code, '"label":"step 40"' in (tmp_path / "steps.html").read_text(encoding="utf-8")) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a text " * 99], "special tokens included"),
        ([""], "The text is empty"),
        (["a text", "--out", "page.doc"], "pages and pictures are written as .html, .png, .svg, .pdf"),
        (["a text", "--out", "page.html", "--head", "1"], "--layer and --head are for pictures"),
        (["a text", "--out", "p.png", "--layer", "9"], "--layer must be between 1 and 2; found 9"),
        (["a text", "--checkpoints"], "--checkpoints needs a page with a slider"),
        (["a text", "--target", "x"], "the text has none that"),
    ],
)
def test_a_mistake_is_explained_in_a_few_lines(plm, pretrained, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = plm("attend", pretrained, *arguments)
    assert (ran.code, message in ran.err, ran.out) == (2, True, ""), ran.err
    assert len(ran.err.splitlines()) <= 3
    assert not list(tmp_path.iterdir())


def test_a_folder_without_checkpoints_and_one_without_a_model(plm, finetuned, tmp_path):
    ran = plm("attend", finetuned, "a text", "--checkpoints", "--out", tmp_path / "page.html")
    assert (ran.code, "keeps no checkpoints" in ran.err) == (2, True)
    ran = plm("attend", tmp_path / "none", "a text")
    assert (ran.code, "There is no folder" in ran.err) == (2, True)
