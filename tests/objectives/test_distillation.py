"""What a teacher teaches: exact losses, equal networks at zero, no gradient in the teacher."""

import copy
from dataclasses import replace

import pytest
import torch

from plmkit.architectures.decoder import Decoder
from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.distillation.initial import every_nth, from_teacher
from plmkit.distillation.methods import METHODS, distilled
from plmkit.distillation.teacher import NetworkTeacher, shape_of
from plmkit.errors import SettingError
from plmkit.kernels.soft_targets import chunked_soft_loss, plain_soft_loss, soft_divergence
from plmkit.network import Network
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.distillation import SoftTargets, soft_answers, soft_binary
from plmkit.objectives.distillation_states import (
    AttentionMatching,
    CosineStates,
    HiddenMatching,
    RelationMatching,
    checked_map,
    layer_map,
    relation_error,
    score_error,
)
from plmkit.objectives.masked_lm import MaskedLM

TOKENS = 23
STATES = (CosineStates, HiddenMatching, AttentionMatching, RelationMatching)


def encoder(layers: int = 2, width: int = 16, heads: int = 4) -> Encoder:
    return Encoder(
        layers=layers, heads=heads, width=width, inner=24, max_length=12, dropout=0.0, attention_dropout=0.0,
        activation="gelu",
    )  # fmt: skip


