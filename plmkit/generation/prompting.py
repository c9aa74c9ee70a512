"""A task by prompt: nothing is trained, the model reads some demonstrations and answers (Brown et al., 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plmkit.data.randomness import generator
from plmkit.data.sentences import split_sentences
from plmkit.errors import InputError, SettingError
from plmkit.generation.answers import MEASURES
from plmkit.generation.author import Author
from plmkit.generation.likelihood import token_logs
from plmkit.generation.shots import Kind, Task, Template, check_answers, line_end_of, prompt_of, template_of
from plmkit.generation.writing import MOST_BEAMS, MOST_TOKENS, Writing, check_count
from plmkit.tasks.scores import class_scores
from plmkit.tokenizers.tokenizer import spaced


@dataclass(frozen=True, kw_only=True)
class Prompting:
    """What a task is asked with."""

    shots: int = 0
    template: str | None = None
    calibrated: bool = False  # an answer is weighed against how likely it is without a question
    tokens: int | None = None  # of a written answer; by default those of the task's kind
    beams: int | None = None  # of a written answer
    limit: int | None = None  # of rows
    seed: int = 0

    def __post_init__(self) -> None:
        if self.shots < 0:
            raise SettingError(f"shots is how many demonstrations to show, 0 or more; found {self.shots}.")
        if self.limit is not None and self.limit < 1:
            raise SettingError(f"limit is how many rows to ask, 1 or more; found {self.limit}.")
        if self.tokens is not None:
            check_count("tokens", self.tokens, MOST_TOKENS)
        if self.beams is not None:
            check_count("beams", self.beams, MOST_BEAMS)

    def check(self, kind: Kind) -> None:
        """What would change nothing is refused."""
        given = [name for name, value in (("tokens", self.tokens), ("beams", self.beams)) if value is not None]
        if kind.listed and given:
            raise SettingError(
                f"A task of the kind {kind.name} is answered by likelihood and nothing is written, so "
                f"{' and '.join(given)} would change nothing. Leave {'it' if len(given) == 1 else 'them'} out."
            )
        if self.calibrated and not kind.listed:
            raise SettingError(
                f"A task of the kind {kind.name} is answered by writing, so there are no answers to choose from that "
                "could be calibrated. Leave calibrated out."
            )


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What was answered, and how good it is."""

    kind: str
    shots: int  # that fitted
    prompt: str  # of the first row
    said: list[str]
    wanted: list[str]
    scores: dict[str, float]


def ask(author: Author, task: Task, shown: Task | None, prompting: Prompting) -> Answers:
    """Each row of the task behind demonstrations from `shown`, or from the task itself, which then asks the rest."""
    prompting.check(task.kind)
    line_end = line_end_of(author.tokenizer) if prompting.shots or not task.kind.listed else "\n"
    template = template_of(task, prompting.template, line_end)
    shots, rows, choices = drawn(task, shown, prompting)
    for read in (task, shown or task):
        check_answers(read, template.answer)
    choices = widened(choices, shots, task)
    shots = fitting(author, template, shots, rows, task, prompting)
    prompts = [prompt_of(template, shots, row) for row in rows]
    if task.kind.listed:
        said = likeliest(author, template, prompts, choices, prompting.calibrated)
    else:
        said = written(author, prompts, task.kind, prompting, line_end)
    wanted = [row[template.answer] for row in rows]
    return Answers(
        kind=task.kind.name,
        shots=len(shots),
        prompt=prompts[0],
        said=said,
        wanted=wanted,
        scores=scores_of(task, said, wanted),
    )


def drawn(
    task: Task, shown: Task | None, prompting: Prompting
) -> tuple[list[dict[str, str]], list[dict[str, str]], list[tuple[str, ...]]]:
    """Demonstrations, the rows that are asked, and what each may answer."""
    source = shown or task
    if shown is not None and shown.kind is not task.kind:
        raise InputError(f"{shown.path} is a task of the kind {shown.kind.name}, but {task.path} of {task.kind.name}.")
    if prompting.shots > len(source.rows) - (shown is None):
        raise SettingError(
            f"{prompting.shots} demonstrations are asked for, but {source.path} has {len(source.rows)} rows"
            + (", of which one at least is to be asked." if shown is None else ".")
        )
    order = generator(prompting.seed).permutation(len(source.rows))[: prompting.shots].tolist()
    shots = [source.rows[number] for number in order]
    asked = [number for number in range(len(task.rows)) if shown is not None or number not in set(order)]
    asked = asked[: prompting.limit]
    return shots, [task.rows[number] for number in asked], [task.choices[number] for number in asked]


