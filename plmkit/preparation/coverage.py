"""What characters and words cost as units: how many there are, and how many of new text are unknown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from plmkit.data.corpus import Corpus
from plmkit.segmentation.chinese import Jieba

SAMPLE = 1_000_000  # characters that are read, spread over the corpora
NEW = 10  # one document in so many counts as new text; of a corpus of few documents, one paragraph
FEW = 2 * NEW


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Of one kind of unit, with nine tenths of the sample as the text that a vocabulary is made of."""

    vocabulary: int  # different units
    unknown_share: float  # of the units of the other tenth, which the vocabulary does not have
    frequent: int  # the same with the most frequent units only, as many as the recipe's tokenizer has
    frequent_unknown_share: float


def coverage(corpora: Sequence[Corpus], size: int) -> dict[str, Coverage]:
    """Of characters and of words, Chinese ones by jieba; nothing if there is too little text."""
    known, new = parted([text for corpus in corpora for text in sample(corpus, SAMPLE // len(corpora))])
    if not known or not new:
        return {}
    return {
        "characters": measured(map(characters, known), map(characters, new), size),
        "words": measured([words(known)], [words(new)], size),
    }


def sample(corpus: Corpus, most: int) -> Iterator[str]:
    """Documents from all of a corpus, up to a number of characters."""
    every, read = max(1, corpus.size // (2 * most)), 0
    for document in islice(corpus.documents(), 0, None, every):
        text = "\n".join(document.paragraphs)
        yield text[: max(0, most - read)]
        read += len(text)
        if read >= most:
            return


def parted(documents: Sequence[str]) -> tuple[list[str], list[str]]:
    """Text that a vocabulary is made of, and new text."""
    parts = documents if len(documents) >= FEW else [line for document in documents for line in document.split("\n")]
    return [part for number, part in enumerate(parts) if number % NEW != NEW - 1], list(parts[NEW - 1 :: NEW])


def measured(known: Iterable[Sequence[str]], new: Iterable[Sequence[str]], size: int) -> Coverage:
    counts = Counter(unit for units in known for unit in units)
    asked = Counter(unit for units in new for unit in units)
    frequent = {unit for unit, _ in counts.most_common(size)}
    total = max(1, asked.total())
    return Coverage(
        vocabulary=len(counts),
        unknown_share=sum(count for unit, count in asked.items() if unit not in counts) / total,
        frequent=len(frequent),
        frequent_unknown_share=sum(count for unit, count in asked.items() if unit not in frequent) / total,
    )


def characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]


def words(texts: Sequence[str]) -> list[str]:
    text = "\n".join(texts)
    return [text[begin:end] for begin, end in Jieba().build().spans([text]).words.tolist()]
