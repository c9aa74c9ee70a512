"""ELECTRA from text to answers: trained, gone on with, fine-tuned, used, exported and read back."""

import json
import math
import shutil
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoTokenizer, ElectraForMaskedLM, ElectraForPreTraining

import plmkit
from plmkit.catalogue import find
from plmkit.config.counting import parameters, parts, training_bytes
from plmkit.config.machine import Machine, settle
from plmkit.data.vocabulary import unnamed
from plmkit.errors import InputError
from plmkit.inference.loading import read_parts, without_generator
from plmkit.interop.export import export
from plmkit.preparation.prepare import prepare
from plmkit.schedules.schedule import Stage
from plmkit.storage.manifest import unseal
from plmkit.tasks import finetune
from plmkit.tasks.registry import find_kind
from plmkit.tasks.seed_run import build
from plmkit.tasks.settings import TaskSettings
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest
from plmkit.training.step import validate

TINY = (
    "stages=[[1.0, 32]]", "architecture.max_length=64", "architecture.layers=2", "architecture.heads=2",
    "architecture.width=32", "architecture.inner=64", "architecture.embedding=16", "tokenizer.size=300",
    "run.threads=1",
)  # fmt: skip
COUNTS = {  # discriminator and generator, each without and with its head
    "electra-small": (13_483_008, 13_549_057, 4_580_928, 4_620_026),
    "electra-base": (108_891_648, 109_483_009, 33_511_168, 33_740_602),
    "electra-large": (334_092_288, 335_142_913, 50_999_552, 51_295_290),
}
TEXT = "the old man paints a red car."


def trained(made, corpus, name: str, steps: int):
    request = PretrainRequest(
        settings=settle(find(name), TINY), corpora=(str(corpus),), out=made / name, budget=Budget(steps=steps)
    )
    return request.out, pretrain(request, Screen()).result


@pytest.fixture(scope="module")
def run(made, mixed_corpus):
    return trained(made, mixed_corpus, "electra-tiny", 200)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "electra"
    reported = export(run[0], folder, "huggingface", Screen())
    assert reported["checked"]
    assert reported["largest_difference"] < 1e-5
    return folder


def size(part: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in part.parameters())


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_exactly_the_papers(name):
    recipe = find(name)
    with torch.device("meta"):
        network = recipe.build(unnamed(recipe.vocabulary))
    model, shared = network.model, size(network.model.embed)
    found, named = size(model.discriminator) + shared, size(model.generator) + shared
    heads = size(network.heads["replaced_token"]), size(model.vocabulary)
    assert (found, found + heads[0], named, named + heads[1]) == COUNTS[name]
    assert network.parameter_count == COUNTS[name][1] + COUNTS[name][3] - shared


def test_settings_are_the_papers():
    for name, rate, batch, length, steps, hidden in (
        ("electra-small", 5e-4, 128, 128, 1_000_000, 0.15),
        ("electra-base", 2e-4, 256, 512, 766_000, 0.15),
        ("electra-large", 2e-4, 2048, 512, 400_000, 0.25),
    ):
        recipe = find(name)
        schedule = recipe.schedule
        assert (schedule.learning_rate, schedule.batch, recipe.stages) == (rate, batch, (Stage(length=length),))
        assert (schedule.steps, round(schedule.steps * schedule.warmup)) == (steps, 10_000)
        assert (recipe.corruption[1].rate, recipe.corruption[1].mask_share) == (hidden, 1.0)
        assert [objective.weight for objective in recipe.objectives] == [1.0, 50]
        assert schedule.shape == "linear_product"


@pytest.fixture(scope="module")
def material(run):
    settings = settle(find("electra-tiny"), TINY)
    return prepare(settings, (str(run[0].parent / "mixed.txt"),), None, 0, Screen(), tokenizer=run[0])


@pytest.fixture(scope="module")
def network(run, material):
    made = settle(find("electra-tiny"), TINY).recipe.build(material.tokenizer.vocabulary)
    made.load_state_dict(load_file(run[0] / "model.safetensors"))
    return made.eval()


