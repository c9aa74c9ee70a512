"""Fine-tuning: what is trained, what is kept, what is written, and what pretraining is worth."""

import itertools
import json
import math
import os
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import plmkit
from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.config.machine import Machine, Settings
from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.batch import Batch, Side, States
from plmkit.errors import SettingError, TruncationWarning
from plmkit.inference.loading import Parts, read_parts
from plmkit.recipe import one_stream
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule, Stage
from plmkit.tasks import seed_run as finetuning
from plmkit.tasks import task_run
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.heads import ClassHead
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.registry import find_kind
from plmkit.tasks.seed_run import build, optimizer_of
from plmkit.tasks.settings import Settled, TaskSettings, few_steps, rate_for, settle_task
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.wordpiece import WordPiece
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest
from plmkit.training.watch import read_metrics

QUICK = ("--epochs", "1", "--set", "run.threads=1", "--set", "task.batch=16")


def request_for(pretrained: Path, rows: Path, out: Path, *, kind: str = "classify", **settings) -> FinetuneRequest:
    around = {name: settings.pop(name) for name in ("dev", "test", "seed", "seeds") if name in settings}
    task = TaskSettings(**{"epochs": 1, "batch": 16, **settings})
    return FinetuneRequest(
        model=pretrained, task=find_kind(kind)(), train=rows, out=out, settings=task, machine=Machine(threads=1),
        **{"dev": None, "test": None, **around},
    )  # fmt: skip


def settled(request: FinetuneRequest, parts: Parts) -> Settled:
    return request.settings.settled(parts.architecture, parts.tuning)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def pairs(path: Path, labels: list[str]) -> Path:
    rng = random.Random(0)
    words = ["cat", "dog", "bird", "king", "sea", "moon", "river", "garden"]
    lines = [f"the {rng.choice(words)} sees\ta {rng.choice(words)}\t{labels[i % len(labels)]}" for i in range(24)]
    return write(path, ["text_a\ttext_b\tlabel", *lines])


# Every kind through one command


MEASURES = {
    "classify": {"accuracy", "macro_f1", "mcc"}, "pair": {"accuracy", "macro_f1", "mcc"},
    "nli": {"accuracy", "macro_f1", "mcc"}, "regress": {"pearson", "spearman", "mse"},
    "similarity": {"pearson", "spearman", "mse"}, "qa": {"exact", "f1"},
}  # fmt: skip


def answer(name: str) -> dict[str, list]:
    return {"text": [name], "answer_start": [4]}


def questions(path: Path) -> Path:
    names = ["cat", "dog", "bird", "king"]
    rows = [
        {"context": f"the {name} sees a river", "question": "who sees it?", "answers": answer(name)}
        for name in names * 6
    ]
    return write(path, [json.dumps(row) for row in rows])


@pytest.mark.parametrize("kind", MEASURES)
def test_every_kind_of_task_runs_through_one_command_and_writes_its_scores(kind, pretrained, rows_file, plm, tmp_path):
    labels = {"pair": ["same", "other"], "nli": ["neutral", "entailment", "contradiction"]}
    if kind == "qa":
        rows = questions(tmp_path / "rows.jsonl")
    else:
        rows = rows_file if kind == "classify" else pairs(tmp_path / "rows.tsv", labels.get(kind, ["1", "2.5"]))
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--task", kind, "--train", rows, "--dev", rows, "--test", rows, "--out", out,
              *QUICK, "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    scores = json.loads((out / "scores.json").read_text())
    wanted = MEASURES[kind]
    assert wanted <= scores["test"].keys()
    assert wanted <= scores["dev"].keys()
    assert ran.json == {"out": str(out), **scores}
    evaluated = plm("evaluate", out, rows, "--json").json
    assert {name: evaluated[name] for name in wanted} == pytest.approx({name: scores["test"][name] for name in wanted})
    assert evaluated.get("confusion") == scores["test"].get("confusion")


