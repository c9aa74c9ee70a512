"""Rows as transformers' example scripts encode them, and what the outputs of their networks predict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plmkit.tasks.contract import Prediction, Row

IGNORED = -100
Rows = Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The rows of a file for the Trainer: one input per row, or one per window of a question's text."""

    rows: Rows
    inputs: list[dict[str, Any]]
    decide: Callable[[Any], list[Prediction]]  # from the outputs for all inputs
    labels: list[str] = field(default_factory=lambda: ["labels"])  # the inputs that are labels


def whole_rows(task: Any, rows: Rows, tokenizer: Any, length: int) -> Encoded:
    """Classes and numbers, as in run_glue: a number stays as it is, and its loss is the squared error."""
    numbers = {name: number for number, name in enumerate(task.classes)}

    def encoded(row: Row) -> dict[str, Any]:
        texts = (row.text,) if row.other is None else (row.text, row.other)
        label = numbers[str(row.label)] if numbers else float(row.label)
        return {**tokenizer(*texts, truncation=True, max_length=length), "labels": label}

    def decide(outputs: Any) -> list[Prediction]:
        if not numbers:
            return [Prediction(label=float(number)) for number in outputs[:, 0]]
        return [Prediction(label=task.classes[best]) for best in outputs.argmax(-1)]

    return Encoded(rows=rows, inputs=[encoded(row) for row in rows], decide=decide)


def tagged_rows(task: Any, rows: Any, tokenizer: Any, length: int) -> Encoded:
    """As in run_ner: the first piece of a word has its tag. A word that is cut off is predicted to be outside."""
    numbers = {name: number for number, name in enumerate(task.classes)}
    outside = "O" if "O" in numbers else task.classes[0]
    inputs, firsts = [], []
    for row in rows:
        made = tokenizer(row.words, is_split_into_words=True, truncation=True, max_length=length)
        words = made.word_ids()
        first = {word: place for place, word in reversed([*enumerate(words)]) if word is not None}
        labels = [IGNORED] * len(words)
        for word, place in first.items():
            labels[place] = numbers.get(row.label[word], IGNORED)
        inputs.append({**made, "labels": labels})
        firsts.append(first)

    def decide(outputs: Any) -> list[Prediction]:
        made = []
        for row, first, best in zip(rows, firsts, outputs.argmax(-1), strict=True):
            tags = [task.classes[best[first[word]]] if word in first else outside for word in range(len(row.label))]
            made.append(Prediction(label=tuple(tags)))
        return made

    return Encoded(rows=rows, inputs=inputs, decide=decide)


def chosen_rows(task: Any, rows: Rows, tokenizer: Any, length: int) -> Encoded:
    """As in run_swag: the text with every choice. Rows with fewer choices than others get empty ones, never chosen."""
    most = max(len(row.choices) for row in rows)
    inputs = []
    for row in rows:
        choices = [*row.choices, *[""] * (most - len(row.choices))]
        made = tokenizer([row.text] * most, choices, truncation=True, max_length=length)
        right = row.choices.index(str(row.label))
        places = [int(place == right) if place < len(row.choices) else IGNORED for place in range(most)]
        inputs.append({**made, "labels": places})

    def decide(outputs: Any) -> list[Prediction]:
        best = [found[: len(row.choices)].argmax() for row, found in zip(rows, outputs, strict=True)]
        return [Prediction(label=row.choices[place]) for row, place in zip(rows, best, strict=True)]

    return Encoded(rows=rows, inputs=inputs, decide=decide)


# --- questions


@dataclass(frozen=True, kw_only=True)
class Window:
    """Where the text of one input comes from."""

    row: int
    offsets: list[tuple[int, int] | None]  # in characters of the text; None outside it


def answered_rows(task: Any, rows: Any, tokenizer: Any, length: int) -> Encoded:
    """As in run_qa, in the windows of our own; without the answer in a window, its target is the first token."""
    inputs, windows = [], []
    for number, row in enumerate(rows):
        question = cut_question(row.text, tokenizer, task.question_length)
        asked = len(tokenizer(question, add_special_tokens=False)["input_ids"])
        room = length - tokenizer.num_special_tokens_to_add(pair=True) - asked
        made = tokenizer(
            question, row.other, truncation="only_second", max_length=length,
            stride=max(0, room - task.stride),  # what windows share; ours is by how much they advance
            return_overflowing_tokens=True, return_offsets_mapping=True,
        )  # fmt: skip
        for window in range(len(made["input_ids"])):
            inside = [which == 1 for which in made.sequence_ids(window)]
            pairs = zip(made["offset_mapping"][window], inside, strict=True)
            offsets = [tuple(pair) if own else None for pair, own in pairs]
            start, end = places_of(row, offsets)
            names = [name for name in tokenizer.model_input_names if name in made]
            inputs.append(
                {name: made[name][window] for name in names} | {"start_positions": start, "end_positions": end}
            )
            windows.append(Window(row=number, offsets=offsets))

    def decide(outputs: Any) -> list[Prediction]:
        starts, ends = outputs[:2]
        best: list[tuple[float, str]] = [(-np.inf, "")] * len(rows)
        for window, start, end in zip(windows, starts, ends, strict=True):
            score, span = best_span(start, end, window.offsets, task.n_best, task.max_answer)
            if span and score > best[window.row][0]:
                best[window.row] = score, rows[window.row].other[span[0] : span[1]]
        return [Prediction(label=text) for _, text in best]

    return Encoded(rows=rows, inputs=inputs, decide=decide, labels=["start_positions", "end_positions"])


def cut_question(question: str, tokenizer: Any, most: int) -> str:
    """Without leading spaces, as in run_qa, and with at most as many tokens as ours."""
    question = question.lstrip()
    offsets = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return question if len(offsets) <= most else question[: offsets[most - 1][1]]


def places_of(row: Any, offsets: Sequence[tuple[int, int] | None]) -> tuple[int, int]:
    """The first and the last token of the answer; twice 0 where a window lacks a part of it."""
    if row.start is None:
        return 0, 0
    begin, end = row.start, row.start + len(str(row.label))
    inside = [place for place, pair in enumerate(offsets) if pair is not None]
    if not inside or offsets[inside[0]][0] > begin or offsets[inside[-1]][1] < end:  # type: ignore[index]
        return 0, 0
    kept = [place for place in inside if offsets[place][1] > begin and offsets[place][0] < end]  # type: ignore[index]
    return (kept[0], kept[-1]) if kept else (0, 0)


def best_span(
    start: Any, end: Any, offsets: Sequence[tuple[int, int] | None], n_best: int, most: int
) -> tuple[float, tuple[int, int] | None]:
    """Of the n best starts with the n best ends, the best pair in the text and in order, as in run_qa."""
    starts, ends = (np.argsort(-logits[: len(offsets)], kind="stable")[:n_best] for logits in (start, end))
    first, last = (grid.ravel() for grid in np.meshgrid(starts, ends, indexing="ij"))
    inside = np.array([pair is not None for pair in offsets])
    kept = inside[first] & inside[last] & (first <= last) & (last - first < most)
    if not kept.any():
        return -np.inf, None
    first, last = first[kept], last[kept]
    best = int((start[first] + end[last]).argmax())
    begin, after = offsets[first[best]], offsets[last[best]]
    assert begin is not None and after is not None
    return float(start[first[best]] + end[last[best]]), (begin[0], after[1])


ENCODERS: dict[str, Callable[[Any, Any, Any, int], Encoded]] = {
    "classify": whole_rows,
    "tag": tagged_rows,
    "choose": chosen_rows,
    "qa": answered_rows,
}
