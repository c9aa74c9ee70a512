"""Tokens for display, unknown ones with what the text has in their place."""

from collections.abc import Sequence

from plmkit.tokenizers.tokenizer import Tokenizer


def labels_of(
    tokenizer: Tokenizer, tokens: Sequence[int], texts: Sequence[str], *, spelled: bool = False
) -> tuple[str, ...]:
    """Labels of tokens, which are the last ones of these texts; special tokens may stand between them.

    A model that reads words `spelled` knows those that its vocabulary does not.
    """
    unknown, labels = tokenizer.vocabulary.unknown, list(tokenizer.labels(tokens))
    places = [place for place, token in enumerate(tokens) if token == unknown]
    words = [word for text in texts for word in unknown_words(tokenizer, text)]
    for place, word in zip(reversed(places), reversed(words), strict=False):
        if word != labels[place]:
            labels[place] = word if spelled else f"{word} {labels[place]}"
    return tuple(labels)


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """What stands in the text where `encode` finds the unknown token."""
    unknown = tokenizer.vocabulary.unknown
    spans = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
    return [text[begin:end] for token, (begin, end) in spans if token == unknown]
