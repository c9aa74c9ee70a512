"""What a fine-tuning reports about its rows before it starts."""

from collections.abc import Sequence

import numpy as np

from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import several
from plmkit.preparation.doctor import MANY_UNKNOWN
from plmkit.tasks.contract import Example, Task
from plmkit.terminal.screen import Screen


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
    return f"Tokens in a row: median {median:,.0f}, 95th percentile {high:,.0f}, at most {lengths.max():,}; {lost}."


def tell_unknown(examples: Sequence[Example], vocabulary: Vocabulary, screen: Screen) -> None:
    """A vocabulary of another language reads nothing, and scores would not say why."""
    share = vocabulary.unknown_share(
        np.concatenate([framed.tokens for example in examples for framed in example.inputs])
    )
    if share > MANY_UNKNOWN:
        screen.say(
            f"! {share:.1%} of the tokens are unknown to the model's vocabulary: was it pretrained on text like this?"
        )