def test_nli_has_three_classes_in_the_order_of_the_released_code(pretrained, tmp_path, plm):
    rows = pairs(tmp_path / "rows.tsv", ["neutral", "entailment", "contradiction"])
    plm("finetune", pretrained, "--task", "nli", "--train", rows, "--out", tmp_path / "out", *QUICK)
    model = plmkit.load(tmp_path / "out")
    assert model.classes == ("contradiction", "entailment", "neutral")
    assert model.network.heads[next(iter(model.tasks))].classify.weight.shape == (3, 32)
    (prediction,) = model.predict([("the cat sees", "a dog")])
    assert list(prediction.probabilities) == list(model.classes)


def test_regression_reads_one_text_or_two(pretrained, tmp_path, plm):
    single = write(tmp_path / "one.tsv", ["text\tlabel", "the cat sees\t0", "a bird\t1.5", "the sea\t-3"])
    double = pairs(tmp_path / "two.tsv", ["1", "2"])
    for number, rows in enumerate((single, double)):
        out = tmp_path / f"out{number}"
        assert plm("finetune", pretrained, "--task", "regress", "--train", rows, "--out", out, *QUICK).code == 0
        assert isinstance(plmkit.load(out).predict(["the cat"])[0].label, float)


def test_a_row_is_classified_by_one_layer_on_the_pooled_vector():
    head = ClassHead(width=2, outputs=3).eval()
    with torch.no_grad():
        head.classify.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 0.5]]))
        head.classify.bias.copy_(torch.tensor([0.5, 0.0, -1.0]))
    pooled = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
    nothing = torch.zeros(2, 3, dtype=torch.long)
    batch = Batch(source=Side(tokens=nothing, visible=torch.ones(2, 3, dtype=torch.bool), segments=nothing))
    states = States(hidden=torch.full((2, 3, 2), 9.0), pooled=pooled)
    assert head.answers(states, batch).tolist() == [[4.5, -1.0, 5.5], [8.5, -4.0, 1.0]]
    labels = torch.tensor([2, 0])
    expected = [math.log(sum(math.exp(v) for v in row)) - row[label] for row, label in
                zip([[4.5, -1.0, 5.5], [8.5, -4.0, 1.0]], [2, 0], strict=True)]  # fmt: skip
    assert head(states, replace(batch, labels=labels)).item() == pytest.approx(sum(expected) / 2, rel=1e-5)


# What is loaded and what is trained


def test_before_training_the_encoder_is_the_pretrained_one_bit_for_bit_under_a_new_head(pretrained, rows_file):
    request = request_for(pretrained, rows_file, Path("unused"))
    parts = read_parts(pretrained)
    task = Classify(classes=("bad", "good"), length=32)
    first, second = (build(settled(request, parts), parts, [task], seed).state_dict() for seed in (0, 1))
    encoder = {name: tensor for name, tensor in parts.weights.items() if name.startswith("model.")}
    assert encoder
    for name, tensor in encoder.items():
        assert torch.equal(first[name], tensor)
        assert torch.equal(second[name], tensor)
    assert first.keys() - encoder.keys() == {"heads.classify.classify.weight", "heads.classify.classify.bias"}
    assert not torch.equal(first["heads.classify.classify.weight"], second["heads.classify.classify.weight"])
    assert first["heads.classify.classify.weight"].abs().max() <= 0.04


def test_from_scratch_no_weight_is_pretrained(pretrained, rows_file):
    request = request_for(pretrained, rows_file, Path("unused"), scratch=True)
    parts = read_parts(pretrained)
    task = Classify(classes=("bad", "good"), length=32)
    fresh = build(settled(request, parts), parts, [task], 0).state_dict()
    for name in ("model.embed.tokens.weight", "model.blocks.0.feed_forward.expand.weight", "model.pooler.weight"):
        assert not torch.equal(fresh[name], parts.weights[name])


