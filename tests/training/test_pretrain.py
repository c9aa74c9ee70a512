"""What `plm pretrain` does with a folder that holds a run, half of one, or something else."""

import json
import os
import random
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.samples import Place
from plmkit.data.vocabulary import unnamed
from plmkit.preparation.prepare import prepare
from plmkit.storage.manifest import MANIFEST
from plmkit.storage.tensors import checksum
from plmkit.terminal.screen import Screen
from plmkit.training import checkpoint, job, watch
from plmkit.training import pretrain as module
from plmkit.training.checkpoint import digest
from plmkit.training.loop import Budget
from plmkit.training.memory import OutOfMemory
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest, parts_to_start_from
from plmkit.training.run_folder import RunFolder
from plmkit.training.step import Step
from plmkit.training.watch import read_metrics

TINY = (
    "architecture.layers=1", "architecture.width=16", "architecture.heads=2", "architecture.inner=32",
    "architecture.max_length=32", "schedule.batch=4", "stages=[[1.0, 32]]", "tokenizer.size=120",
    "run.threads=1", "run.log_steps=1", "run.checkpoint_steps=3", "schedule.learning_rate=0.001",
    "corruption.rate=0.15",
)  # fmt: skip


def command(corpus: Path, out: Path, *more: object, sets: tuple[str, ...] = ()) -> list[object]:
    own = [setting for setting in TINY if "--from" not in more or not setting.startswith("tokenizer.")]
    flags = [part for setting in (*own, *sets) for part in ("--set", setting)]
    return ["pretrain", "bert-tiny", corpus, "--out", out, *flags, *(more or ("--steps", 5))]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty documents of five sentences of five words."""
    rng = random.Random(0)
    words = ["cat", "dog", "bird", "fish", "sees", "hears", "likes", "a", "the", "my", "red", "old"]
    sentences = [" ".join(rng.choices(words, k=5)) + "." for _ in range(200)]
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join("\n".join(sentences[i : i + 5]) for i in range(0, 200, 5)) + "\n")
    return path


@pytest.fixture(scope="module")
def original(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of five steps."""
    out = tmp_path_factory.mktemp("original") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLM_CACHE", str(out.parent / "cache"))
        request = PretrainRequest(
            settings=settle(find("bert-tiny"), TINY), corpora=(str(text),), out=out, budget=Budget(steps=5)
        )  # fmt: skip
        pretrain(request, Screen())
    return out


