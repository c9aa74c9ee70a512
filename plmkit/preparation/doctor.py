"""`plm doctor`: statistics of a corpus, example rows of a recipe, and warnings."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.config.machine import Settings
from plmkit.data.corpus import Corpus, problems
from plmkit.data.mixture import tokens_by_source
from plmkit.data.query_corpus import QueryCorpus
from plmkit.data.reading.cells import shown_place
from plmkit.data.rows import Plan, StretchPlan
from plmkit.data.vocabulary import MANY_UNKNOWN
from plmkit.errors import InputError, printable
from plmkit.language import several, tr
from plmkit.preparation.coverage import Coverage, coverage
from plmkit.preparation.opening import reads_pairs
from plmkit.preparation.prepare import Material, prepare
from plmkit.preparation.preview import preview
from plmkit.preparation.triples import reads_triples
from plmkit.recipe import Recipe
from plmkit.segmentation.choosing import segmenter_of
from plmkit.segmentation.english import English
from plmkit.terminal.screen import Screen
from plmkit.training.device import choose_device
from plmkit.training.memory import OutOfMemory, check_shape, check_weights

MANY_DUPLICATES = 0.1
MUCH_MARKUP = 0.005  # share of the lines; less does no harm
FEW_TOKENS = 200_000
MOSTLY = 0.5  # share of the text
FEW_FOLLOWING = 0.1  # share of the pairs; in documents of several sentences, a third to a half
SHOWN = 3  # rows of the preview
SURVEYED = (
    "documents", "sentences", "tokens", "characters", "lines", "long_lines", "longest_line", "longest_line_at",
    "replaced", "replaced_at", "html_lines", "html_at", "markdown_lines", "markdown_at",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The report of `plm doctor`."""

    documents: int
    sentences: int
    tokens: int
    characters: int
    vocabulary: int
    languages: dict[str, float]
    sources: dict[str, float]  # share of the tokens
    mixture: dict[str, float]  # share of the tokens that an epoch reads, with run.weights; empty with one corpus
    units: dict[str, Coverage]  # of characters and words: number, and share of those of new text that are unknown
    duplicate_share: float
    unknown_share: float
    lines: int
    long_lines: int
    longest_line: int
    longest_line_at: str
    replaced: int  # U+FFFD characters
    replaced_at: str  # the first
    html_lines: int
    html_at: str
    markdown_lines: int
    markdown_at: str
    single_sentences: int  # documents of one sentence
    examples: int  # rows per epoch
    following: int | None  # of these, pairs whose second text follows the first; None: without such pairs
    tokens_per_example: float
    held_out: int  # documents
    held_out_tokens: int
    warnings: tuple[str, ...]
    preview: tuple[tuple[str, str], ...]  # input of the model, original text
    hidden: tuple[tuple[tuple[int, int], ...], ...]  # for each example: the characters of each masked unit
    stages: tuple[int, ...]  # for each example: the stage of the run, from 0
    streams: tuple[str, ...]  # for each example: the stream of the recipe
    labels: tuple[str, ...]  # for each example: what is predicted of it besides tokens, in words
    bad_files: dict[str, str]  # why each unreadable file was left out

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(
    settings: Settings, paths: Sequence[str], seed: int, screen: Screen, *, tokenizer: Path | None = None
) -> Diagnosis:
    """The diagnosis of a corpus; unreadable files are listed and left out, if there are readable ones."""
    bad: dict[Path, str] = {}
    try:
        material = prepare(settings, paths, None, seed, screen, tokenizer=tokenizer)
    except InputError:
        whole = reads_pairs(settings.recipe) or reads_triples(settings.recipe)
        if whole or settings.recipe.architecture.reads_images:  # its files are read together
            raise
        machine = settings.run
        read = {
            path: problems(path, layout=machine.layout, column=machine.column, header=machine.header) for path in paths
        }
        bad = {file: problem for files in read.values() for file, problem in files.items() if problem}
        usable = [path for path, files in read.items() if not all(files.values())]
        if not bad or (len(bad) == 1 and not usable):
            raise
        if not usable:
            raise InputError(
                "\n".join([tr("None of the {count:,} files can be read.", count=len(bad)), *bad.values()])
            ) from None
        material = prepare(settings, usable, None, seed, screen, tokenizer=tokenizer, without=bad)
    bad_files = {printable(str(file)): problem for file, problem in bad.items()}
    found = diagnose(material, settings.recipe, bad_files, shown=SHOWN)
    return replace(found, warnings=(*found.warnings, *lack_of_room(settings, found.vocabulary)))


