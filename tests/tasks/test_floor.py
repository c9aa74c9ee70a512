"""A linear model over n-grams, alone and mixed with a network."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression

import plmkit
from plmkit.data.batch import Batch, Side, States
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.floor import NETWORK, STRENGTHS, TOGETHER, Floor, Mix, as_used, most_likely, with_ngrams
from plmkit.tasks.heads import ClassHead
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.kinds.multilabel import MultiLabel
from plmkit.tasks.kinds.regress import Regress
from plmkit.tasks.ngrams import matrix_of, padded

GOOD, BAD = ("good", "fine", "nice"), ("bad", "poor", "dull")


def examples(count: int, seed: int) -> tuple[Classify, list[Example]]:
    """Texts whose class one of their words tells."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        words = [rng.choice(("it", "was", "a", "film", "of")) for _ in range(4)] + [rng.choice((BAD, GOOD)[number % 2])]
        rows.append(Row(text=" ".join(words), label=("neg", "pos")[number % 2], line=number + 1))
    task = with_ngrams(Classify(classes=("neg", "pos")), rows)
    return task, vectors_of(task, rows)


def vectors_of(task, rows):
    return [
        Example(row=row, inputs=(), label=task.target(row), ngrams=task.ngrams.vector((row.text, row.other)))
        for row in rows
    ]


def tuned_floor() -> Floor:
    task, train = examples(60, seed=0)
    dev = vectors_of(task, [example.row for example in examples(20, seed=1)[1]])
    return Floor(task, train, dev)


@pytest.fixture(scope="module")
def floor() -> Floor:
    """With a linear model of strength 1, which is right on all of dev, but not sure."""
    made, (_, train) = tuned_floor(), examples(60, seed=0)
    rows = [example.row for example in train]
    made.linear = made.task.linear_model(made.matrix(vectors_of(made.task, rows)), rows, 1.0)
    return made


def right(floor: Floor) -> torch.Tensor:
    """Answers that are right for every row of dev."""
    signs = torch.tensor([1.0 if example.row.label == "pos" else -1.0 for example in floor.dev])
    return torch.stack([-signs, signs], dim=1)


def no_weights(floor: Floor) -> torch.Tensor:
    return torch.zeros(len(floor.task.ngrams), 2)


def test_the_linear_model_learns_which_words_matter(floor):
    assert floor.scores(floor.linear, floor.dev)["accuracy"] == 1.0
    weight = dict(zip(floor.task.ngrams.counts, floor.linear.weight[:, 1], strict=True))
    assert min(weight[word] for word in GOOD) > 0 > max(weight[word] for word in BAD)
    summary = floor.summary({"dev": floor.dev})
    assert (summary["measure"], summary["dev"], summary["ngrams"]) == ("accuracy", 1.0, len(weight))


def test_ngrams_that_tell_nothing_of_the_labels_are_regularised_to_the_most_frequent_one():
    rng = random.Random(0)
    words = [f"word{number}" for number in range(40)]
    rows = [
        Row(text=" ".join(rng.sample(words, 6)), label="yes" if rng.random() < 0.7 else "no", line=1)
        for _ in range(600)
    ]
    task = with_ngrams(Classify(classes=("no", "yes")), rows[:200])
    train, dev = vectors_of(task, rows[:200]), vectors_of(task, rows[200:])
    floor = Floor(task, train, dev)
    usual = sum(row.label == "yes" for row in rows[200:]) / 400
    assert floor.scores(floor.linear, dev)["accuracy"] >= usual - 0.005
    memorised = task.linear_model(floor.matrix(train), rows[:200], 64.0)
    assert floor.scores(memorised, dev)["accuracy"] < usual - 0.05


@pytest.mark.parametrize(
    ("scores", "misfits", "rows", "chosen"),
    [
        ([0.8, 0.8, 0.8], [3.0, 1.0, 2.0], 100, 1),
        ([0.80, 0.79, 0.70], [3.0, 2.0, 1.0], 100, 1),  # half a standard error is 0.02
        ([0.80, 0.79, 0.70], [3.0, 2.0, 1.0], 10_000, 0),  # ... is 0.002
        ([0.80, 0.79, 0.70], [3.0, 2.0, 1.0], 3, 2),  # ... is 0.12
        ([1.0, 0.99], [2.0, 1.0], 100, 0),
        ([-0.2, -0.1], [1.0, 2.0], 9, 1),  # a correlation may be below 0
    ],
)
def test_of_models_with_a_score_near_the_best_the_most_likely_is_chosen(scores, misfits, rows, chosen):
    assert most_likely(scores, misfits, rows) == chosen