@pytest.fixture
def finished(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


@pytest.fixture
def unfinished(finished: Path) -> Path:
    """The same run, as it was after step 3."""
    shutil.rmtree(finished / "checkpoints" / "step-00000005")
    (finished / "model.safetensors").unlink()
    about = json.loads((finished / "run.json").read_text())
    del about["result"], about["checksum"]
    (finished / "run.json").write_text(json.dumps({**about, "state": "unfinished"}))
    (finished / MANIFEST).unlink()
    return finished


def picture(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its content and the time it was written."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


def steps_told(folder: Path) -> list[int]:
    return [line["step"] for line in read_metrics(folder) if "learning_rate" in line]


def same_weights(first: Path, second: Path) -> bool:
    return (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_a_run_folder_holds_everything(original):
    names = {path.name for path in original.iterdir()}
    assert names == {
        "run.json", "model.safetensors", MANIFEST, "metrics.jsonl", "tensorboard", "checkpoints",
        "tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json",
    }  # fmt: skip
    assert about(original)["recipe"]["architecture"]["width"] == 16
    assert about(original)["result"]["steps"] == 5
    assert [path.name for path in sorted((original / "checkpoints").iterdir())] == ["step-00000003", "step-00000005"]
    assert steps_told(original) == [1, 2, 3, 4, 5]


def test_a_finished_run_says_so_and_nothing_is_touched(plm, text, finished):
    before = picture(finished)
    ran = plm(*command(text, finished))
    assert ran.code == 0
    assert f"{finished} holds a finished run: 5 steps, " in ran.err
    assert "Add --extend with a budget to continue it, or use another --out." in ran.err
    assert picture(finished) == before


@pytest.mark.parametrize(
    ("budget", "asked"),
    [
        (("--steps", 9), "9 steps"),
        (("--minutes", 0.5), "0.5 minutes"),
        (("--tokens", 5000), "5,000 tokens"),
        ((), "10,000 steps"),
    ],
)
def test_another_budget_for_a_finished_run_is_refused(plm, text, finished, budget, asked):
    before = picture(finished)
    ran = plm(*command(text, finished)[:-2], *budget)
    assert (ran.code, ran.out, ran.err) == (
        2,
        "",
        f"plm: {finished} holds a finished run with another budget: 5 steps, not {asked}.\n"
        "Add --extend to train for a budget beyond what is done, use another --out, or give the same budget.\n",
    )
    assert picture(finished) == before


def test_a_run_starts_with_its_budget_after_its_corpus_was_read(plm, text, tmp_path):
    ran = plm(*command(text, tmp_path / "run", "--steps", 1))
    lines = ran.err.splitlines()
    assert "Budget: 1 step." in lines
    read = next(number for number, line in enumerate(lines) if line.startswith("40 documents, 200 sentences"))
    assert read < next(number for number, line in enumerate(lines) if line.startswith("Computing on cpu"))
    missing = plm(*command(tmp_path / "no.txt", tmp_path / "other"))
    assert (missing.code, "Computing" in missing.err) == (2, False)


def test_plain_lines_carry_seed_epoch_step_and_time_left(plm, text, tmp_path):
    out = tmp_path / "run"
    ran = plm(*command(text, out, "--steps", 10, "--seed", 7, sets=("schedule.batch=24", "run.checkpoint_steps=5")))
    pattern = r" *\d+% seed 7, epoch (\d), step (\d+) masked \d\.\d{3} .*, \d+:\d\d left"
    found = {int(match[2]): int(match[1]) for line in ran.err.splitlines() if (match := re.fullmatch(pattern, line))}
    assert list(found) == list(range(1, 11))
    read = {one.step: checkpoint.read_checkpoint(one.folder)[0] for one in checkpoint.checkpoints(out / "checkpoints")}
    assert {step: found[step] - 1 for step in (5, 10)} == {step: read[step].position.at("text").epoch for step in read}
    assert found[1] == 1 < found[5] < found[10]


def test_a_run_without_a_budget_says_which_it_has(plm, text, tmp_path):
    ran = plm(*command(text, tmp_path / "run", "--set", "schedule.steps=2"))
    assert "Budget: 2 steps, the recipe's default (--steps, --minutes or --tokens changes it)." in ran.err.splitlines()


def test_a_finished_run_that_lost_its_weights_has_them_back_from_its_last_checkpoint(plm, text, finished, original):
    (finished / "model.safetensors").unlink()
    ran = plm(*command(text, finished))
    assert ran.code == 0, ran.err
    assert (
        f"{finished / 'model.safetensors'} was missing and has been restored from the checkpoint at step 5.\n"
        in ran.err
    )
    assert same_weights(finished, original)
    assert about(finished) == about(original)
    assert plm("fill", finished, "the [MASK]").code == 0


def test_a_finished_run_that_lost_its_weights_and_last_checkpoint_is_trained_to_its_end(plm, text, finished, original):
    (finished / "model.safetensors").unlink()
    shutil.rmtree(finished / "checkpoints/step-00000005")
    ran = plm(*command(text, finished))
    assert ran.code == 0, ran.err
    assert "model.safetensors is missing; training resumes from the checkpoint at step 3.\n" in ran.err
    assert same_weights(finished, original)
    assert about(finished)["result"]["steps"] == 5


@pytest.mark.parametrize("more", [(), ("--extend",)])
@pytest.mark.parametrize("harm", [shutil.rmtree, lambda folder: [flip(path) for path in folder.glob("*/*.json")]])
def test_a_finished_run_that_lost_its_weights_for_good_says_so(plm, text, finished, harm, more):
    (finished / "model.safetensors").unlink()
    harm(finished / "checkpoints")
    before = picture(finished)
    ran = plm(*command(text, finished, "--steps", 5, *more))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"plm: {finished} holds a finished run, but model.safetensors is missing, "
        "and no intact checkpoint has its weights.\n"
        "Copy the folder again from its source, or remove it and train the model again.\n"
    )
    assert picture(finished) == before


def test_a_finished_run_can_be_extended(plm, text, finished, original):
    ran = plm(*command(text, finished, "--steps", 4, "--extend"))
    assert ran.code == 0, ran.err
    assert "Resuming from step 5." in ran.err
    assert about(finished)["result"]["steps"] == 9
    assert steps_told(finished) == list(range(1, 10))
    assert not same_weights(finished, original)


def test_an_extension_needs_a_budget_of_its_own(plm, text, finished):
    before = picture(finished)
    ran = plm(*command(text, finished, "--extend"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "plm: --extend needs a budget of its own: add --minutes, --steps or --tokens.\n"
    assert picture(finished) == before


def test_an_extension_that_was_stopped_continues_with_the_same_command(plm, text, finished, monkeypatch):
    extend = command(text, finished, "--steps", 4, "--extend")
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(RunFolder, "save_weights", stop)
        plm(*extend)
    assert about(finished)["state"] == "unfinished"
    assert plm(*extend).code == 0
    assert about(finished)["result"]["steps"] == 9


def stop(*_args):
    raise RuntimeError("a crash")


def test_an_unfinished_run_continues_to_the_same_weights(plm, text, unfinished, original):
    ran = plm(*command(text, unfinished))
    assert ran.code == 0, ran.err
    assert "Resuming from step 3." in ran.err
    assert same_weights(unfinished, original)
    assert without_time(read_metrics(unfinished)) == without_time(read_metrics(original))


def test_an_unfinished_run_can_be_tried_and_continues_as_if_nobody_had(plm, text, unfinished, original, tmp_path):
    said = f"{unfinished} is not finished; using its checkpoint at step 3.\n"
    before = picture(unfinished)
    filled = plm("fill", unfinished, "the [MASK]", "--json")
    assert (filled.code, filled.err) == (0, said)
    assert len(filled.json["blanks"]) == 1
    exported = plm("export", unfinished, tmp_path / "hub")
    assert exported.code == 0 and exported.err.startswith(said)
    assert plm("fill", tmp_path / "hub", "the [MASK]", "--json").json == filled.json
    assert picture(unfinished) == before
    assert plm(*command(text, unfinished)).code == 0
    assert same_weights(unfinished, original)
    assert "is not finished" not in plm("fill", unfinished, "the [MASK]").err


def test_a_trial_of_an_unfinished_run_passes_over_a_damaged_checkpoint(plm, unfinished):
    damaged = shutil.copytree(unfinished / "checkpoints/step-00000003", unfinished / "checkpoints/step-00000004")
    (damaged / "optimizer.safetensors").write_bytes(b"short")
    said = plm("fill", unfinished, "the [MASK]").err
    assert "step-00000004 is damaged: its checksum does not match. Using the previous one." in said
    assert "using its checkpoint at step 3." in said


def test_an_unfinished_run_without_a_checkpoint_says_what_to_do(plm, unfinished):
    shutil.rmtree(unfinished / "checkpoints")
    ran = plm("fill", unfinished, "the [MASK]")
    assert ran.code == 2
    assert ran.err == (
        f"plm: The run in {unfinished} is not finished and has no usable checkpoint.\n"
        "Run the same command to continue it.\n"
    )


def test_a_fine_tuning_of_an_unfinished_run_is_another_once_the_run_has_gone_on(plm, text, unfinished, tmp_path):
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\nthe cat\tgood\nthe dog\tbad\n")
    tune = ("finetune", unfinished, "--task", "classify", "--train", rows, "--out", tmp_path / "tuned", "--epochs", 1)
    ran = plm(*tune, "--set", "run.threads=1")
    assert ran.code == 0, ran.err
    assert "using its checkpoint at step 3." in ran.err
    assert plm(*command(text, unfinished)).code == 0
    ran = plm(*tune)
    assert ran.code == 2
    assert "holds another fine-tuning: step was 3, is none." in ran.err


def without_time(lines: list[dict]) -> list[dict]:
    return [{k: v for k, v in line.items() if k not in ("seconds", "tokens_per_second")} for line in lines]


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(plm, text, unfinished, original):
    damaged = shutil.copytree(unfinished / "checkpoints/step-00000003", unfinished / "checkpoints/step-00000004")
    (damaged / "model.safetensors").write_bytes(b"short")
    ran = plm(*command(text, unfinished))
    assert ran.code == 0, ran.err
    assert "step-00000004 is damaged: its checksum does not match. Using the previous one." in ran.err
    assert same_weights(unfinished, original)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_run_of_which_every_checkpoint_is_damaged_is_refused_in_two_lines_and_left_as_it_is(plm, text, unfinished):
    shutil.copytree(unfinished / "checkpoints/step-00000003", unfinished / "checkpoints/step-00000004")
    for weights in unfinished.glob("checkpoints/*/model.safetensors"):
        flip(weights)
    before = picture(unfinished)
    again = command(text, unfinished, sets=("run.log_steps=2",))  # which run.json would tell
    for asked in (again, ("fill", unfinished, "a [MASK]")):
        ran = plm(*asked)
        assert ran.code == 2
        assert ran.err == (
            f"plm: Found 2 checkpoints in {unfinished / 'checkpoints'}, none intact.\n"
            "Remove the folder and start the run again.\n"
        )
        assert picture(unfinished) == before


@pytest.mark.parametrize("damaged", [False, True])
def test_a_finished_run_without_a_whole_checkpoint_is_extended_in_another_folder(plm, text, finished, damaged):
    if damaged:
        for weights in finished.glob("checkpoints/*/model.safetensors"):
            flip(weights)
    else:
        shutil.rmtree(finished / "checkpoints")
    before = picture(finished)
    ran = plm(*command(text, finished, "--steps", 4, "--extend"))
    assert ran.code == 2
    assert ran.err == (
        f"plm: {finished} holds a finished model, but no intact checkpoint to continue from.\n"
        f"Continue training in another folder: --from {finished} --out DIR.\n"
    )
    assert picture(finished) == before


def test_a_checkpoint_of_another_network_is_refused_before_anything_is_written(plm, text, unfinished):
    folder = unfinished / "checkpoints/step-00000003"
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "more": torch.ones(1)}, folder / "model.safetensors")
    content = json.loads((folder / "state.json").read_text())
    content["checksums"]["model.safetensors"] = checksum(folder / "model.safetensors")
    del content["checksum"]
    (folder / "state.json").write_text(json.dumps({**content, "checksum": digest(content)}))
    before = picture(unfinished)
    ran = plm(*command(text, unfinished, sets=("run.log_steps=2",)))
    assert ran.code == 2
    assert "has a weight 'more' that this network does not have." in ran.err
    assert picture(unfinished) == before


@pytest.mark.parametrize(
    ("sets", "more", "says"),
    [
        (("schedule.learning_rate=0.5",), (), "schedule.learning_rate was 0.001, is 0.5"),
        (("stages=[[1.0, 16]]",), (), "stages.length was 32, is 16"),
        (("corruption.rate=0.3",), (), "corruption.rate was 0.15, is 0.3"),
        (("run.valid_share=0.2",), (), "run.valid_share was 0.01, is 0.2"),
        (("run.weights=[1.0]",), (), "run.weights was [], is [1.0]"),
        ((), ("--steps", 5, "--seed", 3), "seed was 0, is 3"),
        ((), ("--steps", 6), "budget.steps was 5, is 6"),
        ((), ("--minutes", 1), "budget.steps was 5, is none; budget.seconds was none, is 60.0"),
        ((), ("--steps", 5, "--valid", "held.txt"), "valid was none, is held.txt"),
        ((), ("--steps", 5, "--from", "other"), "from was none, is other"),
    ],
)
def test_a_run_with_other_settings_is_refused_and_the_setting_named(plm, text, unfinished, sets, more, says):
    before = picture(unfinished)
    ran = plm(*command(text, unfinished, *more, sets=sets))
    assert ran.code == 2
    assert ran.err == (
        f"plm: --out {unfinished} holds a run with other settings: {says}.\n"
        "Run the same command to continue it, or use another --out.\n"
    )
    assert picture(unfinished) == before


def test_words_about_a_recipe_may_change_from_one_version_to_the_next(plm, text, unfinished, original):
    about = json.loads((unfinished / "run.json").read_text())
    about["recipe"] |= {"summary": "said otherwise", "notes": "once", "paper": "another"}
    (unfinished / "run.json").write_text(json.dumps(about))
    ran = plm(*command(text, unfinished))
    assert ran.code == 0, ran.err
    assert same_weights(unfinished, original)


def test_settings_of_the_machine_may_change_from_one_call_to_the_next(plm, text, unfinished, original):
    ran = plm(*command(text, unfinished, sets=("run.log_steps=2", "run.checkpoint_steps=1", "run.validations=1")))
    assert ran.code == 0, ran.err
    assert same_weights(unfinished, original)


@pytest.mark.parametrize("extend", [(), ("--extend",)])
def test_a_run_on_text_that_has_changed_is_refused(plm, text, unfinished, extend):
    moved = unfinished.parent / "corpus.txt"
    moved.write_text(text.read_text() + "\none more line.\n")
    (unfinished / "run.json").write_text(json.dumps({**about(unfinished), "corpora": [str(moved)]}))
    before = picture(unfinished)
    ran = plm(*command(moved, unfinished, "--steps", 5, *extend))
    assert ran.code == 2
    assert f"plm: {unfinished} holds a run on other text: the corpus has changed since it started.\n" in ran.err
    assert picture(unfinished) == before


@pytest.mark.parametrize("name", ["thesis.txt", ".hidden", "run.json.bak", "model.safetensors"])
def test_a_folder_that_holds_something_else_is_refused_and_left_as_it_is(plm, text, tmp_path, name):
    out = tmp_path / "mine"
    out.mkdir()
    (out / name).write_text("years of work")
    before = picture(out)
    ran = plm(*command(text, out))
    assert ran.code == 2
    assert ran.err.startswith(
        f"plm: --out {out} is not empty and does not hold a run ({name}); nothing was changed.\nUse a new"
    )
    assert picture(out) == before


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": 1}', '{"format": 99, "kind": "pretrain", "state": 1}', '{"a":' * 100_000],
    ids=["empty", "cut", "list", "short", "newer", "deep"],
)  # fmt: skip
def test_a_run_json_that_is_not_ours_is_refused(plm, text, tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    ran = plm(*command(text, tmp_path))
    assert ran.code == 2
    assert ran.err.startswith(f"plm: {tmp_path / 'run.json'} ")
    assert (tmp_path / "run.json").read_text() == content


def test_a_fine_tuned_model_is_not_pretrained_over(plm, text, finetuned, tmp_path):
    out = Path(shutil.copytree(finetuned, tmp_path / "run"))
    ran = plm(*command(text, out))
    assert ran.code == 2
    assert ran.err == f"plm: --out {out} holds a fine-tuned model. Use another folder.\n"


def test_a_folder_whose_name_is_no_utf8_is_refused_and_a_corpus_with_such_a_name_is_read(plm, text, tmp_path):
    out, corpus = (tmp_path / os.fsdecode(name) for name in (b"run-\xe9", b"corpus-\xe9.txt"))
    shutil.copy(text, corpus)
    ran = plm(*command(corpus, out))
    assert ran.code == 2
    reported = f"plm: {tmp_path}/run-?: this name is not valid UTF-8. Choose another folder.\n"
    assert ran.err.endswith(reported)
    assert not out.exists()
    for _ in range(2):
        assert plm(*command(corpus, tmp_path / "run")).code == 0
    assert about(tmp_path / "run")["corpora"] == [str(corpus)]
    ran = plm("export", tmp_path / "run", out)
    assert (ran.code, ran.err.endswith(reported), out.exists()) == (2, True, False)


def test_a_file_is_no_folder(plm, text, tmp_path):
    file = tmp_path / "file"
    file.write_text("content")
    assert plm(*command(text, file)).err == f"plm: --out {file} is a file. Give a folder for the run.\n"
    ran = plm(*command(text, file / "below"))
    assert ran.code == 2
    assert ran.err == (
        f"plm: --out {file / 'below'} cannot be written: Not a directory. Use a folder that you may write to.\n"
    )
    assert file.read_text() == "content"


def test_an_unwritable_folder_is_refused_before_anything_is_read(plm, text, tmp_path, monkeypatch):
    def denied(path: Path, *_args, **_settings):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", denied)  # the rights of a folder do not stop the superuser
    ran = plm(*command(text, tmp_path / "new" / "run"))
    assert ran.code == 2
    assert ran.err == (
        f"plm: --out {tmp_path / 'new' / 'run'} cannot be written: Permission denied. "
        "Use a folder that you may write to.\n"
    )


def test_a_command_that_fails_leaves_no_folder_behind(plm, tmp_path):
    ran = plm(*command(tmp_path / "missing.txt", tmp_path / "new" / "run"))
    assert ran.code == 2
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_in_a_new_folder_does_not_stop_the_next_try(plm, text, tmp_path, original):
    out = tmp_path / "run"
    out.mkdir()
    (out / ".run.json.0123456789abcdef0123456789abcdef.partial").write_text("{")
    ran = plm(*command(text, out))
    assert ran.code == 0, ran.err
    assert {path.name for path in out.iterdir()} == {path.name for path in original.iterdir()}
    assert same_weights(out, original)


@pytest.mark.parametrize("lost", ["tokenizer.json", "vocab.txt", "tokenizer_config.json"])
def test_a_tokenizer_that_was_not_all_written_is_made_again(plm, text, unfinished, original, lost):
    (unfinished / lost).unlink()
    ran = plm(*command(text, unfinished))
    assert ran.code == 0, ran.err
    assert same_weights(unfinished, original)
    assert (unfinished / lost).read_bytes() == (original / lost).read_bytes()


def test_the_same_seed_gives_the_same_weights_and_another_gives_others(plm, text, tmp_path, original):
    assert plm(*command(text, tmp_path / "again")).code == 0
    assert same_weights(tmp_path / "again", original)
    assert plm(*command(text, tmp_path / "other", "--steps", 5, "--seed", 1)).code == 0
    assert not same_weights(tmp_path / "other", original)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**80])
