"""Answer a task by prompt: choose the most likely answer, or generate one, and score the answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plmkit.data.randomness import generator
from plmkit.data.text import split_sentences
from plmkit.errors import InputError, SettingError
from plmkit.generation.engine import Engine
from plmkit.generation.likelihood import token_log_probabilities
from plmkit.generation.options import MAX_BEAMS, MAX_TOKENS, GenerationOptions, check_count
from plmkit.language import tr
from plmkit.prompting.metrics import METRICS
from plmkit.prompting.tasks import PromptKind, PromptTask, check_answers
from plmkit.prompting.templates import Template, line_end_of, prompt_of, template_of
from plmkit.tasks.scores import class_scores
from plmkit.tokenizers.tokenizer import spaced


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """How a task is answered by prompt."""

    shots: int = 0  # demonstrations before each question
    template: str | None = None
    calibrated: bool = False  # compare answers by how much the question raises their log-probability
    tokens: int | None = None  # maximum length of a generated answer; None: that of the kind
    beams: int | None = None  # beam search for generated answers
    limit: int | None = None  # maximum number of rows
    seed: int = 0

    def __post_init__(self) -> None:
        if self.shots < 0:
            raise SettingError(tr("shots is the number of demonstrations, 0 or more; found {shots}.", shots=self.shots))
        if self.limit is not None and self.limit < 1:
            raise SettingError(tr("limit is the number of rows to answer, 1 or more; found {limit}.", limit=self.limit))
        if self.tokens is not None:
            check_count("tokens", self.tokens, MAX_TOKENS)
        if self.beams is not None:
            check_count("beams", self.beams, MAX_BEAMS)

    def check(self, kind: PromptKind) -> None:
        """Options without effect are refused."""
        given = [name for name, value in (("tokens", self.tokens), ("beams", self.beams)) if value is not None]
        if kind.chooses and given:
            raise SettingError(
                tr(
                    "A task of the kind {name} is answered by likelihood and nothing is generated. Leave out {given}, "
                    "which would have no effect.",
                    name=kind.name,
                    given=tr(" and ").join(given),
                )
            )
        if self.calibrated and not kind.chooses:
            raise SettingError(
                tr(
                    "A task of the kind {name} is answered by generating text, so there are no choices to "
                    "calibrate. Leave calibrated out.",
                    name=kind.name,
                )
            )


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers to a task, and their scores."""

    kind: str
    shots: int  # that fit into the context
    prompt: str  # of the first row
    predicted: list[str]
    expected: list[str]
    scores: dict[str, float]


def ask(engine: Engine, task: PromptTask, shown: PromptTask | None, options: PromptOptions) -> Answers:
    """Answer each row after demonstrations from `shown`, or else from the task, whose other rows are then answered."""
    options.check(task.kind)
    line_end = line_end_of(engine.tokenizer) if options.shots or not task.kind.chooses else "\n"
    template = template_of(task, options.template, line_end)
    shots, rows, choices = selected(task, shown, options)
    for read in (task, shown or task):
        check_answers(read, template.answer)
    choices = with_shown_labels(choices, shots, task)
    shots = fitting(engine, template, shots, rows, task, options)
    prompts = [prompt_of(template, shots, row) for row in rows]
    if task.kind.chooses:
        predicted = choose(engine, template, prompts, choices, options.calibrated)
    else:
        predicted = generate(engine, prompts, task.kind, options, line_end)
    expected = [row[template.answer] for row in rows]
    return Answers(
        kind=task.kind.name,
        shots=len(shots),
        prompt=prompts[0],
        predicted=predicted,
        expected=expected,
        scores=scores_of(task, predicted, expected),
    )


def selected(
    task: PromptTask, shown: PromptTask | None, options: PromptOptions
) -> tuple[list[dict[str, str]], list[dict[str, str]], list[tuple[str, ...]]]:
    """Demonstrations, the rows to answer, and the choices of each."""
    source = shown or task
    if shown is not None and not options.shots:
        raise SettingError(
            tr(
                "--train {path} has no effect without demonstrations. Say how many with --shots, or leave it out.",
                path=shown.path,
            )
        )
    if shown is not None and shown.kind is not task.kind:
        raise InputError(
            tr(
                "{shown} is a task of the kind {shown_kind}, but {path} of the kind {kind}.",
                shown=shown.path,
                shown_kind=shown.kind.name,
                path=task.path,
                kind=task.kind.name,
            )
        )
    if options.shots > len(source.rows) - (shown is None):
        values = {"shots": options.shots, "path": source.path, "rows": len(source.rows)}
        if shown is not None:
            raise SettingError(tr("{shots} demonstrations are requested, but {path} has {rows} rows.", **values))
        raise SettingError(
            tr(
                "{shots} demonstrations are requested, but {path} has {rows} rows, of which at least one must be left "
                "to answer.",
                **values,
            )
        )
    order = generator(options.seed).permutation(len(source.rows))[: options.shots].tolist()
    shots = [source.rows[number] for number in order]
    left = [number for number in range(len(task.rows)) if shown is not None or number not in set(order)]
    left = left[: options.limit]
    return shots, [task.rows[number] for number in left], [task.choices[number] for number in left]


