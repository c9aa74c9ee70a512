"""Reading spiece.model, SentencePiece's own format: pieces and scores as protocol buffers."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plmkit.errors import InputError
from plmkit.language import tr

# Field numbers and enum values of sentencepiece_model.proto.
PIECES, TRAINER, NORMALIZER = 1, 2, 3
TEXT, SCORE, KIND = 1, 2, 3
MODEL_TYPE, CHARSMAP = 3, 2
UNIGRAM = 1
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5

NUMBER_COMMA_PENALTY = 100.0


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The contents of a SentencePiece model."""

    pieces: tuple[tuple[str, float], ...]  # with their log-probabilities
    unknown: int
    control: tuple[str, ...]  # special tokens
    charsmap: bytes | None  # how characters are normalised
    byte_fallback: bool


def read_pieces(path: Path) -> Pieces:
    """Read a unigram model; other model types and other files are refused."""
    try:
        return pieces_in(path.read_bytes())
    except OSError as error:
        raise InputError(tr("this file cannot be read: {strerror}.", strerror=error.strerror)) from error
    except InputError:
        raise
    except (LookupError, ValueError, struct.error) as error:
        raise InputError(tr("this is not a SentencePiece model, or it is damaged.")) from error


def pieces_in(data: bytes) -> Pieces:
    pieces, kinds, charsmap = [], [], None
    model_type = UNIGRAM
    for number, value in fields(data):
        if number == PIECES:
            piece = dict(fields(value))
            text, score = piece[TEXT].decode("utf-8"), struct.unpack("<f", piece.get(SCORE, bytes(4)))[0]
            pieces.append((text, score - NUMBER_COMMA_PENALTY if ends_in_number_comma(text) else score))
            kinds.append(varint_of(piece.get(KIND, bytes([NORMAL]))))
        elif number == TRAINER:
            model_type = varint_of(dict(fields(value)).get(MODEL_TYPE, bytes([UNIGRAM])))
        elif number == NORMALIZER:
            charsmap = dict(fields(value)).get(CHARSMAP) or None
    if not pieces:
        raise ValueError("no pieces")
    if model_type != UNIGRAM:
        raise InputError(tr("this SentencePiece model is not a unigram model. Convert it to a tokenizer.json first."))
    if UNKNOWN not in kinds:
        raise InputError(tr("this SentencePiece model has no unknown token."))
    return Pieces(
        pieces=tuple(pieces),
        unknown=kinds.index(UNKNOWN),
        control=tuple(text for (text, _), kind in zip(pieces, kinds, strict=True) if kind in (CONTROL, UNKNOWN)),
        charsmap=charsmap,
        byte_fallback=BYTE in kinds,
    )


def ends_in_number_comma(piece: str) -> bool:
    """ALBERT splits `9,` in two, although it is one piece (google-research/albert, encode_pieces)."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each field of a message: its number and its raw bytes."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        start = place
        if key & 7 == VARINT:
            _, place = varint(data, place)
        elif key & 7 == EIGHT_BYTES:
            place += 8
        elif key & 7 == FOUR_BYTES:
            place += 4
        elif key & 7 == LENGTH:
            length, start = varint(data, place)
            place = start + length
        else:
            raise ValueError(f"unknown wire type {key & 7}")
        if place > len(data):
            raise ValueError("the file ends too early")
        yield key >> 3, data[start:place]


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A number in seven bits per byte, lowest first, and the place after it."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def varint_of(data: bytes) -> int:
    return varint(data, 0)[0]
