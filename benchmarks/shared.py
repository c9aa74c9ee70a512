"""What the benchmarks share: text made on the spot, contestants that take turns, and tables."""

import statistics
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.tokenizers.tokenizer import Tokenizer, bert_tokenizer
from plmkit.tokenizers.wordpiece import WordPiece

ENGLISH, CHINESE = "English", "Chinese"
LEARNT_FROM = 2_000_000  # characters of the text that give the vocabulary; more would only take longer


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asked for."""

    folder: Path  # for everything that is written; gone afterwards
    rounds: int = 5
    quick: bool = False
    corpus: Path | None = None  # the user's own text instead of made text
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a table: speeds of both sides, round by round, higher is better."""

    case: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    target: float  # for the median ratio

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    def as_json(self) -> dict[str, Any]:
        ratios = {"ratio": self.ratio, "lowest": min(self.ratios), "highest": max(self.ratios)}
        return {**vars(self), **ratios, "met": self.ratio >= self.target}


# --- text


def text_files(options: Options, megabytes: float, names: Sequence[str] = (ENGLISH, CHINESE)) -> dict[str, Path]:
    """The user's text by its name, or made English and Chinese."""
    if options.corpus:
        return {options.corpus.name: options.corpus}
    files = {}
    for name in names:
        files[name] = options.folder / f"{name}-{megabytes:g}.txt"
        if not files[name].exists():
            files[name].write_text(make_text(name, megabytes, options.seed), encoding="utf-8")
    return files


def make_text(name: str, megabytes: float, seed: int) -> str:
    """Documents of paragraphs of sentences of words, all of mixed length; how often a word comes follows Zipf's law."""
    rng = np.random.default_rng([seed, len(name), 1])
    chinese = name == CHINESE
    words = chinese_words() if chinese else english_words(rng)
    characters = megabytes * 1e6 / (2.9 if chinese else 1)  # three bytes each, but for what is not Chinese
    drawn = iter(zipf(len(words), 1.1, int(characters / (1 if chinese else 5)), rng).tolist())
    documents, size = [], 0
    while size < characters:
        paragraphs = []
        for _ in range(rng.integers(2, 16)):
            lengths = np.clip(rng.lognormal(2.8, 0.6, size=rng.integers(1, 9)), 3, 90).astype(int)
            paragraphs.append(
                ("" if chinese else " ").join(
                    sentence([words[next(drawn, 0)] for _ in range(count)], chinese) for count in lengths.tolist()
                )
            )
        documents.append("\n".join(paragraphs))
        size += len(documents[-1]) + 2
    return "\n\n".join(documents) + "\n"


def sentence(words: list[str], chinese: bool) -> str:
    """Commas inside, a stop at the end; every tenth ends with a question mark, every thirtieth names a year."""
    mark = sum(map(len, words))
    if mark % 30 == 0:
        words[len(words) // 2] = str(1900 + mark)
    for place in range(9, len(words) - 3, 11):
        words[place] += "，" if chinese else ","
    if chinese:
        return "".join(words) + ("？" if mark % 10 == 0 else "。")
    return " ".join(words).capitalize() + ("?" if mark % 10 == 0 else ".")


def english_words(rng: np.random.Generator, count: int = 80_000) -> list[str]:
    """Words of one to four syllables, the short ones most frequent on the whole."""
    starts = [*"bcdfghlmnprstw", "st", "tr"]
    middles = [*"aeiou", "ea", "ou"]
    ends = ["", *"nrstl"]
    syllables = [a + b + c for a in starts for b in middles for c in ends]
    words: dict[str, None] = {}
    while len(words) < count:
        sizes, parts = rng.integers(1, 5, size=count), rng.integers(len(syllables), size=(count, 4))
        words.update({"".join(syllables[i] for i in row[:n]): None for n, row in zip(sizes, parts, strict=True)})
    chosen = list(words)[:count]
    ranks = np.argsort([len(word) for word in chosen] + rng.normal(0, 2.5, size=count), kind="stable")
    return [chosen[rank] for rank in ranks]


def chinese_words(count: int = 7_000) -> list[str]:
    """Characters, and a few Latin words, as Chinese text has them."""
    characters = [chr(0x4E00 + number) for number in range(count)]
    characters[300:300] = ["app", "google", "vip", "ok", "2018", "100"]
    return characters


def zipf(kinds: int, exponent: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count,) numbers below `kinds`, drawn by the law of Zipf and Mandelbrot."""
    shares = np.cumsum((np.arange(kinds) + 2.7) ** -exponent)
    return np.searchsorted(shares, rng.random(count) * shares[-1])


def learn_tokenizer(text: Path, size: int, folder: Path) -> Path:
    """A folder with a tokenizer of exactly `size` tokens, trained on the text, that both sides read."""
    if not folder.exists():
        with open(text, encoding="utf-8") as file:
            lines = file.read(LEARNT_FROM).splitlines()
        tokens = WordPiece(size=size).train(lines).vocabulary.tokens
        fill = [f"[unused{number}]" for number in range(size - len(tokens))]
        made: Tokenizer = bert_tokenizer([*tokens, *fill], lowercase=True)
        made.save(folder)
    return folder


# --- turns


class Side:
    """One contestant in a process of its own, so that neither has the other's settings of memory and threads."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, make, arguments))
        self.process.start()
        other.close()  # so that the end of the process is the end of the pipe

    def __call__(self, *arguments: Any) -> Any:
        """Have it run once, and wait for what it says."""
        self.pipe.send(arguments)
        return self.answer()

    def answer(self) -> Any:
        try:
            failed, value = self.pipe.recv()
        except EOFError as error:
            self.process.join()
            raise RuntimeError(f"A contestant's process ended with code {self.process.exitcode}.") from error
        if failed:
            raise RuntimeError(f"A contestant failed:\n{value}")
        return value

    def close(self) -> None:
        self.pipe.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


def serve(pipe: Connection, make: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    """In the new process: get ready, then run whenever asked, until the pipe ends."""
    try:
        run = make(*arguments)
        pipe.send((False, None))
        while True:
            pipe.send((False, run(*pipe.recv())))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return
    except Exception:
        pipe.send((True, traceback.format_exc()))


@contextmanager
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def sides(*makers: tuple[Any, ...]) -> Iterator[list[Side]]:
    """Contestants that are ready to run; each is given as a function and its arguments."""
    ready: list[Side] = []
    try:
        for make, *arguments in makers:
            ready.append(Side(make, *arguments))
            ready[-1].answer()
        yield ready
    finally:
        for side in ready:
            side.close()


def take_turns(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[list[Any], list[Any]]:
    """Ours, theirs, ours, theirs: whatever else slows the machine meets both."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


# --- words


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that also reads well as it is."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def lines_table(lines: Sequence[Line]) -> str:
    head = ("case", "ours", "theirs", "unit", "ratio", "range", "target", "")
    rows = [
        (
            line.case,
            number(statistics.median(line.ours)),
            number(statistics.median(line.theirs)),
            line.unit,
            f"{line.ratio:.2f}",
            f"{min(line.ratios):.2f} to {max(line.ratios):.2f}",
            f"{line.target:.2f}",
            "met" if line.ratio >= line.target else "missed",
        )
        for line in lines
    ]
    return table(head, rows)
