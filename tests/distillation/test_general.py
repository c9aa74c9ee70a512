"""`plm distill` on text: every method trains, resumes bit for bit, and leaves a folder like any other."""

import json

import pytest
from safetensors.torch import load_file

from plmkit.training.run_folder import RunFolder

SMALL = (
    "stages=[[1.0, 32]]", "architecture.max_length=64", "architecture.layers=1", "architecture.heads=2",
    "architecture.width=32", "architecture.inner=64", "run.threads=1", "run.checkpoint_steps=5", "run.log_steps=5",
    "schedule.learning_rate=3e-3",
)  # fmt: skip
METHODS = ["distilbert", "tinybert", "minilm", "soft"]


def sets(*more: str) -> list[str]:
    return [part for one in (*SMALL, *more) for part in ("--set", one)]


def stop_at(step: int, plm, command: list) -> None:
    """Stop the run in the middle, as Ctrl-C would, after `step` steps."""
    from plmkit.training.step import Step

    update, taken = Step.update, []

    def counting(*given):
        taken.append(1)
        if len(taken) > step:
            raise KeyboardInterrupt
        return update(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "update", counting)
        assert plm(*command).code == 130


@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_resumes_and_leaves_a_model(method, plm, pretrained, mixed_corpus, tmp_path):
    out, halved = tmp_path / "run", tmp_path / "halved"
    command = ["distill", pretrained, "bert-tiny", mixed_corpus, "--method", method, "--steps", 16, *sets(), "--quiet"]
    ran = plm(*command, "--out", out, "--json")
    assert ran.code == 0, ran.err
    assert [one["name"] for one in ran.json["compared"]] == ["teacher", "student"]
    stop_at(9, plm, [*command, "--out", halved])
    ran = plm(*command, "--out", halved)
    assert ran.code == 0, ran.err
    whole, resumed = (load_file(folder / "model.safetensors") for folder in (out, halved))
    assert whole.keys() == resumed.keys()
    assert all((whole[key] == resumed[key]).all() for key in whole)
    assert not any(name.split(".")[1] in ("hidden_matching", "cosine_states") for name in whole if "heads" in name)
    assert plm("embed", out, "the cat sees a house.", "--json").code == 0
    shown = plm(*[one for one in command if one != "--quiet"], "--out", out).out
    assert f"The student is in {out}. Next:\n  plm fill {out} " in shown
    record = RunFolder(out).record
    assert record.teacher["folder"] == str(pretrained)


@pytest.mark.parametrize(
    ("options", "frozen"),
    [
        ([], True),
        (["--init", "2"], True),
        (["--init", "random"], False),
        (sets("architecture.width=16"), False),  # layers of another shape: random weights
        (["--method", "soft"], False),
    ],
)
def test_distilberts_positions_stay_as_the_teacher_has_them(options, frozen, plm, pretrained, mixed_corpus, tmp_path):
    """As in the released code; the run is stopped and resumed. What does not come from the teacher is trained."""
    out = tmp_path / "run"
    command = ["distill", pretrained, "bert-tiny", mixed_corpus, "--out", out, "--steps", 8, *sets(), *options]
    stop_at(6, plm, command)
    ran = plm(*command)
    assert ran.code == 0, ran.err
    assert ("Position embeddings are the teacher's and are not trained" in ran.out + ran.err) == frozen
    teacher, student = (load_file(folder / "model.safetensors") for folder in (pretrained, out))
    name = "model.embed.positions.weight"
    assert (student[name].shape == (64, 32)) == ("architecture.width=16" not in options)
    same = student[name].shape == teacher[name][:64].shape and bool((student[name] == teacher[name][:64]).all())
    assert same == frozen
    assert student.keys() <= teacher.keys()
    layer = f"model.blocks.{1 if '2' in options else 0}."
    for own, weight in student.items():
        theirs = teacher[own.replace("model.blocks.0.", layer)]
        if own != name and "pooler" not in own and weight.shape == theirs.shape:  # no objective reads the pooler
            assert not (weight == theirs).all(), own


