"""What preparation says of the files it reads."""

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.preparation.prepare import prepare
from plmkit.terminal.screen import Screen


def test_remarks_on_the_held_out_file_are_shown_too(tmp_path):
    for name, rows in {"train.tsv": "a b\tc d\n" * 4, "dev.tsv": "a\tc\nb\t\n"}.items():
        (tmp_path / name).write_text(f"source\ttarget\n{rows}", encoding="utf-8")
    settings = settle(find("transformer-tiny"), ("tokenizer=Words", "tokenizer.min_frequency=1"))
    valid = str(tmp_path / "dev.tsv")
    material = prepare(settings, [str(tmp_path / "train.tsv")], valid, 0, Screen(quiet=True))
    assert material.notes == (f"{valid}: 1 of 2 pairs lack a side and are skipped; the first is {valid}, line 3.",)


def test_a_held_out_file_that_has_nothing_for_some_of_the_tasks_is_remarked(tmp_path):
    """A held-out table of queries has no text for the other tasks, and held-out text has no queries."""
    lines = ["The Dog sees a house.", "It left, because the King came.", "A bird sings."]
    text, clicks = "\n".join(lines * 2), []
    for name in ("train", "held"):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(f"{name} {text}" for _ in range(9)), encoding="utf-8")
        rows = "".join(f"{name} {number}\ta title {number}\t{number % 2}\n" for number in range(8))
        (tmp_path / f"{name}.tsv").write_text(f"query\ttitle\tlabel\n{rows}", encoding="utf-8")
        clicks.append(str(tmp_path / f"{name}.tsv"))
    settings = settle(
        find("ernie2-tiny"),
        ("corruption.unit_masking.segmenter=none", "corruption.unit_masking.levels=[\"word\"]",
         "corruption.unit_masking.shares=[1.0]", "corruption.frequent=1.0", "tokenizer.size=200"),
    )  # fmt: skip
    train = [str(tmp_path / "train.txt"), clicks[0]]
    said = {
        valid: [
            one for one in prepare(settings, train, valid, 0, Screen(quiet=True)).left_out if "held-out loss" in one
        ]
        for valid in (clicks[1], str(tmp_path / "held.txt"), None)
    }
    after = ", so there is no held-out loss of them. Without --valid, a share of all text is held out."
    others = "knowledge, capitals, order, distance, discourse"
    assert said == {
        clicks[1]: [f"{clicks[1]} has nothing for {others}{after}"],
        str(tmp_path / "held.txt"): [f"{tmp_path / 'held.txt'} has nothing for relevance{after}"],
        None: [],
    }
