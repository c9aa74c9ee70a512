"""Several tasks fine-tuned together, from a file that names them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import plmkit
from plmkit.data.samples import Place
from plmkit.errors import InputError, SettingError
from plmkit.inference.loading import read_parts
from plmkit.schedules.optimizers import Adamax, AdamW
from plmkit.tasks.batches import LabelledExamples
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.mixing import Mixing
from plmkit.tasks.registry import find_kind
from plmkit.tasks.seed_run import build, optimizer_of
from plmkit.tasks.settings import TaskSettings, for_several
from plmkit.tasks.task_list import read_task_list
from plmkit.training.step import Step
from plmkit.training.world import World

QUICK = ("--epochs", 1, "--set", "run.threads=1", "--set", "task.batch=8", "--set", "task.ngrams=false")
WORDS = {"pos": ("good", "fine"), "neg": ("bad", "dull")}


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """Four tasks of four kinds; two of them share a file."""
    single = [f"the cat is {word}\t{label}" for label, words in WORDS.items() for word in words for _ in range(4)]
    pairs = [f"the cat\tthe {'cat' if number % 2 else 'dog'}\t{number % 2}" for number in range(16)]
    (tmp_path / "single.tsv").write_text("text\tlabel\n" + "\n".join(single) + "\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("text_a\ttext_b\tlabel\n" + "\n".join(pairs) + "\n", encoding="utf-8")
    path = tmp_path / "tasks.toml"
    path.write_text(
        """temperature = 2.0

[mood]
kind = "classify"
train = "single.tsv"
dev = "single.tsv"

[same]
kind = "nli"
train = "pairs.tsv"
dev = "pairs.tsv"
test = "pairs.tsv"
san = true

[alike]
kind = "regress"
train = "pairs.tsv"