def is_text(recipe: Recipe) -> bool:
    """Whether it reads text alone."""
    others = reads_pairs(recipe) or reads_triples(recipe)
    return not others and not recipe.architecture.reads_images


def mixture(material: Material, plan: Plan) -> dict[str, float]:
    """Each corpus's share of the tokens of an epoch; tables of queries stand beside the text and are not mixed."""
    counts = tokens_by_source(plan, material.store, len(material.names)).sum(axis=0)
    mixed = {name: count for name, count in zip(material.short_names, counts.tolist(), strict=True) if count}
    return {name: round(count / counts.sum(), 4) for name, count in mixed.items()} if len(mixed) > 1 else {}


def texts_of(material: Material) -> list[Corpus]:
    """The corpora without tables of queries."""
    return [corpus for corpus in material.corpora if not isinstance(corpus, QueryCorpus)]


def lack_of_room(settings: Settings, vocabulary: int) -> Iterator[str]:
    """Why the recipe does not fit into the memory of this machine, if so."""
    device = choose_device(settings.run.device)
    try:
        check_shape(settings.recipe, device)
        check_weights(settings.recipe, vocabulary, device)
    except OutOfMemory as error:
        yield str(error).replace("\n", " ")


def diagnose(
    material: Material, recipe: Recipe, bad_files: dict[str, str] | None = None, *, shown: int = 0
) -> Diagnosis:
    """Statistics and warnings; with this number of example rows, which take longer, the units of text too."""
    survey = material.store.survey
    plan, _ = material.samples.plan(0, recipe.stages[0].length)
    sizes = material.store.document_tokens()
    own = material.store.sources < len(material.names)  # held-out triples are in the same store, after all others
    shares = np.bincount(material.store.sources[own], weights=sizes[own], minlength=len(material.names))
    found: dict[str, Any] = dict(
        vocabulary=len(material.tokenizer.vocabulary),
        languages={name: round(share, 4) for name, share in survey.languages().items()},
        sources={
            printable(name): round(share, 4)
            for name, share in zip(material.names, (shares / shares.sum()).tolist(), strict=True)
        },
        mixture=mixture(material, plan) if is_text(recipe) else {},
        units=coverage(texts_of(material), recipe.tokenizer.size) if shown and is_text(recipe) else {},
        duplicate_share=survey.duplicates / max(1, survey.documents),
        unknown_share=survey.unknown / max(1, survey.tokens),
        **{name: getattr(survey, name) for name in SURVEYED},
        single_sentences=int((np.diff(material.store.documents) == 1).sum()),
        examples=len(plan),
        following=following_pairs(plan),
        tokens_per_example=plan.tokens() / len(plan),
        held_out=len(material.valid_documents),
        held_out_tokens=int(material.valid_store.document_tokens()[material.valid_documents].sum()),
    )
    examples = preview(material, recipe, shown) if shown else []
    samples = material.samples
    return Diagnosis(
        # of triples, what is said of running text is no matter
        warnings=(
            *([] if reads_triples(recipe) else warnings(found, recipe.schedule.batch, samples.continues)),
            *notes(material, recipe),
        ),
        preview=tuple((example.seen, example.whole) for example in examples),
        hidden=tuple(example.masked for example in examples),
        stages=tuple(example.stage for example in examples),
        streams=tuple(example.stream for example in examples),
        labels=tuple(example.labels for example in examples),
        bad_files=bad_files or {},
        **found,
    )


def notes(material: Material, recipe: Recipe) -> list[str]:
    """What is left out, and what the arrangements of the streams say of this text, each once."""
    found = [*material.left_out, *wrong_language(material, recipe)]
    for samples in material.streams.values():
        found += samples.arrange.notes(material.store, samples.documents, recipe.max_length)
    return list(dict.fromkeys(found))


