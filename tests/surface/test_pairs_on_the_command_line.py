"""Pairs on the command line: what is said of them, and what is refused with exit code 2."""

import pytest

SMALL = (
    "architecture.layers=1", "architecture.heads=2", "architecture.width=16", "architecture.inner=32",
    "stages=[[1.0, 8]]", "tokenizer.size=300", "run.threads=1", "schedule.batch=8",
)  # fmt: skip


def sets(*more):
    return [part for setting in (*SMALL, *more) for part in ("--set", setting)]


def test_aligned_files_train_and_long_sides_are_cut_and_counted(plm, tmp_path):
    source, target = tmp_path / "train.en", tmp_path / "train.de"
    source.write_text("a b c\n" * 20 + "one two three four five six seven eight nine ten\n", encoding="utf-8")
    target.write_text("d e\n" * 21, encoding="utf-8")
    ran = plm("pretrain", "transformer-tiny", source, target, "--out", tmp_path / "run", "--steps", 2, *sets())
    assert ran.code == 0, ran.err
    assert "Pairs: " in ran.err
    assert "Sides longer than 8 tokens are cut at their end: 1 sources and 0 targets" in ran.err
    assert f"plm translate {tmp_path / 'run'}" in ran.out


def test_the_doctor_shows_source_and_target(plm, pairs):
    ran = plm("doctor", pairs, "--recipe", "transformer-tiny", "--set", "tokenizer.size=300")
    assert ran.code == 0, ran.err
    shown = ran.out.splitlines()
    place = shown.index("target")
    source, target = shown[place - 1], shown[place + 1]
    assert source.startswith("<s>")
    assert source.removeprefix("<s>").removesuffix("</s>").split() == target.removesuffix("</s>").split()[::-1]


@pytest.mark.parametrize(
    ("recipe", "files", "options", "message"),
    [
        ("transformer-tiny", {"a.en": "x\ny\n", "a.de": "x\n"}, (), "a.en has 2 lines, but"),
        ("transformer-tiny", {"a.en": "x\n"}, (), "the other side is missing"),
        ("transformer-tiny", {"a.tsv": "source\ttarget\nx\t\n"}, (), "There is no pair with both sides"),
        ("transformer-tiny", {"a.tsv": "p\tq\tr\nx\ty\tz\n"}, (), "Choose two: --source COLUMN --target COLUMN."),
        ("transformer-tiny", {}, (), "This recipe trains on pairs of a source and a target"),
        ("bert-tiny", {"a.tsv": "en\tde\nx\ty\n"}, ("--source", "en"), "bert-tiny reads single texts. Use --text."),
    ],
)
def test_what_is_no_set_of_pairs_is_refused(plm, tmp_path, recipe, files, options, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths = [tmp_path / name for name in files]
    ran = plm("pretrain", recipe, *paths, "--out", tmp_path / "run", "--steps", 1, *options)
    assert (ran.code, message in ran.err) == (2, True), ran.err
    assert len(ran.err.strip().splitlines()) <= 3
    assert not (tmp_path / "run").exists()
