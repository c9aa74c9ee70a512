"""`--set a.b=v`, and settings on disk."""

import json
from dataclasses import dataclass, replace

import pytest

from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import TOKENIZERS
from plmkit.config.machine import Machine, settle
from plmkit.config.settings import from_json, parse, snake, to_json
from plmkit.errors import RecipeError, SettingError
from plmkit.recipe import one_stream, recipe_from_json
from plmkit.schedules.schedule import Stage
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.unigram import Unigram
from plmkit.training.differences import Difference, differences

BERT = find("bert-base")


def settled(*assignments: str):
    return settle(BERT, assignments)


def refusal(*assignments: str) -> str:
    with pytest.raises(SettingError) as refused:
        settled(*assignments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("assignment", "found", "value"),
    [
        ("schedule.learning_rate=1e-3", lambda s: s.recipe.schedule.learning_rate, 1e-3),
        ("schedule.learning_rate = 1", lambda s: s.recipe.schedule.learning_rate, 1.0),
        ("schedule.batch=16", lambda s: s.recipe.schedule.batch, 16),
        ("schedule.steps=1e6", lambda s: s.recipe.schedule.steps, 1_000_000),
        ("schedule.steps=1_000", lambda s: s.recipe.schedule.steps, 1_000),
        ("schedule.shape=cosine", lambda s: s.recipe.schedule.shape, "cosine"),
        ("stages=[[0.5, 64], [1, 128]]", lambda s: s.recipe.stages, (Stage(until=0.5, length=64), Stage(length=128))),
        ("schedule.optimizer.beta1=0.8", lambda s: s.recipe.schedule.optimizer.beta1, 0.8),
        ("architecture.dropout=0", lambda s: s.recipe.architecture.dropout, 0.0),
        ("tokenizer.lowercase=false", lambda s: s.recipe.tokenizer.lowercase, False),
        ("corruption.rate=0.3", lambda s: s.recipe.corruption[1].rate, 0.3),
        ("corruption.token_masking.rate=0.3", lambda s: s.recipe.corruption[1].rate, 0.3),
        ("corruption.short=0.5", lambda s: s.recipe.corruption[0].short, 0.5),
        ("corruption.sentence_pairs.short=0.5", lambda s: s.recipe.corruption[0].short, 0.5),
        ("corruption.static_masks=none", lambda s: s.recipe.corruption[1].static_masks, None),
        ("corruption.static_masks=5", lambda s: s.recipe.corruption[1].static_masks, 5),
        ("objectives.next_sentence.weight=0.5", lambda s: [o.weight for o in s.recipe.objectives], [1.0, 0.5]),
        ("run.threads=none", lambda s: s.run.threads, None),
        ("run.threads=Null", lambda s: s.run.threads, None),
        ("run.weights=[3, 0.5]", lambda s: s.run.weights, (3.0, 0.5)),
        ("run.weights=[]", lambda s: s.run.weights, ()),
        ("run.column=a=b", lambda s: s.run.column, "a=b"),
    ],
)
def test_a_setting_is_found_by_its_path(assignment, found, value):
    result = found(settled(assignment))
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("YES", True), ("1", True), ("no", False), ("0", False)])
def test_booleans_are_said_in_several_ways(text, value):
    assert settled(f"run.compile={text}").run.compile is value


def test_nothing_else_changes_and_later_settings_win():
    changed = settled("schedule.batch=16", "corruption.rate=0.3", "schedule.batch=32", "run.threads=2").recipe
    masking = replace(BERT.corruption[1], rate=0.3)
    assert changed == replace(
        BERT, schedule=replace(BERT.schedule, batch=32), streams=one_stream(BERT.corruption[0], masking)
    )  # fmt: skip
    assert settled().recipe == BERT
    assert settled().run == Machine()


