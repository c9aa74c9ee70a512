"""What every recipe of the catalogue promises: it learns, resumes after a stop, fine-tunes, predicts and exports."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_graph import write_triples
from safetensors.torch import load_file

import plmkit
from plmkit.catalogue import CATALOGUE, find
from plmkit.interop.families import FAMILIES

NAMES = sorted({name.rpartition("-")[0] for name in CATALOGUE if name.endswith(("-tiny", "-mini"))})
SMALLEST = [next(name for name in (f"{family}-tiny", f"{family}-mini") if name in CATALOGUE) for family in NAMES]
SMALLEST += [name for name in CATALOGUE if find(name).adopts]  # of the size of the model that they start from
SHRUNK = {
    "architecture.max_length": 64, "architecture.layers": 2, "architecture.heads": 2, "architecture.width": 32,
    "architecture.inner": 128, "architecture.embedding": 16, "architecture.features": 16,
    "architecture.image_size": 16, "architecture.patch_size": 8, "architecture.visual_width": 32,
    "architecture.visual_inner": 64, "architecture.joint_width": 32, "tokenizer.size": 400,
    "schedule.learning_rate": 3e-3, "run.threads": 1, "run.checkpoint_steps": 20, "run.log_steps": 10,
}  # fmt: skip


def options(name: str) -> list[str]:
    """The recipe as it is, but small: rows of 32, and two layers of width 32."""
    recipe = find(name)
    stages = [[stage.until, 32] for stage in recipe.stages]
    settings = {**SHRUNK, "stages": json.dumps(stages)}
    for setting in SHRUNK:
        axis, _, name = setting.partition(".")
        if axis == "architecture" and getattr(recipe.architecture, name, None) is None:
            del settings[setting]
    return [part for setting, value in settings.items() for part in ("--set", f"{setting}={value}")]


def losses(folder: Path) -> list[dict[str, float]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    curves = [{key: value for key, value in line.items() if key.startswith("train/") and key != "train/loss"}
              for line in lines]  # fmt: skip
    return [line for line in curves if line]


def falls(curve: list[dict[str, float]]) -> bool:
    """Whether the losses of the first lines are lower in the last: of several tasks, those that run from the start."""
    begin, end = curve[:2], curve[-2:]
    names = set.intersection(*(set(line) for line in (*begin, *end)))
    return bool(names) and np.mean([sum(line[name] for name in names) for line in end]) < np.mean(
        [sum(line[name] for name in names) for line in begin]
    )


@pytest.mark.parametrize("name", SMALLEST)
def test_a_recipe_keeps_its_promises(name, plm, mixed_corpus, pairs, shapes, rows_file, tmp_path):
    out, halved = tmp_path / "run", tmp_path / "halved"
    text = pairs if find(name).architecture.translates else mixed_corpus
    if find(name).architecture.reads_images:
        text = shapes
    if find(name).adopts:
        text = write_triples(tmp_path / "triples.tsv")
    command = ["pretrain", name, text, "--steps", 80, *options(name)]
    ran = plm(*command, "--out", out)
    assert ran.code == 0, ran.err
    curve = losses(out)
    assert falls(curve), curve  # it learns

    stop_at(50, plm, [*command, "--out", halved])  # it resumes after a stop, bit for bit
    ran = plm(*command, "--out", halved)
    assert ran.code == 0, ran.err
    whole, resumed = load_file(out / "model.safetensors"), load_file(halved / "model.safetensors")
    assert whole.keys() == resumed.keys()
    assert all((whole[key] == resumed[key]).all() for key in whole)

    if find(name).architecture.describes_images:  # it describes images, and does nothing else
        assert plmkit.load(out, device="cpu").caption(shapes.parent / "pictures" / "0.png").text
        task = ("--task", "classify", "--train", rows_file, "--out", tmp_path / "task")
        for verb, does in (("fill", ("a [MASK]",)), ("embed", ("a",)), ("generate", ("a",))):
            ran = plm(verb, out, *does)
            assert (ran.code, "describes images, so it cannot" in ran.err) == (2, True)
        ran = plm("finetune", out, *task)
        assert (ran.code, "cannot be fine-tuned on --task classify: it describes images" in ran.err) == (2, True)
        ran = plm("export", out, tmp_path / "hub", "--json")
        assert (ran.code, "cannot be exported" in ran.err, (tmp_path / "hub").exists()) == (2, True, False)
        return

    kind = "an encoder–decoder" if find(name).architecture.translates else "a causal language model"
    if find(name).architecture.translates or find(name).architecture.generates != "no":
        ran = plm("fill", out, "the cat [MASK] a house.")
        assert (ran.code, f"is {kind}, so it cannot fill blanks" in ran.err) == (2, True)
    elif find(name).architecture.reads_characters:
        ran = plm("fill", out, "the cat [MASK] a house.")
        assert (ran.code, "has no masked-LM head, so it cannot fill blanks" in ran.err) == (2, True)
    else:
        answers = plmkit.load(out, device="cpu").fill("the cat [MASK] a house.", top=3)
        assert len(answers[0]) == 3
    vectors = plmkit.load(out, device="cpu").embed(["the cat sees a house.", "我的狗很可爱。"])
    assert vectors.shape == (2, 32)
    assert np.isfinite(vectors).all()

    task = tmp_path / "task"
    ran = plm("finetune", out, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--epochs", 2,
              "--out", task, "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    assert plmkit.load(task, device="cpu").predict(["the cat sees a house."])[0].label in ("good", "bad")

    ran = plm("export", out, tmp_path / "hub", "--json")
    if not any(family.writes(find(name).architecture) for family in FAMILIES):  # transformers has no such network
        assert (ran.code, "cannot be exported" in ran.err, (tmp_path / "hub").exists()) == (2, True, False)
    else:  # transformers computes the same
        assert ran.code == 0, ran.err
        assert ran.json["checked"]


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
