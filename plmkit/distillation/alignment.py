"""A student and a teacher with different vocabularies: their tokens, and their rows, aligned by text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import (
    BYTE_SPACE,
    CONTINUATION,
    META_SPACE,
    MISSING,
    ROLES,
    WORD_END,
    Vocabulary,
)
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.tokenizers.readable import BYTE_OF, IS_WIDE
from plmkit.tokenizers.tokenizer import Tokenizer

LEAST = 0.25  # share of the student's tokens that the teacher must know
NEAR = 16  # bytes within which the next token is looked for if it is not where it should be
Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class AlignedRows:
    """A batch as the teacher reads it, and where each token of the student's rows is in it."""

    batch: Batch  # of the teacher's tokens
    places: Tensor  # (B, L) of each token of the student the position in the teacher's row; 0 where it has none
    aligned: Tensor  # (B, L) True where it has one
    comparable: Tensor  # (B, L) True where, besides, the token to predict is in both vocabularies


class Alignment:
    """Tokens of two vocabularies that have the same text, and rows of one as rows of the other."""

    def __init__(self, student: Tokenizer, teacher: Tokenizer, *, causal: bool, length: int) -> None:
        self.student, self.teacher, self.causal, self.length = student, teacher, causal, length
        self.texts = [text_of(token, student.vocabulary.mark) for token in student.vocabulary.tokens]
        self.roles = roles_of(student.vocabulary, teacher.vocabulary)
        self.common = common_tokens(student.vocabulary, teacher.vocabulary)
        self.counterpart = np.full(len(student.vocabulary), MISSING)  # of each token of the student, the teacher's
        self.counterpart[self.common[:, 0]] = self.common[:, 1]
        self.is_common = self.counterpart != MISSING
        self.counterpart[list(self.roles)] = list(self.roles.values())

    @property
    def share(self) -> float:
        """The share of the student's tokens that are the teacher's too, of those that are text."""
        return len(self.common) / max(1, sum(map(self.says_something, self.student.vocabulary.ordinary.tolist())))

    def says_something(self, token: int) -> bool:
        """Whether it is text by itself: a part of a character is not."""
        text = self.texts[token].decode("utf-8", "replace")
        return bool(text.strip()) and text.isprintable() and "\ufffd" not in text

    def rows(self, batch: Batch, *, masked: bool) -> AlignedRows:
        """`masked`: tokens with a target are masked or replaced, and the teacher's are to be so too."""
        tokens = batch.source.tokens.cpu().numpy()
        targets = None if batch.targets is None else batch.targets.cpu().numpy()
        known = tokens if targets is None or not masked else np.where(targets == IGNORE, tokens, targets)
        segments, lengths = batch.source.segment_ids.cpu().numpy(), batch.source.visible.sum(1).tolist()
        rows = [
            self.row(tokens[row, :length], known[row, :length], segments[row, :length])
            for row, length in enumerate(lengths)
        ]
        wanted = known if targets is None or masked else targets
        is_common = self.is_common[wanted.clip(min=0)] & (wanted >= 0)
        longest = max(1, *(len(one.tokens) for one in rows))
        made = {name: np.zeros((len(rows), longest), dtype=np.int64) for name in ("tokens", "segments")}
        made["tokens"] += self.teacher.vocabulary.filler
        visible, places = np.zeros((len(rows), longest), dtype=bool), np.full(tokens.shape, MISSING)
        for number, one in enumerate(rows):
            count = len(one.tokens)
            made["tokens"][number, :count], made["segments"][number, :count] = one.tokens, one.segments
            visible[number, :count] = True
            places[number, : len(one.places)] = one.places
        device = batch.source.tokens.device
        side = Side(
            tokens=torch.from_numpy(made["tokens"]), visible=torch.from_numpy(visible),
            segments=torch.from_numpy(made["segments"]),
        )  # fmt: skip
        aligned = places != MISSING
        return AlignedRows(
            batch=Batch(source=side).to(device),
            places=torch.from_numpy(places.clip(min=0)).to(device),
            aligned=torch.from_numpy(aligned).to(device),
            comparable=torch.from_numpy(aligned & is_common).to(device),
        )

    def row(self, tokens: np.ndarray, known: np.ndarray, segments: np.ndarray) -> "Row":
        """One row without padding; `known` are its tokens before any was masked."""
        made, ordinary = Row(), self.student.vocabulary.is_ordinary(known)
        start = 0
        for (is_text, _), group in groupby(zip(ordinary.tolist(), segments.tolist(), strict=True)):
            stop = start + len(list(group))
            if is_text:
                self.add_text(made, tokens[start:stop], known[start:stop], int(segments[start]))
            else:
                for place in range(start, stop):
                    special = self.roles.get(int(tokens[place]))
                    made.add([] if special is None else [special], [MISSING if special is None else 0], segments[place])
            start = stop
        return made.cut(self.length)

    def add_text(self, made: "Row", tokens: np.ndarray, known: np.ndarray, segment: int) -> None:
        """Text between two special tokens, in the teacher's own tokens."""
        text = self.text(known.tolist())
        ours = spans_in(text.encode(), [self.texts[token] for token in known.tolist()])
        theirs, places = self.encoded(text)
        aligned = matching(ours, places, by_end=self.causal)
        for place in np.flatnonzero(tokens != known):  # masked, or replaced by another token
            other = aligned[place]
            replaced = self.counterpart[tokens[place]]
            mask = self.teacher.vocabulary.mask
            if other != MISSING:
                theirs[other] = replaced if replaced != MISSING else mask
            else:
                theirs[[number for number, one in enumerate(places) if overlap(one, ours[place])]] = mask
        unknown = theirs == self.teacher.vocabulary.unknown
        made.add(theirs, [MISSING if one == MISSING or unknown[one] else one for one in aligned], segment)

    def text(self, tokens: Sequence[int]) -> str:
        """What these tokens of the student say, the first of them too if it continues a word."""
        vocabulary = self.student.vocabulary
        names = vocabulary.names(tokens)
        if vocabulary.mark == CONTINUATION and names[0] != CONTINUATION:
            names[0] = names[0].removeprefix(CONTINUATION)
        return self.student.kind.join(names, {})

    def encoded(self, text: str) -> tuple[np.ndarray, list[Span]]:
        """The teacher's tokens of a text, and where they are in it, in bytes, without the spaces before them."""
        tokens = self.teacher.encode_many([text])[0].astype(np.int64)
        before = np.cumsum([0, *(len(character.encode()) for character in text)])
        found = []
        for first, last in self.teacher.offsets_many([text]).tolist():
            begin = last - len(text[first:last].lstrip())
            found.append((int(before[begin]), int(before[last])))
        return tokens, found