def widened(choices: list[tuple[str, ...]], shots: list[dict[str, str]], task: Task) -> list[tuple[str, ...]]:
    """Labels that only the demonstrations have may be answered too."""
    if task.kind.answer != "label":
        return choices
    every = tuple(sorted({label for some in choices for label in some} | {shot["label"] for shot in shots}))
    return [every] * len(choices)


def fitting(
    author: Author, template: Template, shots: list[dict[str, str]], rows: list[dict[str, str]], task: Task,
    prompting: Prompting,
) -> list[dict[str, str]]:  # fmt: skip
    """As many demonstrations as leave every row room for its answer."""
    if author.longest is None:
        return shots
    sizes = author.tokenizer.encode_many([template.question(row) for row in rows])[1]
    longest = rows[int(np.argmax(sizes))]
    room = prompting.tokens or task.kind.tokens
    if task.kind.listed:
        room = int(max(author.tokenizer.encode_many([template.said(a) for some in task.choices for a in some])[1]))
    for count in range(len(shots), -1, -1):
        size = len(author.tokenizer.encode_plain(prompt_of(template, shots[:count], longest))) + room
        if size < author.longest:
            return shots[:count]
    raise InputError(
        f"{task.path}: a row with its answer has {size:,} tokens, but this model reads {author.longest:,} at most.\n"
        "Shorten the rows, or ask for fewer --tokens."
    )


def likeliest(
    author: Author, template: Template, prompts: Sequence[str], choices: Sequence[Sequence[str]], calibrated: bool
) -> list[str]:
    """For each prompt the answer whose tokens are likeliest in the mean; calibrated, by how much the prompt helps."""
    pairs = [(prompt, template.said(choice)) for prompt, some in zip(prompts, choices, strict=True) for choice in some]
    logs = iter(answer_logs(author, pairs))
    alone: dict[str, float] = {}
    if calibrated:
        every = sorted({answer for _, answer in pairs})
        found = answer_logs(author, [(template.neutral, answer) for answer in every])
        alone = {answer: float(log.sum()) for answer, log in zip(every, found, strict=True)}
    said = []
    for some in choices:
        weights = []
        for choice in some:
            log = next(logs)
            weights.append(float(log.sum()) - alone[template.said(choice)] if calibrated else float(log.mean()))
        said.append(some[int(np.argmax(weights))])
    return said


def answer_logs(author: Author, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
    """The log-probabilities of the tokens of each answer behind its prompt."""
    rows, firsts = [], []
    for prompt, answer in pairs:
        alone, whole = author.tokenizer.encode_plain(prompt), author.tokenizer.encode_plain(prompt + answer)
        same = next((n for n, (a, b) in enumerate(zip(alone, whole, strict=False)) if a != b), len(alone))
        rows.append(whole)
        firsts.append(max(1, min(same, len(whole) - 1)))  # the answer's tokens may take the prompt's last along
    return [logs[first - 1 :] for logs, first in zip(token_logs(author, rows), firsts, strict=True)]


def written(author: Author, prompts: Sequence[str], kind: Kind, prompting: Prompting, line_end: str) -> list[str]:
    """What the model writes, as the kind of task has it: by the likeliest tokens, drawn, or searched for by beams."""
    whole = kind.sentences is not None and not prompting.shots  # nothing but demonstrations needs lines to end it
    writing = Writing(tokens=prompting.tokens or kind.tokens, stop=() if whole else (line_end,))
    if prompting.beams is not None:
        writing = replace(writing, beams=prompting.beams)
    elif kind.top_k is None:
        writing = replace(writing, temperature=0.0)
    else:
        writing = replace(writing, temperature=1.0, top_k=kind.top_k, seed=prompting.seed)
    return [kept(text.text, kind) for text in author.generate(prompts, writing)]


def kept(text: str, kind: Kind) -> str:
    """The first sentences of an answer, or all of it."""
    if kind.sentences is None:
        return text.strip()
    sentences = [sentence for line in text.splitlines() for sentence in split_sentences(line)]
    return "".join(spaced(sentences[: kind.sentences], first=True))


def scores_of(task: Task, said: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
    if not task.kind.listed:
        return {name: MEASURES[name](said, wanted) for name in task.kind.scores}
    classes = sorted({*said, *wanted})
    numbers = {name: number for number, name in enumerate(classes)}
    found = class_scores([numbers[a] for a in said], [numbers[a] for a in wanted], classes)
    return {name: found[name] for name in task.kind.scores}


def as_told(answers: Answers) -> dict[str, Any]:
    return {
        "kind": answers.kind, "shots": answers.shots, "rows": len(answers.said), **answers.scores,
        "prompt": answers.prompt, "answers": answers.said, "expected": answers.wanted,
    }  # fmt: skip