def test_any_whole_number_is_a_seed(plm, text, tmp_path, seed):
    ran = plm(*command(text, tmp_path / "run", "--steps", 1, f"--seed={seed}"))
    assert ran.code == 0, ran.err


def test_rows_taken_a_few_at_a_time_end_where_whole_batches_do(plm, text, tmp_path, original):
    assert plm(*command(text, tmp_path / "run", sets=("run.micro_batch=1",))).code == 0
    whole, parts = load_file(original / "model.safetensors"), load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.allclose(whole[name], parts[name], atol=1e-4) for name in whole)


def test_a_budget_in_minutes_ends_on_time_and_its_rate_with_it(plm, text, tmp_path):
    ran = plm(*command(text, tmp_path / "run", "--minutes", 0.03))
    assert ran.code == 0, ran.err
    assert 1.8 <= about(tmp_path / "run")["result"]["seconds"] <= 5.0
    rates = [line["learning_rate"] for line in read_metrics(tmp_path / "run") if "learning_rate" in line]
    assert rates[-1] < 0.3 * max(rates)


def test_a_budget_in_tokens_is_reached(plm, text, tmp_path):
    assert plm(*command(text, tmp_path / "run", "--tokens", 500)).code == 0
    result = about(tmp_path / "run")["result"]
    assert 500 <= result["tokens"] < 500 + 4 * 32


