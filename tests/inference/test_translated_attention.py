"""`plm translate --attention`: the alignment of a text with its translation."""


def test_a_translation_is_shown_with_its_alignment(plm, translating, tmp_path):
    text = "the old cat sees a red dog"
    ran = plm("translate", translating, text, "--attention", tmp_path / "page.html")
    assert ran.code == 0, ran.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"Written to {tmp_path / 'page.html'}." in ran.err.replace("\n", "")
    assert ran.out.strip() in page and "alignment (decoder → encoder)" in page
    ran = plm("translate", translating, text, "--attention", tmp_path / "picture.png")
    assert (ran.code, (tmp_path / "picture.png").read_bytes()[:4]) == (0, b"\x89PNG"), ran.err


def test_a_file_has_no_single_alignment(plm, translating, tmp_path):
    (tmp_path / "two.txt").write_text("the old cat\na red dog\n", encoding="utf-8")
    ran = plm("translate", translating, tmp_path / "two.txt", "--attention", tmp_path / "page.html")
    assert (ran.code, ran.out, "--attention shows one text" in ran.err) == (2, "", True)
    assert not (tmp_path / "page.html").exists()


def test_a_model_without_attention_is_refused_before_it_translates(plm, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("en\tfr\n" + "a red dog\tun chien rouge\nthe old cat\tle vieux chat\n" * 20, encoding="utf-8")
    ran = plm(
        "pretrain", "rnn-tiny", pairs, "--out", tmp_path / "plain", "--steps", 2, "--quiet",
        "--set", "tokenizer=Words", "--set", "architecture.width=8", "--set", "run.threads=1",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    ran = plm("translate", tmp_path / "plain", "a red dog", "--attention", tmp_path / "page.html")
    assert (ran.code, ran.out, "has no attention to look at" in ran.err) == (2, "", True)
    assert not (tmp_path / "page.html").exists()
