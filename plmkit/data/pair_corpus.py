"""The user's files of pairs as a stream of documents of two paragraphs: a source and its target."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plmkit.data.corpus import Corpus, check_apart, check_header_is_used, heading_of
from plmkit.data.reading.cells import short, where
from plmkit.data.reading.files import File, find_files
from plmkit.data.reading.formats import pair_rows
from plmkit.data.reading.pairs import choose_pair, lacks_header, lacks_side
from plmkit.data.reading.source import CELLS, Source
from plmkit.errors import InputError, SettingError
from plmkit.language import tr


def open_pairs(
    paths: Sequence[str], *, valid: str | None = None, layout: str = "auto", column: str | None = None,
    header: bool = True,
) -> list[Corpus]:  # fmt: skip
    """Each table as a corpus, and each two plain files in a row; the held-out one, if any, is the last."""
    if layout != "auto":
        raise SettingError(
            tr("run.layout={layout} has no effect on pairs: each row or line is one. Leave it out.", layout=layout)
        )
    if not paths:
        raise InputError(
            tr(
                "This recipe trains on pairs of a source and a target: give a table with two columns, or two text "
                "files whose lines belong together."
            )
        )
    corpora = opened(paths, column, header)
    if valid is not None:
        held_out = opened([valid] if Path(valid).exists() else valid.split("+"), column, header)
        if len(held_out) > 1:
            raise SettingError(tr("--valid takes one corpus; found {count}.", count=len(held_out)))
        corpora = [*corpora, *held_out]
    check_apart(corpora, held_out=valid is not None)
    tables = any(source.partner is None for corpus in corpora for source in corpus.sources)
    if column is not None and not tables:
        raise SettingError(tr("--source and --target name columns of a table, but no file is a table. Leave them out."))
    check_header_is_used([source for corpus in corpora for source in corpus.sources], header)
    return corpora


def opened(paths: Sequence[str], column: str | None, header: bool) -> list[Corpus]:
    corpora: list[Corpus] = []
    waiting: tuple[str, File] | None = None  # a plain file whose partner comes next
    for path in paths:
        files = [file for file in find_files([path]) if not file.skipped]
        plain = [file for file in files if file.format in (None, "txt")]
        if waiting and len(plain) == len(files) == 1:
            corpora.append(aligned(waiting, (path, files[0])))
            waiting = None
        elif waiting or (plain and len(files) > 1):
            raise alone(waiting[1] if waiting else plain[0])
        elif plain:
            waiting = path, plain[0]
        else:
            corpora.append(tables(path, files, column, header))
    if waiting:
        raise alone(waiting[1])
    return corpora


def alone(file: File) -> InputError:
    return InputError(
        tr(
            "{file} is plain text, one side of the pairs; the other side is missing.\n"
            "Give the file of sources and then the file of targets (train.en train.de; to plm evaluate and --valid, "
            "test.en+test.de), or a table (.tsv, .csv, .jsonl, .parquet).",
            file=file.path,
        )
    )


def aligned(first: tuple[str, File], second: tuple[str, File]) -> Corpus:
    """Two plain files whose lines belong together."""
    if first[1].path.resolve() == second[1].path.resolve():
        raise InputError(
            tr(
                "{file} cannot be both the source and the target.\n"
                "Give the file of sources and then the file of targets (train.en train.de).",
                file=first[1].path,
            )
        )
    both = source_of(first[1], partner=second[1].path)
    return checked(Corpus(sources=(both,), name=f"{first[0]} + {second[0]}"))


def tables(path: str, files: Sequence[File], column: str | None, header: bool) -> Corpus:
    sources, notes = [], []
    for file in files:
        assert file.format is not None
        heading = heading_of(file, file.format, header)
        if heading is None:
            continue
        if lacks_header(heading) and column is None and file.format in CELLS:
            heading = heading_of(file, file.format, header=False)
            assert heading is not None
        (source, target), guessed = choose_pair(heading, column or (None if heading.header else "1+2"))
        if not heading.header and header:
            notes.append(
                tr("{file} has no header row: its first column is the source, its second the target.", file=file.path)
            )
        elif guessed:
            notes.append(
                tr(
                    "{file}: column '{source}' is the source, '{target}' the target. To read others: --source COLUMN "
                    "--target COLUMN.",
                    file=file.path,
                    source=short(source),
                    target=short(target),
                )
            )
        named = heading.header or file.format not in CELLS
        sources.append(source_of(file, column=f"{source}+{target}", header=named))
    return checked(Corpus(sources=tuple(sources), name=path, notes=tuple(notes)))


def source_of(file: File, *, column: str | None = None, header: bool = True, partner: Path | None = None) -> Source:
    size = sum(path.stat().st_size for path in (file.path, partner) if path)
    return Source(
        path=file.path, format=file.format or "txt", compression=file.compression, layout="pair-per-row", size=size,
        column=column, header=header, partner=partner,
    )  # fmt: skip


def checked(corpus: Corpus) -> Corpus:
    """Read all pairs once: those without one of their sides are reported, and a corpus of no others is refused."""
    notes, whole = list(corpus.notes), 0
    for source in corpus.sources:
        lines = [(number, lacks_side(cells)) for number, cells in pair_rows(source)]
        lacking = [number for number, lacks in lines if lacks]
        whole += len(lines) - len(lacking)
        if lacking:
            notes.append(
                tr(
                    "{file}: {count:,} of {total:,} pairs lack a side and are skipped; the first is {place}.",
                    file=source.path,
                    count=len(lacking),
                    total=len(lines),
                    place=where(source.path, lacking[0]),
                )
            )
    if not whole:
        raise InputError("\n".join([*notes, tr("There is no pair with both sides in {name}.", name=corpus.name)]))
    return replace(corpus, notes=tuple(notes))