def test_a_frozen_encoder_is_unchanged_and_the_head_is_trained(pretrained, rows_file, tmp_path):
    finetune(request_for(pretrained, rows_file, tmp_path / "a", frozen=True), Screen())
    finetune(request_for(pretrained, rows_file, tmp_path / "b", frozen=True, epochs=2), Screen())
    before = load_file(pretrained / "model.safetensors")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in "ab")
    for name, tensor in one.items():
        if name.startswith("model."):
            assert torch.equal(tensor, before[name]), name
    assert not torch.equal(one["heads.classify.classify.weight"], two["heads.classify.classify.weight"])


def test_without_freezing_every_weight_that_is_read_changes(pretrained, rows_file, tmp_path):
    finetune(request_for(pretrained, rows_file, tmp_path / "a"), Screen())
    before, after = (load_file(folder / "model.safetensors") for folder in (pretrained, tmp_path / "a"))
    assert all(not torch.equal(tensor, before[name]) for name, tensor in after.items() if name.startswith("model."))


def test_layer_decay_has_the_factors_of_the_released_code(pretrained, rows_file):
    def factor(name: str, layers: int = 12, decay: float = 0.8) -> float:
        return decay ** Encoder(layers=layers, heads=1, width=4, inner=4).decay_steps(name)

    assert factor("model.embed.tokens.weight") == pytest.approx(0.043980, abs=1e-6)
    assert factor("model.blocks.0.attention.output.weight") == pytest.approx(0.054976, abs=1e-6)
    assert factor("model.blocks.1.attention.output.weight") == pytest.approx(0.068719, abs=1e-6)
    assert factor("model.blocks.11.feed_forward_norm.bias") == pytest.approx(0.64, abs=1e-9)
    assert factor("model.pooler.weight") == 1
    assert factor("model.embed.norm.weight", 24, 0.9) == pytest.approx(0.064611, abs=1e-6)
    assert factor("model.blocks.23.attention_norm.bias", 24, 0.9) == pytest.approx(0.81, abs=1e-9)
    request = request_for(pretrained, rows_file, Path("unused"), layer_decay=0.5, learning_rate=1.0)
    task = Classify(classes=("bad", "good"), length=32)
    parts = read_parts(pretrained)
    network = build(settled(request, parts), parts, [task], 0)
    optimizer = optimizer_of(network, settled(request, parts))
    names = {id(weight): name for name, weight in network.named_parameters()}
    peaks = {names[id(weight)]: group["peak"] for group in optimizer.param_groups for weight in group["params"]}
    assert peaks["heads.classify.classify.weight"] == 1
    assert peaks["model.blocks.1.attention.output.weight"] == 0.25
    assert peaks["model.blocks.0.attention.output.weight"] == 0.125
    assert peaks["model.embed.positions.weight"] == 0.0625
    assert peaks.keys() == set(names.values())


def test_biases_and_norms_do_not_decay(pretrained, rows_file):
    request = request_for(pretrained, rows_file, Path("unused"))
    task = Classify(classes=("bad", "good"), length=32)
    parts = read_parts(pretrained)
    optimizer = optimizer_of(build(settled(request, parts), parts, [task], 0), settled(request, parts))
    for group in optimizer.param_groups:
        assert group["weight_decay"] == (0.01 if group["params"][0].dim() > 1 else 0.0)


# Pooling


def test_each_pooling_reads_its_positions():
    hidden = torch.tensor([[[1.0, 5.0], [3.0, -4.0], [9.0, 9.0]]])
    states = States(hidden=hidden, pooled=torch.tensor([[7.0, 8.0]]))
    tokens = torch.zeros(1, 3, dtype=torch.long)
    batch = Batch(source=Side(tokens=tokens, visible=torch.tensor([[True, True, False]]), segments=tokens))

    def pooled(name: str) -> list[float]:
        return ClassHead(width=2, outputs=2, pooling=name, length=3).pool(states, batch)[0].tolist()

    assert pooled("first") == [7, 8]
    assert pooled("mean") == [2, 0.5]
    assert pooled("max") == [3, 5]
    assert pooled("concat") == [1, 5, 3, -4, 0, 0]


