"""Fine-tuning takes the steps of a plain loop over a network of transformers: same weights, rows and settings."""

import json

import pytest
import torch
import transformers

import plmkit
from plmkit.inference.loading import read_parts
from plmkit.tasks.seed_run import build
from plmkit.tasks.settings import TaskSettings

STEPS, RATE, CLIP = 12, 1e-3, 1.0
TEXTS = [
    "the cat sees a house", "my friend", "the sea", "a good house and the moon sees my friend",
    "the moon", "my cat sees the sea and a house", "a friend", "the good cat",
]  # fmt: skip
SETTINGS = {
    "run.threads": 1, "run.log_steps": 1, "run.dtype": "float32", "task.batch": len(TEXTS), "task.clip": CLIP,
    "task.learning_rate": RATE, "task.warmup": 0, "task.shape": "constant", "task.optimizer": "AdamW",
    "task.dropout": 0, "task.dev_share": 0,
}  # fmt: skip
NETWORKS = {"classify": "BertForSequenceClassification", "tag": "BertForTokenClassification"}
IGNORED = -100


def row_of(kind: str, text: str) -> dict[str, object]:
    """A long text is 'long', and a word of three letters 'short'."""
    words = text.split()
    if kind == "classify":
        return {"text": text, "label": "long" if len(words) > 3 else "short"}
    return {"tokens": words, "tags": ["short" if len(word) == 3 else "long" for word in words]}


def label_of(kind: str, row: dict, encoding, names: list[str]) -> int | list[int]:
    if kind == "classify":
        return names.index(row["label"])
    words = encoding.word_ids()
    firsts = [word is not None and word != before for before, word in zip([None, *words], words, strict=False)]
    return [names.index(row["tags"][word]) if first else IGNORED for first, word in zip(firsts, words, strict=True)]


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_step_has_the_loss_of_transformers(kind, hub_folder, tmp_path):
    rows = [row_of(kind, text) for text in TEXTS]
    train, out = tmp_path / "train.jsonl", tmp_path / "out"
    train.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    own = {"task.ngrams": False} if kind == "classify" else {}
    plmkit.finetune(hub_folder, kind, train, out, epochs=STEPS, settings=SETTINGS | own, quiet=True)
    logged = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    losses = [line["train/0/loss"] for line in logged if "train/0/loss" in line]

    task, parts = plmkit.load(out).tasks[kind], read_parts(hub_folder)
    settings = TaskSettings(dropout=0.0).settled(parts.architecture, parts.tuning)
    head = build(settings, parts, [task], seed=0).heads[kind]
    config = transformers.AutoConfig.from_pretrained(
        hub_folder, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    network = getattr(transformers, NETWORKS[kind]).from_pretrained(hub_folder, config=config).train()
    network.classifier.load_state_dict(head.classify.state_dict())
    tokenizer = transformers.AutoTokenizer.from_pretrained(hub_folder)
    encoded = [tokenizer(text.split(), is_split_into_words=True) for text in TEXTS]
    labels = [label_of(kind, row, one, list(task.classes)) for row, one in zip(rows, encoded, strict=True)]
    batch = tokenizer.pad([{name: one[name] for name in one} for one in encoded], return_tensors="pt")
    width = batch["input_ids"].shape[1]
    if kind == "tag":
        labels = [one + [IGNORED] * (width - len(one)) for one in labels]
    plain = [weight for weight in network.parameters() if weight.dim() < 2]
    matrices = [weight for weight in network.parameters() if weight.dim() > 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6)
    wanted = []
    for _ in range(STEPS):
        loss = network(**batch, labels=torch.tensor(labels)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        wanted.append(loss.item())
    assert wanted[-1] < 0.9 * wanted[0]
    assert losses == pytest.approx(wanted, abs=2e-4)
