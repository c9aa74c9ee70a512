"""Words as tokens: one row per text, or several windows, and where the first token of each word is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from plmkit.data.vocabulary import BYTE_SPACE, META_SPACE, MISSING, Vocabulary
from plmkit.tasks.framing import Framed, frame
from plmkit.tasks.tagging.rows import WordRow
from plmkit.tasks.windows import context, windows_of
from plmkit.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The tokens of a text."""

    tokens: np.ndarray  # (T,)
    offsets: np.ndarray  # (T, 2) where each is in the text, in characters
    firsts: np.ndarray  # (W,) the first token of each word


@dataclass(frozen=True, kw_only=True)
class Windows:
    """A text as a model reads it."""

    inputs: tuple[Framed, ...]
    words: np.ndarray  # (W, 2) the input that a word is predicted in, and its place there; below 0: from the end


def framed(rows: Sequence[WordRow], tokenizer: Tokenizer, length: int) -> list[Windows]:
    """The rows in windows of at most `length` tokens."""
    pairs = zip(rows, all_pieces(rows, tokenizer), strict=True)
    return [windowed(row, pieces, tokenizer.vocabulary, length) for row, pieces in pairs]


def all_pieces(rows: Sequence[WordRow], tokenizer: Tokenizer) -> list[Pieces]:
    """The tokens of whole texts; of a text in which several words share a token, those of each word."""
    texts = [row.text for row in rows]
    flat, lengths = tokenizer.encode_many(texts)
    ends = np.cumsum(lengths)[:-1]
    tokens = np.split(flat.astype(np.int64), ends)
    offsets = np.split(tokenizer.offsets_many(texts), ends)
    found = [aligned(row, *parts) for row, *parts in zip(rows, tokens, offsets, strict=True)]
    missing = [number for number, pieces in enumerate(found) if pieces is None]
    again = word_by_word([rows[number] for number in missing], tokenizer)
    return [next(again) if pieces is None else pieces for pieces in found]


def aligned(row: WordRow, tokens: np.ndarray, offsets: np.ndarray) -> Pieces | None:
    """The tokens with the first one of each word; None: a word has no token that is not another's."""
    spans = np.array(row.spans, dtype=np.int64).reshape(-1, 2)
    firsts = np.searchsorted(offsets[:, 1], spans[:, 0], side="right")
    if not len(spans) or firsts[-1] >= len(tokens) or (np.diff(firsts) < 1).any():
        return None
    if (offsets[firsts, 0] >= spans[:, 1]).any():
        return None
    return Pieces(tokens=tokens, offsets=offsets, firsts=firsts)


def word_by_word(rows: Sequence[WordRow], tokenizer: Tokenizer) -> Iterator[Pieces]:
    """The tokens of each word alone, as they would be in the text; a word without tokens becomes the unknown token."""
    if not rows:
        return
    vocabulary = tokenizer.vocabulary
    numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
    words = [(row.text, begin, end) for row in rows for begin, end in row.spans]
    spaces = [vocabulary.mark == BYTE_SPACE and text[begin - 1 : begin].isspace() for text, begin, _ in words]
    flat, lengths = tokenizer.encode_many(
        [" " * space + text[begin:end] for space, (text, begin, end) in zip(spaces, words, strict=True)]
    )
    parts = iter(np.split(flat.astype(np.int64), np.cumsum(lengths)[:-1]))
    for row in rows:
        tokens = []
        for begin, _ in row.spans:
            part = next(parts)
            if begin and not row.text[begin - 1].isspace():
                part = unmarked(part, vocabulary, numbers)
            tokens.append(part if len(part) else np.array([max(vocabulary.unknown, 0)]))
        sizes = np.array([len(part) for part in tokens], dtype=np.int64)
        yield Pieces(
            tokens=np.concatenate([np.zeros(0, dtype=np.int64), *tokens]),
            offsets=np.repeat(np.array(row.spans, dtype=np.int64).reshape(-1, 2), sizes, axis=0),
            firsts=np.cumsum(sizes) - sizes,
        )


def unmarked(tokens: np.ndarray, vocabulary: Vocabulary, numbers: dict[str, int]) -> np.ndarray:
    """The tokens of a word without a space before it: without the mark of one, where there is such a token."""
    if vocabulary.mark not in (BYTE_SPACE, META_SPACE) or not len(tokens):
        return tokens
    first = vocabulary.tokens[tokens[0]]
    bare = first.removeprefix(vocabulary.mark)
    if first == vocabulary.mark and len(tokens) > 1:
        return tokens[1:]
    return np.array([numbers[bare], *tokens[1:]]) if bare in numbers and bare != first else tokens


def windowed(row: WordRow, pieces: Pieces, vocabulary: Vocabulary, length: int) -> Windows:
    before, _, after = vocabulary.frame(1)
    room = max(1, length - len(before) - len(after))
    if len(pieces.tokens) > room:
        pieces = shortened(pieces, max(1, room // 2))
    starts = np.concatenate([[0], pieces.firsts[1:]])[: len(pieces.firsts)]
    total = len(pieces.tokens)
    inputs, words = [], np.zeros((len(starts), 2), dtype=np.int64)
    best = np.full(len(starts), -np.inf)
    for number, (first, stop) in enumerate(windows_of(starts, total, room)):
        begin = int(starts[first]) if len(starts) else 0
        end = int(starts[stop]) if stop < len(starts) else total
        places = pieces.firsts[first:stop]
        seen = context(places, begin, end)
        better = seen > best[first:stop]
        shift = begin + (end - begin) + len(after) if vocabulary.closes else begin - len(before)
        words[first:stop][better] = np.stack([np.full(len(places), number), places - shift], axis=1)[better]
        best[first:stop] = np.maximum(seen, best[first:stop])
        inputs.append(part_of(pieces, begin, end, row.text, vocabulary, length))
    return Windows(inputs=tuple(inputs), words=words)


def part_of(pieces: Pieces, begin: int, end: int, text: str, vocabulary: Vocabulary, length: int) -> Framed:
    """The tokens from `begin` to before `end`, framed; unknown words with their spelling, if the model reads it."""
    tokens = pieces.tokens[begin:end]
    made = frame(tokens, None, vocabulary, length)
    if not vocabulary.spelled or vocabulary.unknown == MISSING:
        return made
    unknown = pieces.offsets[begin:end][tokens == vocabulary.unknown].tolist()
    return Framed(
        tokens=made.tokens, second=made.second, cut=made.cut, unknown=tuple(text[first:last] for first, last in unknown)
    )


def shortened(pieces: Pieces, longest: int) -> Pieces:
    """Words of at most that many tokens: a window holds several words, and a word is predicted at its first token."""
    sizes = np.diff(np.append(pieces.firsts, len(pieces.tokens)))
    if not len(sizes) or (sizes.max() <= longest and pieces.firsts[0] < longest):
        return pieces
    lead = min(int(pieces.firsts[0]), longest // 2)  # tokens before the first word
    inside = np.arange(len(pieces.tokens)) - np.repeat(
        np.append(0, pieces.firsts), np.diff([0, *pieces.firsts, len(pieces.tokens)])
    )
    kept = inside < longest
    kept[: pieces.firsts[0]] = False
    kept[pieces.firsts[0] - lead : pieces.firsts[0]] = True
    return Pieces(tokens=pieces.tokens[kept], offsets=pieces.offsets[kept], firsts=(np.cumsum(kept) - 1)[pieces.firsts])