@pytest.mark.parametrize("pooling", ["mean", "max", "concat"])
def test_every_pooling_trains_is_saved_and_predicts(pooling, pretrained, rows_file, tmp_path):
    finetune(request_for(pretrained, rows_file, tmp_path / "out", pooling=pooling, length=16), Screen())
    model = plmkit.load(tmp_path / "out", device="cpu")
    head = model.network.heads[next(iter(model.tasks))]
    assert (head.pooling, head.classify.in_features) == (pooling, 16 * 32 if pooling == "concat" else 32)
    with pytest.warns(TruncationWarning, match="1 of 2 texts are longer than 16 tokens"):
        short, long = model.predict(["a cat.", "the old man sees a long road and the sea and the moon and the garden."])
    assert short.probabilities == pytest.approx(model.predict(["a cat."])[0].probabilities, abs=1e-6)
    assert long.label in ("bad", "good")


def test_concat_without_a_length_is_refused():
    with pytest.raises(SettingError, match=r"needs a fixed task\.length"):
        ClassHead(width=2, outputs=2, pooling="concat")


# Seeds, epochs, and what is kept


def test_several_seeds_give_mean_and_standard_deviation(pretrained, rows_file, tmp_path, plm):
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--test",
              rows_file, "--out", out, "--seed", 5, "--seeds", 3, *QUICK)  # fmt: skip
    assert ran.code == 0, ran.err
    assert "mean" in ran.out
    assert " std " in ran.out
    scores = json.loads((out / "scores.json").read_text())
    assert [run["seed"] for run in scores["seeds"]] == [5, 6, 7]
    for part in ("dev", "test"):
        values = torch.tensor([run[part]["accuracy"] for run in scores["seeds"]], dtype=torch.float64)
        reported = scores["over_seeds"][part]["accuracy"]
        assert reported["mean"] == pytest.approx(float(values.mean()))
        assert reported["std"] == pytest.approx(float(values.std()))
        assert (reported["min"], reported["max"]) == (float(values.min()), float(values.max()))
    best = max(scores["seeds"], key=lambda run: run["dev"]["accuracy"])
    assert scores["seed"] == best["seed"]
    assert scores["dev"] == best["dev"]


def test_the_same_seed_gives_the_same_weights_and_another_does_not(pretrained, rows_file, tmp_path):
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        finetune(request_for(pretrained, rows_file, tmp_path / name, seed=seed), Screen())
    one, same, other = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["model.embed.tokens.weight"], other["model.embed.tokens.weight"])


def test_the_best_epoch_on_dev_is_kept_not_the_last(pretrained, rows_file, tmp_path, monkeypatch):
    accuracies = iter([0.5, 0.9, 0.0, 0.9])
    seen = []

    def scripted(network, task, *given):
        seen.append({name: tensor.clone() for name, tensor in network.state_dict().items()})
        return task, {"accuracy": next(accuracies)}

    monkeypatch.setattr(task_run, "tune", scripted)
    record = finetune(
        request_for(pretrained, rows_file, tmp_path / "out", dev=rows_file, epochs=4, ngrams=False), Screen()
    )
    assert record.result["dev"] == {"accuracy": 0.9}
    assert record.result["step"] == 6  # 48 rows are 3 steps of 16: the end of the second epoch
    kept = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(kept[name], seen[1][name]) for name in kept)
    assert not torch.equal(kept["model.embed.tokens.weight"], seen[3]["model.embed.tokens.weight"])


def test_as_long_as_nothing_is_right_the_last_epoch_is_kept(pretrained, rows_file, tmp_path, monkeypatch):
    monkeypatch.setattr(task_run, "tune", lambda network, task, *given: (task, {"accuracy": 0.0}))
    record = finetune(
        request_for(pretrained, rows_file, tmp_path / "out", dev=rows_file, epochs=3, ngrams=False), Screen()
    )
    assert record.result["epoch"] == 3.0