def test_of_strengths_with_equal_scores_the_most_likely_is_used(floor):
    """All of them are right on every row of dev; the weakest would be unsure of it."""
    train = vectors_of(floor.task, [example.row for example in examples(60, seed=0)[1]])
    rows = [example.row for example in train]
    models = [floor.task.linear_model(floor.matrix(train), rows, strength) for strength in STRENGTHS]
    assert {floor.scores(model, floor.dev)["accuracy"] for model in models} == {1.0}
    missed = [float(F.cross_entropy(model.answers(floor.of_dev), floor.labels)) for model in models]
    assert tuned_floor().linear.strength == STRENGTHS[int(np.argmin(missed))] > 1.0


def test_a_network_that_is_wrong_has_no_weight(floor):
    mix, _, scores = floor.choose(-right(floor), no_weights(floor))
    assert (mix.network, scores["accuracy"]) == (0.0, 1.0)
    assert mix.linear > 1


def test_ngrams_of_the_network_that_mislead_have_no_weight(floor):
    wrong = -torch.from_numpy(floor.linear.weight)
    mix, _, scores = floor.choose(right(floor) + torch.from_numpy(floor.of_dev @ wrong.numpy()), wrong)
    assert (mix.ngrams, scores["accuracy"]) == (0.0, 1.0)
    assert mix.network > 0.5


def test_ngrams_are_left_out_if_they_explain_no_more_of_dev_than_the_network(floor):
    mix, _, scores = floor.choose(20 * right(floor), no_weights(floor))
    assert (mix, mix.is_network, scores["accuracy"]) == (Mix(ngrams=0.0), True, 1.0)


def test_ngrams_stay_if_the_network_alone_is_worse_on_a_dev_that_is_too_small_to_tell_why(floor):
    few = Floor.__new__(Floor)
    vars(few).update(vars(floor) | {"dev": floor.dev[:2], "labels": floor.labels[:2], "of_dev": floor.of_dev[:2]})
    mix, _, scores = few.choose(-0.01 * right(floor)[:2], no_weights(floor))
    assert (mix.linear > 0, scores["accuracy"]) == (True, 1.0)


def test_two_that_err_on_different_rows_are_both_used(floor):
    """The network knows the first half of dev, the linear model the second."""
    half = torch.arange(len(floor.dev))[:, None] < len(floor.dev) // 2
    linear = floor.linear.answers(floor.of_dev)
    own = no_weights(floor)
    silenced = Floor.__new__(Floor)
    vars(silenced).update(vars(floor))
    silenced.of_dev = floor.of_dev.multiply(~half.numpy()).tocsr()
    mix, _, scores = silenced.choose(torch.where(half, right(floor), 0 * linear), own)
    assert scores["accuracy"] == 1.0
    assert min(mix.network, mix.linear) > 0.5


def test_the_weights_are_those_of_a_logistic_regression_on_dev(floor):
    """Where dev is large, what is assumed before it is seen does not count: scikit-learn finds the same weights."""
    rng = torch.Generator().manual_seed(0)
    signal = torch.randn(4000, generator=rng).double()
    labels = (torch.rand(4000, generator=rng) < torch.sigmoid(2 * signal)).long()
    network, linear = (signal + 0.7 * torch.randn(4000, generator=rng) for _ in range(2))
    parts = torch.stack([torch.stack([-part / 2, part / 2], 1) for part in (network, 0 * network, linear)])
    large = Floor.__new__(Floor)
    vars(large).update(vars(floor) | {"labels": labels})
    found = large.fitted(parts, TOGETHER)
    features = torch.stack([network, linear], 1).numpy()
    theirs = LogisticRegression(C=1e6, fit_intercept=False).fit(features, labels.numpy()).coef_[0]
    assert [found.network, found.linear] == pytest.approx(theirs, abs=0.02)


def test_a_dev_of_few_rows_changes_little(floor):
    few = Floor.__new__(Floor)
    vars(few).update(vars(floor) | {"labels": floor.labels[:2]})
    parts = torch.stack([right(floor)[:2], 0 * right(floor)[:2], right(floor)[:2]]).double()
    mix = few.fitted(parts, TOGETHER)
    assert max(mix.network, abs(mix.linear - 1.0)) < 0.1


STRONG, EQUAL, WEAK, CHANCE = 1.0, 2.0, 4.0, None  # the noise of a network; that of the linear model is EQUAL