def test_the_generator_learns_and_the_discriminator_beats_knowing_only_the_share(run, network, material):
    """On rows hidden as in training: held-out text has fewer hidden, so that losses there are no measure of this."""
    assert run[1]["valid/generator_lm"] < 0.7 * math.log(300)
    batch = material.samples.batch(1000, 0, 128, 32)
    with torch.no_grad():
        share = network.model(batch).replaced[batch.source.visible].float().mean()
        loss = network(batch).weighted["replaced_token"] / 50
    blind = -(share * share.log() + (1 - share) * (1 - share).log())
    assert 0.25 < share < 0.34  # 40 % are drawn, some of them twice, and some samples are right
    assert loss < 0.95 * blind


def test_held_out_losses_are_the_same_whenever_they_are_computed(run, network, material):
    batches = material.valid_batches(settle(find("electra-tiny"), TINY).recipe, 0)["text"]
    for seed in (1, 2):
        torch.manual_seed(seed)
        losses = validate(network, batches, torch.device("cpu"), torch.float32)
        network.eval()
        assert {f"valid/{name}": round(loss, 5) for name, loss in losses.items()} == {
            name: value for name, value in run[1].items() if name.startswith("valid/")
        }


def test_a_run_that_was_stopped_continues_to_the_same_bits(tmp_path, mixed_corpus):
    settings = settle(find("electra-tiny"), (*TINY, "run.checkpoint_steps=4"))
    request = PretrainRequest(
        settings=settings, corpora=(str(mixed_corpus),), out=tmp_path / "run", budget=Budget(steps=8)
    )
    pretrain(request, Screen())
    whole = load_file(request.out / "model.safetensors")
    shutil.rmtree(request.out / "checkpoints" / "step-00000008")
    about = json.loads((request.out / "run.json").read_text())
    (request.out / "run.json").write_text(json.dumps({**about, "state": "unfinished"}))
    unseal(request.out)
    said = StringIO()
    pretrain(request, Screen(Console(file=said)))
    assert "Resuming from step 4" in said.getvalue()
    again = load_file(request.out / "model.safetensors")
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_learned_weights_do_not_collapse(made, mixed_corpus):
    folder, result = trained(made, mixed_corpus, "electra-tiny-weighted", 60)
    weights = load_file(folder / "model.safetensors")
    factors = [float(torch.exp(-weights[f"log_variances.{name}"])) for name in ("generator_lm", "replaced_token")]
    assert all(0.1 < factor < 1000 for factor in factors)
    assert factors[0] < 0.999  # from 1
    assert factors[1] < 49.9  # from 50
    assert all(math.isfinite(value) for name, value in result.items() if "valid" in name)
    assert np.isfinite(plmkit.load(folder, device="cpu").embed([TEXT])).all()


def test_an_adversarial_generator_comes_nearer_to_the_text_by_fooling_the_discriminator_alone(
    made, mixed_corpus, material
):
    """What fools it is what could stand there: no loss asks the generator for the token that did."""
    settings = settle(find("electra-tiny-adversarial"), TINY)
    batch, losses = material.samples.batch(1000, 0, 128, 32), []
    for steps in (1, 60):
        out = made / f"adversarial-{steps}"
        pretrain(
            PretrainRequest(settings=settings, corpora=(str(mixed_corpus),), out=out, budget=Budget(steps=steps)),
            Screen(),
        )
        network = settings.recipe.build(material.tokenizer.vocabulary).eval()
        network.load_state_dict(load_file(out / "model.safetensors"))
        with torch.no_grad():
            guesses = network.model(batch).guesses
        losses.append(float(F.cross_entropy(guesses, batch.targets[batch.predicted])))
    assert losses[1] < losses[0] - 0.2


