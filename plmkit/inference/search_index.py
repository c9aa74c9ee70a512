"""An index on disk: the vectors of a corpus, kept until its files or the model change."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plmkit.data.reading.columns import Columns
from plmkit.errors import FolderError, InputError
from plmkit.inference.passages import Passage, corpus_files, read_passages
from plmkit.inference.searching import Embedder, SearchIndex, unit
from plmkit.language import several, tr
from plmkit.storage.files import cache_folder, new_folder, put_text, read_json, reported_os_errors, write_json
from plmkit.storage.manifest import LOGS, MANIFEST, Entry, damage, entry_of, is_whole, seal
from plmkit.storage.tensors import load_tensors, save_tensors
from plmkit.terminal.screen import Screen

ABOUT, PASSAGES, VECTORS = "index.json", "passages.json", "vectors.safetensors"
FORMAT = 1
# files that vectors depend on
OF_MODEL = (".json", ".safetensors", ".onnx", ".weights", ".txt", ".model", ".vec", ".hdf5", ".msgpack")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What an index was made of."""

    model: str
    corpus: str
    column: str | None
    header: bool
    model_files: dict[str, Entry]
    corpus_files: dict[str, Entry]


def open_index(
    embedder: Embedder, corpus: Path, screen: Screen, folder: Path | None = None, columns: Columns = Columns()
) -> SearchIndex:
    """The index in the folder, or in the cache; made, or made again where corpus or model have changed."""
    place = folder or cached_place(embedder, corpus, columns)
    old = read_origin(place)
    if folder is not None:
        check_folder(folder, old, embedder, corpus)
    if old and (old.column, old.header) == (columns.text, columns.header):
        same_model = unchanged(old.model_files, model_files(embedder.folder))
        same_corpus = unchanged(old.corpus_files, files_by_name(corpus))
        if same_model and same_corpus:
            return SearchIndex(embedder, *read_index(place))
        screen.say(
            tr("The files of {corpus} have changed since their index was made.", corpus=corpus)
            if same_model
            else tr("{model} has changed since the index of {corpus} was made.", model=embedder.folder, corpus=corpus)
        )
        kept = known_vectors(place) if same_model else {}
    else:
        kept = {}
    passages = read_passages(corpus, columns, screen.say)
    vectors = embedded(embedder, passages, kept, screen)
    origin = Origin(
        model=str(embedder.folder.resolve()), corpus=str(corpus.resolve()), column=columns.text, header=columns.header,
        model_files=entries_of(model_files(embedder.folder)), corpus_files=entries_of(files_by_name(corpus)),
    )  # fmt: skip
    write_index(place, origin, passages, vectors)
    screen.say(tr("Index of {texts} written to {place}.", texts=several(len(passages), "text"), place=place))
    return SearchIndex(embedder, passages, vectors)


def listed_index(embedder: Embedder, texts: Sequence[str]) -> SearchIndex:
    """An index in memory alone."""
    if not texts:
        raise InputError(tr("There is no text to search: the list is empty."))
    passages = [Passage(text=text, line=number) for number, text in enumerate(texts, start=1)]
    return SearchIndex(embedder, passages, embedded(embedder, passages, {}, Screen(quiet=True)))


def embedded(
    embedder: Embedder, passages: Sequence[Passage], kept: dict[str, np.ndarray], screen: Screen
) -> np.ndarray:
    """(passages, width): each different text once, and none whose vector is kept."""
    new = list(dict.fromkeys(one.text for one in passages if one.text not in kept))
    if kept:
        screen.say(tr("{texts} to embed; the vectors of the others are kept.", texts=several(len(new), "new text")))
    vectors = unit(embedder.embed(new)) if new else np.zeros((0, embedder.width), dtype=np.float32)
    known = kept | dict(zip(new, vectors, strict=True))
    return np.stack([known[one.text] for one in passages])


def cached_place(embedder: Embedder, corpus: Path, columns: Columns) -> Path:
    named = (str(embedder.folder.resolve()), str(corpus.resolve()), str(columns.text), str(columns.header))
    return cache_folder() / "search" / hashlib.blake2b("\0".join(named).encode(), digest_size=16).hexdigest()