def simulated(floor: Floor, rows: int, noise: float | None, rng: np.random.Generator) -> tuple[Floor, torch.Tensor]:
    """Logits of a network and of a linear model that see the same evidence, each with noise of its own."""
    evidence, common = 3 * rng.standard_normal(rows), rng.standard_normal(rows)
    labels = (rng.random(rows) < 1 / (1 + np.exp(-evidence))).astype(int)
    own, other = rng.standard_normal((2, rows))
    linear = 0.6 * (evidence + EQUAL * (0.5 * common + 0.87 * own))
    network = 2.2 * other if noise is None else 0.6 * (evidence + noise * (0.5 * common + 0.87 * other))
    parts = np.stack([network, 0 * network, linear])
    made = Floor.__new__(Floor)
    vars(made).update(vars(floor) | {"labels": torch.from_numpy(labels)})
    return made, torch.from_numpy(np.stack([-parts / 2, parts / 2], axis=2))


def ahead_of_linear(floor: Floor, rows: int, noise: float | None) -> float:
    """How many points of accuracy a mix that was fitted on dev is ahead of the linear model on other rows: a mean."""
    rng, found = np.random.default_rng(0), []
    for _ in range(50):
        few, parts = simulated(floor, rows, noise, rng)
        mix = few.fitted(parts, TOGETHER)
        many, others = simulated(floor, 2000, noise, rng)
        right = [(some.argmax(1) == many.labels).double().mean().item() for some in (mix.of(others), others[2])]
        found.append(100 * (right[0] - right[1]))
    return float(np.mean(found))


def test_of_a_small_dev_a_mix_keeps_up_with_the_linear_model_and_of_a_large_one_it_wins(floor):
    """With weights of 0.5 before dev is seen, the first two are -1.9 and -1.0, and those of 800 rows the same."""
    assert ahead_of_linear(floor, 20, CHANCE) > -0.9
    assert ahead_of_linear(floor, 20, WEAK) > -0.5
    assert ahead_of_linear(floor, 20, EQUAL) > 0.8
    assert ahead_of_linear(floor, 100, EQUAL) > 1.5
    assert ahead_of_linear(floor, 800, EQUAL) > 1.7
    assert ahead_of_linear(floor, 800, STRONG) > 4.5
    assert ahead_of_linear(floor, 800, CHANCE) > -0.2


def test_a_network_that_a_small_dev_happens_to_like_is_not_taken_alone(floor):
    """Right on the four rows of dev, as the linear model is: that does not show that it is better."""
    few = Floor.__new__(Floor)
    vars(few).update(vars(floor) | {"dev": floor.dev[:4], "labels": floor.labels[:4], "of_dev": floor.of_dev[:4]})
    mix, _, scores = few.choose(20 * right(floor)[:4], no_weights(floor))
    assert (mix.linear > 0.9, scores["accuracy"]) == (True, 1.0)


@pytest.mark.parametrize(
    "mix", [Mix(), Mix(network=0.6, ngrams=0.0, linear=0.4), Mix(network=2.0, ngrams=0.5, shift=1.5)]
)
def test_mixed_weights_give_the_answers_of_the_mix(mix, floor):
    torch.manual_seed(0)
    head = ClassHead(width=4, outputs=2, ngrams=len(floor.task.ngrams)).eval()
    torch.nn.init.normal_(head.ngrams.weight)
    numbers, weights = padded([example.ngrams for example in floor.dev])
    side = Side(tokens=torch.zeros(20, 1, dtype=torch.long), visible=torch.ones(20, 1, dtype=torch.bool))
    batch, states = Batch(source=side, ngrams=(numbers, weights)), States(hidden=torch.zeros(20, 1, 4))
    states = replace(states, pooled=torch.randn(20, 4))
    with torch.no_grad():
        network = head.classify(states.pooled)
        own = torch.from_numpy(floor.of_dev @ head.ngrams.weight.numpy())
        linear = floor.linear.answers(floor.of_dev)
        expected = mix.network * network + mix.ngrams * own + mix.linear * linear + mix.shift
        state = {f"heads.x.{name}": weight for name, weight in head.state_dict().items()}
        mixed = floor.mixed(state, "heads.x", mix)
        head.load_state_dict({name.removeprefix("heads.x."): weight for name, weight in mixed.items()})
        torch.testing.assert_close(head.answers(states, batch), expected)


