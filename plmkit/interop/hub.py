"""Models by their names on the Hugging Face hub: from its local cache, or downloaded into it."""

import re
from collections.abc import Callable
from pathlib import Path

from plmkit.errors import InputError, not_there
from plmkit.interop.weights import CONFIG, is_whole
from plmkit.language import tr
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.files import CONFIG_FILE, FOUND

NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
LONGEST_NAME = 96  # characters, by the hub's own rule
TOKENIZER_FILES = (*FOUND, CONFIG_FILE, "special_tokens_map.json", "added_tokens.json", "merges.txt")
MODEL_FILES = (  # weights without code, and JSON
    *TOKENIZER_FILES, CONFIG, "model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors",
    "modules.json", "*_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "*_Dense/config.json", "*_Dense/model.safetensors",
)  # fmt: skip


def find_model(given: Path) -> Path:
    """The folder of a model: the given folder, or a model of that name on the hub."""
    return find(given, tr("folder"), MODEL_FILES, lambda folder: is_whole(folder) and has_tokenizer(folder))


def find_tokenizer(given: Path) -> Path:
    """The same for a tokenizer alone."""
    return find(given, tr("file or folder"), TOKENIZER_FILES, has_tokenizer)


def has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in FOUND)


def find(given: Path, what: str, files: tuple[str, ...], is_enough: Callable[[Path], bool]) -> Path:
    """A local path comes before the cache, and the cache before the hub, which is only contacted for missing files."""
    name = given.as_posix()
    if given.exists() or not is_name(name):
        return given
    cached = cached_folder(name)
    if cached is not None and is_enough(cached):
        return cached
    if given.parent.is_dir():  # a mistyped path is not sent to the hub
        return cached or given
    try:
        return download(name, what, files)
    except InputError:
        if cached is None:
            raise
        return cached


def is_name(text: str) -> bool:
    """Whether the hub may have a model of that name."""
    return bool(NAME.fullmatch(text)) and not re.search(r"--|\.\.", text) and len(text) <= LONGEST_NAME


def cached_folder(name: str) -> Path | None:
    """The folder of an earlier download, by any program."""
    from huggingface_hub import try_to_load_from_cache

    found = (try_to_load_from_cache(name, file) for file in (CONFIG, *FOUND))
    return next((Path(path).parent for path in found if isinstance(path, str)), None)


def download(name: str, what: str, files: tuple[str, ...]) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    cache = constants.HF_HUB_CACHE
    if not constants.HF_HUB_OFFLINE:
        Screen().say(
            tr(
                "There is no local {what} '{name}': looking for a model of that name on the Hugging Face hub.",
                what=what,
                name=name,
            )
        )
    try:
        return Path(snapshot_download(name, allow_patterns=list(files)))
    except GatedRepoError as error:
        raise InputError(
            tr(
                "The Hugging Face hub has a model '{name}', but it is open only to users who have accepted its terms.\n"
                "Accept them at {endpoint}/{name} and log in with `hf auth login`, or give a folder.",
                name=name,
                endpoint=constants.ENDPOINT,
            )
        ) from error
    except RepositoryNotFoundError as error:
        raise InputError(
            tr(
                "{not_there} The Hugging Face hub has no model '{name}' either.\n"
                "Give a run folder, a Hugging Face folder or the name of a model on the hub.",
                not_there=not_there(Path(name), what),
                name=name,
            )
        ) from error
    except Exception as error:  # from any HTTP library that huggingface_hub uses
        why = error.__cause__ if isinstance(error, LocalEntryNotFoundError) and error.__cause__ else error
        reason = (
            tr("HF_HUB_OFFLINE is set") if constants.HF_HUB_OFFLINE else f"{type(why).__name__}: {why}".splitlines()[0]
        )
        raise InputError(
            tr(
                "{not_there} The model '{name}' is not in {cache}, the cache of the Hugging Face hub, either, and the "
                "hub cannot be reached ({reason}).\n"
                "With a network connection, run `hf download {name} --local-dir DIR`, and give DIR.",
                not_there=not_there(Path(name), what),
                name=name,
                cache=cache,
                reason=reason,
            )
        ) from error
