"""Reading tokenizer files, our own and published ones: the Rust tokenizer and the names of its special tokens."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as RustTokenizer
from tokenizers import normalizers, pre_tokenizers

from plmkit.data.vocabulary import END_OF_TEXT, ROLES, WORD_END, XLNET_NAMES, Vocabulary
from plmkit.errors import InputError, not_there
from plmkit.language import comma, tr
from plmkit.storage.files import read_json
from plmkit.tokenizers.rules import albert_normalizer, bert_rules, byte_rules, unigram_rules, word_end_rules
from plmkit.tokenizers.sentencepiece import read_pieces

TOKENIZER_FILE, CONFIG_FILE, SPECIAL_FILE = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
VOCABULARY_FILE = "vocab.txt"  # WordPiece
GPT1_ENCODER, GPT1_MERGES = "encoder_bpe_40000.json", "vocab_40000.bpe"  # as OpenAI published them
BYTE_FILES = ("vocab.json", "encoder.json", GPT1_ENCODER)  # GPT-2, RoBERTa and GPT-1
MERGES_FILES = ("merges.txt", "vocab.bpe", GPT1_MERGES)  # in the order of BYTE_FILES
PIECES_FILE = "spiece.model"  # SentencePiece
FOUND = (TOKENIZER_FILE, VOCABULARY_FILE, *BYTE_FILES, PIECES_FILE)  # in this order
MODEL_FILE = "config.json"  # of the network that uses the tokenizer
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # classes of transformers that use tokenizer.json unchanged
THEIR_DEFAULTS = {"lowercase": True, "strip_accents": None, "space_chinese": True, "add_prefix_space": False}
CASED_SHARE = 0.1  # share of capitalised words above which a vocabulary is cased; BERT's cased one has 31 %
TOKENIZER_FILES = (*FOUND, *MERGES_FILES, CONFIG_FILE, SPECIAL_FILE)  # everything that affects tokenization
MARKER = re.compile(r"\[.+\]|<.+>")  # [MASK], or <S> in the Chinese vocabulary: capitals, but not words
THEIR_ROLES = {
    "pad": "pad_token",
    "unknown": "unk_token",
    "cls": "cls_token",
    "sep": "sep_token",
    "mask": "mask_token",
    "end": "eos_token",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Hugging Face's settings for a tokenizer, from the files next to it."""

    given: dict[str, bool] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)  # special tokens by role
    has_class: bool = False  # a class or a model is named, so settings that are missing have transformers' defaults
    generic: bool = False  # that class reads tokenizer.json only

    def rule(self, name: str, default: Any) -> Any:
        return self.given.get(name, THEIR_DEFAULTS[name] if self.has_class else default)


def find_file(path: Path) -> Path:
    """The tokenizer file in a folder, or the file itself."""
    if path.is_dir():
        for name in FOUND:
            if (path / name).is_file():
                return path / name
        raise InputError(
            tr("{path} has no tokenizer: it contains none of {names}.", path=path, names=comma().join(FOUND))
        )
    if not path.is_file():
        raise InputError(
            tr(
                "{not_there} Give a {vocabulary_file}, a {tokenizer_file}, a {byte_files} with its "
                "{merges_files}, a {pieces_file} or a folder with one of them.",
                not_there=not_there(path, tr("file or folder")),
                vocabulary_file=VOCABULARY_FILE,
                tokenizer_file=TOKENIZER_FILE,
                byte_files=BYTE_FILES[0],
                merges_files=MERGES_FILES[0],
                pieces_file=PIECES_FILE,
            )
        )
    return path


def read_tokenizer(path: Path) -> tuple[RustTokenizer, dict[str, str]]:
    """The tokenizer in a file, and the names of its special tokens from the settings next to it."""
    config = read_config(path.parent)
    if path.suffix == ".model":
        return read_sentencepiece(path, config), config.named
    if path.name in (*BYTE_FILES, *MERGES_FILES):
        return read_byte_bpe(path, config), config.named
    if path.suffix == ".json":
        return read_whole(path, config), config.named
    return read_vocabulary(path, config), config.named


def read_config(folder: Path) -> Config:
    """Settings for case, accents, Chinese, spaces and names; they override the tokenizer.json next to them."""
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "keep_accents": "keep_accents",
        "tokenize_chinese_chars": "space_chinese",
        "add_prefix_space": "add_prefix_space",
    }
    paths = [folder / name for name in (SPECIAL_FILE, CONFIG_FILE)]
    found: dict[str, Any] = {}
    for path in paths:
        found |= read_json(path) if path.is_file() else {}
    named = {role: name_in(found.get(theirs)) for role, theirs in THEIR_ROLES.items()}
    return Config(
        given={ours: found[theirs] for theirs, ours in names.items() if isinstance(found.get(theirs), bool)},
        named={role: name for role, name in named.items() if name},
        has_class="tokenizer_class" in found or (folder / MODEL_FILE).is_file(),
        generic=found.get("tokenizer_class") in GENERIC,
    )


def name_in(entry: Any) -> str:
    """A special token as Hugging Face writes it: a name, or an object with its content."""
    content = entry.get("content") if isinstance(entry, dict) else entry
    return content if isinstance(content, str) else ""


