"""Prompts to texts: checked, in batches of like length, written or searched for."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from plmkit.errors import InputError, SettingError
from plmkit.generation.beams import search
from plmkit.generation.drafting import write_drafted
from plmkit.generation.row import Row, Text
from plmkit.generation.spelling import can_spell
from plmkit.generation.write import Writer, write
from plmkit.generation.writing import Writing
from plmkit.tokenizers.tokenizer import Tokenizer

ROWS_AT_ONCE = 32


class Author:
    """A left-to-right model with its tokenizer."""

    def __init__(self, writer: Writer, tokenizer: Tokenizer, longest: int | None) -> None:
        self.writer, self.tokenizer = writer, tokenizer
        self.longest = longest  # tokens that it reads; None: any number
        self.end: int = tokenizer.vocabulary.end

    def generate(self, prompts: Sequence[str], writing: Writing) -> list[Text]:
        """`n` texts for each prompt, in order."""
        return [text for text in self.told(prompts, writing) if isinstance(text, Text)]

    def told(self, prompts: Sequence[str], writing: Writing) -> Iterator[str | Text]:
        """Text after text in pieces, each as soon as it can be said, and behind its pieces each one whole.

        All are written side by side; beams say nothing before a prompt's search is over.
        """
        self.check_stops(writing)
        encoded = [self.read(prompt) for prompt in prompts]
        if writing.beams is not None:
            for prompt, tokens in zip(prompts, encoded, strict=True):
                for text in self.searched(prompt, tokens, writing):
                    yield text.text
                    yield text
            return
        rows = [
            self.row(prompt, encoded[number], writing, number, sample)
            for number, prompt in enumerate(prompts)
            for sample in range(writing.n)
        ]
        places = {row: place for place, row in enumerate(rows)}
        turn, said = 0, 0  # whose text is being told, and how many of its pieces were
        for group in sorted(alike(rows, writing.tokens), key=lambda group: min(places[row] for row in group)):
            for _ in self.written(group, writing):
                while turn < len(rows):
                    yield from rows[turn].pieces[said:]
                    said = len(rows[turn].pieces)
                    if rows[turn].ended is None:
                        break
                    yield rows[turn].result()
                    turn, said = turn + 1, 0

    @torch.inference_mode()
    def written(self, rows: Sequence[Row], writing: Writing) -> Iterator[tuple[int, str]]:
        if writing.greedy and len(rows) == 1 and self.writer.drafts:
            yield from write_drafted(self.writer, rows[0])
        else:
            yield from write(self.writer, rows, writing)

    @torch.inference_mode()
    def searched(self, prompt: str, tokens: list[int], writing: Writing) -> list[Text]:
        found = search(self.writer, self.row(prompt, tokens, writing, 0, 0), writing)
        return [row.result(score) for row, score in found]

    def read(self, prompt: str) -> list[int]:
        """The tokens of a prompt, if there are some and not too many."""
        tokens = self.tokenizer.encode(prompt)
        if not tokens:
            raise InputError(f"The prompt is empty. Give some text to go on from{self.or_a_new_text()}.")
        if self.longest is not None and len(tokens) >= self.longest:
            raise InputError(
                f"The prompt has {len(tokens):,} tokens, but this model reads {self.longest:,} at most, "
                "the new ones included. Shorten the prompt."
            )
        return tokens

    def check_stops(self, writing: Writing) -> None:
        for stop in writing.stop:
            if not can_spell(self.tokenizer, stop):
                read = self.tokenizer.decode(self.tokenizer.encode_plain(stop))
                raise SettingError(
                    f"The stop string {stop!r} can never come: this model's tokenizer "
                    + (f"reads it as {read!r}. Give another." if read else "does not see it. Give another.")
                )

    def or_a_new_text(self) -> str:
        return f", or {self.tokenizer.vocabulary.tokens[self.end]} to begin a new text" if self.end >= 0 else ""

    def row(self, prompt: str, tokens: list[int], writing: Writing, number: int, sample: int) -> Row:
        room = writing.tokens if self.longest is None else min(writing.tokens, self.longest - len(tokens))
        return Row(prompt, tokens, writing, self.tokenizer, room=room, key=(number, sample))


def alike(rows: Sequence[Row], tokens: int) -> Iterator[list[Row]]:
    """Rows in groups whose prompts are near in length: a longer one is read in steps while others are written."""
    group: list[Row] = []
    for row in sorted(rows, key=lambda row: len(row.prompt)):
        if group and (len(group) == ROWS_AT_ONCE or len(row.prompt) - len(group[0].prompt) > tokens):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def author_of(
    model: Any, vocabulary: torch.nn.Module, tokenizer: Tokenizer, longest: int | None, device: torch.device
) -> Author:
    """For a model with `begin` and `extend`, and its head over the vocabulary."""
    known = tokenizer.vocabulary
    banned = sorted(known.special - {known.end})
    return Author(Writer(model, vocabulary, len(known), banned, device), tokenizer, longest)