def test_a_generator_by_likelihood_predicts_more_masked_tokens_than_an_adversarial_one(tmp_path):
    """What benchmarks.generators prints of longer runs (Clark et al., 2020, F: 65% against 58%).

    The text goes through twelve words in one order, so that every word can be told from its neighbours.
    """
    from benchmarks.generators import RECIPES, trained

    words = "ant bee cow dog eel fox gnu hen ibex jay kite lark".split()
    lines = [" ".join(words[(start + place) % 12] for place in range(8)) + "." for start in range(400)]
    documents = ["\n".join(lines[first : first + 5]) for first in range(0, 400, 5)]
    (tmp_path / "cycle.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    settings = {"steps": 80, "seed": 0, "sets": (*TINY, "run.valid_share=0.3", "schedule.learning_rate=3e-3")}
    found = {
        way: trained(name, str(tmp_path / "cycle.txt"), tmp_path / way, **settings) for way, name in RECIPES.items()
    }
    print({way: f"{one.accuracy:.1%}, loss {one.loss:.3f}" for way, one in found.items()})
    assert found["likelihood"].accuracy > found["adversarial"].accuracy
    assert found["likelihood"].loss < found["adversarial"].loss - 0.3


# Use


def test_vectors_are_the_discriminators(run):
    model = plmkit.load(run[0], device="cpu")
    vectors = model.embed([TEXT], level="token")[0]
    rows = model.rows([TEXT])
    states, _ = model.states(rows)
    assert vectors.shape[1] == 32
    np.testing.assert_allclose(vectors, states.hidden[0, 1:-1].numpy(), atol=1e-6)
    own = load_file(run[0] / "model.safetensors")
    name = "blocks.1.feed_forward_norm.weight"
    assert torch.equal(model.network.model.state_dict()[name], own[f"model.discriminator.{name}"])


def test_blanks_are_filled_and_texts_scored_by_the_generator(run):
    model = plmkit.load(run[0], device="cpu")
    (blank,) = model.fill("the cat [MASK] the river.", top=3)
    assert len(blank) == 3
    assert model.generator.network.model.settings.width == 16
    assert model.fill("the cat [MASK] the river.", top=3) == model.generator.fill("the cat [MASK] the river.", top=3)
    assert math.isfinite(model.score(TEXT).pseudo_perplexity)


@pytest.fixture(scope="module")
def tuned(run, made, rows_file):
    request = finetune.FinetuneRequest(
        model=run[0], task=find_kind("classify")(), train=rows_file, dev=rows_file, test=None,
        out=made / "electra-tuned", settings=TaskSettings(epochs=2, batch=16, layer_decay=0.8),
        machine=Machine(threads=1),
    )  # fmt: skip
    finetune.finetune(request, Screen())
    return request.out


def test_fine_tuning_starts_at_the_discriminator_bit_for_bit(run):
    parts = without_generator(read_parts(run[0]))
    task = find_kind("classify")(classes=("a", "b"), length=32)
    network = build(TaskSettings().settled(parts.architecture), parts, [task], seed=0)
    own = load_file(run[0] / "model.safetensors")
    for name, weight in network.model.state_dict().items():
        if not name.startswith("pooler"):
            place = f"model.{name}" if name.startswith("embed.") else f"model.discriminator.{name}"
            assert torch.equal(weight, own[place]), name


def test_a_fine_tuned_one_predicts_and_exports_with_its_classes(tuned, tmp_path):
    reported = export(tuned, tmp_path / "out", "huggingface", Screen())
    assert reported["checked"]
    ours = plmkit.load(tuned, device="cpu").predict([TEXT])[0]
    back = plmkit.load(tmp_path / "out", device="cpu").predict([TEXT])[0]
    assert back.label == ours.label
    assert back.probabilities == pytest.approx(ours.probabilities, abs=1e-6)
    config = (tmp_path / "out" / "config.json").read_text()
    assert "ElectraForSequenceClassification" in config


# Exchange


def test_both_folders_open_in_transformers_with_the_tokenizer(exported, run):
    tokenizer = AutoTokenizer.from_pretrained(exported / "generator")
    ours = plmkit.load(run[0], device="cpu")
    given = tokenizer("the cat [MASK] the river.", return_tensors="pt")
    assert given["input_ids"][0, 1:-1].tolist() == ours.tokenizer.encode("the cat [MASK] the river.")
    generator = ElectraForMaskedLM.from_pretrained(exported / "generator").eval()
    with torch.no_grad():
        logits = generator(**given).logits[0, given["input_ids"][0] == tokenizer.mask_token_id]
    logits[:, tokenizer.all_special_ids] = -torch.inf
    (blank,) = ours.fill("the cat [MASK] the river.", top=1)
    assert tokenizer.convert_ids_to_tokens(logits.argmax(-1).tolist()) == [blank[0].token]
    discriminator = ElectraForPreTraining.from_pretrained(exported / "discriminator").eval()
    chinese = AutoTokenizer.from_pretrained(exported / "discriminator")("我的狗很可爱。", return_tensors="pt")
    rows = ours.rows(["我的狗很可爱。"])
    states, batch = ours.states(rows)
    assert chinese["input_ids"].tolist() == batch.source.tokens.tolist()
    with torch.no_grad():
        theirs = discriminator(**chinese).logits
        found = ours.network.heads["replaced_token"].answers(states, batch)
    torch.testing.assert_close(found, theirs, atol=1e-5, rtol=1e-5)


def test_either_folder_read_back_has_the_same_bits_and_goes_out_again(exported, plm, tmp_path):
    for place in ("generator", "discriminator"):
        assert plm("export", exported / place, tmp_path / place).code == 0
        first, again = (load_file(folder / place / "model.safetensors") for folder in (exported, tmp_path))
        assert first.keys() == again.keys()
        assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_generator_folder_fills_blanks_as_the_run_does(exported, run):
    for text in ("the cat [MASK] the river.", "我的[MASK]很可爱。"):
        ours, theirs = (plmkit.load(folder, device="cpu").fill(text) for folder in (run[0], exported / "generator"))
        assert [c.token for c in ours[0]] == [c.token for c in theirs[0]]


def test_a_discriminator_folder_embeds_as_the_run_does_and_is_fine_tuned(exported, run, plm, tmp_path, rows_file):
    ours, theirs = (plmkit.load(folder, device="cpu").embed([TEXT]) for folder in (run[0], exported / "discriminator"))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    ran = plm(
        "finetune", exported / "discriminator", "--task", "classify", "--train", rows_file, "--out", tmp_path / "out",
        "--epochs", 1, "--set", "run.threads=1",
    )  # fmt: skip
    assert ran.code == 0, ran.err


def test_another_activation_is_refused_on_the_way_in(exported, tmp_path):
    shutil.copytree(exported / "generator", tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    unseal(tmp_path / "other")
    with pytest.raises(InputError, match="only hidden_act 'gelu' is supported"):
        read_parts(tmp_path / "other")


def test_the_memory_of_two_networks_is_reported_part_by_part(plm):
    """What both read counts once: the tables of tokens, positions and segments, and their norm."""
    recipe = find("electra-small")
    reported = parts(recipe)
    assert sum(reported.values()) == parameters(recipe)
    assert reported["shared"] == (30_522 + 512 + 2) * 128 + 2 * 128
    apart = replace(recipe, architecture=replace(recipe.architecture, tied=False))
    assert (
        parameters(apart) - parameters(recipe)
        == parts(apart)["generator"] - reported["generator"]
        == reported["shared"]
    )
    assert training_bytes(parameters(recipe)) == 16 * parameters(recipe)
    shown = " ".join(plm("recipes", "electra-small").out.split())
    for part in ("generator", "discriminator"):
        assert f"{reported[part]:,} parameters in the {part}." in shown
    assert f"{reported['shared']:,} parameters shared. {16 * parameters(recipe) / 1e6:,.0f} MB during training" in shown
    assert parts(find("bert-mini")) == {}
