"""What a fine-tuning reports about its rows before it starts, and warnings about rows that are probably wrong."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from plmkit.data.reading.cells import folded, number_of, short
from plmkit.data.reading.columns import Say
from plmkit.data.vocabulary import MANY_UNKNOWN, Vocabulary
from plmkit.errors import InputError
from plmkit.language import several, tr
from plmkit.tasks.contract import Example, Labelled, Row, Task, unknown_share
from plmkit.tasks.rows import FEW, lines_of, too_many
from plmkit.terminal.screen import Screen

MISSING = frozenset({"nan", "none", "null", "na", "n/a", "<na>"})  # how programs write a missing value
MANY = 100  # labels; more are probably not meant as classes
SHOWN = 5  # labels in a message
RANKED = ("qid", "query_id", "question_id")  # columns that say which rows are to be ranked together


def remark_files(files: Sequence[Labelled], task: Task, say: Say) -> None:
    """Warn about the training rows, the first file, and about texts that files share."""
    train, *others = files
    task.remark(train, say)
    for number, file in enumerate(others, start=1):
        for earlier in files[:number]:
            remark_shared(earlier, file, say)
    if not task.grouped and (ranked := next((name for name in train.names if folded(name) in RANKED), None)):
        say(
            tr(
                "! {path}: column {ranked} is not used: {kind} scores each row by itself. --task rank ranks the rows "
                "of each query.",
                path=train.path,
                ranked=ranked,
                kind=task.kind,
            )
        )


def remark_labels(file: Labelled, say: Say) -> None:
    """Labels that are probably not meant as classes of their own."""
    counts = Counter(str(row.label) for row in file.rows)
    numeric = all(number_of(label) is not None for label in counts)
    if len(counts) > (FEW if numeric else MANY):
        say(
            tr(
                "! {path}: {count:,} different labels become {count:,} classes. {advice}",
                path=file.path,
                count=len(counts),
                advice=too_many([*counts]),
            )
        )
    alike: dict[str, list[str]] = {}
    for label in sorted(counts):
        alike.setdefault(folded(label), []).append(label)
    if twins := [
        tr(" and ").join(counted(label, counts) for label in same) for same in alike.values() if len(same) > 1
    ]:
        say(
            tr(
                "! {path}: labels that differ only in case, width or spaces become separate classes: {labels}. "
                "Use one spelling if they mean the same.",
                path=file.path,
                labels=some_of(twins),
            )
        )
    if missing := [counted(label, counts) for label in sorted(counts) if folded(label) in MISSING]:
        say(
            tr(
                "! {path}: {labels} becomes a class like any other. If it stands for a missing label, leave the "
                "label empty: such rows are left out.",
                path=file.path,
                labels=some_of(missing),
            )
        )


def remark_shared(earlier: Labelled, later: Labelled, say: Say) -> None:
    """Texts that two files have in common."""
    known = {texts_in(row) for row in earlier.rows}
    shared = sum(texts_in(row) in known for row in later.rows)
    if shared:
        total = len(later.rows)
        if later.path.exists() and earlier.path.exists() and later.path.samefile(earlier.path):
            found = tr("the same file is given twice")
        elif shared == total:
            found = tr("all {total:,} texts are also in {path}", total=total, path=earlier.path)
        else:
            found = tr(
                "{shared:,} of {total:,} texts are also in {path}", shared=shared, total=total, path=earlier.path
            )
        say(tr("! {path}: {found}, so its score says less about new texts.", path=later.path, found=found))


def texts_in(row: Row) -> tuple[object, ...]:
    return row.text.strip(), row.other and row.other.strip(), row.choices


def check_tokens(examples: Sequence[Example], file: Labelled, vocabulary: Vocabulary, say: Say) -> None:
    """Texts for which the tokenizer produces no tokens."""
    texts = 1 if file.rows[0].other is None and not file.rows[0].choices else 2
    empty = [example.row for example in examples if example.length <= vocabulary.specials(texts)]
    if len(empty) == len(file.rows):
        raise InputError(
            tr(
                "{path}: the model's tokenizer finds no tokens in any of the {texts}, such as '{example}'.\n"
                "Is this the right column? Choose it with --text COLUMN.",
                path=file.path,
                texts=several(len(empty), "text"),
                example=short(empty[0].text),
            )
        )
    if empty:
        lines = lines_of([row.line for row in empty], file.path)
        say(
            tr(
                "! {path}: the model's tokenizer finds no tokens in {texts} ({lines}).",
                path=file.path,
                texts=several(len(empty), "text"),
                lines=lines,
            )
        )


def counted(label: str, counts: Mapping[str, int]) -> str:
    return f"'{short(label)}' ({several(counts[label], 'row')})"


def some_of(names: Sequence[str]) -> str:
    return tr("; ").join(names[:SHOWN]) + (
        tr("; and {count} more", count=len(names) - SHOWN) if len(names) > SHOWN else ""
    )


def report_examples(examples: Sequence[Example], task: Task, vocabulary: Vocabulary, screen: Screen) -> None:
    labels = task.describe([example.row for example in examples])
    screen.say(tr("{rows}, {labels}.", rows=several(len(examples), "row"), labels=labels))
    screen.say(lengths_report(examples, task.length))
    report_unknown(examples, vocabulary, screen)


def lengths_report(examples: Sequence[Example], length: int) -> str:
    lengths = np.array([example.length + example.cut for example in examples])
    median, high = np.percentile(lengths, [50, 95])
    cut, split = (sum(some) for some in zip(*((one.cut > 0, one.windows > 1) for one in examples), strict=True))
    if split:
        return tr(
            "Tokens per row: median {median:,.0f}, 95th percentile {high:,.0f}; {split:,} of {total:,} rows are longer "
            "than {length} tokens and are read in windows that overlap ({windows:,} in all).",
            median=median,
            high=high,
            split=split,
            total=len(examples),
            length=length,
            windows=sum(one.windows for one in examples),
        )
    truncated = (
        tr(
            "{cut:,} of {total:,} rows are longer than {length} tokens and are truncated (of a pair, the longer "
            "text first)",
            cut=cut,
            total=len(examples),
            length=length,
        )
        if cut
        else tr("none is truncated (limit: {length})", length=length)
    )
    return tr(
        "Tokens per row: median {median:,.0f}, 95th percentile {high:,.0f}, at most {max:,}; {truncated}.",
        median=median,
        high=high,
        max=lengths.max(),
        truncated=truncated,
    )


def report_unknown(examples: Sequence[Example], vocabulary: Vocabulary, screen: Screen) -> None:
    """Warn of a vocabulary for other text, such as another language: the scores alone would not explain it."""
    share = unknown_share(examples, vocabulary)
    if share > MANY_UNKNOWN:
        screen.say(
            tr(
                "! {share:.1%} of the tokens are unknown to the model's vocabulary: was it pretrained on text "
                "like this?",
                share=share,
            )
        )
