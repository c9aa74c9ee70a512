"""Tokens to text as they come: no half characters, nothing that the next token could still change."""

from collections.abc import Sequence
from copy import copy

from plmkit.tokenizers.tokenizer import Tokenizer

CONTEXT = 32  # tokens before that decide how the next ones are joined: spaces, words, characters in bytes
BROKEN = "\ufffd"  # where bytes are no character


class Spelling:
    """The text that follows a prompt, token by token."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.window = list(prompt[-CONTEXT:])
        self.said = tokenizer.decode(self.window)

    def branch(self) -> "Spelling":
        other = copy(self)
        other.window = [*self.window]
        return other

    def add(self, token: int) -> str:
        """What can be said now; it may be nothing, or more than this token."""
        self.window.append(token)
        settled = self.tokenizer.settled(self.window)
        new = self.told(settled)
        if len(self.window) > 3 * CONTEXT:
            forgotten = min(settled, len(self.window)) - CONTEXT
            self.window = self.window[forgotten:]
            self.said = self.tokenizer.decode(self.window[: settled - forgotten])
        return new

    def end(self) -> str:
        """What was held back, now that nothing follows; bytes that never became a character are dropped."""
        return self.told(len(self.window))

    def told(self, tokens: int) -> str:
        text = self.tokenizer.decode(self.window[:tokens])
        new = text[behind(text, self.said) :]
        if new:
            self.said = text
        return new.replace(BROKEN, "")


def behind(text: str, said: str) -> int:
    """Where in the text that begins with what was said the rest begins; the first token may move a prompt's spaces."""
    if text.startswith(said):
        return len(said)
    letters = sum(not character.isspace() for character in said)
    visible = (place for place, character in enumerate(text, start=1) if not character.isspace())
    return next((place for count, place in enumerate(visible, start=1) if count == letters), len(text))


def can_spell(tokenizer: Tokenizer, text: str) -> bool:
    """May tokens ever read as this text? Some tokenizers have no line breaks, no upper case, or not every character."""
    breaks = {character for character in text if character.isspace()} - {" "}
    for around in (text, f"a{text}", f"{text}a"):  # a character may be known inside words only
        read = tokenizer.decode(tokenizer.encode_plain(around))
        if "".join(text.split()) in "".join(read.split()) and breaks <= set(read):
            return True
    return False


class Stops:
    """The text before the first stop string; what may be the beginning of one is held back."""

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
        held = max(beginning(self.waiting, stop) for stop in self.stops)
        cut = len(self.waiting) - held
        ready, self.waiting = self.waiting[:cut], self.waiting[cut:]
        return ready

    def end(self) -> str:
        ready, self.waiting = self.waiting, ""
        return ready


def beginning(text: str, stop: str) -> int:
    """How many last characters of the text are the first ones of the stop string."""
    return next(size for size in range(min(len(text), len(stop) - 1), -1, -1) if text.endswith(stop[:size]))
