"""Fine-tuning on features of a pretrained network, frozen or not, computed in every epoch or once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

import plmkit
from plmkit.architectures.features import Features
from plmkit.catalogue import CATALOGUE, find
from plmkit.data.vocabulary import unnamed
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts
from plmkit.tasks.features import with_features
from plmkit.tasks.settings import settle_task

TINY = {
    "architecture.width": 16, "architecture.cell": 8, "architecture.filters": "[[2, 8]]", "tokenizer.size": 60,
    "stages": "[[1.0, 16]]", "run.threads": 1,
}  # fmt: skip


def options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="module")
def elmo(made: Path, mixed_corpus: Path) -> Path:
    out = made / "elmo for tasks"
    plmkit.pretrain("elmo-tiny", mixed_corpus, out, steps=3, settings=TINY, quiet=True)
    return out


def tuned(plm, model: Path, rows: Path, out: Path, *settings: str, task: str = "classify"):
    ran = plm("finetune", model, "--task", task, "--train", rows, "--dev", rows, "--epochs", 2, "--out", out,
              *options("run.threads=1", "task.batch=8", *settings))  # fmt: skip
    assert ran.code == 0, ran.err
    return load_file(out / "model.safetensors"), json.loads((out / "run.json").read_text())


def base_of(weights: dict, prefix: str) -> dict:
    return {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}


def test_elmo_is_frozen_by_default_and_trained_on_request(plm, elmo, rows_file, tmp_path):
    before = base_of(load_file(elmo / "model.safetensors"), "model.")
    frozen, record = tuned(plm, elmo, rows_file, tmp_path / "frozen")
    assert (record["task"]["frozen"], record["task"]["features"]["place"]) == (True, "input")
    after = base_of(frozen, "model.base.")
    assert before.keys() == after.keys()
    assert all((before[name] == after[name]).all() for name in before)  # bit by bit
    assert frozen["model.mixes.input.weights"].abs().sum() > 0  # the mix is trained
    trained, _ = tuned(plm, elmo, rows_file, tmp_path / "trained", "task.frozen=false")
    after = base_of(trained, "model.base.")
    assert not any((before[name] == after[name]).all() for name in before)


def test_a_model_on_features_predicts_evaluates_and_is_tuned_again(plm, elmo, rows_file, tmp_path):
    both = ("task.features=Features", "task.features.place=both", "task.features.cell=6")
    weights, record = tuned(plm, elmo, rows_file, tmp_path / "both", *both)
    assert record["architecture"]["width"] == 2 * 6 + 16
    assert not (weights["model.mixes.input.weights"] == weights["model.mixes.output.weights"]).all()
    model = plmkit.load(tmp_path / "both", device="cpu")
    assert model.predict("the zyx sees a house.").label in ("good", "bad")
    ran = plm("evaluate", tmp_path / "both", rows_file, "--json")
    assert ran.json["accuracy"] == record["result"]["dev"]["accuracy"]
    again, _ = tuned(plm, tmp_path / "both", rows_file, tmp_path / "again", *both)
    assert (again["model.base.embed.project.bias"] == weights["model.base.embed.project.bias"]).all()


@pytest.mark.parametrize("task", ["pair", "similarity"])
def test_rows_of_two_texts_are_read_too(plm, elmo, tmp_path, task):
    rows = tmp_path / "pairs.tsv"
    lines = [f"the cat sees it {n}.\tthe dog {n % 3} ran\t{n % 2}" for n in range(24)]
    rows.write_text("\n".join(["text_a\ttext_b\tlabel", *lines]) + "\n", encoding="utf-8")
    tuned(plm, elmo, rows, tmp_path / "out", task=task)


def losses(folder: Path) -> list[float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [value for line in lines for name, value in line.items() if name not in ("seconds", "tokens_per_second")]


@pytest.mark.parametrize("model", ["elmo", "bert"])
def test_features_computed_once_give_the_same_losses_as_in_every_epoch(
    model, plm, elmo, pretrained, rows_file, tmp_path
):
    place = ("task.features=Features", "task.features.place=both", "task.frozen=true", "run.log_steps=1")
    path = elmo if model == "elmo" else pretrained
    online, _ = tuned(plm, path, rows_file, tmp_path / "online", *place)
    kept, _ = tuned(plm, path, rows_file, tmp_path / "kept", *place, "task.features.precomputed=true")
    assert losses(tmp_path / "kept") == pytest.approx(losses(tmp_path / "online"), abs=2e-5)
    assert not (tmp_path / "kept" / "seeds").exists()  # nor anything else of them
    assert all(kept[name].sub(online[name]).abs().max() < 1e-4 for name in online)


def test_what_is_precomputed_is_frozen():
    settings, _ = settle_task(["task.features=Features", "task.features.precomputed=true"], None)
    with pytest.raises(SettingError, match="precomputed keeps what a frozen network makes"):
        settings.settled(find("bert-tiny").architecture)


def test_the_network_itself_is_fine_tuned_on_request(plm, elmo, rows_file, tmp_path):
    weights, _ = tuned(plm, elmo, rows_file, tmp_path / "out", "task.features=Features", "task.features.place=none")
    assert {name.split(".")[1] for name in weights if name.startswith("model.")} == {"embed", "directions"}


SMALL = {"layers": 2, "heads": 2, "width": 16, "inner": 32, "max_length": 24, "embedding": 16, "cell": 8}
KINDS = {type(find(name).architecture): name for name in reversed(CATALOGUE)}


@pytest.mark.parametrize("name", KINDS.values())
def test_every_architecture_that_gives_its_layers_is_read_with_the_weights_that_are_fine_tuned(name):
    recipe = find(name)
    sizes = {key: size for key, size in SMALL.items() if getattr(recipe.architecture, key, None) is not None}
    architecture, vocabulary = replace(recipe.architecture, **sizes), unnamed(30)
    model = architecture.build(vocabulary)
    alone = architecture.without_generator({f"model.{key}": weight for key, weight in model.state_dict().items()})
    parts = Parts(folder=Path(name), tokenizer=None, architecture=alone.architecture, weights=alone.weights)
    if "layers" not in architecture.writes:
        with pytest.raises(SettingError, match=r"task\.features reads the layers of the network"):
            with_features(parts, Features())
        return
    found = with_features(parts, Features())
    built = found.architecture.for_task(0.1).build(vocabulary)
    own = {f"model.{key}": weight.shape for key, weight in built.state_dict().items()}
    assert {key: weight.shape for key, weight in found.weights.items()}.items() <= own.items()
    new = {key for key in own.keys() - found.weights.keys() if key.startswith("model.base.")}
    assert new <= {"model.base.pooler.weight", "model.base.pooler.bias"}  # which no layer depends on
