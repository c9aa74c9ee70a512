"""Regression starts at the mean, whatever the unit, and the saved model predicts in that unit."""

import json
import random
from dataclasses import replace

import pytest
import torch

import plmkit
from plmkit.config.machine import Machine
from plmkit.data.batch import Batch, Side, States
from plmkit.schedules.optimizers import BertAdam
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.heads import NumberHead
from plmkit.tasks.kinds.regress import Regress
from plmkit.tasks.settings import TaskSettings
from plmkit.terminal.screen import Screen


def number_rows(path, mean: float, deviation: float):
    """The verb decides: above the mean or below."""
    rng = random.Random(0)
    lines = ["text\tlabel"]
    for _ in range(32):
        high = rng.random() < 0.5
        lines.append(f"the cat {'likes' if high else 'hears'} a house.\t{mean + (deviation if high else -deviation)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def trained(model, rows, out, **settings):
    request = FinetuneRequest(
        model=model, task=Regress(), train=rows, dev=None, test=rows, out=out, machine=Machine(threads=1),
        settings=TaskSettings(**{"epochs": 1, "batch": 16, "learning_rate": 1e-9, **settings}),
    )  # fmt: skip
    finetune(request, Screen())
    return plmkit.load(out, device="cpu")


def test_before_training_the_prediction_is_the_mean(pretrained, tmp_path):
    rows = number_rows(tmp_path / "rows.tsv", mean=1000.0, deviation=20.0)
    mean = sum(float(line.split("\t")[1]) for line in rows.read_text().splitlines()[1:]) / 32
    model = trained(pretrained, rows, tmp_path / "out")
    assert model.predict(["the cat likes a house.", "the sea"])[0].label == pytest.approx(mean, abs=5)


def test_training_does_not_depend_on_the_unit_of_the_numbers(pretrained, tmp_path):
    """In the same steps, up to their unit."""
    found = []
    for number, (mean, deviation) in enumerate([(0.0, 1.0), (5000.0, 100.0)]):
        rows = number_rows(tmp_path / f"{number}.tsv", mean, deviation)
        steps = {"epochs": 10, "learning_rate": 1e-3, "dropout": 0.0, "optimizer": BertAdam()}
        model = trained(pretrained, rows, tmp_path / f"out{number}", **steps)
        answers = [answer.label for answer in model.predict(["the cat likes a house.", "the cat hears a house."])]
        found.append([(answer - mean) / deviation for answer in answers])
    assert found[0] == pytest.approx(found[1], abs=1e-3)
    assert found[0][0] > found[0][1] + 0.01


def test_what_is_exported_gives_the_same_numbers(pretrained, tmp_path, plm):
    from transformers import AutoModelForSequenceClassification

    rows = number_rows(tmp_path / "rows.tsv", mean=300.0, deviation=2.0)
    model = trained(pretrained, rows, tmp_path / "out", epochs=2, learning_rate=1e-3)
    assert plm("export", tmp_path / "out", tmp_path / "hub").code == 0
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "hub").eval()
    row = model.rows(["the cat likes a house."])[0]
    with torch.no_grad():
        found = theirs(input_ids=torch.from_numpy(row.tokens)[None]).logits.item()
    assert found == pytest.approx(model.predict(["the cat likes a house."])[0].label, abs=1e-3)
    assert found == pytest.approx(300, abs=10)


def head_of(bias: bool) -> NumberHead:
    torch.manual_seed(0)
    return NumberHead(width=4, bias=bias, dropout=0.0)


def asked(rows: torch.Tensor) -> tuple[States, Batch]:
    nothing = torch.zeros(len(rows), 1, dtype=torch.long)
    batch = Batch(source=Side(tokens=nothing, visible=torch.ones_like(nothing, dtype=torch.bool), segments=nothing))
    return States(hidden=rows[:, None], pooled=rows), batch


@pytest.mark.parametrize("bias", [True, False])
def test_a_head_is_initialised_to_the_mean_and_its_weights_absorb_the_unit(bias):
    head = head_of(bias)
    rows = torch.tensor([[1.0, 2.0, 3.0, 4.0], [1.5, 2.0, 2.5, 4.0]])
    labels = torch.tensor([90.0, 110.0])
    states, batch = asked(rows)
    head.fit(lambda: labels, lambda: (states, batch))
    answers = head.answers(states, batch)
    assert answers.mean().item() == pytest.approx(100, abs=2)
    loss = head(states, replace(batch, labels=labels)).item()
    assert loss == pytest.approx(float(((answers.squeeze(1) - labels) / 10).square().mean().detach()), rel=1e-4)
    weights = {f"heads.label.{name}": weight for name, weight in head.state_dict().items()}
    plain = head_of(bias)
    kept = head.in_units(weights | {"other": rows}, "heads.label")
    assert kept.pop("other") is rows
    plain.load_state_dict({name.removeprefix("heads.label."): weight for name, weight in kept.items()})
    torch.testing.assert_close(plain.answers(states, batch), answers)


def test_equal_numbers_have_no_standard_deviation_to_divide_by():
    head = head_of(bias=True)
    rows = torch.ones(3, 4)
    head.fit(lambda: torch.full((3,), 7.0), lambda: asked(rows))
    assert (head.mean, head.deviation) == (7.0, 1.0)


def test_the_kept_scores_are_those_of_the_kept_weights(pretrained, tmp_path, plm):
    rows = number_rows(tmp_path / "rows.tsv", mean=40.0, deviation=3.0)
    trained(pretrained, rows, tmp_path / "out", learning_rate=1e-3)
    reported = json.loads((tmp_path / "out" / "scores.json").read_text())
    again = plm("evaluate", tmp_path / "out", rows, "--json").json
    assert again["mse"] == pytest.approx(reported["test"]["mse"], rel=1e-4)
    assert reported["baseline"]["test"]["measure"] == "mse"
    assert reported["baseline"]["test"]["score"] == pytest.approx(9.0, rel=0.1)
