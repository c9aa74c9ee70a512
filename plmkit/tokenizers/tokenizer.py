"""The interface of all tokenizers: text to tokens and back, saved in Hugging Face's format."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from tokenizers import AddedToken, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as RustTokenizer

from plmkit.data.vocabulary import (
    BYTE_SPACE,
    CONTINUATION,
    ELMO_NAMES,
    END_OF_TEXT,
    META_SPACE,
    MISSING,
    ROBERTA_NAMES,
    ROLES,
    WORD_END,
    XLNET_NAMES,
    Vocabulary,
    find_names,
)
from plmkit.errors import FolderError, InputError
from plmkit.language import tr
from plmkit.storage.files import put_text
from plmkit.tokenizers import files
from plmkit.tokenizers.pieces import PieceCache, without_surrogates
from plmkit.tokenizers.readable import IS_WIDE
from plmkit.tokenizers.rules import BYTE_PIECES, WORDS, Kind, bert_rules, kind_of


class Tokenizer:
    """A tokenizer of any kind: text to tokens and back."""

    def __init__(
        self, rust: RustTokenizer, named: Mapping[str, str] | None = None, needed: Iterable[str] | None = None
    ) -> None:
        self.kind = kind_of(rust)
        self.vocabulary = vocabulary_of(rust, self.kind, named or {}, needed)
        self._rust = with_special_tokens(rust, self.kind, self.vocabulary)
        self._plain = RustTokenizer.from_str(self._rust.to_str())
        self._plain.encode_special_tokens = True  # "[MASK]" becomes three ordinary pieces
        self._pieces = PieceCache(self._plain) if can_be_cut(self._rust) else None
        self._lock = Lock()  # the threads of a server share one cache
        self._added = {token.content: token for token in self._rust.get_added_tokens_decoder().values()}

    def __reduce__(self) -> tuple[Any, ...]:
        return from_json, (self._rust.to_str(), self.vocabulary.roles)

    @property
    def lowercase(self) -> bool:
        """Whether text is lower-cased."""
        return self._rust.normalizer is not None and self._rust.normalizer.normalize_str("A") == "a"

    def encode(self, text: str) -> list[int]:
        """The tokens of a text that may contain special tokens: a written `[MASK]` is the mask token."""
        return self._rust.encode(without_surrogates(text), add_special_tokens=False).ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """For each token of `encode(text)`, where it starts and ends, in characters, without the spaces before it.

        Tokens that share a character, as bytes do, each include it.
        """
        found = self._rust.encode(without_surrogates(text), add_special_tokens=False).offsets
        return [(last - len(text[first:last].lstrip()), last) for first, last in found]

    def encode_plain(self, text: str) -> list[int]:
        """The tokens of plain text: a written `[MASK]` is a bracket, a word and a bracket."""
        return self._plain.encode(without_surrogates(text), add_special_tokens=False).ids

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_plain` of all texts in one array (uint32), and the number of tokens per text (int64)."""
        if self._pieces is not None:
            with self._lock:
                return self._pieces.encode(texts)
        found = self._plain.encode_batch_fast(list(map(without_surrogates, texts)), add_special_tokens=False)
        rows = [np.array(encoding.ids, dtype=np.uint32) for encoding in found]
        return np.concatenate([np.zeros(0, dtype=np.uint32), *rows]), np.array(list(map(len, rows)), dtype=np.int64)

    def with_spaces(self, sentences: Sequence[str], *, first: bool) -> list[str]:
        """Sentences of a line with the space between them, if tokens include it; `first`: the line starts the text.

        Causal byte-level models also get the line breaks; for masked models these are spaces.
        """
        if not self.kind.spaced:
            return list(sentences)
        if first or self.kind is not BYTE_PIECES or self.vocabulary.mask != MISSING:
            return spaced(sentences, first=first)
        return [f"\n{sentence}" for sentence in sentences[:1]] + spaced(sentences[1:], first=False)

    def offsets_many(self, texts: Sequence[str]) -> np.ndarray:
        """(T, 2): for each token of `encode_many`, where it starts and ends in its text, in characters."""
        if self._pieces is not None:
            with self._lock:
                return self._pieces.locate(texts)
        found = self._plain.encode_batch(list(map(without_surrogates, texts)), add_special_tokens=False)
        rows = [np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) for encoding in found]
        return np.concatenate([np.zeros((0, 2), dtype=np.int64), *rows])

    def unknown_words(self, texts: Sequence[str]) -> list[list[str]]:
        """For each text, the words of `encode_many` that are not in the vocabulary, as they are written."""
        flat, lengths = self.encode_many(texts)
        unknown = flat == self.vocabulary.unknown
        owners = np.repeat(np.arange(len(texts)), lengths)
        some = np.unique(owners[unknown]).tolist()  # usually few: only these are read again, for their offsets
        spans = self.offsets_many([texts[number] for number in some])[unknown[np.isin(owners, some)]]
        words: list[list[str]] = [[] for _ in texts]
        for owner, (begin, end) in zip(owners[unknown].tolist(), spans.tolist(), strict=True):
            words[owner].append(texts[owner][begin:end])
        return words

    def decode(self, ids: Iterable[int]) -> str:
        """Readable text, special tokens included; exact for byte-level BPE."""
        return self.kind.join(self.vocabulary.names(ids), self._added)

    def settled(self, ids: Iterable[int]) -> int:
        """The number of leading tokens whose text no later token changes."""
        return self.kind.settled(self.vocabulary.names(ids))

    def readable(self, token: int) -> str:
        """One token for display: its name, or its decoded bytes if they are valid text."""
        name = self.vocabulary.tokens[token]
        decoded = self.decode([token]) if self.kind is BYTE_PIECES else name
        return name if "\ufffd" in decoded else decoded

    def labels(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Tokens for display: spaces as ·, line breaks as ↵; those that are parts of one character are numbered."""
        labels: list[str] = []
        while len(labels) < len(ids):
            rest = ids[len(labels) : len(labels) + 4]  # no character has more bytes
            runs = [rest[:count] for count in range(1, 1 + len(rest))] if self.kind is BYTE_PIECES else []
            whole = next((run for run in runs if "\ufffd" not in self.decode(run)), rest[:1])
            text = shown_spaces(self.decode(whole) if len(whole) > 1 else self.readable(whole[0]))
            labels += [text] if len(whole) == 1 else [f"{text} {n}/{len(whole)}" for n in range(1, 1 + len(whole))]
        return tuple(labels)

    def fingerprint(self) -> str:
        """A hash of the vocabulary and the rules; it differs whenever tokens could differ."""
        content = json.loads(self._plain.to_str())
        rules = {part: content[part] for part in ("added_tokens", "normalizer", "pre_tokenizer", "model")}
        return hashlib.blake2b(json.dumps(rules, sort_keys=True).encode(), digest_size=16).hexdigest()

    def save(self, folder: Path, max_length: int | None = None, *, padded: bool = False) -> None:
        """Write the files that `load_tokenizer` and `transformers.AutoTokenizer` read.

        Transformers truncates at `max_length` tokens. `padded` gives it a padding token even if the vocabulary has
        none, so that it can batch texts of different lengths.
        """
        folder = Path(folder)
        content = self._rust.to_str(pretty=True)
        roles = self.vocabulary.roles
        names = {theirs: roles[role] for role, theirs in files.THEIR_ROLES.items() if role in roles}
        if self.vocabulary.cls == MISSING and "end" in roles:
            names["bos_token"] = roles["end"]  # the end of one text is the start of the next
        if padded and self.vocabulary.pad == MISSING != self.vocabulary.end:
            names["pad_token"] = self.vocabulary.tokens[self.vocabulary.end]
        segments = ["token_type_ids"] if self.vocabulary.second and self.vocabulary.cls != MISSING else []
        config = {
            # Reads tokenizer.json unchanged; for BertTokenizer, words of more than 100 characters would be unknown.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", *segments, "attention_mask"],
            **self.settings(),
            **({"padding_side": "left"} if self.vocabulary.closes else {}),
            **({"model_max_length": max_length} if max_length else {}),
            "clean_up_tokenization_spaces": False,
            **names,
        }
        try:
            for name, text in files.vocabulary_files(self.vocabulary, json.loads(content)["model"]).items():
                put_text(folder / name, text)
            put_text(folder / files.SPECIAL_FILE, json.dumps(names, indent=2) + "\n")
            put_text(folder / files.CONFIG_FILE, json.dumps(config, indent=2) + "\n")
            put_text(folder / files.TOKENIZER_FILE, content + "\n")
        except OSError as error:
            raise FolderError(
                tr("The tokenizer cannot be written to {folder}: {strerror}.", folder=folder, strerror=error.strerror)
            ) from error

    def with_tokens(self, names: Mapping[str, str]) -> "Tokenizer":
        """The same with further special tokens, by role, after the last token."""
        rust = RustTokenizer.from_str(self._rust.to_str())
        rust.add_special_tokens([special_token(name, lstrip=False) for name in names.values()])
        return Tokenizer(rust, self.vocabulary.roles | dict(names), tuple(names))

    def settings(self) -> dict[str, Any]:
        """The rules under the names that Hugging Face's classes use."""
        if self.vocabulary.mark == BYTE_SPACE:
            return {"add_prefix_space": bool(getattr(self._rust.pre_tokenizer, "add_prefix_space", False))}
        if self.vocabulary.mark == CONTINUATION:
            return {
                "do_lower_case": self.lowercase,
                "strip_accents": getattr(self._rust.normalizer, "strip_accents", None),
                "tokenize_chinese_chars": getattr(self._rust.normalizer, "handle_chinese_chars", True),
            }
        if self.vocabulary.mark == WORD_END:
            return {"do_lower_case": self.lowercase}
        if not self.vocabulary.mark:
            return {}
        normalizer = self._rust.normalizer
        keeps = normalizer is None or normalizer.normalize_str("é").casefold() != "e"
        return {"do_lower_case": self.lowercase, "keep_accents": keeps}


def shown_spaces(text: str) -> str:
    return text.replace(" ", "·").replace(META_SPACE, "·").replace("\n", "↵").replace("\t", "⇥")


def spaced(sentences: Sequence[str], *, first: bool) -> list[str]:
    """Sentences with the space between them, if the script uses spaces; `first`: they start the text."""
    continued = [sentence if IS_WIDE.match(sentence) else f" {sentence}" for sentence in sentences]
    return [*sentences[:1], *continued[1:]] if first else continued


def bert_tokenizer(
    tokens: Sequence[str], *, lowercase: bool, strip_accents: bool | None = None, space_chinese: bool = True
) -> Tokenizer:
    """BERT's rules with this vocabulary; by default, lower case also strips accents."""
    Vocabulary.from_tokens(tokens)  # refuses duplicate tokens, which a dictionary would drop
    return Tokenizer(bert_rules(tokens, lowercase=lowercase, strip_accents=strip_accents, space_chinese=space_chinese))


def load_tokenizer(path: str | Path, needed: Iterable[str] | None = None) -> Tokenizer:
    """Read a tokenizer.json, a vocab.txt, a vocab.json with its merges.txt, a spiece.model, or their folder.

    Needed special tokens that are missing are added if the kind allows it. By default, the settings next to the file
    decide which are needed; without settings, those of a masked model are.
    """
    path = files.find_file(Path(path))
    try:
        rust, named = files.read_tokenizer(path)
        return Tokenizer(rust, named, needed)
    except InputError as error:
        if str(error).startswith(str(path.parent)):  # it names a file next to this one
            raise
        raise InputError(f"{path}: {error}") from error


def from_json(content: str, named: Mapping[str, str]) -> Tokenizer:
    return Tokenizer(RustTokenizer.from_str(content), named)


def vocabulary_of(
    rust: RustTokenizer, kind: Kind, named: Mapping[str, str], needed: Iterable[str] | None
) -> Vocabulary:
    needed = (() if kind.open and named else kind.needs) if needed is None else tuple(needed)
    if kind.open:
        add_missing(rust, named, needed)
    numbers = rust.get_vocab(with_added_tokens=True)
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise InputError(
            tr(
                "The {count} tokens are not numbered from 0 without gaps or repeats.",
                count=len(numbers),
            )
        )
    also = [number for number, token in rust.get_added_tokens_decoder().items() if token.special]
    tokens = sorted(numbers, key=numbers.__getitem__)
    vocabulary = Vocabulary.from_tokens(tokens, also_special=also, named=named, mark=kind.mark, needed=needed)
    if closes(rust, vocabulary):
        return replace(vocabulary, closes=True)
    if opens(rust, vocabulary):
        vocabulary = replace(vocabulary, opens=True)
    separators, second = framing_of(rust, kind, vocabulary)
    return replace(vocabulary, separators=separators, second=second, spelled=is_spelled(kind, vocabulary))


def add_missing(rust: RustTokenizer, named: Mapping[str, str], needed: Iterable[str]) -> None:
    """Add needed special tokens after the last token; GPT-2 has only the end of text."""
    known = rust.get_vocab(with_added_tokens=True)
    names = find_names(known, dict(zip(ROLES, ROBERTA_NAMES, strict=True)) | {"end": END_OF_TEXT} | dict(named))
    if names["sep"] in known and "end" not in named:
        names["end"] = names["sep"]  # which also ends a text
    ordered = [role for role in ("cls", "pad", "sep", "unknown", "mask", "end") if role in frozenset(needed)]
    missing = dict.fromkeys(names[role] for role in ordered if names[role] not in known)
    rust.add_special_tokens([special_token(name, lstrip=name == names["mask"]) for name in missing])


def framing_of(rust: RustTokenizer, kind: Kind, vocabulary: Vocabulary) -> tuple[int, int]:
    """Separators between two texts and the segment of the second, from the file, or else the defaults of the kind."""
    if vocabulary.lacks(("cls", "sep")):
        return kind.separators, kind.second
    if vocabulary.extract != MISSING:
        return 1, 0
    pair = rust.encode("a", "b")
    seps = pair.ids.count(vocabulary.sep)
    if pair.ids[:1] != [vocabulary.cls] or pair.ids[-1:] != [vocabulary.sep] or seps < 2:
        return kind.separators, kind.second
    return seps - 1, pair.type_ids[-1]


def closes(rust: RustTokenizer, vocabulary: Vocabulary) -> bool:
    """Whether the class token comes last, as in XLNet: from the file, or else the names of its special tokens."""
    ids = rust.encode("a").ids
    if not {vocabulary.cls, vocabulary.sep} & set(ids):
        return tuple(vocabulary.roles.get(role) for role in ROLES) == XLNET_NAMES
    return ids[-2:] == [vocabulary.sep, vocabulary.cls]


def is_spelled(kind: Kind, vocabulary: Vocabulary) -> bool:
    """Whether these are whole words with ELMo's special tokens."""
    return kind is WORDS and tuple(vocabulary.roles.get(role, "") for role in ROLES) == ELMO_NAMES


def opens(rust: RustTokenizer, vocabulary: Vocabulary) -> bool:
    """Whether the file puts the end-of-text token before a text, as some for GPT-2 do."""
    return vocabulary.cls == MISSING != vocabulary.end and rust.encode("a").ids[:1] == [vocabulary.end]


def special_token(name: str, *, lstrip: bool) -> AddedToken:
    return AddedToken(name, special=True, normalized=False, lstrip=lstrip)


def with_special_tokens(rust: RustTokenizer, kind: Kind, vocabulary: Vocabulary) -> RustTokenizer:
    """Recognise written special tokens, frame pairs as in the vocabulary, and never truncate or pad silently."""
    rust.no_truncation()
    rust.no_padding()
    known = {token.content: token for token in rust.get_added_tokens_decoder().values() if token.special}
    takes_space = {vocabulary.roles.get("mask")} if kind.mask_takes_space else set()
    rust.add_special_tokens(
        [known.get(name) or special_token(name, lstrip=name in takes_space) for name in vocabulary.roles.values()]
    )
    rust.decoder = kind.decoder
    if vocabulary.lacks(("cls", "sep")) and not vocabulary.opens:
        rust.post_processor = kind.trimmer or processors.Sequence([])  # texts have no frame
        return rust
    before, between, after = (vocabulary.names(part) for part in vocabulary.frame(2))
    last = [[f"{name}:{segment}" for name in after] for segment in (0, vocabulary.second)]
    if vocabulary.closes:  # the class token has its own segment
        last = [[*names[:-1], f"{after[-1]}:2"] for names in last]
    template = processors.TemplateProcessing(
        single=[*(f"{name}:0" for name in before), "$A:0", *last[0]],
        pair=[
            *(f"{name}:0" for name in before),
            "$A:0",
            *(f"{name}:0" for name in between),
            f"$B:{vocabulary.second}",
            *last[1],
        ],
        special_tokens=[(name, vocabulary.tokens.index(name)) for name in {*before, *between, *after}],
    )
    rust.post_processor = processors.Sequence([kind.trimmer, template]) if kind.trimmer else template
    return rust


def can_be_cut(rust: RustTokenizer) -> bool:
    """Whether these are BERT's own rules, which tokenize the pieces of a text independently."""
    rules = rust.normalizer
    return (
        isinstance(rules, normalizers.BertNormalizer)
        and rules.clean_text
        and rules.handle_chinese_chars
        and isinstance(rust.pre_tokenizer, pre_tokenizers.BertPreTokenizer)
        and all(token.special for token in rust.get_added_tokens_decoder().values())
    )