def read_whole(path: Path, config: Config) -> RustTokenizer:
    """A tokenizer.json, which has nearly all settings."""
    try:
        rust = RustTokenizer.from_str(read(path))
    except InputError:
        raise
    except Exception as error:  # the Rust library raises nothing narrower
        raise InputError(tr("this is not a tokenizer.json: {error}.", error=error)) from error
    if config.generic:
        return rust
    rules, cutter = rust.normalizer, rust.pre_tokenizer
    if isinstance(rules, normalizers.BertNormalizer):
        rules.lowercase = config.rule("lowercase", rules.lowercase)
        rules.strip_accents = config.rule("strip_accents", rules.strip_accents)
        rules.handle_chinese_chars = config.rule("space_chinese", rules.handle_chinese_chars)
    if isinstance(cutter, pre_tokenizers.ByteLevel):
        cutter.add_prefix_space = config.rule("add_prefix_space", cutter.add_prefix_space)
    return rust


def read_vocabulary(path: Path, config: Config) -> RustTokenizer:
    # Not splitlines(), which splits at U+2028: the Chinese vocabulary has it as a token.
    tokens = read(path).replace("\r\n", "\n").rstrip("\n").split("\n")
    if tokens == [""]:
        raise InputError(tr("this file is empty. A vocabulary has one token per line."))
    Vocabulary.from_tokens(tokens, named=config.named)  # refuses duplicate tokens, which a dictionary would drop
    rules = {name: config.given[name] for name in ("strip_accents", "space_chinese") if name in config.given}
    return bert_rules(tokens, lowercase=config.rule("lowercase", not is_cased(tokens)), **rules)


def is_cased(tokens: Iterable[str]) -> bool:
    """Whether many words have capitals; a few may have been added to an uncased vocabulary."""
    words = [token for token in tokens if re.search("[A-Za-z]", token) and not MARKER.fullmatch(token)]
    return sum(bool(re.search("[A-Z]", word)) for word in words) > CASED_SHARE * len(words)


def read_byte_bpe(path: Path, config: Config) -> RustTokenizer:
    """A vocabulary and the merges in the same folder: GPT-2's byte-level BPE, or GPT-1's BPE with word ends."""
    vocabulary = path if path.name in BYTE_FILES else beside(path, MERGES_FILES, BYTE_FILES)
    merges = read_merges(path if path.name in MERGES_FILES else beside(path, BYTE_FILES, MERGES_FILES))
    numbers = read_numbers(vocabulary)
    try:
        if any(token.endswith(WORD_END) for token in numbers):
            return word_end_rules(numbers, merges, unknown=config.named.get("unknown", "<unk>"))
        rust = byte_rules(numbers, merges, add_prefix_space=config.given.get("add_prefix_space", False))
    except Exception as error:  # the Rust library raises nothing narrower
        raise InputError(tr("the merges do not fit the vocabulary: {error}.", error=error)) from error
    if END_OF_TEXT in numbers:
        rust.add_special_tokens([END_OF_TEXT])
    return rust


def beside(path: Path, names: tuple[str, ...], others: tuple[str, ...]) -> Path:
    """The other file of the pair: the one published with it, or else any other name for it."""
    for name in (others[names.index(path.name)], *others):
        if (path.parent / name).is_file():
            return path.parent / name
    raise InputError(tr("BPE also needs one of {others} in the same folder.", others=comma().join(others)))


def read_numbers(path: Path) -> dict[str, int]:
    numbers = read_json(path, tr("tokens and their ids"))
    if not all(type(number) is int and number >= 0 for number in numbers.values()):
        raise InputError(tr("{path} is not a JSON object of tokens and their ids.", path=path))
    return numbers


def read_merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(read(path).replace("\r\n", "\n").split("\n"), start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, space, right = line.partition(" ")
        if not left or not space or not right or " " in right:
            raise InputError(
                tr(
                    "{name}, line {number}: a merge is two tokens separated by a space; found {line!r}.",
                    name=path.name,
                    number=number,
                    line=line,
                )
            )
        merges.append((left, right))
    return merges


def read_sentencepiece(path: Path, config: Config) -> RustTokenizer:
    """A SentencePiece model with the normalisation of ALBERT, or of XLNet, which keeps capitals."""
    found = read_pieces(path)
    vocabulary = Vocabulary.from_tokens((piece for piece, _ in found.pieces), named=config.named)  # refuses duplicates
    is_xlnet = tuple(vocabulary.roles[role] for role in ROLES) == XLNET_NAMES
    try:
        normalizer = albert_normalizer(
            charsmap=found.charsmap,
            lowercase=config.given.get("lowercase", not is_xlnet),
            keep_accents=config.given.get("keep_accents", False),
        )
    except Exception as error:  # the Rust library raises nothing narrower
        raise InputError(tr("its character normalisation map is damaged.")) from error
    rust = unigram_rules(found.pieces, unknown=found.unknown, normalizer=normalizer, byte_fallback=found.byte_fallback)
    rust.add_special_tokens(list(found.control))
    return rust


def vocabulary_files(vocabulary: Vocabulary, model: dict[str, Any]) -> dict[str, str]:
    """The files used before tokenizer.json, for tools that read only those."""
    if model["type"] == "WordPiece":
        return {VOCABULARY_FILE: "".join(f"{token}\n" for token in vocabulary.tokens)}
    if model["type"] == "BPE":
        numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
        merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
        return {
            BYTE_FILES[0]: json.dumps(numbers, ensure_ascii=False) + "\n",
            MERGES_FILES[0]: f"#version: 0.2\n{merges}",
        }
    return {}


def read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(tr("line {line} is not UTF-8 text. Save the file as UTF-8.", line=line)) from error
    except OSError as error:
        raise InputError(tr("this file cannot be read: {strerror}.", strerror=error.strerror)) from error
