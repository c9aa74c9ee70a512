import os

import pytest

from plmkit.errors import nearest, printable

TASK = ("batch", "clip", "decay", "dropout", "epochs", "length", "lm_weight", "pooling", "learning_rate", "warmup")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("epoch", TASK, "epochs"),
        ("lm_wieght", TASK, "lm_weight"),
        ("batch_size", TASK, "batch"),
        ("learning_rat", TASK, "learning_rate"),
        ("weight_decay", TASK, "decay"),
        ("Dropout", TASK, "dropout"),
        ("pool", TASK, "pooling"),
        ("sob", ("nsp", "sop", "none"), "sop"),
        ("BPE", ("WordPiece", "ByteBPE"), "ByteBPE"),
        ("bert", ("albert-mini", "bert-base", "bert-mini"), "bert-base"),
        ("spanbert-bse", ("bert-base", "spanbert-base"), "spanbert-base"),
    ],
)
def test_a_typing_error_gets_the_right_name_suggested(name, known, meant):
    assert nearest(name, known) == f" Did you mean '{meant}'?"


@pytest.mark.parametrize("name", ["class_weights", "class_weight", "optimizer", "metric", "x", "", "seed", "loss"])
def test_names_that_are_hardly_similar_are_not_suggested(name):
    assert nearest(name, TASK) == ""


def test_a_word_inside_a_longer_name_is_not_enough():
    assert nearest("task", ("schedule", "run", "sentence_task")) == ""


def test_a_name_that_is_no_utf_8_can_be_shown():
    name = os.fsdecode(b"caf\xe9 \xe7\x8b\x97.txt")
    assert printable(name) == "caf\\xe9 狗.txt"
    assert printable("plain.txt") == "plain.txt"
