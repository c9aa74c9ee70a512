"""Hugging Face folders that answer questions: read with their head, written with ours, with the same answers."""

import json
import shutil

import pytest
import torch
import transformers
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

import plmkit
from plmkit.inference.loading import read_parts
from plmkit.interop.task_heads import TASK_HEADS
from plmkit.tasks.answering.heads import ConditionalSpanHead, SpanHead
from plmkit.tasks.kinds.qa import QA
from plmkit.tokenizers.unigram import ClosingUnigram

SHAPE = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 64, "initializer_range": 0.4, "pad_token_id": 0, "embedding_size": 8,
}  # fmt: skip
XLNET = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24, "initializer_range": 0.4}
CONTEXT = "my friend hears the moon. the old cat sees the sea. a dog calls the house."
QUESTION = "the animal that sees"
KINDS = ("BertForQuestionAnswering", "RobertaForQuestionAnswering", "AlbertForQuestionAnswering",
         "ElectraForQuestionAnswering", "ErnieForQuestionAnswering")  # fmt: skip


def save(kind, folder, pretrained):
    """A random network of that class, with the tokenizer of `pretrained`."""
    torch.manual_seed(1)
    made = getattr(transformers, kind)
    if kind.startswith("XLNet"):
        tokenizer = ClosingUnigram(size=110).train([CONTEXT, QUESTION] * 20)
        network = made(made.config_class(vocab_size=len(tokenizer.vocabulary), **XLNET)).eval()
        tokenizer.save(folder)
    else:
        size = (pretrained / "vocab.txt").read_text(encoding="utf-8").count("\n")
        network = made(made.config_class(vocab_size=size, **SHAPE)).eval()
        folder.mkdir(exist_ok=True)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(pretrained / name, folder / name)
    network.save_pretrained(folder)
    return network


def best_span(folder, model):
    """The best span by transformers' own logits of one row: start before end, in the context."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer(QUESTION, CONTEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets, inside = given.pop("offset_mapping")[0], torch.tensor([which == 1 for which in given.sequence_ids(0)])
    with torch.no_grad():
        out = model(**given)
    scores = out.start_logits[0, :, None] + out.end_logits[0, None]
    count = len(inside)
    span = torch.ones(count, count).triu().tril(29).bool() & inside[:, None] & inside
    first, last = divmod(int(scores.masked_fill(~span, -torch.inf).argmax()), count)
    return CONTEXT[offsets[first, 0] : offsets[last, 1]].strip(), float(scores[first, last])


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_answers_as_transformers_does(kind, pretrained, tmp_path):
    theirs = save(kind, tmp_path / "hub", pretrained)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    assert type(model.network.heads["qa"]) is SpanHead
    found = model.predict({"question": QUESTION, "context": CONTEXT})
    text, score = best_span(tmp_path / "hub", theirs)
    assert found.n_best[0].text == text
    assert found.n_best[0].score == pytest.approx(score, abs=1e-4)


def test_a_folder_is_evaluated_at_once(pretrained, plm, tmp_path):
    save("BertForQuestionAnswering", tmp_path / "hub", pretrained)
    row = {"question": QUESTION, "context": CONTEXT, "answers": [{"text": "old cat", "start": 30}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    ran = plm("evaluate", tmp_path / "hub", tmp_path / "rows.jsonl", "--json")
    assert (ran.code, {"exact", "f1"} <= ran.json.keys()) == (0, True), ran.err
    assert "not used" not in ran.err


def test_xlnets_own_head_is_read_and_written(pretrained, plm, tmp_path):
    save("XLNetForQuestionAnswering", tmp_path / "hub", pretrained)
    model = plmkit.load(tmp_path / "hub", device="cpu")
    assert type(model.network.heads["qa"]) is ConditionalSpanHead
    found = model.predict({"question": QUESTION, "context": CONTEXT})
    assert CONTEXT[found.start : found.end] == found.label
    ran = plm("export", tmp_path / "hub", tmp_path / "again", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["checked"]
    again = plmkit.load(tmp_path / "again", device="cpu").predict({"question": QUESTION, "context": CONTEXT})
    assert (again.label, again.null_difference) == (found.label, pytest.approx(found.null_difference, abs=1e-5))


def test_xlnets_simple_head_is_berts(pretrained, plm, tmp_path):
    save("XLNetForQuestionAnsweringSimple", tmp_path / "hub", pretrained)
    assert type(plmkit.load(tmp_path / "hub", device="cpu").network.heads["qa"]) is SpanHead
    ran = plm("export", tmp_path / "hub", tmp_path / "again", "--json")
    assert (ran.code, ran.json["checked"]) == (0, True)
    assert transformers.AutoConfig.from_pretrained(tmp_path / "again").architectures == [
        "XLNetForQuestionAnsweringSimple"
    ]


@pytest.mark.parametrize("kind", ["BertModel", "ElectraModel", "AlbertModel", "RobertaModel"])
def test_a_fine_tuned_run_is_exported_and_answers_the_same_in_transformers(kind, pretrained, plm, tmp_path):
    save(kind, tmp_path / "hub", pretrained)
    row = {"question": QUESTION, "context": CONTEXT, "answers": [{"text": "old cat", "start": 30}]}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(row)}\n" * 4)
    ran = plm("finetune", tmp_path / "hub", "--task", "qa", "--train", tmp_path / "rows.jsonl", "--out",
              tmp_path / "run", "--epochs", 2, "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    ran = plm("export", tmp_path / "run", tmp_path / "out", "--json")
    assert (ran.code, ran.json["checked"]) == (0, True), ran.err
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out").eval()
    ours = plmkit.load(tmp_path / "run", device="cpu").predict({"question": QUESTION, "context": CONTEXT})
    text, score = best_span(tmp_path / "out", theirs)
    assert (ours.n_best[0].text, ours.n_best[0].score) == (text, pytest.approx(score, abs=1e-4))
    again = plmkit.load(tmp_path / "out", device="cpu").predict({"question": QUESTION, "context": CONTEXT})
    assert again.n_best[0] == ours.n_best[0]


def test_a_head_that_transformers_lacks_is_not_exported(pretrained, plm, tmp_path):
    row = {"question": QUESTION, "context": CONTEXT, "answers": [{"text": "old cat", "start": 30}]}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(row)}\n" * 4)
    ran = plm("finetune", pretrained, "--task", "qa", "--train", tmp_path / "rows.jsonl", "--out", tmp_path / "run",
              "--epochs", 1, "--set", "task.conditional=true", "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    assert type(plmkit.load(tmp_path / "run", device="cpu").network.heads["qa"]) is ConditionalSpanHead
    assert read_parts(tmp_path / "run").tasks[0].conditional is True
    ran = plm("export", tmp_path / "run", tmp_path / "out")
    assert (ran.code, "No Hugging Face BERT computes the same as --task qa" in ran.err) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("head", ["span", "conditional_span"])
@pytest.mark.parametrize("threshold", [None, -1.5])
def test_the_threshold_for_no_answer_is_written_and_read(head, threshold):
    kept = TASK_HEADS[head]
    assert kept.task(kept.config(QA(threshold=threshold)), {}, 64).threshold == threshold


def test_a_folder_with_a_threshold_may_answer_nothing(pretrained, tmp_path):
    save("BertForQuestionAnswering", tmp_path / "hub", pretrained)
    config = tmp_path / "hub" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"null_threshold": -1000.0}))
    found = plmkit.load(tmp_path / "hub", device="cpu").predict({"question": QUESTION, "context": CONTEXT})
    assert (found.label, bool(found.n_best[0].text)) == ("", True)
