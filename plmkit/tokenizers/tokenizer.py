"""The common face of all tokenizers: text to tokens and back, on disk in Hugging Face's format."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as RustTokenizer

from plmkit.data.vocabulary import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, Vocabulary
from plmkit.errors import FolderError, InputError
from plmkit.files import put_text
from plmkit.tokenizers.pieces import PieceCache, without_surrogates
from plmkit.tokenizers.readable import join

TOKENIZER_FILE, VOCABULARY_FILE, CONFIG_FILE = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
SPECIAL_FILE = "special_tokens_map.json"
LONGEST_WORD = 200  # characters, as in the released code; the Rust library's own default is 100
MARKER = re.compile(r"\[.+\]|<.+>")  # [MASK], and the <S> of the Chinese vocabulary: capitals, yet not words


class Tokenizer:
    """Text to tokens and back, by BERT's rules (Devlin et al., 2018; the released tokenization.py)."""

    def __init__(self, rust: RustTokenizer) -> None:
        self.vocabulary = vocabulary_of(rust)
        self._rust = with_special_tokens(rust, self.vocabulary)
        self._plain = RustTokenizer.from_str(self._rust.to_str())
        self._plain.encode_special_tokens = True  # that is, "[MASK]" is read as three ordinary pieces
        self._pieces = PieceCache(self._plain) if can_be_cut(self._rust) else None
        self._lock = Lock()  # threads of a server share one cache

    def __reduce__(self) -> tuple[Any, ...]:
        return from_json, (self._rust.to_str(),)

    @property
    def lowercase(self) -> bool:
        """Does upper case become lower case?"""
        return self._rust.normalizer is not None and self._rust.normalizer.normalize_str("A") == "a"

    def encode(self, text: str) -> list[int]:
        """The tokens of a text that may name special tokens: a written `[MASK]` is the mask."""
        return self._rust.encode(without_surrogates(text), add_special_tokens=False).ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each token of `encode(text)`: its first character, and the one after its last."""
        return self._rust.encode(without_surrogates(text), add_special_tokens=False).offsets

    def encode_plain(self, text: str) -> list[int]:
        """The tokens of a text that is only text: a written `[MASK]` is a bracket, a word, a bracket."""
        return self._plain.encode(without_surrogates(text), add_special_tokens=False).ids

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_plain` of all texts in one row (uint32), and how many tokens each text has (int64)."""
        if self._pieces is not None:
            with self._lock:
                return self._pieces.encode(texts)
        found = self._plain.encode_batch_fast(list(map(without_surrogates, texts)), add_special_tokens=False)
        rows = [np.array(encoding.ids, dtype=np.uint32) for encoding in found]
        return np.concatenate([np.zeros(0, dtype=np.uint32), *rows]), np.array(list(map(len, rows)), dtype=np.int64)

    def offsets_many(self, texts: Sequence[str]) -> np.ndarray:
        """(T, 2) for each token of `encode_many`: its first character in its text, and the one after its last."""
        if self._pieces is not None:
            with self._lock:
                return self._pieces.locate(texts)
        found = self._plain.encode_batch(list(map(without_surrogates, texts)), add_special_tokens=False)
        rows = [np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) for encoding in found]
        return np.concatenate([np.zeros((0, 2), dtype=np.int64), *rows])

    def decode(self, ids: Iterable[int]) -> str:
        """Readable text, special tokens included."""
        return join(self.vocabulary.names(ids))

    def fingerprint(self) -> str:
        """A hash of the vocabulary and the rules: when tokens could differ, it does."""
        content = json.loads(self._plain.to_str())
        rules = {part: content[part] for part in ("added_tokens", "normalizer", "pre_tokenizer", "model")}
        return hashlib.blake2b(json.dumps(rules, sort_keys=True).encode(), digest_size=16).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` and `transformers.AutoTokenizer` read."""
        folder = Path(folder)
        names = {
            "pad_token": PAD,
            "unk_token": UNKNOWN,
            "cls_token": CLS,
            "sep_token": SEP,
            "mask_token": MASK,
        }
        config = {
            # Reads tokenizer.json as it is; BertTokenizer would give up words of more than 100 characters.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            "do_lower_case": self.lowercase,
            "strip_accents": getattr(self._rust.normalizer, "strip_accents", None),
            "tokenize_chinese_chars": getattr(self._rust.normalizer, "handle_chinese_chars", True),
            "clean_up_tokenization_spaces": False,
            **names,
        }
        try:
            put_text(folder / VOCABULARY_FILE, "".join(f"{token}\n" for token in self.vocabulary.tokens))
            put_text(folder / SPECIAL_FILE, json.dumps(names, indent=2) + "\n")
            put_text(folder / CONFIG_FILE, json.dumps(config, indent=2) + "\n")
            put_text(folder / TOKENIZER_FILE, self._rust.to_str(pretty=True) + "\n")
        except OSError as error:
            raise FolderError(f"The tokenizer cannot be written to {folder}: {error.strerror}.") from error


def bert_tokenizer(
    tokens: Sequence[str], *, lowercase: bool, strip_accents: bool | None = None, space_chinese: bool = True
) -> Tokenizer:
    """BERT's rules over a vocabulary; accents go where case goes, unless told."""
    Vocabulary.from_tokens(tokens)  # refuses a token said twice, which the dictionary below would swallow
    numbers = {token: number for number, token in enumerate(tokens)}
    rust = RustTokenizer(models.WordPiece(numbers, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD))
    rust.normalizer = bert_normalizer(lowercase=lowercase, strip_accents=strip_accents, space_chinese=space_chinese)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Tokenizer(rust)


def bert_normalizer(
    *, lowercase: bool, strip_accents: bool | None = None, space_chinese: bool = True
) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=space_chinese, strip_accents=strip_accents, lowercase=lowercase
    )


def from_json(content: str) -> Tokenizer:
    return Tokenizer(RustTokenizer.from_str(content))


def vocabulary_of(rust: RustTokenizer) -> Vocabulary:
    if not isinstance(rust.model, models.WordPiece):
        raise InputError(f"This tokenizer is a {type(rust.model).__name__}; only WordPiece can be read.")
    numbers = rust.get_vocab(with_added_tokens=True)
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise InputError(f"The {len(numbers)} tokens are not numbered from 0 without gaps or repeats.")
    also = [number for number, token in rust.get_added_tokens_decoder().items() if token.special]
    return Vocabulary.from_tokens(sorted(numbers, key=numbers.__getitem__), also_special=also)


def with_special_tokens(rust: RustTokenizer, vocabulary: Vocabulary) -> RustTokenizer:
    """Recognise written special tokens, frame pairs as BERT does, and never shorten or fill silently."""
    rust.no_truncation()
    rust.no_padding()
    rust.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL_TOKENS])
    rust.decoder = decoders.WordPiece()
    rust.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0 {SEP}:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
        special_tokens=[(CLS, vocabulary.cls), (SEP, vocabulary.sep)],
    )
    return rust


def can_be_cut(rust: RustTokenizer) -> bool:
    """Are these BERT's own rules, under which pieces of a text can be tokenized apart?"""
    rules = rust.normalizer
    return (
        isinstance(rules, normalizers.BertNormalizer)
        and rules.clean_text
        and rules.handle_chinese_chars
        and isinstance(rust.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        and all(token.special for token in rust.get_added_tokens_decoder().values())
    )


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a vocab.txt, a tokenizer.json, or a folder that holds either."""
    path = Path(path)
    if path.is_dir():
        path = file_within(path)
    if not path.is_file():
        raise InputError(
            f"There is no file or folder {path}. Give a {VOCABULARY_FILE}, a {TOKENIZER_FILE} or a folder with either."
        )
    settings = read_config(path.parent / CONFIG_FILE)
    try:
        return read_tokenizer(path, settings) if path.suffix == ".json" else read_vocabulary(path, settings)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def file_within(folder: Path) -> Path:
    for name in (TOKENIZER_FILE, VOCABULARY_FILE):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder} holds neither {TOKENIZER_FILE} nor {VOCABULARY_FILE}, so it has no tokenizer to read.")


def read_config(path: Path) -> dict[str, bool]:
    """Hugging Face's settings of case, accents and Chinese; they overrule the tokenizer.json beside them."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(read(path))
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds a {type(found).__name__}, not an object of settings.")
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "space_chinese",
    }
    return {ours: found[theirs] for theirs, ours in names.items() if isinstance(found.get(theirs), bool)}


def read_tokenizer(path: Path, settings: dict[str, bool]) -> Tokenizer:
    try:
        rust = RustTokenizer.from_str(read(path))
    except InputError:
        raise
    except Exception as error:  # the Rust library raises nothing narrower
        raise InputError(f"this is not a tokenizer.json: {error}.") from error
    rules = rust.normalizer
    if isinstance(rules, normalizers.BertNormalizer):
        rules.lowercase = settings.get("lowercase", rules.lowercase)
        rules.strip_accents = settings.get("strip_accents", rules.strip_accents)
        rules.handle_chinese_chars = settings.get("space_chinese", rules.handle_chinese_chars)
    return Tokenizer(rust)


def read_vocabulary(path: Path, settings: dict[str, bool]) -> Tokenizer:
    # Not splitlines(): the Chinese vocabulary holds U+2028, which that takes for the end of a line.
    tokens = read(path).replace("\r\n", "\n").rstrip("\n").split("\n")
    if tokens == [""]:
        raise InputError("this file is empty. A vocabulary has one token per line.")
    return bert_tokenizer(tokens, **{"lowercase": not has_capitals(tokens), **settings})


def has_capitals(tokens: Iterable[str]) -> bool:
    return any(re.search("[A-Z]", token) and not MARKER.fullmatch(token) for token in tokens)


def read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"line {line} is not UTF-8 text. Save the file as UTF-8.") from error
    except OSError as error:
        raise InputError(f"this file cannot be read: {error.strerror}.") from error
