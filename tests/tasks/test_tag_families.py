"""Tags and slots with every family of networks that reads text: trained, and with a prediction for every word."""

import pytest
import torch
from test_family_contract import SHRUNK, SMALLEST

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.reading.columns import Search, ignore
from plmkit.data.reading.whole import Table
from plmkit.data.samples import Place
from plmkit.inference.loading import Parts, without_generator
from plmkit.network import Network
from plmkit.tasks.batches import LabelledExamples, predictions_of
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.tasks.registry import find_kind

WORDS = [["the", "old", "dog", "sees", "it"], [*"我的狗很可爱。"], ["a", "cat"] * 40]
TAGS = [["O", "B-x", "I-x", "O", "O"], [*"OO", "B-x", *"OOOO"], ["O", "B-x"] * 40]
READERS = [name for name in SMALLEST if not find(name).architecture.describes_images]


def parts_of(name: str) -> Parts:
    """A small network of the recipe with its initial weights, as it is fine-tuned."""
    recipe = find(name)
    own = {axis: getattr(recipe, axis) for axis in ("architecture", "tokenizer")}
    sets = [
        f"{setting}={value}"
        for setting, value in SHRUNK.items()
        if setting.split(".")[0] in own and getattr(own[setting.split(".")[0]], setting.split(".")[1], None) is not None
    ]
    recipe = settle(recipe, [*sets, f"stages={[[stage.until, 32] for stage in recipe.stages]}"]).recipe
    text = [" ".join(words) for words in WORDS] * 20
    tokenizer = recipe.tokenizer.train(text)
    torch.manual_seed(0)
    model = recipe.architecture.build(tokenizer.vocabulary)
    weights = {f"model.{key}": weight for key, weight in model.state_dict().items()}
    parts = Parts(folder=None, architecture=recipe.architecture, tokenizer=tokenizer, weights=weights)
    return with_task_tokens(without_generator(parts))


@pytest.mark.parametrize("name", READERS)
def test_every_family_is_trained_and_predicts_a_tag_for_every_word(name, tmp_path):
    parts = parts_of(name)
    rows = [(words, tags, "en") for words, tags in zip(WORDS, TAGS, strict=True)]
    rows[1] = (*rows[1][:2], "zh")
    table = Table(path=tmp_path, columns=("tokens", "tags", "intent"), rows=rows, lines=[1, 2, 3])
    vocabulary = parts.tokenizer.vocabulary
    architecture = parts.architecture.for_task(0.0)
    model = architecture.build(parts.vocabulary)
    for kind in ("tag", "slots"):
        read, _ = find_kind(kind)().read(table, Search(), ignore)
        task = find_kind(kind)().learn(read, tmp_path)
        examples = task.frame(read, parts.tokenizer, 48)
        assert max(len(example.inputs) for example in examples) > 1
        network = Network(model, {kind: task.head(architecture, 0.0)}, {kind: 1.0})
        source = LabelledExamples(task, examples, vocabulary, seed=0, heads=frozenset({kind}))
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        losses = []
        for _ in range(3):
            loss = network(source.next(Place(), 3, 48)[0]).losses[kind]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
        assert losses[-1] < losses[0]
        network.eval()
        found = predictions_of(network, task, examples, vocabulary, torch.device("cpu"))
        assert [len(one.tags) for one in found] == [5, 7, 80]
        alone = predictions_of(network, task, examples[:1], vocabulary, torch.device("cpu"))
        assert alone[0].tag_probabilities == pytest.approx(found[0].tag_probabilities, abs=1e-5)  # padding is not read


@pytest.mark.parametrize("name", READERS)
def test_the_tag_of_a_word_depends_on_that_word_and_not_on_another_place(name, tmp_path):
    parts = parts_of(name)
    architecture = parts.architecture.for_task(0.0)
    task = find_kind("tag")(classes=("a", "b"), scheme="plain")
    torch.manual_seed(1)
    network = Network(architecture.build(parts.vocabulary), {"tag": task.head(architecture, 0.0)}, {"tag": 1.0}).eval()
    with torch.no_grad():
        network.heads["tag"].classify.weight.normal_()
    texts = ["the old dog sees it", "the old cat sees it"]
    rows = [task.input_row(text, number, tmp_path) for number, text in enumerate(texts, start=1)]
    examples = task.frame(rows, parts.tokenizer, 48)
    both = predictions_of(network, task, examples, parts.tokenizer.vocabulary, torch.device("cpu"))
    first, second = (
        torch.tensor([p if tag == "a" else 1 - p for tag, p in zip(one.tags, one.tag_probabilities, strict=True)])
        for one in both
    )
    changed = (first - second).abs() > 1e-6
    assert bool(changed[2])
    if architecture.generates == "causal":
        assert not changed[:2].any()  # it reads from left to right