def test_what_did_not_help_is_left_out_of_task_and_weights(floor):
    weights = {"heads.classify.ngrams.share": torch.ones(()), "heads.classify.classify.weight": torch.ones(1)}
    task, kept = as_used(floor.task, weights, Mix(ngrams=0.0))
    assert (task.ngrams, list(kept)) == (None, ["heads.classify.classify.weight"])
    assert as_used(floor.task, weights, Mix()) == (floor.task, weights)


@pytest.mark.parametrize("classes", [("neg", "pos"), ("neg", "other", "pos")])
def test_a_class_that_no_row_of_a_share_has_is_unlikely_everywhere(classes):
    rows = [
        Row(text=f"a good film {number}", label=classes[number % (len(classes) - 1)], line=1) for number in (0, 1, 2)
    ]
    task = with_ngrams(Classify(classes=classes), rows)
    train = vectors_of(task, rows)
    floor = Floor(task, train, train)
    found = task.decide(floor.linear.answers(floor.of_dev), train)
    assert all(one.probabilities["pos"] < 1e-4 for one in found)


def test_of_several_labels_one_that_all_rows_have_is_certain_and_one_that_none_has_is_not():
    labels = (("all", "some"), ("all",), ("all", "some"), ("all",))
    texts = ("good x", "bad y", "good z", "bad w")
    rows = [Row(text=text, label=own, line=1) for text, own in zip(texts, labels, strict=True)]
    task = with_ngrams(MultiLabel(classes=("all", "none", "some")), rows)
    train = vectors_of(task, rows)
    found = Floor(task, train, train).linear.answers(matrix_of([one.ngrams for one in train], len(task.ngrams)))
    assert found.sigmoid()[:, :2].round().tolist() == [[1, 0]] * 4
    assert (found[:, 2] > found[:, 2].mean()).tolist() == [True, False, True, False]


RARE = {"neg": ("good x", "good y", "good z", "good w", "bad u", "bad v"), "pos": ("bad x", "bad y")}  # bad is either


def weighed(task: Classify | MultiLabel) -> Floor:
    rows = [
        Row(text=text, label=label if isinstance(task, Classify) else (label,), line=1)
        for label, texts in RARE.items()
        for text in texts
    ] * 4
    task = with_ngrams(replace(task, classes=("neg", "pos")), rows)
    train = vectors_of(task, rows)
    return Floor(task, train, train)


@pytest.mark.parametrize(
    ("kind", "weights"),
    [(Classify, "balanced"), (Classify, (2 / 3, 2.0)), (MultiLabel, "balanced"), (MultiLabel, (1 / 3, 3.0))],
)
def test_weights_of_classes_count_in_the_linear_model_and_in_the_mix(kind, weights):
    """Half of the rows with "bad" are of each class: of the rarer one, if all classes count alike."""
    plain, balanced = (weighed(kind(class_weights=chosen)) for chosen in (None, weights))
    rows = [example.row for example in plain.dev]
    models = [floor.task.linear_model(floor.of_dev, rows, 1.0) for floor in (plain, balanced)]
    before, after = (model.answers(plain.of_dev[-1:])[0].tolist() for model in models)
    assert after[1] - after[0] > before[1] - before[0] + 0.5
    common = torch.tensor([[1.5, -1.5]] * len(plain.labels))
    parts = torch.stack([common, 0 * common, 0 * common]).double()
    # a network that always answers with the common class explains rows that count alike, but not classes that do
    assert plain.fitted(parts, NETWORK).network > 0.3
    assert balanced.fitted(parts, NETWORK).network < 0.1


def test_numbers_have_a_floor_too():
    rng = random.Random(0)
    texts = [" ".join(rng.choice(("one", "two")) for _ in range(5)) for _ in range(40)]
    rows = [Row(text=text, label=10.0 + text.count("two"), line=1) for text in texts]
    task = with_ngrams(Regress(), rows)
    train = vectors_of(task, rows)
    floor = Floor(task, train, train)
    assert floor.scores(floor.linear, train)["pearson"] > 0.95
    labels = torch.tensor([[row.label] for row in rows])
    assert floor.choose(3 * labels - 7, torch.zeros(len(task.ngrams), 1))[0].is_network
    assert floor.fitted(torch.stack([3 * labels - 7] * 3).double(), NETWORK).network == pytest.approx(1 / 3, abs=0.01)
    noisy = labels + torch.randn(labels.shape, generator=torch.Generator().manual_seed(0))
    mix, *_ = floor.choose(noisy + 5, torch.zeros(len(task.ngrams), 1))
    assert mix.linear > 0.5
    assert mix.of(torch.stack([noisy + 5, 0 * noisy, floor.linear.answers(floor.of_dev)])).mean() == pytest.approx(
        float(labels.mean()), abs=1e-3
    )


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, Path]:
    paths = {}
    for name, count in (("train", 80), ("dev", 20), ("test", 20)):
        found = [example.row for example in examples(count, seed=len(name))[1]]
        paths[name] = tmp_path / f"{name}.tsv"
        paths[name].write_text("text\tlabel\n" + "".join(f"{r.text}\t{r.label}\n" for r in found), encoding="utf-8")
    return paths