def test_without_dev_rows_the_last_epoch_is_kept(pretrained, rows_file, tmp_path):
    record = finetune(request_for(pretrained, rows_file, tmp_path / "out", epochs=3), Screen())
    assert record.result["step"] == 9


def test_the_test_rows_are_scored_once_with_the_weights_that_are_kept(pretrained, rows_file, tmp_path):
    request = request_for(pretrained, rows_file, tmp_path / "out", dev=rows_file, test=rows_file, epochs=2)
    result = finetune(request, Screen()).result
    assert result["test"] == result["dev"]


def test_an_interrupted_fine_tuning_starts_again(pretrained, rows_file, tmp_path, monkeypatch):
    request = request_for(pretrained, rows_file, tmp_path / "out")

    def stop(*arguments, **settings):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(finetuning, "train", stop)
        with pytest.raises(KeyboardInterrupt):
            finetune(request, Screen())
    assert json.loads((request.out / "run.json").read_text())["state"] == "unfinished"
    finetune(request, Screen())
    finetune(replace(request, out=tmp_path / "other"), Screen())
    again, other = (load_file(folder / "model.safetensors") for folder in (request.out, tmp_path / "other"))
    assert all(torch.equal(again[name], other[name]) for name in again)


def test_losses_and_scores_are_logged_step_by_step(finetuned):
    lines = read_metrics(finetuned)
    assert [line["step"] for line in lines if "dev/0/accuracy" in line] == [3, 6]
    assert any("train/0/loss" in line for line in lines)
    assert list((finetuned / "tensorboard").iterdir())


def test_a_run_folder_is_self_contained(finetuned, rows_file, tmp_path):
    about = json.loads((finetuned / "run.json").read_text())
    assert (about["kind"], about["state"], about["format"]) == ("finetune", "finished", 2)
    (task,) = about["tasks"]
    assert (task["name"], task["kind"], task["classes"]) == ("classify", "classify", ["bad", "good"])
    assert about["files"]["train"] == str(rows_file)
    names = {path.name for path in finetuned.iterdir()}
    assert {"model.safetensors", "tokenizer.json", "scores.json", "metrics.jsonl"} <= names
    moved = finetuned.rename(tmp_path / "moved")
    try:
        assert plmkit.load(moved).predict(["the cat sees a house."])
    finally:
        moved.rename(finetuned)


# Lengths and settings


def test_texts_longer_than_the_training_rows_are_not_truncated(finetuned, pretrained, rows_file, tmp_path):
    """Nothing is truncated that fits the model; only concat pooling needs a fixed length."""
    model = plmkit.load(finetuned)
    assert model.max_length == plmkit.load(pretrained).max_length > 16
    model.predict(["the cat sees a house and " * 4])  # a warning would be an error
    finetune(request_for(pretrained, rows_file, tmp_path / "out", pooling="concat"), Screen())
    assert json.loads((tmp_path / "out" / "run.json").read_text())["tasks"][0]["length"] == 16


def test_text_with_unknown_tokens_is_reported(pretrained, rows_file, tmp_path, plm):
    other = tmp_path / "other.tsv"
    other.write_text("label\ttext\n" + "1\t☃ ☂ ☀ cat\n0\t☂ ☂ dog\n" * 8, encoding="utf-8")
    reported = ["finetune", pretrained, "--task", "classify", *QUICK]
    ran = plm(*reported, "--train", other, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "of the tokens are unknown to the model's vocabulary" in ran.err
    assert "unknown" not in plm(*reported, "--train", rows_file, "--out", tmp_path / "known").err


def test_a_given_length_is_kept_and_truncation_is_reported(pretrained, rows_file, tmp_path, plm):
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "out", *QUICK,
              "--set", "task.length=7")  # fmt: skip
    assert ran.code == 0
    assert "48 of 48 rows are longer than 7 tokens and are truncated" in ran.err
    assert plmkit.load(tmp_path / "out").max_length == 7