class Row:
    """A row of the teacher's, as it grows."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.segments: list[int] = []
        self.places: list[int] = []  # for each token of the student's row

    def add(self, tokens: Sequence[int] | np.ndarray, places: Sequence[int], segment: int) -> None:
        """Tokens, and the place among them of each of the student's."""
        start = len(self.tokens)
        self.tokens += map(int, tokens)
        self.segments += [int(segment)] * len(tokens)
        self.places += [MISSING if place == MISSING else start + place for place in places]

    def cut(self, length: int) -> "Row":
        self.tokens, self.segments = self.tokens[:length], self.segments[:length]
        self.places = [place if place < length else MISSING for place in self.places]
        return self


def align(student: Tokenizer, teacher: Tokenizer, folder: str, *, causal: bool, length: int) -> Alignment | None:
    """None where both have the same vocabulary; too few tokens in common are refused."""
    if list(student.vocabulary.tokens) == list(teacher.vocabulary.tokens):
        return None
    made = Alignment(student, teacher, causal=causal, length=length)
    if made.share < LEAST:
        raise SettingError(
            tr(
                "The student's vocabulary cannot be aligned with that of {teacher}: of its {ours:,} tokens only "
                "{common:,} have the text of one of the teacher's {theirs:,}.\n"
                "Name a recipe as STUDENT, without --tokenizer: it takes the teacher's tokenizer. Or fine-tune the "
                "teacher, and distil the task with --method soft.",
                teacher=folder,
                ours=len(student.vocabulary),
                theirs=len(teacher.vocabulary),
                common=len(made.common),
            )
        )
    return made


