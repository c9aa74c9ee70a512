"""Which states a head reads: those of the tokens, or one per row; and that one encoder is below all heads."""

from dataclasses import replace

import pytest
import torch
from test_task_contract import table_of

from plmkit.data.reading.columns import Search, ignore
from plmkit.data.samples import Place
from plmkit.inference.loading import read_parts
from plmkit.tasks.batches import LabelledExamples
from plmkit.tasks.registry import KINDS, find_kind
from plmkit.tasks.seed_run import build
from plmkit.tasks.settings import TaskSettings

LEVELS = {"tag": {"token"}, "qa": {"token"}, "slots": {"sequence", "token"}}  # all others: sequence


@pytest.fixture(scope="module")
def parts(pretrained):
    return read_parts(pretrained)


def task_of(kind: str, folder):
    table, path = table_of(kind, folder)
    rows, columns = find_kind(kind)().read(table, Search(), ignore)
    return replace(find_kind(kind)(), columns=columns, length=32, pooling="first").learn(rows, path), rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_reads_the_states_of_its_level(kind, parts, tmp_path):
    task, rows = task_of(kind, tmp_path)
    assert task.levels == LEVELS.get(kind, {"sequence"})
    vocabulary = parts.tokenizer.vocabulary
    examples = task.frame(rows, parts.tokenizer, task.length)
    batch, _ = LabelledExamples(task, examples, vocabulary, seed=0).next(Place(), 64, 0)
    states = parts.architecture.build(parts.vocabulary).eval()(batch)
    states = replace(
        states, hidden=states.hidden.detach().requires_grad_(), pooled=states.pooled.detach().requires_grad_()
    )
    head = task.head(parts.architecture, 0.0)
    head(states, batch).backward()
    pooled = states.pooled.grad is not None and bool(states.pooled.grad.any())
    hidden = torch.zeros_like(batch.source.visible) if states.hidden.grad is None else states.hidden.grad.any(2)
    if kind == "match":  # its vectors are those of plm embed, which reads the first state without the pooler
        assert (pooled, hidden[:, 0].all(), hidden[:, 1:].any()) == (False, True, False)
        return
    assert pooled == ("sequence" in task.levels)
    assert bool(hidden[:, 1:].any()) == ("token" in task.levels)


@pytest.mark.parametrize("kind", KINDS)
def test_one_encoder_is_below_every_head_unchanged(kind, parts, tmp_path):
    task, _ = task_of(kind, tmp_path)
    network = build(TaskSettings().settled(parts.architecture, parts.tuning), parts, [task], seed=0)
    assert type(network.model) is type(parts.architecture.build(parts.vocabulary))
    own = {f"model.{name}": weight for name, weight in network.model.state_dict().items()}
    before = {name: weight for name, weight in parts.weights.items() if name.startswith("model.")}
    assert own.keys() == before.keys()
    assert all(torch.equal(own[name], before[name]) for name in own)


def test_a_tagger_has_one_layer_for_all_positions_whatever_the_length(parts, tmp_path):
    task, _ = task_of("tag", tmp_path)
    sizes = {
        length: sum(weight.numel() for weight in replace(task, length=length).head(parts.architecture).parameters())
        for length in (8, 64)
    }
    width, tags = parts.architecture.width, len(task.classes)
    assert sizes == {8: (width + 1) * tags, 64: (width + 1) * tags}