def check_folder(folder: Path, old: Origin | None, embedder: Embedder, corpus: Path) -> None:
    """Refuse a folder that holds something else, the index of another model or corpus, or that would be searched."""
    if folder.resolve().is_relative_to(corpus.resolve()):
        raise FolderError(
            tr("--index {folder} is inside the corpus, where it would be read as text. Name another.", folder=folder)
        )
    if old is None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not (folder / ABOUT).is_file():
            raise FolderError(
                tr("--index {folder} holds something else than an index. Name a new or an empty folder.", folder=folder)
            )
        return
    found = unchanged(old.model_files, model_files(embedder.folder))
    if old.model != str(embedder.folder.resolve()) and not found:
        raise FolderError(
            tr(
                "--index {folder} is an index of another model, {other}. Name another folder for that of {model}.",
                folder=folder,
                other=old.model,
                model=embedder.folder,
            )
        )
    if old.corpus != str(corpus.resolve()):
        raise FolderError(
            tr(
                "--index {folder} is an index of another corpus, {other}. Name another folder for that of {corpus}.",
                folder=folder,
                other=old.corpus,
                corpus=corpus,
            )
        )


def model_files(folder: Path) -> dict[str, Path]:
    """The files that the vectors of a model depend on, checkpoints among them, by their names in its folder."""
    if folder.is_file():
        return {folder.name: folder}
    found = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    named = {file.relative_to(folder): file for file in found if file.suffix in OF_MODEL and file.name != MANIFEST}
    return {name.as_posix(): file for name, file in named.items() if name.parts[0] not in LOGS}


def files_by_name(corpus: Path) -> dict[str, Path]:
    return {str(file.resolve()): file for file in corpus_files(corpus)}


def entries_of(files: Mapping[str, Path]) -> dict[str, Entry]:
    return {name: entry_of(file) for name, file in files.items()}


def unchanged(old: Mapping[str, Entry], files: Mapping[str, Path]) -> bool:
    """Whether these are the same files; large ones are hashed only if their time has changed."""
    return old.keys() == files.keys() and not any(damage(files[name], entry, False) for name, entry in old.items())


# Files


def write_index(place: Path, origin: Origin, passages: Sequence[Passage], vectors: np.ndarray) -> None:
    sources = list(dict.fromkeys(str(one.source) for one in passages))
    numbers = {source: number for number, source in enumerate(sources)}
    with reported_os_errors(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(place) as draft:
        write_json(draft / ABOUT, {"format": FORMAT, "width": vectors.shape[1], **asdict(origin)})
        rows = [[numbers[str(one.source)], one.line, one.text] for one in passages]
        put_text(draft / PASSAGES, json.dumps({"sources": sources, "passages": rows}, ensure_ascii=False))
        save_tensors(draft / VECTORS, {"vectors": torch.from_numpy(vectors)})
        seal(draft)


def read_origin(place: Path) -> Origin | None:
    """What the index at this place was made of; None if there is none, or it is damaged."""
    if not is_whole(place):
        return None
    try:
        about = read_json(place / ABOUT)
        if about.pop("format") != FORMAT:
            return None
        about.pop("width")
        for name in ("model_files", "corpus_files"):
            about[name] = {file: Entry(**entry) for file, entry in about[name].items()}
        return Origin(**about)
    except (InputError, KeyError, TypeError, AttributeError):
        return None


def read_index(place: Path) -> tuple[list[Passage], np.ndarray]:
    about: dict[str, Any] = read_json(place / PASSAGES)
    passages = [
        Passage(text=text, source=about["sources"][source], line=line) for source, line, text in about["passages"]
    ]
    return passages, load_tensors(place / VECTORS)["vectors"].numpy()


def known_vectors(place: Path) -> dict[str, np.ndarray]:
    passages, vectors = read_index(place)
    return dict(zip((one.text for one in passages), vectors, strict=True))