def test_settings_that_fit_only_together_may_come_in_any_order():
    both = ["stages=[[1.0, 1024]]", "architecture.max_length=1024"]
    assert settled(*both) == settled(*reversed(both))
    with pytest.raises(RecipeError, match=r"use rows of 1024 tokens, but architecture\.max_length is 512"):
        settled(both[0])


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        (
            "schedule.learning_rat=1",
            "There is no setting 'schedule.learning_rat'. Did you mean 'schedule.learning_rate'?",
        ),
        (
            "frequency_bias=1",
            "There is no setting 'frequency_bias'. Did you mean 'initialisation.frequency_bias'? Names start with",
        ),
        (
            "rate=1",
            "There is no setting 'rate'. Did you mean 'corruption.rate' or 'schedule.learning_rate'? Names start with",
        ),
        ("lr=1", "There is no setting 'lr'. Did you mean 'schedule.learning_rate'? Names start with"),
        (
            "learning_rate=1",
            "There is no setting 'learning_rate'. Did you mean 'schedule.learning_rate'? Names start with",
        ),
        ("batch_size=1", "There is no setting 'batch_size'. Did you mean 'schedule.batch'? Names start with"),
        ("weight_decay=1", "There is no setting 'weight_decay'. Did you mean 'schedule.optimizer.decay'? Names"),
        ("warmup=1", "There is no setting 'warmup'. Did you mean 'schedule.warmup'? Names start with"),
        ("max_seq_length=1", "There is no setting 'max_seq_length'. Did you mean 'stages'? Names start with"),
        ("logging_steps=1", "There is no setting 'logging_steps'. Did you mean 'run.log_steps'? Names start with"),
        ("epochs=1", "There is no setting 'epochs'. A pretraining run is as long as --steps, --minutes or --tokens."),
        (
            "schedule.weight_decay=1",
            "There is no setting 'schedule.weight_decay'. Did you mean 'schedule.optimizer.decay'?",
        ),
        ("run.thread=1", "There is no setting 'run.thread'. Did you mean 'run.threads'?"),
        ("corruption.rates=1", "There is no setting 'corruption.rates'. Did you mean 'corruption.rate'?"),
        (
            "corruption.tokn_masking.rate=1",
            "There is no setting 'corruption.tokn_masking.rate'. Did you mean 'corruption.token_masking'?",
        ),
        (
            "schedule.optimiser.beta1=1",
            "There is no setting 'schedule.optimiser.beta1'. Did you mean 'schedule.optimizer'?",
        ),
        ("tokenizer.xyz=1", "There is no setting 'tokenizer.xyz'. Known: tokenizer."),
        (
            "corruption.token_masking.xyz=1",
            "There is no setting 'corruption.token_masking.xyz'. Known: corruption.token_masking.mask_share, ",
        ),
        ("tokenizer.xyz.abc=1", "There is no setting 'tokenizer.xyz.abc'. Known: tokenizer."),
        (
            "shedule.learning_rate=1",
            "There is no setting 'shedule.learning_rate'. Did you mean 'schedule'? Names start with tokenizer, ",
        ),
        ("name=1", "There is no setting 'name'. Names start with "),
        (".rate=1", "There is no setting '.rate'. Names start with "),
        ("schedule.=1", "There is no setting 'schedule.'. Known: schedule.batch, "),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(assignment, says):
    assert refusal(assignment).startswith(says)


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("schedule.batch=many", "'schedule.batch' takes a whole number; found 'many'."),
        ("schedule.batch=2.5", "'schedule.batch' takes a whole number; found '2.5'."),
        ("schedule.batch=inf", "'schedule.batch' takes a whole number; found 'inf'."),
        ("schedule.batch=1e308", "'schedule.batch' takes a whole number below 1e+18; found '1e308'."),
        ("schedule.batch=true", "'schedule.batch' takes a whole number; found 'true'."),
        ("schedule.batch=", "'schedule.batch' takes a whole number; found ''."),
        ("schedule.batch=none", "'schedule.batch' takes a whole number; found 'none'."),
        ("schedule.learning_rate=fast", "'schedule.learning_rate' takes a number; found 'fast'."),
        ("schedule.learning_rate=nan", "'schedule.learning_rate' takes a number; found 'nan'."),
        ("schedule.learning_rate=-inf", "'schedule.learning_rate' takes a number; found '-inf'."),
        ("run.compile=maybe", "'run.compile' takes true or false; found 'maybe'."),
        ("run.threads=all", "'run.threads' takes a whole number or none; found 'all'."),
        ("run.weights=0.5", "'run.weights' takes a JSON list such as [0.7, 0.3]; found '0.5'."),
        ("run.weights=[NaN]", "'run.weights' takes a JSON list such as [0.7, 0.3]; found '[NaN]'."),
        ("run.weights=[true]", "'run.weights' takes a JSON list such as [0.7, 0.3]; found '[true]'."),
        ('run.weights=["1"]', "'run.weights' takes a JSON list such as [0.7, 0.3]; found '[\"1\"]'."),
        (
            "stages=128",
            "'stages' takes a JSON list such as [[0.9, 128], [1.0, 512]]; found '128'.",
        ),
        (
            "stages=[[1.0, 12.5]]",
            "'stages' takes a JSON list such as [[0.9, 128], [1.0, 512]]; found '[[1.0, 12.5]]'.",
        ),
        (
            "stages=[[1.0]]",
            "'stages' takes a JSON list such as [[0.9, 128], [1.0, 512]]; found '[[1.0]]'.",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(assignment, says):
    assert refusal(assignment) == says


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        (
            "schedule.learning_rate",
            "--set takes name=value, as in schedule.learning_rate=1e-3; found 'schedule.learning_rate'.",
        ),
        ("=3", "--set takes name=value, as in schedule.learning_rate=1e-3; found '=3'."),
        ("schedule.learning_rate.x=1", "'schedule.learning_rate.x': learning_rate is a value and has no 'x'."),
        ("corruption.rate.x=1", "'corruption.rate.x': rate is a value and has no 'x'."),
        ("schedule.optimizer=1", "'schedule.optimizer' is a group of settings, not a value; it has beta1, beta2, "),
        ("schedule=1", "'schedule' is a group of settings, not a value; it has batch, clip, "),
        ("corruption=1", "'corruption' is a group of settings, not a value; it has mask_share, max_masked, "),
        (
            "corruption.token_masking=1",
            "'corruption.token_masking' is a group of settings, not a value; it has mask_share, ",
        ),
        ("run=1", "'run' is a group of settings, not a value; it has average, checkpoint_steps, "),
        (
            "objectives.weight=2",
            "'objectives.weight' is ambiguous. Choose one of objectives.masked_lm.weight, objectives.next_sentence",
        ),
        ("run.checkpoint_steps=0", "run.checkpoint_steps must be 1 or more; found 0."),
        ("run.log_steps=-1", "run.log_steps must be 1 or more; found -1."),
        ("run.threads=0", "run.threads must be 1 or more, or none; found 0."),
        ("run.threads=1e9", "run.threads must be at most 1,024; found 1,000,000,000."),
        ("run.reader_workers=1e9", "run.reader_workers must be at most 1,024; found 1,000,000,000."),
        ("run.micro_batch=0", "run.micro_batch must be 1 or more, or none; found 0."),
        ("run.valid_share=0.6", "run.valid_share must be between 0 and 0.5; found 0.6."),
        ("run.weights=[1, 0]", "run.weights must all be above 0; found [1.0, 0.0]."),
    ],
)
def test_what_cannot_be_is_refused(assignment, says):
    assert refusal(assignment).startswith(says)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_recipe_is_written_and_read_back(name):
    recipe = find(name)
    assert recipe_from_json(json.loads(json.dumps(to_json(recipe)))) == recipe


