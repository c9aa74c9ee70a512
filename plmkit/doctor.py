"""A look at a corpus before training: what it holds, what a recipe makes of it, what is wrong with it."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from plmkit.recipe import Recipe
from plmkit.training.prepare import Material, preview

MANY_UNKNOWN = 0.02
MANY_DUPLICATES = 0.1
FEW_TOKENS = 200_000


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
    duplicate_share: float
    unknown_share: float
    long_lines: int
    longest_line: int
    longest_line_at: str
    replaced: int
    examples: int  # rows in an epoch
    tokens_per_example: float
    held_out: int  # documents
    held_out_tokens: int
    warnings: tuple[str, ...]
    preview: tuple[tuple[str, str], ...]  # as the model sees it, as it was
    hidden: tuple[tuple[tuple[int, int], ...], ...]  # for each example: the characters of each hidden unit, as it was

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(material: Material, recipe: Recipe) -> Diagnosis:
    survey = material.store.survey
    plan, _ = material.samples.plan(0, recipe.schedule.lengths[0][1])
    sizes = material.store.document_tokens()
    shares = np.bincount(material.store.sources, weights=sizes, minlength=len(material.names)) / sizes.sum()
    found: dict[str, Any] = dict(  # noqa: C408
        documents=survey.documents,
        sentences=survey.sentences,
        tokens=survey.tokens,
        characters=survey.characters,
        vocabulary=len(material.tokenizer.vocabulary),
        languages={name: round(share, 4) for name, share in survey.languages().items()},
        sources={name: round(float(share), 4) for name, share in zip(material.names, shares, strict=True)},
        duplicate_share=survey.duplicates / max(1, survey.documents),
        unknown_share=survey.unknown / max(1, survey.tokens),
        long_lines=survey.long_lines,
        longest_line=survey.longest_line,
        longest_line_at=survey.longest_line_at,
        replaced=survey.replaced,
        examples=len(plan),
        tokens_per_example=plan.tokens() / len(plan),
        held_out=len(material.valid_documents),
        held_out_tokens=int(material.valid_store.document_tokens()[material.valid_documents].sum()),
    )
    examples = preview(material, recipe)
    return Diagnosis(
        warnings=warnings(found, recipe.schedule.batch, material.samples.continues),
        preview=tuple((example.seen, example.whole) for example in examples),
        hidden=tuple(example.hidden for example in examples),
        **found,
    )


def warnings(found: dict[str, Any], batch: int, continues: bool) -> tuple[str, ...]:
    """What a reader should mend, or at least know."""
    out = []
    if found["tokens"] < FEW_TOKENS:
        out.append(f"{found['tokens']:,} tokens are few: expect the model to learn frequencies and little else.")
    if continues and found["examples"] < 2 * batch:
        out.append(
            f"Rows an epoch: {found['examples']:,}, less than two for each of {batch:,} streams (schedule.batch): "
            "every step begins the text again, and no row remembers another. Give more text, or fewer streams."
        )
    elif found["examples"] < batch:
        out.append(
            f"Rows an epoch: {found['examples']:,}, fewer than a batch (schedule.batch={batch}): every step reads "
            "the whole text. Give more text, or a smaller batch."
        )
    if found["duplicate_share"] > MANY_DUPLICATES:
        out.append(
            f"{found['duplicate_share']:.0%} of the documents repeat an earlier one; remove them to train on more text."
        )
    if found["unknown_share"] > MANY_UNKNOWN:
        out.append(
            f"{found['unknown_share']:.1%} of the tokens are unknown to the vocabulary. One that is learnt from this "
            "text (without --tokenizer and --from) knows more, a larger one too (--set tokenizer.size=N; of whole "
            "words, also tokenizer.min_frequency=1)."
        )
    if found["documents"] == 1 and not found["held_out"]:
        out.append(
            "The corpus is a single document, so nothing is held out, and no loss on other text is told. "
            "Give a file of such text by --valid, or part this one by blank lines."
        )
    if found["long_lines"]:
        out.append(
            f"Lines over 10,000 characters: {found['long_lines']:,}. The longest has {found['longest_line']:,}, "
            f"{found['longest_line_at']}. Are line breaks missing?"
        )
    if found["replaced"]:
        out.append(
            f"Characters lost to U+FFFD: {found['replaced']:,}. The text was once decoded with the wrong encoding; "
            "convert it again from its source."
        )
    return tuple(out)