def test_held_out_text_is_scored_as_often_as_set(plm, text, tmp_path):
    assert plm(*command(text, tmp_path / "run", "--steps", 8, sets=("run.validations=4",))).code == 0
    scored = [line["step"] for line in read_metrics(tmp_path / "run") if "valid/masked_lm" in line]
    assert scored == [2, 4, 6, 8]


def test_held_out_text_can_be_a_file_of_its_own(plm, text, tmp_path):
    held = tmp_path / "held.txt"
    held.write_text("a cat sees the dog.\nthe dog sees a cat.\n\nmy bird likes fish.\nold fish likes my bird.\n")
    ran = plm(*command(text, tmp_path / "run", "--steps", 2, "--valid", held))
    assert ran.code == 0, ran.err
    assert about(tmp_path / "run")["result"]["valid/masked_lm"] > 0


def test_a_run_that_diverges_is_reported_in_two_lines(plm, text, tmp_path):
    ran = plm(*command(text, tmp_path / "run", sets=("schedule.learning_rate=1e30", "schedule.warmup=0")))
    assert ran.code == 2
    assert "plm: The loss or its gradient is not finite at step 2; the run stops here.\n" in ran.err
    assert about(tmp_path / "run")["state"] == "unfinished"


@pytest.mark.parametrize("seed", [0, 3])
def test_a_run_that_another_process_finished_while_the_text_was_read_is_left_as_it_is(
    plm, text, tmp_path, original, monkeypatch, seed
):
    out, check_fits = tmp_path / "run", job.check_fits

    def meanwhile(*arguments):
        shutil.copytree(original, out)
        return check_fits(*arguments)

    monkeypatch.setattr(job, "check_fits", meanwhile)  # the last check before the folder is locked
    ran = plm(*command(text, out, "--steps", 5, "--seed", seed))
    assert ran.code == 2
    reported = {
        0: f"plm: Another process has written to {out} since this one started.\n"
        "Run the same command again to continue from there.\n",
        3: f"plm: --out {out} holds a run with other settings: seed was 0, is 3.\n"
        "Run the same command to continue it, or use another --out.\n",
    }
    assert ran.err.endswith(reported[seed])
    assert {name: content for name, (content, _) in picture(out).items()} == {
        name: content for name, (content, _) in picture(original).items()
    }


