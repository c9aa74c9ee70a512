"""No verb accepts a setting that it would ignore."""

from dataclasses import fields
from pathlib import Path

import pytest

from plmkit.api import as_text, pretraining
from plmkit.catalogue import find
from plmkit.config.machine import Machine, settle
from plmkit.config.verbs import FINETUNING, PREPARING
from plmkit.errors import SettingError
from plmkit.tasks.settings import settle_task

VALUES = {
    "device": "cpu", "dtype": "float32", "threads": "1", "reader_workers": "1", "micro_batch": "1", "compile": "true",
    "checkpoint_steps": "1", "kept_checkpoints": "3", "average": "2", "log_steps": "1", "validations": "1",
    "valid_share": "0.1", "layout": "lines", "column": "a", "image_column": "a", "image_folder": "a", "features": "a",
    "names": '["names.tsv"]', "header": "false", "weights": "[1.0]",
}  # fmt: skip


def pretrained(*sets: str, recipe: str = "bert-tiny", **options):
    given = {"steps": None, "minutes": None, "tokens": None, "column": None, "header": True, "extend": False}
    return pretraining(recipe, ("a.txt",), Path("out"), sets=sets, **given | options)


def test_every_setting_of_the_machine_is_tried():
    assert [field.name for field in fields(Machine)] == list(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_each_verb_reads_a_setting_of_the_machine_or_refuses_it(name, plm, tmp_path):
    setting = f"run.{name}={VALUES[name]}"
    if name in ("features", "names"):
        kinds = {"features": "recipes that read regions of images", "names": "triples"}
        with pytest.raises(SettingError, match=f"--{name} is for {kinds[name]}"):
            pretrained(setting)
    else:
        pretrained(setting)
    if f"run.{name}" in FINETUNING:
        settle_task([setting], None)
    else:
        with pytest.raises(SettingError, match=rf"^run\.{name} has no effect on plm finetune, which uses run\."):
            settle_task([setting], None)
    ran = plm("doctor", tmp_path / "nothing.txt", "--set", setting)
    assert ran.code == 2
    assert (f"run.{name} has no effect on plm doctor, which uses run." in ran.err) == (f"run.{name}" not in PREPARING)


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
        *(
            ([f"{name}={value}"], {"start": Path("runs/mine")}, f"{name} has no effect with --from.")
            for name, value in {
                "tokenizer": "ByteBPE",
                "tokenizer.size": "300",
                "initialisation.cooccurrence_embeddings": "true",
                "initialisation.frequency_bias": "false",
                "architecture.initialiser": "normal",
                "architecture.local_heads": "false",
                "objectives.corpus_vocabulary": "true",
                "objectives.masked_lm.corpus_vocabulary": "true",
            }.items()
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


@pytest.mark.parametrize(
    "setting",
    [
        "schedule.learning_rate=1e-3",
        "schedule.steps=9",
        "schedule.optimizer.decay=0.1",
        "initialisation.frequency_bias=false",
    ],
)
def test_the_doctor_refuses_settings_of_training(setting, plm, corpus):
    ran = plm("doctor", corpus, "--set", setting)
    name = setting.partition("=")[0]
    assert (ran.code, ran.err) == (
        2,
        f"plm: {name} has no effect on plm doctor, which uses tokenizer, corruption, streams, stages, sentence_task, "
        "tasks, without, architecture, objectives, schedule.batch. Leave it out.\n",
    )


@pytest.mark.parametrize(
    "setting",
    [
        "architecture.dropout=0.3",
        "architecture.pooler_dropout=0.3",
        "architecture.activation=relu",
        "architecture.epsilon=1e-6",
        "architecture.initialiser=normal",
        "architecture.local_heads=false",
        "objectives.masked_lm.weight=2",
        "objectives.next_sentence.learned_weight=true",
    ],
)
def test_the_doctor_refuses_settings_of_the_network_that_change_neither_rows_nor_sizes(setting, plm, corpus):
    ran = plm("doctor", corpus, "--set", setting)
    name = setting.partition("=")[0]
    assert (ran.code, ran.err) == (
        2,
        f"plm: {name} has no effect on plm doctor: it changes neither the rows nor the size of the network. "
        "Leave it out.\n",
    )


@pytest.mark.parametrize("setting", ["architecture.layers=2", "objectives.corpus_vocabulary=false"])
def test_the_doctor_reads_settings_that_change_the_size_of_the_network(setting, plm, tmp_path):
    ran = plm("doctor", tmp_path / "nothing.txt", "--set", setting)
    assert "no effect" not in ran.err


@pytest.mark.parametrize("options", [["--temperature", "0"], ["--beams", "2"]])
def test_a_seed_is_refused_where_nothing_is_sampled(options, plm, tmp_path):
    ran = plm("generate", tmp_path / "model", "The", *options, "--seed", "0")
    assert ran.code == 2
    assert "so seed would have no effect. Leave out one or the other" in ran.err


@pytest.mark.parametrize("name", ["bert-mini", "gpt2-mini", "ernie-mini", "xlnet-mini", "lstm-mini"])
def test_with_weights_to_start_from_only_settings_of_initial_weights_are_refused(name):
    """Every setting of an architecture, by whether `--from` says that it must equal, may differ, or is ignored."""
    architecture = find(name).architecture
    refused = set()
    for field in fields(architecture):
        given = f"architecture.{field.name}={as_text(getattr(architecture, field.name))}"
        try:
            pretrained(given, recipe=name, start=Path("runs/mine"))
        except SettingError:
            refused.add(field.name)
    assert refused == {field.name for field in fields(architecture)} & {"initialiser", "local_heads", "initial_range"}


def test_layer_decay_is_refused_where_no_layer_is_trained():
    with pytest.raises(SettingError, match=r"^task\.frozen trains no layer of the network, so task\.layer_decay would"):
        settle_task(["task.frozen=true", "task.layer_decay=0.8"], None)
    frozen, _ = settle_task(["task.frozen=true"], None)
    electra = find("electra-mini")
    assert frozen.settled(electra.architecture, electra.tuning).layer_decay == 1.0
    assert electra.tuning.layer_decay == 0.8


@pytest.mark.parametrize(("recipe", "stream"), [("bert-mini", "text"), ("ernie-mini", "phrase")])
def test_the_weight_of_a_stream_that_is_always_alone_is_refused(recipe, stream):
    with pytest.raises(SettingError) as refused:
        settle(find(recipe), [f"streams.{stream}.weight=2"])
    assert str(refused.value) == (
        f"streams.{stream}.weight has no effect: no stage of {recipe} draws from this stream and another. Leave it out."
    )


def test_a_frequency_bias_is_refused_where_no_output_layer_has_a_bias(plm, tmp_path):
    out = tmp_path / "out"
    setting = ("--set", "initialisation.frequency_bias=true")
    ran = plm("pretrain", "gpt2-tiny", tmp_path / "no.txt", "--out", out, *setting)
    assert (ran.code, ran.err, out.exists()) == (
        2,
        "plm: initialisation.frequency_bias has no effect: the output layers of causal_lm have no bias. Turn it off.\n",
        False,
    )