def test_the_settings_of_a_machine_are_written_and_read_back():
    machine = settled("run.weights=[1, 2]", "run.column=body").run
    assert from_json(json.loads(json.dumps(to_json(machine))), {"Machine": Machine}, "run") == machine


def test_settings_on_disk_make_only_what_they_may():
    @dataclass(frozen=True, kw_only=True)
    class Point:
        x: int = 0

    assert to_json(Point(x=3)) == {"kind": "Point", "x": 3}
    assert from_json({"kind": "Point", "x": 3}, {"Point": Point}) == Point(x=3)
    with pytest.raises(SettingError, match="have the kind 'Popen', which this version does not know"):
        from_json({"kind": "Popen", "args": ["ls"]}, {"Point": Point})
    with pytest.raises(SettingError, match=r"Point has no setting 'y'\. Was it written by a newer version\?"):
        from_json({"kind": "Point", "y": 3}, {"Point": Point})


def test_kinds_are_spelt_in_small_letters():
    assert [snake(name) for name in ("TokenMasking", "MaskedLM", "NextSentence", "LMHead")] == [
        "token_masking", "masked_lm", "next_sentence", "lm_head",
    ]  # fmt: skip


def test_a_whole_number_may_be_spelt_as_a_power_and_a_number_without_a_point():
    assert parse("1e4", int, "n") == 10_000
    assert parse("7", float, "x") == 7.0


