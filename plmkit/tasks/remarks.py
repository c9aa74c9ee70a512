"""What a fine-tuning reports about its rows before it starts, and warnings about rows that are probably wrong."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from plmkit.data.reading.cells import folded, number_of, short
from plmkit.data.reading.columns import Say
from plmkit.data.vocabulary import MANY_UNKNOWN, Vocabulary
from plmkit.errors import InputError, several
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
        say(f"! {train.path}: column {ranked} is not used: {task.kind} scores each row by itself and does not rank.")


def remark_labels(file: Labelled, say: Say) -> None:
    """Labels that are probably not meant as classes of their own."""
    counts = Counter(str(row.label) for row in file.rows)
    numeric = all(number_of(label) is not None for label in counts)
    if len(counts) > (FEW if numeric else MANY):
        say(f"! {file.path}: {len(counts):,} different labels become {len(counts):,} classes. {too_many([*counts])}")
    alike: dict[str, list[str]] = {}
    for label in sorted(counts):
        alike.setdefault(folded(label), []).append(label)
    if twins := [" and ".join(counted(label, counts) for label in same) for same in alike.values() if len(same) > 1]:
        say(
            f"! {file.path}: labels that differ only in case, width or blanks become separate classes: "
            f"{some_of(twins)}. Write them alike if they mean the same."
        )
    if missing := [counted(label, counts) for label in sorted(counts) if folded(label) in MISSING]:
        say(
            f"! {file.path}: {some_of(missing)} becomes a class like any other. If it stands for a missing label, "
            "leave the label empty: such rows are left out."
        )


def remark_shared(earlier: Labelled, later: Labelled, say: Say) -> None:
    """Texts that two files have in common."""
    known = {said_in(row) for row in earlier.rows}
    shared = sum(said_in(row) in known for row in later.rows)
    if shared:
        count = f"all {len(later.rows):,}" if shared == len(later.rows) else f"{shared:,} of {len(later.rows):,}"
        same = later.path.exists() and earlier.path.exists() and later.path.samefile(earlier.path)
        where = "the same file is given twice" if same else f"{count} texts are in {earlier.path} too"
        say(f"! {later.path}: {where}, so its score says less about new texts.")


def said_in(row: Row) -> tuple[object, ...]:
    return row.text.strip(), row.other and row.other.strip(), row.choices


def check_tokens(examples: Sequence[Example], file: Labelled, vocabulary: Vocabulary, say: Say) -> None:
    """Texts of which the tokenizer leaves nothing."""
    texts = 1 if file.rows[0].other is None and not file.rows[0].choices else 2
    empty = [example.row for example in examples if example.longest <= vocabulary.specials(texts)]
    if len(empty) == len(file.rows):
        raise InputError(
            f"{file.path}: the model's tokenizer leaves nothing of the {several(len(empty), 'text')}, which hold "
            f"'{short(empty[0].text)}' and the like.\nIs it the right column? --text COLUMN names it."
        )
    if empty:
        lines = lines_of([row.line for row in empty], file.path)
        say(f"! {file.path}: the model's tokenizer leaves nothing of {several(len(empty), 'text')} ({lines}).")


def counted(label: str, counts: Mapping[str, int]) -> str:
    return f"'{short(label)}' ({several(counts[label], 'row')})"


def some_of(names: Sequence[str]) -> str:
    return "; ".join(names[:SHOWN]) + (f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def tell_examples(examples: Sequence[Example], task: Task, vocabulary: Vocabulary, screen: Screen) -> None:
    screen.say(f"{several(len(examples), 'row')}, {task.describe([example.row for example in examples])}.")
    screen.say(lengths_told(examples, task.length))
    tell_unknown(examples, vocabulary, screen)


def lengths_told(examples: Sequence[Example], length: int) -> str:
    lengths = np.array([example.longest + example.cut for example in examples])
    median, high = np.percentile(lengths, [50, 95])
    cut = sum(example.cut > 0 for example in examples)
    lost = (
        f"{cut:,} of {len(examples):,} texts are longer than {length} tokens and lose their tail "
        "(of a pair, the longer text loses first)"
        if cut
        else f"none is longer than {length} and cut"
    )
    return f"Tokens per row: median {median:,.0f}, 95th percentile {high:,.0f}, at most {lengths.max():,}; {lost}."


def tell_unknown(examples: Sequence[Example], vocabulary: Vocabulary, screen: Screen) -> None:
    """A vocabulary of another language reads nothing, and scores would not say why."""
    share = vocabulary.unknown_share(
        np.concatenate([framed.tokens for example in examples for framed in example.inputs])
    )
    if share > MANY_UNKNOWN:
        screen.say(
            f"! {share:.1%} of the tokens are unknown to the model's vocabulary: was it pretrained on text like this?"
        )
