"""Losses of row heads by hand: weights of classes, smoothed labels, several labels, a number below a sigmoid."""

import math

import pytest
import torch

from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import Batch, Side, States
from plmkit.errors import SettingError
from plmkit.tasks.contract import Row
from plmkit.tasks.heads import ClassHead, LabelsHead, NumberHead, RowHead, SigmoidNumberHead
from plmkit.tasks.kinds.choose import Choose
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.kinds.multilabel import MultiLabel
from plmkit.tasks.kinds.regress import Regress
from plmkit.tasks.kinds.similarity import Similarity
from plmkit.tasks.san import SanHead
from plmkit.tasks.settings import settle_kind

THREE = math.log(3)  # logits of [0, log 3] are probabilities of 1/4 and 3/4


def loss(head: RowHead, labels: list, logits: list[list[float]], fitted: list | None = None) -> float:
    """Of a head whose linear layer passes the pooled states on as logits."""
    pooled = torch.tensor(logits)
    head.eval()
    with torch.no_grad():
        head.classify.weight.copy_(torch.eye(pooled.shape[1])[: len(head.classify.weight)])
        head.classify.bias.zero_()
    if fitted is not None:
        head.fit(lambda: torch.tensor(fitted), lambda: pytest.fail("no states are needed"))
    tokens = torch.zeros(len(pooled), 1, dtype=torch.long)
    side = Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool))
    states = States(hidden=pooled[:, None], pooled=pooled)
    return float(head(states, Batch(source=side, labels=torch.tensor(labels))).detach())


LOGITS = [[0.0, THREE], [0.0, THREE]]  # both rows: 1/4, 3/4


def class_head(**settings) -> ClassHead:
    return ClassHead(width=2, outputs=2, **settings)


def test_each_row_counts_by_the_weight_of_its_class():
    assert loss(class_head(), [0, 1], LOGITS) == pytest.approx((math.log(4) + math.log(4 / 3)) / 2)
    weighed = class_head(class_weights=(3.0, 0.5))
    assert loss(weighed, [0, 1], LOGITS) == pytest.approx((3 * math.log(4) + 0.5 * math.log(4 / 3)) / 2)


def test_balanced_weights_make_all_classes_count_alike():
    head = class_head(class_weights="balanced")
    found = loss(head, [0, 1], LOGITS, fitted=[0, 1, 1, 1])
    assert head.class_weights.tolist() == pytest.approx([2.0, 2 / 3])  # 4 rows / (2 classes × 1 or 3 rows)
    assert found == pytest.approx((2 * math.log(4) + 2 / 3 * math.log(4 / 3)) / 2)


def test_a_part_of_a_batch_with_weights_counts_by_its_rows():
    """As gradient accumulation adds up its parts: no part is divided by its own sum of weights."""
    head = class_head(class_weights=(3.0, 0.5))
    whole = loss(head, [0, 1], LOGITS)
    assert whole == pytest.approx((loss(head, [0], LOGITS[:1]) + loss(head, [1], LOGITS[1:])) / 2)


def test_label_smoothing_spreads_a_share_of_the_target_over_all_classes():
    wanted = 0.9 * math.log(4) + 0.1 * (math.log(4) + math.log(4 / 3)) / 2
    assert loss(class_head(label_smoothing=0.1), [0], LOGITS[:1]) == pytest.approx(wanted)


def test_the_answer_module_of_mt_dnn_has_the_same_loss():
    assert issubclass(SanHead, ClassHead) and SanHead.forward is ClassHead.forward


def labels_head(**settings) -> LabelsHead:
    return LabelsHead(width=2, outputs=2, **settings)


def test_several_labels_are_judged_one_by_one():
    logits = [[0.0, THREE]]  # probabilities 1/2, 3/4
    assert loss(labels_head(), [[1.0, 0.0]], logits) == pytest.approx((math.log(2) + math.log(4)) / 2)
    smooth = (math.log(2) + 0.9 * math.log(4) + 0.1 * math.log(4 / 3)) / 2
    assert loss(labels_head(label_smoothing=0.2), [[1.0, 0.0]], logits) == pytest.approx(smooth)