def network_of(architecture, objectives, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    model = architecture.build(unnamed(TOKENS))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    heads = {one.name: one.build(model) for one in objectives}
    return Network(model, heads, {one.name: one.weight for one in objectives})


def some_rows(*, every: bool = False) -> Batch:
    torch.manual_seed(1)
    visible = torch.arange(10) < torch.tensor([[10], [7], [3]])
    asked = visible if every else visible & (torch.arange(10) % 3 == 1)
    tokens = torch.randint(1, TOKENS, visible.shape)
    return Batch(
        source=Side(tokens=tokens, visible=visible), targets=tokens.masked_fill(~asked, IGNORE),
    )  # fmt: skip


def taught(student: Network, teacher: Network, *, causal: bool = False) -> Network:
    student.teacher = NetworkTeacher(teacher.eval().requires_grad_(False), causal)
    return student


def test_soft_targets_of_the_worked_example():
    """Teacher (2, 0), student (1, 0), T = 2."""
    found = soft_divergence(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]]), 2.0)
    assert float(found) == pytest.approx(0.105379, abs=1e-6)
    answers = soft_answers(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]]), 2.0)
    shares = torch.tensor([2.0, 0.0]).div(2).softmax(0)
    assert float(answers) == pytest.approx(0.105379 - 4 * float((shares * shares.log()).sum()), abs=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_the_loss_in_chunks_is_the_plain_one_with_its_gradients(monkeypatch, bias):
    monkeypatch.setattr("plmkit.kernels.soft_targets.NUMBERS_AT_ONCE", 2 * 16 * 50)  # 16 rows at once
    torch.manual_seed(0)
    hidden, table, theirs, their_table = (torch.randn(*shape) for shape in ((40, 6), (50, 6), (40, 9), (50, 9)))
    biases = [torch.randn(50), torch.randn(50)] if bias else [None, None]
    made = []
    for loss in (chunked_soft_loss, plain_soft_loss):
        own = [part.clone().requires_grad_() for part in (hidden, table, *([biases[0]] if bias else []))]
        found = loss((own[0], own[1], own[2] if bias else None), (theirs, their_table, biases[1]), 2.0)
        found.mul(3).backward()
        made.append([found.detach(), *(part.grad for part in own)])
    for ours, wanted in zip(*made, strict=True):
        torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("positions", ["predicted", "all"])
def test_both_ways_to_compute_soft_targets_agree(monkeypatch, positions):
    """Logits that are shared with the masked LM, and chunks that are not."""
    objectives = (MaskedLM(), SoftTargets(positions=positions))
    found = []
    for most in (1 << 26, 0):
        monkeypatch.setattr("plmkit.objectives.distillation.SHARED_NUMBERS", most)
        student = taught(network_of(encoder(), objectives), network_of(encoder(3, 24), (MaskedLM(),), seed=5))
        sum(student(some_rows()).weighted.values()).backward()
        found.append({name: weight.grad for name, weight in student.named_parameters()})
    for name, gradient in found[0].items():
        if gradient is not None:
            torch.testing.assert_close(gradient, found[1][name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_every_loss_is_zero_where_the_student_is_its_teacher(mode):
    objectives = (MaskedLM(), SoftTargets(positions="all"), *(kind() for kind in STATES))
    student = network_of(encoder(), objectives)
    taught(student, copy.deepcopy(student))
    losses = getattr(student, mode)()(some_rows()).losses
    assert losses.keys() == {one.name for one in objectives}
    assert losses.pop("masked_lm").item() > 0.1
    assert {name: loss.item() for name, loss in losses.items()} == pytest.approx(dict.fromkeys(losses, 0.0), abs=1e-6)


def test_another_teacher_makes_every_loss_positive():
    shape = shape_of(encoder(4, 24))
    objectives = (MaskedLM(), SoftTargets(), *(kind(**shape) for kind in STATES))
    student = taught(network_of(encoder(), objectives), network_of(encoder(4, 24), (MaskedLM(),), seed=3))
    losses = student(some_rows()).losses
    assert all(loss.item() > 1e-3 for loss in losses.values()), losses


def test_the_teacher_gets_no_gradient_and_is_no_part_of_the_student():
    shape = shape_of(encoder(4, 24))
    objectives = (MaskedLM(), SoftTargets(), *(kind(**shape) for kind in STATES))
    teacher = network_of(encoder(4, 24), (MaskedLM(),), seed=3)
    student = network_of(encoder(), objectives)
    names = set(student.state_dict())
    taught(student, teacher)
    before = copy.deepcopy(teacher.state_dict())
    sum(student(some_rows()).weighted.values()).backward()
    assert all(weight.grad is None for weight in teacher.parameters())
    assert set(student.state_dict()) == names
    assert all(torch.equal(before[name], weight) for name, weight in teacher.state_dict().items())
    moved = {name for name, weight in student.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert {"heads.hidden_matching.map.weight", "heads.cosine_states.map.weight"} <= moved
    assert "model.blocks.0.attention.query_key_value.weight" in moved


def test_padding_has_no_part_in_any_loss():
    """Other tokens where there is padding change nothing."""
    shape = shape_of(encoder(4, 24))
    objectives = (MaskedLM(), SoftTargets(positions="all"), *(kind(**shape) for kind in STATES))
    student = taught(network_of(encoder(), objectives), network_of(encoder(4, 24), (MaskedLM(),), seed=3))
    rows = some_rows()
    other = rows.source.tokens.where(rows.source.visible, (rows.source.tokens + 3) % TOKENS)
    first = student(rows).losses
    again = student(Batch(source=Side(tokens=other, visible=rows.source.visible), targets=rows.targets)).losses
    assert {name: one.item() for name, one in first.items()} == {name: one.item() for name, one in again.items()}


def test_a_decoder_is_taught_by_a_decoder_along_its_causal_mask():
    def decoder(layers: int, width: int) -> Decoder:
        return Decoder(layers=layers, heads=4, width=width, inner=24, max_length=12, dropout=0.0, attention_dropout=0.0)

    shape = shape_of(decoder(4, 24))
    objectives = (CausalLM(), SoftTargets(), *(kind(**shape) for kind in STATES[1:]))
    student = network_of(decoder(2, 16), objectives)
    taught(student, network_of(decoder(4, 24), (CausalLM(),), seed=3), causal=True)
    losses = student(some_rows(every=True)).losses
    assert all(torch.isfinite(loss) and loss.item() > 1e-3 for loss in losses.values()), losses
    same = network_of(decoder(2, 16), (CausalLM(), SoftTargets(), RelationMatching(), AttentionMatching()))
    taught(same, copy.deepcopy(same), causal=True)
    losses = {name: loss.item() for name, loss in same(some_rows(every=True)).losses.items() if name != "causal_lm"}
    assert losses == pytest.approx(dict.fromkeys(losses, 0.0), abs=1e-6)
    assert len(losses) == 3


def test_layer_maps_by_eye():
    assert layer_map(4, 12) == (3, 6, 9, 12)
    assert layer_map(6, 12) == (2, 4, 6, 8, 10, 12)
    assert layer_map(3, 4) == (1, 2, 4)
    assert every_nth(6, 12) == (1, 3, 5, 7, 9, 11)
    assert checked_map((1, 12), 2, 12, "x") == (1, 12)
    with pytest.raises(SettingError, match=r"from 1 to 12, for each of the student's 2 layers; found \[0, 12\]"):
        checked_map((0, 12), 2, 12, "x")


def test_scores_of_masked_positions_count_as_equal():
    pairs = torch.tensor([[[[True, True], [True, True]]]])
    ours = torch.tensor([[[[1.0, -1e4], [2.0, 0.0]]]])
    theirs = torch.tensor([[[[1.0, -3e4], [4.0, 0.0]]]])
    assert float(score_error(ours, theirs, pairs)) == pytest.approx(4.0 / 4)


def test_relations_by_eye():
    """One query with two keys: shares (1/2, 1/2) against (1/3, 2/3)."""
    pairs = torch.ones(1, 1, 1, 2, dtype=torch.bool)
    ours, theirs = torch.zeros(1, 1, 1, 2), torch.tensor([[[[0.0, 0.693147]]]])
    wanted = 1 / 3 * torch.tensor(2 / 3).log() + 2 / 3 * torch.tensor(4 / 3).log()
    assert float(relation_error(ours, theirs, pairs)) == pytest.approx(float(wanted), abs=1e-6)


def test_several_classes_are_compared_one_by_one():
    zero = soft_binary(torch.zeros(1, 2), torch.zeros(1, 2), 1.0)
    assert float(zero) == pytest.approx(0.693147, abs=1e-6)  # the entropy of 1/2, which no student can be below


def test_heads_of_other_numbers_are_refused_for_attention_and_cut_anew_for_relations():
    student = encoder(2, 16, heads=2).build(unnamed(TOKENS))
    with pytest.raises(SettingError, match=r"student has 2 heads per layer and the teacher 4.*--method minilm"):
        AttentionMatching(teacher_heads=4).build(student)
    assert RelationMatching(teacher_heads=4).build(student).heads == 4
    with pytest.raises(SettingError, match="relation_heads=3 must divide the widths"):
        RelationMatching(relation_heads=3).build(student)


def test_a_loss_that_is_over_is_left_out_with_what_it_reads():
    student = network_of(encoder(), (MaskedLM(), HiddenMatching(until=0.5)))
    taught(student, copy.deepcopy(student))
    student.advance(0.4)
    assert set(student(some_rows()).losses) == {"masked_lm", "hidden_matching"}
    student.advance(0.5)
    student.teacher = None  # nobody asks it any more
    assert set(student(some_rows()).losses) == {"masked_lm"}


def test_the_student_starts_from_chosen_layers_of_its_teacher():
    teacher, student = (encoder(layers).build(unnamed(TOKENS)) for layers in (4, 2))
    theirs = {f"model.{name}": weight for name, weight in teacher.state_dict().items()}
    own = {f"model.{name}": weight for name, weight in student.state_dict().items()}
    made = from_teacher(own, theirs, (1, 3))
    assert made.keys() == own.keys()
    name = "attention.query_key_value.weight"
    assert torch.equal(made[f"model.blocks.1.{name}"], theirs[f"model.blocks.2.{name}"])
    wider = {f"model.{name}": weight for name, weight in encoder(4, 24).build(unnamed(TOKENS)).state_dict().items()}
    assert from_teacher(own, wider, (1, 3)) is None


def test_only_streams_with_tokens_to_predict_teach_a_student():
    """Of the seven tasks of ERNIE 2, one."""
    made = distilled(find("ernie2-tiny"), "soft", shape_of(encoder()))
    assert [stream.name for stream in made.streams] == ["knowledge"]
    assert [stream.name for stream in distilled(find("ernie-mini"), "soft", shape_of(encoder())).streams] == [
        "character", "phrase", "entity",
    ]  # fmt: skip


def test_a_recurrent_teacher_does_not_read_the_memory_of_its_student():
    settings = replace(find("lstm-tiny").architecture, width=16)
    teacher = NetworkTeacher(network_of(settings, (CausalLM(),)).eval(), True)
    rows = some_rows(every=True)
    memory = teacher.network.model(rows).memory
    assert memory is not None
    first, again = (teacher.observe(given, frozenset({"predicted"})) for given in (rows, replace(rows, memory=memory)))
    assert torch.equal(first.output, again.output)


def test_rows_of_the_embedding_that_belong_to_no_token_are_left_out():
    """A published embedding may have more rows than there are tokens."""
    objectives = (MaskedLM(), SoftTargets())
    student = network_of(encoder(), objectives)
    torch.manual_seed(0)
    model = encoder().build(unnamed(TOKENS + 5))
    wider = Network(model, {one.name: one.build(model) for one in objectives}, dict.fromkeys(["masked_lm"], 1.0))
    with torch.no_grad():
        for name, weight in wider.named_parameters():
            own = dict(student.named_parameters())[name]
            weight[: len(own)] = own
    wider.weights = student.weights
    rows = some_rows()
    assert taught(student, wider)(rows).losses["soft_targets"].item() == pytest.approx(0.0, abs=1e-6)
    student.teacher = None
    assert taught(wider, student)(rows).losses["soft_targets"].item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_methods_are_the_papers(method):
    made = distilled(find("bert-mini"), method, shape_of(find("bert-base").architecture)).objectives
    weights = {one.name: one.weight for one in made}
    assert (
        weights
        == {
            "distilbert": {"masked_lm": 2.0, "soft_targets": 5.0, "cosine_states": 1.0},
            "tinybert": {"hidden_matching": 1.0, "attention_matching": 1.0},
            "minilm": {"relation_matching": 1.0},
            "soft": {"masked_lm": 1.0, "soft_targets": 1.0},
        }[method]
    )
    if method == "distilbert":
        assert (made[1].temperature, made[1].positions) == (2.0, "all")