def finetuned(plm, pretrained, rows, out, *more):
    files = [part for name, path in rows.items() for part in (f"--{name}", path)]
    return plm("finetune", pretrained, "--task", "classify", *files, "--out", out, "--epochs", 1,
               "--set", "run.threads=1", *more)  # fmt: skip


@pytest.mark.filterwarnings("ignore::plmkit.errors.UnknownTokensWarning")
def test_a_fine_tuning_shows_three_rows_and_its_folder_answers_with_ngrams(plm, pretrained, rows, tmp_path):
    out = tmp_path / "out"
    ran = finetuned(plm, pretrained, rows, out)
    assert ran.code == 0, ran.err
    shown = [line for line in ran.out.splitlines() if "test accuracy" in line]
    assert [line.rsplit(maxsplit=1)[0].strip() for line in shown] == [
        "test accuracy",
        "test accuracy of the most frequent label, neg",
        "test accuracy of a linear model over n-grams",
    ]
    assert [float(line.split()[-1]) for line in shown] == [1.0, 0.5, 1.0]
    assert "N-grams: " in ran.out
    scores = json.loads((out / "scores.json").read_text())
    assert scores["linear"]["classify"]["test"] == scores["test"]["accuracy"] == 1.0
    assert (
        len(json.loads((out / "ngrams.json").read_text())["classify"]["counts"])
        == scores["linear"]["classify"]["ngrams"]
    )
    assert plm("evaluate", out, rows["test"], "--json").json["accuracy"] == 1.0
    model = plmkit.load(out, device="cpu")
    assert [found.label for found in model.predict(["it was a nice film", "it was a dull film"])] == ["pos", "neg"]
    assert plm("predict", out, "it was a nice film", "--json").json["predictions"][0]["label"] == "pos"


def test_off_with_one_word(plm, pretrained, rows, tmp_path):
    out = tmp_path / "out"
    ran = finetuned(plm, pretrained, rows, out, "--set", "task.ngrams=false")
    assert ran.code == 0, ran.err
    assert "gram" not in ran.out + ran.err
    assert not (out / "ngrams.json").exists()
    assert not [name for name in load_file(out / "model.safetensors") if "ngrams" in name]


def test_without_dev_it_is_refused_where_it_is_asked_for_and_else_left_out(plm, pretrained, rows, tmp_path):
    only = {"train": rows["train"]}
    nothing_held_out = ("--set", "task.dev_share=0")
    ran = finetuned(plm, pretrained, only, tmp_path / "out", *nothing_held_out, "--set", "task.ngrams=true")
    assert (ran.code, ran.err.count("task.ngrams=true needs --dev")) == (2, 1)
    assert finetuned(plm, pretrained, only, tmp_path / "out", *nothing_held_out).code == 0
    assert not (tmp_path / "out" / "ngrams.json").exists()


@pytest.mark.filterwarnings("ignore::plmkit.errors.UnknownTokensWarning")
def test_an_export_holds_the_network_alone_and_plm_finds_the_ngrams_beside_it(plm, pretrained, rows, tmp_path):
    out, folder = tmp_path / "out", tmp_path / "exported"
    assert finetuned(plm, pretrained, rows, out).code == 0
    ran = plm("export", out, folder)
    assert ran.code == 0, ran.err
    assert "! Other libraries load the network alone. Its n-grams are in ngrams.json and ngrams.safetensors" in ran.err
    texts = ["it was a nice film", "it was a dull film"]
    ours, theirs = (plmkit.load(place, device="cpu").predict(texts) for place in (out, folder))
    assert [one.probabilities for one in ours] == [pytest.approx(one.probabilities, abs=1e-5) for one in theirs]
    assert not [name for name in load_file(folder / "model.safetensors") if "ngrams" in name]
    for name in ("ngrams.json", "ngrams.safetensors"):
        (folder / name).unlink()
    (folder / "plmkit-manifest.json").unlink()
    alone = plmkit.load(folder, device="cpu").predict(texts)
    assert max(abs(one.probability - other.probability) for one, other in zip(ours, alone, strict=True)) > 0.01
