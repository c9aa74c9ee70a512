"""Fine-tuning as GPT-1 does it: tokens around the texts, an auxiliary language model, both orders, choices."""

import json
from dataclasses import replace

import pytest
import torch

import plmkit
from plmkit.architectures.decoder import PostNormDecoder
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.vocabulary import unnamed
from plmkit.inference.loading import read_parts
from plmkit.network import Network
from plmkit.tasks.batches import batch_of_examples, next_tokens
from plmkit.tasks.contract import Row
from plmkit.tasks.framing import batch_of, frame_all
from plmkit.tasks.gpt_finetuning import RowLM, with_task_tokens
from plmkit.tasks.heads import ChoiceHead, NumberHead, RowHead
from plmkit.tasks.registry import find_kind
from plmkit.tasks.seed_run import build
from plmkit.tasks.settings import TaskSettings
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

SMALL = (
    "stages=[[1.0, 32]]", "architecture.max_length=48", "architecture.layers=2", "architecture.heads=2",
    "architecture.width=32", "architecture.inner=128", "tokenizer.size=300", "run.threads=1",
    "schedule.learning_rate=3e-3",
)  # fmt: skip


@pytest.fixture(scope="module")
def gpt1(made, mixed_corpus):
    out = made / "gpt1"
    settings = settle(find("gpt1-tiny"), SMALL)
    pretrain(
        PretrainRequest(settings=settings, corpora=(str(mixed_corpus),), out=out, budget=Budget(steps=60)), Screen()
    )
    return out


@pytest.fixture(scope="module")
def parts(gpt1):
    return with_task_tokens(read_parts(gpt1))


def examples(parts, kind: str, *rows: Row):
    return find_kind(kind)().frame(rows, parts.tokenizer, 40)


def names(parts, text: str, other: str | None = None, kind: str = "classify", choices=()) -> list[list[str]]:
    (made,) = examples(parts, kind, Row(text=text, other=other, choices=choices, line=1))
    return [parts.tokenizer.vocabulary.names(framed.tokens) for framed in made.inputs]


NEEDY = "If you help the needy, God will reward you."  # PASCAL RTE's usual example of positive entailment
GIVING = "Giving money to a poor man has good consequences."


def test_entailment_is_framed_as_start_premise_delimiter_hypothesis_extract_with_three_answers(parts):
    premise, hypothesis = (parts.tokenizer.vocabulary.names(parts.tokenizer.encode(text)) for text in (NEEDY, GIVING))
    (made,) = find_kind("nli")().frame([Row(text=NEEDY, other=GIVING, line=1)], parts.tokenizer, 400)
    (framed,) = made.inputs
    assert parts.tokenizer.vocabulary.names(framed.tokens) == [
        "_start_", *premise, "_delimiter_", *hypothesis, "_classify_"
    ]  # fmt: skip
    task = find_kind("nli")(classes=("contradiction", "entailment", "neutral"))
    batch = batch_of_examples([made], parts.tokenizer.vocabulary)
    head = task.head(parts.architecture)
    pooled = torch.zeros(1, parts.architecture.width)
    answers = head.answers(States(hidden=pooled[:, None], pooled=pooled), batch)
    assert answers.shape == (1, 3)
    assert task.decide(answers, [made])[0].probabilities.keys() == set(task.classes)


# the frame


def test_a_text_is_framed_by_start_and_extract(parts):
    assert names(parts, "the cat.") == [["_start_", "the</w>", "cat</w>", ".</w>", "_classify_"]]


def test_premise_and_hypothesis_are_separated_by_the_delimiter(parts):
    wanted = ["_start_", "the</w>", "cat</w>", "_delimiter_", "the</w>", "dog</w>", "_classify_"]
    assert names(parts, "the cat", "the dog", "nli") == [wanted]


def test_similar_texts_are_read_in_both_orders(parts):
    forth, back = names(parts, "the cat", "the dog", "paraphrase")
    assert forth == ["_start_", "the</w>", "cat</w>", "_delimiter_", "the</w>", "dog</w>", "_classify_"]
    assert back == ["_start_", "the</w>", "dog</w>", "_delimiter_", "the</w>", "cat</w>", "_classify_"]


def test_every_choice_is_a_row_of_its_own(parts):
    rows = names(parts, "the cat sees", kind="choose", choices=("the sea", "the moon", "the king"))
    assert [row[-2] for row in rows] == ["sea</w>", "moon</w>", "king</w>"]
    assert all(row[:5] == ["_start_", "the</w>", "cat</w>", "sees</w>", "_delimiter_"] for row in rows)


