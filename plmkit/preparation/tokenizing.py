"""Corpora as tokens: a tokenizer trained on them, or a given one, and the documents that are held out."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.config.machine import Settings
from plmkit.corruption.contract import Arrangement
from plmkit.data.corpus import Corpus
from plmkit.data.feature_files import read_features
from plmkit.data.images import load_image
from plmkit.data.samples import Split, split
from plmkit.data.shards import TokenStore, load_store, open_store, row_named, store_folder
from plmkit.errors import PlmError
from plmkit.language import tr
from plmkit.recipe import Recipe
from plmkit.segmentation.choosing import ToolSegmenter
from plmkit.storage.files import cache_folder, new_folder
from plmkit.storage.manifest import is_whole, seal
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import Tokenizer, load_tokenizer
from plmkit.training.device import available_cores
from plmkit.training.memory import check_vocabulary

FORMAT = 1  # of a cached tokenizer: increase when its files or how they are made change
VOCABULARY_CHARACTERS = 100_000_000  # sampled evenly from the corpus to train a tokenizer on


@dataclass(frozen=True, kw_only=True)
class Part:
    """Documents of a store to train on, and others that are held out, perhaps of another one."""

    store: TokenStore
    documents: np.ndarray
    held_store: TokenStore
    held_documents: np.ndarray

    def read_by(self, arrangement: Arrangement[Any]) -> np.ndarray:
        """The documents to train on that an arrangement reads."""
        return documents_of(arrangement, self.store, self.documents)

    def held_for(self, arrangement: Arrangement[Any]) -> np.ndarray:
        """The held-out documents that an arrangement reads."""
        return documents_of(arrangement, self.held_store, self.held_documents)


def documents_of(arrangement: Arrangement[Any], store: TokenStore, documents: np.ndarray) -> np.ndarray:
    """Those of the documents that an arrangement reads: queries with their titles, or everything else."""
    return documents[store.has_queries[documents] == arrangement.queries]


@dataclass(frozen=True, kw_only=True)
class Tokenizing:
    """How corpora become tokens, some of their documents held out."""

    tokenizer: Tokenizer
    segmenter: ToolSegmenter | None
    details: Collection[str]  # what the store keeps beside the tokens
    settings: Settings
    seed: int
    screen: Screen

    def part(self, corpora: Sequence[Corpus], held_out: Sequence[Corpus]) -> Part:
        """With a corpus of held-out text, or with a share of the documents held out."""
        store = self.tokens(corpora)
        if held_out:
            held = self.tokens(held_out)
            every, others = (np.arange(len(one.documents) - 1) for one in (store, held))
            return Part(store=store, documents=every, held_store=held, held_documents=others)
        return self.split(store)

    def triples(self, corpora: Sequence[Corpus], held_out: Sequence[Corpus]) -> Part:
        """The same in one store: a held-out triple is true, and its entities are those of the others."""
        store = self.tokens([*corpora, *held_out])
        if not held_out:
            return self.split(store)
        held = np.asarray(store.sources) == len(corpora)
        return Part(
            store=store, documents=np.flatnonzero(~held), held_store=store, held_documents=np.flatnonzero(held)
        )  # fmt: skip

    def split(self, store: TokenStore) -> Part:
        parts = split_by_kind(store, seed=self.seed, share=self.settings.run.valid_share)
        return Part(store=store, documents=parts.train, held_store=store, held_documents=parts.valid)

    def tokens(self, corpora: Sequence[Corpus]) -> TokenStore:
        """From the cache, or made now."""
        processes = self.settings.run.reader_workers or available_cores()
        folder = store_folder(corpora, self.tokenizer, cache_folder(), self.segmenter, self.details)
        if is_usable(folder, tr("tokenized text"), self.screen):
            return load_store(folder)
        doing = (
            tr("reading text")
            if self.segmenter is None
            else tr("reading text, finding {level} boundaries", level=self.segmenter.finds[-1])
        )
        with self.screen.reading(doing, sum(corpus.size for corpus in corpora)) as advance:
            return open_store(
                corpora, self.tokenizer, cache_folder(), segmenter=self.segmenter, details=self.details,
                processes=processes, on_progress=advance,
            )  # fmt: skip


def split_by_kind(store: TokenStore, *, seed: int, share: float) -> Split:
    """Some documents of text, and of queries if there are any, are held out."""
    if not store.has_queries.any():
        return split(store, seed=seed, share=share)
    text, queries = (
        split(store, seed=seed, share=share, among=np.flatnonzero(store.has_queries == kind)) for kind in (False, True)
    )
    return Split(
        train=np.sort(np.concatenate([text.train, queries.train])),
        valid=np.sort(np.concatenate([text.valid, queries.valid])),
    )


def check_images_of(corpora: Sequence[Corpus]) -> None:
    """Refuse an image, or a file of features, that cannot be read."""
    for corpus in corpora:
        for document in corpus.documents() if corpus.image_size or corpus.region_width else ():
            with row_named(document):
                if document.features is not None and corpus.region_width:
                    read_features(document.features, corpus.region_width, corpus.region_classes)
                elif document.image is not None and corpus.image_size:
                    load_image(document.image, corpus.image_size)


def is_usable(folder: Path, what: str, screen: Screen) -> bool:
    """Is it in the cache, undamaged? Damage is reported."""
    whole = is_whole(folder)
    if folder.exists() and not whole:
        screen.say(tr("! {folder} is damaged: the cached {what} is made again.", folder=folder, what=what))
    return whole


def trained_tokenizer(recipe: Recipe, corpora: Sequence[Corpus], screen: Screen) -> Tokenizer:
    """A tokenizer for this text, from the cache if it was trained on this text with these settings before."""
    parts = [f"tokenizer {FORMAT}", str(recipe.tokenizer), *(corpus.fingerprint() for corpus in corpora)]
    key = hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()
    folder = cache_folder() / "tokenizers" / key
    if not is_usable(folder, tr("vocabulary"), screen):
        check_vocabulary(recipe.tokenizer.size)
        total = sum(corpus.size for corpus in corpora)
        with screen.reading(tr("training the tokenizer"), total) as advance:
            try:
                made = recipe.tokenizer.train(sample_text(corpora, total, advance))
            except PlmError:  # of too little text; whoever adds some should not hear of a broken image only then
                check_images_of(corpora)
                raise
        with new_folder(folder) as partial:
            made.save(partial)
            seal(partial)
    return load_tokenizer(folder)


def sample_text(corpora: Sequence[Corpus], total: int, advance: Callable[[int], None]) -> Iterator[str]:
    """Every n-th document, such that a large corpus gives about a hundred million characters."""
    every = max(1, total // (2 * VOCABULARY_CHARACTERS))
    for corpus in corpora:
        for number, document in enumerate(corpus.documents(advance)):
            if number % every == 0:
                yield from document.paragraphs