def wrong_language(material: Material, recipe: Recipe) -> Iterator[str]:
    """A remark if rules for English look for words, phrases and entities in Chinese."""
    share = material.store.survey.languages()["Chinese"]
    segmenter = segmenter_of(recipe.corruption)
    if share > MOSTLY and isinstance(segmenter, English):
        yield tr(
            "{share:.0%} of the text is Chinese, but rules for English look for its units, so single characters are "
            "masked. Chinese words, phrases and entities: --set corruption.segmenter=Jieba --set "
            "corruption.segmenter.level={level}.",
            share=share,
            level=segmenter.level,
        )


def following_pairs(plan: Plan) -> int | None:
    """Rows whose second text follows the first, where next-sentence prediction tells them from others."""
    if not (isinstance(plan, StretchPlan) and "random_next" in plan.labels):
        return None
    return int((plan.labels["random_next"] == 0).sum())


def warnings(found: dict[str, Any], batch: int, continues: bool) -> tuple[str, ...]:
    """What the user should fix, or at least know."""
    out = []
    if found["tokens"] < FEW_TOKENS:
        out.append(
            tr(
                "{tokens:,} tokens are few: expect the model to learn token frequencies and little else.",
                tokens=found["tokens"],
            )
        )
    if continues and found["examples"] < 2 * batch:
        out.append(
            tr(
                "Rows per epoch: {examples:,}, fewer than two for each of {batch:,} streams (schedule.batch): every "
                "step starts the text again, so no row has a memory of another. Add text, or lower schedule.batch.",
                examples=found["examples"],
                batch=batch,
            )
        )
    elif found["examples"] < batch:
        out.append(
            tr(
                "Rows per epoch: {examples:,}, fewer than a batch (schedule.batch={batch}): every step reads the "
                "whole text. Add text, or use a smaller batch.",
                examples=found["examples"],
                batch=batch,
            )
        )
    if found["following"] is not None and found["following"] < FEW_FOLLOWING * found["examples"]:
        out.append(
            tr(
                "Real next sentences: {following:,} in {examples:,} pairs, as {single:,} of {documents:,} documents "
                "are one sentence; a next-sentence loss near 0 then means nothing. Separate documents, not "
                "sentences, by blank lines, or train without pairs: --set sentence_task=none.",
                following=found["following"],
                examples=found["examples"],
                single=found["single_sentences"],
                documents=found["documents"],
            )
        )
    if found["duplicate_share"] > MANY_DUPLICATES:
        out.append(
            tr(
                "{share:.0%} of the documents are duplicates; remove them to train more on other text.",
                share=found["duplicate_share"],
            )
        )
    if found["unknown_share"] > MANY_UNKNOWN:
        out.append(
            tr(
                "{share:.1%} of the tokens are unknown to the vocabulary. Train one on this text (without "
                "--tokenizer and --from), or a larger one (--set tokenizer.size=N; for whole words also "
                "tokenizer.min_frequency=1).",
                share=found["unknown_share"],
            )
        )
    if found["documents"] == 1 and not found["held_out"]:
        out.append(
            tr(
                "The corpus is a single document, so nothing is held out and there is no validation loss. Give "
                "held-out text with --valid, or separate documents by blank lines."
            )
        )
    if found["long_lines"]:
        out.append(
            tr(
                "Lines over 10,000 characters: {count:,}. The longest has {longest:,} ({place}). Are line breaks "
                "missing?",
                count=found["long_lines"],
                longest=found["longest_line"],
                place=shown_place(found["longest_line_at"]),
            )
        )
    if found["replaced"]:
        out.append(
            tr(
                "Characters lost to U+FFFD: {count:,}, the first in {place}. The text was once decoded with the "
                "wrong encoding; convert it again from its source.",
                count=found["replaced"],
                place=shown_place(found["replaced_at"]),
            )
        )
    for kind, reader in {"HTML": "html", "Markdown": "markdown"}.items():
        count, at = found[f"{reader}_lines"], found[f"{reader}_at"]
        if count > MUCH_MARKUP * found["lines"]:
            out.append(
                tr(
                    "{kind} in {lines} ({share:.1%}), the first in {place}: the model would learn the markup as text. "
                    "`pandoc -f {reader} -t plain --wrap=none` converts a file to plain text.",
                    kind=kind,
                    lines=several(count, "line"),
                    share=count / found["lines"],
                    place=shown_place(at),
                    reader=reader,
                )
            )
    return tuple(out)