def test_narrow_networks_have_higher_learning_rates():
    assert rate_for(768) == pytest.approx(3e-5)
    assert rate_for(256) == pytest.approx(2.7e-4)
    assert rate_for(32) == 5e-4


def test_settings_of_task_and_run_are_set_by_name():
    task, machine = settle_task(["task.learning_rate=1e-4", "task.frozen=yes", "run.threads=1"], epochs=2.5)
    assert (task.learning_rate, task.frozen, task.epochs, machine.threads) == (1e-4, True, 2.5, 1)


@pytest.mark.parametrize(
    "setting",
    [
        "task.epochs=0", "task.epochs=inf", "task.batch=-1", "task.learning_rate=0", "task.learning_rate=inf",
        "task.warmup=1",
        "task.dropout=1", "task.decay=-1", "task.clip=-1", "task.pooling=middle", "task.length=2", "task.layer_decay=0",
        "task.layer_decay=2", "task.layer_decay=-1", "task.layer_decay=nan", "task.layer_decay=inf",
        "task.learning_rate=fast", "task.batch=2.5", "task.frozen=perhaps", "tusk.learning_rate=1",
        "task.rte=1", "task=1", "task.learning_rate",
        "schedule.learning_rate=1",
    ],
)  # fmt: skip
def test_an_invalid_setting_is_refused(setting):
    with pytest.raises(SettingError):
        settle_task([setting], None)


def test_lower_layers_never_have_higher_learning_rates():
    assert settle_task(["task.layer_decay=1"], None)[0].layer_decay == 1
    with pytest.raises(SettingError, match=r"^task.layer_decay must be above 0 and at most 1; found 2\.$"):
        settle_task(["task.layer_decay=2"], None)


def test_freezing_random_weights_is_refused():
    with pytest.raises(SettingError, match="Drop one"):
        settle_task(["task.frozen=true", "task.scratch=true"], None)


# Learning


@pytest.mark.slow
def test_a_toy_classification_is_learned(pretrained, labelled, tmp_path):
    """Is the verb one of the first four? Three hundred rows, and a hundred others to evaluate on."""
    train, test = labelled(tmp_path / "train.tsv", 300, seed=10), labelled(tmp_path / "test.tsv", 100, seed=11)
    request = request_for(pretrained, train, tmp_path / "out", test=test, epochs=12, learning_rate=7e-4, dropout=0.0)
    assert finetune(request, Screen()).result["test"]["accuracy"] >= 0.9


FAMILY = 30


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> tuple[Path, Path, Path]:
    """A model pretrained on two families of invented words that never meet, and rows that name the family.

    The hundred labelled rows use 10 words of each family, the test rows the other 20.
    """
    folder = tmp_path_factory.mktemp("families")
    rng = random.Random(0)
    words = ["".join(letters) for letters in itertools.product("bdkm", "aeo", "lnrt", "aiu")]
    rng.shuffle(words)
    family = {"one": words[:FAMILY], "two": words[FAMILY : 2 * FAMILY]}

    def text(name: str, part: slice) -> str:
        return " ".join(rng.choices(family[name][part], k=6)) + "."

    def rows(file: str, count: int, part: slice) -> Path:
        names = [rng.choice(["one", "two"]) for _ in range(count)]
        return write(folder / file, ["text\tlabel", *(f"{text(name, part)}\t{name}" for name in names)])

    documents = []
    for _ in range(400):
        name = rng.choice(["one", "two"])
        documents.append("\n".join(text(name, slice(None)) for _ in range(4)))
    corpus = write(folder / "corpus.txt", ["\n\n".join(documents)])
    recipe = replace(
        find("bert-base"),
        tokenizer=WordPiece(size=400),
        streams=one_stream(SentencePairs(), TokenMasking()),
        architecture=Encoder(layers=2, heads=2, width=64, inner=128, max_length=64, dropout=0.0, attention_dropout=0.0),
        stages=(Stage(length=32),),
        schedule=Schedule(steps=400, batch=16, learning_rate=3e-3, warmup=0.1, optimizer=AdamW()),
    )
    settings = Settings(recipe=recipe, run=Machine(threads=1))
    request = PretrainRequest(settings=settings, corpora=(str(corpus),), out=folder / "run", budget=Budget(steps=400))
    pretrain(request, Screen())
    return request.out, rows("train.tsv", 100, slice(0, 10)), rows("test.tsv", 200, slice(10, None))


