"""Templates that show a row of a task as text, and prompts with demonstrations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plmkit.errors import InputError, SettingError, nearest
from plmkit.generation.sequence import can_produce
from plmkit.language import comma, tr
from plmkit.prompting.tasks import FIELD, PromptTask
from plmkit.tokenizers.tokenizer import Tokenizer

LINE_ENDS = ("\n", "|", ";", "/", ".")  # the first that a tokenizer can produce ends an answer


@dataclass(frozen=True, kw_only=True)
class Template:
    """How a row is shown; everything before the answer is the question."""

    text: str
    answer: str
    line_end: str = "\n"

    def __post_init__(self) -> None:
        fields = FIELD.findall(self.text)
        if self.answer not in fields or fields.index(self.answer) != len(fields) - 1 or not self.text.endswith("}"):
            raise SettingError(
                tr(
                    "The template must end with {{{answer}}}, which the model is to predict, and name it once; "
                    "found '{text}'.",
                    answer=self.answer,
                    text=self.text,
                )
            )

    def question(self, row: Mapping[str, str]) -> str:
        """Without the space before the answer, which belongs to the answer's first token."""
        before = self.text[: -len(self.answer) - 2]
        lines = [filled(line, row) for line in before.split("\n")]
        return "\n".join(line for line in lines if line is not None).rstrip(" ")

    def demonstration(self, row: Mapping[str, str]) -> str:
        return self.question(row) + self.completion(row[self.answer])

    def completion(self, answer: str) -> str:
        """The answer as it follows its question."""
        return self.space + answer

    @property
    def space(self) -> str:
        return " " if self.text[: -len(self.answer) - 2].endswith(" ") else ""

    @property
    def neutral(self) -> str:
        """A prompt for an answer without a question: `Label:`."""
        return FIELD.split(self.text[: -len(self.answer) - 2])[-1].strip() or "Answer:"


def filled(line: str, row: Mapping[str, str]) -> str | None:
    """A line with its fields; None where it is nothing but a field that this row lacks."""
    if (only := FIELD.fullmatch(line)) and not row.get(only[1]):
        return None
    for name in FIELD.findall(line):
        if name not in row:
            raise SettingError(
                tr(
                    "The template names {{{name}}}, but the columns are {columns}.{hint}",
                    name=name,
                    columns=comma().join(row),
                    hint=nearest(name, row),
                )
            )
    return FIELD.sub(lambda found: row[found[1]], line)


def prompt_of(template: Template, shots: Sequence[Mapping[str, str]], row: Mapping[str, str]) -> str:
    """Demonstrations, then the question (Brown et al., 2020, 2.4)."""
    between = "\n\n" if template.line_end == "\n" else f" {template.line_end} "
    return between.join([*(template.demonstration(shot) for shot in shots), template.question(row)])


def line_end_of(tokenizer: Tokenizer) -> str:
    """What separates demonstrations and ends an answer: a line break, or a mark where the tokenizer has none."""
    if (found := next((mark for mark in LINE_ENDS if can_produce(tokenizer, mark)), None)) is None:
        raise InputError(
            tr(
                "This model's tokenizer can produce neither a line break nor {line_ends}, so demonstrations would "
                "run together and answers would not end. Use a model with another tokenizer.",
                line_ends=" ".join(LINE_ENDS[1:]),
            )
        )
    return found


def template_of(task: PromptTask, text: str | None, line_end: str) -> Template:
    """The given template, or that of the kind; it may choose two of several languages: `{en} = {fr}`."""
    answer, columns = task.kind.answer, task.rows[0]
    if text is not None and task.kind.of_languages:
        last = FIELD.findall(text)[-1:]
        answer = last[0] if last and last[0] in columns else answer
    if answer not in columns:
        raise SettingError(
            tr(
                "{path} has the columns {columns}; a translation is from one language into another.\n"
                "Choose two with a template, the answer last, such as --template '{example}'.",
                path=task.path,
                columns=comma().join(columns),
                example=" = ".join(f"{{{name}}}" for name in list(columns)[:2]),
            )
        )
    return Template(text=text or task.kind.template, answer=answer, line_end=line_end)
