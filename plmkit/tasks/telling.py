"""What a fine-tuning says of its rows before it begins."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import several
from plmkit.preparation.doctor import MANY_UNKNOWN
from plmkit.tasks.framing import Framed
from plmkit.tasks.kinds import Kind
from plmkit.tasks.rows import Row
from plmkit.terminal.screen import Screen

NAMED = 6  # classes that are told one by one


def tell_rows(
    rows: Sequence[Row], framed: Sequence[Framed], kind: Kind, length: int, vocabulary: Vocabulary, screen: Screen
) -> None:
    screen.say(f"{several(len(rows), 'row')}, {labels_told(rows, kind)}.")
    screen.say(lengths_told(framed, length))
    tell_unknown(framed, vocabulary, screen)


def labels_told(rows: Sequence[Row], kind: Kind) -> str:
    if kind.numeric:
        numbers = np.array([float(row.label or 0) for row in rows])
        return f"numbers from {numbers.min():g} to {numbers.max():g}, mean {numbers.mean():.4g}"
    if kind.readings == "each":
        counts = [len(row.choices) for row in rows]
        span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        return f"{span} choices each"
    counted = Counter(str(row.label) for row in rows).most_common()
    told = [f"{name}: {count:,} ({count / len(rows):.1%})" for name, count in counted[:NAMED]]
    if others := counted[NAMED:]:
        told.append(f"{len(others)} more, the rarest {others[-1][0]}: {others[-1][1]:,}")
    return f"{len(counted):,} classes: {', '.join(told)}"


def lengths_told(framed: Sequence[Framed], length: int) -> str:
    lengths = np.array([row.longest + row.cut for row in framed])
    median, high = np.percentile(lengths, [50, 95])
    cut = sum(row.cut > 0 for row in framed)
    lost = (
        f"{cut:,} of {len(framed):,} texts are longer than {length} tokens and lose their tail "
        "(of a pair, the longer text loses first)"
        if cut
        else f"none is longer than {length} and cut"
    )
    return f"Tokens in a row: median {median:,.0f}, 95th percentile {high:,.0f}, at most {lengths.max():,}; {lost}."


def tell_unknown(framed: Sequence[Framed], vocabulary: Vocabulary, screen: Screen) -> None:
    """A vocabulary of another language reads nothing, and scores would not say why."""
    share = vocabulary.unknown_share(np.concatenate([reading.tokens for row in framed for reading in row.readings]))
    if share > MANY_UNKNOWN:
        screen.say(
            f"! {share:.1%} of the tokens are unknown to the model's vocabulary: was it pretrained on text like this?"
        )
