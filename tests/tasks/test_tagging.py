"""A task that labels every word, added by this file alone: its class, one line in the registry, nothing else."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch.nn.functional as F
from torch import Tensor, nn

import plmkit
from plmkit.architectures.contract import Architecture
from plmkit.data.batch import IGNORE, Batch, States
from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.tasks.contract import Example, Prediction, Row, Task
from plmkit.tasks.framing import frame
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.registry import KINDS, Kind
from plmkit.tokenizers.tokenizer import Tokenizer

NO_WORD = -1  # that a special token belongs to


@dataclass(frozen=True, kw_only=True)
class Sentence(Row):
    """A row of words."""

    words: tuple[str, ...]


class TagHead(TaskHead):
    """One linear layer at every token; the first token of each word is scored."""

    def __init__(self, width: int, tags: int) -> None:
        super().__init__()
        self.classify = nn.Linear(width, tags)

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(examples, L, tags)."""
        return self.classify(states.hidden)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        return F.cross_entropy(self.answers(states, batch).flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE)

    def scored(self, batch: Batch) -> int:
        assert batch.labels is not None
        return int((batch.labels != IGNORE).sum())


@dataclass(frozen=True, kw_only=True)
class Tag(Task):
    """Words and a BIO tag for each (Tjong Kim Sang and De Meulder, 2003)."""

    kind: ClassVar[str] = "tag"
    best: ClassVar[str] = "f1"

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        words, tags = (table.columns.index(name) if name in table.columns else None for name in ("words", "tags"))
        rows = [
            Sentence(
                text=" ".join(cells[words]),
                words=tuple(cells[words]),
                line=line,
                label=tuple(cells[tags]) if labelled else None,
            )
            for line, cells in zip(table.lines, table.rows, strict=True)
        ]
        return rows, Columns()

    def input_row(self, given: Any, number: int, model: Path) -> Sentence:
        return Sentence(text=given, words=tuple(given.split()), line=number)

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        return replace(self, classes=tuple(sorted({tag for row in rows for tag in row.label})))

    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        return [self.example(row, tokenizer, length) for row in rows]

    def example(self, row: Row, tokenizer: Tokenizer, length: int) -> Example:
        pieces = [tokenizer.encode(word) for word in row.words]
        framed = frame(np.array([token for word in pieces for token in word]), None, tokenizer.vocabulary, length)
        words = np.full(len(framed.tokens), NO_WORD)
        owners = [number for number, word in enumerate(pieces) for _ in word]
        words[1 : 1 + len(owners)] = owners
        label = np.full(len(framed.tokens), IGNORE)
        for number, tag in enumerate(row.label or ()):
            label[np.flatnonzero(words == number)[0]] = self.classes.index(tag)
        return Example(row=row, inputs=(framed,), label=label, words=words)

    def head(self, architecture: Architecture, dropout: float = 0.1) -> TagHead:
        return TagHead(architecture.width, len(self.classes))

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        best = answers.argmax(-1).numpy()
        return [Prediction(label=self.tags(row, made)) for row, made in zip(best, examples, strict=True)]

    def tags(self, best: np.ndarray, made: Example) -> tuple[str, ...]:
        firsts = [np.flatnonzero(made.words == number)[0] for number in range(len(made.row.words))]
        return tuple(self.classes[best[place]] for place in firsts)

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        found = [set(spans(prediction.label)) for prediction in predictions]
        gold = [set(spans(row.label)) for row in rows]
        right = sum(len(one & other) for one, other in zip(found, gold, strict=True))
        return {"f1": 2 * right / max(1, sum(map(len, found)) + sum(map(len, gold))), "rows": len(rows)}

    def render(self, prediction: Prediction) -> dict[str, Any]:
        return {"tags": list(prediction.label)}


def spans(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """The beginning, end and kind of each span that BIO tags mark."""
    starts = [number for number, tag in enumerate(tags) if tag.startswith("B-")]
    ends = [next((n for n in range(start + 1, len(tags)) if tags[n][0] != "I"), len(tags)) for start in starts]
    return [(start, end, tags[start][2:]) for start, end in zip(starts, ends, strict=True)]


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forty sentences in which every animal, with its colour, is a span."""
    monkeypatch.setitem(KINDS, "tag", Kind(f"{__name__}:Tag", "a BIO tag for every word"))
    lines = []
    for number in range(40):
        animal, place = ("cat", "dog", "bird")[number % 3], ("sea", "house", "moon", "river")[number % 4]
        words, tags = ["the", animal, "sees", "the", place], ["O", "B-animal", "O", "O", "O"]
        if number % 2:
            words[1:1], tags[1:2] = ["old"], ["B-animal", "I-animal"]
        lines.append(json.dumps({"words": words, "tags": tags}))
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_spans_are_read_from_bio_tags():
    assert spans(["O", "B-a", "I-a", "B-b", "O"]) == [(1, 3, "a"), (3, 4, "b")]


def test_a_task_for_words_is_fine_tuned_scored_and_used_by_every_command(rows, pretrained, plm, tmp_path):
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--task", "tag", "--train", rows, "--dev", rows, "--out", out, "--epochs", 12,
              "--set", "task.batch=8", "--set", "task.learning_rate=3e-3", "--set", "run.threads=1",
              "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.json["dev"]["f1"] > 0.9
    assert plm("evaluate", out, rows, "--json").json["f1"] == ran.json["dev"]["f1"]
    model = plmkit.load(out, device="cpu")
    assert list(model.tasks) == ["tag"]
    assert model.predict("the old dog sees the sea").label == ("O", "B-animal", "I-animal", "O", "O", "O")
    predicted = plm("predict", out, rows, "--out", tmp_path / "tags.jsonl")
    assert predicted.code == 0, predicted.err
    first = json.loads((tmp_path / "tags.jsonl").read_text().splitlines()[0])
    assert first["tags 2"] == first["tags"] == ["O", "B-animal", "O", "O", "O"]


def test_token_labels_are_right_aligned_where_padding_is_on_the_left(pretrained):
    from plmkit.tasks.batches import labels_of

    tokenizer = plmkit.load(pretrained, device="cpu").tokenizer
    task = Tag(classes=("B-animal", "O"))
    rows = [Sentence(text="cat", words=("cat",), label=("B-animal",), line=1)]
    (made,) = task.frame(rows, tokenizer, 16)
    after = labels_of([made], tokenizer.vocabulary, 6)[0].tolist()
    before = labels_of([made], replace(tokenizer.vocabulary, closes=True), 6)[0].tolist()
    assert sorted(after) == sorted(before)
    assert after.index(0) == 1
    assert before[6 - len(made.inputs[0].tokens) :] == after[: len(made.inputs[0].tokens)]