def test_new_tokens_get_small_random_embeddings_and_old_ones_keep_theirs(gpt1, parts):
    before, after = (one.weights["model.embed.tokens.weight"] for one in (read_parts(gpt1), parts))
    assert len(after) == len(before) + 3
    assert torch.equal(after[: len(before)], before)
    assert 0.01 < after[len(before) :].std() < 0.03
    assert with_task_tokens(parts) is parts  # once is enough


# the losses


def some_rows(parts, kind="classify", count=4):
    texts = ["the cat sees a house.", "the dog", "a bird hears the moon.", "my friend likes the sea."][:count]
    other = None if kind in ("classify", "choose") else "the king"
    rows = [Row(text=text, other=other, choices=("a", "b"), line=1) for text in texts]
    batch = batch_of_examples(examples(parts, kind, *rows), parts.tokenizer.vocabulary)
    return replace(batch, labels=torch.tensor([0, 1, 0, 1][:count]), targets=next_tokens(batch))


def network(parts, weight: float, kind: str = "classify") -> Network:
    task = find_kind(kind)(classes=("a", "b"), length=40, name="label")
    settings = TaskSettings(lm_weight=weight, dropout=0.0).settled(parts.architecture)
    return build(settings, parts, [task], seed=0)


def test_the_loss_is_the_label_and_half_the_language_model(parts):
    batch = some_rows(parts)
    losses = network(parts, 0.5).eval()(batch).weighted
    alone = network(parts, 0.0).eval()(batch).weighted
    assert alone.keys() == {"label"}
    torch.testing.assert_close(losses["label"], alone["label"])
    hidden = network(parts, 0.5).eval().model(batch).hidden
    logits = hidden @ parts.weights["model.embed.tokens.weight"].T
    rows = [
        torch.nn.functional.cross_entropy(row[asked != IGNORE], asked[asked != IGNORE])
        for row, asked in zip(logits, batch.targets, strict=True)
    ]
    torch.testing.assert_close(losses["row_lm"], 0.5 * torch.stack(rows).mean(), atol=1e-5, rtol=1e-5)
    assert TaskSettings().settled(parts.architecture).lm_weight == 0.5


def test_the_gradient_is_the_weighted_sum(parts):
    batch = some_rows(parts)
    gradients = []
    for weight, chosen in ((0.3, None), (1.0, "label"), (1.0, "row_lm")):
        made = network(parts, weight).eval()
        losses = made(batch).weighted
        (sum(losses.values()) if chosen is None else losses[chosen]).backward()
        gradients.append(made.model.blocks[0].attention.output.weight.grad)
    torch.testing.assert_close(gradients[0], gradients[1] + 0.3 * gradients[2], atol=1e-6, rtol=1e-5)


def test_the_next_token_is_predicted_inside_a_row_only(parts):
    batch = some_rows(parts)
    lengths = batch.source.visible.sum(1)
    assert (batch.targets != IGNORE).sum(1).tolist() == (lengths - 1).tolist()
    assert (batch.targets[:, :-1] == batch.source.tokens[:, 1:])[batch.targets[:, :-1] != IGNORE].all()


def test_a_row_is_classified_at_its_extract_token_whatever_follows(parts):
    made = network(parts, 0.5).eval()
    batch = some_rows(parts)
    together = made.heads["label"].answers(made.model(batch), batch)
    alone = some_rows(parts, count=2)
    single = made.heads["label"].answers(made.model(alone), alone)
    torch.testing.assert_close(together[:2], single, atol=1e-6, rtol=1e-5)


def test_both_orders_give_one_answer(parts):
    made = network(parts, 0.5, "paraphrase").eval()
    answers = []
    for pair in (("the cat sees", "a dog"), ("a dog", "the cat sees")):
        rows = examples(parts, "paraphrase", Row(text=pair[0], other=pair[1], line=1))
        batch = batch_of_examples(rows, parts.tokenizer.vocabulary)
        assert batch.alternatives.tolist() == [0, 0]
        answers.append(made.heads["label"].answers(made.model(batch), batch))
    torch.testing.assert_close(*answers, atol=1e-6, rtol=1e-6)


