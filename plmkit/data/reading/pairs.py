"""Pairs of a source and a target: two columns of a table, or two files whose lines belong together."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from plmkit.data.reading.cells import folded, found, is_blank, is_data, listed, short
from plmkit.data.reading.columns import Heading
from plmkit.data.reading.dialect import Line, Row
from plmkit.data.reading.source import Document
from plmkit.errors import InputError
from plmkit.language import tr

# Names of the two columns; if a file has several such pairs, the first is read.
NAMED = (
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("原文", "译文"), ("源语言", "目标语言"), ("英文", "中文"),
    ("article", "summary"), ("document", "summary"), ("article", "highlights"), ("text", "summary"),
    ("content", "summary"), ("text", "headline"), ("text", "title"), ("content", "title"), ("article", "title"),
    ("正文", "摘要"), ("内容", "摘要"), ("文本", "摘要"), ("正文", "标题"), ("内容", "标题"),
    ("input", "output"), ("question", "answer"), ("query", "response"), ("问题", "答案"), ("问题", "回答"),
)  # fmt: skip
LANGUAGES = frozenset(  # without id and no, which are rarely languages
    """ar bg bn ca cs da de el en es et fa fi fr gu he hi hr hu is it ja ka km ko lt lv mn ms nb nl pl pt ro ru sk
    sl sr sv sw ta te th tr uk ur uz vi yue zh arabic chinese czech danish dutch english finnish french german greek
    hindi hungarian italian japanese korean norwegian polish portuguese romanian russian spanish swedish turkish
    ukrainian vietnamese 中文 汉语 英文 英语 德语 法语 日语 韩语 俄语 西班牙语 文言 文言文 白话 白话文 现代文""".split()
)
SCRIPTS = frozenset("hans hant latn cyrl arab deva simplified traditional".split())
NO_REGIONS = frozenset("id is nr of ok on to up".split())  # words that end the names of other columns


def choose_pair(heading: Heading, wanted: str | None) -> tuple[list[str], bool]:
    """The columns of source and target, and whether they were guessed; either part of `wanted`, a+b, may be empty."""
    given = ["", ""] if wanted is None else parts_of(wanted, heading)
    taken = [heading.required(name, choose_two()) if name else "" for name in given]
    guessed = [] if all(taken) else usual(heading, taken)
    chosen = [own or guess for own, guess in zip(taken, guessed or taken, strict=True)]
    for name in chosen:
        if heading.columns.count(name) > 1:
            raise InputError(
                tr(
                    "{name} has two columns named '{column}'. {advice}",
                    name=heading.name,
                    column=short(name),
                    advice=tr("Rename one."),
                )
            )
    if chosen[0] == chosen[1]:
        raise InputError(
            tr(
                "{name}: column '{column}' cannot be both the source and the target. {found}\n"
                "Choose two: --source COLUMN --target COLUMN.",
                name=heading.name,
                column=short(chosen[0]),
                found=found(heading.columns),
            )
        )
    for name in (*chosen, "+".join(chosen)):
        if "+" in name and name in heading.columns:
            raise InputError(
                tr(
                    "{name}: column '{column}' has a + in its name, which joins the names of two columns. {advice}",
                    name=heading.name,
                    column=short(name),
                    advice=tr("Rename it."),
                )
            )
    return chosen, bool(guessed) and [folded(name) for name in chosen] != list(NAMED[0])


def choose_source(heading: Heading, wanted: str | None) -> str:
    """The column of sources alone: of a table of pairs, or of one that has no targets."""
    if wanted is not None:
        return heading.required(wanted, choose_two())
    columns = {folded(column): column for column in reversed(heading.columns)}
    known = [columns[source] for source, _ in NAMED if source in columns]
    languages = [column for column in heading.columns if is_language(column)]
    if known or languages:
        return (known or languages)[0]
    if len(heading.columns) <= 2 or not heading.header:
        return heading.columns[0]
    raise InputError(
        tr(
            "{name} has no column that is known as the source. {found}\nChoose one: --source COLUMN.",
            name=heading.name,
            found=found(heading.columns),
        )
    )


def parts_of(wanted: str, heading: Heading) -> list[str]:
    parts = wanted.split("+")
    if len(parts) != 2 or not any(parts):
        raise InputError(
            tr(
                "'{wanted}' does not name two columns. {found}\nChoose two: --source COLUMN --target COLUMN.",
                wanted=short(wanted),
                found=found(heading.columns),
            )
        )
    return parts


def choose_two() -> str:
    return tr("Choose two: --source COLUMN --target COLUMN.")


def usual(heading: Heading, taken: Sequence[str]) -> list[str]:
    """The two columns by their names, by the languages that they are named after, or the only two."""
    columns = {folded(column): column for column in reversed(heading.columns)}
    for names in NAMED:
        if all(name in columns for name in names) and fits(both := [columns[name] for name in names], taken):
            return both
    languages = [column for column in heading.columns if is_language(column)]
    for all_of_them in (languages, list(heading.columns) if len(heading.columns) == 2 else []):
        others = [column for column in all_of_them if column not in taken]
        if any(taken) and others:
            return [others[0], others[0]]
        if len(all_of_them) >= 2 and not any(taken):
            return all_of_them[:2]
    raise InputError(
        tr(
            "{name} has no two columns that are known as source and target. {found}\n"
            "Choose two: --source COLUMN --target COLUMN. Recognised names: {names}, or two languages (en and de).",
            name=heading.name,
            found=found(heading.columns),
            names=listed([tr("{first} and {second}", first=first, second=second) for first, second in NAMED[:4]]),
        )
    )


def fits(both: Sequence[str], taken: Sequence[str]) -> bool:
    return all(not own or own == name for own, name in zip(taken, both, strict=True))


def is_language(column: str) -> bool:
    """Whether a column is named after a language: en, en_US, zh-Hans, English, 英文; but not is_test, tr_id."""
    language, *more = folded(column).replace("-", "_").split("_")
    if language == "is":
        return more in ([], ["is"])
    return language in LANGUAGES and all(part in SCRIPTS or is_region(part) for part in more)


def is_region(part: str) -> bool:
    return len(part) == 2 and part.isalpha() and part not in NO_REGIONS


def lacks_header(heading: Heading) -> bool:
    """Whether the first row of a table of two columns is already a pair."""
    names = {name for pair in NAMED for name in pair}
    known = any(folded(column) in names or is_language(column) for column in heading.columns)
    return heading.header and len(heading.columns) == 2 and not known and is_data(heading.columns, heading.rows)


def aligned_rows(source: Iterable[Line], target: Iterable[Line], names: tuple[str, str]) -> Iterator[Row]:
    """Lines of two files side by side; files of unequal length are refused."""
    counts = [0, 0]
    for first, second in zip_longest(source, target):
        counts = [counts[0] + (first is not None), counts[1] + (second is not None)]
        if first is not None and second is not None:
            yield first[0], [first[1], second[1]]
    if counts[0] != counts[1]:
        raise InputError(
            tr(
                "{source} has {source_lines:,} lines, but {target} has {target_lines:,}: line by line they must belong "
                "together.\nGive two files of the same number of lines, or one table with two columns.",
                source=names[0],
                source_lines=counts[0],
                target=names[1],
                target_lines=counts[1],
            )
        )


def documents_of_pairs(rows: Iterable[Row], name: str) -> Iterator[Document]:
    """A document of two paragraphs for each row with both sides."""
    for number, cells in rows:
        if not lacks_side(cells):
            yield Document(
                paragraphs=tuple(" ".join(cell.split()) for cell in cells),
                source=name,
                lines=(number, number),
                pair=True,
            )


def lacks_side(cells: Sequence[str]) -> bool:
    return any(is_blank(cell) for cell in cells)