@pytest.mark.slow
def test_pretraining_beats_random_weights_with_a_hundred_labels(families, tmp_path):
    """On every one of three seeds; and the loss falls faster, and the model generalises to words without labels."""
    model, train, test = families
    found, losses = {}, {}
    for scratch in (False, True):
        request = request_for(
            model, train, tmp_path / str(scratch), test=test, scratch=scratch, epochs=6, batch=10, learning_rate=1e-3,
            dropout=0.0, seeds=3, dev_share=0,
        )  # fmt: skip
        result = finetune(request, Screen()).result
        found[scratch] = [run["test"]["accuracy"] for run in result["seeds"]]
        losses[scratch] = [
            next(line[f"train/{seed}/loss"] for line in read_metrics(request.out)
                 if line["step"] == 20 and f"train/{seed}/loss" in line)
            for seed in range(3)
        ]  # fmt: skip
    assert min(found[False]) >= 0.85
    assert max(found[True]) <= 0.65  # none of these words was labelled: nothing to know them by
    assert max(losses[False]) < min(losses[True])


# Stopping and resuming


def test_an_interrupted_fine_tuning_continues_with_the_remaining_seeds(
    pretrained, rows_file, tmp_path, plm, monkeypatch
):
    import plmkit.tasks.finetune as module

    command = ["finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, *QUICK]
    assert plm(*command, "--out", tmp_path / "whole", "--seeds", 3).code == 0
    out = tmp_path / "stopped"
    run, seeds = module.SeedRun.run, []

    def stopping(run_of_seed, *given):
        seeds.append(run_of_seed.seed)
        if seeds == [0, 1]:
            raise KeyboardInterrupt
        return run(run_of_seed, *given)

    monkeypatch.setattr(module.SeedRun, "run", stopping)
    stopped = plm(*command, "--out", out, "--seeds", 3)
    assert stopped.code == 130
    assert stopped.err.endswith(
        "Seed 1 was interrupted; the same command starts it again and keeps finished seeds.\nplm: stopped.\n"
    )
    refused = plm(*command, "--out", out, "--seeds", 2)  # another command does not take the folder over
    assert refused.code == 2
    assert "seeds was 3, is 2" in refused.err
    resumed = plm(*command, "--out", out, "--seeds", 3)
    assert (resumed.code, resumed.err.count("was finished by an earlier call and is kept.")) == (0, 1)
    assert "Seed 0 was finished" in resumed.err
    assert seeds == [0, 1, 1, 2]
    reported = [json.loads((folder / "scores.json").read_text()) for folder in (tmp_path / "whole", out)]
    assert reported[0] == reported[1]
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert not (out / "seeds").exists()


def test_an_interrupted_fine_tuning_of_one_seed_reports_where_it_continues(
    pretrained, rows_file, tmp_path, plm, monkeypatch
):
    command = ["finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "out", *QUICK]

    def pressed(run_of_seed, *given):
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(finetuning.SeedRun, "note", pressed)
        ran = plm(*command)
    assert ran.code == 130
    assert ran.err.endswith("Seed 0 was interrupted; the same command continues it from step 1.\nplm: stopped.\n")
    again = plm(*command)
    assert again.code == 0
    assert "Seed 0 continues from step 1." in again.err


def test_a_finished_fine_tuning_does_not_run_again(finetuned, pretrained, rows_file, plm):
    before = (finetuned / "model.safetensors").stat().st_mtime_ns
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file,
              "--out", finetuned, "--epochs", 2, "--set", "task.batch=16", "--set", "task.ngrams=false")  # fmt: skip
    assert ran.code == 0
    assert "holds this fine-tuning, finished" in ran.err
    assert (finetuned / "model.safetensors").stat().st_mtime_ns == before


def test_a_finished_fine_tuning_without_weights_runs_again(pretrained, rows_file, tmp_path, plm):
    out = tmp_path / "out"
    command = ["finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", out, *QUICK]
    assert plm(*command).code == 0
    weights = out / "model.safetensors"
    first = weights.read_bytes()
    weights.unlink()
    ran = plm(*command)
    assert ran.code == 0
    assert f"{out} holds this fine-tuning, but model.safetensors is missing, so it runs again.\n" in ran.err
    assert weights.read_bytes() == first


def test_another_file_of_rows_is_reported_by_its_name_only(pretrained, labelled, tmp_path, plm):
    rows, other = (labelled(tmp_path / f"{name}.tsv", 20, seed) for seed, name in enumerate(("rows", "other")))
    out = tmp_path / "out"
    command = ["finetune", pretrained, "--task", "classify", "--out", out, *QUICK]
    assert plm(*command, "--train", rows).code == 0
    advice = "Run the same command to continue it, or name another --out.\n"
    ran = plm(*command, "--train", other, "--dev", rows)
    reported = f"files.train was {rows}, is {other}; files.dev was none, is {rows}"
    assert (ran.code, ran.err) == (2, f"plm: --out {out} holds another fine-tuning: {reported}.\n{advice}")
    labelled(rows, 20, 5)
    ran = plm(*command, "--train", rows)
    assert (ran.code, ran.err) == (
        2,
        f"plm: --out {out} holds another fine-tuning: {rows} has changed since.\n{advice}",
    )


def test_predictions_over_predictions_get_columns_of_their_own(finetuned, rows_file, tmp_path, plm):
    first, second = tmp_path / "first.tsv", tmp_path / "second.tsv"
    assert plm("predict", finetuned, rows_file, "--out", first).code == 0
    assert plm("predict", finetuned, first, "--out", second).code == 0
    columns = second.read_text().splitlines()[0].split("\t")
    assert columns[2:] == [
        "prediction", "probability", "probability:bad", "probability:good",
        "prediction 2", "probability 2", "probability:bad 2", "probability:good 2",
    ]  # fmt: skip


def test_weights_can_be_read_by_whoever_can_read_the_rest(finetuned):
    assert (finetuned / "model.safetensors").stat().st_mode == (finetuned / "run.json").stat().st_mode


@pytest.mark.parametrize(("width", "few"), [(768, 100), (1024, 100), (767, 1000), (128, 1000)])
def test_a_narrow_network_has_no_dropout_for_longer(width, few):
    assert few_steps(width) == few


@pytest.mark.parametrize(("rows", "asked", "expected"), [(33, None, 0.0), (34, None, 0.1), (33, 0.2, 0.2)])
def test_a_run_of_few_steps_has_no_dropout_unless_it_is_asked_for(
    rows, asked, expected, pretrained, tmp_path, monkeypatch
):
    monkeypatch.setattr("plmkit.tasks.settings.FEW_STEPS_OF_NARROW", 100)
    lines = [f"{'good' if number % 2 else 'bad'} day\t{number % 2}" for number in range(rows)]
    train = write(tmp_path / "rows.tsv", ["text\tlabel", *lines])
    request = request_for(pretrained, train, tmp_path / "out", epochs=3, batch=1, length=8, dropout=asked)
    record = finetune(request, Screen(quiet=True))  # of 3 steps per row
    assert record.task["dropout"] == expected
    assert record.architecture.dropout == expected