def text_of(token: str, mark: str) -> bytes:
    """What a token says, without marks and without the space before it; spaces alone are kept."""
    if mark == BYTE_SPACE:
        raw = bytes(BYTE_OF[character] for character in token) if all(one in BYTE_OF for one in token) else b""
        return raw.lstrip(b" \n\t\r") or raw
    if mark == CONTINUATION:
        return (token if token == CONTINUATION else token.removeprefix(CONTINUATION)).encode()
    if mark == META_SPACE:
        return (token.replace(META_SPACE, " ").strip() or " ").encode()
    return (token.removesuffix(WORD_END) if mark == WORD_END else token).encode()


def begins_word(token: str, mark: str) -> bool:
    """Whether it can only stand after a space; ideographs and punctuation stand anywhere."""
    text = text_of(token, mark).decode("utf-8", "ignore")
    if not text or IS_WIDE.match(text) or not text[0].isalnum():
        return False
    return not token.startswith(CONTINUATION) if mark == CONTINUATION else token.startswith(mark)


def common_tokens(student: Vocabulary, teacher: Vocabulary) -> np.ndarray:
    """(N, 2) the ids of ordinary tokens that say the same in both, each in one pair at most."""
    if student.mark == teacher.mark:
        numbers = {teacher.tokens[number]: number for number in teacher.ordinary.tolist()}
        pairs = [(number, numbers.get(student.tokens[number])) for number in student.ordinary.tolist()]
    elif WORD_END in (student.mark, teacher.mark):  # which shows where words end, not where they begin
        pairs = []
    else:
        known: dict[tuple[bool, bytes], int] = {}
        for number in teacher.ordinary.tolist():
            token = teacher.tokens[number]
            known.setdefault((begins_word(token, teacher.mark), text_of(token, teacher.mark)), number)
        pairs = []
        for number in student.ordinary.tolist():
            token = student.tokens[number]
            key = begins_word(token, student.mark), text_of(token, student.mark)
            pairs.append((number, known.pop(key, None)))
    return np.array([pair for pair in pairs if pair[1] is not None], dtype=np.int64).reshape(-1, 2)


def roles_of(student: Vocabulary, teacher: Vocabulary) -> dict[int, int]:
    """The teacher's special token for each of the student's with the same role."""
    pairs = [(getattr(student, role), getattr(teacher, role)) for role in ("extract", "end", *ROLES)]
    return {ours: theirs for ours, theirs in pairs if MISSING not in (ours, theirs)}


def spans_in(text: bytes, pieces: Sequence[bytes]) -> list[Span]:
    """Where these pieces are in a text, one after another, whatever spaces are between them."""
    found, place = [], 0
    for piece in pieces:
        start = place
        if piece.strip():
            while text[start : start + 1].isspace():
                start += 1
        start = start if text.startswith(piece, start) else text.find(piece, start, start + NEAR + len(piece))
        if start < 0 or not piece.strip():
            found.append((place, place))
            continue
        place = start + len(piece)
        found.append((start, place))
    return found


def matching(ours: Sequence[Span], theirs: Sequence[Span], *, by_end: bool) -> list[int]:
    """For each span the place of the only one that is equal, or for a causal model has the same end; else MISSING."""

    def keys(spans: Sequence[Span]) -> list[Span]:
        return [(0, end) if by_end and end > begin else (begin, end) for begin, end in spans]

    places: dict[Span, int] = {}
    for place, key in enumerate(keys(theirs)):
        places[key] = MISSING if key in places else place
    own = keys(ours)
    return [places.get(key, MISSING) if key[0] < key[1] and own.count(key) == 1 else MISSING for key in own]


def overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
