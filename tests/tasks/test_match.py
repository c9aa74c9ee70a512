"""Matching: vectors whose cosine says whether texts match, from scores, from 0 and 1, or from pairs alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import plmkit
from plmkit.data.reading.columns import Search, ignore
from plmkit.data.reading.whole import read_table
from plmkit.errors import SettingError
from plmkit.tasks.contract import Row
from plmkit.tasks.kinds.match import BINARY, GRADED, PAIRS, Match, form_of
from plmkit.tasks.match_head import LOSSES, among_negatives
from plmkit.tasks.match_scores import best_threshold, binary_scores, graded_scores, partner_scores

SENTENCES = [
    "the cat sees a house.", "a dog hears the sea.", "the old man paints a red car.", "my friend sings a song.",
    "the king reads a book.", "a bird finds the moon.",
]  # fmt: skip
TWINS = [text.replace("a ", "the ") for text in SENTENCES]


def write(path: Path, labels: list[object] | None) -> Path:
    header = "text_a\ttext_b" + ("" if labels is None else "\tlabel")
    rows = [f"{a}\t{b}" for a, b in zip(SENTENCES, TWINS, strict=True)]
    lines = rows if labels is None else [f"{row}\t{label}" for row, label in zip(rows, labels, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def tune(pretrained, train, out, *more):
    return ("finetune", pretrained, "--task", "match", "--train", train, "--dev", train, "--out", out,
            "--epochs", 1, "--set", "run.threads=1", "--set", "task.length=48", *more)  # fmt: skip


# labels


@pytest.mark.parametrize(
    ("labels", "form"), [([1.0, 0.0], BINARY), ([0.0, 0.0], BINARY), ([1.0, 1.0], PAIRS), ([0.0, 0.5, 1.0], GRADED)]
)
def test_what_labels_are_is_seen_from_them(labels, form):
    assert form_of([Row(text="a", other="b", label=label, line=1) for label in labels]) == form


def test_without_a_column_of_labels_all_pairs_match(tmp_path):
    rows, columns = Match().read(read_table(write(tmp_path / "p.tsv", None)), Search(), ignore)
    assert ({row.label for row in rows}, columns.label) == ({1.0}, None)
    task = Match().learn(rows, tmp_path / "p.tsv")
    assert (task.form, task.settled_loss) == (PAIRS, "negatives")
    assert task.describe(rows).endswith("the other texts of a batch are the negatives (task.loss=negatives)")


def test_scores_are_trained_on_from_0_to_1(tmp_path):
    rows, _ = Match().read(read_table(write(tmp_path / "p.tsv", [1, 2, 3, 4, 5, 3])), Search(), ignore)
    task = Match().learn(rows, tmp_path / "p.tsv")
    assert [task.target(row) for row in rows] == [0, 0.25, 0.5, 0.75, 1, 0.5]
    assert task.meaning(0.75) == 4.0
    assert task.describe(rows) == "scores from 1 to 5 (task.loss=mse)"


@pytest.mark.parametrize(
    ("labels", "more", "message"),
    [
        (["yes", "no"] * 3, (), "line 2: label 'yes' is not a number"),
        ([0] * 6, (), "all 6 rows"),
        ([3] * 6, (), "all 6 rows"),
        ([1, 2] * 3, ("--set", "task.loss=contrastive"), "with scores as labels, it takes mse, cosent"),
        (None, ("--set", "task.loss=mse"), "with pairs that all match, it takes negatives"),
        (None, ("--set", "task.loss=hinge"), "task.loss takes auto, mse"),
        (None, ("--set", "task.scale=0"), "task.scale must be above 0"),
        (None, ("--set", "task.pooling=concat"), "task.pooling takes first, mean or max"),
        (None, ("--set", "run.micro_batch=2"), "compares all pairs of a batch"),
        (None, ("--set", "task.frozen=true"), "task.frozen leaves nothing to train"),
    ],
)
def test_what_cannot_be_trained_is_refused(labels, more, message, plm, pretrained, tmp_path):
    ran = plm(*tune(pretrained, write(tmp_path / "p.tsv", labels), tmp_path / "out", *more))
    assert (ran.code, message in ran.err) == (2, True), ran.err


# losses


def test_losses_are_those_written_down():
    cosines, labels = torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1.0, 0.0, 0.0])
    found = {name: float(loss(cosines, labels, 10.0)) for name, loss in LOSSES.items()}
    assert found["mse"] == pytest.approx((0.1**2 + 0.2**2 + 0.7**2) / 3)
    assert found["contrastive"] == pytest.approx(0.5 * (0.1**2 + 0 + 0.2**2) / 3, abs=1e-6)
    assert found["cosent"] == pytest.approx(np.log(1 + np.exp(-7) + np.exp(-2)), rel=1e-4)
    sigmoid = 1 / (1 + np.exp(-10 * (np.array([0.9, 0.2, 0.7]) - 0.5)))
    assert found["logistic"] == pytest.approx(-np.log([sigmoid[0], 1 - sigmoid[1], 1 - sigmoid[2]]).mean(), rel=1e-4)


def test_a_batch_of_one_label_has_no_cosent_loss():
    cosines = torch.tensor([0.9, 0.2], requires_grad=True)
    loss = LOSSES["cosent"](cosines, torch.ones(2), 20.0)
    loss.backward()
    assert (loss.item(), cosines.grad.tolist()) == (0.0, [0.0, 0.0])


def test_the_negatives_are_the_texts_of_other_pairs_in_both_directions():
    torch.manual_seed(0)
    first, second = (F.normalize(torch.randn(3, 4), dim=-1) for _ in range(2))
    different = torch.arange(6).view(3, 2)
    logits, right = 20 * first @ second.T, torch.arange(3)
    wanted = (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2
    torch.testing.assert_close(among_negatives(first, second, different, 20.0), wanted)


def test_a_text_that_is_known_to_match_is_no_negative():
    first = F.normalize(torch.randn(2, 4), dim=-1)
    same_partner = torch.tensor([[0, 9], [1, 9]])
    assert float(among_negatives(first, first[[0, 0]], same_partner, 20.0)) == 0.0
    same_text = torch.tensor([[7, 0], [7, 1]])
    assert float(among_negatives(first[[0, 0]], first, same_text, 20.0)) == 0.0


# scores


def test_the_threshold_is_the_one_with_the_highest_accuracy():
    cosines, labels = np.array([0.1, 0.4, 0.6, 0.8, 0.9]), np.array([0, 1, 0, 1, 1])
    assert best_threshold(cosines, labels) == pytest.approx(0.25)  # one mistake; 0.7 has one too
    assert best_threshold(np.array([0.2, 0.5]), np.array([1, 1])) < 0.2
    assert best_threshold(np.array([0.2, 0.5]), np.array([0, 0])) > 0.5
    assert best_threshold(np.array([0.5, 0.5, 0.5]), np.array([0, 0, 1])) > 0.5  # equal cosines stay together
    assert binary_scores(cosines, labels, 0.25)["accuracy"] == 0.8


def test_average_precision_and_correlation_need_no_threshold():
    cosines, labels = np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1])
    assert binary_scores(cosines, labels, 0.0)["ap"] == pytest.approx((1 + 2 / 3) / 2)
    assert graded_scores(cosines, np.array([5, 4, 1]))["spearman"] == pytest.approx(1.0)


def test_partners_are_looked_for_among_all_second_texts():
    texts, others = ["a", "b", "a"], ["x", "y", "z"]
    scores = np.array([[0.9, 0.1, 0.3], [0.8, 0.5, 0.2]])  # of a and b with x, y and z
    found = partner_scores(lambda some: scores[some], texts, others)
    # x and z, both partners of a, do not count against each other: both first; y is second to x
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert (found["recall_at_1"], found["recall_at_10"], found["texts"]) == (pytest.approx(2 / 3), 1.0, 3)


# runs


@pytest.fixture(scope="module")
def matched(made, pretrained):
    """A model that was trained on labels 0 and 1."""
    train = write(made / "match.tsv", [1, 0] * 3)
    plmkit.finetune(
        pretrained, "match", train, made / "matched", dev=train, epochs=1,
        settings={"task.length": 48, "run.threads": 1}, quiet=True,
    )  # fmt: skip
    return made / "matched", train


def test_embed_gives_the_vectors_whose_cosine_is_predicted(matched):
    model = plmkit.load(matched[0], device="cpu")
    pairs = list(zip(SENTENCES, TWINS, strict=True))
    first, second = model.embed(SENTENCES), model.embed(TWINS)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1.0, atol=1e-5)
    found = model.predict(pairs)
    np.testing.assert_allclose((first * second).sum(1), [one.cosine for one in found], atol=1e-5)
    assert [one.label for one in found] == [float(one.cosine >= model.tasks["match"].threshold) for one in found]


def test_the_threshold_of_dev_is_kept_and_a_finished_run_is_known_again(matched, plm, pretrained):
    folder, train = matched
    threshold = plmkit.load(folder, device="cpu").tasks["match"].threshold
    scores = json.loads((folder / "scores.json").read_text())
    assert threshold == scores["dev"]["threshold"] != Match().threshold
    assert plm("evaluate", folder, train, "--json").json["accuracy"] == scores["dev"]["accuracy"]
    ran = plm(*tune(pretrained, train, folder))
    assert (ran.code, "holds this fine-tuning, finished" in ran.err) == (0, True), ran.err
    found = [line.split("\t")[-2:] for line in plm("predict", folder, train).out.splitlines()]
    assert found[0] == ["prediction", "cosine"]
    assert {label for label, _ in found[1:]} <= {"0", "1"}


@pytest.mark.filterwarnings("default::DeprecationWarning", "default::FutureWarning")
def test_an_export_gives_the_same_vectors_in_sentence_transformers(matched, plm, tmp_path):
    from sentence_transformers import SentenceTransformer

    assert plm("export", matched[0], tmp_path / "hub", "--quiet").code == 0
    theirs = SentenceTransformer(str(tmp_path / "hub"), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(theirs, plmkit.load(matched[0], device="cpu").embed(SENTENCES), atol=1e-5)
    again = plmkit.load(tmp_path / "hub", device="cpu")
    np.testing.assert_allclose(again.embed(SENTENCES), theirs, atol=1e-5)


def test_pairs_alone_are_trained_and_their_partners_found(plm, pretrained, tmp_path):
    train = write(tmp_path / "p.tsv", None)
    ran = plm(*tune(pretrained, train, tmp_path / "out", "--json"))
    assert ran.code == 0, ran.err
    assert "all of which match; the other texts of a batch are the negatives (task.loss=negatives)" in ran.err
    assert {"mrr", "recall_at_1", "recall_at_10"} < ran.json["dev"].keys()
    assert (ran.json["baseline"]["dev"]["measure"], ran.json["dev"]["texts"]) == ("mrr", 6)
    graded = write(tmp_path / "graded.tsv", [1, 2, 3, 4, 5, 3])
    assert "spearman" in plm("evaluate", tmp_path / "out", graded, "--json").json


@pytest.mark.parametrize("pooling", ["first", "max"])
def test_other_poolings_are_those_of_embed_too(pooling, pretrained, tmp_path):
    train = write(tmp_path / "p.tsv", [1, 2, 3, 4, 5, 3])
    settings = {"task.length": 48, "task.pooling": pooling, "run.threads": 1}
    model = plmkit.finetune(pretrained, "match", train, tmp_path / "out", epochs=1, settings=settings, quiet=True)
    first, second = model.embed([SENTENCES[0], TWINS[0]])
    assert float(first @ second) == pytest.approx(model.predict([(SENTENCES[0], TWINS[0])])[0].cosine, abs=1e-5)


def test_pooling_is_recorded_as_the_kind_has_it(matched, finetuned):
    for folder, pooling in ((matched[0], "mean"), (finetuned, "first")):
        about = json.loads((folder / "run.json").read_text())
        assert (about["task"]["pooling"], about["tasks"][0]["pooling"]) == (pooling, pooling)


def test_concatenated_states_are_no_vector_of_one_width():
    with pytest.raises(SettingError, match="found 'concat'"):
        Match(pooling="concat")


def test_of_a_text_without_a_partner_the_vector_is_explained(matched):
    found = plmkit.load(matched[0], device="cpu").attend(SENTENCES[0])
    assert found.attribution.output == "length of the sentence vector"
