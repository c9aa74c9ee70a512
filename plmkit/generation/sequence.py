"""One text while it is generated: its tokens, the text they decode to so far, and why it ended."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from plmkit.data.randomness import generator
from plmkit.generation.options import GenerationOptions
from plmkit.tokenizers.tokenizer import Tokenizer

END, STOP, LENGTH, CONTEXT = "end", "stop", "length", "context"
DECODED_TOKENS = 32  # previous tokens that affect how the next ones decode: spaces, words, characters in bytes
BROKEN = "\ufffd"  # where bytes are not a character


@dataclass(frozen=True, kw_only=True)
class GeneratedText:
    """What a model generated after a prompt."""

    prompt: str
    text: str  # what follows the prompt
    tokens: int  # number of generated tokens
    ended: str  # by the model's "end" token, a "stop" string, the maximum "length", or the full "context"
    score: float | None = None  # of beam search: the log-probability with the length penalty

    @property
    def whole(self) -> str:
        return self.prompt + self.text


class GeneratedSequence:
    """A prompt, the tokens generated after it so far, and why it ended."""

    def __init__(
        self, text: str, prompt: Sequence[int], options: GenerationOptions, tokenizer: Tokenizer, *, max_tokens: int,
        key: Sequence[int],
    ) -> None:  # fmt: skip
        self.prompt_text, self.prompt = text, list(prompt)
        self.tokens: list[int] = []
        self.decoder, self.stops = StreamDecoder(tokenizer, prompt), StopStrings(options.stop)
        self.end_token = tokenizer.vocabulary.end
        self.max_tokens, self.requested_tokens = max_tokens, options.tokens
        self.rng = generator(options.random_seed, *key)  # per text, so that it does not depend on the rest of the batch
        self.pieces: list[str] = []
        self.ended: str | None = None

    def extended(self, token: int) -> "GeneratedSequence":
        """A copy with one more token; text already decoded is not decoded again."""
        other = copy(self)
        other.tokens, other.pieces = [*self.tokens], [*self.pieces]
        other.decoder, other.stops = self.decoder.fork(), copy(self.stops)
        other.add(token)
        return other

    def add(self, token: int) -> str:
        """Append a token; returns the text that is final now."""
        if token == self.end_token:
            return self.finish(END)
        self.tokens.append(token)
        new = self.emit(self.stops.add(self.decoder.add(token)))
        if self.stops.found:
            self.ended = STOP
        elif len(self.tokens) == self.max_tokens:
            new += self.finish(LENGTH if self.max_tokens == self.requested_tokens else CONTEXT)
        return new

    def finish(self, reason: str) -> str:
        self.ended = reason
        rest = self.stops.add(self.decoder.end())
        if self.stops.found:  # in what was held back
            self.ended = STOP
        return self.emit(rest + self.stops.end())

    def emit(self, text: str) -> str:
        if text:
            self.pieces.append(text)
        return text

    def result(self, score: float | None = None) -> GeneratedText:
        assert self.ended is not None
        return GeneratedText(
            prompt=self.prompt_text, text="".join(self.pieces), tokens=len(self.tokens), ended=self.ended, score=score
        )


class StreamDecoder:
    """Decodes the text after a prompt token by token: no partial characters, nothing that the next token may change."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.window = list(prompt[-DECODED_TOKENS:])
        self.emitted = tokenizer.decode(self.window)

    def fork(self) -> "StreamDecoder":
        other = copy(self)
        other.window = [*self.window]
        return other

    def add(self, token: int) -> str:
        """The text that is final now; it may be empty, or more than this token."""
        self.window.append(token)
        settled = self.tokenizer.settled(self.window)
        new = self.emit(settled)
        if len(self.window) > 3 * DECODED_TOKENS:
            dropped = min(settled, len(self.window)) - DECODED_TOKENS
            self.window = self.window[dropped:]
            self.emitted = self.tokenizer.decode(self.window[: settled - dropped])
        return new

    def end(self) -> str:
        """What was held back, now that nothing follows; bytes that never became a character are dropped."""
        return self.emit(len(self.window))

    def emit(self, tokens: int) -> str:
        text = self.tokenizer.decode(self.window[:tokens])
        new = text[end_of_prefix(text, self.emitted) :]
        if new:
            self.emitted = text
        return new.replace(BROKEN, "")


def end_of_prefix(text: str, prefix: str) -> int:
    """Where the rest of a text begins after what was emitted; the first token may change the spaces of a prompt."""
    if text.startswith(prefix):
        return len(prefix)
    letters = sum(not character.isspace() for character in prefix)
    visible = (place for place, character in enumerate(text, start=1) if not character.isspace())
    return next((place for count, place in enumerate(visible, start=1) if count == letters), len(text))


class StopStrings:
    """Passes on the text before the first stop string; what may be the beginning of one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = stops
        self.waiting = ""
        self.found = False

    def add(self, text: str) -> str:
        if not self.stops:
            return text
        self.waiting += text
        places = [place for stop in self.stops if (place := self.waiting.find(stop)) >= 0]
        if places:
            self.found = True
            ready, self.waiting = self.waiting[: min(places)], ""
            return ready
        held = max(overlap(self.waiting, stop) for stop in self.stops)
        cut = len(self.waiting) - held
        ready, self.waiting = self.waiting[:cut], self.waiting[cut:]
        return ready

    def end(self) -> str:
        ready, self.waiting = self.waiting, ""
        return ready


def overlap(text: str, stop: str) -> int:
    """The number of last characters of the text that are the first ones of the stop string."""
    return next(size for size in range(min(len(text), len(stop) - 1), -1, -1) if text.endswith(stop[:size]))


def can_produce(tokenizer: Tokenizer, text: str) -> bool:
    """Whether tokens may decode to this text: some tokenizers drop line breaks, upper case or some characters."""
    breaks = {character for character in text if character.isspace()} - {" "}
    for around in (text, f"a{text}", f"{text}a"):  # a character may be known inside words only
        decoded = tokenizer.decode(tokenizer.encode_plain(around))
        if "".join(text.split()) in "".join(decoded.split()) and breaks <= set(decoded):
            return True
    return False