def test_a_model_that_its_last_update_spoilt_is_not_saved(plm, text, tmp_path):
    ran = plm(*command(text, tmp_path / "run", "--steps", 1, sets=("schedule.learning_rate=1e38", "schedule.warmup=0")))
    assert ran.code == 2
    assert ran.err.endswith(
        "plm: The weights or the loss are not finite after step 1; the run stops here.\n"
        "Lower the learning rate (--set schedule.learning_rate=...) and run the same command with a new folder.\n"
    )
    assert about(tmp_path / "run")["state"] == "unfinished"
    assert not list(tmp_path.rglob("*.safetensors"))


def test_the_last_good_checkpoint_stands_after_an_update_that_spoils_the_weights(plm, text, tmp_path, monkeypatch):
    original = torch.optim.AdamW.step

    def step(self, *arguments):
        original(self, *arguments)
        if next(iter(self.state.values()))["step"] == 6:
            self.param_groups[0]["params"][0].data[0] = float("nan")

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    ran = plm(*command(text, tmp_path / "run", "--steps", 8))
    assert ran.code == 2
    assert "The weights or the loss are not finite after step 6" in ran.err
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000003"]


def test_a_finished_model_stays_usable_while_it_is_extended(corpus, tmp_path, plm, tiny_settings):
    out = tmp_path / "run"
    command = ["pretrain", "bert-tiny", corpus, "--out", out, *tiny_settings]
    assert plm(*command, "--steps", 4).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "update", interrupt)
        assert plm(*command, "--steps", 4, "--extend").code == 130
    assert json.loads((out / "run.json").read_text())["state"] == "unfinished"
    assert plm("fill", out, "the [MASK] sees a house.").code == 0
    assert plm(*command, "--steps", 4, "--extend").code == 0
    assert json.loads((out / "run.json").read_text())["result"]["steps"] == 8