def test_balanced_labels_count_as_much_as_their_absence():
    head = labels_head(class_weights="balanced")
    rows = [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    found = loss(head, [[1.0, 0.0]], [[0.0, THREE]], fitted=rows)
    assert head.class_weights.tolist() == [3.0, 1.0]  # rows without the label / rows with it
    assert found == pytest.approx((3 * math.log(2) + math.log(4)) / 2)


def test_a_number_is_linear_with_a_squared_error_and_below_a_sigmoid_if_wanted():
    linear = NumberHead(width=1)
    assert loss(linear, [2.0], [[0.5]]) == pytest.approx(1.5**2)
    bounded = SigmoidNumberHead(width=1)
    found = loss(bounded, [5.0, 1.0], [[THREE], [THREE]], fitted=[1.0, 3.0, 5.0])  # 3/4 of the way from 1 to 5
    assert found == pytest.approx((0.25**2 + 0.75**2) / 2)
    pooled = torch.tensor([[THREE], [100.0], [-100.0]])
    answers = bounded.answers(States(hidden=pooled[:, None], pooled=pooled), Batch(source=side_of(3)))
    assert answers.squeeze(1).tolist() == pytest.approx([4.0, 5.0, 1.0])
    for kind in (Regress, Similarity):
        assert (kind().sigmoid, kind().refusal, kind().has_linear_model) == (False, None, True)
        assert kind(sigmoid=True).has_linear_model is False
    assert "no sigmoid" in (Regress(sigmoid=True).refusal or "")


def test_of_choices_the_share_goes_to_those_that_an_example_has():
    """Three choices of 1/4, 1/4 and 1/2, and two of 1/4 and 3/4."""
    two = math.log(2)
    hidden = torch.tensor([0.0, 0.0, two, 0.0, THREE])[:, None, None]
    batch = Batch(source=side_of(5), alternatives=torch.tensor([0, 0, 0, 1, 1]), labels=torch.tensor([2, 0]))
    head, _ = settle_kind(Choose(), ["task.label_smoothing=0.3"])
    made = head.head(Encoder(layers=1, heads=1, width=1, inner=1), 0.0)
    with torch.no_grad():
        made.classify.weight.fill_(1.0)
        made.classify.bias.zero_()
    plain = (math.log(2) + math.log(4)) / 2
    spread = ((math.log(4) + math.log(4) + math.log(2)) / 3 + (math.log(4) + math.log(4 / 3)) / 2) / 2
    assert made(States(hidden=hidden, pooled=hidden[:, 0]), batch).item() == pytest.approx(0.7 * plain + 0.3 * spread)
    made.label_smoothing = 0.0
    assert made(States(hidden=hidden, pooled=hidden[:, 0]), batch).item() == pytest.approx(plain)


def side_of(rows: int) -> Side:
    return Side(tokens=torch.zeros(rows, 1, dtype=torch.long), visible=torch.ones(rows, 1, dtype=torch.bool))


# Settings


def test_weights_are_a_word_or_one_number_for_each_class(tmp_path):
    kind, _ = settle_kind(Classify(), ["task.class_weights=[1, 2.5]", "task.label_smoothing=0.1"])
    assert (kind.class_weights, kind.label_smoothing) == ((1.0, 2.5), 0.1)
    assert settle_kind(MultiLabel(), ["task.class_weights=balanced"])[0].class_weights == "balanced"
    assert settle_kind(MultiLabel(), ["task.class_weights=none"])[0].class_weights is None
    rows = [Row(text="a", label=label, line=2) for label in "xyz"]
    with pytest.raises(SettingError, match=r"has 2 numbers, but there are 3 classes.* in this order: x, y, z\."):
        kind.learn(rows, tmp_path / "a.tsv")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("task.class_weights=balance", "takes balanced, none, or a JSON list of numbers; found 'balance'"),
        ("task.class_weights=[1, 0]", "must be above 0"),
        ("task.label_smoothing=1", "at least 0 and below 1; found 1"),
        ("task.long=window", "task.long takes cut, windows, windows_max; found 'window'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(setting, said):
    with pytest.raises(SettingError, match=said.replace("[", r"\[")):
        settle_kind(Classify(), [setting])


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (Regress, "task.class_weights=balanced"),
        (Regress, "task.label_smoothing=0.1"),
        (Choose, "task.class_weights=balanced"),
    ],
)
def test_kinds_without_classes_refuse_what_would_have_no_effect(kind, setting):
    with pytest.raises(SettingError, match=r"is a setting of --task classify, multilabel.* has no effect on --task"):
        settle_kind(kind(), [setting])


def test_one_label_per_row_is_not_a_list(tmp_path, plm, pretrained):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "labels": "x"}\n{"text": "b", "labels": ["x", "y"]}\n')
    ran = plm("finetune", pretrained, "--task", "classify", "--train", tmp_path / "a.jsonl", "--out", tmp_path / "out")
    assert ran.code == 2
    assert f"{tmp_path / 'a.jsonl'}, line 2: the label is a list, but this task reads one label per row." in ran.err
    assert "--task multilabel" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_sigmoid_over_equal_numbers_has_a_finite_loss():
    head = SigmoidNumberHead(width=1)
    head.fit(lambda: torch.tensor([2.0, 2.0]), lambda: pytest.fail("no states are needed"))
    assert (head.lowest.item(), head.highest.item()) == (2.0, 3.0)