def test_a_wider_teacher_needs_learned_maps_which_the_model_does_not_keep(plm, pretrained, mixed_corpus, tmp_path):
    ran = plm(
        "distill", pretrained, "bert-tiny", mixed_corpus, "--out", tmp_path / "run", "--method", "tinybert", "--steps",
        4, *sets("architecture.width=16"), "-q",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert not any("matching" in name for name in load_file(tmp_path / "run" / "model.safetensors"))


def test_layers_of_the_teacher_are_chosen_for_those_of_the_student(plm, pretrained, mixed_corpus, tmp_path):
    layers = sets("objectives.hidden_matching.layers=[1]", "objectives.attention_matching.layers=[1]")
    command = [
        "distill",
        pretrained,
        "bert-tiny",
        mixed_corpus,
        "--method",
        "tinybert",
        "--init",
        2,
        "--steps",
        2,
        "-q",
    ]
    ran = plm(*command, "--out", tmp_path / "run", *layers)
    assert ran.code == 0, ran.err
    ran = plm(*command, "--out", tmp_path / "no", *layers[:-2], "--set", "objectives.attention_matching.layers=[1,2]")
    assert ran.code == 2
    assert (
        "attention_matching.layers needs one layer of the teacher, from 1 to 2, for each of the student's 1" in ran.err
    )


def test_predictions_of_any_language_model_are_soft_targets_but_its_states_are_not(plm, mixed_corpus, tmp_path):
    """An LSTM teaches a GPT-2, and is taught by one."""
    small = [
        "--set",
        "stages=[[1.0,32]]",
        "--set",
        "architecture.width=32",
        "--set",
        "run.threads=1",
        "--steps",
        2,
        "-q",
    ]
    lstm, gpt = tmp_path / "lstm", tmp_path / "gpt"
    assert plm("pretrain", "lstm-tiny", mixed_corpus, "--out", lstm, *small).code == 0
    ran = plm("distill", lstm, "gpt2-tiny", mixed_corpus, "--method", "soft", "--out", gpt, *small)
    assert ran.code == 0, ran.err
    ran = plm("distill", gpt, lstm, mixed_corpus, "--method", "soft", "--out", tmp_path / "back", *small)
    assert ran.code == 0, ran.err
    for teacher, student, said in ((lstm, "gpt2-tiny", "The teacher"), (gpt, "lstm-tiny", "The student")):
        ran = plm("distill", teacher, student, mixed_corpus, "--method", "minilm", "--out", tmp_path / "no", *small)
        assert ran.code == 2
        assert f"{said} " in ran.err and "is a Recurrent: only encoders" in ran.err


def test_soft_targets_bring_the_student_nearer_to_the_teacher_than_text_alone(
    plm, pretrained, mixed_corpus, tmp_path
):  # fmt: skip
    """The same initial weights, steps and data; the loss is that of masked tokens on held-out text."""
    ran = plm(
        "distill", pretrained, "bert-tiny", mixed_corpus, "--out", tmp_path / "run", "--method", "soft", "--steps", 30,
        "--alone", *sets("architecture.layers=2"), "--json", "-q",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    teacher, student, alone = ran.json["compared"]
    assert student["score"] < alone["score"]
    assert student["parameters"] == alone["parameters"] == teacher["parameters"]
    assert json.loads((tmp_path / "run" / "distillation.json").read_text())["compared"] == ran.json["compared"]


@pytest.mark.parametrize(
    ("student", "options", "said"),
    [
        ("gpt2-tiny", [], r"predicts masked tokens from both sides, and gpt2-tiny predicts the next token"),
        ("electra-tiny", [], r"electra-tiny predicts no tokens as a teacher does"),
        ("bert-tny", [], r"There is no recipe 'bert-tny'. Did you mean 'bert-tiny'"),
        ("bert-tiny", ["--method", "distillbert"], r"no --method 'distillbert'. Did you mean 'distilbert'"),
        ("bert-tiny", ["--init", "1,9"], r"--init names layers of the teacher, from 1 to 2"),
        ("bert-tiny", ["--init", "first"], r"--init takes auto, random, or layers"),
        ("bert-tiny", ["--epochs", "2"], r"--epochs is for a teacher that is fine-tuned on a task"),
        ("bert-tiny", ["--set", "distill.temperature=2"], r"Settings of distill are for a task"),
        ("bert-tiny", ["--method", "soft", "--set", "objectives.soft_targets.temperature=0"], r"finite number above 0"),
    ],
)
def test_bad_input_is_explained_and_leaves_nothing(student, options, said, plm, pretrained, mixed_corpus, tmp_path):
    small = sets("architecture.layers=2") if student == "bert-tiny" else []
    ran = plm("distill", pretrained, student, mixed_corpus, "--out", tmp_path / "run", "--steps", 2, *small, *options)
    assert ran.code == 2
    assert __import__("re").search(said, ran.err), ran.err
    assert len(ran.err.strip().splitlines()[-1]) < 400


def test_rows_that_the_teacher_cannot_read_are_refused(plm, pretrained, mixed_corpus, tmp_path):
    ran = plm("distill", pretrained, "bert-tiny", mixed_corpus, "--out", tmp_path / "run")
    assert ran.code == 2
    assert "the teacher reads at most 64" in ran.err


def test_objectives_of_distillation_need_a_teacher(plm, mixed_corpus, tmp_path, tiny_settings):
    ran = plm(
        "pretrain", "bert-tiny", mixed_corpus, "--out", tmp_path / "run", "--steps", 2, *tiny_settings, "--set",
        "objectives=[MaskedLM,SoftTargets]",
    )  # fmt: skip
    assert ran.code == 2
    assert "SoftTargets compares the network with a teacher: use `plm distill`" in ran.err


def test_another_teacher_does_not_continue_a_run(plm, pretrained, hub_folder, mixed_corpus, tmp_path):
    command = ["bert-tiny", mixed_corpus, "--out", tmp_path / "run", "--steps", 4, "--method", "soft", *sets(), "-q"]
    assert plm("distill", pretrained, *command).code == 0
    ran = plm("distill", hub_folder, *command)
    assert ran.code == 2
    assert "teacher.folder was" in ran.err