def interrupt(*given):
    raise KeyboardInterrupt


def test_a_path_with_a_detour_is_the_same_corpus(corpus, tmp_path, plm, tiny_settings):
    command = ["--out", tmp_path / "run", *tiny_settings, "--steps", 2]
    assert plm("pretrain", "bert-tiny", corpus, *command).code == 0
    detour = f"{corpus.parent}/../{corpus.parent.name}/{corpus.name}"
    assert plm("pretrain", "bert-tiny", detour, *command).code == 0


def test_held_out_text_is_not_counted_and_is_scored_by_a_bounded_part(tmp_path, corpus):
    from dataclasses import replace

    from plmkit.catalogue import find
    from plmkit.config.machine import settle
    from plmkit.preparation import prepare as module
    from plmkit.preparation.prepare import prepare
    from plmkit.terminal.screen import Screen

    settings = settle(find("bert-tiny"), ["tokenizer.size=300", "run.valid_share=0.5", "stages=[[1.0, 32]]"])
    material = prepare(settings, [str(corpus)], None, 0, Screen())
    held = sum(material.store.document_tokens()[material.valid_documents])
    assert held > 0
    assert material.frequencies.sum() == len(material.store.tokens) - held
    whole = sum(len(batch.source.tokens) for batch in material.valid_batches(settings.recipe, 0)["text"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "VALID_ROWS", 4)
        patch.setattr(module, "VALID_TOKENS", 32 * 10)
        rows = [len(batch.source.tokens) for batch in material.valid_batches(settings.recipe, 0)["text"]]
    assert whole > 10
    assert rows == [4, 4, 2]
    none_held = replace(material.main, held_documents=material.valid_documents[:0])
    assert replace(material, main=none_held).valid_batches(settings.recipe, 0) == {}


def test_a_run_inside_the_folder_of_its_text_continues(corpus, tmp_path, plm, tiny_settings):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text(corpus.read_text(encoding="utf-8"), encoding="utf-8")
    reported = ["pretrain", "bert-tiny", folder, "--out", folder / "run", *tiny_settings]
    assert plm(*reported, "--steps", 2).code == 0
    again = plm(*reported, "--steps", 4, "--extend")
    assert again.code == 0, again.err
    assert "run contains a model: skipped." in again.err


def test_one_file_is_in_one_corpus_and_tables_may_be_next_to_text(corpus, tmp_path, plm, tiny_settings):
    out = ["--out", tmp_path / "run", *tiny_settings, "--steps", 2]
    twice = plm("pretrain", "bert-tiny", corpus, corpus.parent, *out)
    assert twice.code == 2
    assert "is given twice" in twice.err
    held = plm("pretrain", "bert-tiny", corpus, "--valid", corpus, *out)
    assert held.code == 2
    assert f"{corpus} is held out (--valid), but the training corpus {corpus} contains it too." in held.err
    table = tmp_path / "more" / "rows.csv"
    table.parent.mkdir()
    table.write_text("body,id\n" + "\n".join(f"the cat sees a house. the dog sees {n}.,{n}" for n in range(20)))
    assert plm("pretrain", "bert-tiny", corpus, table, *out, "--set", "run.column=body").code == 0


def test_a_new_run_starts_from_cooccurrence_embeddings_and_a_resumed_one_does_not_count(text, tmp_path, plm):
    said = "Counting co-occurrences"
    first = plm(*command(text, tmp_path / "run", "--steps", 2))
    assert first.code == 0, first.err
    assert said in first.err
    again = plm(*command(text, tmp_path / "run", "--steps", 2, "--extend"))
    assert again.code == 0, again.err
    more = plm(*command(text, tmp_path / "more", "--steps", 2, "--from", tmp_path / "run"))
    assert more.code == 0, more.err
    plain = plm(*command(text, tmp_path / "plain", "--steps", 2, sets=("objectives.near_vectors=false",)))
    assert plain.code == 0, plain.err
    assert not any(said in reported.err for reported in (again, more, plain))


class Slow:
    """Material whose counting takes a fifth of a second and finds nothing."""

    frequencies = np.ones(120)

    def cooccurrence_embeddings(self, width, seed):
        time.sleep(0.2)
        return np.zeros((120, width), dtype=np.float32)


def begin(recipe, material, seed=0):
    size = len(material.frequencies)
    statistics = job.Counting(material=material, seed=seed, screen=Screen())
    return module.begin(recipe.build(unnamed(size)), recipe.initialisation, statistics)


def test_time_that_counting_takes_is_of_the_budget_and_the_schedule_is_of_the_rest():
    recipe = settle(find("bert-tiny"), TINY).recipe
    state = begin(recipe, Slow())
    assert 0.2 <= state.seconds < 5
    assert state.step == 0
    minute = Budget(seconds=60)
    assert minute.progress(state, state.seconds) == 0
    assert minute.progress(state, 60) == 1
    short = Budget(seconds=0.1)
    assert short.progress(state, state.seconds) == 0, "one step is taken all the same"
    assert short.progress(replace(state, step=1), state.seconds) == 1


def test_a_budget_that_counting_spends_still_takes_a_step(plm, text, tmp_path):
    done = plm(*command(text, tmp_path / "run", "--minutes", 0.00001))
    assert done.code == 0, done.err
    assert RunFolder(tmp_path / "run").record.result["steps"] == 1


def test_if_counting_lacks_memory_the_message_says_what_to_do():
    class Large(Slow):
        def cooccurrence_embeddings(self, width, seed):
            raise MemoryError

    with pytest.raises(OutOfMemory, match=r"(?s)co-occurrences.*--set initialisation.cooccurrence_embeddings=false"):
        begin(settle(find("bert-tiny"), TINY).recipe, Large())


def test_vectors_are_counted_in_the_text_that_is_trained_on_by_the_seed(text, monkeypatch):
    asked = []

    def count(store, documents, size, width, seed):
        asked.append((documents, size, width, seed))
        return np.zeros((size, width), dtype=np.float32)

    monkeypatch.setattr("plmkit.preparation.prepare.token_vectors", count)
    settings = settle(find("bert-tiny"), [*TINY, "run.valid_share=0.5"])
    material = prepare(settings, [str(text)], None, 0, Screen())
    begin(settings.recipe, material, seed=7)
    [(documents, size, width, seed)] = asked
    assert (size, width, seed) == (len(material.tokenizer.vocabulary), 16, 7)
    assert len(material.valid_documents)
    assert not set(documents.tolist()) & set(material.valid_documents.tolist())
    assert len(documents) + len(material.valid_documents) == 40


def test_from_other_weights_the_softmax_covers_the_whole_vocabulary(plm, text, tmp_path):
    """Tokens that the new text lacks have scores from other training, which change only if the softmax covers them."""
    assert plm(*command(text, tmp_path / "first", "--steps", 3)).code == 0
    other = tmp_path / "other.txt"
    other.write_text("the cat sees a dog.\nmy dog hears a cat.\n\n" * 20)
    settings = settle(find("bert-tiny"), [*TINY, "architecture.dropout=0", "architecture.attention_dropout=0"])
    fresh = PretrainRequest(
        settings=settings, corpora=(str(other),), out=tmp_path / "x", budget=Budget(steps=1), seed=0
    )
    material = prepare(settings, fresh.corpora, None, 0, Screen(), tokenizer=tmp_path / "first")
    batch = material.samples.next(Place(), 4, 32)[0]
    assert (material.frequencies == 0).any()

    def losses(request):
        network = job.initial_network(request, material, parts_to_start_from(request, print), Screen())
        return tuple(network.train(mode)(batch).weighted["masked_lm"].item() for mode in (True, False))

    training, validation = losses(replace(fresh, start=tmp_path / "first"))
    assert training == pytest.approx(validation, abs=1e-5)
    training, validation = losses(fresh)
    assert training < validation, "from random weights the softmax covers only tokens of the text"


def test_the_checkpoint_that_a_run_continues_from_is_hashed_once(plm, text, unfinished, monkeypatch):
    hashed = []
    monkeypatch.setattr(checkpoint, "checksum", lambda path: hashed.append(path) or checksum(path))
    assert plm(*command(text, unfinished)).code == 0
    assert hashed.count(unfinished / "checkpoints/step-00000003/model.safetensors") == 1


def test_a_run_whose_held_out_loss_is_no_number_is_not_finished(plm, text, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "validate_streams", lambda *given: {"masked_lm": float("nan")})
    ran = plm(*command(text, tmp_path / "run"))
    assert ran.code == 2
    assert "plm: The validation loss is not finite after step 5; the run stops here.\n" in ran.err
    assert about(tmp_path / "run")["state"] == "unfinished"
