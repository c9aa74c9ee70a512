"""Catalogue × kinds of tasks: every network is fine-tuned on every kind that it supports, saved, loaded and used."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import plmkit
from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import CATALOGUE, find
from plmkit.data.batch import Batch, Side, States
from plmkit.errors import PlmError
from plmkit.inference.loading import read_parts, without_generator
from plmkit.tasks.features import with_features
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.tasks.heads import ChoiceHead
from plmkit.tasks.registry import KINDS, find_kind, reasons_against
from plmkit.tasks.seed_run import build
from plmkit.tasks.settings import TaskSettings

CLUSTERED = "transformer-xl-wt103-large"  # whose embeddings are narrower for rare tokens
NAMES = [name for name in CATALOGUE if name.endswith("-tiny") and not find(name).architecture.describes_images]
SHRUNK = {
    "max_length": 64, "layers": 1, "heads": 2, "width": 16, "inner": 32, "embedding": 8, "cell": 8, "memory": 8,
    "filters": "[[2, 8]]", "cutoffs": "[40, 80]", "local_heads": False,  # in one layer, [CLS] would not see far tokens
    "features": 8, "image_size": 32, "patch_size": 16, "visual_width": 16, "visual_inner": 16, "joint_width": 16,
}  # fmt: skip
EPOCHS = 20
GOOD, BAD = "the cat sees a good house", "my friend hears the sea"
WORDS = [GOOD.split(), BAD.split()]
TAGS = [["O", "B-who", "O", "O", "B-what", "I-what"], ["O", "B-who", "O", "O", "O"]]
PAIRS = [{"text_a": GOOD, "text_b": GOOD, "label": "yes"}, {"text_a": GOOD, "text_b": BAD, "label": "no"}]
SCORED = [{**PAIRS[0], "label": 4.5}, {**PAIRS[1], "label": 0.5}]
ROWS = {
    "classify": [{"text": GOOD, "label": "good"}, {"text": BAD, "label": "bad"}],
    "multilabel": [{"text": GOOD, "labels": ["good", "house"]}, {"text": BAD, "labels": []}],
    "regress": [{"text": GOOD, "label": 1.5}, {"text": BAD, "label": -2.0}],
    "similarity": SCORED, "match": SCORED, "pair": PAIRS, "nli": PAIRS, "paraphrase": PAIRS,
    "choose": [
        {"question": GOOD, "choices": ["sea", "house"], "label": 1},
        {"question": BAD, "choices": ["sea", "cat", "moon"], "label": "sea"},
    ],
    "tag": [{"tokens": words, "tags": tags} for words, tags in zip(WORDS, TAGS, strict=True)],
    "slots": [
        {"tokens": words, "tags": tags, "intent": intent}
        for words, tags, intent in zip(WORDS, TAGS, "yn", strict=True)
    ],
    "qa": [
        {"question": "who?", "context": GOOD, "answers": [{"text": "cat", "answer_start": 4}]},
        {"question": "what?", "context": BAD, "answers": []},
    ],
    "rank": [
        {"query": "house", "candidates": [GOOD, BAD], "labels": [1, 0]},
        {"query": "sea", "candidates": [GOOD, BAD, "cat"], "label": BAD},
    ],
}  # fmt: skip
QUESTIONS = {  # what a model is given, without the labels
    **dict.fromkeys(("classify", "multilabel", "regress", "tag", "slots"), GOOD),
    **dict.fromkeys(("similarity", "match", "pair", "nli", "paraphrase"), (GOOD, BAD)),
    "choose": {"text": GOOD, "choices": ["sea", "house"]},
    "qa": {"question": "who?", "context": GOOD},
    "rank": {"query": "house", "candidates": [GOOD, BAD, "cat"]},
}


def settings_of(name: str) -> dict[str, object]:
    """The recipe as it is, but of one layer of width 16."""
    recipe = find(name)
    own = {f"architecture.{key}": value for key, value in SHRUNK.items() if vars(recipe.architecture).get(key)}
    own |= {"architecture.shrink": 2} if name == CLUSTERED else {}
    stages = json.dumps([[stage.until, 16] for stage in recipe.stages])
    return {**own, "stages": stages, "tokenizer.size": 300, "schedule.batch": 8, "run.threads": 1}


@pytest.fixture(scope="module")
def described(mixed_corpus: Path, shapes: Path) -> Path:
    """The lines of the text as captions of pictures, to which they have nothing to say."""
    lines = mixed_corpus.read_text(encoding="utf-8").split("\n")
    pictures = [f"pictures/{number}.png" for number in range(5)]
    table = shapes.with_name("lines.jsonl")
    rows = [{"image": pictures[number % 5], "caption": line} for number, line in enumerate(lines) if line]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return table


@pytest.fixture(scope="module")
def prepared(made: Path, mixed_corpus: Path, pairs: Path, described: Path):
    """Pretrained for one step: a run folder of each recipe, made on first use."""

    def folder(name: str) -> Path:
        out = made / f"{name} for kinds"
        if not out.exists():
            architecture = find(name).architecture
            text = pairs if architecture.translates else described if architecture.reads_images else mixed_corpus
            plmkit.pretrain(name, text, out, steps=1, settings=settings_of(name), quiet=True)
        return out

    return folder


def rows_file(kind: str, folder: Path) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[kind] * 4), encoding="utf-8")
    return path


def fine_tuned(model: Path, kind: str, folder: Path, **settings: object):
    """The model, its weights, and its loss at every step, with that of a language model where the paper adds it."""
    given = {
        "run.threads": 1,
        "run.log_steps": 1,
        "task.batch": 8,
        "task.learning_rate": 0.005,
        "task.dropout": 0,
        **settings,
    }
    plmkit.finetune(model, kind, rows_file(kind, folder), folder / "out", epochs=EPOCHS, settings=given, quiet=True)
    lines = map(json.loads, (folder / "out" / "metrics.jsonl").read_text().splitlines())
    losses = [line["train/0/loss"] for line in lines if "train/0/loss" in line]
    return plmkit.load(folder / "out", device="cpu"), load_file(folder / "out" / "model.safetensors"), losses


def has_the_form(kind: str, found, task) -> bool:
    """Whether an answer is what users of the kind expect."""
    if kind in ("regress", "similarity"):
        return type(found.label) is float and math.isfinite(found.label)
    if kind == "match":
        return -1.001 <= found.cosine <= 1.001 and math.isfinite(found.label)
    if kind == "rank":
        return sorted(found.ranks) == [1, 2, 3] and found.label in QUESTIONS["rank"]["candidates"]
    if kind == "qa":
        return found.label == "" or GOOD[found.start : found.end] == found.label
    if kind in ("tag", "slots"):
        whole = len(found.tags) == len(WORDS[0]) and {*found.tags} <= {*task.classes}
        return whole and (kind == "tag" or found.intent in ("y", "n"))
    if kind == "multilabel":
        return {*found.label} <= {*task.classes} == {*found.probabilities} == {"good", "house"}
    names = QUESTIONS[kind]["choices"] if kind == "choose" else task.classes
    return [*found.probabilities] == [*names] and sum(found.probabilities.values()) == pytest.approx(1)


@pytest.mark.filterwarnings("ignore::plmkit.errors.UnknownTokensWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*NAMES, CLUSTERED])
def test_every_architecture_is_fine_tuned_on_every_kind(name, kind, prepared, tmp_path):
    model, weights, losses = fine_tuned(prepared(name), kind, tmp_path)
    assert all(map(math.isfinite, losses))
    each = len(losses) // EPOCHS  # batches differ in how hard they are, epochs do not
    assert sum(losses[-each:]) < sum(losses[:each])
    task = model.tasks[kind]
    parts = with_task_tokens(without_generator(read_parts(prepared(name))))
    settings = TaskSettings().settled(parts.architecture, parts.tuning, task.pooling)
    parts = with_features(parts, settings.features)
    before = build(settings, parts, [task], seed=0).state_dict()  # the same new head, untrained
    moved = {key: not torch.equal(before[key], weights[key]) for key in weights}
    assert all(moved[key] for key in weights if key.startswith(f"heads.{kind}.") and key.endswith("weight"))
    assert any(moved[key] for key in weights if key.startswith("model."))
    assert any(key.startswith(f"heads.{kind}.") for key in weights) or task.embeds
    (found,) = model.predict([QUESTIONS[kind]])
    if task.embeds:
        first, second = model.embed([GOOD, BAD])
        assert found.cosine == pytest.approx(float(first @ second), abs=1e-4)
    assert has_the_form(kind, found, task)


def test_every_network_of_the_catalogue_is_tried():
    def tuned(name: str) -> type:
        return type(find(name).architecture.for_task(0.1))

    reading = {tuned(name) for name in CATALOGUE if not find(name).architecture.describes_images}
    assert reading == {tuned(name) for name in NAMES}
    assert KINDS.keys() == ROWS.keys() == QUESTIONS.keys()


def test_what_is_listed_as_supported_is_what_was_tried():
    for name in CATALOGUE:
        describes = find(name).architecture.describes_images
        why = "it describes images and reads no texts" if describes else None
        assert reasons_against(find(name).architecture) == dict.fromkeys(KINDS, why), name


def test_states_that_a_kind_reads_and_a_network_lacks_are_named():
    class Unpooled(Encoder):
        def for_task(self, dropout):
            return self

    bare = Unpooled(layers=1, heads=2, width=16, inner=16, pooler=False)
    against = reasons_against(bare)
    assert {kind for kind, why in against.items() if why is None} == {"tag", "qa", "match"}  # which read every token
    assert {why for why in against.values() if why} == {"its states lack pooled"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_that_describes_images_is_refused_for_every_kind(kind, made, shapes, tmp_path):
    out = made / "captions for kinds"
    if not out.exists():
        settings = {
            "architecture.width": 16,
            "architecture.features": 16,
            "architecture.image_size": 16,
            "run.threads": 1,
        }
        plmkit.pretrain("caption-tiny", shapes, out, steps=1, settings=settings, quiet=True)
    with pytest.raises(PlmError, match=f"cannot be fine-tuned on --task {kind}: it describes images"):
        plmkit.finetune(out, kind, rows_file(kind, tmp_path), tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_elmo_stays_bit_identical_below_every_kind_and_both_mixes_are_trained(kind, prepared, tmp_path):
    before = load_file(prepared("elmo-tiny") / "model.safetensors")
    place = {"task.features": "Features", "task.features.place": "both", "task.features.cell": 6}
    _, weights, _ = fine_tuned(prepared("elmo-tiny"), kind, tmp_path, **place)
    base = {name for name in before if name.startswith("model.")}
    assert all(torch.equal(weights[name.replace("model.", "model.base.", 1)], before[name]) for name in base)
    first, second = (weights[f"model.mixes.{place}.weights"] for place in ("input", "output"))
    assert first.abs().min() > 0 and second.abs().min() > 0  # both begin at 0
    assert not torch.equal(first, second)


def test_kinds_with_an_answer_for_each_token_read_every_state_and_the_others_one_vector_per_row():
    found = {kind: set(find_kind(kind).reads) for kind in KINDS}
    tokens = {"tag": {"hidden"}, "qa": {"hidden"}, "match": {"hidden"}, "slots": {"hidden", "pooled"}}
    assert found == {key: {"pooled"} for key in KINDS} | tokens


def test_a_constant_added_to_the_scores_of_all_choices_changes_nothing():
    torch.manual_seed(0)
    head = ChoiceHead(width=4, dropout=0.0)
    tokens = torch.ones(5, 2, dtype=torch.long)
    batch = Batch(
        source=Side(tokens=tokens, visible=tokens.bool()), labels=torch.tensor([1, 2]),
        alternatives=torch.tensor([0, 0, 1, 1, 1]),
    )  # fmt: skip
    states = States(hidden=torch.randn(5, 2, 4), pooled=torch.randn(5, 4))
    loss, shares = head(states, batch), head.answers(states, batch).softmax(-1)
    with torch.no_grad():
        head.classify.bias += 7.5
    torch.testing.assert_close(head(states, batch), loss)
    torch.testing.assert_close(head.answers(states, batch).softmax(-1), shares)
    assert shares[0, 2] == 0  # the first has two choices