def test_differences_name_the_setting():
    old, new = (
        to_json(recipe) for recipe in (BERT, settled("schedule.learning_rate=0.5", "corruption.rate=0.2").recipe)
    )
    assert [str(one) for one in differences(old, new)] == [
        "corruption.rate was 0.15, is 0.2",
        "schedule.learning_rate was 0.0001, is 0.5",
    ]
    assert differences(old, old) == []
    assert differences({"a": [1]}, {"a": [1, 2]}) == [Difference(path="a", old=[1], new=[1, 2])]
    assert [str(one) for one in differences({"a": None}, {"b": 1})] == ["b was none, is 1"]


def test_of_long_lists_of_names_the_first_are_shown():
    (found,) = differences({"classes": ["a", "b"]}, {"classes": [f"c{number}" for number in range(250)]})
    assert str(found) == "classes was [a, b], is [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 240 more]"


def test_lists_of_choices_differ_by_their_names():
    streams = [
        {"kind": "DataStream", "name": name, "maskings": [{"kind": "Capitals"}]} for name in ("order", "capitals")
    ]
    (found,) = differences({"streams": streams}, {"streams": streams[:1]})
    assert str(found) == "streams was [order, capitals], is [order]"
    stages = [{"until": 1 / 7, "length": 128, "streams": ["order"]}, {"until": 1.0, "length": 128, "streams": []}]
    (found,) = differences({"stages": stages}, {"stages": stages[1:]})
    assert str(found) == "stages was [[0.143, 128], [1, 128]], is [[1, 128]]"


def test_one_choice_can_be_put_in_place_of_another_by_its_name():
    schedule = settle(
        find("bert-mini"), ["schedule.optimizer=BertAdam", "schedule.optimizer.decay=0.1"]
    ).recipe.schedule
    assert (type(schedule.optimizer).__name__, schedule.optimizer.decay) == ("BertAdam", 0.1)
    with pytest.raises(SettingError, match="choose one of Adadelta, Adagrad, Adamax, AdamW, BertAdam"):
        settle(find("bert-mini"), ["schedule.optimizer=Adamw"])


def test_one_tokenizer_can_be_put_in_place_of_another():
    recipe = settle(find("bert-mini"), ["tokenizer=ByteBPE", "tokenizer.size=9000"]).recipe
    assert recipe.tokenizer == ByteBPE(size=9000)
    assert settle(find("bert-mini"), ["tokenizer=Unigram"]).recipe.tokenizer == Unigram(size=8000)  # as it was
    assert recipe_from_json(json.loads(json.dumps(to_json(recipe)))) == recipe
    known = ", ".join(kind.__name__ for kind in TOKENIZERS)
    assert refusal("tokenizer=BPE").endswith(f"Did you mean 'ByteBPE'? Known: {known}.")
    assert "There is no setting 'tokenizer.lowercase'" in refusal("tokenizer=ByteBPE", "tokenizer.lowercase=true")


@pytest.mark.parametrize(
    ("recipe", "assignments"),
    [
        ("albert-tiny", ("architecture.width=192", "architecture.heads=3")),
        ("bert-tiny", ("architecture.heads=3", "architecture.width=192")),
        ("bert-wwm-mini", ("corruption.mask_share=1", "corruption.random_share=0")),
        ("ernie-mini", ('corruption.levels=["character","phrase"]', "corruption.shares=[[1,0],[0.5,0.5],[0,1]]")),
    ],
)
def test_values_that_go_together_may_be_given_in_any_order(recipe, assignments):
    given = settle(find(recipe), assignments)
    assert given == settle(find(recipe), assignments[::-1])
    assert given.recipe != find(recipe)


def test_values_that_do_not_go_together_are_named_as_given():
    with pytest.raises(SettingError, match=r"architecture\.width=190 is not a multiple of architecture\.heads=3"):
        settle(find("bert-tiny"), ["architecture.width=190", "architecture.heads=3"])
