"""The user's tables of images and captions as a stream of documents: an image with all of its captions."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from plmkit.data.corpus import Corpus, check_apart
from plmkit.data.feature_files import FeaturePlace, check_source, place_in
from plmkit.data.reading.cells import folded, found, is_blank, is_missing, listed, short, where
from plmkit.data.reading.columns import Heading
from plmkit.data.reading.files import File, find_files
from plmkit.data.reading.source import CELLS, Document, OnBytes, Source
from plmkit.data.reading.whole import Table, read_table
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import several, tr

# For each role the usual names of its column; if a file has several of them, the first is read.
NAMES = {
    "image": ("image", "file", "path", "filename", "file_name", "image_path", "picture", "图片", "图像", "文件"),
    "features": ("features", "feature", "region_features", "regions", "特征"),
    "text": ("caption", "captions", "text", "sentence", "sentences", "description", "描述", "标题", "文本", "句子"),
}
OPTIONS = {"image": "--image", "text": "--text"}


@dataclass(frozen=True, kw_only=True)
class CaptionCorpus(Corpus):
    """Images with their captions, which are few enough to be in memory; the images are not."""

    described: tuple[Document, ...]

    def documents(self, on_bytes: OnBytes | None = None) -> Iterator[Document]:
        yield from self.described
        if on_bytes is not None:
            on_bytes(self.size)

    def fingerprint(self) -> str:
        """A hash of the captions and of the content of the images, not of their names."""
        return self._captions_fingerprint

    @cached_property
    def _captions_fingerprint(self) -> str:
        total = hashlib.blake2b(b"captions 1", digest_size=16)  # increase when reading changes
        total.update(str(self.image_size or (self.region_width, self.region_classes)).encode())
        known: dict[Path, str] = {}  # one file may have the features of all images
        for document in self.described:
            paths = files_of(document)
            for path in paths:
                if path not in known:
                    with open(path, "rb") as file:
                        content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
                    known[path] = content.hexdigest()
            key = document.features.key if document.features else None
            total.update(f"{' '.join(known[path] for path in paths)} {document.paragraphs}{key or ''}\n".encode())
        return total.hexdigest()


def files_of(document: Document) -> list[Path]:
    """The files that a document's image is read from."""
    if document.features is None:
        assert document.image is not None
        return [document.image]
    file = document.features.file
    beside = [file.with_suffix(f".{name}.npy") for name in ("boxes", "classes")] if file.suffix == ".npy" else []
    return [file, *(path for path in beside if path.is_file())]


def open_captions(
    paths: Sequence[str], image_size: int | None, *, valid: str | None = None, layout: str = "auto",
    column: str | None = None, header: bool = True, image_column: str | None = None, images: str | None = None,
    region_width: int | None = None, region_classes: int | None = None, features: str | None = None,
) -> list[Corpus]:  # fmt: skip
    """Each path as a corpus, the held-out one last; images are in the folder `images`, or beside their table.

    With a width of regions, features are read in place of images: from the folder or file `features`, or from the
    files that a column of the table names.
    """
    if layout != "auto":
        raise SettingError(
            tr("run.layout={layout} has no effect on captions: each row is an image. Leave it out.", layout=layout)
        )
    if not paths:
        raise InputError(
            tr(
                "This recipe trains on images with captions: give a table (.jsonl, .tsv, .csv, .parquet) with a column "
                "of file names and a column of captions."
            )
        )
    folder = None if images is None else Path(images)
    if folder is not None and not folder.is_dir():
        raise InputError(tr("There is no folder {folder}, in which --images has the images.", folder=folder))
    if features is not None and region_width is None:
        raise SettingError(
            tr("--features {features} has no effect: the model reads the pixels of images. Leave it out.",
               features=features)
        )  # fmt: skip
    if features is not None:
        check_source(Path(features))
    corpora: list[Corpus] = []
    for path in [*paths, *([valid] if valid else [])]:
        files = [file for file in find_files([path]) if not file.skipped]
        read = [one_table(file, folder, column, header, image_column, features, region_width) for file in files]
        corpora.append(
            CaptionCorpus(
                sources=tuple(source for source, _, _ in read),
                name=path,
                notes=tuple(note for _, _, notes in read for note in notes),
                image_size=image_size,
                region_width=region_width,
                region_classes=region_classes,
                described=tuple(document for _, documents, _ in read for document in documents),
            )
        )
    check_apart(corpora, held_out=bool(valid))
    return corpora


def one_table(
    file: File, folder: Path | None, column: str | None, header: bool, image_column: str | None,
    features: str | None = None, region_width: int | None = None,
) -> tuple[Source, list[Document], list[str]]:  # fmt: skip
    """How a table is read, its images with their captions, and remarks for the user."""
    table = read_table(file.path, header=header)
    if table.plain:
        raise InputError(
            tr(
                "{file} is plain text. Captions are read from a table with a column of image files: .jsonl, .tsv, "
                ".csv or .parquet.",
                file=file.path,
            )
        )
    in_column = None if region_width is None or features is not None else choose(table.heading, "features", None)
    names = {
        "image": in_column or choose(table.heading, "image", image_column),
        "text": choose(table.heading, "text", column),
    }
    documents, skipped = captions_of(table, names["image"], names["text"], folder or file.path.parent)
    notes = []
    if skipped:
        notes.append(
            tr(
                "{file}: {count:,} of {total:,} rows lack an image or a caption and are skipped; the first is {place}.",
                file=file.path,
                count=len(skipped),
                total=len(table.rows),
                place=where(file.path, skipped[0]),
            )
        )
    if not documents:
        raise InputError("\n".join([*notes, tr("There is no image with a caption in {file}.", file=file.path)]))
    if region_width is None:
        check_images(documents, folder)
    else:
        documents = [with_features(document, features, folder or file.path.parent) for document in documents]
        check_features(documents)
    notes.append(
        tr(
            "{file}: {images} with {captions}, from the columns '{image}' and '{text}'.",
            file=file.path,
            images=several(len(documents), "image"),
            captions=several(sum(len(document.paragraphs) for document in documents), "caption"),
            image=short(names["image"]),
            text=short(names["text"]),
        )
    )
    source = Source(
        path=file.path, format=file.format or "txt", compression=file.compression, layout="document-per-row",
        size=file.path.stat().st_size, column=f"{names['image']}+{names['text']}",
        header=header or file.format not in CELLS,
    )  # fmt: skip
    return source, documents, notes


