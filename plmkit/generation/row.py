"""One text while it is written."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from plmkit.data.randomness import generator
from plmkit.generation.spelling import Spelling, Stops
from plmkit.generation.writing import Writing
from plmkit.tokenizers.tokenizer import Tokenizer

END, STOP, LENGTH, CONTEXT = "end", "stop", "length", "context"


@dataclass(frozen=True, kw_only=True)
class Text:
    """What a model wrote after a prompt."""

    prompt: str
    text: str  # what follows the prompt
    tokens: int  # how many were written
    ended: str  # by the model's "end" token, a "stop" string, the "length" asked for, or the full "context"
    score: float | None = None  # of a beam: its log-probability, weighed for length

    @property
    def whole(self) -> str:
        return self.prompt + self.text


class Row:
    """A prompt, what follows it so far, and why it ended."""

    def __init__(
        self, text: str, prompt: Sequence[int], writing: Writing, tokenizer: Tokenizer, *, room: int, key: Sequence[int]
    ) -> None:
        self.prompt_text, self.prompt = text, list(prompt)
        self.written: list[int] = []
        self.spelling, self.stops = Spelling(tokenizer, prompt), Stops(writing.stop)
        self.end_token = tokenizer.vocabulary.end
        self.room, self.asked = room, writing.tokens
        self.rng = generator(writing.seed, *key)  # its own, so that its text does not depend on its neighbours
        self.pieces: list[str] = []
        self.ended: str | None = None

    def branch(self) -> "Row":
        """Another that goes on from here."""
        other = copy(self)
        other.written, other.pieces = [*self.written], [*self.pieces]
        other.spelling, other.stops = self.spelling.branch(), copy(self.stops)
        return other

    def add(self, token: int) -> str:
        """Take a token; gives the text that can be said now."""
        if token == self.end_token:
            return self.finish(END)
        self.written.append(token)
        new = self.said(self.stops.add(self.spelling.add(token)))
        if self.stops.found:
            self.ended = STOP
        elif len(self.written) == self.room:
            new += self.finish(LENGTH if self.room == self.asked else CONTEXT)
        return new

    def finish(self, reason: str) -> str:
        self.ended = reason
        rest = self.stops.add(self.spelling.end())
        if self.stops.found:  # in what was held back
            self.ended = STOP
        return self.said(rest + self.stops.end())

    def said(self, text: str) -> str:
        if text:
            self.pieces.append(text)
        return text

    def result(self, score: float | None = None) -> Text:
        assert self.ended is not None
        return Text(
            prompt=self.prompt_text, text="".join(self.pieces), tokens=len(self.written), ended=self.ended, score=score
        )
