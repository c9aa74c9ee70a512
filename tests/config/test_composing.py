"""New combinations from the command line and from recipe files, and those that cannot be."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.composing import sentence_task
from plmkit.config.counting import parameters
from plmkit.config.machine import settle
from plmkit.corruption.arrange.packing import ContiguousSegments, DocSentences, FullSentences, SingleSegment
from plmkit.corruption.arrange.pairs import OrderedPairs, SentencePairs
from plmkit.corruption.mask.token import DynamicMasking, TokenMasking
from plmkit.errors import RecipeError, SettingError
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.sentence_pair import NextSentence, SentenceOrder
from plmkit.recipe import Recipe, one_stream
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

BASE, MINI, ROBERTA = find("bert-base"), find("bert-mini"), find("roberta-mini")


def settled(recipe: Recipe, *assignments: str) -> Recipe:
    return settle(recipe, assignments).recipe


# The sentence task


@pytest.mark.parametrize(
    ("task", "rows", "objective_kind", "pooler"),
    [("nsp", SentencePairs, NextSentence, True), ("sop", OrderedPairs, SentenceOrder, True),
     ("none", FullSentences, None, False)],
)  # fmt: skip
@pytest.mark.parametrize("name", ["bert-base", "bert-mini", "roberta-mini"])
def test_rows_objective_and_pooler_change_with_the_sentence_task(name, task, rows, objective_kind, pooler):
    recipe = settled(find(name), f"sentence_task={task}")
    assert type(recipe.corruption[0]) is rows
    assert [type(objective) for objective in recipe.objectives] == [
        MaskedLM,
        *([objective_kind] if objective_kind else []),
    ]
    assert recipe.architecture.pooler is pooler
    assert sentence_task(recipe) == task
    assert recipe.corruption[1:] == find(name).corruption[1:]
    assert recipe.objectives[0] == find(name).objectives[0]


def test_a_sentence_task_is_a_head_of_two_answers_or_none():
    counts = {task: parameters(settled(BASE, f"sentence_task={task}")) for task in ("nsp", "sop", "none")}
    assert counts == {"nsp": 110_106_428, "sop": 110_106_428, "none": 109_514_298}


def test_naming_the_task_that_a_recipe_has_changes_nothing():
    for name in CATALOGUE:
        recipe = find(name)
        if task := sentence_task(recipe):
            assert settled(recipe, f"sentence_task={task}") == recipe


def test_what_both_tasks_have_stays_as_it_was():
    before = settled(MINI, "corruption.short=0.3", "objectives.next_sentence.weight=0.5")
    after = settled(before, "sentence_task=sop")
    assert after.corruption[0] == OrderedPairs(short=0.3)
    assert after.objectives[1] == SentenceOrder(weight=0.5)


def test_rows_without_a_label_stay_where_there_is_no_task():
    segments = replace(MINI, streams=one_stream(ContiguousSegments(), TokenMasking()), objectives=(MaskedLM(),))
    assert settled(segments, "sentence_task=none").corruption == segments.corruption


def test_a_task_comes_before_the_settings_of_its_parts_in_whatever_order_they_are_given():
    both = ["corruption.ordered_pairs.short=0.2", "sentence_task=sop"]
    assert settled(MINI, *both) == settled(MINI, *reversed(both))
    assert settled(MINI, *both).corruption[0] == OrderedPairs(short=0.2)


# Lists of kinds


def test_a_list_of_kinds_replaces_the_members_and_kinds_that_stay_keep_their_settings():
    recipe = settled(MINI, "corruption=[SingleSegment,TokenMasking]", "objectives=[MaskedLM]")
    assert recipe.corruption == (SingleSegment(), TokenMasking(rate=0.4))
    assert recipe.objectives == (MaskedLM(corpus_vocabulary=True),)
    assert recipe.architecture == replace(MINI.architecture, pooler=False)


@pytest.mark.parametrize(
    "text", ["[OrderedPairs,TokenMasking]", "[ OrderedPairs , TokenMasking ]", "OrderedPairs,TokenMasking"]
)
def test_brackets_and_spaces_are_free(text):
    recipe = settled(MINI, f"corruption={text}", "objectives=[MaskedLM,SentenceOrder]")
    assert recipe.corruption == (OrderedPairs(), TokenMasking(rate=0.4))
    assert [objective.name for objective in recipe.objectives] == ["masked_lm", "sentence_order"]


def test_a_newcomer_takes_over_what_it_shares_with_the_step_that_left():
    before = settled(MINI, "corruption.short=0.3")
    after = settled(before, "corruption=[ContiguousSegments,TokenMasking]", "objectives=[MaskedLM]")
    assert after.corruption[0] == ContiguousSegments(short=0.3)


def test_one_member_is_changed_for_another_by_its_name():
    recipe = settled(ROBERTA, "corruption.full_sentences=DocSentences")
    assert recipe.corruption == (DocSentences(), DynamicMasking(rate=0.4))
    both = settled(MINI, "objectives.next_sentence=SentenceOrder", "corruption.sentence_pairs=OrderedPairs")
    assert both == settled(MINI, "sentence_task=sop")


def test_a_list_that_repeats_what_is_there_changes_nothing():
    same = ["corruption=[SentencePairs,TokenMasking]", "objectives=[MaskedLM,NextSentence]", "architecture=Encoder"]
    assert settled(MINI, *same) == MINI


def test_the_network_gets_the_segments_that_rows_need_and_a_setting_of_ones_own_wins():
    assert ROBERTA.architecture.segments == 1
    assert settled(ROBERTA, "sentence_task=sop").architecture.segments == 2
    assert settled(MINI, "sentence_task=none", "architecture.pooler=true").architecture.pooler


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("sentence_task=sob", "There is no sentence_task 'sob'. Did you mean 'sop'? Known: nsp, sop, none."),
        ("sentence_tsk=sop", "There is no setting 'sentence_tsk'. Did you mean 'sentence_task'?"),
        (
            "corruption=[OrdredPairs,TokenMasking]",
            "'OrdredPairs' is not a choice of corruption. Did you mean 'OrderedPairs'?",
        ),
        ("objectives=[MaskedLm]", "'MaskedLm' is not a choice of objectives. Did you mean 'MaskedLM'?"),
        (
            "corruption.token_masking=TokenMaskin",
            "'TokenMaskin' is not a choice of corruption. Did you mean 'TokenMasking'?",
        ),
        ("corruption.word_masking=TokenMasking", "There is no setting 'corruption.word_masking'."),
        ("architecture=Recoder", "'Recoder' is not a choice of architecture."),
        ("architecture=[Encoder,Encoder]", "'architecture' takes one choice; found [Encoder,Encoder]."),
        ("corruption=[1]", "'corruption' is a group of settings, not a value"),
        ("corruption.sentence_pairs.short=0.1", None),
    ],
)  # fmt: skip
def test_names_that_do_not_exist_get_the_nearest(assignment, says):
    if says is None:
        assert settled(MINI, assignment) == MINI
        return
    with pytest.raises(SettingError) as refused:
        settled(MINI, assignment)
    assert str(refused.value).startswith(says)


# What cannot be, through the command line


@pytest.fixture
def refused(plm, corpus, tmp_path):
    def run(*settings: str, recipe: str = "bert-tiny", text: Path = corpus) -> str:
        given = [part for setting in settings for part in ("--set", setting)]
        ran = plm("pretrain", recipe, text, "--out", tmp_path / "out", "--steps", 1, *given)
        assert ran.code == 2, ran
        assert not (tmp_path / "out").exists()
        message = ran.err[ran.err.index("plm: ") :]
        assert len(message.splitlines()) <= 3, message
        return message

    return run


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            ["objectives=[MaskedLM,SentenceOrder]"],
            "SentenceOrder reads swapped_order, but none of SentencePairs, TokenMasking, Encoder writes it.\n"
            "Choose a corruption or architecture that does (OrderedPairs), or drop the objective.",
        ),
        (
            ["corruption=[SingleSegment,TokenMasking]", "objectives=[MaskedLM,SentenceOrder]"],
            "SentenceOrder reads swapped_order, but none of SingleSegment, TokenMasking, Encoder writes it.",
        ),
        (["corruption.sentence_pairs=OrderedPairs"], "NextSentence reads random_next, but none of OrderedPairs, "),
        (["objectives=[MaskedLM,RealDialogue]"], "RealDialogue reads mixed_dialogue, but none of "),
        (["corruption=[SentencePairs]"], "MaskedLM reads targets, but none of SentencePairs, Encoder writes it."),
        (["architecture.pooler=false"], "NextSentence reads pooled, but none of "),
        (["corruption=[SentencePairs,OrderedPairs,TokenMasking]"], "of maskings; found SentencePairs, OrderedPairs, "),
        (["corruption=[TokenMasking]"], "any number of maskings; found TokenMasking.\nArrangements: SentencePairs, "),
        (["corruption=[TokenMasking,SentencePairs]"], "a corruption is one arrangement followed by any number of"),
        (["corruption=[SentencePairs,TokenMasking,TokenMasking]"], "TokenMasking and TokenMasking both write targets."),
        (["objectives=[MaskedLM,MaskedLM]"], "MaskedLM occurs twice. List each objective once."),
        (["sentence_task=sop", "architecture.segments=1"], "OrderedPairs uses 2 segments, but architecture."),
        (["sentence_task=maybe"], "There is no sentence_task 'maybe'. Known: nsp, sop, none."),
        (["corruption=[SentencePair,TokenMasking]"], "Did you mean 'SentencePairs'?"),
    ],
)  # fmt: skip
def test_a_combination_that_cannot_be_is_refused_with_the_reason(refused, settings, says):
    assert says in refused(*settings)


def test_a_recipe_without_an_objective_cannot_be_built():
    with pytest.raises(RecipeError, match="bert-mini has no objective, so there is nothing to train"):
        replace(MINI, objectives=())


def test_order_needs_documents_of_two_sentences(refused, tmp_path):
    text = tmp_path / "lines.txt"
    text.write_text("A cat sits here.\n\nA dog runs there.\n\nBirds fly.\n\nFish swim.\n", encoding="utf-8")
    said = refused("sentence_task=sop", text=text)
    assert f"{text}, line 1: none of the 3 documents has two sentences, so there is no order to learn." in said
    assert "Train without pairs: --set sentence_task=none. Or, in plain text, put each sentence on its own line" in said


def test_dialogues_need_turns(refused, tmp_path):
    text = tmp_path / "lines.txt"
    text.write_text("A cat sits here.\n\nA dog runs there.\n\nBirds fly.\n\nFish swim.\n", encoding="utf-8")
    said = refused("corruption=[Dialogue,TokenMasking]", "objectives=[MaskedLM,RealDialogue]", text=text)
    assert f"{text}, line 1: dialogues need at least two documents with at least two turns each; found 3" in said


# What can be


TINY = (
    "stages=[[1.0, 32]]", "architecture.max_length=64", "architecture.heads=2", "architecture.width=32",
    "architecture.inner=64", "tokenizer.size=300", "run.threads=1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "settings", "heads"),
    [
        ("bert-tiny", ["sentence_task=sop"], {"masked_lm", "sentence_order"}),
        ("bert-tiny", ["sentence_task=none"], {"masked_lm"}),
        ("roberta-tiny", [], {"masked_lm"}),
        ("roberta-tiny", ["corruption.full_sentences=DocSentences"], {"masked_lm"}),
        ("roberta-tiny", ["sentence_task=nsp"], {"masked_lm", "next_sentence"}),
        ("bert-tiny", ["corruption=[ContiguousSegments,TokenMasking]", "objectives=[MaskedLM]"], {"masked_lm"}),
        (
            "bert-tiny",
            ["corruption=[Dialogue,TokenMasking]", "objectives=[MaskedLM,RealDialogue]"],
            {"masked_lm", "real_dialogue"},
        ),
    ],
)
def test_a_new_combination_trains_from_the_command_line(plm, corpus, tmp_path, recipe, settings, heads):
    given = [part for setting in (*settings, *TINY) for part in ("--set", setting)]
    ran = plm("pretrain", recipe, corpus, "--out", tmp_path / "out", "--steps", 3, "--json", *given)
    assert ran.code == 0, ran.err
    losses = {name.removeprefix("valid/") for name in ran.json if name.startswith("valid/")}
    assert losses == heads
    filled = plm("fill", tmp_path / "out", "the cat [MASK] a house.", "--json")
    assert filled.code == 0, filled.err


def test_a_recipe_of_five_lines_builds_and_trains(corpus, tmp_path):
    recipe = replace(
        find("bert-tiny"),
        name="tiny-in-order",
        streams=one_stream(OrderedPairs(short=0.0), TokenMasking(rate=0.2)),
        objectives=(MaskedLM(), SentenceOrder(weight=0.5)),
    )
    order = PretrainRequest(
        settings=settle(recipe, TINY), corpora=(str(corpus),), out=tmp_path / "out", budget=Budget(steps=4)
    )  # fmt: skip
    result = pretrain(order, Screen()).result
    assert result["steps"] == 4
    assert {"valid/masked_lm", "valid/sentence_order"} <= set(result)


# What is shown can be given back


@pytest.mark.parametrize("name", ["bert-mini", "roberta-base"])
def test_every_line_that_is_shown_can_be_copied_into_a_command(name, plm):
    shown = plm("recipes", name).out
    lines = [line.split("    ")[0].strip() for line in shown.splitlines()]
    settings = [line for line in lines if "=" in line and ": " not in line and not line.startswith("task.")]
    assert {"sentence_task", "corruption", "objectives", "tokenizer"} <= {line.split("=")[0] for line in settings}
    assert sum(line.startswith("schedule.") for line in settings) > 8
    assert not any(" " in line for line in settings)
    for setting in settings:
        assert settled(find(name), setting) == find(name), setting
    assert settled(find(name), *settings) == find(name)


def test_what_can_be_chosen_instead_is_shown(plm):
    shown = plm("recipes", "bert-mini").out
    assert "sentence_task=nsp    (or sop, none)" in shown
    assert "objectives=[MaskedLM,NextSentence]    (or SentenceOrder, RealDialogue" in shown


def test_a_dialogue_corpus_has_a_turn_on_each_line(plm, tmp_path):
    rng = random.Random(0)
    talks = [
        "\n".join(f"Did you see the {rng.choice(['cat', 'dog', 'king'])}? I did not." for _ in range(6))
        for _ in range(30)
    ]
    (tmp_path / "talk.txt").write_text("\n\n".join(talks) + "\n", encoding="utf-8")
    ran = plm(
        "doctor", tmp_path / "talk.txt", "--recipe", "bert-tiny", "--json", "--set", "tokenizer.size=200",
        "--set", "corruption=[Dialogue,TokenMasking]", "--set", "objectives=[MaskedLM,RealDialogue]",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    for _, whole in ran.json["preview"]:
        assert whole.count("[SEP]") == 3


def test_dialogues_and_plain_text_are_read_in_turns(plm, corpus, tmp_path):
    rng = random.Random(0)
    turns = [[f"Did you see the {rng.choice(['cat', 'dog', 'king'])}? No." for _ in range(6)] for _ in range(30)]
    (tmp_path / "talk.txt").write_text("\n\n".join(map("\n".join, turns)) + "\n", encoding="utf-8")
    settings = (
        "corruption=[DialogueAndText,TokenMasking]", "corruption.dialogues=[2]", "objectives=[MaskedLM,RealDialogue]",
    )  # fmt: skip
    given = [part for setting in (*settings, *TINY) for part in ("--set", setting)]
    texts = (corpus, tmp_path / "talk.txt")
    ran = plm("pretrain", "bert-tiny", *texts, "--out", tmp_path / "out", "--steps", 3, "--json", *given)
    assert ran.code == 0, ran.err
    assert {"valid/masked_lm"} <= set(ran.json)


def test_a_detector_has_no_vector_for_the_row_and_so_no_sentence_task():
    with pytest.raises(
        SettingError, match="electra-tiny: GeneratorDiscriminator has no pooler, which a sentence_task needs"
    ):
        settle(find("electra-tiny"), ["sentence_task=sop"])
    assert sentence_task(find("electra-tiny")) is None
    assert sentence_task(find("roberta-tiny")) == "none"


def test_ernies_pairs_are_next_sentence_pairs_and_stay_as_they_are():
    recipe = find("ernie-mini")
    assert sentence_task(recipe) == "nsp"
    assert settle(recipe, ("sentence_task=nsp",)).recipe == recipe
    assert type(settle(recipe, ("corruption=[SentencePairs,UnitMasking]",)).recipe.corruption[0]) is SentencePairs
