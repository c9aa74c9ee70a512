"""Words with tags or senses, read from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plmkit.data.reading import conll
from plmkit.data.reading.words import TAGS, TOKENS, Sentence, sentence_of
from plmkit.errors import InputError, SettingError, did_you_mean, nearest_name, not_there
from plmkit.language import comma, several, tr

SENSES = "senses"
PROBES = ("pos", SENSES)
PARTS_OF_SPEECH = {  # by the first three letters of a tag, or its first
    "ADV": "adverb", "AUX": "verb",
    "N": "noun", "V": "verb", "J": "adjective", "A": "adjective", "S": "adjective", "R": "adverb",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """A sentence, some of whose words have an answer."""

    words: tuple[str, ...]
    places: tuple[int, ...]  # the words that have one, in order
    answers: tuple[tuple[str, ...], ...]  # of each: the tag, or all senses that count as right
    lemmas: tuple[str, ...] = ()  # of each, with its part of speech; none for tags

    @cached_property
    def sentence(self) -> Sentence:
        return sentence_of(self.words)


def read_tagged(path: Path) -> list[Tagged]:
    """A .jsonl file of tokens and tags or senses, a .conllu file, or columns: words first, tags last."""
    if not path.is_file():
        raise InputError(not_there(path, tr("file")))
    try:
        with open(path, encoding="utf-8-sig") as lines:
            readers = {".jsonl": json_lines, ".json": json_lines}
            found = list(readers.get(path.suffix, columns)(path, lines))
    except UnicodeDecodeError as error:
        raise InputError(tr("{path} is not UTF-8 text: {error}.", path=path, error=error)) from error
    if not any(one.places for one in found):
        raise InputError(tr("{path} has no words with tags or senses.", path=path))
    if len({bool(one.lemmas) for one in found if one.places}) > 1:
        raise InputError(tr("{path} has tags in some sentences and senses in others. Use two files.", path=path))
    return found


def json_lines(path: Path, lines: Iterator[str]) -> Iterator[Tagged]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise problem(path, number, tr("this is not JSON ({error}).", error=error)) from error
        if not isinstance(row, dict) or not isinstance(words := first_of(row, TOKENS), list):
            raise problem(path, number, tr("expected an object with a list of tokens."))
        if not all(isinstance(word, str) and word.strip() for word in words):
            raise problem(path, number, tr("every token must be a text, and none empty."))
        yield with_senses(path, number, words, row[SENSES]) if SENSES in row else with_tags(path, number, words, row)


def first_of(row: dict[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if name in row), None)


def with_tags(path: Path, number: int, words: list[str], row: dict[str, Any]) -> Tagged:
    tags = first_of(row, TAGS)
    if not isinstance(tags, list):
        names = comma().join((*TAGS, SENSES))
        raise problem(path, number, tr("the tokens have no tags. Expected one of {names}.", names=names))
    if len(tags) != len(words):
        raise problem(
            path,
            number,
            tr(
                "{words}, but {tags}. Each token has one tag.",
                words=several(len(words), "token"),
                tags=several(len(tags), "tag"),
            ),
        )
    return Tagged(words=tuple(words), places=tuple(range(len(words))), answers=tuple((str(tag),) for tag in tags))


def with_senses(path: Path, number: int, words: list[str], senses: Any) -> Tagged:
    """`{"i": 3, "lemma": "bank", "pos": "NOUN", "key": "bank%1:17:01::"}` per word; `keys` if several are right."""
    try:
        found = sorted(senses, key=lambda sense: sense["i"])
        places = tuple(int(sense["i"]) for sense in found)
        keys = tuple(tuple(sense["keys"]) if "keys" in sense else (str(sense["key"]),) for sense in found)
        lemmas = tuple(lemma_of(str(sense["lemma"]), str(sense.get("pos", ""))) for sense in found)
    except (KeyError, TypeError, ValueError) as error:
        reason = tr(
            "a sense has i (the number of its token, from 0), lemma, pos and key or keys; found {error}.", error=error
        )
        raise problem(path, number, reason) from error
    if outside := [place for place in places if not 0 <= place < len(words)]:
        raise problem(
            path,
            number,
            tr("a sense is for token {place}, but there are {words} tokens.", place=outside[0], words=len(words)),
        )
    plain = tuple(word.replace("_", " ") for word in words)  # of_this: several words with one sense
    return Tagged(words=plain, places=places, answers=keys, lemmas=lemmas)


def lemma_of(lemma: str, part_of_speech: str) -> str:
    """NN of one tag set and NOUN of another are the same."""
    tag = part_of_speech.upper()
    return f"{lemma.lower()} {PARTS_OF_SPEECH.get(tag[:3]) or PARTS_OF_SPEECH.get(tag[:1], part_of_speech)}"


def columns(path: Path, lines: Iterator[str]) -> Iterator[Tagged]:
    """CoNLL-U, or one word and its tag per line with any columns between them; a blank line ends a sentence."""
    names, sentences = conll.columns(path, enumerate(lines, start=1))
    tags = names.index("upos") if "upos" in names else len(names) - 1
    for words in sentences:
        if tags < 1:
            raise problem(
                path, words[0].line, tr("expected a word and its tag, found {found}.", found=repr(words[0].cells[0]))
            )
        yield tag_all([word.cells[0] for word in words], [word.cells[tags] for word in words])


def tag_all(words: list[str], tags: list[str]) -> Tagged:
    return Tagged(words=tuple(words), places=tuple(range(len(words))), answers=tuple((tag,) for tag in tags))


def problem(path: Path, line: int, reason: str) -> InputError:
    return InputError(tr("{path}, line {line}: {reason}", path=path, line=line, reason=reason))


def read_probe_files(task: str, train: Path | None, test: Path | None) -> tuple[list[Tagged], list[Tagged] | None]:
    """The sentences to train on, and those to test on if there is a file of them."""
    if task not in PROBES:
        if train is not None:
            if not Path(task).is_file():
                raise no_such_task(task)
            raise SettingError(
                tr("--task {task} is the file to train on, and so is --train. Leave one of them out.", task=task)
            )
        train = Path(task)
        if not train.is_file():
            raise no_such_task(task)
    if train is None:
        raise SettingError(tr("--train is missing: name a file of words with their tags or senses."))
    known = read_tagged(train)
    asked = None if test is None else read_tagged(test)
    files = [(path, part) for path, part in ((train, known), (test, asked)) if part is not None]
    senses = [any(one.lemmas for one in part) for _, part in files]
    for (path, _), found in zip(files, senses, strict=True):
        if found != (task == "senses" if task in PROBES else senses[0]):
            raise InputError(
                tr("{path} has senses, not tags.", path=path)
                if found
                else tr("{path} has tags, not senses.", path=path)
            )
    return known, asked


def no_such_task(task: str) -> InputError:
    missing = did_you_mean(close) if (close := nearest_name(task, PROBES)) else f" {not_there(Path(task), tr('file'))}"
    return InputError(tr("--task takes pos, senses or a file; found '{task}'.{missing}", task=task, missing=missing))


def read_inventory(path: Path) -> dict[str, str]:
    """The first sense listed of each lemma, by its key such as `bank%1:14:00::`; the rest of a line is not read."""
    if not path.is_file():
        raise InputError(not_there(path, tr("file")))
    kinds = {"1": "noun", "2": "verb", "3": "adjective", "4": "adverb", "5": "adjective"}
    first: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        key = line.split("\t")[0].strip()
        lemma, found, rest = key.partition("%")
        if found and rest[:1] in kinds:
            first.setdefault(f"{lemma} {kinds[rest[0]]}", key)
    if not first:
        raise InputError(tr("{path} has no sense keys such as {key}.", path=path, key="bank%1:14:00::"))
    return first