def choose(heading: Heading, role: str, wanted: str | None) -> str:
    """The column that is given, or the one with a usual name."""
    if wanted is not None:
        if (column := heading.called(wanted)) is not None:
            return column
        raise InputError(
            tr(
                "{name} has no column '{column}'.{hint} {found}\n",
                name=heading.name,
                column=short(wanted),
                hint=nearest(wanted, heading.columns),
                found=found(heading.columns),
            )
            + tr("Choose one of them: {option} COLUMN.", option=OPTIONS[role])
        )
    columns = {folded(name): name for name in reversed(heading.columns)}
    for name in NAMES[role]:
        if name in columns:
            return columns[name]
    if role in OPTIONS:
        advice = tr(
            "Choose the right one: {option} COLUMN. Recognised names: {names}.",
            option=OPTIONS[role],
            names=listed(NAMES[role]),
        )
    else:
        advice = tr(
            "Name the folder or the file that has the features of images: --features PATH; or add a column '{name}' "
            "with their files.",
            name=role,
        )
    raise InputError(
        tr(
            "{name} has no column {role}. {found}\n{advice}",
            name=heading.name,
            role=role,
            found=found(heading.columns),
            advice=heading.advice(("text",)) or advice,
        )
    )


def captions_of(table: Table, image: str, text: str, folder: Path) -> tuple[list[Document], list[int]]:
    """A document for each image, with the captions of all of its rows; and the lines of rows that lack either."""
    places = table.columns.index(image), table.columns.index(text)
    captions: dict[str, list[str]] = {}
    lines: dict[str, list[int]] = {}
    skipped = []
    for number, row in zip(table.lines, table.rows, strict=True):
        name, own = (row[place] for place in places)
        texts = [" ".join(one.split()) for one in texts_of(own, table.path, number, text) if not is_blank(one)]
        if is_missing(name) or is_blank(str(name)) or not texts:
            skipped.append(number)
            continue
        captions.setdefault(str(name).strip(), []).extend(texts)
        lines.setdefault(str(name).strip(), []).extend([number] * len(texts))
    documents = [
        Document(
            paragraphs=tuple(texts), source=str(table.path), lines=tuple(lines[name]), image=folder / name
        )
        for name, texts in captions.items()
    ]  # fmt: skip
    return documents, skipped


def texts_of(cell: object, path: Path, line: int, column: str) -> list[str]:
    """One caption, or a list of them."""
    cells = cell if isinstance(cell, list) else [cell]
    texts = [one for one in cells if not is_missing(one)]
    if not all(isinstance(one, str) for one in texts):
        raise InputError(
            tr(
                "{where}: column '{column}' contains {type}, not text.",
                where=where(path, line),
                column=short(column),
                type=type(next(one for one in texts if not isinstance(one, str))).__name__,
            )
        )
    return [str(one) for one in texts]


def with_features(document: Document, source: str | None, folder: Path) -> Document:
    """The document with the place of its image's features: in the source, or the file that its row names."""
    assert document.image is not None
    if source is None:
        return replace(document, features=FeaturePlace(file=document.image))
    name = document.image.relative_to(folder) if document.image.is_relative_to(folder) else document.image
    return replace(document, features=place_in(Path(source), str(name)))


def check_features(documents: Sequence[Document]) -> None:
    """Refuse a table whose feature files are missing, or one for two images, before any is read."""
    missing = [one for one in documents if one.features is not None and not one.features.file.is_file()]
    if missing and missing[0].features is not None:
        raise InputError(
            tr(
                "{where}: there is no feature file {path}; {count:,} of {total:,} are missing.\n"
                "Name the folder or the file that has them: --features PATH.",
                where=where(missing[0].source, missing[0].line),
                path=missing[0].features.file,
                count=len(missing),
                total=len(documents),
            )
        )
    owners: dict[FeaturePlace | None, Document] = {}
    for document in documents:
        if (owner := owners.setdefault(document.features, document)) is not document:
            raise InputError(
                tr(
                    "{where}: {image} and {other} would both have the features in {file}. Put them into the folders of "
                    "their images, or name them in a column 'features'.",
                    where=where(document.source, document.line),
                    image=document.image,
                    other=owner.image,
                    file=document.features,
                )
            )


def check_images(documents: Sequence[Document], folder: Path | None) -> None:
    """Refuse a table whose images are missing, before any is read."""
    missing = [document for document in documents if not (document.image and document.image.is_file())]
    if missing:
        first = missing[0]
        raise InputError(
            tr(
                "{where}: there is no image {image}; missing images: {count:,} of {total:,}.\n",
                where=where(first.source, first.line),
                image=first.image,
                count=len(missing),
                total=len(documents),
            )
            + (
                tr("Name the folder that the file names are relative to: --images FOLDER.")
                if folder is None
                else tr("Correct --images, or remove these rows.")
            )
        )
