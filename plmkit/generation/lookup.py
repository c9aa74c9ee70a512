"""Prompt lookup decoding: greedy decoding of several tokens at a time, with earlier text as the draft (Saxena, 2023).

The tokens that followed the same n-gram earlier in the text are proposed, checked in one pass, and accepted as far as
greedy decoding would have chosen them.
"""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from plmkit.generation.language_model import LanguageModel
from plmkit.generation.sequence import GeneratedSequence

NGRAMS = (3, 2)  # lengths of the n-grams that are looked up, in this order
SIZES = (2, 5, 15)  # proposed tokens: on CPUs 3, 6 and 16 positions cost about one, two and three times a single one


class PromptLookup:
    """What followed the latest occurrence of each n-gram of a text."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens: list[int] = []
        self.places: dict[tuple[int, ...], int] = {}  # of the token after each n-gram
        self.level = 0
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        for length in NGRAMS:  # of the tokens before this one, so that a lookup never finds itself
            if len(self.tokens) >= length:
                self.places[tuple(self.tokens[-length:])] = len(self.tokens)
        self.tokens.append(token)

    def propose(self, maximum: int) -> list[int]:
        """The tokens that followed then; at the end of the text they start over, as repeated text does."""
        size = min(SIZES[self.level], maximum)
        for length in NGRAMS:
            place = self.places.get(tuple(self.tokens[-length:]))
            if place is not None:
                return list(islice(cycle(self.tokens[place : place + size]), size))
        return []

    def adapt(self, proposed: int, accepted: int) -> None:
        """Propose more after everything was accepted, few otherwise."""
        if proposed:
            self.level = min(self.level + 1, len(SIZES) - 1) if accepted == proposed else 0


def decode_with_lookup(model: LanguageModel, sequence: GeneratedSequence) -> Iterator[tuple[int, str]]:
    """The same greedy text as `decode_batch`, with one pass over the weights for several tokens.

    With a cache that cannot drop rejected tokens, it decodes token by token.
    """
    model.expect(sequence.max_tokens)
    cache, last = model.prefill([sequence.prompt], len(sequence.prompt) + sequence.max_tokens)
    token, lookup = int(model.argmax(last)), PromptLookup(sequence.prompt)
    while True:
        yield 0, sequence.add(token)
        if sequence.ended is not None:
            return
        lookup.add(token)
        proposed = lookup.propose(sequence.max_tokens - len(sequence.tokens) - 1) if cache.can_cut else []
        before = cache.length
        greedy = model.argmax(model.extend([[token, *proposed]], cache)[0]).tolist()
        accepted = 0
        while accepted < len(proposed) and proposed[accepted] == greedy[accepted]:
            yield 0, sequence.add(proposed[accepted])
            if sequence.ended is not None:
                return
            lookup.add(proposed[accepted])
            accepted += 1
        lookup.adapt(len(proposed), accepted)
        if accepted < len(proposed):
            cache.cut(before + 1 + accepted)
        token = greedy[accepted]
