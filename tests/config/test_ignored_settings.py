"""No verb accepts a setting that it would ignore."""

from dataclasses import fields
from pathlib import Path

import pytest

from plmkit.api import pretraining
from plmkit.config.machine import PREPARING, Machine
from plmkit.errors import SettingError
from plmkit.tasks.settings import READ, settle_task

VALUES = {
    "device": "cpu", "dtype": "float32", "threads": "1", "reader_workers": "1", "micro_batch": "1", "compile": "true",
    "checkpoint_steps": "1", "log_steps": "1", "validations": "1", "valid_share": "0.1", "layout": "lines",
    "column": "a", "header": "false", "weights": "[1.0]",
}  # fmt: skip


def pretrained(*sets: str, **options):
    given = {"steps": None, "minutes": None, "tokens": None, "column": None, "header": True, "extend": False}
    return pretraining("bert-tiny", ("a.txt",), Path("out"), sets=sets, **given | options)


def test_every_setting_of_the_machine_is_tried():
    assert [field.name for field in fields(Machine)] == list(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_each_verb_reads_a_setting_of_the_machine_or_refuses_it(name, plm, tmp_path):
    setting = f"run.{name}={VALUES[name]}"
    pretrained(setting)
    if name in READ:
        settle_task([setting], None)
    else:
        with pytest.raises(SettingError, match=rf"^run\.{name} has no effect on plm finetune, which uses run\."):
            settle_task([setting], None)
    ran = plm("doctor", tmp_path / "nothing.txt", "--set", setting)
    assert ran.code == 2
    assert (f"run.{name} has no effect on plm doctor, which uses run." in ran.err) == (name not in PREPARING)


@pytest.mark.parametrize(
    ("sets", "options", "said"),
    [
        (["run.valid_share=0.2"], {"valid": "held.txt"}, "run.valid_share has no effect with --valid."),
        (["run.validations=2", "run.valid_share=0"], {}, "run.validations has no effect with run.valid_share=0."),
        (["schedule.steps=9"], {"steps": 5}, "schedule.steps has no effect with --steps."),
        (["schedule.steps=9"], {"minutes": 1.0}, "schedule.steps has no effect with --minutes."),
        (["schedule.steps=9"], {"tokens": 1e6}, "schedule.steps has no effect with --tokens."),
        (["tokenizer.size=300"], {"tokenizer": Path("vocab.txt")}, "tokenizer.size has no effect with --tokenizer."),
        (["tokenizer=ByteBPE"], {"tokenizer": Path("vocab.txt")}, "tokenizer has no effect with --tokenizer."),
        (
            ["initialisation.cooccurrence_embeddings=true"],
            {"start": Path("runs/mine")},
            "initialisation.cooccurrence_embeddings has no effect with --from.",
        ),
    ],
)
def test_a_setting_that_an_option_replaces_is_refused(sets, options, said):
    with pytest.raises(SettingError) as refused:
        pretrained(*sets, **options)
    assert str(refused.value) == f"{said} Leave one of them out."


def test_the_same_settings_are_accepted_where_they_have_an_effect():
    order = pretrained("run.valid_share=0.2", "run.validations=2", "schedule.steps=9", "tokenizer.size=300")
    assert (order.settings.run.valid_share, order.settings.run.validations, order.budget.steps) == (0.2, 2, 9)
    assert pretrained("run.validations=2", valid="held.txt").settings.run.validations == 2


def test_the_doctor_refuses_settings_of_a_tokenizer_that_it_does_not_train(plm, tmp_path):
    ran = plm("doctor", tmp_path / "a.txt", "--tokenizer", tmp_path / "vocab.txt", "--set", "tokenizer.size=300")
    assert (ran.code, ran.err) == (
        2, "plm: tokenizer.size has no effect with --tokenizer. Leave one of them out.\n",
    )  # fmt: skip
