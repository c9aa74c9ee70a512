"""The rules of each kind of tokenizer, as the Rust library applies them."""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as RustTokenizer

from plmkit.data.vocabulary import BYTE_SPACE, CONTINUATION, META_SPACE, ROLES, UNKNOWN, WORD_END
from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.tokenizers.readable import (
    join,
    join_bytes,
    join_characters,
    join_marked,
    join_word_ends,
    settled_bytes,
    settled_word_ends,
    settled_words,
)

UNKNOWN_WORD = "<unk>"  # in vocabularies of whole words or characters
LONGEST_WORD = 200  # characters, as in BERT's released code; the Rust library's own default is 100
BYTES = frozenset(pre_tokenizers.ByteLevel.alphabet())  # the 256 characters that stand for bytes


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Properties of a kind of tokenizer."""

    mark: str  # how a token shows whether it begins a word
    join: Callable[[Iterable[str], Mapping[str, AddedToken]], str]  # tokens back to text
    decoder: Any  # the same, for tools that open tokenizer.json
    settled: Callable[[Sequence[str]], int] = len  # number of leading tokens whose text no later token changes
    separators: int = 1  # default number between the two texts of a pair
    second: int = 1  # default segment of the second text
    trimmer: Any = None  # excludes leading spaces from offsets
    mask_takes_space: bool = False  # the space before a written mask is part of the masked token
    spaced: bool = False  # tokens include the spaces of the text
    open: bool = False  # special tokens are optional, and missing ones can be added
    needs: tuple[str, ...] = ROLES  # default special tokens: required, or added where missing


WORD_PIECES = Kind(mark=CONTINUATION, join=join, decoder=decoders.WordPiece(), settled=settled_words)
BYTE_PIECES = Kind(
    mark=BYTE_SPACE,
    join=join_bytes,
    decoder=decoders.ByteLevel(),
    settled=settled_bytes,
    separators=2,
    second=0,
    trimmer=processors.ByteLevel(add_prefix_space=False, trim_offsets=True),
    mask_takes_space=True,
    spaced=True,
    open=True,
)
WORD_ENDS = Kind(
    mark=WORD_END,
    join=join_word_ends,
    decoder=decoders.BPEDecoder(suffix=WORD_END),
    settled=settled_word_ends,
    second=0,
    open=True,
    needs=(),
)
MARKED_PIECES = Kind(mark=META_SPACE, join=join_marked, decoder=decoders.Metaspace(), mask_takes_space=True)
CHARACTERS = Kind(
    mark="", join=join_characters, decoder=decoders.Fuse(), spaced=True, open=True, needs=("unknown", "end")
)
WORDS = Kind(
    mark="",
    join=join,
    decoder=decoders.WordPiece(prefix=""),
    settled=settled_words,
    open=True,
    needs=("unknown", "end"),
)


def kind_of(rust: RustTokenizer) -> Kind:
    """The kind, recognised by what the tokenizer does; others are refused."""
    name = type(rust.model).__name__
    if name == "WordPiece":
        return WORD_PIECES
    if name == "BPE" and first_piece(rust, "é").removeprefix(BYTE_SPACE) == "Ã©":
        lost = BYTES - rust.get_vocab(with_added_tokens=False).keys()
        if lost:
            raise InputError(
                tr(
                    "{lost_count} of the 256 bytes have no token, so some text cannot be represented.",
                    lost_count=len(lost),
                )
            )
        return BYTE_PIECES
    if name == "BPE" and rust.model.end_of_word_suffix == WORD_END:
        return WORD_ENDS
    if name == "Unigram" and first_piece(rust, "a").startswith(META_SPACE):
        return MARKED_PIECES
    if name == "WordLevel":
        return CHARACTERS if first_piece(rust, "ab") == "a" else WORDS
    raise InputError(
        tr(
            "This kind of {name} tokenizer is not supported. Supported: WordPiece, byte-level BPE, BPE with {word_end} "
            "at the end of words, Unigram with {meta_space} before words, whole words, and characters.",
            name=name,
            word_end=WORD_END,
            meta_space=META_SPACE,
        )
    )


def first_piece(rust: RustTokenizer, text: str) -> str:
    pieces = [] if rust.pre_tokenizer is None else rust.pre_tokenizer.pre_tokenize_str(text)
    return pieces[0][0] if pieces else ""


def bert_rules(
    tokens: Sequence[str], *, lowercase: bool, strip_accents: bool | None = None, space_chinese: bool = True
) -> RustTokenizer:
    """BERT's rules with this vocabulary; by default, lower case also strips accents."""
    numbers = {token: number for number, token in enumerate(tokens)}
    rust = RustTokenizer(models.WordPiece(numbers, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD))
    rust.normalizer = bert_normalizer(lowercase=lowercase, strip_accents=strip_accents, space_chinese=space_chinese)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return rust


def bert_normalizer(
    *, lowercase: bool, strip_accents: bool | None = None, space_chinese: bool = True
) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=space_chinese, strip_accents=strip_accents, lowercase=lowercase
    )


def byte_rules(
    numbers: dict[str, int], merges: Sequence[tuple[str, str]], *, add_prefix_space: bool = False
) -> RustTokenizer:
    """GPT-2's rules: bytes as 256 characters, split by its pattern, then merged in order."""
    rust = RustTokenizer(models.BPE(numbers, list(merges)))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    return rust


def word_end_rules(numbers: dict[str, int], merges: Sequence[tuple[str, str]], *, unknown: str) -> RustTokenizer:
    """GPT-1's rules: lower-cased words with a mark at their end, split as in BERT (without spaCy and ftfy)."""
    rust = RustTokenizer(
        models.BPE(numbers, list(merges), unk_token=unknown, end_of_word_suffix=WORD_END, continuing_subword_prefix="")
    )
    rust.normalizer = bert_normalizer(lowercase=True)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return rust


def unigram_rules(
    pieces: Sequence[tuple[str, float]], *, unknown: int, normalizer: Any, byte_fallback: bool = False
) -> RustTokenizer:
    """SentencePiece's rules: words with their leading space, split into the most probable pieces."""
    rust = RustTokenizer(models.Unigram(list(pieces), unk_id=unknown, byte_fallback=byte_fallback))
    rust.normalizer = normalizer
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return rust


def albert_normalizer(*, lowercase: bool, keep_accents: bool, charsmap: bytes | None = None) -> normalizers.Sequence:
    """ALBERT's normalisation: quotes, accents, case; then SentencePiece's map, or its rules (Nmt and NFKC)."""
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not keep_accents:
        steps += [normalizers.NFKD(), normalizers.Replace(Regex(combining()), "")]
    if lowercase:
        steps += [normalizers.Lowercase()]
    if charsmap:
        steps += [normalizers.Precompiled(charsmap)]
    else:
        steps += [normalizers.Replace("\0", ""), normalizers.Nmt(), normalizers.NFKC()]
    return normalizers.Sequence(steps)


@cache
def combining() -> str:
    """A pattern of the accents that the released code of ALBERT and XLNet strips: Python's combining characters.

    The library's StripAccents strips all marks, the vowel signs of Hindi and Thai included.
    """
    marks = [code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code))]
    begins = [code for code, before in zip(marks, [-1, *marks], strict=False) if code != before + 1]
    ends = [code for code, after in zip(marks, [*marks[1:], -1], strict=True) if code != after - 1]
    return "[" + "".join(f"{chr(begin)}-{chr(end)}" for begin, end in zip(begins, ends, strict=True)) + "]"