def with_shown_labels(
    choices: list[tuple[str, ...]], shots: list[dict[str, str]], task: PromptTask
) -> list[tuple[str, ...]]:
    """Labels that only the demonstrations have are choices too."""
    if task.kind.answer != "label":
        return choices
    every = tuple(sorted({label for some in choices for label in some} | {shot["label"] for shot in shots}))
    return [every] * len(choices)


def fitting(
    engine: Engine, template: Template, shots: list[dict[str, str]], rows: list[dict[str, str]], task: PromptTask,
    options: PromptOptions,
) -> list[dict[str, str]]:  # fmt: skip
    """As many demonstrations as leave room in the context for every row and its answer."""
    if engine.max_length is None:
        return shots
    sizes = engine.tokenizer.encode_many([template.question(row) for row in rows])[1]
    longest = rows[int(np.argmax(sizes))]
    room = options.tokens or task.kind.tokens
    if task.kind.chooses:
        answers = [template.completion(answer) for some in task.choices for answer in some]
        room = int(max(engine.tokenizer.encode_many(answers)[1]))
    for count in range(len(shots), -1, -1):
        size = len(engine.tokenizer.encode_plain(prompt_of(template, shots[:count], longest))) + room
        if size < engine.max_length:
            return shots[:count]
    raise InputError(
        tr(
            "{path}: a row with its answer has {size:,} tokens, but the context of this model is {max_length:,} "
            "tokens.\n"
            "Shorten the rows, or use fewer --tokens.",
            path=task.path,
            size=size,
            max_length=engine.max_length,
        )
    )


def choose(
    engine: Engine, template: Template, prompts: Sequence[str], choices: Sequence[Sequence[str]], calibrated: bool
) -> list[str]:
    """The answer with the highest mean log-probability; if calibrated, the one that the prompt raises most."""
    pairs = [
        (prompt, template.completion(choice)) for prompt, some in zip(prompts, choices, strict=True) for choice in some
    ]
    logs = iter(answer_log_probabilities(engine, pairs))
    alone: dict[str, float] = {}
    if calibrated:
        every = sorted({answer for _, answer in pairs})
        found = answer_log_probabilities(engine, [(template.neutral, answer) for answer in every])
        alone = {answer: float(log.sum()) for answer, log in zip(every, found, strict=True)}
    predicted = []
    for some in choices:
        scores = []
        for choice in some:
            log = next(logs)
            scores.append(float(log.sum()) - alone[template.completion(choice)] if calibrated else float(log.mean()))
        predicted.append(some[int(np.argmax(scores))])
    return predicted


def answer_log_probabilities(engine: Engine, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
    """The log-probabilities of the tokens of each answer given its prompt."""
    rows, firsts = [], []
    for prompt, answer in pairs:
        alone, whole = engine.tokenizer.encode_plain(prompt), engine.tokenizer.encode_plain(prompt + answer)
        same = next((n for n, (a, b) in enumerate(zip(alone, whole, strict=False)) if a != b), len(alone))
        rows.append(whole)
        firsts.append(max(1, min(same, len(whole) - 1)))  # the last token of the prompt may merge with the answer
    return token_log_probabilities(engine, rows, firsts)


def generate(
    engine: Engine, prompts: Sequence[str], kind: PromptKind, options: PromptOptions, line_end: str
) -> list[str]:
    """Generated answers: by beam search if requested, otherwise as the kind has it, greedy or sampled."""
    whole = kind.sentences is not None and not options.shots  # only demonstrations make lines end an answer
    decoding = GenerationOptions(tokens=options.tokens or kind.tokens, stop=() if whole else (line_end,))
    if options.beams is not None:
        decoding = replace(decoding, beams=options.beams)
    elif kind.top_k is None:
        decoding = replace(decoding, temperature=0.0)
    else:
        decoding = replace(decoding, temperature=1.0, top_k=kind.top_k, seed=options.seed)
    return [first_sentences(text.text, kind) for text in engine.generate(prompts, decoding)]


def first_sentences(text: str, kind: PromptKind) -> str:
    """The first sentences of an answer, or all of it."""
    if kind.sentences is None:
        return text.strip()
    sentences = [sentence for line in text.splitlines() for sentence in split_sentences(line)]
    return "".join(spaced(sentences[: kind.sentences], first=True))


def scores_of(task: PromptTask, predicted: Sequence[str], expected: Sequence[str]) -> dict[str, float]:
    if not task.kind.chooses:
        return {name: METRICS[name](predicted, expected) for name in task.kind.scores}
    classes = sorted({*predicted, *expected})
    numbers = {name: number for number, name in enumerate(classes)}
    found = class_scores([numbers[a] for a in predicted], [numbers[a] for a in expected], classes)
    return {name: found[name] for name in task.kind.scores}


def report(answers: Answers) -> dict[str, Any]:
    return {
        "kind": answers.kind, "shots": answers.shots, "rows": len(answers.predicted), **answers.scores,
        "prompt": answers.prompt, "answers": answers.predicted, "expected": answers.expected,
    }  # fmt: skip
