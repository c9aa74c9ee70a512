"""Tags of a file in one scheme, without mistakes, and those that a model knows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plmkit.data.reading.cells import listed, short, where
from plmkit.data.reading.columns import Say
from plmkit.errors import InputError, nearest
from plmkit.language import comma, several, tr
from plmkit.tasks.contract import Row
from plmkit.tasks.tagging.rows import WordRow
from plmkit.tasks.tagging.schemes import BIO, BIOES, IOB1, PLAIN, canonical, repaired, scheme_of

RARE = 0.001  # share of the words


def in_scheme(rows: Sequence[WordRow], path: Path, say: Say) -> list[WordRow]:
    """The rows with tags of BIO or BIOES without mistakes, or plain ones; says what was changed."""
    tags = [row.label for row in rows if row.label is not None]
    scheme = scheme_of(tags)
    if scheme == PLAIN:
        report_mixture(tags, path, say)
        return list(rows)
    letters = {tag[0] for one in tags for tag in one}
    if letters & set("MLU"):
        say(tr("{path}: tags with M-, L- or U- are read as I-, E- and S-.", path=path))
    if scheme == IOB1:
        say(tr("{path}: the tags are IOB1, where a span begins with I-; they are read as BIO.", path=path))
    read, mistakes = [], []
    for row in rows:
        if row.label is None:
            read.append(row)
            continue
        written = canonical(row.label)
        right = repaired(written, BIOES if scheme == BIOES else BIO)
        wrong = [number for number, pair in enumerate(zip(written, right, strict=True)) if pair[0] != pair[1]]
        mistakes += [(row, number, written[number], right[number]) for number in wrong]
        read.append(replace(row, label=right))
    if mistakes and scheme != IOB1:
        row, number, written_tag, right_tag = mistakes[0]
        say(
            tr(
                "! {path}: {tags} repaired, such as I- without B-; the spans stay. The first: {place}: {written} "
                "becomes {right}.",
                path=path,
                tags=several(len(mistakes), "tag"),
                place=where(path, row.line_of(number)),
                written=written_tag,
                right=right_tag,
            )
        )
    return read


def report_mixture(sentences: Sequence[Sequence[str]], path: Path, say: Say) -> None:
    """Warn of tags that are nearly all of a scheme of spans: one mistake makes them plain."""
    counts = Counter(tag for tags in sentences for tag in tags)
    strange = [tag for tag in counts if scheme_of([[tag]]) == PLAIN]
    if 0 < len(strange) <= len(counts) // 4 and sum(counts[tag] for tag in strange) * 20 < counts.total():
        say(
            tr(
                "! {path}: the tags are read as plain ones, without spans, because of {strange}; the others mark "
                "spans.",
                path=path,
                strange=comma().join(f"'{short(tag)}'" for tag in strange[:5]),
            )
        )


def check_tags(rows: Sequence[Row], classes: Sequence[str], path: Path, say: Say) -> None:
    """Refuse tags that do not occur in training; very rare ones, as of parts of speech, count as mistakes."""
    known = frozenset(classes)
    sentences = [row for row in rows if isinstance(row, WordRow) and row.label is not None]
    strange = [(row, number) for row in sentences for number, tag in enumerate(row.label) if tag not in known]
    if not strange:
        return
    row, number = strange[0]
    place, tag, word = where(path, row.line_of(number)), row.label[number], short(row.words[number])
    if len(strange) <= RARE * sum(len(row.label) for row in sentences):
        say(
            tr(
                "! {path}: tags that do not occur in training count as mistakes, in {words}. The first: {place}: "
                "'{word}', {tag}.",
                path=path,
                words=several(len(strange), "word"),
                place=place,
                word=word,
                tag=tag,
            )
        )
        return
    raise InputError(
        tr(
            "{place}: tag '{tag}' of the word '{word}' does not occur in training.{hint}\nKnown tags: {known}.",
            place=place,
            tag=short(tag),
            word=word,
            hint=nearest(tag, classes),
            known=listed(classes),
        )
    )
