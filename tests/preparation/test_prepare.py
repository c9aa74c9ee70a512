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