def test_the_softmax_is_over_choices_and_a_missing_one_has_probability_0(parts):
    head = find_kind("choose")(length=40).head(parts.architecture).eval()
    model = network(parts, 0.5).eval().model
    asked = [("a", "the sea", "b"), ("a", "b")]
    rows = [Row(text="the cat", choices=choices, line=1) for choices in asked]
    batch = batch_of_examples(examples(parts, "choose", *rows), parts.tokenizer.vocabulary)
    answers = head.answers(model(batch), batch)
    alone = []
    for choices in asked:
        texts = [("the cat", choice) for choice in choices]
        single = batch_of(frame_all(texts, parts.tokenizer, 40), parts.tokenizer.vocabulary)
        alone.append(head.classify(model(single).pooled).squeeze(1))
    torch.testing.assert_close(answers[0], alone[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(answers[1, :2], alone[1], atol=1e-6, rtol=1e-5)
    assert answers[1, 2] == -torch.inf
    labelled = replace(batch, labels=torch.tensor([1, 0]))
    expected = sum(scores.logsumexp(0) - scores[right] for scores, right in zip(alone, (1, 0), strict=True)) / 2
    torch.testing.assert_close(head(model(batch), labelled), expected, atol=1e-6, rtol=1e-5)


def judged_by(head: RowHead, pooled: torch.Tensor) -> torch.Tensor:
    """The answers of the head for examples whose inputs have these vectors, (B, K, width)."""
    rows, readings, _ = pooled.shape
    nothing = torch.zeros(rows * readings, 1, dtype=torch.long)
    batch = Batch(
        source=Side(tokens=nothing, visible=torch.ones_like(nothing, dtype=torch.bool), segments=nothing),
        alternatives=torch.arange(rows).repeat_interleave(readings),
    )
    flat = pooled.flatten(0, 1)
    return head.answers(States(hidden=flat[:, None], pooled=flat), batch)


def test_the_vectors_of_both_orders_are_added_not_averaged():
    head = NumberHead(width=2, bias=False).eval()
    with torch.no_grad():
        head.classify.weight.copy_(torch.tensor([[1.0, 10.0]]))
    assert judged_by(head, torch.tensor([[[1.0, 2.0], [3.0, 5.0]]])).tolist() == [[74.0]]


def test_the_choices_of_a_row_share_a_dropout_mask():
    head = ChoiceHead(width=64, dropout=0.5)
    torch.manual_seed(0)
    vector = torch.randn(64)
    answers = judged_by(head, vector.expand(4, 3, 64))
    assert torch.equal(answers, answers[:, :1].expand(4, 3))
    assert len(set(answers[:, 0].tolist())) == 4
    assert not torch.equal(answers[0], judged_by(head.eval(), vector.expand(4, 3, 64))[0])


def test_a_choice_and_its_question_get_half_a_row_each_minus_two(parts):
    """Truncated as in the released code, even if the other text is short; other tasks fill the row."""
    long, short = "cat " * 30, "the sea"
    (row,) = examples(parts, "choose", Row(text=long, choices=(short, long), line=1))
    first, second = ([parts.tokenizer.vocabulary.tokens[n] for n in one.tokens] for one in row.inputs)
    assert first == ["_start_", *["cat</w>"] * 18, "_delimiter_", "the</w>", "sea</w>", "_classify_"]
    assert second == ["_start_", *["cat</w>"] * 18, "_delimiter_", *["cat</w>"] * 18, "_classify_"]
    assert row.cut == 24
    (other,) = frame_all([(long, short)], parts.tokenizer, 40)
    assert (len(other.tokens), other.cut) == (35, 0)


def test_a_masked_model_has_no_such_halves(pretrained):
    tokenizer = read_parts(pretrained).tokenizer
    (row,) = frame_all([("cat " * 30, "the sea")], tokenizer, 40, choosing=True)
    assert (len(row.tokens), row.cut) == (35, 0)


def test_after_a_step_every_weight_of_every_block_has_changed(parts):
    made = network(parts, 0.5)
    before = {name: weight.clone() for name, weight in made.named_parameters()}
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2)
    sum(made(some_rows(parts)).weighted.values()).backward()
    optimizer.step()
    assert all(not torch.equal(weight, before[name]) for name, weight in made.named_parameters())


def test_the_language_model_has_no_weights_of_its_own():
    model = PostNormDecoder(layers=1, heads=1, width=8, inner=32).build(unnamed(20))
    assert not list(RowLM(model.embed.tokens).parameters())


# from the command line


def test_a_toy_sentiment_is_learned_and_the_same_model_generates_text(gpt1, plm, labelled, tmp_path):
    train, test = labelled(tmp_path / "train.tsv", 160, 5), labelled(tmp_path / "test.tsv", 40, 6)
    ran = plm("finetune", gpt1, "--task", "classify", "--train", train, "--dev", test, "--epochs", 40, "--out",
              tmp_path / "task", "--set", "run.threads=1", "--set", "task.learning_rate=1e-3", "--set", "task.batch=8",
              "--set", "task.dropout=0", "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.json["dev"]["accuracy"] >= 0.9
    model = plmkit.load(tmp_path / "task", device="cpu")
    assert {"classify", "causal_lm"} <= model.network.heads.keys()
    assert len(model.generate("the cat", tokens=4).text) > 0
    ran = plm("export", tmp_path / "task", tmp_path / "hub", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["largest_difference"] < 1e-4


def choice_file(path, label=lambda number, right: right):
    """Which of three animals the text speaks of: the right one is at another position each time."""
    animals = ("cat", "dog", "bird")
    rows = []
    for number in range(48):
        right = number % 3
        choices = [animals[(number // 3 + shift) % 3] for shift in range(3)]
        rows.append({
            "context": f"the {choices[right]} sees a house.", "question": "who sees it?", "choices": choices,
            "label": label(number, right),
        })  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_choosing_runs_from_training_to_prediction(gpt1, plm, tmp_path):
    rows = choice_file(tmp_path / "rows.jsonl")
    ran = plm("finetune", gpt1, "--task", "choose", "--train", rows, "--dev", rows, "--epochs", 1, "--out",
              tmp_path / "task", "--set", "run.threads=1", "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    found = plm("evaluate", tmp_path / "task", rows, "--json").json
    assert found["rows"] == 48
    assert found["accuracy"] == ran.json["dev"]["accuracy"]
    ran = plm("predict", tmp_path / "task", rows, "--json")
    for row, reported in zip(map(json.loads, rows.read_text().splitlines()), ran.json["predictions"], strict=True):
        assert reported["label"] in row["choices"]
        assert sum(reported["probabilities"].values()) == pytest.approx(1)
    ran = plm("export", tmp_path / "task", tmp_path / "hub")
    assert (ran.code, "computes the same as --task choose" in ran.err) == (2, True)


def test_similarity_runs_from_training_to_prediction_the_same_both_ways(gpt1, plm, tmp_path):
    lines = ["text_a\ttext_b\tlabel", *(f"the cat {n % 5}\ta dog {n % 3}\t{n % 4}" for n in range(24))]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    ran = plm("finetune", gpt1, "--task", "similarity", "--train", tmp_path / "rows.tsv", "--epochs", 1, "--out",
              tmp_path / "task", "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    model = plmkit.load(tmp_path / "task", device="cpu")
    forth, back = (model.predict([pair])[0].label for pair in (("the cat", "a dog"), ("a dog", "the cat")))
    assert forth == pytest.approx(back, abs=1e-6)


def test_a_masked_model_chooses_and_reads_both_orders_too(pretrained, plm, tmp_path):
    ran = plm("finetune", pretrained, "--task", "choose", "--train", choice_file(tmp_path / "rows.jsonl"), "--epochs",
              1, "--out", tmp_path / "task", "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    row = {"text": "the cat sees a house.", "choices": ["cat", "dog"]}
    assert plmkit.load(tmp_path / "task", device="cpu").predict([row])[0].label in ("cat", "dog")


@pytest.mark.parametrize(
    ("label", "says"),
    [
        (lambda number, right: 7, "is neither one of the 3 choices"),
        (lambda number, right: "cow", "is neither one of the 3 choices"),
    ],
)
def test_labels_that_are_not_a_choice_are_refused(gpt1, plm, tmp_path, label, says):
    rows = choice_file(tmp_path / "rows.jsonl", label)
    ran = plm("finetune", gpt1, "--task", "choose", "--train", rows, "--out", tmp_path / "task")
    assert ran.code == 2
    assert f"{rows}, line 1: label" in ran.err
    assert says in ran.err
    assert not (tmp_path / "task").exists()


def test_a_table_without_choices_is_refused(gpt1, plm, rows_file, tmp_path):
    ran = plm("finetune", gpt1, "--task", "choose", "--train", rows_file, "--out", tmp_path / "task")
    assert (ran.code, "Multiple choice needs context, question or both" in ran.err) == (2, True)


def test_the_loss_weight_of_the_language_model_cannot_be_negative(gpt1, plm, rows_file, tmp_path):
    ran = plm("finetune", gpt1, "--task", "classify", "--train", rows_file, "--out", tmp_path / "task",
              "--set", "task.lm_weight=-1")  # fmt: skip
    assert (ran.code, "task.lm_weight" in ran.err) == (2, True)
