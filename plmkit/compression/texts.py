"""Rows of real text at four lengths, by which a graph is compared with the network it was made from."""

from collections.abc import Sequence

import numpy as np

from plmkit.inference.model import Model
from plmkit.tasks.framing import Framed, frame

TEXTS = (  # of the two languages and more that models here read, with digits, capitals, accents and symbols
    "The old harbour was quiet in the morning, and the fishing boats had not come back yet. A woman in a blue coat "
    "sold coffee from a small cart near the lighthouse; it cost 2.50 and was better than anything in the hotel. ",
    "今天早上天气很好，我们在公园里散步，看见许多人在打太极拳。中午在一家小饭馆吃了面条，价钱便宜，味道也不错。"
    "下午下起了大雨，大家只好回家看书。",
    "BERT was released in 2018 by Google; one year later there were already dozens of models like it, in English, "
    "中文, français, русский and 日本語. What did they learn from? Mostly from Wikipedia & books (16 GB). ",
    "I had read the reviews before I went, so I expected little, but the soup was excellent and the waiter patient. "
    "The room upstairs is too loud for a conversation, though. Would I go again? Yes, on a weekday. ",
)
SIZES = (1, 2, 4, 8)  # rows of a batch
LENGTHS = 4


def lengths_of(longest: int) -> list[int]:
    """Four lengths in tokens, from short to the longest: 8, 32, 128 and 512 where the model reads 512."""
    return sorted({max(3, round(longest / 4**power)) for power in range(LENGTHS)})


def rows_at(model: Model, length: int, count: int, texts: Sequence[str] = TEXTS) -> list[Framed]:
    """Rows of text, the first of this length, and the others down to half of it, so that a batch has padding."""
    vocabulary = model.tokenizer.vocabulary
    encoded = [np.array(model.tokenizer.encode(text), dtype=np.int64) for text in texts]
    encoded = [tokens for tokens in encoded if len(tokens)] or [np.array([vocabulary.unknown], dtype=np.int64)]
    rows = []
    for number in range(count):
        wanted = length - number * length // (2 * count)
        parts = [encoded[(number + turn) % len(encoded)] for turn in range(length)]
        rows.append(frame(np.concatenate(parts)[:length], None, vocabulary, wanted))
    return rows
