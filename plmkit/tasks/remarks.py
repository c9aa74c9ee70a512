"""What a fine-tuning reports about its rows before it starts, and warnings about rows that are probably wrong."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from plmkit.data.reading.cells import folded, number_of, short
from plmkit.data.reading.columns import Say
from plmkit.data.vocabulary import MANY_UNKNOWN, Vocabulary
from plmkit.errors import InputError
from plmkit.language import several, tr
from plmkit.tasks.contract import Example, Labelled, Row, Task
from plmkit.tasks.rows import FEW, lines_of, too_many
from plmkit.terminal.screen import Screen

MISSING = frozenset({"nan", "none", "null", "na", "n/a", "<na>"})  # what programs write for no value
MANY = 100  # labels; one wonders whether more are meant as classes
SHOWN = 5  # labels in a message
RANKED = ("qid", "query_id", "question_id")  # columns that say which rows are to be ranked together


def remark_files(files: Sequence[Labelled], task: Task, say: Say) -> None:
    """Look at the training rows, which come first, and at those that score."""
    train, *others = files
    task.remark(train, say)
    for number, file in enumerate(others, start=1):
        for earlier in files[:number]:
            remark_shared(earlier, file, say)
    if ranked := next((name for name in train.names if folded(name) in RANKED), None):
        say(
            tr(
                "! {path}: column {ranked} is not used: {kind} scores each row by itself and does not rank.",
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
                "! {path}: {counts_count:,} different labels become {counts_count:,} classes. {too_many}",
                path=file.path,
                counts_count=len(counts),
                too_many=too_many([*counts]),
            )
        )
    alike: dict[str, list[str]] = {}
    for label in sorted(counts):
        alike.setdefault(folded(label), []).append(label)
    if twins := [" and ".join(counted(label, counts) for label in same) for same in alike.values() if len(same) > 1]:
        say(
            tr(
                "! {path}: labels that differ only in case, width or blanks become separate classes: {some_of}. "
                "Write them alike if they mean the same.",
                path=file.path,
                some_of=some_of(twins),
            )
        )
    if missing := [counted(label, counts) for label in sorted(counts) if folded(label) in MISSING]:
        say(
            tr(
                "! {path}: {some_of} becomes a class like any other. If it stands for a missing label, leave the "
                "label empty: such rows are left out.",
                path=file.path,
                some_of=some_of(missing),
            )
        )


def remark_shared(earlier: Labelled, later: Labelled, say: Say) -> None:
    """Texts that two files have in common."""
    known = {said_in(row) for row in earlier.rows}
    shared = sum(said_in(row) in known for row in later.rows)
    if shared:
        count = (
            tr("all {rows_count:,}", rows_count=len(later.rows))
            if shared == len(later.rows)
            else tr("{shared:,} of {rows_count:,}", shared=shared, rows_count=len(later.rows))
        )
        same = later.path.exists() and earlier.path.exists() and later.path.samefile(earlier.path)
        where = (
            tr("the same file is given twice")
            if same
            else tr("{count} texts are in {path} too", count=count, path=earlier.path)
        )
        say(tr("! {path}: {where}, so its score says less about new texts.", path=later.path, where=where))


def said_in(row: Row) -> tuple[object, ...]:
    return row.text.strip(), row.other and row.other.strip(), row.choices


def check_tokens(examples: Sequence[Example], file: Labelled, vocabulary: Vocabulary, say: Say) -> None:
    """Texts of which the tokenizer leaves nothing."""
    texts = 1 if file.rows[0].other is None and not file.rows[0].choices else 2
    empty = [example.row for example in examples if example.longest <= vocabulary.specials(texts)]
    if len(empty) == len(file.rows):
        raise InputError(
            tr(
                "{path}: the model's tokenizer leaves nothing of the {texts}, which hold '{short}' and the like.\n"
                "Is it the right column? --text COLUMN names it.",
                path=file.path,
                texts=several(len(empty), "text"),
                short=short(empty[0].text),
            )
        )
    if empty:
        lines = lines_of([row.line for row in empty], file.path)
        say(
            tr(
                "! {path}: the model's tokenizer leaves nothing of {texts} ({lines}).",
                path=file.path,
                texts=several(len(empty), "text"),
                lines=lines,
            )
        )


def counted(label: str, counts: Mapping[str, int]) -> str:
    return f"'{short(label)}' ({several(counts[label], 'row')})"


def some_of(names: Sequence[str]) -> str:
    return "; ".join(names[:SHOWN]) + (
        tr("; and {names_count} more", names_count=len(names) - SHOWN) if len(names) > SHOWN else ""
    )


def tell_examples(examples: Sequence[Example], task: Task, vocabulary: Vocabulary, screen: Screen) -> None:
    screen.say(f"{several(len(examples), 'row')}, {task.describe([example.row for example in examples])}.")
    screen.say(lengths_told(examples, task.length))
    tell_unknown(examples, vocabulary, screen)


def lengths_told(examples: Sequence[Example], length: int) -> str:
    lengths = np.array([example.longest + example.cut for example in examples])
    median, high = np.percentile(lengths, [50, 95])
    cut = sum(example.cut > 0 for example in examples)
    lost = (
        tr(
            "{cut:,} of {examples_count:,} texts are longer than {length} tokens and lose their tail (of a pair, "
            "the longer text loses first)",
            cut=cut,
            examples_count=len(examples),
            length=length,
        )
        if cut
        else tr("none is longer than {length} and cut", length=length)
    )
    return tr(
        "Tokens per row: median {median:,.0f}, 95th percentile {high:,.0f}, at most {max:,}; {lost}.",
        median=median,
        high=high,
        max=lengths.max(),
        lost=lost,
    )


def tell_unknown(examples: Sequence[Example], vocabulary: Vocabulary, screen: Screen) -> None:
    """A vocabulary of another language reads nothing, and scores would not say why."""
    share = vocabulary.unknown_share(
        np.concatenate([framed.tokens for example in examples for framed in example.inputs])
    )
    if share > MANY_UNKNOWN:
        screen.say(
            tr(
                "! {share:.1%} of the tokens are unknown to the model's vocabulary: was it pretrained on text "
                "like this?",
                share=share,
            )
        )
