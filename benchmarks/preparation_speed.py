"""Preparing a corpus: our token store compared with `datasets.map` with the same tokenizer and as many processes."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.shared import Line, Options, learn_tokenizer, say, sides, take_turns, text_files

TITLE = "Preparing text, from a file to tokens on disk: plmkit against datasets.map"
TARGET = 2.0
PROCESSES = 2


def run(options: Options) -> list[Line]:
    lines = []
    for name, text in text_files(options, 0.3 if options.quick else 10).items():
        say(f"preparation: {name}")
        tokenizer = learn_tokenizer(text, 2_000 if options.quick else 30_000, options.folder / f"{text.stem}-prepare")
        work = options.folder, text, tokenizer
        with sides((make_ours, *work), (make_theirs, *work)) as (ours, theirs):
            a, b = take_turns(ours, theirs, options.rounds)
        if a[0]["digest"] == b[0]["digest"]:
            say(f"  both sides made the same {a[0]['tokens']:,} tokens")
        elif options.corpus:  # a sentence of a thousand characters is cut, perhaps inside a word
            say(f"  the tokens differ: {a[0]['tokens']:,} and {b[0]['tokens']:,}")
        else:
            raise RuntimeError(f"The tokens differ: {a[0]['tokens']:,} and {b[0]['tokens']:,}.")
        size = text.stat().st_size / 1e6
        lines.append(
            Line(
                case=f"{name}, {size:.1f} MB, {PROCESSES} processes",
                unit="MB/s",
                ours=[size / result["seconds"] for result in a],
                theirs=[size / result["seconds"] for result in b],
                target=TARGET,
            )
        )
    return lines


def make_ours(folder: Path, text: Path, tokenizer: Path) -> Callable[[], dict[str, Any]]:
    from plmkit.data.corpus import open_corpus
    from plmkit.data.shards import open_store
    from plmkit.tokenizers.tokenizer import load_tokenizer

    ready = load_tokenizer(tokenizer)

    def one_round() -> dict[str, Any]:
        with TemporaryDirectory(dir=folder) as cache:
            started = time.perf_counter()
            store = open_store([open_corpus([text])], ready, Path(cache), processes=PROCESSES)
            return result(time.perf_counter() - started, np.asarray(store.tokens))

    return one_round


def make_theirs(folder: Path, text: Path, tokenizer: Path) -> Callable[[], dict[str, Any]]:
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    ready = PreTrainedTokenizerFast.from_pretrained(tokenizer)

    def one_round() -> dict[str, Any]:
        with TemporaryDirectory(dir=folder) as cache:
            started = time.perf_counter()
            lines = datasets.load_dataset("text", data_files=str(text), split="train", cache_dir=cache)
            made = lines.map(
                encode, batched=True, num_proc=PROCESSES, remove_columns=["text"], fn_kwargs={"tokenizer": ready}
            )
            seconds = time.perf_counter() - started
            tokens = made.with_format("arrow")[:]["input_ids"].combine_chunks().flatten().to_numpy()
            return result(seconds, tokens)

    return one_round


def encode(rows: dict[str, list[str]], tokenizer: Any) -> dict[str, Any]:
    """Token numbers and nothing else, which is the least that their tokenizer can be asked for."""
    found = tokenizer(
        rows["text"], add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False, verbose=False
    )
    return {"input_ids": found["input_ids"]}


def result(seconds: float, tokens: np.ndarray) -> dict[str, Any]:
    digest = hashlib.blake2b(tokens.astype(np.uint32).tobytes(), digest_size=16).hexdigest()
    return {"seconds": seconds, "tokens": len(tokens), "digest": digest}
