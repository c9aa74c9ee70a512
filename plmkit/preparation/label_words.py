"""The labels of a row in words, as `plm doctor` shows them."""

from collections.abc import Callable, Iterator

import numpy as np

from plmkit.data.batch import IGNORE
from plmkit.data.connectives import CONNECTIVES, RELATIONS
from plmkit.data.orders import order_of
from plmkit.data.rows import Rows, StretchPlan
from plmkit.data.samples import Samples
from plmkit.language import comma, tr

MOST_TOKENS = 24  # of a row, with their labels


def labels_of(samples: Samples, rows: Rows, chosen: np.ndarray, length: int, name: Callable[[int], str]) -> list[str]:
    """The labels of the chosen rows of an epoch, in words; "" for rows without. `name` is the text of a token."""
    plan, _ = samples.plan(0, length)
    lines: list[list[str]] = [[] for _ in chosen]
    for words in (of_texts(rows), of_connectives(samples, plan, rows, chosen), of_tokens(rows, name)):
        for row, text in words:
            lines[row].append(text)
    return ["\n".join(texts) for texts in lines]


def of_texts(rows: Rows) -> Iterator[tuple[int, str]]:
    """The order, distance or relevance of each row."""
    distances = tr("adjacent"), tr("same document, not adjacent"), tr("different documents")
    relevance = tr("clicked"), tr("shown, but not clicked"), tr("not shown for this query")
    for field, classes in ((rows.distance, distances), (rows.relevance, relevance)):
        for row, label in enumerate([] if field is None else field.tolist()):
            if label != IGNORE:
                title = tr("distance") if field is rows.distance else tr("relevance")
                yield row, tr("{name} {label}: {text}", name=title, label=label, text=classes[label])
    for row, label in enumerate([] if rows.order is None else rows.order.tolist()):
        order = " ".join(str(1 + part) for part in order_of(label))
        yield row, tr("order {order} → class {label}", order=order, label=label)


def of_connectives(samples: Samples, plan: object, rows: Rows, chosen: np.ndarray) -> Iterator[tuple[int, str]]:
    """What connected the texts of each row, and the relation it expresses."""
    table = samples.store.connectives
    if rows.discourse is None or table is None or not isinstance(plan, StretchPlan):
        return
    for row, number in enumerate(chosen.tolist()):
        _, end, begin, _ = plan.stretches[number].tolist()
        (place, *_) = np.flatnonzero((table[:, 1] == end) & (table[:, 2] == begin)).tolist()
        relation = tr_relation(RELATIONS[int(rows.discourse[row])])
        yield row, tr("{connective} → {relation}", connective=CONNECTIVES[int(table[place, 5])], relation=relation)


def of_tokens(rows: Rows, name: Callable[[int], str]) -> Iterator[tuple[int, str]]:
    """The first tokens of each row that have a label, with it."""
    if rows.capitals is None and rows.elsewhere is None:
        return
    titles = tr("capital letter"), tr("elsewhere in its document")
    tokens = rows.tokens if rows.targets is None else np.where(rows.targets == IGNORE, rows.tokens, rows.targets)
    for title, field in zip(titles, (rows.capitals, rows.elsewhere), strict=True):
        for row, labels in enumerate([] if field is None else field):
            asked = np.flatnonzero(labels != IGNORE)
            shown = comma().join(f"{name(int(tokens[row, at]))} {labels[at]}" for at in asked[:MOST_TOKENS])
            more = " …" if len(asked) > MOST_TOKENS else ""
            yield row, tr("{name}: {text}", name=title, text=(shown or tr("no token has a label")) + more)


def tr_relation(relation: str) -> str:
    """A relation in the reader's language."""
    return {
        "cause": tr("cause"),
        "result": tr("result"),
        "contrast": tr("contrast"),
        "concession": tr("concession"),
        "condition": tr("condition"),
        "purpose": tr("purpose"),
        "addition": tr("addition"),
        "example": tr("an example"),
        "restatement": tr("restatement"),
        "succession": tr("succession"),
        "precedence": tr("precedence"),
        "simultaneity": tr("simultaneity"),
        "alternative": tr("alternative"),
        "confirmation": tr("confirmation"),
        "similarity": tr("similarity"),
    }[relation]