[more]
kind = "pair"
train = "pairs.tsv"
dev = "pairs.tsv"
""",
        encoding="utf-8",
    )
    return path


def test_a_file_names_tasks_with_their_kinds_files_columns_and_settings(listed):
    found = read_task_list(listed)
    assert [(one.task.name, one.task.kind) for one in found.tasks] == [
        ("mood", "classify"), ("same", "nli"), ("alike", "regress"), ("more", "pair"),
    ]  # fmt: skip
    assert found.tasks[1].paths == dict.fromkeys(("train", "dev", "test"), listed.parent / "pairs.tsv")
    assert (found.tasks[1].task.san, found.tasks[3].task.san, found.mixing) == (True, None, Mixing(temperature=2.0))


def test_one_network_with_four_heads_is_trained_scored_and_answers_each_task(listed, pretrained, plm, tmp_path):
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--tasks", listed, "--out", out, *QUICK)
    assert ran.code == 0, ran.err
    scores = json.loads((out / "scores.json").read_text())
    assert {"mood.accuracy", "same.accuracy", "more.accuracy", "mean"} <= scores["dev"].keys()
    assert "alike.pearson" not in scores["dev"]
    assert scores["dev"]["mean"] == pytest.approx(
        sum(scores["dev"][f"{name}.accuracy"] for name in ("mood", "same", "more")) / 3
    )
    assert next(iter(scores["test"])) == "same.accuracy"
    assert "dev mood accuracy" in ran.out
    weights = load_file(out / "model.safetensors")
    assert {name.split(".")[1] for name in weights if name.startswith("heads.")} == {"mood", "same", "alike", "more"}
    model = plmkit.load(out, device="cpu")
    assert model.predict("the cat is good", task="mood").label in WORDS
    assert model.predict([("the cat", "the dog")], task="same")[0].label in ("0", "1")
    assert isinstance(model.predict([("the cat", "the dog")], task="alike")[0].label, float)
    ran = plm("evaluate", out, listed.parent / "pairs.tsv", "--task", "same", "--json")
    assert ran.json["accuracy"] == pytest.approx(scores["test"]["same.accuracy"])
    again = plm("finetune", pretrained, "--tasks", listed, "--out", out, *QUICK)
    assert "holds this fine-tuning, finished" in again.err


@pytest.fixture
def answered(listed, pretrained, plm, tmp_path) -> Path:
    """A run folder with the four tasks."""
    ran = plm("finetune", pretrained, "--tasks", listed, "--out", tmp_path / "out", *QUICK)
    assert ran.code == 0, ran.err
    return tmp_path / "out"


def test_evaluate_scores_every_task_that_can_read_the_file_and_says_which_cannot(answered, plm, tmp_path):
    left_out = "! Task {name} is left out. "
    ran = plm("evaluate", answered, tmp_path / "single.tsv", "--json", "--out", tmp_path / "one.html")
    assert ran.code == 0, ran.err
    assert list(ran.json["tasks"]) == ["mood"]
    assert ran.json["tasks"]["mood"]["rows"] == 16
    assert all(left_out.format(name=name) in ran.err for name in ("same", "alike", "more"))
    assert (tmp_path / "one.html").exists()
    ran = plm("evaluate", answered, tmp_path / "pairs.tsv", "--json", "--out", tmp_path / "page.html")
    assert (ran.code, list(ran.json["tasks"])) == (0, ["same", "alike", "more"]), ran.err
    assert left_out.format(name="mood") in ran.err and left_out.format(name="same") not in ran.err
    for name, report in ran.json["tasks"].items():
        alone = plm("evaluate", answered, tmp_path / "pairs.tsv", "--task", name, "--json")
        assert alone.json == report
        page = (tmp_path / f"page-{name}.html").read_text(encoding="utf-8")
        assert f"task {name}" in page
    assert not (tmp_path / "page.html").exists()
    shown = plm("evaluate", answered, tmp_path / "pairs.tsv").out
    assert [line for line in shown.splitlines() if line.startswith("Task ")] == [
        "Task same (nli)", "Task alike (regress)", "Task more (pair)",
    ]  # fmt: skip


def test_evaluate_refuses_a_file_that_no_task_can_read_and_a_name_that_no_task_has(answered, plm, tmp_path):
    (tmp_path / "other.tsv").write_text("text\tlabel\nthe cat\tglad\n", encoding="utf-8")
    ran = plm("evaluate", answered, tmp_path / "other.tsv")
    assert (ran.code, ran.out) == (2, "")
    assert "None of the tasks can read these rows.\nmood: " in ran.err and "label 'glad'" in ran.err
    ran = plm("evaluate", answered, tmp_path / "single.tsv", "--task", "food")
    assert (ran.code, "has no task 'food'. Choose one of mood, same, alike, more with --task." in ran.err) == (2, True)


def test_from_python_the_only_task_that_can_read_a_file_is_scored(answered, tmp_path):
    model = plmkit.load(answered, device="cpu")
    assert model.evaluate(tmp_path / "single.tsv").scores["rows"] == 16
    with pytest.raises(SettingError, match=r"Choose one with task=NAME: same, alike, more\."):
        model.evaluate(tmp_path / "pairs.tsv")


def test_a_step_changes_the_shared_encoder_and_the_head_of_its_task_alone(pretrained):
    parts = read_parts(pretrained)
    tasks = [
        find_kind("classify")(name=name, classes=("a", "b"), length=16) for name in ("one", "two", "three", "four")
    ]
    settings = TaskSettings().settled(parts.architecture, parts.tuning)
    network = build(settings, parts, tasks, 0).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    rows = [Row(text="the cat", label="a", line=1)] * 2
    examples: list[Example] = tasks[1].frame(rows, parts.tokenizer, 16)
    source = LabelledExamples(tasks[1], examples, parts.tokenizer.vocabulary, seed=0, heads=frozenset({"two"}))
    batch, _ = source.next(Place(), 2, 16)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    (loss,) = network(batch).losses.values()
    loss.backward()
    optimizer.step()
    changed = {name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])}
    assert {name.split(".")[1] for name in changed if name.startswith("heads.")} == {"two"}
    assert "model.embed.tokens.weight" in changed


def test_sequential_training_keeps_the_history_that_shows_what_is_forgotten(listed, pretrained, plm, tmp_path):
    text = listed.read_text(encoding="utf-8").replace("temperature = 2.0", 'order = "sequential"')
    listed.write_text(text, encoding="utf-8")
    ran = plm("finetune", pretrained, "--tasks", listed, "--out", tmp_path / "out", *QUICK[:-2], "--epochs", 2)
    assert ran.code == 0, ran.err
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert "linear" not in scores  # a linear model would hide what the network forgets
    assert len(scores["history"]) == 4  # after each task
    assert scores["history"][0].keys() == {"mood", "same", "more"}
    assert scores["epoch"] == 2.0  # the last, not the best
    own = [scores["history"][number][name] for number, name in ((0, "mood"), (1, "same"), (3, "more"))]
    found = scores["forgetting"]
    assert list(found) == ["mood", "same", "more"]
    assert [one["own"] for one in found.values()] == own
    assert [one["end"] for one in found.values()] == list(scores["history"][3].values())
    table = ran.out[ran.out.index("dev after its own training") :].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["mood", "same", "more"]
    assert table[1].split()[-1] == f"{found['mood']['end'] - found['mood']['own']:+.3f}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('kind = "nli"', 'kind = "nil"'), "line 8, task same: There is no task 'nil'. Did you mean 'nli'?"),
        (("san = true", "sun = true"), "line 13: there is no key 'sun'. Did you mean 'san'?"),
        (("[more]", "[same]"), "is not valid TOML: Cannot declare ('same',) twice"),
        (("san = true", "dropout = 1.5"), "line 8, task same: dropout takes a number from 0 to below 1; found 1.5."),
        (('dev = "single.tsv"', "dev = 3"), "line 3, task mood: dev takes a text in quotes; found 3."),
        (('train = "single.tsv"\n', ""), "line 3, task mood: train is missing."),
        (
            ("temperature = 2.0", "temprature = 2.0"),
            "line 1: there is no key 'temprature'. Did you mean 'temperature'?",
        ),
        (("temperature = 2.0", 'temperature = "hot"'), ".toml, line 1: 'temperature' takes a number; found 'hot'."),
        (("temperature = 2.0", "temperature = 0.5"), ".toml: temperature must be 1 or more; found 0.5."),
        (('"pairs.tsv"\n\n[more]', '"gone.tsv"\n\n[more]'), "line 15, task alike: There is no file"),
        (
            ('kind = "classify"', 'kind = "classify"\nsan = true'),
            "line 5: san is a setting of pair, nli, paraphrase, and has no effect on classify. Leave it out.",
        ),
        (("san = true", 'san = "maybe"'), "line 8, task same: 'task.san' takes true or false or none; found 'maybe'."),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(change, said, listed, pretrained, plm, tmp_path):
    text = listed.read_text(encoding="utf-8")
    assert change[0] in text
    listed.write_text(text.replace(*change, 1), encoding="utf-8")
    ran = plm("finetune", pretrained, "--tasks", listed, "--out", tmp_path / "out", *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not (tmp_path / "out").exists()


def test_the_typos_of_a_file_with_one_task_come_before_its_number_of_tasks(listed):
    one = listed.read_text(encoding="utf-8").split("[same]")[0]
    for text, said in (
        (one.replace("train =", "trian ="), "line 3, task mood: train is missing"),
        (one.replace("dev =", "dve ="), "line 6: there is no key 'dve'. Did you mean 'dev'?"),
        (one.replace("temperature", "temprature"), "line 1: there is no key 'temprature'. Did you mean 'temperature'?"),
        (one, "names 1 of the at least two tasks to train on together"),
    ):
        listed.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=re.escape(said)):
            read_task_list(listed)


def test_options_of_one_task_have_no_effect_with_several_and_are_refused(listed, pretrained, plm, tmp_path):
    ran = plm("finetune", pretrained, "--tasks", listed, "--out", tmp_path / "out", "--dev", "x.tsv")
    assert (ran.code, "--dev has no effect with --tasks" in ran.err) == (2, True)
    ran = plm("finetune", pretrained, "--out", tmp_path / "out")
    assert (ran.code, "--task is missing: one of classify, multilabel, pair, " in ran.err) == (2, True)
    ran = plm("finetune", pretrained, "--task", "classify", "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (2, "plm: --train is missing: a file of labelled rows.\n")


def test_from_python(listed, pretrained, tmp_path):
    quick = {"run.threads": 1, "task.batch": 8, "task.ngrams": False}
    model = plmkit.finetune(pretrained, tasks=listed, out=tmp_path / "out", epochs=1, settings=quick, quiet=True)
    assert list(model.tasks) == ["mood", "same", "alike", "more"]


def test_several_tasks_are_trained_by_adamax_at_mt_dnns_learning_rate_unless_set(pretrained):
    parts = read_parts(pretrained)
    usual = TaskSettings().settled(replace(parts.architecture, width=768, heads=12), for_several(parts.tuning))
    assert (usual.optimizer, usual.learning_rate, usual.batch, usual.clip) == (Adamax(), 5e-5, 32, 1.0)
    assert (usual.warmup, usual.shape, usual.decay) == (0.1, "linear_over_all", 0.01)
    chosen = TaskSettings(optimizer=AdamW(), learning_rate=1e-4).settled(parts.architecture, for_several(parts.tuning))
    assert (chosen.optimizer, chosen.learning_rate) == (AdamW(), 1e-4)
    assert TaskSettings().settled(parts.architecture, parts.tuning).optimizer == AdamW(epsilon=1e-6)


def test_other_heads_stay_although_the_optimizer_remembers_their_gradients(pretrained):
    """Two steps, one per task: the momentum and decay of the first head must not move it in the second."""
    parts = read_parts(pretrained)
    tasks = [find_kind("classify")(name=name, classes=("a", "b"), length=16) for name in ("one", "two")]
    settings = TaskSettings().settled(parts.architecture, for_several(parts.tuning))
    network = build(settings, parts, tasks, 0).train()
    optimizer = optimizer_of(network, settings)
    step = Step(network, optimizer, clip=1.0, world=World(device=torch.device("cpu")), dtype=torch.float32)
    examples = tasks[0].frame([Row(text="the cat", label="a", line=1)] * 2, parts.tokenizer, 16)
    moved = []
    for task in tasks:
        before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        source = LabelledExamples(task, examples, parts.tokenizer.vocabulary, seed=0, heads=frozenset({task.name}))
        step.gradients(source.next(Place(), 2, 16)[0])
        step.update(1.0)
        changed = [name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])]
        moved.append({name.split(".")[1] for name in changed if name.startswith("heads.")})
        assert "model.embed.tokens.weight" in changed
    assert moved == [{"one"}, {"two"}]


def test_a_task_has_its_own_dropout(listed, pretrained):
    text = listed.read_text(encoding="utf-8").replace("san = true", "san = true\ndropout = 0.3")
    listed.write_text(text, encoding="utf-8")
    parts = read_parts(pretrained)
    tasks = [replace(one.task, classes=("a", "b")) for one in read_task_list(listed).tasks]
    network = build(TaskSettings().settled(parts.architecture, parts.tuning), parts, tasks, 0)
    rates = {name: head.dropout.share for name, head in network.heads.items()}
    assert rates == {"mood": 0.1, "same": 0.3, "alike": 0.1, "more": 0.1}


@pytest.mark.parametrize("name", ["keys", "training", "type", "row_lm"])
def test_a_name_that_cannot_be_that_of_a_head_is_refused(name, listed, pretrained, plm, tmp_path):
    listed.write_text(listed.read_text(encoding="utf-8").replace("[mood]", f"[{name}]"), encoding="utf-8")
    ran = plm("finetune", pretrained, "--tasks", listed, "--out", tmp_path / "out", *QUICK)
    assert ran.code == 2
    assert f"line 3, task {name}: '{name}' cannot be the name of a task. Choose another." in ran.err
