"""Greedy text several tokens at a time: what followed the same words before is tried, and kept where it is right."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from plmkit.generation.row import Row
from plmkit.generation.write import WORTH_IT, Writer

LENGTHS = (3, 2)  # tokens that must have come before, the longer first
SIZES = (2, 5, 15)  # tokens to try: on CPUs 3, 6 and 16 rows cost about one, two and three times a single one


class Drafts:
    """What followed, the last time, each few tokens of a text."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens: list[int] = []
        self.places: dict[tuple[int, ...], int] = {}  # behind which the next token stands
        self.level = 0
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        for length in LENGTHS:  # of the tokens before this one, so that a lookup never finds itself
            if len(self.tokens) >= length:
                self.places[tuple(self.tokens[-length:])] = len(self.tokens)
        self.tokens.append(token)

    def propose(self, room: int) -> list[int]:
        """What followed then; where that ends it begins again, as text that goes in a circle does."""
        size = min(SIZES[self.level], room)
        for length in LENGTHS:
            place = self.places.get(tuple(self.tokens[-length:]))
            if place is not None:
                return list(islice(cycle(self.tokens[place : place + size]), size))
        return []

    def learn(self, tried: int, right: int) -> None:
        """Try more where all was right, few where it was not."""
        if tried:
            self.level = min(self.level + 1, len(SIZES) - 1) if right == tried else 0


def write_drafted(writer: Writer, row: Row) -> Iterator[tuple[int, str]]:
    """The text of `write` at temperature 0 for one row; the weights are read once for several tokens.

    A cache that cannot forget what was tried in vain is read on token by token.
    """
    if row.room >= WORTH_IT:
        writer.prepare()
    cache, last = writer.start([row.prompt], len(row.prompt) + row.room)
    token, drafts, can_forget = int(writer.likeliest(last)), Drafts(row.prompt), cache.can_cut
    while True:
        yield 0, row.add(token)
        if row.ended is not None:
            return
        drafts.add(token)
        guess = drafts.propose(row.room - len(row.written) - 1) if can_forget else []
        before = cache.length
        answers = writer.likeliest(writer.read([[token, *guess]], cache)[0]).tolist()
        right = 0
        while right < len(guess) and guess[right] == answers[right]:
            yield 0, row.add(guess[right])
            if row.ended is not None:
                return
            drafts.add(guess[right])
            right += 1
        drafts.learn(len(guess), right)
        if right < len(guess):
            cache.cut(before + 1 + right)
        token = answers[right]
